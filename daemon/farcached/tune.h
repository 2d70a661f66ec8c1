// SPDX-License-Identifier: BSD-3-Clause
// The commands that change settings at run time: cache_memlimit, slabs, lru, lru_crawler (without its dumps), extstore,
// refresh_certs. Replies are memcached 1.6.45's, word for word.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/node_clock.h"
#include "daemon/stats/stats_settings.h"
#include "daemon/stats/embedded.h"

namespace farcached::daemon {

// The targets of the commands. All outlive the call.
struct TuneTargets {
    Embedded* embedded;  // nullptr in front of nodes: no command that tunes_memory()
    SettingsTable& settings;
    NodeSeconds now;
};

// True: a command about item memory, which is elsewhere when nodes are configured.
bool tunes_memory(std::string_view line);

// The answer, without CRLF. `line`: the whole command.
std::string_view tune(const TuneTargets& targets, std::string_view line);

// "all", or size classes separated by commas: a bit per 1-based class. 0: memcached's BADCLASS.
uint64_t parse_crawl_classes(std::string_view text);

}  // namespace farcached::daemon
