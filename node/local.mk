# SPDX-License-Identifier: BSD-3-Clause
# node/: the cache node. Tests compile these sources again with safety rules broken on purpose.
folder_libraries += node/libnode.a

node_libnode_a_SOURCES = \
	node/memory/arena.cc \
	node/memory/arena.h \
	node/memory/descriptor.h \
	node/memory/memory_file.cc \
	node/memory/memory_file.h \
	node/memory/numa.cc \
	node/memory/numa.h \
	node/memory/page_pool.cc \
	node/memory/page_pool.h \
	node/policy/item_list.cc \
	node/policy/item_list.h \
	node/policy/lease_terms.h \
	node/policy/policy.cc \
	node/policy/policy.h \
	node/service/connection.h \
	node/service/execution.cc \
	node/service/execution.h \
	node/service/node_metrics.cc \
	node/service/node_stats.cc \
	node/service/node_stats.h \
	node/service/ousting.cc \
	node/service/ousting.h \
	node/service/report_quota.cc \
	node/service/report_quota.h \
	node/service/reports.cc \
	node/service/reports.h \
	node/service/service.cc \
	node/service/service.h \
	node/service/service_counters.h \
	node/service/values.cc \
	node/service/values.h \
	node/store/crawler.cc \
	node/store/crawler.h \
	node/store/draining.cc \
	node/store/draining.h \
	node/store/eviction_order.cc \
	node/store/eviction_order.h \
	node/store/flush_schedule.h \
	node/store/hidden_items.cc \
	node/store/hidden_items.h \
	node/store/prefix_counts.cc \
	node/store/prefix_counts.h \
	node/store/impl.h \
	node/store/index.cc \
	node/store/index.h \
	node/store/items.cc \
	node/store/items.h \
	node/store/leases.cc \
	node/store/leases.h \
	node/store/node.cc \
	node/store/node.h \
	node/store/partition.cc \
	node/store/partition.h \
	node/store/restart.cc \
	node/store/restart.h \
	node/store/room.cc \
	node/store/room.h \
	node/store/slots.cc \
	node/store/slots.h \
	node/store/store.cc \
	node/store/stored_item.cc \
	node/store/stored_item.h
