// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote_backend.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstring>
#include <new>
#include <span>

#include "base/boottime.h"
#include "base/check.h"
#include "daemon/remote_backend_node.h"
#include "fabric/validate.h"
#include "protocol/layout.h"

namespace farcached::daemon {

namespace {

constexpr unsigned node_bits = 16;                 // of a gather's cookie
constexpr int flushes_max = 16;                    // in a row, of a connection with ever more to do

// Copies a key, and a store's value, so that they outlive the call.
template <class Op>
void own_key(Op& op, std::string& bytes) {
    if constexpr (requires { op.key; }) {
        bytes = op.key.bytes;
        op.key.bytes = bytes;
    }
    if constexpr (requires { op.group; }) {
        bytes = op.group;
        op.group = bytes;
    }
    if constexpr (requires { op.prefix; }) {
        bytes = op.prefix;
        op.prefix = bytes;
    }
}

std::shared_ptr<const void> own_value(protocol::StoreOp& op) {
    if (op.value.empty()) return nullptr;
    std::shared_ptr<char[]> bytes(new char[op.value.size()]);
    std::memcpy(bytes.get(), op.value.data(), op.value.size());
    op.value = {bytes.get(), op.value.size()};
    return bytes;
}

// False: no memory.
bool keep_text(std::string& kept, std::string_view text) {
    try {
        kept = text;
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

// Without uniques (-C) compares with a value that no item has, and none lower: `ms I` would accept an older one.
template <class Op>
void compare_in_vain(Op& op) {
    bool compares = op.cas_compare.value_or(0) != 0;
    if constexpr (std::is_same_v<Op, protocol::StoreOp>)
        compares = compares || op.mode == protocol::StoreOp::Mode::cas;
    if (compares) op.cas_compare = UINT64_MAX;
}
void hide_cas(protocol::ReplyOp& reply) {
    if (auto* get = std::get_if<protocol::GetReply>(&reply)) get->meta.cas = 0;
    if (auto* store = std::get_if<protocol::StoreReply>(&reply)) store->cas = 0;
    if (auto* arith = std::get_if<protocol::ArithReply>(&reply)) arith->meta.cas = 0;
}

Way way_of(const proxy::Answer& answer) {
    if (!answer.one_sided) return Way::two_sided;
    return answer.by_index ? Way::index : Way::one_sided;
}

template <class Op>
proxy::Asked ask_or_get(proxy::NodeLink& link, const Op& op, const proxy::AskOptions& options, proxy::ReplySink& sink,
                        uint64_t now_ns) {
    if constexpr (std::is_same_v<Op, protocol::GetOp>)
        return link.get(op, options, sink, now_ns);
    else
        return link.ask(op, options, sink);
}

}  // namespace

// ---- answers ----------------------------------------------------------------------------------------

class RemoteBackend::TicketSink final : public proxy::ReplySink {
  public:
    TicketSink(ReplyPool& pool, bool cas) : pool_(pool), cas_(cas) {}
    void answered(uint64_t cookie, proxy::Answer& answer) override {
        const Way way = way_of(answer);
        if (cas_) return pool_.answer(Ticket(cookie), answer.op, answer.value, std::move(answer.owned), way);
        protocol::ReplyOp shown = answer.op;
        hide_cas(shown);
        pool_.answer(Ticket(cookie), shown, answer.value, std::move(answer.owned), way);
    }
    void failed(uint64_t cookie, const proxy::Failed& failed) override {
        pool_.unavailable(Ticket(cookie), proxy::ask_failure_name(failed.why));
    }

  private:
    ReplyPool& pool_;
    const bool cas_;
};

// The replies of all nodes, or of one, for one ticket.
struct RemoteBackend::Gather {
    struct Part {
        bool asked = false, ok = false;
        std::string text;
    };
    Ticket ticket;
    bool stats;
    uint32_t unanswered;
    std::shared_ptr<const NodeSet> set;  // the nodes of `parts`
    std::vector<Part> parts;
};

class RemoteBackend::GatherSink final : public proxy::ReplySink {
  public:
    explicit GatherSink(RemoteBackend& backend) : backend_(backend) {}
    void answered(uint64_t cookie, proxy::Answer& answer) override {
        backend_.gathered(cookie, true, answer.value);
    }
    void failed(uint64_t cookie, const proxy::Failed&) override { backend_.gathered(cookie, false, {}); }

  private:
    RemoteBackend& backend_;
};

// ---- life -------------------------------------------------------------------------------------------

RemoteBackend::RemoteBackend(Nodes& nodes, uint32_t number, event_base* base, ReplyPool& pool)
    : nodes_(nodes),
      number_(number),
      base_(base),
      pool_(pool),
      landing_(landing_bytes),
      lending_(lending_bytes),
      tickets_(std::make_unique<TicketSink>(pool, nodes.cas())),
      gathers_sink_(std::make_unique<GatherSink>(*this)),
      set_(nodes.set()),
      chance_(uint32_t(boottime_ns()) | 1) {
    event_assign(&timer_, base_, -1, 0, on_timer, this);
    for (size_t i = 0; i < set_->members.size(); i++) list_.push_back(make_node(*set_, i));
    touched_.reserve(list_.size());
}

RemoteBackend::~RemoteBackend() {
    list_.clear();
    leaving_.clear();
}

void RemoteBackend::stop() {
    event_del(&timer_);
    for (auto* nodes : {&list_, &leaving_}) {
        for (auto& node : *nodes) {
            if (node->started) node->link.stop(now());
            give_up_postponed(*node, UINT64_MAX);
        }
    }
    CHECK(gathers_.empty());
}

uint64_t RemoteBackend::now() {
    if (now_is_old_) {
        now_ns_ = boottime_ns();
        now_is_old_ = false;
        pool_.answers_at(now_ns_);
    }
    return now_ns_;
}

void RemoteBackend::touched(Node& node) {
    if (node.is_touched) return;
    node.is_touched = true;
    touched_.push_back(&node);
}

void RemoteBackend::on_ready(evutil_socket_t, short, void* argument) {
    Node& node = *static_cast<Node*>(argument);
    node.owner.touched(node);
    node.owner.with_memory(node, [&] { node.link.ready(node.owner.now()); });
}

void RemoteBackend::on_timer(evutil_socket_t, short, void* argument) {
    RemoteBackend& backend = *static_cast<RemoteBackend*>(argument);
    backend.timer_at_ns_ = UINT64_MAX;
    const uint64_t now_ns = backend.now();
    for (auto* nodes : {&backend.list_, &backend.leaving_}) {
        for (auto& node : *nodes) {
            if (node->started) backend.with_memory(*node, [&] { node->link.tick(now_ns); });
            backend.give_up_postponed(*node, now_ns);
            backend.touched(*node);
        }
    }
}

void RemoteBackend::end_tick() {
    Node* only_read = flush_touched();
    if (!leaving_.empty() && retire()) only_read = flush_touched();
    if (only_read != nullptr && !pool_.anything_ready()) come_again(*only_read);
    now_is_old_ = true;
}

// Polls for completions of READs when no reply waits any more. Sends what they lead to now.
void RemoteBackend::come_again(Node& node) {
    bool more = false;
    with_memory(node, [&] { more = node.link.linger(); });
    if (!more) return;
    now_is_old_ = true;
    with_memory(node, [&] { node.link.ready(now()); });
    touched(node);
    flush_touched();
}

// Sends submitted requests, and postponed ones while there is room. Returns a node if it was the only one, and only READs to it
// are under way.
RemoteBackend::Node* RemoteBackend::flush_touched() {
    Node* only_read = nullptr;
    for (size_t i = 0; i < touched_.size(); i++) {
        Node& node = *touched_[i];
        const bool done = with_memory(node, [&] {
            ask_postponed(node);
            for (int n = 0; n < flushes_max && node.link.flush(now()); n++) ask_postponed(node);
        });
        if (!done) ask_postponed(node);  // fails them
        if (touched_.size() == 1 && node.link.waits_for_reads_alone()) only_read = &node;
        if (node.watched_fd >= 0) node.listen(node.link.wants_write() ? EV_READ | EV_WRITE : EV_READ);
        node.is_touched = false;
    }
    if (!touched_.empty()) {
        touched_.clear();
        set_timer();
    }
    return only_read;
}

// The timer may expire too early: it is not set again for each request.
void RemoteBackend::set_timer() {
    uint64_t next = UINT64_MAX;
    for (const auto* nodes : {&list_, &leaving_}) {
        for (const auto& node : *nodes) {
            if (node->started) next = std::min({next, node->link.next_tick_ns(), node->leaves_by_ns});
            if (!node->postponed.empty()) next = std::min(next, node->link.deadline_ns(node->postponed.front().options));
        }
    }
    if (next >= timer_at_ns_) return;
    timer_at_ns_ = next;
    const uint64_t now_ns = boottime_ns();
    const uint64_t us = next > now_ns ? (next - now_ns + 999) / 1000 : 0;
    const timeval after{time_t(us / 1'000'000), suseconds_t(us % 1'000'000)};
    event_add(&timer_, &after);
}

// ---- which node -------------------------------------------------------------------------------------

RemoteBackend::Node* RemoteBackend::usable(uint32_t place) {
    Node& node = *list_[place];
    return node.reachable() && !node.one->drained.load(std::memory_order_relaxed) ? &node : nullptr;
}

// nullptr: no node is available.
RemoteBackend::Node* RemoteBackend::choose(std::string_view key) {
    chance_ ^= chance_ << 13;
    chance_ ^= chance_ >> 17;
    chance_ ^= chance_ << 5;
    const proxy::Placement& placement = *set_->placement;
    if (placement.size() == 1) return usable(0);
    const uint32_t spot = placement.spot_of(key, chance_);
    Node* node = usable(placement.node_at(spot));
    if (node != nullptr || !set_->options.failover) return node;
    for (uint32_t i = 1; i < placement.size(); i++)
        if ((node = usable(placement.walk(spot, i))) != nullptr) return node;
    return nullptr;
}

Asked RemoteBackend::unavailable(Ticket ticket, proxy::AskFailure why) {
    pool_.unavailable(ticket, proxy::ask_failure_name(why));
    return Asked::later;
}

proxy::AskOptions RemoteBackend::options(Ticket ticket) {
    proxy::AskOptions options;
    options.cookie = uint64_t(ticket);
    options.session = pool_.session_of(ticket);
    options.patience_ns = set_->options.timeout_ns;
    options.deadline_ns = now() + options.patience_ns;
    return options;
}

// ---- asking -----------------------------------------------------------------------------------------

// B2: without memory a request is unavailable. If it was sent all the same, its answer finds no ticket.
template <class Op>
Asked RemoteBackend::ask_link(Node& node, Op op, proxy::AskOptions options, proxy::ReplySink& sink, Ticket ticket,
                              bool gather) {
    if constexpr (requires { op.cas_compare; })
        if (!nodes_.cas()) compare_in_vain(op);
    if (!gather && pool_.names_nodes()) pool_.asked_of(ticket, node.one->name);
    try {
        if (node.asks_at_once(options.session)) {
            if constexpr (std::is_same_v<Op, protocol::StoreOp>)
                if (node.link.value_follows(op)) options.value = own_value(op);
            const proxy::Asked asked = ask_or_get(node.link, op, options, sink, now());
            touched(node);
            if (asked == proxy::Asked::accepted) return Asked::later;
            if (asked == proxy::Asked::down) return gather ? Asked::now : unavailable(ticket, proxy::AskFailure::node_down);
            if (asked == proxy::Asked::busy) node.for_room = true;
        } else if (!node.link.up()) {
            node.for_room = true;
        }
        postpone(node, op, std::move(options), sink, gather);
    } catch (const std::bad_alloc&) {
        return gather ? Asked::now : unavailable(ticket, proxy::AskFailure::no_memory);
    }
    touched(node);
    return Asked::crowded;
}

template <class Op>
void RemoteBackend::postpone(Node& node, const Op& op, proxy::AskOptions options, proxy::ReplySink& sink, bool gather) {
    Postponed& waits =
        node.postponed.emplace_back(Postponed{op, std::string(), std::move(options), &sink, gather});
    Op& kept = std::get<Op>(waits.op);
    try {
        own_key(kept, waits.bytes);
        if constexpr (std::is_same_v<Op, protocol::StoreOp>)
            if (waits.options.value == nullptr) waits.options.value = own_value(kept);
    } catch (const std::bad_alloc&) {
        node.postponed.pop_back();
        throw;
    }
    node.waiting[waits.options.session % node.waiting.size()]++;
}

template <class Op>
Asked RemoteBackend::ask_node(const Op& op, Ticket ticket) {
    Node* node = choose(op.key.bytes);
    if (node == nullptr) return unavailable(ticket, proxy::AskFailure::node_down);
    return ask_link(*node, op, options(ticket), *tickets_, ticket, /* gather= */ false);
}

// The reply may bring a pointer, unless the node's memory is mapped here.
template <class Op>
Asked RemoteBackend::ask_leased(const Op& op, Ticket ticket) {
    Node* node = choose(op.key.bytes);
    if (node == nullptr) return unavailable(ticket, proxy::AskFailure::node_down);
    Op leased = op;
    leased.lease = node->mapped == nullptr;
    return ask_link(*node, leased, options(ticket), *tickets_, ticket, /* gather= */ false);
}

// Keeps the order of each session. Stops at the first request without room.
void RemoteBackend::ask_postponed(Node& node) {
    if (!node.retry) return;
    node.retry = false;
    if (!node.reachable()) return give_up_postponed(node, UINT64_MAX);
    std::bitset<std::tuple_size_v<decltype(Node::waiting)>> put_off;  // session numbers
    node.for_room = false;
    for (auto at = node.postponed.begin(); at != node.postponed.end();) {
        const size_t session = at->options.session % put_off.size();
        const proxy::Asked asked = put_off[session] ? proxy::Asked::ordered : ask_again(node, *at);
        if (asked == proxy::Asked::busy) {
            node.for_room = true;
            return;
        }
        if (asked == proxy::Asked::ordered) {
            put_off.set(session);
            ++at;
            continue;
        }
        if (asked == proxy::Asked::down) give_up(*at, proxy::AskFailure::node_down);
        node.waiting[session]--;
        at = node.postponed.erase(at);
    }
}

proxy::Asked RemoteBackend::ask_again(Node& node, Postponed& postponed) {
    proxy::Asked asked = proxy::Asked::down;
    try {
        asked = std::visit(
            [&](const auto& op) { return ask_or_get(node.link, op, postponed.options, *postponed.sink, now()); }, postponed.op);
    } catch (const std::bad_alloc&) {  // B2, as in ask_link()
    }
    if (asked == proxy::Asked::accepted && !postponed.gather && pool_.lists_slow())
        pool_.asked_at(Ticket(postponed.options.cookie), now());
    return asked;
}

void RemoteBackend::give_up_postponed(Node& node, uint64_t before_ns) {
    while (!node.postponed.empty() && node.link.deadline_ns(node.postponed.front().options) <= before_ns) {
        const Postponed& first = node.postponed.front();
        give_up(first, before_ns == UINT64_MAX ? proxy::AskFailure::node_down : proxy::AskFailure::timed_out);
        node.waiting[first.options.session % node.waiting.size()]--;
        node.postponed.pop_front();
    }
    if (node.postponed.empty()) node.for_room = false;
}

void RemoteBackend::give_up(const Postponed& postponed, proxy::AskFailure why) {
    if (postponed.gather)
        gathered(postponed.options.cookie, false, {});
    else
        pool_.unavailable(Ticket(postponed.options.cookie), proxy::ask_failure_name(why));
}

// ---- one key ----------------------------------------------------------------------------------------

bool RemoteBackend::read_local(Node& node, const protocol::GetOp& op, uint64_t session, ValueSink value,
                               protocol::GetReply& reply) {
    const uint64_t hash = node.local.hash(op.key.bytes);
    if (node.waits(session) || !node.link.read_in_order(hash, session)) return false;
    auto sink = [&](const fabric::ReadMeta& read) {
        reply.meta = proxy::item_meta(read);
        if (!nodes_.cas()) reply.meta.cas = 0;
        return value(reply.meta);
    };
    fabric::Found found;
    const fabric::Outcome outcome = node.local.read(op.key.bytes, hash, node.link.clock().latest(now()),
                                                    /* tokens_matter= */ true, sink, found);
    if (outcome != fabric::Outcome::hit) return false;
    if (!node.link.channel()->owner_alive()) return false;
    reply.status = protocol::GetReply::Status::hit;
    reply.why = protocol::Miss::none;
    if (op.no_bump) return true;
    const uint64_t arena_offset = uint64_t(reinterpret_cast<const char*>(node.mapped->arena) - node.mapped->base);
    if (node.link.note_access(hash, found.guard.generation(), arena_offset + found.slot.offset(), 0)) touched(node);
    return true;
}

void RemoteBackend::expect(std::span<const protocol::Key> keys) {
    if (mapped_ == 0 && nodes_.pointer_table() == nullptr) return;
    struct Coming {
        const proxy::LocalGet* local;
        uint64_t hash;
    };
    std::array<Coming, proxy::LocalGet::prefetch_window> coming;
    size_t count = 0;
    for (const protocol::Key& key : keys.first(std::min(keys.size(), coming.size()))) {
        const Node* node = choose(key.bytes);
        if (node == nullptr) continue;
        if (node->mapped == nullptr) {
            node->link.expect(key.bytes);
            continue;
        }
        const uint64_t hash = node->local.hash(key.bytes);
        node->local.prefetch_bucket(hash);
        coming[count++] = {&node->local, hash};
    }
    for (const Coming& one : std::span(coming).first(count)) one.local->prefetch_item(one.hash);
}

Asked RemoteBackend::ask(const protocol::GetOp& op, Wanted wanted, Ticket ticket, ValueSink value,
                         protocol::GetReply& reply) {
    Node* node = choose(op.key.bytes);
    if (node == nullptr) return unavailable(ticket, proxy::AskFailure::node_down);
    if (wanted.plain && node->mapped != nullptr && read_local(*node, op, pool_.session_of(ticket), value, reply))
        return Asked::now;
    proxy::AskOptions with = options(ticket);
    with.no_value = !wanted.value;
    with.one_sided = wanted.plain && node->mapped == nullptr;  // the attempt on mapped memory has failed
    protocol::GetOp leased = op;
    leased.lease = node->mapped == nullptr;
    return ask_link(*node, leased, std::move(with), *tickets_, ticket, /* gather= */ false);
}

Asked RemoteBackend::ask(const protocol::StoreOp& op, Ticket ticket, protocol::StoreReply&) {
    return ask_leased(op, ticket);
}

Asked RemoteBackend::ask(const protocol::DeleteOp& op, Ticket ticket, protocol::DeleteReply&) {
    return ask_node(op, ticket);
}
Asked RemoteBackend::ask(const protocol::ArithOp& op, Ticket ticket, protocol::ArithReply&) {
    return ask_leased(op, ticket);
}
Asked RemoteBackend::ask(const protocol::ForgetOp& op, Ticket ticket) { return ask_node(op, ticket); }

bool RemoteBackend::too_large(size_t key_bytes, uint64_t value_bytes) const {
    return layout::item_bytes(key_bytes, value_bytes) > nodes_.item_bytes_max();
}

// ---- all nodes --------------------------------------------------------------------------------------

template <class Op>
Asked RemoteBackend::ask_all(const Op& op, Ticket ticket, bool stats, Node* only) {
    const uint64_t id = next_gather_++;
    std::vector<Gather::Part> parts(list_.size());
    Gather& gather = gathers_[id];
    gather = {ticket, stats, /* unanswered= */ 1, set_, std::move(parts)};  // one: this call
    bool crowded = false;
    for (size_t i = 0; i < list_.size(); i++) {
        Node& node = *list_[i];
        if (only != nullptr && &node != only) continue;
        gather.parts[i].asked = true;
        if (!node.reachable()) continue;
        proxy::AskOptions with = options(ticket);
        with.cookie = id << node_bits | i;
        gather.unanswered++;
        const Asked asked = ask_link(node, op, std::move(with), *gathers_sink_, ticket, /* gather= */ true);
        if (asked == Asked::now) gather.unanswered--;
        if (asked == Asked::crowded) crowded = true;
    }
    gathered(id << node_bits | list_.size(), true, {});
    return crowded ? Asked::crowded : Asked::later;
}

void RemoteBackend::gathered(uint64_t cookie, bool ok, std::string_view text) {
    const auto at = gathers_.find(cookie >> node_bits);
    CHECK(at != gathers_.end());
    Gather& gather = at->second;
    const uint64_t number = cookie & ((1 << node_bits) - 1);
    if (number < gather.parts.size()) {
        gather.parts[number].ok = ok && keep_text(gather.parts[number].text, text);
    }
    if (--gather.unanswered != 0) return;
    const Gather done = std::move(gather);
    gathers_.erase(at);
    if (done.stats) return answer_stats(done);
    for (const Gather::Part& part : done.parts)
        if (part.asked && !part.ok) return pool_.unavailable(done.ticket);
    pool_.answer(done.ticket, protocol::DoneReply());
}

void RemoteBackend::answer_stats(const Gather& done) {
    try {
        std::string told;
        for (size_t i = 0; i < done.parts.size(); i++) {
            const Gather::Part& part = done.parts[i];
            if (!part.asked) continue;
            told += done.set->members[i].one->name + " " + (part.ok ? std::to_string(part.text.size()) : "-") + "\n";
            told += part.text;
        }
        pool_.answer(done.ticket, protocol::StatsReply(), told);
    } catch (const std::bad_alloc&) {
        pool_.unavailable(done.ticket);
    }
}

Asked RemoteBackend::ask(const protocol::FlushOp& op, Ticket ticket) {
    return ask_all(op, ticket, /* stats= */ false, nullptr);
}

Asked RemoteBackend::ask(const protocol::StatsOp& op, std::string_view name, Ticket ticket) {
    if (name.empty()) return ask_all(op, ticket, /* stats= */ true, nullptr);
    for (auto& node : list_)
        if (node->one->name == name) return ask_all(op, ticket, /* stats= */ true, node.get());
    pool_.answer(ticket, protocol::StatsReply());
    return Asked::later;
}

}  // namespace farcached::daemon
