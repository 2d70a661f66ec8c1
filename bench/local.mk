# SPDX-License-Identifier: BSD-3-Clause
# bench/: farbench, and the scripts and small programs that compare.
noinst_LIBRARIES += bench/libbench.a

bench_sources = \
	bench/buffer/buffer.cc \
	bench/buffer/buffer.h \
	bench/buffer/buffer_manager.cc \
	bench/buffer/buffer_manager.h \
	bench/buffer/buffer_report.cc \
	bench/buffer/home_tier.cc \
	bench/buffer/home_tier.h \
	bench/buffer/measure.cc \
	bench/buffer/measure.h \
	bench/buffer/remote_tier.cc \
	bench/buffer/remote_tier.h \
	bench/buffer/tiers.h \
	bench/capacity/advice.cc \
	bench/capacity/capacity.cc \
	bench/capacity/capacity.h \
	bench/capacity/capacity_report.cc \
	bench/capacity/device_file.cc \
	bench/capacity/device_file.h \
	bench/capacity/fleet.cc \
	bench/capacity/fleet.h \
	bench/capacity/known_devices.cc \
	bench/command.cc \
	bench/command.h \
	bench/compare/compare.cc \
	bench/data.cc \
	bench/data.h \
	bench/floor.cc \
	bench/floor.h \
	bench/histogram.h \
	bench/hitratio/clients.cc \
	bench/hitratio/clients.h \
	bench/hitratio/hitratio.cc \
	bench/hitratio/hitratio.h \
	bench/hitratio/hitratio_report.cc \
	bench/hitratio/sim.cc \
	bench/hitratio/sim.h \
	bench/hitratio/workload.cc \
	bench/hitratio/workload.h \
	bench/load/connection.cc \
	bench/load/connection.h \
	bench/load/load.cc \
	bench/load/load.h \
	bench/load/options.cc \
	bench/load/options.h \
	bench/load/report.cc \
	bench/load/server_stats.cc \
	bench/load/server_stats.h \
	bench/load/wire.cc \
	bench/load/wire.h \
	bench/load/worker.cc \
	bench/load/worker.h \
	bench/reports/reports.cc \
	bench/reports/reports.h \
	bench/reports/reports_client.cc \
	bench/reports/reports_client.h \
	bench/reports/result.cc \
	bench/rnic/events.h \
	bench/rnic/figures.cc \
	bench/rnic/figures.h \
	bench/rnic/nic.cc \
	bench/rnic/nic.h \
	bench/rnic/resource.cc \
	bench/rnic/resource.h \
	bench/rnic/rnic.cc \
	bench/rnic/rnic.h \
	bench/rnic/rpc_costs.cc \
	bench/rnic/rpc_costs.h \
	bench/transport/client_link.cc \
	bench/transport/client_link.h \
	bench/transport/node_process.cc \
	bench/transport/node_process.h \
	bench/transport/results.cc \
	bench/transport/results.h \
	bench/transport/rpc_points.cc \
	bench/transport/rpc_points.h \
	bench/transport/rpc_report.cc \
	bench/transport/transport.cc \
	bench/transport/transport.h \
	bench/transport/transport_client.cc \
	bench/transport/transport_client.h \
	bench/transport/transport_report.cc \
	bench/transport/trial.cc \
	bench/transport/trial.h \
	bench/usage.cc \
	bench/usage.h
if JUMBO
bench_libbench_a_SOURCES =
nodist_bench_libbench_a_SOURCES = $(jumbo_bench)
else
bench_libbench_a_SOURCES = $(bench_sources)
endif

# What draws farbench's measurements, and what farbench compare runs.
dist_pkgdata_DATA = \
	bench/buffer/buffer_chart.py \
	bench/capacity/capacity_chart.py \
	bench/chart.py \
	bench/compare/compare.py \
	bench/compare/compare_aims.py \
	bench/compare/compare_chart.py \
	bench/compare/compare_contest.py \
	bench/compare/compare_contestants.py \
	bench/compare/compare_exhaustion.py \
	bench/compare/compare_load.py \
	bench/compare/compare_memory.py \
	bench/compare/compare_report.py \
	bench/compare/compare_servers.py \
	bench/compare/compare_tiers.py \
	bench/compare/compare_tls.py \
	bench/compare/compare_verbs.py \
	bench/compare/compare_verbs_guest.py \
	bench/hitratio/hitratio_chart.py \
	bench/reports/reports_chart.py \
	bench/transport/rpc_chart.py \
	bench/transport/transport_chart.py

bin_PROGRAMS += farbench
farbench_SOURCES = bench/farbench.cc
farbench_LDADD = bench/libbench.a $(LDADD)

# Measurements behind choices that the sources cite. Built, not installed.
noinst_PROGRAMS += bench/prefetch_window bench/hitratio/lru bench/placement_lookup
bench_prefetch_window_SOURCES = bench/prefetch_window.cc
bench_prefetch_window_LDADD = bench/libbench.a $(LDADD)
bench_hitratio_lru_SOURCES = bench/hitratio/lru.cc
bench_hitratio_lru_LDADD = bench/libbench.a $(LDADD)
bench_placement_lookup_SOURCES = bench/placement_lookup.cc
bench_placement_lookup_LDADD = $(LDADD) $(LIBMEMCACHED_LIBS)

EXTRA_DIST += \
	bench/charts/64-B-multi-get-of-50-keys.svg \
	bench/charts/64-B-pipeline-1.svg \
	bench/charts/64-B-pipeline-16.svg \
	bench/charts/buffer-figure-11.svg \
	bench/charts/buffer-figure-12.svg \
	bench/charts/buffer-figure-14.svg \
	bench/charts/capacity-cx3-30.svg \
	bench/charts/capacity-cx5-50.svg \
	bench/charts/capacity-cx5-800.svg \
	bench/charts/fleet-drain.svg \
	bench/charts/fleet-join.svg \
	bench/charts/hitratio-servers.svg \
	bench/charts/proxied-multi-get-of-50-keys.svg \
	bench/charts/proxied-pipeline-1.svg \
	bench/charts/proxied-pipeline-16.svg \
	bench/charts/rpc-figure-10.svg \
	bench/charts/rpc-figure-4.svg \
	bench/charts/rpc-figure-5.svg \
	bench/charts/rpc-figure-6.svg \
	bench/charts/rpc-figure-7.svg \
	bench/charts/rpc-figure-8.svg \
	bench/charts/rpc-figure-9.svg \
	bench/charts/tiers.svg \
	bench/fleet/figures \
	bench/fleet/fleet_burst.py \
	bench/fleet/fleet_join.py \
	bench/fleet/fleet_outage.py \
	bench/fleet/fleet_processes.py \
	bench/fleet/fleet_replicas.py \
	bench/fleet/fleet_scale.py \
	bench/hitratio/hitratio_cluster.py \
	bench/hitratio/latencies \
	bench/hitratio/processes \
	bench/hitratio/servers \
	bench/metrics_cost \
	bench/onesided_share \
	bench/reports/cost \
	bench/transport/guest
