# SPDX-License-Identifier: BSD-3-Clause
# t/: the tests. All speak TAP and run from one TESTS list, by `make check`.
#
# A unit program:   check_PROGRAMS += t/unit/f/x    TESTS += t/unit/f/x
#                   t_unit_f_x_SOURCES = t/unit/f/x.cc t/lib/tap.h    f is the folder that it tests.
#                   It links all folder libraries (LDADD). Its log is t/unit/f/x.log.
# A Python script:  test_scripts += t/KIND/y.py   Run by $(PYTHON) with the environment below; it need not be
#                   executable. No two tests of a folder may share a name: x and x.py have one log.
# A fuzz target:    fuzz_targets += t/fuzz/z
#                   t_fuzz_z_SOURCES = t/fuzz/z.cc $(fuzz_main)    t_fuzz_z_LDFLAGS = $(fuzz_ldflags)
#                   t/fuzz/z.cc defines LLVMFuzzerTestOneInput; seeds are files in t/fuzz/corpus/z/.
# A broken build:   see t/faulty/local.mk; each rule that can be broken is a line of t/faulty/broken_rules.py.
test_scripts =
fuzz_targets =

# The longest tests begin first, so that none runs alone at the end. t/nodes/broken.py is described in t/faulty/local.mk.
TESTS += t/faulty/node_restart t/faulty/node_disk_restart t/unit/node/failing_node t/nodes/broken.py t/source/headers.py \
	t/unit/node/lease t/unit/node/prefix t/unit/node/fragmentation
EXTRA_DIST += t/nodes/broken.py t/source/headers.py

TEST_EXTENSIONS = .py .sh
TAP_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_DRIVER = $(TAP_DRIVER)
PY_LOG_DRIVER = $(TAP_DRIVER)
PY_LOG_COMPILER = $(PYTHON)
SH_LOG_DRIVER = $(TAP_DRIVER)
SH_LOG_COMPILER = $(SHELL)

AM_TESTS_ENVIRONMENT = \
	top_srcdir='$(top_srcdir)'; export top_srcdir; \
	abs_top_srcdir='$(abs_top_srcdir)'; export abs_top_srcdir; \
	abs_top_builddir='$(abs_top_builddir)'; export abs_top_builddir; \
	FARCACHED='$(abs_top_builddir)/farcached$(EXEEXT)'; export FARCACHED; \
	FUZZ_TARGETS='$(fuzz_targets)'; export FUZZ_TARGETS; \
	CXX='$(CXX)'; export CXX; \
	TEST_CXXFLAGS='$(AM_CPPFLAGS) $(AM_CXXFLAGS) $(CXXFLAGS)'; export TEST_CXXFLAGS; \
	FARCACHED_TEST_SLOW="$${FARCACHED_TEST_SLOW:-$(TEST_SLOW)}"; export FARCACHED_TEST_SLOW; \
	ALLOCATOR_LIBS='$(ALLOCATOR_LIBS)'; export ALLOCATOR_LIBS; \
	FARCACHED_TEST_REST="$${FARCACHED_TEST_REST-$(if $(SAN_CXXFLAGS),2)}"; export FARCACHED_TEST_REST; \
	PYTHONDONTWRITEBYTECODE=1; export PYTHONDONTWRITEBYTECODE; \
	ASAN_OPTIONS="abort_on_error=1:detect_stack_use_after_return=1:$$ASAN_OPTIONS"; export ASAN_OPTIONS; \
	UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:$$UBSAN_OPTIONS"; export UBSAN_OPTIONS; \
	TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:$$TSAN_OPTIONS"; export TSAN_OPTIONS;

include $(top_srcdir)/t/fuzz/local.mk

# -- Unit programs ----------------------------------------------------------------------------------

check_PROGRAMS += t/unit/tap
TESTS += t/unit/tap
t_unit_tap_SOURCES = t/unit/tap.cc t/lib/tap.h

check_PROGRAMS += t/unit/protocol/source_reply
TESTS += t/unit/protocol/source_reply
t_unit_protocol_source_reply_SOURCES = t/unit/protocol/source_reply.cc t/lib/tap.h
check_PROGRAMS += t/unit/protocol/text_parse t/unit/daemon/text_engine t/unit/daemon/meta_engine
TESTS += t/unit/protocol/text_parse t/unit/daemon/text_engine t/unit/daemon/meta_engine
t_unit_protocol_text_parse_SOURCES = t/unit/protocol/text_parse.cc t/lib/tap.h
t_unit_daemon_text_engine_SOURCES = t/unit/daemon/text_engine.cc t/lib/sent_bytes.h t/unit/daemon/text_fixture.h t/lib/tap.h
t_unit_daemon_meta_engine_SOURCES = t/unit/daemon/meta_engine.cc t/lib/sent_bytes.h t/unit/daemon/text_fixture.h t/lib/tap.h

check_PROGRAMS += t/unit/daemon/reply_queue
TESTS += t/unit/daemon/reply_queue
t_unit_daemon_reply_queue_SOURCES = t/unit/daemon/reply_queue.cc t/lib/sent_bytes.h t/unit/daemon/text_fixture.h t/lib/tap.h

check_PROGRAMS += t/unit/protocol/binary_parse t/unit/daemon/binary_engine
TESTS += t/unit/protocol/binary_parse t/unit/daemon/binary_engine
t_unit_protocol_binary_parse_SOURCES = t/unit/protocol/binary_parse.cc t/unit/protocol/binary_packets.h t/lib/tap.h
t_unit_daemon_binary_engine_SOURCES = t/unit/daemon/binary_engine.cc t/unit/daemon/binary_fixture.h \
	t/unit/protocol/binary_packets.h t/lib/sent_bytes.h t/unit/daemon/text_fixture.h t/lib/tap.h

