// SPDX-License-Identifier: BSD-3-Clause
#include "conf/resource_limits.h"

#include <algorithm>

namespace farcached::conf {

namespace {

using namespace reckoned;

uint64_t items_bytes(const MemorySettings& settings, uint64_t chunk_bytes) {
    const uint64_t rounded = (header_bytes + chunk_bytes + slot_step_bytes - 1) / slot_step_bytes * slot_step_bytes;
    const uint64_t slot_bytes = std::max(rounded, slot_bytes_min);
    // With huge pages, descriptors of all possible slots are resident.
    const uint64_t slot_bytes_described = settings.huge_pages ? slot_bytes_min : slot_bytes;
    return settings.bytes_max + settings.bytes_max / slot_bytes_described * descriptor_bytes +
           settings.bytes_max / slot_bytes * index_bytes;
}

uint64_t process_of(const Settings& settings) {
    return process_bytes + settings.memory.bytes_max / buffers_share + settings.session.threads * thread_bytes;
}

uint64_t whole_mib(uint64_t bytes) { return (bytes + mib - 1) / mib * mib; }

}  // namespace

ResourceLimits farcached_limits(const Settings& settings) {
    const uint64_t threads = settings.session.threads;
    const uint64_t nodes = settings.proxy.nodes.empty() ? 0 : std::max<uint64_t>(settings.proxy.nodes.size(), nodes_min);
    uint64_t bytes = items_bytes(settings.memory, settings.memory.chunk_bytes_min) + process_of(settings) +
                     settings.session.connections_max * socket_bytes;
    if (nodes != 0)
        bytes += settings.proxy.pointer_table_entries * table_entry_bytes +
                 threads * (pools_bytes + nodes * (link_bytes + report_keys_bytes));
    const uint64_t ring = settings.session.io == SocketBackend::libevent ? 0 : tasks_of_ring;
    return {whole_mib(bytes), threads * (1 + ring) + nodes + tasks_beside};
}

ResourceLimits farnode_limits(const Settings& settings) {
    uint64_t bytes = items_bytes(settings.memory, chunk_bytes_of_nodes) + process_of(settings) +
                     settings.session.connections_max * link_bytes;
    if (!settings.node.verbs_host.empty()) bytes += fetch_pool_bytes;
    if (settings.node.access_tracking == AccessTracking::atomic)
        bytes += settings.memory.bytes_max / slot_bytes_min * counters_bytes;
    return {whole_mib(bytes), settings.session.threads + tasks_beside};
}

std::string limits_text(const ResourceLimits& limits) {
    return "MemoryMax=" + std::to_string(limits.memory_bytes) + "\nTasksMax=" + std::to_string(limits.tasks) + "\n";
}

}  // namespace farcached::conf
