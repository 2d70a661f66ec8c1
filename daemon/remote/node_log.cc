// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/node_log.h"

#include <algorithm>
#include <new>
#include <string>

#include "process/log.h"

namespace farcached::daemon {

namespace {

NodePlace place_of(const OneNode& node) { return {node.name, node.place, node.port}; }

template <class Tell>
void tell_if_memory(Tell&& tell) noexcept {
    try {
        tell();
    } catch (const std::bad_alloc&) {
        process::lose_line();
    }
}

// text: a function, behind "node NAME". It may throw std::bad_alloc.
template <class Text>
void say(OneNode& node, process::Level level, Text&& text) noexcept {
    tell_if_memory([&] { node.lines.say(level, "node " + node.name + text(), {{"node", node.name}}); });
}

// Of a node that is down.
std::string consequence(bool failover, uint64_t retry_s) {
    const std::string keys = failover ? "its keys go to the next node" : "its keys miss and cannot be changed";
    return "; " + keys + " until it is back; reconnecting in " + std::to_string(std::max<uint64_t>(retry_s, 1)) + " s";
}

}  // namespace

template <class Line>
void NodeLog::tell_event(Line&& line) const noexcept {
    if (watch_ != nullptr && watch_->wants(watch_proxyevents)) tell_if_memory([&] { watch_->proxy_event(line()); });
}

void NodeLog::connected(const OneNode& node, uint32_t links_up) const noexcept {
    tell_event([&] { return backend_connected_line(place_of(node), links_up); });
}

void NodeLog::is_good(OneNode& node) const noexcept {
    tell_event([&] { return backend_good_line(place_of(node)); });
    say(node, process::Level::notice, [] { return " is up again"; });
}

void NodeLog::is_older(OneNode& node, uint32_t protocol_version) const noexcept {
    say(node, process::Level::notice, [&] {
        return " is of an older version (it speaks protocol version " + std::to_string(protocol_version) + ", this farcached " +
               std::to_string(protocol::protocol_version) + "): every GET is an RPC until its farnode is updated";
    });
}

void NodeLog::lost(const OneNode& node, const LinkLoss& loss) const noexcept {
    tell_event([&] { return backend_error_line(place_of(node), loss.why, loss.was_up, loss.requests, loss.reason); });
}

void NodeLog::is_bad(OneNode& node, const LinkLoss& loss, bool failover) const noexcept {
    tell_event([&] { return backend_bad_line(place_of(node), loss.retry_s); });
    tell_if_memory([&] {
        node.lines.say(process::Level::warning,
                       "node " + node.name + " is down: " + std::string(loss.reason) + consequence(failover, loss.retry_s),
                       {{"node", node.name}, {"cause", proxy::link_down_name(loss.why)}});
    });
}

void NodeLog::unmapped(OneNode& node, std::string_view why) const noexcept {
    say(node, process::Level::notice, [&] {
        return " is not read in mapped memory: " + std::string(why) + "; it is reached at " + node.address;
    });
}

void NodeLog::drained(const OneNode& node, bool on) const noexcept {
    tell_if_memory([&] {
        process::say(process::Level::notice, "node " + node.name + (on ? " is drained" : " is in use again"),
                     {{"node", node.name}});
    });
    tell_event([&] { return backend_drained_line(place_of(node), on); });
}

void NodeLog::rejoined(const OneNode& node, const FenceShown& fence) const noexcept {
    tell_if_memory([&] {
        process::say(process::Level::notice,
                     "node " + node.name + " is in use again; since the start " + std::to_string(fence.killed) +
                         " old items were deleted, and it was flushed " + std::to_string(fence.flushes) + " times",
                     {{"node", node.name}});
    });
}

void NodeLog::fence_failed(OneNode& node) const noexcept {
    say(node, process::Level::warning,
        [] { return " did not acknowledge the deletes of old items; it is not used until it has; retrying"; });
}

void NodeLog::two_processes(OneNode& node) const noexcept {
    say(node, process::Level::warning, [&] {
        return ": two farnodes answer at " + node.addresses.found()->text +
               "; its keys miss and cannot be changed while both do; let the host have one farnode's addresses";
    });
}

void NodeLog::is_back(OneNode& node) const noexcept {
    say(node, process::Level::warning, [&] {
        return ": a farnode that was in use before answers again at " + node.addresses.found()->text +
               "; all its items are deleted; let the host have one farnode's addresses";
    });
}

void NodeLog::read_failed(const OneNode& node, std::string_view key, bool by_index, std::string_view why) const noexcept {
    tell_event([&] { return read_failed_line(place_of(node), why, by_index, key); });
}

}  // namespace farcached::daemon