check_PROGRAMS += t/unit/proxy/placement t/unit/base/nearest t/unit/base/host
TESTS += t/unit/proxy/placement t/unit/base/nearest t/unit/base/host
t_unit_base_host_SOURCES = t/unit/base/host.cc t/lib/tap.h
t_unit_base_nearest_SOURCES = t/unit/base/nearest.cc t/lib/tap.h
t_unit_proxy_placement_SOURCES = t/unit/proxy/placement.cc t/lib/tap.h
t_unit_proxy_placement_LDADD = $(LDADD) $(LIBMEMCACHED_LIBS)
check_PROGRAMS += t/unit/proxy/pairs
TESTS += t/unit/proxy/pairs
t_unit_proxy_pairs_SOURCES = t/unit/proxy/pairs.cc t/lib/tap.h

check_PROGRAMS += t/unit/conf/nodes
TESTS += t/unit/conf/nodes
t_unit_conf_nodes_SOURCES = t/unit/conf/nodes.cc t/lib/tap.h

check_PROGRAMS += t/unit/protocol/frame t/unit/protocol/frame_bad
TESTS += t/unit/protocol/frame t/unit/protocol/frame_bad
frame_headers = t/unit/protocol/frame_random.h t/unit/protocol/frame_streams.h t/unit/protocol/frame_words.h t/lib/tap.h
t_unit_protocol_frame_SOURCES = t/unit/protocol/frame.cc $(frame_headers)
t_unit_protocol_frame_bad_SOURCES = t/unit/protocol/frame_bad.cc $(frame_headers)

t_unit_protocol_handshake_SOURCES = t/unit/protocol/handshake.cc $(frame_headers)
t_unit_protocol_owned_keys_SOURCES = t/unit/protocol/owned_keys.cc t/lib/tap.h
t_unit_protocol_auth_SOURCES = t/unit/protocol/auth.cc t/lib/tap.h

check_PROGRAMS += t/unit/protocol/command_needs t/unit/daemon/permissions
TESTS += t/unit/protocol/command_needs t/unit/daemon/permissions
t_unit_protocol_command_needs_SOURCES = t/unit/protocol/command_needs.cc t/lib/tap.h
t_unit_daemon_permissions_SOURCES = t/unit/daemon/permissions.cc t/unit/daemon/binary_fixture.h t/unit/daemon/text_fixture.h \
	t/unit/protocol/binary_packets.h t/lib/sent_bytes.h t/lib/tap.h

check_PROGRAMS += t/unit/daemon/metrics
TESTS += t/unit/daemon/metrics
t_unit_daemon_metrics_SOURCES = t/unit/daemon/metrics.cc t/unit/daemon/stats_nodes_fixture.h t/unit/daemon/stats_fixture.h \
	t/lib/tap.h

few_parts = t/unit/daemon/discovery t/unit/daemon/etcd t/unit/protocol/handshake t/unit/protocol/auth t/unit/protocol/owned_keys \
	t/unit/daemon/registration_right t/unit/daemon/cluster_view t/unit/base/secret \
	t/unit/daemon/history t/unit/daemon/hot_keys t/unit/protocol/udp_frame t/unit/daemon/datagrams
check_PROGRAMS += $(few_parts) t/fleet/list_nodes
TESTS += $(few_parts)
t_unit_daemon_discovery_SOURCES = t/unit/daemon/discovery.cc t/lib/tap.h
t_unit_daemon_registration_right_SOURCES = t/unit/daemon/registration_right.cc t/lib/tap.h
t_unit_daemon_etcd_SOURCES = t/unit/daemon/etcd.cc t/lib/tap.h
t_fleet_list_nodes_SOURCES = t/fleet/list_nodes.cc
t_unit_daemon_history_SOURCES = t/unit/daemon/history.cc t/lib/tap.h
t_unit_base_secret_SOURCES = t/unit/base/secret.cc t/lib/tap.h
t_unit_daemon_cluster_view_SOURCES = t/unit/daemon/cluster_view.cc t/lib/tap.h
t_unit_daemon_hot_keys_SOURCES = t/unit/daemon/hot_keys.cc t/lib/tap.h
t_unit_protocol_udp_frame_SOURCES = t/unit/protocol/udp_frame.cc t/lib/tap.h
t_unit_daemon_datagrams_SOURCES = t/unit/daemon/datagrams.cc t/unit/daemon/datagram_fixture.h t/unit/daemon/text_fixture.h \
	t/lib/refused_new.h t/lib/sent_bytes.h t/lib/tap.h

check_PROGRAMS += t/unit/daemon/stats_nodes
TESTS += t/unit/daemon/stats_nodes
t_unit_daemon_stats_nodes_SOURCES = t/unit/daemon/stats_nodes.cc t/unit/daemon/stats_nodes_fixture.h t/unit/daemon/stats_fixture.h \
	t/unit/proxy/pointer_table_fixture.h t/lib/tap.h
check_PROGRAMS += t/unit/daemon/stats t/unit/daemon/stats_crawler t/unit/daemon/stats_tune t/unit/daemon/stats_watch
TESTS += t/unit/daemon/stats t/unit/daemon/stats_crawler t/unit/daemon/stats_tune t/unit/daemon/stats_watch
t_unit_daemon_stats_SOURCES = t/unit/daemon/stats.cc t/unit/daemon/stats_fixture.h t/lib/tap.h
t_unit_daemon_stats_crawler_SOURCES = t/unit/daemon/stats_crawler.cc t/unit/daemon/stats_fixture.h t/lib/tap.h
t_unit_daemon_stats_tune_SOURCES = t/unit/daemon/stats_tune.cc t/unit/daemon/stats_fixture.h t/lib/tap.h
t_unit_daemon_stats_watch_SOURCES = t/unit/daemon/stats_watch.cc t/unit/daemon/stats_fixture.h t/lib/tap.h

check_PROGRAMS += t/unit/conf/file
TESTS += t/unit/conf/file
t_unit_conf_file_SOURCES = t/unit/conf/file.cc t/lib/tap.h

check_PROGRAMS += t/unit/conf/conf
TESTS += t/unit/conf/conf
t_unit_conf_conf_SOURCES = t/unit/conf/conf.cc t/unit/conf/words.h t/lib/tap.h

check_PROGRAMS += t/unit/conf/exposure t/unit/process/http_access
TESTS += t/unit/conf/exposure t/unit/process/http_access
t_unit_conf_exposure_SOURCES = t/unit/conf/exposure.cc t/lib/tap.h

