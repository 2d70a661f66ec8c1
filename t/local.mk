# SPDX-License-Identifier: BSD-3-Clause
# t/: the tests. All speak TAP and run from one TESTS list, by `make check`.
#
# A unit program:   check_PROGRAMS += t/x    TESTS += t/x     t_x_SOURCES = t/x.cc t/tap.h
#                   It links all folder libraries (LDADD). Its log is t/x.log.
# A Python script:  test_scripts += t/y.py   Run by $(PYTHON) with the environment below; it need not be
#                   executable. No two tests may share a name: t/x and t/x.py have one log.
# A fuzz target:    fuzz_targets += t/fuzz/z
#                   t_fuzz_z_SOURCES = t/fuzz/z.cc $(fuzz_main)    t_fuzz_z_LDFLAGS = $(fuzz_ldflags)
#                   t/fuzz/z.cc defines LLVMFuzzerTestOneInput; seeds are files in t/fuzz/corpus/z/.
# A broken build:   see "Faulty programs"; each rule that can be broken is a line of t/broken_rules.py.
test_scripts =
fuzz_targets =

# Those that take longest begin first: one is described under "Faulty programs", the others take minutes under ThreadSanitizer.
TESTS += t/nodes_broken.py t/unit_node_lease t/unit_node_prefix t/unit_node_fragmentation
EXTRA_DIST += t/nodes_broken.py

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
	TEST_CPPFLAGS='-std=c++20 $(AM_CPPFLAGS)'; export TEST_CPPFLAGS; \
	FARCACHED_TEST_SLOW="$${FARCACHED_TEST_SLOW:-$(TEST_SLOW)}"; export FARCACHED_TEST_SLOW; \
	ALLOCATOR_LIBS='$(ALLOCATOR_LIBS)'; export ALLOCATOR_LIBS; \
	PYTHONDONTWRITEBYTECODE=1; export PYTHONDONTWRITEBYTECODE; \
	ASAN_OPTIONS="abort_on_error=1:detect_stack_use_after_return=1:$$ASAN_OPTIONS"; export ASAN_OPTIONS; \
	UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:$$UBSAN_OPTIONS"; export UBSAN_OPTIONS; \
	TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:$$TSAN_OPTIONS"; export TSAN_OPTIONS;

# -- Fuzz targets: libFuzzer programs under --enable-fuzz, else replayed and mutated by a small main ---
if FUZZ
fuzz_main =
fuzz_ldflags = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
else
fuzz_main = t/fuzz/replay_main.cc
fuzz_ldflags = $(AM_LDFLAGS)
endif
test_scripts += t/fuzz.py
EXTRA_DIST += t/fuzz/replay_main.cc t/fuzz/corpus

# Longer: `make fuzz FUZZ_SECONDS=600`. Per target; see t/fuzz.py.
FUZZ_SECONDS = 60
.PHONY: fuzz
fuzz: $(fuzz_targets)
	@$(AM_TESTS_ENVIRONMENT) FUZZ_SECONDS='$(FUZZ_SECONDS)' $(PYTHON) $(top_srcdir)/t/fuzz.py

# -- Unit programs ----------------------------------------------------------------------------------

check_PROGRAMS += t/unit_tap
TESTS += t/unit_tap
t_unit_tap_SOURCES = t/unit_tap.cc t/tap.h

check_PROGRAMS += t/unit_text_parse t/unit_text_engine t/unit_meta_engine
TESTS += t/unit_text_parse t/unit_text_engine t/unit_meta_engine
t_unit_text_parse_SOURCES = t/unit_text_parse.cc t/tap.h
t_unit_text_engine_SOURCES = t/unit_text_engine.cc t/sent_bytes.h t/unit_text_fixture.h t/tap.h
t_unit_meta_engine_SOURCES = t/unit_meta_engine.cc t/sent_bytes.h t/unit_text_fixture.h t/tap.h

fuzz_targets += t/fuzz/text t/fuzz/meta
t_fuzz_text_SOURCES = t/fuzz/text.cc t/fuzz/text_session.h t/sent_bytes.h t/unit_text_fixture.h $(fuzz_main)
t_fuzz_text_LDFLAGS = $(fuzz_ldflags)
t_fuzz_meta_SOURCES = t/fuzz/meta.cc t/fuzz/text_session.h t/sent_bytes.h t/unit_text_fixture.h $(fuzz_main)
t_fuzz_meta_LDFLAGS = $(fuzz_ldflags)

