// SPDX-License-Identifier: BSD-3-Clause
// Reloads of a RemoteBackend's set of nodes (M6).
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "daemon/remote_backend.h"
#include "daemon/remote_backend_node.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t timeouts_to_leave = 4;  // bound for a node that sends, but not the missing answers

}  // namespace

std::unique_ptr<RemoteBackend::Node> RemoteBackend::make_node(const NodeSet& set, size_t place) {
    return std::make_unique<Node>(*this, set.members[place].one, set.options);
}

void RemoteBackend::start(Node& node) {
    CHECK(!node.started);
    node.started = true;
    with_memory(node, [&] { node.link.start(now()); });
    touched(node);
}

void RemoteBackend::start() {
    for (auto& node : list_) start(*node);
    end_tick();
}

// M6. All that can fail comes first.
void RemoteBackend::take() {
    std::shared_ptr<const NodeSet> next = nodes_.set();
    if (next == set_) return;
    const bool same_links = next->options.same_links(set_->options);
    constexpr size_t is_new = SIZE_MAX;
    std::vector<size_t> kept_from;  // current index for each place
    std::vector<std::unique_ptr<Node>> list;
    for (size_t i = 0; i < next->members.size(); i++) {
        const auto at = std::find_if(list_.begin(), list_.end(),
                                     [&](const auto& node) { return node->one == next->members[i].one; });
        const bool kept = same_links && at != list_.end();
        kept_from.push_back(kept ? size_t(at - list_.begin()) : is_new);
        list.push_back(kept ? nullptr : make_node(*next, i));
    }
    leaving_.reserve(leaving_.size() + list_.size());
    touched_.reserve(leaving_.size() + list_.size() + list.size());
    for (size_t i = 0; i < list.size(); i++)
        if (kept_from[i] != is_new) list[i] = std::move(list_[kept_from[i]]);
    const uint64_t leaves_by_ns = now() + timeouts_to_leave * std::max(set_->options.timeout_ns, next->options.timeout_ns);
    for (auto& node : list_) {
        if (node == nullptr) continue;
        node->leaves_by_ns = leaves_by_ns;
        leaving_.push_back(std::move(node));
    }
    list_ = std::move(list);
    set_ = std::move(next);
    for (auto& node : leaving_) touched(*node);
    retire();
}

// Ends the connections of leaving nodes that have answered, and starts the connections that waited for that. True: one ended or
// started.
bool RemoteBackend::retire() {
    const size_t before = leaving_.size();
    std::erase_if(leaving_, [&](const std::unique_ptr<Node>& node) {
        if (!node->has_answered() && now() < node->leaves_by_ns) return false;
        give_up_postponed(*node, UINT64_MAX);
        if (node->started) node->link.stop(now());
        std::erase(touched_, node.get());
        return true;
    });
    bool started = false;
    const auto start_behind = [&](Node& node, size_t earlier) {
        const auto is_before = [&](const auto& other) { return other->one == node.one; };
        if (node.started || std::any_of(leaving_.begin(), leaving_.begin() + ptrdiff_t(earlier), is_before)) return;
        start(node);
        started = true;
    };
    for (size_t i = 0; i < leaving_.size(); i++) start_behind(*leaving_[i], i);
    for (auto& node : list_) start_behind(*node, leaving_.size());
    return started || leaving_.size() != before;
}

}  // namespace farcached::daemon