check_PROGRAMS += t/unit/conf/listen
TESTS += t/unit/conf/listen
t_unit_conf_listen_SOURCES = t/unit/conf/listen.cc t/lib/tap.h

check_PROGRAMS += t/unit/conf/farnode
TESTS += t/unit/conf/farnode
t_unit_conf_farnode_SOURCES = t/unit/conf/farnode.cc t/lib/tap.h

check_PROGRAMS += t/unit/process/system_calls
TESTS += t/unit/process/system_calls
t_unit_process_system_calls_SOURCES = t/unit/process/system_calls.cc t/lib/tap.h

check_PROGRAMS += t/unit/base/loaded_library
TESTS += t/unit/base/loaded_library
t_unit_base_loaded_library_SOURCES = t/unit/base/loaded_library.cc t/lib/tap.h
t_unit_process_http_access_SOURCES = t/unit/process/http_access.cc t/lib/tap.h

check_PROGRAMS += t/unit/process/log
TESTS += t/unit/process/log
t_unit_process_log_SOURCES = t/unit/process/log.cc t/lib/tap.h

check_PROGRAMS += t/unit/process/socket_holder
TESTS += t/unit/process/socket_holder
t_unit_process_socket_holder_SOURCES = t/unit/process/socket_holder.cc t/lib/tap.h

# -- Scripts ----------------------------------------------------------------------------------------

EXTRA_DIST += \
	t/lib/binary_client.py \
	t/lib/cluster.py \
	t/lib/beside.py t/lib/etcd.py t/lib/etcd_fleet.py t/lib/expressions.py \
	t/lib/failing.py \
	t/lib/hosted.py t/lib/http_get.py t/lib/network.py t/lib/versions.py \
	t/lib/transport.py \
	t/lib/raw_proxy.py \
	t/lib/restart_load.py \
	t/lib/service.py \
	t/lib/trouble.py \
	t/lib/warm_source.py \
	t/lib/connections.py \
	t/lib/consistency_load.py \
	t/lib/conversation.py \
	t/lib/cxx_source.py \
	t/lib/daemon.py \
	t/lib/farcached.py \
	t/lib/farctl.py \
	t/lib/farnode.py \
	t/lib/liar.py \
	t/lib/suite.py \
	t/lib/tap_output.py

# The sources themselves: style, arrows, lists; every header alone.
style_scripts = t/source/tidy.py t/source/docs.py t/source/doc_pages.py t/source/man_pages.py \
	t/source/tutorial.py
test_scripts += $(style_scripts)

test_scripts += t/conversation/text.py t/conversation/text_options.py t/conversation/meta.py

test_scripts += t/conversation/binary.py t/conversation/binary_options.py

# Memory, many connections, the stats as monitors read them; a load whose every answer is checked.
test_scripts += t/conversation/size_shift.py t/conversation/memory_limit.py t/conversation/large_values.py \
	t/conversation/hoarders.py
test_scripts += t/conversation/idle.py t/operation/client_stats_tools.py
test_scripts += t/load/consistency.py t/load/soak_churn.py t/load/consistency_disk.py
check_PROGRAMS += t/load/consistency
t_load_consistency_SOURCES = t/load/consistency.cc t/load/consistency_client.cc t/load/consistency_client.h \
	t/load/consistency_history.h t/load/consistency_load.cc t/load/consistency_load.h t/load/consistency_mix.h \
	t/load/consistency_value.h t/lib/tap.h

# farbench: its pure parts, and a verified load in each protocol.
check_PROGRAMS += t/unit/proxy/onesided_share
TESTS += t/unit/proxy/onesided_share
t_unit_proxy_onesided_share_SOURCES = t/unit/proxy/onesided_share.cc t/lib/tap.h

check_PROGRAMS += t/unit/bench/bench
TESTS += t/unit/bench/bench
t_unit_bench_bench_SOURCES = t/unit/bench/bench.cc t/lib/tap.h
t_unit_bench_bench_LDADD = bench/libbench.a $(LDADD)

check_PROGRAMS += t/unit/bench/transport
TESTS += t/unit/bench/transport
t_unit_bench_transport_SOURCES = t/unit/bench/transport.cc t/lib/tap.h
t_unit_bench_transport_LDADD = bench/libbench.a $(LDADD)

check_PROGRAMS += t/unit/bench/hitratio
TESTS += t/unit/bench/hitratio
t_unit_bench_hitratio_SOURCES = t/unit/bench/hitratio.cc t/lib/tap.h
t_unit_bench_hitratio_LDADD = bench/libbench.a $(LDADD)

check_PROGRAMS += t/unit/bench/buffer
TESTS += t/unit/bench/buffer
t_unit_bench_buffer_SOURCES = t/unit/bench/buffer.cc t/lib/tap.h
t_unit_bench_buffer_LDADD = bench/libbench.a $(LDADD)

check_PROGRAMS += t/unit/bench/capacity
TESTS += t/unit/bench/capacity
t_unit_bench_capacity_SOURCES = t/unit/bench/capacity.cc t/lib/tap.h
t_unit_bench_capacity_LDADD = bench/libbench.a $(ctl_libraries) $(LDADD)

check_PROGRAMS += t/unit/bench/rnic
TESTS += t/unit/bench/rnic
t_unit_bench_rnic_SOURCES = t/unit/bench/rnic.cc t/lib/tap.h
t_unit_bench_rnic_LDADD = bench/libbench.a $(LDADD)
test_scripts += t/bench/smoke.py t/bench/buffer.py t/bench/charts.py t/bench/hitratio.py t/bench/rnic.py t/bench/capacity.py \
	t/bench/reports.py t/bench/tiers.py t/bench/transport.py

