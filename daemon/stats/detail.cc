// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/detail.h"

#include "daemon/stats/dump.h"

namespace farcached::daemon {

PrefixStats::Counts* PrefixStats::find(std::string_view key) {
    const char ends[2] = {delimiter_, '\0'};
    size_t size = key.find_first_of(std::string_view(ends, 2));
    if (size == std::string_view::npos) return nullptr;
    if (key[size] != delimiter_) return nullptr;
    std::string_view prefix = key.substr(0, size);
    auto found = prefixes_.find(prefix);
    if (found != prefixes_.end()) return &found->second;
    if (prefixes_.size() >= prefixes_max) return nullptr;
    return &prefixes_[std::string(prefix)];
}

void PrefixStats::count_get(std::string_view key, bool hit) {
    if (!on()) return;
    std::lock_guard held(lock_);
    Counts* counts = find(key);
    if (counts == nullptr) return;
    counts->gets++;
    if (hit) counts->hits++;
}

void PrefixStats::count_set(std::string_view key) {
    if (!on()) return;
    std::lock_guard held(lock_);
    if (Counts* counts = find(key)) counts->sets++;
}

void PrefixStats::count_delete(std::string_view key) {
    if (!on()) return;
    std::lock_guard held(lock_);
    if (Counts* counts = find(key)) counts->deletes++;
}

void PrefixStats::dump(OutBuffer& out) const {
    std::lock_guard held(lock_);
    for (const auto& [prefix, counts] : prefixes_) {
        out.append("PREFIX ");
        append_printable(out, prefix);
        out.append(" get ");
        out.append_number(counts.gets);
        out.append(" hit ");
        out.append_number(counts.hits);
        out.append(" set ");
        out.append_number(counts.sets);
        out.append(" del ");
        out.append_number(counts.deletes);
        out.append("\r\n");
    }
    out.append("END\r\n");
}

void PrefixStats::clear() {
    std::lock_guard held(lock_);
    prefixes_.clear();
}

}  // namespace farcached::daemon
