// SPDX-License-Identifier: BSD-3-Clause
// Tables 3 and 4 of the paper (transport_report.h): two hosts of CloudLab with Mellanox devices, means of three trials.
#pragma once

#include <cstdint>

#include "bench/transport_options.h"

namespace farcached::bench {

struct PaperRow {
    Transport transport;
    Workload workload;
    uint32_t clients;
    double kops, mean_us, p99_us;
};
constexpr PaperRow paper_table_3[] = {
    {Transport::tcp, Workload::mixed, 1, 8.9, 106.4, 153},
    {Transport::tcp, Workload::mixed, 2, 18.5, 100.3, 132},
    {Transport::tcp, Workload::mixed, 4, 31.7, 110.9, 164},
    {Transport::tcp, Workload::mixed, 8, 72.9, 95.3, 157},
    {Transport::twosided, Workload::mixed, 1, 117.3, 6.2, 6},
    {Transport::twosided, Workload::mixed, 2, 115.1, 11.2, 6},
    {Transport::twosided, Workload::mixed, 4, 233.9, 13.7, 7},
    {Transport::twosided, Workload::mixed, 8, 403.8, 15.2, 8},
    {Transport::onesided, Workload::get, 1, 160.5, 4.8, 12},
    {Transport::onesided, Workload::get, 2, 285.9, 4.8, 12},
    {Transport::onesided, Workload::get, 4, 607.6, 4.8, 12},
    {Transport::onesided, Workload::get, 8, 974.3, 4.8, 12},
};

struct PaperMetadata {
    uint32_t clients;
    double mean_increase_us, p99_increase_us, p99_us;
};
constexpr PaperMetadata paper_table_4[] = {
    {1, 3.0, 3.0, 15.0}, {2, 3.1, 3.7, 15.7}, {4, 3.1, 4.0, 16.0}, {8, 3.2, 4.0, 16.0}};

// Of throughput at 8 clients, one-sided over these; and of the mean latency of a one-sided read.
constexpr double paper_over_tcp = 13.4, paper_over_twosided = 2.4;
constexpr double paper_read_mean_us = 4.8;

}  // namespace farcached::bench
