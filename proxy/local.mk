# SPDX-License-Identifier: BSD-3-Clause
# proxy/: local reads, routing, remote pointers, links to nodes.
folder_libraries += proxy/libproxy.a

proxy_libproxy_a_SOURCES = \
	proxy/access_notes.cc \
	proxy/access_notes.h \
	proxy/arc.cc \
	proxy/arc.h \
	proxy/ask.h \
	proxy/awaited_reads.h \
	proxy/exchange.cc \
	proxy/exchange.h \
	proxy/key_order.h \
	proxy/link_connection.cc \
	proxy/link_connection.h \
	proxy/link_counters.h \
	proxy/link_frames.cc \
	proxy/link_frames.h \
	proxy/link_parts.cc \
	proxy/link_parts.h \
	proxy/local_get.cc \
	proxy/local_get.h \
	proxy/node_clock_estimate.cc \
	proxy/node_clock_estimate.h \
	proxy/node_link.cc \
	proxy/node_link.h \
	proxy/onesided_gets.cc \
	proxy/onesided_gets.h \
	proxy/onesided_share.h \
	proxy/placement.cc \
	proxy/placement.h \
	proxy/pointer_table.cc \
	proxy/pointer_table.h \
	proxy/pointer_table_layout.h \
	proxy/reads.cc \
	proxy/reads.h \
	proxy/report_board.cc \
	proxy/report_board.h \
	proxy/requests.cc \
	proxy/requests.h \
	proxy/spilled_gets.cc \
	proxy/spilled_gets.h \
	proxy/unseen.cc \
	proxy/unseen.h