# RDMA tests, in guests that have it: contrib/check runs them and `make check` does not.
check_PROGRAMS += t/guest/verbs_relay
t_guest_verbs_relay_SOURCES = t/guest/verbs_relay.cc t/unit/fabric/channel_fixture.h t/lib/tap.h
check_PROGRAMS += t/guest/verbs_strangers
t_guest_verbs_strangers_SOURCES = t/guest/verbs_strangers.cc t/unit/fabric/channel_fixture.h t/lib/tap.h
EXTRA_DIST += \
	t/guest/run t/guest/compare.py t/guest/conversations.py t/guest/counted.py t/guest/device.py t/guest/device_tools.py \
	t/guest/faults.py t/guest/huge_pages.py t/guest/image.py t/guest/package.py t/guest/programs.py t/guest/refused.py \
	t/guest/clock_step.py t/guest/overcommit.py t/guest/removed.py t/guest/rpc.py t/guest/reports.py t/guest/shared_links.py \
	t/guest/strange.py \
	t/guest/values.py t/guest/vm.py t/guest/transport.py t/guest/units.py t/guest/wire.py t/guest/far_node.py

# A Debian package in a clean root: contrib/check makes both.
EXTRA_DIST += t/guest/clean_root.py

include $(top_srcdir)/t/clients/local.mk

test_scripts += t/access/permissions.py t/access/permissions_tls.py t/access/permissions_sasl.py

test_scripts += t/conversation/stats.py t/conversation/nodes_stats.py t/conversation/watch.py t/conversation/crawler.py

test_scripts += t/operation/cli.py t/operation/process.py t/operation/notify.py t/conversation/sockets.py \
	t/operation/log.py t/operation/log_lost.py t/source/units.py t/access/passwords.py t/operation/reload.py \
	t/operation/restart.py t/source/completion.py

# farnode, and a proxy's conversation with it.
check_PROGRAMS += t/conversation/farnode_probe
t_conversation_farnode_probe_SOURCES = t/conversation/farnode_probe.cc
test_scripts += t/conversation/farnode.py

# The operator's sockets, and his program.
test_scripts += t/operation/admin.py t/operation/farctl.py t/operation/farctl_nodes.py t/operation/http_pages.py \
	t/access/http_access.py \
	t/conversation/hotkeys.py t/conversation/warm_up.py t/operation/crash.py t/conversation/proxyevents.py \
	t/operation/descriptors.py \
	t/conversation/cluster.py t/conversation/no_memory.py t/source/metric_names.py t/source/hardening.py
check_PROGRAMS += t/unit/ctl/ctl t/unit/ctl/tools
TESTS += t/unit/ctl/ctl t/unit/ctl/tools
t_unit_ctl_ctl_SOURCES = t/unit/ctl/ctl.cc t/lib/tap.h
t_unit_ctl_ctl_LDADD = $(ctl_libraries) $(LDADD)
t_unit_ctl_tools_SOURCES = t/unit/ctl/tools.cc t/lib/tap.h
t_unit_ctl_tools_LDADD = $(ctl_libraries) $(LDADD)

# farcached in front of nodes.
test_scripts += t/conversation/nodes_clients.py

test_scripts += t/conversation/connections.py t/conversation/connection_limits.py t/conversation/together.py

# Clients' sockets by io_uring; TLS, SASL and UDP for clients.
test_scripts += t/conversation/uring.py t/conversation/uring_suites.py t/conversation/udp.py
test_scripts += t/access/tls.py t/access/tls_data.py t/access/tls_handshakes.py t/access/tls_refresh.py
test_scripts += t/access/tls_suites.py
test_scripts += t/access/sasl.py t/access/sasl_transports.py
EXTRA_DIST += t/lib/closed_loop.py t/lib/without_call.py t/lib/certificates.py t/lib/tls_daemon.py t/lib/tls_library.py
EXTRA_DIST += t/lib/sasl_daemon.py t/lib/udp_client.py

# Values on a disk.
test_scripts += t/conversation/disk.py t/conversation/disk_restart.py t/nodes/disk.py t/nodes/spill.py
EXTRA_DIST += t/lib/disk.py t/lib/dns_fleet.py t/lib/dns_server.py t/lib/ports.py

# Both daemons with no more system calls than they need.
test_scripts += t/operation/drop_privileges.py

# Several processes: farcached in front of nodes.
test_scripts += t/nodes/conv_text.py t/nodes/conv_meta.py t/nodes/conv_binary.py t/nodes/conv_connections.py \
	t/nodes/conv_options.py t/nodes/clock.py t/nodes/consistency.py t/nodes/consolidated.py t/nodes/containers.py \
	t/nodes/exhaustion.py t/nodes/false_reports.py t/nodes/flood.py t/nodes/in_place.py t/nodes/kept.py t/nodes/leases.py \
	t/fleet/discover_dns.py t/fleet/discover_etcd.py t/fleet/discover_hosts.py t/fleet/discover_shm.py t/fleet/joins.py \
	t/nodes/liar.py t/nodes/moved.py \
	t/fleet/many_changes.py t/fleet/old_list.py t/fleet/partitions.py t/fleet/unsent_list.py t/nodes/peer_tls.py \
	t/fleet/replicas.py t/fleet/replicas_mapped.py t/nodes/reload.py t/nodes/reports.py t/nodes/restart.py t/fleet/rolling.py \
	t/fleet/rolling_mapped.py \
	t/fleet/serving_right.py t/fleet/right_of_copies.py t/fleet/replicas_flush.py t/fleet/etcd_daemons.py t/fleet/manifest.py \
	t/nodes/shared_links.py t/nodes/spilled_reads.py \
	t/nodes/stopped.py t/fleet/upgrade.py t/nodes/versions.py t/nodes/auth.py t/nodes/fence.py t/fleet/cuts.py \
	t/fleet/deleted_record.py

# -- Last: what the lists above add up to -----------------------------------------------------------
check_PROGRAMS += $(fuzz_targets)
TESTS += $(test_scripts)
EXTRA_DIST += $(test_scripts)

