# SPDX-License-Identifier: BSD-3-Clause
# bench/: farbench, and the scripts and small programs that compare.
noinst_LIBRARIES += bench/libbench.a

bench_libbench_a_SOURCES = \
	bench/batch.cc \
	bench/batch.h \
	bench/chart.cc \
	bench/chart.h \
	bench/check_cost.cc \
	bench/check_cost.h \
	bench/compare.cc \
	bench/compare.h \
	bench/connection.cc \
	bench/connection.h \
	bench/device_counters.cc \
	bench/device_counters.h \
	bench/distribution.cc \
	bench/distribution.h \
	bench/floor.cc \
	bench/floor.h \
	bench/form.h \
	bench/exit_status.h \
	bench/histogram.h \
	bench/get_shares.cc \
	bench/get_shares.h \
	bench/hitratio.cc \
	bench/hitratio.h \
	bench/hitratio_clients.cc \
	bench/hitratio_clients.h \
	bench/hitratio_latency.cc \
	bench/hitratio_latency.h \
	bench/hitratio_options.cc \
	bench/hitratio_options.h \
	bench/hitratio_paper.h \
	bench/hitratio_policies.cc \
	bench/hitratio_policies.h \
	bench/hitratio_report.cc \
	bench/hitratio_report.h \
	bench/hitratio_sim.cc \
	bench/hitratio_sim.h \
	bench/hitratio_workload.cc \
	bench/hitratio_workload.h \
	bench/interrupts.h \
	bench/load.cc \
	bench/load.h \
	bench/node_process.cc \
	bench/node_process.h \
	bench/option_text.h \
	bench/options.cc \
	bench/options.h \
	bench/random.h \
	bench/reach.cc \
	bench/reach.h \
	bench/report.cc \
	bench/report.h \
	bench/reports.cc \
	bench/reports.h \
	bench/reports_client.cc \
	bench/reports_client.h \
	bench/reports_options.cc \
	bench/reports_options.h \
	bench/reports_result.cc \
	bench/reports_result.h \
	bench/schedule.h \
	bench/server_stats.cc \
	bench/server_stats.h \
	bench/stats_line.cc \
	bench/stats_line.h \
	bench/text_file.h \
	bench/transport.cc \
	bench/transport.h \
	bench/transport_client.cc \
	bench/transport_client.h \
	bench/transport_options.cc \
	bench/transport_options.h \
	bench/transport_paper.h \
	bench/transport_report.cc \
	bench/transport_report.h \
	bench/transport_trial.cc \
	bench/transport_trial.h \
	bench/usage.cc \
	bench/usage.h \
	bench/value.cc \
	bench/value.h \
	bench/wire.cc \
	bench/wire.h \
	bench/worker.cc \
	bench/worker.h

# What draws farbench's measurements, and what farbench compare runs.
dist_pkgdata_DATA = \
	bench/compare.py \
	bench/compare_aims.py \
	bench/compare_chart.py \
	bench/compare_contest.py \
	bench/compare_contestants.py \
	bench/compare_exhaustion.py \
	bench/compare_load.py \
	bench/compare_memory.py \
	bench/compare_report.py \
	bench/compare_servers.py \
	bench/compare_verbs.py \
	bench/compare_verbs_guest.py \
	bench/hitratio_chart.py bench/points_chart.py bench/reports_chart.py bench/transport_chart.py

bin_PROGRAMS += farbench
farbench_SOURCES = bench/farbench.cc
farbench_LDADD = bench/libbench.a $(LDADD)

# Measurements behind choices that the sources cite. Built, not installed.
noinst_PROGRAMS += bench/prefetch_window bench/hitratio_lru bench/placement_lookup
bench_prefetch_window_SOURCES = bench/prefetch_window.cc
bench_prefetch_window_LDADD = bench/libbench.a $(LDADD)
bench_hitratio_lru_SOURCES = bench/hitratio_lru.cc
bench_hitratio_lru_LDADD = bench/libbench.a $(LDADD)
bench_placement_lookup_SOURCES = bench/placement_lookup.cc
bench_placement_lookup_LDADD = $(LDADD) $(LIBMEMCACHED_LIBS)

EXTRA_DIST += \
	bench/charts/64-B-multi-get-of-50-keys.svg \
	bench/charts/64-B-pipeline-1.svg \
	bench/charts/64-B-pipeline-16.svg \
	bench/charts/proxied-multi-get-of-50-keys.svg \
	bench/charts/proxied-pipeline-1.svg \
	bench/charts/proxied-pipeline-16.svg \
	bench/hitratio_cluster.py \
	bench/hitratio_latencies \
	bench/hitratio_processes \
	bench/metrics_cost \
	bench/onesided_share \
	bench/report_cost \
	bench/transport_guest