check_PROGRAMS += t/unit_reply_queue
TESTS += t/unit_reply_queue
t_unit_reply_queue_SOURCES = t/unit_reply_queue.cc t/sent_bytes.h t/unit_text_fixture.h t/tap.h

check_PROGRAMS += t/unit_binary_parse t/unit_binary_engine
TESTS += t/unit_binary_parse t/unit_binary_engine
t_unit_binary_parse_SOURCES = t/unit_binary_parse.cc t/unit_binary_packets.h t/tap.h
t_unit_binary_engine_SOURCES = t/unit_binary_engine.cc t/unit_binary_fixture.h t/unit_binary_packets.h \
	t/sent_bytes.h t/unit_text_fixture.h t/tap.h

check_PROGRAMS += t/unit_placement t/unit_nearest
TESTS += t/unit_placement t/unit_nearest
t_unit_nearest_SOURCES = t/unit_nearest.cc t/tap.h
t_unit_placement_SOURCES = t/unit_placement.cc t/tap.h
t_unit_placement_LDADD = $(LDADD) $(LIBMEMCACHED_LIBS)

check_PROGRAMS += t/unit_conf_nodes
TESTS += t/unit_conf_nodes
t_unit_conf_nodes_SOURCES = t/unit_conf_nodes.cc t/tap.h
fuzz_targets += t/fuzz/config
t_fuzz_config_SOURCES = t/fuzz/config.cc $(fuzz_main)
t_fuzz_config_LDFLAGS = $(fuzz_ldflags)

fuzz_targets += t/fuzz/binary
t_fuzz_binary_SOURCES = t/fuzz/binary.cc t/unit_binary_fixture.h t/unit_binary_packets.h t/sent_bytes.h t/unit_text_fixture.h \
	$(fuzz_main)
t_fuzz_binary_LDFLAGS = $(fuzz_ldflags)

check_PROGRAMS += t/unit_frame t/unit_frame_bad
TESTS += t/unit_frame t/unit_frame_bad
frame_headers = t/unit_frame_random.h t/unit_frame_streams.h t/unit_frame_words.h t/tap.h
t_unit_frame_SOURCES = t/unit_frame.cc $(frame_headers)
t_unit_frame_bad_SOURCES = t/unit_frame_bad.cc $(frame_headers)

check_PROGRAMS += t/unit_handshake
TESTS += t/unit_handshake
t_unit_handshake_SOURCES = t/unit_handshake.cc $(frame_headers)

fuzz_targets += t/fuzz/frame
t_fuzz_frame_SOURCES = t/fuzz/frame.cc $(frame_headers) $(fuzz_main)
t_fuzz_frame_LDFLAGS = $(fuzz_ldflags)

fuzz_targets += t/fuzz/report
t_fuzz_report_SOURCES = t/fuzz/report.cc t/unit_node_service_fixture.h $(frame_headers) $(fuzz_main)
t_fuzz_report_LDFLAGS = $(fuzz_ldflags)

check_PROGRAMS += t/unit_metrics
TESTS += t/unit_metrics
t_unit_metrics_SOURCES = t/unit_metrics.cc t/unit_stats_nodes_fixture.h t/unit_stats_fixture.h t/tap.h

check_PROGRAMS += t/unit_hot_keys
TESTS += t/unit_hot_keys
t_unit_hot_keys_SOURCES = t/unit_hot_keys.cc t/tap.h

check_PROGRAMS += t/unit_stats_nodes
TESTS += t/unit_stats_nodes
t_unit_stats_nodes_SOURCES = t/unit_stats_nodes.cc t/unit_stats_nodes_fixture.h t/unit_stats_fixture.h \
	t/unit_pointer_table_fixture.h t/tap.h
check_PROGRAMS += t/unit_stats t/unit_stats_crawler t/unit_stats_tune t/unit_stats_watch
TESTS += t/unit_stats t/unit_stats_crawler t/unit_stats_tune t/unit_stats_watch
t_unit_stats_SOURCES = t/unit_stats.cc t/unit_stats_fixture.h t/tap.h
t_unit_stats_crawler_SOURCES = t/unit_stats_crawler.cc t/unit_stats_fixture.h t/tap.h
t_unit_stats_tune_SOURCES = t/unit_stats_tune.cc t/unit_stats_fixture.h t/tap.h
t_unit_stats_watch_SOURCES = t/unit_stats_watch.cc t/unit_stats_fixture.h t/tap.h

