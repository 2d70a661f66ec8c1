# SPDX-License-Identifier: BSD-3-Clause
# proxy/: local reads, routing, exchanges.
noinst_LIBRARIES += proxy/libproxy.a

proxy_libproxy_a_SOURCES = \
	proxy/local_get.cc \
	proxy/local_get.h \
	proxy/placement.cc \
	proxy/placement.h \
	proxy/pointer_table.cc \
	proxy/pointer_table.h \
	proxy/pointer_table_layout.h \
	proxy/pointer_table_open.cc