# Tests for the sanitizers: all but the tests of the sources, of the documents and of broken rules, and the fuzz targets, which
# `make fuzz` runs for longer. Simulators of farbench compute for minutes there, so they need FARCACHED_TEST_LONG. ThreadSanitizer
# has nothing to find in programs of one thread, and slows them down most. t/source/tidy.py looks for threads in them.
one_thread_programs = t/unit/base/host t/unit/base/loaded_library t/unit/base/nearest t/unit/bench/bench t/unit/bench/buffer \
	t/unit/bench/capacity t/unit/bench/hitratio t/unit/bench/rnic t/unit/bench/transport t/unit/conf/conf \
	t/unit/conf/exposure t/unit/conf/farnode t/unit/conf/file t/unit/conf/listen t/unit/conf/nodes \
	t/unit/conf/resource_limits t/unit/ctl/ctl t/unit/ctl/tools t/unit/daemon/binary_engine t/unit/daemon/datagrams \
	t/unit/daemon/fence t/unit/daemon/fence_homes t/unit/daemon/meta_engine t/unit/daemon/metrics t/unit/daemon/missing_copies \
	t/unit/daemon/moved_keys t/unit/daemon/permissions t/unit/daemon/reply_queue t/unit/daemon/ring_waits \
	t/unit/daemon/stats t/unit/daemon/stats_tune t/unit/daemon/text_engine t/unit/fabric/index_probe \
	t/unit/fabric/verbs_slots t/unit/node/collisions t/unit/node/failing_node t/unit/node/held t/unit/node/holds \
	t/unit/node/in_place t/unit/node/key_pass t/unit/node/lease t/unit/node/list_epoch t/unit/node/numa t/unit/node/peer \
	t/unit/node/policy t/unit/node/policy_node t/unit/node/rationed t/unit/node/reads t/unit/node/safety t/unit/node/seats \
	t/unit/service/service t/unit/service/service_at_once t/unit/service/service_auth t/unit/service/service_bad \
	t/unit/service/service_clock t/unit/service/service_limits t/unit/service/service_lists t/unit/service/service_order \
	t/unit/service/service_reports \
	t/unit/process/http_access t/unit/process/log t/unit/process/socket_holder t/unit/protocol/binary_parse \
	t/unit/protocol/command_needs t/unit/protocol/frame t/unit/protocol/frame_bad t/unit/protocol/handshake \
	t/unit/protocol/owned_keys t/unit/protocol/text_parse t/unit/protocol/udp_frame t/unit/proxy/arc t/unit/proxy/frames_out \
	t/unit/proxy/host_reports t/unit/proxy/link_parts t/unit/proxy/node_link t/unit/proxy/node_link_counts \
	t/unit/proxy/node_link_ends t/unit/proxy/node_link_index t/unit/proxy/node_link_pointers t/unit/proxy/node_link_reads \
	t/unit/proxy/node_link_reports t/unit/proxy/node_link_safety t/unit/proxy/node_link_shortcut t/unit/proxy/node_link_slots \
	t/unit/proxy/node_link_spilled t/unit/proxy/node_link_suspend t/unit/proxy/node_link_versions \
	t/unit/proxy/onesided_share t/unit/proxy/pairs t/unit/proxy/pointer_read t/unit/proxy/pointer_table
simulators = t/bench/capacity.py t/bench/hitratio.py t/bench/rnic.py t/unit/bench/capacity t/unit/bench/hitratio \
	t/unit/bench/rnic
under_tsan = $(findstring fsanitize=thread,$(SAN_CXXFLAGS))
# With --enable-faulty these are the same as their namesakes in t/unit/.
if FAULTY
twice_there = t/faulty/node_disk t/faulty/node_peer
endif
left_out = $(style_scripts) t/source/headers.py t/faulty/broken_rules.py t/nodes/broken.py t/fuzz/fuzz.py $(fuzz_targets) \
	$(twice_there) $(if $(FARCACHED_TEST_LONG),,$(simulators)) $(if $(under_tsan),$(one_thread_programs))
.PHONY: check-sanitizer
check-sanitizer:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(filter-out $(left_out),$(TESTS))' \
		check_PROGRAMS='$(filter-out $(left_out),$(check_PROGRAMS))'

check_PROGRAMS += t/unit/node/node t/unit/node/safety
TESTS += t/unit/node/node t/unit/node/safety
t_unit_node_node_SOURCES = t/unit/node/node.cc t/lib/tap.h
t_unit_node_safety_SOURCES = t/unit/node/safety.cc t/lib/tap.h
check_PROGRAMS += t/unit/node/seats t/unit/service/service_limits
TESTS += t/unit/node/seats t/unit/service/service_limits
t_unit_service_service_limits_SOURCES = t/unit/service/service_limits.cc t/unit/service/service_fixture.h \
	t/unit/protocol/frame_words.h \
	t/lib/tap.h
t_unit_node_seats_SOURCES = t/unit/node/seats.cc t/lib/tap.h
check_PROGRAMS += t/unit/node/collisions
TESTS += t/unit/node/collisions
t_unit_node_collisions_SOURCES = t/unit/node/collisions.cc t/lib/tap.h
check_PROGRAMS += t/unit/node/policy t/unit/node/policy_node
TESTS += t/unit/node/policy t/unit/node/policy_node
t_unit_node_policy_node_SOURCES = t/unit/node/policy_node.cc t/lib/tap.h
t_unit_node_policy_SOURCES = t/unit/node/policy.cc t/unit/node/policy_models.h t/lib/tap.h
check_PROGRAMS += t/unit/node/reads
TESTS += t/unit/node/reads
t_unit_node_reads_SOURCES = t/unit/node/reads.cc t/lib/tap.h

check_PROGRAMS += t/unit/node/fragmentation
t_unit_node_fragmentation_SOURCES = t/unit/node/fragmentation.cc t/unit/node/invariants.h t/lib/tap.h

check_PROGRAMS += t/unit/node/rationed
TESTS += t/unit/node/rationed
t_unit_node_rationed_SOURCES = t/unit/node/rationed.cc t/unit/node/invariants.h t/lib/tap.h

check_PROGRAMS += t/unit/conf/resource_limits
TESTS += t/unit/conf/resource_limits
t_unit_conf_resource_limits_SOURCES = t/unit/conf/resource_limits.cc t/lib/tap.h

check_PROGRAMS += t/unit/node/numa
TESTS += t/unit/node/numa
t_unit_node_numa_SOURCES = t/unit/node/numa.cc t/unit/node/invariants.h t/lib/tap.h

