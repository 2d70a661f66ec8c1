// SPDX-License-Identifier: BSD-3-Clause
// The list of the cluster as the engines find it (daemon/remote/cluster_view.h): by `config get`, or, for clients of ElastiCache
// before 1.4.14, by a get of a certain key. Without a list both are memcached's: an unknown command, and an item's key.
// Owner: none. Threads: any.
#pragma once

#include <memory>
#include <string_view>

#include "daemon/engine/engine.h"
#include "daemon/remote/cluster_view.h"

namespace farcached::daemon {

using ClusterList = std::shared_ptr<const ClusterView::List>;

constexpr std::string_view cluster_name = "cluster";  // after `config get`
constexpr std::string_view cluster_key = "AmazonElastiCache:cluster";

// nullptr: no members are known.
inline ClusterList cluster_list(const Context& context) {
    return context.options.cluster == nullptr ? nullptr : context.options.cluster->list();
}

// Of a get; nullptr: the key is an item's.
inline ClusterList cluster_list_at(const Context& context, std::string_view key) {
    if (key != cluster_key) [[likely]] return nullptr;
    return cluster_list(context);
}

}  // namespace farcached::daemon
