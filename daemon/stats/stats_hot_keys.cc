// SPDX-License-Identifier: BSD-3-Clause
// `stats hotkeys`: the samples of all workers, merged into one list per way.
#include <string>
#include <vector>

#include "daemon/stats/dump.h"
#include "daemon/stats/hot_keys.h"
#include "daemon/stats/own_stats.h"
#include "daemon/stats/stats.h"

namespace farcached::daemon {

namespace {

void write_way(StatWriter& out, std::string_view way, const std::vector<const SpaceSaving*>& streams, uint64_t one_in) {
    const std::string prefix = std::string(way) + ":";
    uint64_t sampled = 0;
    for (const SpaceSaving* stream : streams) sampled += stream->total();
    out.numbers(hot_way_rows, HotWayShown{sampled}, prefix);
    uint32_t rank = 0;
    for (const HotKey& hot : hottest(streams, HotKeys::shown_max)) {
        const std::string front = prefix + std::to_string(++rank) + ":";
        const HotKeyShown shown{hot, one_in};
        for (const auto& row : hot_key_rows) out.text(front + std::string(row.name), row.of(shown));
    }
}

}  // namespace

void write_hot_keys(StatWriter out, ServerView& server) {
    HotKeysShown all{.one_in = server.hot_keys_one_in()};
    std::vector<HotKeys::Copy> copies;
    for (uint32_t worker = 0; worker < server.worker_count(); worker++) {
        const HotKeys* keys = server.hot_keys(worker);
        if (keys == nullptr) continue;
        all.missed += copies.emplace_back(keys->copy()).missed;
    }
    out.numbers(hot_keys_rows, all);
    for (size_t way = 0; way < way_names.size(); way++) {
        std::vector<const SpaceSaving*> streams;
        for (const HotKeys::Copy& copy : copies)
            if (copy.ways[way] != nullptr) streams.push_back(copy.ways[way].get());
        if (!streams.empty()) write_way(out, way_names[way], streams, all.one_in);
    }
}

void reset_hot_keys(ServerView& server) {
    for (uint32_t worker = 0; worker < server.worker_count(); worker++)
        if (HotKeys* keys = server.hot_keys(worker)) keys->reset();
}

}  // namespace farcached::daemon
