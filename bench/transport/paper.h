// SPDX-License-Identifier: BSD-3-Clause
// Tables 3 and 4 of the paper (transport_report.h): two hosts of CloudLab with Mellanox devices, means of three trials.
// Also Table 1 and Figure 2 of the C-Hint paper: hosts with ConnectX-3.
#pragma once

#include <cstdint>

#include "bench/transport/transport_options.h"

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

// Throughput of one-sided over these, at 8 clients; and the mean latency of a one-sided read.
constexpr double paper_over_tcp = 13.4, paper_over_twosided = 2.4;
constexpr double paper_read_mean_us = 4.8;

struct PaperCheck {
    uint32_t value_bytes;
    double crc64_us, read_us, insert_us;
};
constexpr PaperCheck paper_table_1[] = {{1 << 10, 5.2, 4.3, 33.8},
                                        {10 << 10, 40.3, 8.1, 45.4},
                                        {100 << 10, 641.1, 26, 259.2},
                                        {1000 << 10, 5122.7, 230.4, 1539.5}};

// Figure 2, from its text: for values below 1 KB, a READ takes up to a tenth of a request's time. With 32 clients,
// values of 24 bytes and 1 % SETs, throughput was 16.2 times as high. GETs by READ took no CPU time of the server.
constexpr double paper_request_over_read = 10, paper_read_throughput = 16.2;
constexpr uint32_t paper_figure_2_bytes = 1024;

}  // namespace farcached::bench
