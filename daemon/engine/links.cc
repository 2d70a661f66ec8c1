// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/links.h"

#include <algorithm>
#include <array>
#include <new>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/broken.h"
#include "base/check.h"
#include "base/node_clock.h"
#include "protocol/layout.h"

namespace farcached::daemon {

namespace {

// Without uniques (-C) compares with a value that no item has, and none lower: `ms I` would accept an older one.
template <class Op>
void compare_in_vain(Op& op) {
    bool compares = op.cas_compare.value_or(0) != 0;
    if (protocol::is_mark(op.cas_compare.value_or(0))) return;
    if constexpr (std::is_same_v<Op, protocol::StoreOp>)
        compares = compares || op.mode == protocol::StoreOp::Mode::cas;
    if (compares) op.cas_compare = UINT64_MAX;
}

void hide_cas(protocol::ReplyOp& reply) {
    if (auto* get = std::get_if<protocol::GetReply>(&reply)) get->meta.cas = 0;
    auto* const store = std::get_if<protocol::StoreReply>(&reply);
    if (store != nullptr && store->status != protocol::StoreReply::Status::not_found) store->cas = 0;  // else a mark
    if (auto* arith = std::get_if<protocol::ArithReply>(&reply)) arith->meta.cas = 0;
}

Way way_of(const proxy::Answer& answer) {
    if (!answer.one_sided) return Way::two_sided;
    return answer.by_index ? Way::index : Way::one_sided;
}

}  // namespace

// ---- answers ----------------------------------------------------------------------------------------

class Links::TicketSink final : public proxy::ReplySink {
  public:
    TicketSink(Links& links, ReplyPool& pool, bool cas) : links_(links), pool_(pool), cas_(cas) {}
    void answered(Ticket ticket, proxy::Answer& answer) override {
        const Way way = way_of(answer);
        if (cas_) return pool_.answer(ticket, answer.op, answer.value, std::move(answer.owned), way);
        protocol::ReplyOp shown = answer.op;
        hide_cas(shown);
        pool_.answer(ticket, shown, answer.value, std::move(answer.owned), way);
    }
    void failed(Ticket ticket, const proxy::Failed& failed) override {
        if (links_.ask_copy_instead(ticket, failed)) return;
        const bool is_old = failed.refusal == protocol::RequestRefusal::old_list;
        if (is_old) links_.shared_.nodes.list_is_old();
        pool_.unavailable(ticket, is_old ? list_is_old : proxy::ask_failure_name(failed.why));
    }

