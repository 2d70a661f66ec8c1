# SPDX-License-Identifier: BSD-3-Clause
# fabric/: memory and messages between processes.
noinst_LIBRARIES += fabric/libfabric.a

fabric_libfabric_a_SOURCES = \
	fabric/channel.h \
	fabric/local_read.cc \
	fabric/local_read.h \
	fabric/pointer_read.cc \
	fabric/pointer_read.h \
	fabric/region.cc \
	fabric/region.h \
	fabric/region_view.h \
	fabric/remote_ptr.h \
	fabric/validate.h