check_PROGRAMS += t/unit_conf_file
TESTS += t/unit_conf_file
t_unit_conf_file_SOURCES = t/unit_conf_file.cc t/tap.h

check_PROGRAMS += t/unit_conf
TESTS += t/unit_conf
t_unit_conf_SOURCES = t/unit_conf.cc t/unit_conf_words.h t/tap.h

check_PROGRAMS += t/unit_conf_listen
TESTS += t/unit_conf_listen
t_unit_conf_listen_SOURCES = t/unit_conf_listen.cc t/tap.h

check_PROGRAMS += t/unit_conf_farnode
TESTS += t/unit_conf_farnode
t_unit_conf_farnode_SOURCES = t/unit_conf_farnode.cc t/tap.h

check_PROGRAMS += t/unit_system_calls
TESTS += t/unit_system_calls
t_unit_system_calls_SOURCES = t/unit_system_calls.cc t/tap.h

check_PROGRAMS += t/unit_loaded_library
TESTS += t/unit_loaded_library
t_unit_loaded_library_SOURCES = t/unit_loaded_library.cc t/tap.h

check_PROGRAMS += t/unit_log
TESTS += t/unit_log
t_unit_log_SOURCES = t/unit_log.cc t/tap.h

# -- Scripts ----------------------------------------------------------------------------------------

EXTRA_DIST += \
	t/lib/binary_client.py \
	t/lib/cluster.py \
	t/lib/expressions.py \
	t/lib/failing.py \
	t/lib/http_get.py \
	t/lib/transport.py \
	t/lib/raw_proxy.py \
	t/lib/restart_load.py \
	t/lib/service.py \
	t/lib/trouble.py \
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
style_scripts = t/tidy.py t/headers.py t/docs.py t/doc_pages.py t/man_pages.py t/tutorial.py
test_scripts += $(style_scripts)

test_scripts += t/conv_text.py t/conv_text_options.py t/conv_meta.py

test_scripts += t/conv_binary.py t/conv_binary_options.py

# Memory, many connections, the stats as monitors read them; a load whose every answer is checked.
test_scripts += t/conv_size_shift.py t/conv_memory_limit.py t/conv_large_values.py t/conv_hoarders.py
test_scripts += t/conv_idle.py t/client_stats_tools.py
test_scripts += t/consistency.py t/soak_churn.py
check_PROGRAMS += t/consistency
t_consistency_SOURCES = t/consistency.cc t/consistency_client.cc t/consistency_client.h \
	t/consistency_history.h t/consistency_load.cc t/consistency_load.h t/consistency_mix.h t/consistency_value.h t/tap.h

# farbench: its pure parts, and a verified load in each protocol.
check_PROGRAMS += t/unit_onesided_share
TESTS += t/unit_onesided_share
t_unit_onesided_share_SOURCES = t/unit_onesided_share.cc t/tap.h

check_PROGRAMS += t/unit_bench
TESTS += t/unit_bench
t_unit_bench_SOURCES = t/unit_bench.cc t/tap.h
t_unit_bench_LDADD = bench/libbench.a $(LDADD)

check_PROGRAMS += t/unit_transport
TESTS += t/unit_transport
t_unit_transport_SOURCES = t/unit_transport.cc t/tap.h
t_unit_transport_LDADD = bench/libbench.a $(LDADD)

check_PROGRAMS += t/unit_hitratio
TESTS += t/unit_hitratio
t_unit_hitratio_SOURCES = t/unit_hitratio.cc t/tap.h
t_unit_hitratio_LDADD = bench/libbench.a $(LDADD)
test_scripts += t/bench_smoke.py t/bench_hitratio.py t/bench_reports.py t/bench_transport.py

