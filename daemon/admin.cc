// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/admin.h"

#include <algorithm>

#include "daemon/dump.h"
#include "daemon/nodes_view.h"
#include "daemon/stats_words.h"
#include "daemon/tune.h"
#include "protocol/text_number.h"

namespace farcached::daemon {

namespace {

constexpr uint32_t verbosity_max = 2;      // memcached's MAX_VERBOSITY_LEVEL
constexpr uint64_t cachedump_classes = 64;

void say(OutBuffer& out, std::string_view text) {
    out.append(text);
    out.append("\r\n");
}

constexpr std::string_view detail_usage = "CLIENT_ERROR usage: stats detail on|off|dump";
constexpr std::string_view detail_forbidden = "CLIENT_ERROR stats detail not allowed";

}  // namespace

AdminImpl::AdminImpl(node::Node& node, ServerView& server, WatchHub& watch, Crawler& crawler,
                     EngineOptions& engine_options, AdminOptions options)
    : node_(node),
      server_(server),
      watch_(watch),
      crawler_(crawler),
      engine_options_(engine_options),
      options_(std::move(options)),
      settings_(options_.settings),
      prefixes_(options_.prefix_delimiter) {
    prefixes_.turn(engine_options_.detail_enabled);
    engine_options_.crawler_enabled = crawler_.enabled();
}

// ---- stats --------------------------------------------------------------------------------------------

Sample AdminImpl::sample() const {
    Sample now = take_sample(node_, server_, watch_, crawler_);
    std::lock_guard held(lock_);
    if (baseline_ != nullptr) subtract(now, *baseline_);
    return now;
}

void AdminImpl::reset() {
    auto now = std::make_unique<const Sample>(take_sample(node_, server_, watch_, crawler_));
    {
        std::lock_guard held(lock_);
        baseline_ = std::move(now);
    }
    prefixes_.clear();
}

bool AdminImpl::write_group(std::string_view group, StatWriter out) {
    if (group.empty()) {
        GeneralOptions general = {options_.max_connections, options_.maxconns_fast,
                                  options_.idle_timeout, options_.own_version};
        write_general(out, sample(), general);
    } else if (group == "settings") {
        settings_.each([&](std::string_view name, std::string_view value) { out.text(name, value); });
    } else if (group == "items") {
        write_items(out, sample(), settings_.get("temp_lru") == "yes");
    } else if (group == "slabs") {
        write_slabs(out, sample());
    } else if (group == "sizes") {
        if (options_.track_sizes)
            write_sizes(out, node_, server_.now());
        else
            out.text("sizes_status", "disabled");
    } else if (group == "conns") {
        write_connections(out, server_);
    } else if (group == "proxy") {
        write_proxy(out, sample());
    } else {
        return group == "extstore";  // built in, but there is no storage: nothing to say
    }
    return true;
}

void AdminImpl::stats_text(std::string_view args, OutBuffer& out) {
    LineWords words(args);
    std::string_view group = words[0];
    if (group == "reset") {
        reset();
        return say(out, "RESET");
    }
    if (group == "detail") return stats_detail(words[1], out);
    if (group == "cachedump") {
        if (!engine_options_.dump_enabled)
            return say(out, "CLIENT_ERROR stats cachedump not allowed");
        if (words.size() < 3) return say(out, "CLIENT_ERROR bad command line");
        return stats_cachedump(words[1], words[2], out);
    }
    auto emit = [&](std::string_view name, std::string_view value) {
        out.append("STAT ");
        out.append(name);
        out.append(' ');
        out.append(value);
        out.append("\r\n");
    };
    say(out, write_group(group, StatWriter(emit)) ? "END" : "ERROR");
}

bool AdminImpl::stats_binary(std::string_view group, StatWriter::Emit emit) {
    if (group == "reset") {
        reset();
        return true;
    }
    if (group == "detail on" || group == "detail off") {
        if (!engine_options_.dump_enabled) return false;
        turn_detail(group == "detail on");
        return true;
    }
    if (group == "detail dump") {
        if (!engine_options_.dump_enabled) return false;
        OutBuffer text;
        prefixes_.dump(text);
        emit("detailed", std::string_view(text.data(), text.size()));
        return true;
    }
    return write_group(group, StatWriter(emit));
}

void AdminImpl::turn_detail(bool on) {
    prefixes_.turn(on);
    engine_options_.detail_enabled = on;
    settings_.set("detail_enabled", on ? "yes" : "no");
}

void AdminImpl::stats_detail(std::string_view what, OutBuffer& out) {
    if (!engine_options_.dump_enabled) return say(out, detail_forbidden);
    if (what == "dump") return prefixes_.dump(out);
    if (what != "on" && what != "off") return say(out, detail_usage);
    turn_detail(what == "on");
    say(out, "OK");
}

void AdminImpl::stats_cachedump(std::string_view size_class, std::string_view items_max,
                                OutBuffer& out) {
    uint64_t id = 0, items = 0;
    bool good = protocol::parse_digits(size_class, UINT32_MAX, id) &&
                protocol::parse_digits(items_max, UINT32_MAX, items);
    if (!good) return say(out, "CLIENT_ERROR bad command line format");
    if (id >= cachedump_classes) return say(out, "CLIENT_ERROR Illegal slab id");
    append_cachedump(out, node_, uint8_t(id), uint32_t(items), server_.now(),
                     server_.started_unix());
}

// ---- the rest -----------------------------------------------------------------------------------------

void AdminImpl::verbosity(uint32_t level) {
    level = std::min(level, verbosity_max);
    settings_.set("verbosity", std::to_string(level));
    engine_options_.trace = level >= 2;
}

void AdminImpl::tune(std::string_view line, OutBuffer& out) {
    say(out, daemon::tune({node_, crawler_, settings_, server_.now()}, line));
    engine_options_.crawler_enabled = crawler_.enabled();
}

void AdminImpl::flush_at(NodeSeconds when) { crawler_.flush_at(when); }

// memcached's clock reads a minute more than its uptime, and `oldest` is the last second to be flushed.
void AdminImpl::flushed(NodeSeconds when) {
    constexpr uint64_t clock_ahead_s = 60;
    settings_.set("oldest", std::to_string(when + clock_ahead_s - 1));
}

void AdminImpl::drain(std::string_view node, bool on, OutBuffer& out) {
    NodesView* nodes = server_.nodes();
    if (nodes == nullptr) return say(out, "CLIENT_ERROR no nodes are configured");
    if (nodes->drain(node, on)) return say(out, "OK");
    std::string names;
    for (uint32_t i = 0; i < nodes->count(); i++) names += (i == 0 ? "" : ", ") + nodes->shown(i).name;
    say(out, "CLIENT_ERROR no node of this name; nodes: " + names);
}

void AdminImpl::shutdown(bool graceful) { server_.shut_down(graceful); }

void AdminImpl::detail_get(std::string_view key, bool hit) { prefixes_.count_get(key, hit); }

void AdminImpl::detail_set(std::string_view key) { prefixes_.count_set(key); }

void AdminImpl::detail_delete(std::string_view key) { prefixes_.count_delete(key); }

}  // namespace farcached::daemon
