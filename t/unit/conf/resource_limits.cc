// SPDX-License-Identifier: BSD-3-Clause
// The numbers that --print-limits uses (conf/check_settings.h) equal the constants of other folders.
#include <string>

#include "base/limits.h"
#include "conf/check_settings.h"
#include "daemon/engine/links.h"
#include "daemon/engine/session_memory.h"
#include "daemon/session/datagrams.h"
#include "fabric/channel.h"
#include "fabric/shm/shm_ring.h"
#include "node/disk/disk_reads.h"
#include "node/memory/descriptor.h"
#include "node/service/connection.h"
#include "node/service/ousting.h"
#include "node/store/impl.h"
#include "node/store/node.h"
#include "protocol/layout.h"
#include "protocol/udp_frame.h"
#include "proxy/pointer_table_layout.h"
#include "t/lib/tap.h"

using namespace farcached;
namespace reckoned = conf::reckoned;

namespace {

void sizes_of_items() {
    tap::is(reckoned::header_bytes, sizeof(layout::ItemHeader), "the header of an item");
    tap::is(reckoned::slot_step_bytes, uint64_t(layout::stride_bytes), "the step of slots' sizes");
    tap::is(reckoned::slot_bytes_min, uint64_t(layout::slot_bytes_min), "the smallest slot");
    tap::is(reckoned::descriptor_bytes, sizeof(node::Descriptor), "a descriptor");
    tap::is(reckoned::chunk_bytes_of_nodes, uint64_t(node::Config().chunk_bytes_min), "farnode's -n");
    const node::DiskConfig disk;
    tap::ok(reckoned::disk_buffers == disk.buffers && reckoned::disk_reads_bytes == node::DiskReads::bytes_max,
            "buffers of a disk");
    tap::is(reckoned::counters_bytes, layout::counter_bytes + node::ReadCounters::seen_bytes,
            "a counter of reads, and what was seen of it");
    tap::is(layout::counters_per_page * layout::slot_bytes_min, uint64_t(layout::page_bytes), "one for each smallest slot");
}

// For a cache that is full of the smallest items, and has evicted each several times: chains keep buckets from earlier
// growth.
void size_of_the_index() {
    node::Config config;
    config.memory_bytes = UINT64_C(8) << 20;
    config.partitions = 2;
    node::Node node(config);
    for (uint32_t i = 0; i < 1'000'000; i++) {
        const std::string key = std::to_string(i);
        protocol::StoreOp op;
        op.key = node.key(key);
        node.store(op, 1000);
    }
    const node::Stats stats = node.stats(1000);
    const uint64_t reckoned_bytes = reckoned::index_bytes * stats.items;
    tap::ok(stats.items > 80'000, "the cache is full: " + std::to_string(stats.items));
    tap::ok(stats.index_bytes < reckoned_bytes && stats.index_bytes * 2 > reckoned_bytes,
            "the index takes no more than is reckoned, and more than half of it: " + std::to_string(stats.index_bytes));
}

void buffers() {
    for (const uint64_t memory : {UINT64_C(3) << 20, UINT64_C(64) << 20, UINT64_C(64) << 30}) {
        const uint64_t reckoned_bytes = reckoned::process_bytes + memory / reckoned::buffers_share;
        const std::string at = " of " + std::to_string(memory >> 20) + " MiB";
        tap::ok(daemon::SessionMemory::limit_for(memory, /* embedded= */ true) < reckoned_bytes, "clients' buffers fit" + at);
        tap::ok(node::peer_budget_bytes(memory, 1 << 20) < reckoned_bytes, "proxies' buffers fit" + at);
    }
}

void links() {
    tap::ok(reckoned::udp_bytes >= daemon::Datagrams::together_max * daemon::Datagrams::bytes_max + protocol::udp_reply_total_max,
            "datagrams of UDP in a worker, and a reply");
    tap::is(reckoned::pools_bytes, daemon::landing_bytes + daemon::lending_bytes, "landing and lending of a worker");
    tap::is(reckoned::fetch_pool_bytes, node::fetch_pool_bytes, "a node's pool for READs");
    tap::ok(reckoned::link_bytes >= 2 * fabric::ring_bytes_default, "rings of a link, and something beside them");
    const uint64_t entries = 1 << 20, head_bytes = 64 << 10;
    tap::is(reckoned::table_entry_bytes, proxy::table_bytes(entries) / entries,
            "an entry of the pointer table, with its part of the boards");
    tap::ok(proxy::table_bytes(entries) - reckoned::table_entry_bytes * entries < head_bytes, "and little beside the entries");
    tap::is(reckoned::report_keys_bytes, uint64_t(limits::report_items_default) * 104, "keys classified for reports");
}

}  // namespace

int main() {
    sizes_of_items();
    size_of_the_index();
    buffers();
    links();
    return tap::done();
}
