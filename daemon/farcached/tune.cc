// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farcached/admin.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>

#include "daemon/session/tls.h"
#include "daemon/stats/dump.h"
#include "daemon/stats/stats.h"
#include "node/store/away_items.h"
#include "protocol/layout.h"
#include "protocol/text_keys.h"

namespace farcached::daemon {

namespace {

constexpr std::string_view ok = "OK";
constexpr std::string_view error = "ERROR";
constexpr std::string_view bad_format = "CLIENT_ERROR bad command line format";

bool parse_number(std::string_view word, uint32_t& out) {
    uint64_t wide = 0;
    if (!protocol::parse_digits(word, UINT32_MAX, wide)) return false;
    out = uint32_t(wide);
    return true;
}

bool parse_decimal(std::string_view word, double& out) {
    std::string text(word);
    char* end = nullptr;
    double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0') return false;
    if (!std::isfinite(value)) return false;
    out = value;
    return true;
}

std::string decimal(double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

std::string_view yes_no(bool yes) { return yes ? "yes" : "no"; }

// ---- cache_memlimit <megabytes> -----------------------------------------------------------------------

std::string_view tune_memory_limit(const TuneTargets& t, const LineWords& words) {
    constexpr uint32_t megabytes_max = 1'000'000'000;
    uint32_t megabytes = 0;
    if (words.size() < 2 || words.size() > 3) return error;
    if (!parse_number(words[1], megabytes)) {
        const bool digits = words[1].find_first_not_of("0123456789") == words[1].npos;
        return digits ? "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes" : error;
    }
    if (megabytes < 8) return "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m";
    if (megabytes > megabytes_max)
        return "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes";
    uint64_t bytes = uint64_t(megabytes) << 20;
    if (!t.embedded->node.set_memory_limit(bytes, t.now))
        return "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust";
    t.settings.set("maxbytes", std::to_string(bytes));
    return ok;
}

// ---- slabs reassign|automove --------------------------------------------------------------------------

bool is_class(const node::Stats& stats, int64_t id) {
    if (id == 0) return true;  // memcached's pool of pages without a class
    if (id < 0 || id >= int64_t(stats.classes.size())) return false;
    return stats.classes[size_t(id)].slot_bytes != 0 || id == layout::large_class;
}

// Pages move between classes as stores need them: there is nothing to schedule, and no page is spare.
std::string_view reassign(const TuneTargets& t, const LineWords& words) {
    if (t.settings.get("slab_reassign") == "no") return "CLIENT_ERROR slab reassignment disabled";
    int64_t from = 0, to = 0;
    if (!protocol::parse_int32(words[2], from)) return bad_format;
    if (!protocol::parse_int32(words[3], to)) return bad_format;
    if (from == to) return "SAME src and dst class are identical";
    node::Stats stats = t.embedded->node.stats(t.now);
    if (!is_class(stats, from) || !is_class(stats, to)) return "BADCLASS invalid src or dst class id";
    return "NOSPARE source class has no spare pages";
}

std::string_view automove(const TuneTargets& t, const LineWords& words) {
    double ratio = 0;
    uint32_t number = 0;
    if (words[2] == "ratio" || words[2] == "freeratio") {
        if (!parse_decimal(words[3], ratio)) return error;
        bool free = words[2] == "freeratio";
        t.settings.set(free ? "slab_automove_freeratio" : "slab_automove_ratio",
                       decimal(ratio, free ? 3 : 2));
        return ok;
    }
    if (words[2] == "window") {
        if (!parse_number(words[3], number)) return bad_format;
        t.settings.set("slab_automove_window", std::to_string(number));
        return ok;
    }
    if (!parse_number(words[2], number)) return bad_format;
    if (number > 2) return error;
    t.settings.set("slab_automove", std::to_string(number));
    return ok;
}

std::string_view tune_slabs(const TuneTargets& t, const LineWords& words) {
    if (words.size() == 4 && words[1] == "reassign") return reassign(t, words);
    if (words.size() >= 3 && words[1] == "automove") return automove(t, words);
    return error;
}

// ---- lru tune|mode|temp_ttl ---------------------------------------------------------------------------

std::string_view tune_shares(const TuneTargets& t, const LineWords& words) {
    uint32_t hot = 0, warm = 0;
    double hot_factor = 0, warm_factor = 0;
    bool good = parse_number(words[2], hot) && parse_number(words[3], warm) &&
                parse_decimal(words[4], hot_factor) && parse_decimal(words[5], warm_factor);
    if (!good) return error;
    if (uint64_t(hot) + warm > 80) return "ERROR hot and warm pcts must not exceed 80";
    if (hot_factor <= 0 || warm_factor <= 0)
        return "ERROR hot/warm age factors must be greater than 0";
    t.settings.set("hot_lru_pct", std::to_string(hot));
    t.settings.set("warm_lru_pct", std::to_string(warm));
    t.settings.set("hot_max_factor", decimal(hot_factor, 2));
    t.settings.set("warm_max_factor", decimal(warm_factor, 2));
    return ok;
}

std::string_view set_mode(const TuneTargets& t, std::string_view mode) {
    if (mode != "flat" && mode != "segmented") return error;
    t.settings.set("lru_segmented", yes_no(mode == "segmented"));
    return ok;
}

std::string_view set_temporary_ttl(const TuneTargets& t, std::string_view word) {
    int64_t seconds = 0;
    if (!protocol::parse_int32(word, seconds)) return error;
    t.settings.set("temp_lru", yes_no(seconds >= 0));
    if (seconds >= 0) t.settings.set("temporary_ttl", std::to_string(seconds));
    return ok;
}

std::string_view tune_lru(const TuneTargets& t, const LineWords& words) {
    if (words[1] == "tune" && words.size() >= 6) return tune_shares(t, words);
    if (words.size() < 3 || t.settings.get("lru_maintainer_thread") == "no") return error;
    if (words[1] == "mode") return set_mode(t, words[2]);
    if (words[1] == "temp_ttl") return set_temporary_ttl(t, words[2]);
    return error;
}

// ---- lru_crawler --------------------------------------------------------------------------------------

std::string_view crawl(const TuneTargets& t, std::string_view which) {
    if (!t.embedded->crawler.enabled()) return "CLIENT_ERROR lru crawler disabled";
    if (which == "hash") return "ERROR an unknown error happened";
    uint64_t classes = parse_crawl_classes(which);
    if (classes == 0) return "BADCLASS invalid class id";
    switch (t.embedded->crawler.crawl(classes)) {
        case node::Crawler::StartResult::ok: return ok;
        case node::Crawler::StartResult::busy: return "BUSY currently processing crawler request";
        case node::Crawler::StartResult::disabled: break;
    }
    return "CLIENT_ERROR lru crawler disabled";
}

std::string_view set_crawler_sleep(const TuneTargets& t, std::string_view word) {
    constexpr uint32_t sleep_us_max = 1'000'000;
    uint32_t microseconds = 0;
    if (!parse_number(word, microseconds)) return bad_format;
    if (microseconds > sleep_us_max) return "CLIENT_ERROR sleep must be one second or less";
    t.embedded->crawler.set_sleep(microseconds);
    t.settings.set("lru_crawler_sleep", std::to_string(microseconds));
    return ok;
}

std::string_view set_to_crawl(const TuneTargets& t, std::string_view word) {
    uint32_t items = 0;
    if (!parse_number(word, items)) return bad_format;
    t.embedded->crawler.set_to_crawl(items);
    t.settings.set("lru_crawler_tocrawl", std::to_string(items));
    return ok;
}

// As memcached: enabling a running crawler fails, disabling a stopped one succeeds.
std::string_view turn_crawler(const TuneTargets& t, bool on) {
    if (on && !t.embedded->crawler.enable()) return "ERROR failed to start lru crawler thread";
    if (!on) t.embedded->crawler.disable();
    t.settings.set("lru_crawler", yes_no(on));
    return ok;
}

std::string_view tune_crawler(const TuneTargets& t, const LineWords& words) {
    if (words.size() == 2 && words[1] == "enable") return turn_crawler(t, true);
    if (words.size() == 2 && words[1] == "disable") return turn_crawler(t, false);
    if (words.size() != 3) return error;
    if (words[1] == "crawl") return crawl(t, words[2]);
    if (words[1] == "sleep") return set_crawler_sleep(t, words[2]);
    if (words[1] == "tocrawl") return set_to_crawl(t, words[2]);
    return error;
}

// ---- extstore -----------------------------------------------------------------------------------------

// Changes what the options of the same names set; those without an effect are shown only.
void change_spill(node::SpillRules& rules, std::string_view name, uint32_t number) {
    if (name == "item_size") rules.value_bytes_min = number;
    if (name == "item_age") rules.idle_s = number;
    if (name == "recache_rate") rules.recache_rate = number;
    if (name == "drop_unread") rules.drop_unread = number != 0;
}

std::string_view tune_extstore(const TuneTargets& t, const LineWords& words) {
    constexpr std::string_view numbers[] = {"item_size",     "item_age",   "low_ttl",  "recache_rate",
                                            "compact_under", "drop_under", "max_sleep"};
    uint32_t number = 0, limit = 0;
    if (words.size() < 3) return error;
    std::string name = "ext_" + std::string(words[1]);
    if (words[1] == "max_frag") {
        double share = 0;
        if (!parse_decimal(words[2], share)) return error;
        t.settings.set(name, decimal(share, 2));
        return ok;
    }
    if (!parse_number(words[2], number)) return error;
    if (words[1] == "free_memchunks")
        return parse_number(words[3], limit) && number < 64 ? ok : error;
    if (t.embedded != nullptr) change_spill(t.embedded->node.away().rules(), words[1], number);
    if (words[1] == "drop_unread") {
        t.settings.set(name, yes_no(number != 0));
        return ok;
    }
    for (std::string_view known : numbers) {
        if (known != words[1]) continue;
        t.settings.set(name, std::to_string(number));
        return ok;
    }
    return error;
}

}  // namespace

bool tunes_memory(std::string_view line) {
    constexpr std::string_view commands[] = {"cache_memlimit", "slabs", "lru", "lru_crawler"};
    return std::find(std::begin(commands), std::end(commands), LineWords(line)[0]) != std::end(commands);
}

namespace {

std::string_view tune_words(const TuneTargets& targets, const LineWords& words) {
    if (words[0] == "cache_memlimit") return tune_memory_limit(targets, words);
    if (words[0] == "slabs") return tune_slabs(targets, words);
    if (words[0] == "lru") return tune_lru(targets, words);
    if (words[0] == "lru_crawler") return tune_crawler(targets, words);
    if (words[0] == "extstore") return tune_extstore(targets, words);
    return error;
}

}  // namespace

std::string tune(const TuneTargets& targets, std::string_view line) {
    const LineWords words(line);
    if (words[0] != "refresh_certs") return std::string(tune_words(targets, words));
    return targets.keys != nullptr ? targets.keys->refresh() : "Error TLS not enabled";
}

}  // namespace farcached::daemon
