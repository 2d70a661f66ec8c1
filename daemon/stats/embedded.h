// SPDX-License-Identifier: BSD-3-Clause
// Embedded: the node in this process, and its search for expired items. In front of nodes a process has neither.
#pragma once

#include <functional>
#include <utility>

#include "base/node_clock.h"
#include "node/store/crawler.h"
#include "node/store/node.h"

namespace farcached::daemon {

struct Embedded {
    // Throws as node::Node and node::Crawler do.
    Embedded(const node::Config& config, const node::CrawlerOptions& crawls, std::function<NodeSeconds()> clock)
        : node(config), crawler(node, std::move(clock), crawls) {}

    node::Node node;
    node::Crawler crawler;
};

}  // namespace farcached::daemon