# What needs RDMA, in guests that have it: contrib/check runs it and `make check` does not.
check_PROGRAMS += t/verbs_relay
t_verbs_relay_SOURCES = t/verbs_relay.cc t/unit_channel_fixture.h t/tap.h
EXTRA_DIST += \
	t/guest/run \
	t/guest/compare.py \
	t/guest/conversations.py \
	t/guest/counted.py \
	t/guest/device.py \
	t/guest/device_tools.py \
	t/guest/faults.py \
	t/guest/package.py \
	t/guest/programs.py \
	t/guest/refused.py \
	t/guest/clock_step.py \
	t/guest/overcommit.py \
	t/guest/removed.py \
	t/guest/reports.py \
	t/guest/strange.py \
	t/guest/values.py \
	t/guest/vm.py \
	t/guest/transport.py \
	t/guest/units.py \
	t/guest/wire.py

# A Debian package, in a root of its own: contrib/check makes both.
EXTRA_DIST += t/clean_root.py

# Real clients and tools: needs registries, so contrib/check runs it and `make check` does not.
EXTRA_DIST += \
	t/clients/run \
	t/clients/tools.py \
	t/clients/browser.py \
	t/clients/differential.py \
	t/clients/pipelines.py \
	t/clients/pipeline_requests.py \
	t/clients/pipeline_replies.py \
	t/clients/pipeline_differences.py \
	t/clients/observability.py \
	t/clients/packages \
	t/clients/bmemcached/client.py \
	t/clients/bmemcached/requirements.txt \
	t/clients/gomemcache/go.mod \
	t/clients/gomemcache/go.sum \
	t/clients/gomemcache/main.go \
	t/clients/memcached_exporter/go.mod \
	t/clients/memcached_exporter/go.sum \
	t/clients/memjs/client.js \
	t/clients/memjs/package-lock.json \
	t/clients/memjs/package.json \
	t/clients/php-memcached/client.php \
	t/clients/pylibmc/client.py \
	t/clients/pymemcache/client.py \
	t/clients/pymemcache/requirements.txt \
	t/clients/ruby-dalli/client.rb

test_scripts += t/conv_stats.py t/conv_nodes_stats.py t/conv_watch.py t/conv_crawler.py

test_scripts += t/conv_cli.py t/conv_process.py t/conv_notify.py t/conv_sockets.py t/conv_log.py t/conv_log_lost.py t/units.py \
	t/conv_reload.py t/completion.py

# farnode, and a proxy's conversation with it.
check_PROGRAMS += t/farnode_probe
t_farnode_probe_SOURCES = t/farnode_probe.cc
test_scripts += t/conv_farnode.py

# The operator's sockets, and his program.
test_scripts += t/conv_admin.py t/conv_farctl.py t/conv_farctl_nodes.py t/conv_http.py t/conv_hotkeys.py t/conv_crash.py \
	t/conv_proxyevents.py t/conv_descriptors.py t/conv_no_memory.py t/metric_names.py
check_PROGRAMS += t/unit_ctl
TESTS += t/unit_ctl
t_unit_ctl_SOURCES = t/unit_ctl.cc t/tap.h
t_unit_ctl_LDADD = ctl/libctl.a $(LDADD)

# farcached in front of nodes.
test_scripts += t/conv_nodes_clients.py

test_scripts += t/conv_connections.py t/conv_connection_limits.py t/conv_together.py

# Clients' sockets by io_uring.
test_scripts += t/uring.py t/uring_suites.py
EXTRA_DIST += t/lib/closed_loop.py t/lib/without_call.py

# Both daemons with no more system calls than they need.
test_scripts += t/drop_privileges.py

# Several processes: farcached in front of nodes.
test_scripts += t/nodes_conv_text.py t/nodes_conv_meta.py t/nodes_conv_binary.py t/nodes_conv_connections.py \
	t/nodes_conv_options.py
test_scripts += t/nodes_clock.py t/nodes_consistency.py t/nodes_consolidated.py t/nodes_containers.py \
	t/nodes_exhaustion.py t/nodes_false_reports.py t/nodes_flood.py t/nodes_in_place.py t/nodes_leases.py t/nodes_liar.py \
	t/nodes_reload.py \
	t/nodes_reports.py t/nodes_restart.py t/nodes_stopped.py t/nodes_versions.py

# -- Last: what the lists above add up to -----------------------------------------------------------
check_PROGRAMS += $(fuzz_targets)
TESTS += $(test_scripts)
EXTRA_DIST += $(test_scripts)