check_PROGRAMS += t/unit/node/restart_files
TESTS += t/unit/node/restart_files
t_unit_node_restart_files_SOURCES = t/unit/node/restart_files.cc t/unit/node/restart_fixture.h t/lib/tap.h
check_PROGRAMS += t/unit/node/disk t/unit/node/disk_files t/unit/node/away_gets t/unit/node/spill t/unit/node/peer
TESTS += t/unit/node/disk t/unit/node/disk_files t/unit/node/away_gets t/unit/node/spill t/unit/node/peer
t_unit_node_peer_SOURCES = t/unit/node/peer.cc t/unit/node/far_peer.h t/lib/tap.h
t_unit_node_spill_SOURCES = t/unit/node/spill.cc t/unit/node/disk_fixture.h t/unit/node/invariants.h t/lib/tap.h
t_unit_node_away_gets_SOURCES = t/unit/node/away_gets.cc t/unit/node/disk_fixture.h t/lib/tap.h
t_unit_node_disk_SOURCES = t/unit/node/disk.cc t/unit/node/disk_fixture.h t/lib/tap.h
t_unit_node_disk_files_SOURCES = t/unit/node/disk_files.cc t/unit/node/disk_fixture.h t/lib/tap.h
check_PROGRAMS += t/unit/node/holds
TESTS += t/unit/node/holds
t_unit_node_holds_SOURCES = t/unit/node/holds.cc t/lib/tap.h
check_PROGRAMS += t/unit/node/key_pass t/unit/node/list_epoch
TESTS += t/unit/node/key_pass t/unit/node/list_epoch
t_unit_node_key_pass_SOURCES = t/unit/node/key_pass.cc t/lib/tap.h
t_unit_node_list_epoch_SOURCES = t/unit/node/list_epoch.cc t/lib/tap.h
check_PROGRAMS += t/unit/node/marks
TESTS += t/unit/node/marks
t_unit_node_marks_SOURCES = t/unit/node/marks.cc t/lib/tap.h
check_PROGRAMS += t/unit/node/moved_items
TESTS += t/unit/node/moved_items
t_unit_node_moved_items_SOURCES = t/unit/node/moved_items.cc t/lib/tap.h
check_PROGRAMS += t/unit/node/uniques
TESTS += t/unit/node/uniques
t_unit_node_uniques_SOURCES = t/unit/node/uniques.cc t/unit/node/restart_fixture.h t/lib/tap.h
check_PROGRAMS += t/unit/node/prefix
t_unit_node_prefix_SOURCES = t/unit/node/prefix.cc t/lib/tap.h

check_PROGRAMS += t/unit/node/in_place
TESTS += t/unit/node/in_place
t_unit_node_in_place_SOURCES = t/unit/node/in_place.cc t/unit/node/invariants.h t/lib/tap.h

# Preloaded by these.
test_scripts += t/faulty/failing_allocations.py t/faulty/failing_datagrams.py t/faulty/failing_disk.py t/faulty/failing_sasl.py \
	t/faulty/failing_warm_up.py
check_DATA = t/faulty/failing_new.so
CLEANFILES += t/faulty/failing_new.so
EXTRA_DIST += t/faulty/failing_new.cc
t/faulty/failing_new.so: t/faulty/failing_new.cc
	$(AM_V_CXX)$(MKDIR_P) t/faulty && $(CXX) $(CPPFLAGS) -std=c++20 $(CXXFLAGS) -fPIC -shared -o $@ $(srcdir)/t/faulty/failing_new.cc

check_PROGRAMS += t/unit/node/failing_node
t_unit_node_failing_node_SOURCES = t/unit/node/failing_node.cc t/unit/node/invariants.h t/lib/refused_new.h t/lib/tap.h

check_PROGRAMS += t/unit/node/held
TESTS += t/unit/node/held
t_unit_node_held_SOURCES = t/unit/node/held.cc t/unit/node/invariants.h t/lib/tap.h

check_PROGRAMS += t/unit/node/threads
TESTS += t/unit/node/threads
t_unit_node_threads_SOURCES = t/unit/node/threads.cc t/lib/tap.h

check_PROGRAMS += t/unit/node/lease
t_unit_node_lease_SOURCES = t/unit/node/lease.cc t/unit/node/invariants.h t/lib/tap.h

# The node's side of a connection.
check_PROGRAMS += t/unit/service/service t/unit/service/service_auth t/unit/service/service_at_once \
	t/unit/service/service_bad t/unit/service/service_clock \
	t/unit/service/service_lists t/unit/service/service_order t/unit/service/service_reports
TESTS += t/unit/service/service t/unit/service/service_auth t/unit/service/service_at_once \
	t/unit/service/service_bad t/unit/service/service_clock \
	t/unit/service/service_lists t/unit/service/service_order t/unit/service/service_reports
service_headers = t/unit/service/service_fixture.h t/unit/protocol/frame_words.h t/lib/tap.h
t_unit_service_service_at_once_SOURCES = t/unit/service/service_at_once.cc $(service_headers)
t_unit_service_service_auth_SOURCES = t/unit/service/service_auth.cc $(service_headers)
t_unit_service_service_clock_SOURCES = t/unit/service/service_clock.cc $(service_headers)
t_unit_service_service_lists_SOURCES = t/unit/service/service_lists.cc $(service_headers)
t_unit_service_service_order_SOURCES = t/unit/service/service_order.cc $(service_headers)
t_unit_service_service_reports_SOURCES = t/unit/service/service_reports.cc t/unit/service/service_fixture.h \
	t/unit/protocol/frame_random.h t/unit/protocol/frame_words.h t/lib/tap.h
t_unit_service_service_bad_SOURCES = t/unit/service/service_bad.cc t/unit/service/service_fixture.h \
	t/unit/protocol/frame_random.h t/unit/protocol/frame_words.h t/lib/tap.h
t_unit_service_service_SOURCES = t/unit/service/service.cc t/unit/service/service_fixture.h \
	t/unit/protocol/frame_random.h t/unit/protocol/frame_words.h t/lib/tap.h

