// SPDX-License-Identifier: BSD-3-Clause
// Text commands without a single key: flush_all, version, verbosity, stats, watch, dumps, shutdown, quit, and those that Admin
// implements.
#include "base/limits.h"
#include "daemon/commands/cluster_list.h"
#include "daemon/commands/text_engine.h"
#include "daemon/stats/dump.h"
#include "daemon/stats/server_view.h"
#include "daemon/stats/stats_sample.h"
#include "node/service/node_stats.h"
#include "protocol/text_keys.h"

namespace farcached::daemon::text {

namespace {

using protocol::TextRequest;
using protocol::TextVerb;

// memcached's version: clients parse and compare it, and the behaviour is that version's.
constexpr std::string_view version_line = "VERSION 1.6.45";

std::string_view first_word(std::string_view args) { return args.substr(0, args.find(' ')); }

// True: an earlier request in this pipeline has or may have an unsent reply.
bool pipelined(const Call& call) {
    if (call.session.replies != nullptr && !call.session.replies->empty()) return true;
    return call.progress.requests != 0 || !call.out.empty();
}

class FlushCompletion : Completing<NoReply> {
  public:
    using Completing::Completing;
    void done(const protocol::DoneReply&) { say_unless(asked_.noreply, to_.out, "OK"); }
    void unavailable() { answer_unavailable(to_, asked_.noreply); }
};

void flush_all(Call& call, const TextRequest& request) {
    Context& context = call.context;
    context.counters.cmd_flush.add(1);
    if (!context.options.flush_enabled)
        return say_unless(request.noreply, call.out, "CLIENT_ERROR flush_all not allowed");
    int64_t delay = 0;
    std::string_view word = first_word(request.args);
    bool given = !word.empty() && request.args != "noreply";
    if (given && !protocol::parse_int32(word, delay))
        return say_unless(request.noreply, call.out, "CLIENT_ERROR invalid exptime argument");
    NodeSeconds when = context.seconds(delay);
    const bool at_once = delay <= 0 || when <= context.now;
    protocol::FlushOp op;
    if (!at_once) op.at = when;
    ask<FlushCompletion>(call, op, NoReply{request.noreply});
    context.admin.flushed(at_once ? context.now : when);
}

// `shutdown` and `shutdown graceful`: true if the connection ends with it.
bool shut_down(Call& call, const TextRequest& request) {
    if (!call.context.options.shutdown_enabled) {
        say_unless(request.noreply, call.out, "SERVER_ERROR: shutdown not enabled");
        return false;
    }
    if (!request.args.empty() && request.args != "graceful") {
        say_unless(request.noreply, call.out, "CLIENT_ERROR invalid shutdown mode");
        return false;
    }
    call.context.admin.shutdown(!request.args.empty());
    return true;
}

void drain(Call& call, const TextRequest& request) {
    if (!call.session.admin) return say_unless(request.noreply, call.out, "ERROR");
    const bool on = request.verb == TextVerb::drain;
    if (request.args.empty() || request.args.find(' ') != request.args.npos)
        return say(call.out, on ? "CLIENT_ERROR usage: drain NODE" : "CLIENT_ERROR usage: undrain NODE");
    call.context.admin.drain(request.args, on, call.out);
}

// Replies before the reload is done; `stats config` has its result.
void reload(Call& call, const TextRequest& request) {
    if (!call.session.admin) return say_unless(request.noreply, call.out, "ERROR");
    if (!request.args.empty()) return say(call.out, "CLIENT_ERROR usage: reload");
    call.context.admin.reload();
    say(call.out, "OK");
}

class PrefixCompletion : Completing<NoRecord> {
  public:
    using Completing::Completing;
    void done(const protocol::DoneReply& reply) {
        say(to_.out, reply.done ? "OK" : "SERVER_ERROR too many prefixes wait to be swept; try again later");
    }
    void unavailable() {
        to_.context.counters.mutations_unavailable.add(1);
        say(to_.out, "SERVER_ERROR not every node has confirmed: one is down, too old, or has too many prefixes to sweep; "
                    "see farctl status, and try again");
    }
};

void delete_prefix(Call& call, const TextRequest& request) {
    if (!call.session.admin) return say_unless(request.noreply, call.out, "ERROR");
    const std::string_view prefix = request.args;
    if (prefix.empty() || prefix.find(' ') != prefix.npos || prefix.size() > limits::key_bytes_max)
        return say(call.out, "CLIENT_ERROR usage: delete_prefix PREFIX, which is one word of at most 250 bytes");
    call.context.counters.cmd_delete_prefix.add(1);
    protocol::FlushOp op;
    op.prefix = prefix;
    ask<PrefixCompletion>(call, op, NoRecord{});
}

void append_node_rows(OutBuffer& out, std::string_view node, std::string_view text) {
    each_line(text, [&](std::string_view name, std::string_view value) {
        for (std::string_view part : {std::string_view("STAT "), node, std::string_view(":"), name, std::string_view(" "), value})
            out.append(part);
        out.append("\r\n");
    });
}

// ReplySlot::Complete.
void complete_node_rows(ReplySlot& slot, const ReplyTarget& to) {
    each_told(stats_told(slot), [&](std::string_view node, std::optional<std::string_view> text) {
        append_node_rows(to.out, node, text.value_or("state unavailable\n"));
    });
    say(to.out, "END");
}

// Starts the count that a token names in each node, or polls it: rows "node:name" (node/service/node_stats.h).
void count_prefix(Call& call, const TextRequest& request) {
    if (!call.session.admin) return say_unless(request.noreply, call.out, "ERROR");
    const std::string group = "prefix " + std::string(request.args);
    const size_t blank = request.args.find(' ');
    const bool is_two = blank != request.args.npos && request.args.find(' ', blank + 1) == request.args.npos;
    if (!is_two || group.size() > limits::key_bytes_max)
        return say(call.out, "CLIENT_ERROR usage: count_prefix deleted|TOKEN PREFIX, which together have at most 242 bytes");
    LocalPeer* peer = call.context.router.local();
    if (peer == nullptr) return ask_stats(call, StatsNeed{true, group, ""}, "", "", NoRecord{}, &complete_node_rows);
    std::string text;
    node::append_prefix_count(peer->node(), request.args, text);
    append_node_rows(call.out, "(embedded)", text);
    say(call.out, "END");
}

// Keys in use, and the number of items, of each node.
void sample_keys(Call& call, const TextRequest& request) {
    if (!call.session.admin) return say_unless(request.noreply, call.out, "ERROR");
    if (!request.args.empty()) return say(call.out, "CLIENT_ERROR usage: sample_keys");
    if (!call.context.options.dump_enabled) return say(call.out, "CLIENT_ERROR sample_keys not allowed");
    LocalPeer* peer = call.context.router.local();
    if (peer == nullptr) return ask_stats(call, StatsNeed{true, "key_sample", ""}, "", "", NoRecord{}, &complete_node_rows);
    std::string text;
    node::append_key_sample(peer->node(), call.context.now, text);
    append_node_rows(call.out, "(embedded)", text);
    say(call.out, "END");
}

// Any form other than `config get KEY` is an unknown command, `config set` too: clients cannot change the list.
void config(Call& call, const TextRequest& request) {
    const ClusterList list = cluster_list(call.context);
    std::string_view words = request.args;
    const std::string_view what = protocol::take_word(words), name = protocol::take_word(words);
    if (list == nullptr || what != "get" || name.empty() || !words.empty())
        return say_unless(request.noreply, call.out, "ERROR");
    if (name == cluster_name) {
        call.context.counters.cmd_config_get.add(1);
        say(call.out, "CONFIG cluster 0 " + std::to_string(list->text.size()));
        say(call.out, list->text);
    }
    say(call.out, "END");
}

struct WatchWord {
    std::string_view word;
    uint32_t flags;
};

constexpr WatchWord watch_words[] = {
    {"fetchers", watch_fetchers},   {"mutations", watch_mutations},
    {"evictions", watch_evictions}, {"deletions", watch_deletions},
    {"connevents", watch_connevents},
    {"rawcmds", watch_silent},      {"sysevents", watch_silent},
    {"proxyreqs", watch_proxyreqs}, {"proxyevents", watch_proxyevents},
    {"proxyuser", watch_silent},    {"refusals", watch_refusals},
};

bool add_watch_word(std::string_view word, uint32_t& flags) {
    for (const WatchWord& known : watch_words) {
        if (known.word != word) continue;
        flags |= known.flags;
        return true;
    }
    return false;
}

bool parse_watch(std::string_view args, uint32_t& flags) {
    if (args.empty()) flags = watch_fetchers;
    while (!args.empty()) {
        std::string_view word = first_word(args);
        if (!add_watch_word(word, flags)) return false;
        args.remove_prefix(word.size());
        while (!args.empty() && args.front() == ' ') args.remove_prefix(1);
    }
    return true;
}

Step watch(Call& call, const TextRequest& request) {
    std::string_view refusal;
    if (!call.context.options.watch_enabled)
        refusal = "CLIENT_ERROR watch commands not allowed";
    else if (pipelined(call))
        refusal = "ERROR cannot pipeline other commands before watch";
    else if (!parse_watch(request.args, call.progress.watch_flags))
        refusal = "ERROR";
    if (!refusal.empty()) {
        say(call.out, refusal);
        return Step::done;
    }
    call.progress.next = Next::watch;
    return Step::stop;
}

// "all", "hash", or size classes separated by commas.
bool parse_dump_classes(std::string_view text, Progress& progress) {
    progress.hash_order = text == "hash";
    progress.dump_classes = parse_crawl_classes(progress.hash_order ? "all" : text);
    return progress.dump_classes != 0;
}

Step dump(Call& call, const TextRequest& request) {
    std::string_view refusal;
    if (!call.context.options.crawler_enabled)
        refusal = "CLIENT_ERROR lru crawler disabled";
    else if (!call.context.options.dump_enabled)
        refusal = request.mgdump ? "ERROR key dump not allowed" : "ERROR metadump not allowed";
    else if (!call.context.router.has_items())
        refusal = items_in_nodes;
    else if (pipelined(call))
        refusal = request.mgdump ? "ERROR cannot pipeline other commands before mgdump"
                                 : "ERROR cannot pipeline other commands before metadump";
    else if (!parse_dump_classes(request.args, call.progress))
        refusal = "BADCLASS invalid class id";
    if (!refusal.empty()) {
        say_unless(request.noreply, call.out, refusal);
        return Step::done;
    }
    call.progress.mgdump = request.mgdump;
    call.progress.next = Next::dump;
    return Step::stop;
}

void tune(Call& call, const TextRequest& request) {
    size_t before = call.out.size();
    call.context.admin.tune(request.line, call.out);
    if (request.noreply) call.out.truncate(before);
}

// ReplySlot::Complete.
void complete_stats(ReplySlot& slot, const ReplyTarget& to) {
    to.context.admin.stats_text(slot.words(), stats_told(slot), to.out);
}

Step stats(Call& call, const TextRequest& request) {
    if (stats_must_wait(call, request.args, call.progress)) return Step::wait;
    Admin& admin = call.context.admin;
    const StatsNeed need = admin.stats_need(request.args);
    if (need.nodes)
        ask_stats(call, need, "", request.args, NoRecord{}, &complete_stats);
    else
        admin.stats_text(request.args, "", call.out);
    return Step::done;
}

// Streams, and what changes the process: a forged sender must not.
bool is_refused_over_udp(const TextRequest& request) {
    using enum TextVerb;
    const TextVerb verb = request.verb;
    if (verb == stats) return are_refused_over_udp(request.args);
    return verb == watch || verb == dump || verb == shutdown || verb == tune || verb == verbosity;
}

Step close(Call& call) {
    call.progress.next = Next::close;
    return Step::stop;
}

}  // namespace

Step run_admin(Call& call, const TextRequest& request) {
    if (call.session.datagram && is_refused_over_udp(request)) {
        say_unless(request.noreply, call.out, "CLIENT_ERROR not allowed over UDP");
        return Step::done;
    }
    switch (request.verb) {
        case TextVerb::flush_all: flush_all(call, request); return Step::done;
        case TextVerb::version: say(call.out, version_line); return Step::done;
        case TextVerb::verbosity:
            call.context.admin.verbosity(uint32_t(request.number));
            say_unless(request.noreply, call.out, "OK");
            return Step::done;
        case TextVerb::stats: return stats(call, request);
        case TextVerb::tune: tune(call, request); return Step::done;
        case TextVerb::drain:
        case TextVerb::undrain: drain(call, request); return Step::done;
        case TextVerb::reload: reload(call, request); return Step::done;
        case TextVerb::delete_prefix: delete_prefix(call, request); return Step::done;
        case TextVerb::count_prefix: count_prefix(call, request); return Step::done;
        case TextVerb::sample_keys: sample_keys(call, request); return Step::done;
        case TextVerb::config: config(call, request); return Step::done;
        case TextVerb::watch: return watch(call, request);
        case TextVerb::dump: return dump(call, request);
        case TextVerb::shutdown: return shut_down(call, request) ? close(call) : Step::done;
        default: CHECK(request.verb == TextVerb::quit); return close(call);
    }
}

}  // namespace farcached::daemon::text