  private:
    Links& links_;
    ReplyPool& pool_;
    const bool cas_;
};

// ---- life -------------------------------------------------------------------------------------------

Links::Links(Nodes& nodes, Mailroom& room, uint32_t number, Waits& waits, ReplyPool& pool)
    : shared_(nodes, room, number, waits, pool),
      letters_(waits.make_readiness([this] { take_letters(); })),
      tickets_(std::make_unique<TicketSink>(*this, pool, nodes.cas())),
      fencer_(std::make_unique<Fencer>(shared_, *tickets_)),
      gatherer_(shared_),
      leaving_(shared_),
      peers_(shared_, *fencer_) {
    shared_.touched.reserve(peers_.all().size());
    fencer_->reserve(peers_.all().size());
    letters_->await(shared_.courier.desk().fd(), /* writable= */ false);
}

Links::~Links() = default;

void Links::stop() {
    timer_at_ns_ = UINT64_MAX;
    letters_->stop();
    shared_.courier.close([this](std::unique_ptr<Letter> letter) {
        shared_.courier.refuse(std::move(letter), proxy::AskFailure::node_down);
    });
    for (auto* peers : {&std::as_const(peers_).all(), &leaving_.all()})
        for (auto& peer : *peers) peer->stop();
    fencer_->stop();
    shared_.courier.deliver();
    CHECK(gatherer_.empty());
    CHECK(shared_.courier.kept() == 0);
}

void Links::timer_due() {
    timer_at_ns_ = UINT64_MAX;
    const uint64_t now_ns = now();
    if (fencer_->again_at_ns() <= now_ns) fencer_->again();
    for (auto* peers : {&std::as_const(peers_).all(), &leaving_.all()})
        for (auto& peer : *peers) peer->tick(now_ns);
}

// While no reply and no letter waits any more, it polls for completions of READs, and sends what they lead to now.
void Links::end_tick() {
    if (fencer_->due()) [[unlikely]] attend();
    LinkPeer* only_read = flush_touched();
    if (!leaving_.empty() && leaving_.retire(peers_)) only_read = flush_touched();
    shared_.courier.deliver();
    if (only_read != nullptr && !shared_.pool.anything_ready() && only_read->linger()) {
        flush_touched();
        shared_.courier.deliver();
    }
    timer_at_ns_ = std::min(timer_at_ns_, fencer_->again_at_ns());
    shared_.clock_is_old();
}

// A newer set comes first: a node joins for it, and requests of the former set do not wait for that.
void Links::attend() {
    if (take_newer()) return;
    if (shared_.nodes.set() != peers_.set()) return;  // no memory: it has not taken the set, and tries again
    fencer_->attend(peers_.all(), leaving_.all(), *peers_.set());
    take_newer();  // it came in between, and counts as taken
}

// Returns a peer if it was the only one, and only READs to it are under way; peers that wait for these READs do not count. A flush
// may list another peer again (proxy::ReadEvents::elsewhere_ended()). Each is listed once, so the list never grows.
LinkPeer* Links::flush_touched() {
    std::vector<LinkPeer*>& touched = shared_.touched;
    if (touched.empty()) return nullptr;
    LinkPeer* only_read = nullptr;
    uint32_t others = 0;
    while (!touched.empty()) {
        LinkPeer* peer = touched.front();
        touched.erase(touched.begin());
        peer->flush();
        const Awaited awaited = peer->awaits(/* looks= */ only_read == nullptr);
        if (awaited == Awaited::reads_elsewhere) continue;
        if (awaited == Awaited::reads)
            only_read = peer;
        else
            others++;
    }
    set_timer();
    return others == 0 ? only_read : nullptr;
}

// The timer may expire too early: it is not set again for each request.
void Links::set_timer() {
    uint64_t next = fencer_->again_at_ns();
    for (const auto* peers : {&std::as_const(peers_).all(), &leaving_.all()})
        for (const auto& peer : *peers) next = std::min(next, peer->next_tick_ns());
    timer_at_ns_ = std::min(timer_at_ns_, next);
}

// ---- requests ---------------------------------------------------------------------------------------

SubmitResult Links::unavailable(Ticket ticket, proxy::AskFailure why) {
    shared_.pool.unavailable(ticket, proxy::ask_failure_name(why));
    return SubmitResult::later;
}

proxy::AskOptions Links::options(Ticket ticket) {
    proxy::AskOptions options;
    options.ticket = ticket;
    options.session = shared_.pool.session_of(ticket);
    options.patience_ns = peers_.options().timeout_ns;
    options.epoch = epoch_now(peers_.set()->epoch);
    options.deadline_ns = now() + options.patience_ns;
    return options;
}

// ---- one key ----------------------------------------------------------------------------------------

// The reply may bring a pointer, unless the node's memory is mapped here.
template <class Op>
SubmitResult Links::ask_peer(LinkPeer* peer, const Op& op, proxy::AskOptions options) {
    if (peer == nullptr) return unavailable(options.ticket, proxy::AskFailure::node_down);
    if (shared_.pool.names_nodes()) shared_.pool.asked_of(options.ticket, peer->node().name);
    Op there = op;
    if constexpr (requires { there.lease; }) there.lease = !peer->is_mapped();
    if constexpr (requires { there.cas_compare; })
        if (!shared_.nodes.cas()) compare_in_vain(there);
    if (fencer_->anything_moves()) [[unlikely]] options.moved = peers_.waits_to_move(op.key.bytes, changes(op));
    if (fencer_->anything_out()) [[unlikely]] {
        LinkPeer* own = peers_.diverted_from(*peer, op.key.bytes);
        if (own != nullptr) return fencer_->ask_gutter(*own, *peer, there, std::move(options), peers_.options().failover_ttl_s);
    }
    return peer->ask(there, std::move(options), *tickets_);
}

template SubmitResult Links::ask_peer(LinkPeer*, const protocol::StoreOp&, proxy::AskOptions);
template SubmitResult Links::ask_peer(LinkPeer*, const protocol::DeleteOp&, proxy::AskOptions);
template SubmitResult Links::ask_peer(LinkPeer*, const protocol::ArithOp&, proxy::AskOptions);
template SubmitResult Links::ask_peer(LinkPeer*, const protocol::ForgetOp&, proxy::AskOptions);

// The attempt on mapped memory has failed: only other memory is read one-sided.
SubmitResult Links::get(LinkPeer* peer, const protocol::GetOp& op, Wanted wanted, Ticket ticket) {
    if (peer == nullptr) return unavailable(ticket, proxy::AskFailure::node_down);
    proxy::AskOptions with = options(ticket);
    with.no_value = !wanted.value;
    with.one_sided = wanted.plain && !peer->is_mapped();
    return ask_peer(peer, op, std::move(with));
}

// ---- copies, and keys that moved ----------------------------------------------------------------------

// Of a get whose node did not reply, or may not execute it now. True: the ticket will be answered.
bool Links::ask_copy_instead(Ticket ticket, const proxy::Failed& failed) noexcept {
    using Refusal = protocol::RequestRefusal;
    const bool no_reply = failed.why == proxy::AskFailure::node_down || failed.why == proxy::AskFailure::timed_out;
    const bool no_right = failed.refusal == Refusal::stopping || failed.refusal == Refusal::no_right;
    if (!(no_reply || no_right) || !peers_.has_copies()) return false;
    const std::optional<ReplyPool::PlainGet> asked = shared_.pool.ask_again(ticket);
    if (!asked.has_value() || peers_.copies_move(asked->key)) return false;
    LinkPeer* peer = peers_.choose(asked->key);  // perhaps by a newer list than the get was
    const bool is_first = peer != nullptr && peer->replies() && no_reply;
    if (!is_first) peer = peers_.second_of(asked->key);
    if (peer == nullptr || !peer->answers()) return false;
    protocol::GetOp op;
    op.key = {asked->key, 0};
    get(peer, op, {.value = asked->wants_value, .plain = true}, ticket);
    return true;
}

template <class Op>
SubmitResult Links::ask_copy(const Op& op, Ticket ticket) {
    LinkPeer* const peer = peers_.second_of(op.key.bytes);
    if (peer == nullptr) return unavailable(ticket, proxy::AskFailure::node_down);
    proxy::AskOptions with = options(ticket);
    if (fencer_->anything_moves()) [[unlikely]] with.moved = peers_.waits_to_move(op.key.bytes, /* changes= */ true);
    Op there = op;
    return peer->ask(there, std::move(with), *tickets_);
}

SubmitResult Links::ask(const protocol::CopiesOp& op, size_t place, Ticket ticket) {
    LinkPeer& peer = *peers_.all()[place];
    if (!peer.reachable()) return unavailable(ticket, proxy::AskFailure::node_down);
    protocol::CopiesOp there = op;
    return peer.ask(there, options(ticket), *tickets_);
}

SubmitResult Links::ask(const protocol::GetOp& op, const PeerSet::FormerHome& home, Ticket ticket) {
    protocol::GetOp there = op;
    return home.peer->ask(there, options(ticket), *tickets_);
}

template SubmitResult Links::ask_copy(const protocol::GetOp&, Ticket);
template SubmitResult Links::ask_copy(const protocol::HoldOp&, Ticket);
template SubmitResult Links::ask_copy(const protocol::StoreOp&, Ticket);

void Links::expect(std::span<const protocol::Key> keys) {
    if (shared_.mapped == 0 && shared_.nodes.pointer_table() == nullptr) return;
    struct Coming {
        const proxy::LocalGet* memory;
        uint64_t hash;
    };
    std::array<Coming, proxy::LocalGet::prefetch_window> coming;
    size_t count = 0;
    for (const protocol::Key& key : keys.first(std::min(keys.size(), coming.size()))) {
        LinkPeer* peer = peers_.choose(key.bytes);
        OwnLink* const link = peer != nullptr ? peer->own() : nullptr;
        if (link == nullptr) continue;
        const MappedMemory& mapped = link->mapped();
        if (!mapped.is_mapped()) {
            link->expect(key.bytes);
            continue;
        }
        const uint64_t hash = mapped.hash(key.bytes);
        mapped.memory().prefetch_bucket(hash);
        coming[count++] = {&mapped.memory(), hash};
    }
    for (const Coming& one : std::span(coming).first(count)) one.memory->prefetch_item(one.hash);
}

bool Links::too_large(size_t key_bytes, uint64_t value_bytes) const {
    return layout::item_bytes(key_bytes, value_bytes) > shared_.nodes.item_bytes_max();
}

// ---- letters of other workers -------------------------------------------------------------------------

void Links::take_letters() {
    shared_.courier.take([this](std::unique_ptr<Letter> letter) { serve(std::move(letter)); });
}

// The newest link to its node; nullptr: none.
OwnLink* Links::lent_link(const Letter& letter) {
    const PeerSet::Peers& peers = peers_.all();
    LinkPeer* const at = letter.place < peers.size() ? peers[letter.place].get() : nullptr;
    if (at != nullptr && at->shared_node() == letter.node) return at->own();
    LinkPeer* const found = peers_.find(letter.node);
    return found != nullptr ? found->own() : nullptr;
}

void Links::serve(std::unique_ptr<Letter> letter) {
    Courier& courier = shared_.courier;
    if (fencer_->due()) attend();  // the borrower may follow a newer state
    OwnLink* link = lent_link(*letter);
    if (link == nullptr && take_newer()) link = lent_link(*letter);
    if (link == nullptr) link = leaving_.newest_link(letter->node);
    if (link == nullptr) return courier.refuse(std::move(letter), proxy::AskFailure::node_down);
    if (letter->request.options.deadline_ns <= now()) return courier.refuse(std::move(letter), proxy::AskFailure::timed_out);
    if (!link->take_letter()) return courier.refuse(std::move(letter), proxy::AskFailure::node_down);
    OwnedRequest& request = letter->request;
    try {
        request.options.ticket = courier.keep(letter);
    } catch (const std::bad_alloc&) {
        return courier.refuse(std::move(letter), proxy::AskFailure::no_memory);
    }
    std::visit([&](auto& op) { link->ask(op, std::move(request.options), courier.sink()); }, request.op);
}

// The borrower may have taken a newer set. False: this one is the newest, or there is no memory.
bool Links::take_newer() {
    if (shared_.nodes.set() == peers_.set()) return false;
    try {
        take();
    } catch (const std::bad_alloc&) {
        return false;
    }
    return true;
}

// Reloads of the set of nodes (M6).

namespace {

constexpr uint64_t timeouts_to_leave = 4;  // bound for a node that sends, but not the missing answers

}  // namespace

void Links::start() {
    for (auto& peer : peers_.all()) peer->start();
    attend();
    end_tick();
}

// M6. All that can fail comes first.
void Links::take() {
    std::shared_ptr<const NodeSet> next = shared_.nodes.set();
    const std::shared_ptr<const NodeSet> last = peers_.set();
    if (next == last) return;
    PeerSet::Peers& present = peers_.all();
    std::vector<LinkPeer*> kept;  // for each place; nullptr: a new one
    PeerSet::Peers peers;
    for (const NodeSet::Member& member : next->members) {
        LinkPeer* const at = peers_.find(member.one);
        const bool stays = at != nullptr && next->options.same_links(last->options, member.one->channel) &&
                           same_socket(member.socket, last->members[at->place()].socket) &&
                           member.renewal == last->members[at->place()].renewal;
        kept.push_back(stays ? at : nullptr);
        peers.push_back(stays ? nullptr : std::make_unique<LinkPeer>(shared_, member.one, next->options));
    }
    leaving_.reserve(present.size());
    shared_.touched.reserve(leaving_.size() + present.size() + peers.size());
    fencer_->reserve(peers.size());
    for (size_t i = 0; i < peers.size(); i++)
        if (kept[i] != nullptr) peers[i] = std::move(present[kept[i]->place()]);
    const uint64_t leaves_by_ns = now() + timeouts_to_leave * std::max(last->options.timeout_ns, next->options.timeout_ns);
    for (auto& peer : peers_.replace(std::move(next), std::move(peers))) {
        if (peer == nullptr) continue;
        const bool ends = peer->leaves_at_once();
        leaving_.add(std::move(peer), ends ? now() : leaves_by_ns);
    }
    for (size_t i = 0; i < present.size(); i++) present[i]->take_place(i);
    PostponedRequests::List waiting = leaving_.withdraw();
    leaving_.retire(peers_);
    fencer_->attend(peers_.all(), leaving_.all(), *peers_.set());
    for (PostponedRequests::Postponed& request : waiting) ask_elsewhere(request);
}

// Of a node that has left; it was not sent. A step of Replicas belongs to the list by which it began: it fails, and begins
// again. A borrower must ask another worker, and a diverted request is counted for the node: these fail, too.
void Links::ask_elsewhere(PostponedRequests::Postponed& request) noexcept {
    proxy::AskOptions& with = request.options;
    const Ticket ticket = with.ticket;
    if (request.sink != tickets_.get()) return request.sink->failed(ticket, {proxy::AskFailure::node_down, std::nullopt});
    with.moved = false;
    with.epoch = epoch_now(peers_.set()->epoch);
    try {
        std::visit([&](const auto& op) { ask_again(op, std::move(with)); }, request.op);
    } catch (const std::bad_alloc&) {
        unavailable(ticket, proxy::AskFailure::no_memory);
    }
}

template <class Op>
void Links::ask_again(const Op& op, proxy::AskOptions options) {
    if constexpr (requires { op.key; } && !std::is_same_v<Op, protocol::HoldOp>) {
        const bool is_step = peers_.options().copies && (changes(op) || !shared_.pool.is_awaited(options.ticket));
        if (!is_step) {
            LinkPeer* const peer = changes(op) ? peers_.choose(op.key.bytes) : peers_.choose_to_read(op.key.bytes);
            options.one_sided = options.one_sided && peer != nullptr && !peer->is_mapped();
            ask_peer(peer, op, std::move(options));
            return;
        }
    }
    shared_.pool.unavailable(options.ticket, list_is_old);
}

}  // namespace farcached::daemon
