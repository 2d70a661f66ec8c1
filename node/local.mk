# SPDX-License-Identifier: BSD-3-Clause
# node/: the cache node. Tests compile these sources again with safety rules broken on purpose.
noinst_LIBRARIES += node/libnode.a

node_libnode_a_SOURCES = \
	node/arena.cc \
	node/arena.h \
	node/crawler.cc \
	node/crawler.h \
	node/dead_slots.cc \
	node/dead_slots.h \
	node/descriptor.h \
	node/draining.cc \
	node/draining.h \
	node/eviction_order.cc \
	node/eviction_order.h \
	node/fetch_pool.h \
	node/flush_schedule.cc \
	node/flush_schedule.h \
	node/ghosts.cc \
	node/ghosts.h \
	node/held_slots.h \
	node/hidden_items.cc \
	node/hidden_items.h \
	node/hidden_prefixes.cc \
	node/hidden_prefixes.h \
	node/impl.h \
	node/index.cc \
	node/index.h \
	node/item_list.cc \
	node/item_list.h \
	node/item_writer.cc \
	node/item_writer.h \
	node/items.cc \
	node/items.h \
	node/lease_stop.h \
	node/lease_terms.h \
	node/lease_zone.cc \
	node/lease_zone.h \
	node/leased_pages.cc \
	node/leased_pages.h \
	node/leases.cc \
	node/leases.h \
	node/node.cc \
	node/node.h \
	node/node_metrics.cc \
	node/node_stats.cc \
	node/node_stats.h \
	node/numa.cc \
	node/numa.h \
	node/oustable.h \
	node/partition.cc \
	node/partition.h \
	node/peer_budget.cc \
	node/peer_budget.h \
	node/policy.h \
	node/policy_lists.cc \
	node/policy_lists.h \
	node/policy_queues.cc \
	node/policy_queues.h \
	node/policy_s3fifo.cc \
	node/policy_s3fifo.h \
	node/read_counters.h \
	node/report_quota.cc \
	node/report_quota.h \
	node/room.cc \
	node/room.h \
	node/seats.cc \
	node/seats.h \
	node/service.cc \
	node/service.h \
	node/service_counters.h \
	node/service_ops.cc \
	node/service_reports.cc \
	node/size_classes.cc \
	node/size_classes.h \
	node/slots.cc \
	node/slots.h \
	node/store.cc \
	node/stored_item.h

# The node as a daemon of its own.
bin_PROGRAMS += farnode
farnode_SOURCES = \
	node/farnode.cc \
	node/farnode_admin.cc \
	node/farnode_admin.h \
	node/farnode_http.cc \
	node/farnode_http.h \
	node/farnode_listen.cc \
	node/farnode_listen.h \
	node/farnode_loop.cc \
	node/farnode_loop.h \
	node/farnode_server.cc \
	node/farnode_server.h
farnode_LDADD = $(LDADD) $(ALLOCATOR_LIBS)
