// SPDX-License-Identifier: BSD-3-Clause
// The commands that change settings of a running server: cache_memlimit, slabs, lru, lru_crawler (but its
// dumps), extstore, refresh_certs. Answers are memcached 1.6.45's, word for word.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/node_clock.h"
#include "daemon/stats_settings.h"
#include "node/crawler.h"
#include "node/node.h"

namespace farcached::daemon {

// What a command may change. All outlive the call.
struct TuneTargets {
    node::Node& node;
    node::Crawler& crawler;
    SettingsTable& settings;
    NodeSeconds now;
};

// Is it a command about the memory of items, which are elsewhere when there are nodes?
bool tunes_memory(std::string_view line);

// The answer, without CRLF. `line`: the whole command.
std::string_view tune(const TuneTargets& targets, std::string_view line);

// "all", or size classes separated by commas: a bit per 1-based class. 0: memcached's BADCLASS.
uint64_t parse_crawl_classes(std::string_view text);

}  // namespace farcached::daemon
