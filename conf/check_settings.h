// SPDX-License-Identifier: BSD-3-Clause
// What settings amount to together: checks between options, after all were parsed; the plan of a reload, which compares the
// running settings with those that the command line and files now yield; and the resources that a daemon needs with them.
// No side effects.
//
// Owner: none. Threads: any.
//
// R1  Normal work stays below the limits with items of any size, because the kernel kills a process that exceeds them. They
//     bound the memory and the threads that a bug or an intruder can take.
// R2  The sum has a term for each kind of memory; docs/capacity.md lists them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/option.h"
#include "conf/program.h"
#include "conf/settings.h"

namespace farcached::conf {

std::vector<Conflict> check_settings(const Settings& settings);
// Begins with the place of its first key that a file gives: "far.toml:3:8: max_item_size: ...".
std::string conflict_text(const Conflict& conflict, const Origins& origins);
// Checks that the admin socket's path differs from the other one.
Refusal check_admin_path(const Settings& settings, std::string_view other_path, std::string_view other_option);
Refusal check_peer_tls(const Settings& settings);
Refusal check_item_size(const Settings& settings);  // the part that all daemons need
Refusal check_http_options(const AdminSettings& settings);

// Warnings for stderr; empty if none.
std::string remarks(const Settings& settings);

// A planned reload.
struct ReloadPlan {
    std::vector<std::string> errors;   // not empty: change nothing, and ignore the rest
    Settings settings;                 // the running settings, with the changes that a reload may apply
    std::vector<std::string> changed;  // keys that differ, and are applied
    std::vector<std::string> waiting;  // keys that differ, and need a restart
};

// running: the daemon's current settings. wanted: checked settings, and where their keys were given.
// A list of nodes that becomes empty, or nonempty, waits for a restart: with nodes the process stores no items.
ReloadPlan plan_reload(std::span<const Option> table, const Program& program, const Settings& running,
                       const Settings& wanted, const Origins& origins = {});

// The maximum resources of a daemon, for the limits of its control group (--print-limits).
struct ResourceLimits {
    uint64_t memory_bytes = 0;  // resident, and of the kernel on behalf of the process; whole MiB
    uint64_t tasks = 0;         // threads
};

// Constants of the sum. conf/ includes no header of the folders they describe: t/unit/conf/resource_limits.cc compares the two.
namespace reckoned {

constexpr uint64_t kib = 1024, mib = 1024 * kib;

// Of items.
constexpr uint64_t header_bytes = 40;
constexpr uint64_t slot_step_bytes = 16;
constexpr uint64_t slot_bytes_min = 64;           // a page of 64 KiB has at most 1024 slots
constexpr uint64_t descriptor_bytes = 24;
constexpr uint64_t index_bytes = 32;              // about 15 when filled; chains keep buckets once used. Evicted items: 9
constexpr uint64_t chunk_bytes_of_nodes = 48;     // farcached's default -n; farnode has no such option
constexpr uint64_t counters_bytes = 12;           // --access_tracking atomic: for each slot_bytes_min of -m

// Of the process: the program, its libraries' data, and buffers of clients.
constexpr uint64_t process_bytes = 32 * mib;
constexpr uint64_t buffers_share = 4;             // 1 / buffers_share of -m
constexpr uint64_t thread_bytes = mib;            // stack and allocator
constexpr uint64_t udp_bytes = 2 * mib;           // per worker: datagrams received together, and a reply
constexpr uint64_t socket_bytes = 256 * kib;      // kernel memory per client connection, averaged over the maximum number

// Per connection between a proxy and a node, and per process that has such connections.
constexpr uint64_t link_bytes = 640 * kib;        // rings of 512 KiB or as much of a queue pair, containers, slots, sockets
constexpr uint32_t slots_of_link = 8;             // of these, for requests, and as many for replies
constexpr uint64_t report_keys_bytes = 416 * kib; // at the default report_items
constexpr uint64_t pools_bytes = 8 * mib;         // landing and lending buffers, per worker
constexpr uint64_t fetch_pool_bytes = 16 * mib;   // of a node over RDMA
constexpr uint64_t table_entry_bytes = 67;        // table of remote pointers, charged to the first process
constexpr uint64_t nodes_min = 16;                // a reload may add nodes

// Of values on a disk: write buffers, records being read by each thread, and the state of a segment.
constexpr uint64_t disk_buffers = 4;
constexpr uint64_t disk_reads_bytes = 16 * mib;
constexpr uint64_t segment_bytes = 96;

// Threads that do not serve (main, accept, watch, crawler, HTTP, supervisor, RDMA), name lookups, and a unit's commands.
constexpr uint64_t tasks_beside = 128;
constexpr uint64_t tasks_of_ring = 4;             // kernel threads per worker with io_uring

}  // namespace reckoned

ResourceLimits farcached_limits(const Settings& settings);
ResourceLimits farnode_limits(const Settings& settings);

// In the syntax of `systemctl set-property`, one per line.
std::string limits_text(const ResourceLimits& limits);

}  // namespace farcached::conf
