// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/node_pointers.h"

#include <utility>
#include <variant>

#include "base/node_clock.h"
#include "base/random_word.h"

namespace farcached::daemon {

std::string NodePointers::open(const conf::ProxySettings& settings, const NodeSet& set) {
    constexpr const char* table_refused = "\npointer table unavailable; GETs use RPC";
    if (table_ != nullptr) return {};
    bool readable = false;
    for (const NodeSet::Member& member : set.members) {
        if (member.one->channel == conf::NodeChannel::verbs) readable = true;
        if (member.one->channel != conf::NodeChannel::shm && member.socket == nullptr) continue;
        // For mapped memory the table is only for reports (proxy/report_board.h).
        if (!set.options.local_read || set.options.report_mapped) readable = true;
    }
    if (!readable) return {};  // no use for it
    auto host = proxy::TableHost::of_this_process();
    if (auto* failure = std::get_if<proxy::TableFailure>(&host)) return failure->message + table_refused;
    proxy::TableOptions table;
    table.name = proxy::table_name(settings.pointer_table.path, table.owner);
    table.entries = settings.pointer_table.entries;
    table.host = std::get<proxy::TableHost>(host);
    table.seed = random_word();
    auto opened = proxy::PointerTable::open(table);
    if (auto* failure = std::get_if<proxy::TableFailure>(&opened)) return failure->message + table_refused;
    table_ = std::get<std::unique_ptr<proxy::PointerTable>>(std::move(opened));
    shown_.store(table_.get(), std::memory_order_release);
    return {};
}

namespace {

bool is_mapped(const NodeOptions& options, const OneNode& node) { return node.is_over_shm() && options.local_read; }

}  // namespace

// nullptr: GETs of its keys use no pointers.
const proxy::PointerTable* NodePointers::table_for(const NodeOptions& options, const OneNode& node) const {
    return node.channel == conf::NodeChannel::tcp || is_mapped(options, node) ? nullptr : table();
}

std::string NodePointers::ways_of(const NodeOptions& options, const OneNode& node) const {
    const bool mapped = is_mapped(options, node), readable = node.channel != conf::NodeChannel::tcp || node.is_over_shm();
    std::string ways = mapped ? "local, " : table_for(options, node) != nullptr ? "one_sided, " : "";
    if (readable && !mapped && options.probe_index) ways += "index, ";
    return ways + "two_sided";
}

void NodePointers::find(const NodeOptions& options, const OneNode& node, const Hashed& key, Route& route) const {
    const proxy::PointerTable* table = table_for(options, node);
    route.ways = ways_of(options, node);
    if (table == nullptr) return;
    const uint64_t now_ns = boottime_ns();
    using Found = proxy::PointerTable::Found;
    const proxy::PointerTable::Lookup found = table->find(key.hash, key.incarnation, now_ns);
    if (found.found != Found::hit) {
        route.pointer = found.found == Found::expired ? Route::Pointer::expired : Route::Pointer::none;
        return;
    }
    route.pointer = Route::Pointer::valid;
    route.pointer_shared = found.shared;
    route.lease_left_ns = found.leased.valid_until_ns - now_ns;
    route.target = found.leased.ptr;
}

}  // namespace farcached::daemon