check_PROGRAMS += t/unit/proxy/pointer_table t/unit/proxy/pointer_table_open t/unit/proxy/pointer_table_safety
TESTS += t/unit/proxy/pointer_table t/unit/proxy/pointer_table_open t/unit/proxy/pointer_table_safety
t_unit_proxy_pointer_table_open_SOURCES = t/unit/proxy/pointer_table_open.cc t/unit/proxy/pointer_table_fixture.h t/lib/tap.h
t_unit_proxy_pointer_table_SOURCES = t/unit/proxy/pointer_table.cc t/unit/proxy/pointer_table_fixture.h t/lib/tap.h
t_unit_proxy_pointer_table_safety_SOURCES = t/unit/proxy/pointer_table_safety.cc t/unit/proxy/pointer_table_fixture.h t/lib/tap.h

check_PROGRAMS += t/unit/proxy/report_board t/unit/proxy/host_reports
TESTS += t/unit/proxy/report_board t/unit/proxy/host_reports
t_unit_proxy_report_board_SOURCES = t/unit/proxy/report_board.cc t/unit/proxy/pointer_table_fixture.h t/lib/tap.h
t_unit_proxy_host_reports_SOURCES = t/unit/proxy/host_reports.cc t/unit/proxy/pointer_table_fixture.h t/lib/tap.h

check_PROGRAMS += t/unit/proxy/arc
TESTS += t/unit/proxy/arc
t_unit_proxy_arc_SOURCES = t/unit/proxy/arc.cc t/lib/tap.h
# A worker's link to a node, over a channel in memory.
link_headers = t/unit/proxy/in_place.h t/unit/proxy/link_channel.h t/unit/proxy/link_fixture.h t/unit/proxy/link_node.h \
	t/unit/proxy/pointer_table_fixture.h t/lib/tap.h
check_PROGRAMS += t/unit/proxy/link_parts t/unit/proxy/node_link t/unit/proxy/node_link_ends t/unit/proxy/node_link_reads \
	t/unit/proxy/node_link_suspend t/unit/proxy/node_link_safety t/unit/proxy/node_link_shortcut t/unit/proxy/node_link_versions
TESTS += t/unit/proxy/link_parts t/unit/proxy/node_link t/unit/proxy/node_link_ends t/unit/proxy/node_link_reads \
	t/unit/proxy/node_link_suspend t/unit/proxy/node_link_safety t/unit/proxy/node_link_shortcut t/unit/proxy/node_link_versions
t_unit_proxy_node_link_safety_SOURCES = t/unit/proxy/node_link_safety.cc $(link_headers)
t_unit_proxy_node_link_shortcut_SOURCES = t/unit/proxy/node_link_shortcut.cc $(link_headers)
t_unit_proxy_node_link_versions_SOURCES = t/unit/proxy/node_link_versions.cc $(link_headers)
t_unit_proxy_link_parts_SOURCES = t/unit/proxy/link_parts.cc t/lib/tap.h
check_PROGRAMS += t/unit/proxy/node_link_pointers t/unit/proxy/node_link_spilled t/unit/proxy/pointer_read
TESTS += t/unit/proxy/node_link_pointers t/unit/proxy/node_link_spilled t/unit/proxy/pointer_read
t_unit_proxy_node_link_pointers_SOURCES = t/unit/proxy/node_link_pointers.cc $(link_headers)
t_unit_proxy_node_link_spilled_SOURCES = t/unit/proxy/node_link_spilled.cc $(link_headers)
t_unit_proxy_pointer_read_SOURCES = t/unit/proxy/pointer_read.cc t/unit/proxy/in_place.h t/lib/tap.h
check_PROGRAMS += t/unit/proxy/frames_out t/unit/proxy/node_link_counts t/unit/proxy/node_link_reports \
	t/unit/proxy/node_link_slots
TESTS += t/unit/proxy/frames_out t/unit/proxy/node_link_counts t/unit/proxy/node_link_reports \
	t/unit/proxy/node_link_slots
t_unit_proxy_frames_out_SOURCES = t/unit/proxy/frames_out.cc t/lib/refused_new.h t/lib/tap.h
t_unit_proxy_node_link_counts_SOURCES = t/unit/proxy/node_link_counts.cc $(link_headers)
t_unit_proxy_node_link_slots_SOURCES = t/unit/proxy/node_link_slots.cc $(link_headers)
t_unit_proxy_node_link_reports_SOURCES = t/unit/proxy/node_link_reports.cc $(link_headers)
check_PROGRAMS += t/unit/proxy/node_link_index t/unit/fabric/index_probe
TESTS += t/unit/proxy/node_link_index t/unit/fabric/index_probe
t_unit_fabric_index_probe_SOURCES = t/unit/fabric/index_probe.cc t/lib/tap.h
t_unit_proxy_node_link_index_SOURCES = t/unit/proxy/node_link_index.cc $(link_headers)
t_unit_proxy_node_link_ends_SOURCES = t/unit/proxy/node_link_ends.cc $(link_headers)
t_unit_proxy_node_link_suspend_SOURCES = t/unit/proxy/node_link_suspend.cc $(link_headers)
t_unit_proxy_node_link_reads_SOURCES = t/unit/proxy/node_link_reads.cc $(link_headers)
t_unit_proxy_node_link_SOURCES = t/unit/proxy/node_link.cc $(link_headers)
check_PROGRAMS += t/unit/daemon/ring_waits
TESTS += t/unit/daemon/ring_waits
t_unit_daemon_ring_waits_SOURCES = t/unit/daemon/ring_waits.cc t/lib/tap.h
check_PROGRAMS += t/unit/daemon/links t/unit/daemon/farnode_loop t/unit/daemon/fence t/unit/daemon/borrowed_links
check_PROGRAMS += t/unit/daemon/fence_homes t/unit/daemon/found_nodes
TESTS += t/unit/daemon/links t/unit/daemon/farnode_loop t/unit/daemon/fence t/unit/daemon/borrowed_links
TESTS += t/unit/daemon/fence_homes t/unit/daemon/found_nodes
t_unit_daemon_fence_SOURCES = t/unit/daemon/fence.cc t/unit/daemon/fence_fixture.h t/lib/tap.h
t_unit_daemon_fence_homes_SOURCES = t/unit/daemon/fence_homes.cc t/unit/daemon/fence_histories.h t/unit/daemon/fence_fixture.h \
	t/lib/tap.h