# What a sanitizer can find something in: all but the tests of the sources and of the documents, and of broken rules.
# Programs of one thread: ThreadSanitizer has nothing to find in them (t/tidy.py looks for threads), and slows them down most.
one_thread_programs = t/unit_arc t/unit_binary_engine t/unit_binary_parse t/unit_conf t/unit_conf_farnode t/unit_conf_file \
	t/unit_conf_listen t/unit_conf_nodes t/unit_failing_node t/unit_frame t/unit_frame_bad t/unit_frames_out t/unit_handshake \
	t/unit_index_probe t/unit_link_parts t/unit_meta_engine t/unit_nearest t/unit_node_collisions t/unit_node_held \
	t/unit_node_in_place t/unit_node_lease t/unit_node_link t/unit_node_link_counts t/unit_node_link_ends t/unit_node_link_index \
	t/unit_node_link_pointers t/unit_node_link_reads t/unit_node_link_reports t/unit_node_link_safety t/unit_node_link_suspend \
	t/unit_node_link_versions t/unit_node_rationed t/unit_node_reads t/unit_node_safety t/unit_node_service t/unit_node_service_bad \
	t/unit_node_service_clock t/unit_node_service_limits t/unit_node_service_order t/unit_node_service_reports \
	t/unit_onesided_share t/unit_pointer_read t/unit_policy t/unit_policy_node t/unit_reply_queue t/unit_text_engine t/unit_text_parse
under_tsan = $(findstring fsanitize=thread,$(SAN_CXXFLAGS))
left_out = $(style_scripts) t/broken_rules.py t/nodes_broken.py $(if $(under_tsan),t/fuzz.py $(fuzz_targets) $(one_thread_programs))
.PHONY: check-sanitizer
check-sanitizer:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(filter-out $(left_out),$(TESTS))' \
		check_PROGRAMS='$(filter-out $(left_out),$(check_PROGRAMS))'

check_PROGRAMS += t/unit_node t/unit_node_safety
TESTS += t/unit_node t/unit_node_safety
t_unit_node_SOURCES = t/unit_node.cc t/tap.h
t_unit_node_safety_SOURCES = t/unit_node_safety.cc t/tap.h
check_PROGRAMS += t/unit_seats t/unit_node_service_limits
TESTS += t/unit_seats t/unit_node_service_limits
t_unit_node_service_limits_SOURCES = t/unit_node_service_limits.cc t/unit_node_service_fixture.h t/unit_frame_words.h t/tap.h
t_unit_seats_SOURCES = t/unit_seats.cc t/tap.h
check_PROGRAMS += t/unit_node_collisions
TESTS += t/unit_node_collisions
t_unit_node_collisions_SOURCES = t/unit_node_collisions.cc t/tap.h
check_PROGRAMS += t/unit_policy t/unit_policy_node
TESTS += t/unit_policy t/unit_policy_node
t_unit_policy_node_SOURCES = t/unit_policy_node.cc t/tap.h
t_unit_policy_SOURCES = t/unit_policy.cc t/unit_policy_models.h t/tap.h
check_PROGRAMS += t/unit_node_reads
TESTS += t/unit_node_reads
t_unit_node_reads_SOURCES = t/unit_node_reads.cc t/tap.h

check_PROGRAMS += t/unit_node_fragmentation
t_unit_node_fragmentation_SOURCES = t/unit_node_fragmentation.cc t/node_invariants.h t/tap.h

check_PROGRAMS += t/unit_node_rationed
TESTS += t/unit_node_rationed
t_unit_node_rationed_SOURCES = t/unit_node_rationed.cc t/node_invariants.h t/tap.h

check_PROGRAMS += t/unit_resource_limits
TESTS += t/unit_resource_limits
t_unit_resource_limits_SOURCES = t/unit_resource_limits.cc t/tap.h

check_PROGRAMS += t/unit_numa
TESTS += t/unit_numa
t_unit_numa_SOURCES = t/unit_numa.cc t/node_invariants.h t/tap.h

check_PROGRAMS += t/unit_node_prefix
t_unit_node_prefix_SOURCES = t/unit_node_prefix.cc t/tap.h

check_PROGRAMS += t/unit_node_in_place
TESTS += t/unit_node_in_place
t_unit_node_in_place_SOURCES = t/unit_node_in_place.cc t/node_invariants.h t/tap.h

