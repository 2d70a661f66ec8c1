# SPDX-License-Identifier: BSD-3-Clause
# fabric/: memory and messages between processes; shm/ and verbs/ have two transports.
folder_libraries += fabric/libfabric.a

fabric_libfabric_a_SOURCES = \
	fabric/buffer_pool.cc \
	fabric/buffer_pool.h \
	fabric/channel.h \
	fabric/fault_channel.cc \
	fabric/fault_channel.h \
	fabric/fault_plan.h \
	fabric/fault_poller.h \
	fabric/held_input.h \
	fabric/held_reads.cc \
	fabric/held_reads.h \
	fabric/index_probe.cc \
	fabric/index_probe.h \
	fabric/local_read.cc \
	fabric/local_read.h \
	fabric/mapped_region.cc \
	fabric/mapped_region.h \
	fabric/owner.cc \
	fabric/owner.h \
	fabric/peer_tls.cc \
	fabric/peer_tls.h \
	fabric/region.cc \
	fabric/region.h \
	fabric/remote_ptr.h \
	fabric/shm/shm_channel.cc \
	fabric/shm/shm_channel.h \
	fabric/shm/shm_greeting.cc \
	fabric/shm/shm_greeting.h \
	fabric/shm/shm_internal.h \
	fabric/shm/shm_ring.cc \
	fabric/shm/shm_ring.h \
	fabric/socket.cc \
	fabric/socket.h \
	fabric/stream_channel.cc \
	fabric/stream_channel.h \
	fabric/tcp_channel.cc \
	fabric/tcp_channel.h \
	fabric/validate.cc \
	fabric/validate.h \
	fabric/verbs/rdma_library.cc \
	fabric/verbs/rpc_timing.h \
	fabric/verbs/verbs_channel.cc \
	fabric/verbs/verbs_channel.h \
	fabric/verbs/verbs_completions.cc \
	fabric/verbs/verbs_completions.h \
	fabric/verbs/verbs_device.cc \
	fabric/verbs/verbs_device.h \
	fabric/verbs/verbs_greeting.cc \
	fabric/verbs/verbs_greeting.h \
	fabric/verbs/verbs_internal.h \
	fabric/verbs/verbs_listener.cc \
	fabric/verbs/verbs_pair.cc \
	fabric/verbs/verbs_pair.h \
	fabric/verbs/verbs_queue.cc \
	fabric/verbs/verbs_queue.h \
	fabric/verbs/verbs_reach.cc \
	fabric/verbs/verbs_reach.h \
	fabric/verbs/verbs_rights.cc \
	fabric/verbs/verbs_rights.h \
	fabric/verbs/verbs_rpc.cc \
	fabric/verbs/verbs_rpc.h \
	fabric/verbs/verbs_slots.h \
	fabric/verbs/verbs_work.h