check_PROGRAMS += t/unit/daemon/missing_copies
TESTS += t/unit/daemon/missing_copies
t_unit_daemon_missing_copies_SOURCES = t/unit/daemon/missing_copies.cc t/lib/tap.h

check_PROGRAMS += t/unit/daemon/moved_keys t/unit/daemon/farnode_subleases
TESTS += t/unit/daemon/moved_keys t/unit/daemon/farnode_subleases
t_unit_daemon_moved_keys_SOURCES = t/unit/daemon/moved_keys.cc t/lib/tap.h
t_unit_daemon_farnode_loop_SOURCES = t/unit/daemon/farnode_loop.cc $(service_headers)
t_unit_daemon_farnode_subleases_SOURCES = t/unit/daemon/farnode_subleases.cc t/unit/node/far_peer.h $(service_headers)
t_unit_daemon_links_SOURCES = t/unit/daemon/links.cc t/unit/daemon/links_fixture.h t/lib/sent_bytes.h t/unit/daemon/text_fixture.h \
	t/unit/proxy/link_channel.h t/unit/proxy/link_node.h t/lib/refused_new.h t/lib/tap.h
t_unit_daemon_found_nodes_SOURCES = t/unit/daemon/found_nodes.cc t/unit/daemon/links_fixture.h t/lib/sent_bytes.h \
	t/unit/daemon/text_fixture.h t/unit/proxy/link_channel.h t/unit/proxy/link_node.h t/lib/refused_new.h t/lib/tap.h
t_unit_daemon_borrowed_links_SOURCES = t/unit/daemon/borrowed_links.cc t/unit/daemon/links_fixture.h t/lib/sent_bytes.h \
	t/unit/daemon/text_fixture.h t/unit/proxy/link_channel.h t/unit/proxy/link_node.h t/lib/refused_new.h t/lib/tap.h

# Channels: one suite over every transport, and what each adds.
check_PROGRAMS += t/unit/fabric/channel t/unit/fabric/region t/unit/fabric/peer_tls
TESTS += t/unit/fabric/channel t/unit/fabric/region t/unit/fabric/peer_tls
t_unit_fabric_peer_tls_SOURCES = t/unit/fabric/peer_tls.cc t/unit/fabric/channel_fixture.h t/unit/fabric/tls_fixture.h t/lib/tap.h
t_unit_fabric_region_SOURCES = t/unit/fabric/region.cc t/unit/fabric/channel_fixture.h t/lib/tap.h
t_unit_fabric_channel_SOURCES = t/unit/fabric/channel.cc t/unit/fabric/channel_fixture.h t/unit/fabric/tls_fixture.h t/lib/tap.h
check_PROGRAMS += t/unit/fabric/shm t/unit/fabric/shm_containers t/unit/fabric/owner t/unit/fabric/fault t/unit/fabric/verbs \
	t/unit/fabric/verbs_device t/unit/fabric/verbs_containers t/unit/fabric/verbs_slots \
	t/unit/fabric/verbs_rpc t/unit/fabric/verbs_rpc_lies t/unit/fabric/verbs_rights t/unit/fabric/shm_rights
TESTS += t/unit/fabric/shm t/unit/fabric/shm_containers t/unit/fabric/owner t/unit/fabric/fault t/unit/fabric/verbs \
	t/unit/fabric/verbs_device t/unit/fabric/verbs_containers t/unit/fabric/verbs_slots \
	t/unit/fabric/verbs_rpc t/unit/fabric/verbs_rpc_lies t/unit/fabric/verbs_rights t/unit/fabric/shm_rights
t_unit_fabric_verbs_slots_SOURCES = t/unit/fabric/verbs_slots.cc t/lib/tap.h
t_unit_fabric_verbs_SOURCES = t/unit/fabric/verbs.cc t/unit/fabric/channel_fixture.h t/lib/tap.h
t_unit_fabric_verbs_device_SOURCES = t/unit/fabric/verbs_device.cc t/unit/fabric/verbs_fixture.h t/unit/fabric/channel_fixture.h \
	t/lib/tap.h
t_unit_fabric_verbs_containers_SOURCES = t/unit/fabric/verbs_containers.cc t/unit/fabric/verbs_fixture.h \
	t/unit/fabric/channel_fixture.h t/lib/tap.h
t_unit_fabric_verbs_rpc_SOURCES = t/unit/fabric/verbs_rpc.cc t/unit/fabric/verbs_fixture.h t/unit/fabric/channel_fixture.h \
	t/lib/tap.h
t_unit_fabric_verbs_rpc_lies_SOURCES = t/unit/fabric/verbs_rpc_lies.cc t/unit/fabric/verbs_fixture.h \
	t/unit/fabric/channel_fixture.h t/lib/tap.h
t_unit_fabric_verbs_rights_SOURCES = t/unit/fabric/verbs_rights.cc t/unit/fabric/verbs_fixture.h \
	t/unit/fabric/channel_fixture.h t/lib/tap.h
t_unit_fabric_fault_SOURCES = t/unit/fabric/fault.cc t/unit/fabric/channel_fixture.h t/lib/tap.h
t_unit_fabric_shm_SOURCES = t/unit/fabric/shm.cc t/unit/fabric/shm_fixture.h t/unit/fabric/channel_fixture.h t/lib/tap.h
t_unit_fabric_shm_containers_SOURCES = t/unit/fabric/shm_containers.cc t/unit/fabric/shm_fixture.h t/unit/fabric/channel_fixture.h \
	t/lib/tap.h
t_unit_fabric_shm_rights_SOURCES = t/unit/fabric/shm_rights.cc t/unit/fabric/shm_fixture.h t/unit/fabric/channel_fixture.h \
	t/lib/tap.h
t_unit_fabric_owner_SOURCES = t/unit/fabric/owner.cc t/unit/fabric/channel_fixture.h t/lib/tap.h

include $(top_srcdir)/t/faulty/local.mk