# Preloaded by t/failing_allocations.py.
test_scripts += t/failing_allocations.py
check_DATA = t/failing_new.so
CLEANFILES += t/failing_new.so
EXTRA_DIST += t/failing_new.cc
t/failing_new.so: t/failing_new.cc
	$(AM_V_CXX)$(MKDIR_P) t && $(CXX) $(CPPFLAGS) -std=c++20 $(CXXFLAGS) -fPIC -shared -o $@ $(srcdir)/t/failing_new.cc

check_PROGRAMS += t/unit_failing_node
TESTS += t/unit_failing_node
t_unit_failing_node_SOURCES = t/unit_failing_node.cc t/node_invariants.h t/refused_new.h t/tap.h

check_PROGRAMS += t/unit_node_held
TESTS += t/unit_node_held
t_unit_node_held_SOURCES = t/unit_node_held.cc t/node_invariants.h t/tap.h

check_PROGRAMS += t/unit_node_threads
TESTS += t/unit_node_threads
t_unit_node_threads_SOURCES = t/unit_node_threads.cc t/tap.h

check_PROGRAMS += t/unit_node_lease
t_unit_node_lease_SOURCES = t/unit_node_lease.cc t/node_invariants.h t/tap.h

# The node's side of a connection.
check_PROGRAMS += t/unit_node_service t/unit_node_service_bad t/unit_node_service_clock t/unit_node_service_order \
	t/unit_node_service_reports
TESTS += t/unit_node_service t/unit_node_service_bad t/unit_node_service_clock t/unit_node_service_order \
	t/unit_node_service_reports
t_unit_node_service_clock_SOURCES = t/unit_node_service_clock.cc t/unit_node_service_fixture.h t/unit_frame_words.h \
	t/tap.h
t_unit_node_service_order_SOURCES = t/unit_node_service_order.cc t/unit_node_service_fixture.h t/unit_frame_words.h \
	t/tap.h
t_unit_node_service_reports_SOURCES = t/unit_node_service_reports.cc t/unit_node_service_fixture.h \
	t/unit_frame_random.h t/unit_frame_words.h t/tap.h
t_unit_node_service_bad_SOURCES = t/unit_node_service_bad.cc t/unit_node_service_fixture.h \
	t/unit_frame_random.h t/unit_frame_words.h t/tap.h
t_unit_node_service_SOURCES = t/unit_node_service.cc t/unit_node_service_fixture.h \
	t/unit_frame_random.h t/unit_frame_words.h t/tap.h

check_PROGRAMS += t/unit_pointer_table t/unit_pointer_table_open t/unit_pointer_table_safety
TESTS += t/unit_pointer_table t/unit_pointer_table_open t/unit_pointer_table_safety
t_unit_pointer_table_open_SOURCES = t/unit_pointer_table_open.cc t/unit_pointer_table_fixture.h t/tap.h
t_unit_pointer_table_SOURCES = t/unit_pointer_table.cc t/unit_pointer_table_fixture.h t/tap.h
t_unit_pointer_table_safety_SOURCES = t/unit_pointer_table_safety.cc t/unit_pointer_table_fixture.h t/tap.h

check_PROGRAMS += t/unit_report_board t/unit_host_reports
TESTS += t/unit_report_board t/unit_host_reports
t_unit_report_board_SOURCES = t/unit_report_board.cc t/unit_pointer_table_fixture.h t/tap.h
t_unit_host_reports_SOURCES = t/unit_host_reports.cc t/unit_pointer_table_fixture.h t/tap.h

check_PROGRAMS += t/unit_arc
TESTS += t/unit_arc
t_unit_arc_SOURCES = t/unit_arc.cc t/tap.h

# A worker's link to a node, over a channel in memory.
link_headers = t/in_place.h t/link_channel.h t/link_fixture.h t/link_node.h t/unit_pointer_table_fixture.h t/tap.h
check_PROGRAMS += t/unit_link_parts t/unit_node_link t/unit_node_link_ends t/unit_node_link_reads t/unit_node_link_suspend \
	t/unit_node_link_safety t/unit_node_link_versions
TESTS += t/unit_link_parts t/unit_node_link t/unit_node_link_ends t/unit_node_link_reads t/unit_node_link_suspend \
	t/unit_node_link_safety t/unit_node_link_versions
