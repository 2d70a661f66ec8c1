// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/node_link.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace farcached::proxy {

NodeLink::NodeLink(const LinkConfig& config, const Dependencies& deps)
    : deps_(deps),
      connect_timeout_ns_(config.connect_timeout_ns),
      clock_(config.host_zero_ns),
      notes_(counters_, {config.report_interval_ns, config.report_items, config.seed, deps.table, config.share_reports}),
      requests_(config, {deps.table, deps.landing, deps.lending, clock_, counters_, notes_, deps.events}),
      reports_(notes_, requests_.pointers(), counters_, config.unsent_bytes_max),
      way_down_(config.reconnect, config.steady_ns, config.seed),
      connection_({deps_.clock, deps.events, clock_, counters_, notes_, requests_, reports_, way_down_},
                  Greeting(config.hello, clock_, config.key, deps.shortcut), Liveness(config.silence_ns, config.ping_ns)) {}

NodeLink::~NodeLink() { CHECK(state() == LinkState::idle); }

// ---- connecting, and going down ---------------------------------------------------------------------

void NodeLink::start(uint64_t now_ns) {
    if (deps_.shortcut != nullptr) deps_.shortcut->failed = false;
    connect(now_ns);
}

void NodeLink::connect(uint64_t now_ns) {
    connection_.greeting().as_newest();
    deadline_ns_ = now_ns + connect_timeout_ns_;
    open_channel(now_ns);
}

void NodeLink::open_channel(uint64_t now_ns) {
    if (!connection_.open(deps_.make_channel)) go_down(now_ns);
}

void NodeLink::stop(uint64_t now_ns) noexcept {
    CHECK(!connection_.inside());
    if (state() == LinkState::idle) return;
    if (up()) connection_.say_goodbye(now_ns);
    counters_.downs[size_t(LinkDown::stopped)].add(1);
    way_down_.cancel();
    connection_.enter(LinkState::idle);
    connection_.close();
    fail_requests(AskFailure::node_down);
    if (requests_.retry_pays(connection_.progressed())) deps_.events.room();
}

void NodeLink::use_key(std::shared_ptr<const protocol::AuthKey> key) {
    CHECK(state() == LinkState::idle);
    connection_.greeting().use_key(std::move(key));
}

void NodeLink::drop(LinkDown why, uint64_t now_ns) noexcept {
    connection_.leave_call();
    if (state() == LinkState::idle || state() == LinkState::waiting) return;
    way_down_.cancel();
    connection_.break_off(why, why == LinkDown::no_memory ? "out of memory" : "node replaced");  // too short for an allocation
    go_down(now_ns);
}

void NodeLink::go_down(uint64_t now_ns) {
    CHECK(!connection_.inside());
    Down down = way_down_.take();
    if (state() == LinkState::greeting && connection_.greeting().as_older(down)) {
        connection_.close();
        return open_channel(now_ns);
    }
    down = connection_.greeting().reason(std::move(down));
    if (leaves_shortcut(down)) {
        connection_.close();
        deps_.events.shortcut_failed(down.text);
        return connect(now_ns);
    }
    const LinkDown why = down.why;
    const bool was_up = state() == LinkState::up || state() == LinkState::leaving;
    deadline_ns_ = way_down_.next_try_ns(why, was_up, now_ns);
    connection_.enter(LinkState::waiting);
    counters_.downs[size_t(why)].add(1);
    requests_lost_ = requests_.under_way();
    connection_.close();
    fail_requests(why == LinkDown::bad_frame ? AskFailure::bad_reply : AskFailure::node_down);
    if (const Down* news = way_down_.news(std::move(down), was_up)) deps_.events.went_down(news->why, news->text);
    if (requests_.retry_pays(connection_.progressed())) deps_.events.room();
}

// True: the next connection is made at once, without the shortcut.
bool NodeLink::leaves_shortcut(const Down& down) {
    if (state() != LinkState::connecting && state() != LinkState::greeting) return false;
    if (deps_.shortcut == nullptr || !deps_.shortcut->taken || deps_.shortcut->failed) return false;
    if (down.why == LinkDown::no_memory) return false;
    deps_.shortcut->failed = true;
    return true;
}

void NodeLink::fail_requests(AskFailure why) {
    reports_.end();
    requests_.fail_all(why);
    notes_.drop_all();
    connection_.note_progress();
}

// ---- ticks ------------------------------------------------------------------------------------------

void NodeLink::ready(uint64_t now_ns) {
    if (connection_.channel() == nullptr) return;
    connection_.begin_call();
    connection_.ready();
    settle(now_ns);
}

bool NodeLink::flush(uint64_t now_ns) {
    if (connection_.channel() == nullptr) return false;
    connection_.begin_call();
    connection_.send(now_ns);
    settle(now_ns);
    requests_.count_accesses();
    return connection_.progressed();
}

// The work that waited for the channel's calls to return.
void NodeLink::settle(uint64_t now_ns) {
    if (requests_.anything_read()) {
        requests_.judge_reads(deps_.clock());
        connection_.note_progress();
    }
    if (requests_.take_elsewhere_ended()) connection_.note_progress();
    connection_.count_due();
    if (!way_down_.begun() && requests_.ask_fallbacks()) connection_.note_progress();
    if (state() == LinkState::leaving && requests_.under_way() == 0) way_down_.begin_goodbye();
    if (way_down_.begun()) return go_down(now_ns);
    if (requests_.retry_pays(connection_.progressed())) deps_.events.room();
}

uint64_t NodeLink::tick(uint64_t now_ns) {
    CHECK(!connection_.inside());
    connection_.begin_call();
    switch (state()) {
        case LinkState::idle: break;
        case LinkState::waiting:
            if (now_ns >= deadline_ns_) start(now_ns);
            break;
        case LinkState::connecting:
        case LinkState::greeting:
            if (now_ns >= deadline_ns_)
                connection_.break_off(LinkDown::connect_timeout, connection_.channel()->describe() + ": no greeting in time");
            settle(now_ns);
            break;
        case LinkState::up:
        case LinkState::leaving:
            if (requests_.expire(now_ns)) connection_.note_progress();
            if (now_ns >= connection_.liveness().silent_at_ns())
                connection_.break_off(LinkDown::silent, connection_.channel()->describe() + ": the node does not respond");
            else if (up() && now_ns >= connection_.liveness().ping_at_ns())
                connection_.liveness().ping(requests_.small(), now_ns);
            reports_.send_due(now_ns);
            settle(now_ns);
            if (requests_.anything_to_send() || notes_.unanswered()) flush(now_ns);
            break;
    }
    return next_tick_ns();
}

uint64_t NodeLink::next_tick_ns() const {
    switch (state()) {
        case LinkState::idle: return UINT64_MAX;
        case LinkState::waiting:
        case LinkState::connecting:
        case LinkState::greeting: return deadline_ns_;
        case LinkState::up:
        case LinkState::leaving: break;
    }
    return std::min({requests_.next_deadline_ns(), connection_.liveness().silent_at_ns(),
                     up() ? connection_.liveness().ping_at_ns() : UINT64_MAX, reports_.due_ns()});
}

}  // namespace farcached::proxy