t_unit_node_link_safety_SOURCES = t/unit_node_link_safety.cc $(link_headers)
t_unit_node_link_versions_SOURCES = t/unit_node_link_versions.cc $(link_headers)
t_unit_link_parts_SOURCES = t/unit_link_parts.cc t/tap.h
check_PROGRAMS += t/unit_node_link_pointers t/unit_pointer_read
TESTS += t/unit_node_link_pointers t/unit_pointer_read
t_unit_node_link_pointers_SOURCES = t/unit_node_link_pointers.cc $(link_headers)
t_unit_pointer_read_SOURCES = t/unit_pointer_read.cc t/in_place.h t/tap.h
check_PROGRAMS += t/unit_frames_out
TESTS += t/unit_frames_out
t_unit_frames_out_SOURCES = t/unit_frames_out.cc t/refused_new.h t/tap.h
check_PROGRAMS += t/unit_node_link_counts
TESTS += t/unit_node_link_counts
t_unit_node_link_counts_SOURCES = t/unit_node_link_counts.cc $(link_headers)
check_PROGRAMS += t/unit_node_link_reports
TESTS += t/unit_node_link_reports
t_unit_node_link_reports_SOURCES = t/unit_node_link_reports.cc $(link_headers)
check_PROGRAMS += t/unit_node_link_index t/unit_index_probe
TESTS += t/unit_node_link_index t/unit_index_probe
t_unit_index_probe_SOURCES = t/unit_index_probe.cc t/tap.h
t_unit_node_link_index_SOURCES = t/unit_node_link_index.cc $(link_headers)
t_unit_node_link_ends_SOURCES = t/unit_node_link_ends.cc $(link_headers)
t_unit_node_link_suspend_SOURCES = t/unit_node_link_suspend.cc $(link_headers)
t_unit_node_link_reads_SOURCES = t/unit_node_link_reads.cc $(link_headers)
t_unit_node_link_SOURCES = t/unit_node_link.cc $(link_headers)
check_PROGRAMS += t/unit_ring_waits
TESTS += t/unit_ring_waits
t_unit_ring_waits_SOURCES = t/unit_ring_waits.cc t/tap.h
check_PROGRAMS += t/unit_links
TESTS += t/unit_links
t_unit_links_SOURCES = t/unit_links.cc t/unit_links_fixture.h t/sent_bytes.h t/unit_text_fixture.h \
	t/link_channel.h t/link_node.h t/refused_new.h t/tap.h

# Channels: one suite over every transport, and what each adds.
check_PROGRAMS += t/unit_channel
TESTS += t/unit_channel
t_unit_channel_SOURCES = t/unit_channel.cc t/unit_channel_fixture.h t/tap.h
check_PROGRAMS += t/unit_shm t/unit_shm_containers t/unit_owner t/unit_fault t/unit_verbs t/unit_verbs_device \
	t/unit_verbs_containers
TESTS += t/unit_shm t/unit_shm_containers t/unit_owner t/unit_fault t/unit_verbs t/unit_verbs_device \
	t/unit_verbs_containers
t_unit_verbs_SOURCES = t/unit_verbs.cc t/unit_channel_fixture.h t/tap.h
t_unit_verbs_device_SOURCES = t/unit_verbs_device.cc t/unit_verbs_fixture.h t/unit_channel_fixture.h t/tap.h
t_unit_verbs_containers_SOURCES = t/unit_verbs_containers.cc t/unit_verbs_fixture.h t/unit_channel_fixture.h t/tap.h
t_unit_fault_SOURCES = t/unit_fault.cc t/unit_channel_fixture.h t/tap.h
t_unit_shm_SOURCES = t/unit_shm.cc t/unit_shm_fixture.h t/unit_channel_fixture.h t/tap.h
t_unit_shm_containers_SOURCES = t/unit_shm_containers.cc t/unit_shm_fixture.h t/unit_channel_fixture.h t/tap.h
t_unit_owner_SOURCES = t/unit_owner.cc t/unit_channel_fixture.h t/tap.h

# -- Faulty programs --------------------------------------------------------------------------------
# The libraries once more, with rules that can be broken on purpose, threads that are held up and connections that go
# wrong, as the environment says (base/broken.h, t/faulty.cc); and on them the checkers, and the two daemons. Of base/,
# conf/ and process/ only what includes base/broken.h differs (t/tidy.py).
faulty_cppflags = $(AM_CPPFLAGS) -DFARCACHED_FAULTY
check_LIBRARIES = t/libfaulty.a
t_libfaulty_a_CPPFLAGS = $(faulty_cppflags)
t_libfaulty_a_SOURCES = t/faulty.cc \
	$(daemon_libdaemon_a_SOURCES) process/crash_report.cc \
	$(proxy_libproxy_a_SOURCES) $(node_libnode_a_SOURCES) $(fabric_libfabric_a_SOURCES) \
	$(protocol_libprotocol_a_SOURCES)
nodist_t_libfaulty_a_SOURCES = $(nodist_daemon_libdaemon_a_SOURCES)
faulty_ldadd = t/libfaulty.a process/libprocess.a conf/libconf.a base/libbase.a $(TOMLPLUSPLUS_LIBS) \
	$(LIBURING_LIBS) $(LIBSECCOMP_LIBS) $(LIBEVENT_LIBS)

faulty_programs = t/faulty_node_safety t/faulty_node_in_place t/faulty_node_held t/faulty_node_lease t/faulty_pointer_table_safety \
	t/faulty_node_link_safety t/faulty_pointer_read t/faulty_node_reads t/faulty_owner
EXTRA_PROGRAMS += $(faulty_programs)
CLEANFILES += $(faulty_programs)
check_PROGRAMS += t/faulty_farcached t/faulty_farnode
t_faulty_node_safety_SOURCES = $(t_unit_node_safety_SOURCES)
t_faulty_node_safety_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_safety_LDADD = $(faulty_ldadd)
t_faulty_node_in_place_SOURCES = $(t_unit_node_in_place_SOURCES)
t_faulty_node_in_place_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_in_place_LDADD = $(faulty_ldadd)
t_faulty_node_held_SOURCES = $(t_unit_node_held_SOURCES)
t_faulty_node_held_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_held_LDADD = $(faulty_ldadd)
t_faulty_node_lease_SOURCES = $(t_unit_node_lease_SOURCES)
t_faulty_node_lease_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_lease_LDADD = $(faulty_ldadd)
t_faulty_pointer_table_safety_SOURCES = $(t_unit_pointer_table_safety_SOURCES)
t_faulty_pointer_table_safety_CPPFLAGS = $(faulty_cppflags)
t_faulty_pointer_table_safety_LDADD = $(faulty_ldadd)
t_faulty_node_link_safety_SOURCES = $(t_unit_node_link_safety_SOURCES)
t_faulty_node_link_safety_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_link_safety_LDADD = $(faulty_ldadd)
t_faulty_pointer_read_SOURCES = $(t_unit_pointer_read_SOURCES)
t_faulty_pointer_read_CPPFLAGS = $(faulty_cppflags)
t_faulty_pointer_read_LDADD = $(faulty_ldadd)
t_faulty_node_reads_SOURCES = $(t_unit_node_reads_SOURCES)
t_faulty_node_reads_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_reads_LDADD = $(faulty_ldadd)
t_faulty_owner_SOURCES = $(t_unit_owner_SOURCES)
t_faulty_owner_CPPFLAGS = $(faulty_cppflags)
t_faulty_owner_LDADD = $(faulty_ldadd)
t_faulty_farcached_SOURCES = $(farcached_SOURCES)
t_faulty_farcached_CPPFLAGS = $(faulty_cppflags)
t_faulty_farcached_LDADD = $(faulty_ldadd) $(ALLOCATOR_LIBS)
t_faulty_farnode_SOURCES = $(farnode_SOURCES)
t_faulty_farnode_CPPFLAGS = $(faulty_cppflags)
t_faulty_farnode_LDADD = $(faulty_ldadd) $(ALLOCATOR_LIBS)
check_PROGRAMS += t/container_vandal
t_container_vandal_SOURCES = t/container_vandal.cc t/unit_shm_fixture.h t/unit_channel_fixture.h t/tap.h
check_PROGRAMS += t/pointer_vandal
t_pointer_vandal_SOURCES = t/pointer_vandal.cc t/unit_pointer_table_fixture.h t/tap.h
test_scripts += t/broken_rules.py
t/broken_rules.log: $(faulty_programs)
