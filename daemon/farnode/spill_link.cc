// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farnode/spill_link.h"

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/hash.h"
#include "base/node_clock.h"
#include "base/random_word.h"
#include "conf/program.h"

namespace farcached::node {

namespace {

constexpr size_t landing_bytes = size_t(4) << 20;  // for READs of the peer's memory
constexpr uint64_t timeout_ns = 1'000'000'000;
constexpr uint64_t ns_per_ms = 1'000'000;
constexpr int flushes_max = 16;  // in a row, of a connection with ever more to do

// A proxy's settings with that node alone.
conf::ProxySettings settings_of(const conf::Settings& settings) {
    conf::ProxySettings proxy = conf::defaults().proxy;
    proxy.nodes = {settings.node.spill_to};
    proxy.shm_group = settings.node.shm_group;
    return proxy;
}

// A table of this process alone: its name is gone at once. nullptr: the system has none, so no lease is reported.
std::unique_ptr<proxy::PointerTable> own_table() {
    auto host = proxy::TableHost::of_this_process();
    if (std::holds_alternative<proxy::TableFailure>(host)) return nullptr;
    proxy::TableOptions options;
    options.name = "/farnode-spill-" + std::to_string(getpid());
    options.entries = UINT64_C(1) << 16;
    options.host = std::get<proxy::TableHost>(host);
    options.seed = random_word() | 1;
    auto opened = proxy::PointerTable::open(options);
    shm_unlink(options.name.c_str());
    if (std::holds_alternative<proxy::TableFailure>(opened)) return nullptr;
    return std::get<std::unique_ptr<proxy::PointerTable>>(std::move(opened));
}

}  // namespace

Result<std::unique_ptr<SpillLink>> SpillLink::make(PeerStore& store, const conf::Settings& settings, uint64_t own_incarnation,
                                                   const daemon::PeerTrust& trust) {
    daemon::Nodes::Made made = daemon::Nodes::make(settings_of(settings), settings.memory, fabric::look_up, trust);
    if (auto* const problem = std::get_if<Problem>(&made)) return std::move(*problem);
    auto nodes = std::get<std::unique_ptr<daemon::Nodes>>(std::move(made));
    const bool has_disk = !settings.disk.path.empty();
    return std::unique_ptr<SpillLink>(new SpillLink(store, std::move(nodes), own_incarnation, has_disk, own_table()));
}

SpillLink::SpillLink(PeerStore& store, std::unique_ptr<daemon::Nodes> nodes, uint64_t own_incarnation, bool has_disk,
                     std::unique_ptr<proxy::PointerTable> table)
    : store_(store),
      nodes_(std::move(nodes)),
      peer_(nodes_->set()->members.front().one),
      options_(nodes_->set()->options),
      own_incarnation_(own_incarnation),
      has_disk_(has_disk),
      key_(options_.key),
      table_(std::move(table)),
      landing_(landing_bytes),
      link_(nodes_->channels().link_config(*peer_, options_, 0),
            {nodes_->channels().maker(peer_, {{landing_.data(), landing_.size()}, {}}, options_.rpc), boottime_ns, *this,
             table_.get(), &landing_, nullptr}) {}

SpillLink::~SpillLink() { CHECK(!thread_.joinable()); }

void SpillLink::start() { thread_ = std::thread(&SpillLink::run, this); }

void SpillLink::stop() {
    if (!thread_.joinable()) return;
    stopping_ = true;
    waker_.wake();
    thread_.join();
}

void SpillLink::use_key(std::shared_ptr<const protocol::AuthKey> key) {
    if (key_.put(std::move(key))) waker_.wake();
}

// ---- the thread ---------------------------------------------------------------------------------------

void SpillLink::run() {
    const Recorder::Running running(recorder_);
    bool started = false;
    while (!stopping_) {
        try {
            if (!std::exchange(started, true)) link_.start(boottime_ns());
            if (key_.changed()) take_key();
            step();
            wait();
        } catch (const std::bad_alloc&) {
            link_.drop(proxy::LinkDown::no_memory, boottime_ns());
        }
    }
    link_.stop(boottime_ns());
    store_.went_down();
    fail_work();
}

void SpillLink::take_key() {
    link_.stop(boottime_ns());
    usable_ = false;
    store_.went_down();
    fail_work();
    link_.use_key(key_.take());
    link_.start(boottime_ns());
}

// Sleeps until there is work, a reply, or the link's next deadline.
void SpillLink::wait() {
    const uint64_t now_ns = boottime_ns(), due_ns = std::min(link_.next_tick_ns(), waits_.next_due_ns());
    const uint64_t ms = due_ns > now_ns ? (due_ns - now_ns + ns_per_ms - 1) / ns_per_ms : 0;
    const short link_events = short(link_.wants_write() ? POLLIN | POLLOUT : POLLIN);
    pollfd ready[] = {{waker_.fd(), POLLIN, 0}, {store_.fd(), POLLIN, 0}, {fd_, link_events, 0}};
    (void)poll(ready, std::size(ready), due_ns == UINT64_MAX ? -1 : int(std::min<uint64_t>(ms, 60'000)));
    if (ready[0].revents != 0) waker_.take();
    if (ready[1].revents != 0) store_.take(work_);
    waits_.take(work_.waits);
    if (ready[2].revents != 0 && fd_ >= 0) link_.ready(boottime_ns());
}

void SpillLink::step() {
    const uint64_t now_ns = boottime_ns();
    waits_.end_due(now_ns);
    if (now_ns >= link_.next_tick_ns()) link_.tick(now_ns);
    submit();
    for (int n = 0; n < flushes_max && link_.flush(boottime_ns()); n++)
        if (std::exchange(retry_, false)) submit();
}

// J3. What does not fit now follows after room().
void SpillLink::submit() {
    if (!usable_) return fail_work();
    const auto submit_all = [](auto& list, auto&& submit_one) {
        while (!list.empty()) {
            const Submitted submitted = submit_one(list.front());
            if (submitted != Submitted::yes) return submitted;
            list.pop_front();
        }
        return Submitted::yes;
    };
    Submitted last = submit_all(work_.reads, [this](const auto& one) { return read(one); });
    if (last == Submitted::yes) last = submit_all(waits_.unasked(), [this](const auto& one) { return kill(one); });
    if (last == Submitted::yes) last = submit_all(work_.forgets, [this](const auto& one) { return forget(one); });
    if (last == Submitted::yes) last = submit_all(work_.puts, [this](const auto& one) { return put(one); });
    if (last == Submitted::down) fail_work();
}

// Without a connection. Deletes are kept for the next one, and waits end at their times.
void SpillLink::fail_work() {
    constexpr size_t forgets_max = 1 << 16;
    for (; !work_.reads.empty(); work_.reads.pop_front()) store_.lost(work_.reads.front());
    for (; !work_.puts.empty(); work_.puts.pop_front()) store_.refused(*work_.puts.front());
    if (work_.forgets.size() > forgets_max) work_.forgets.clear();
    waits_.unasked().clear();
}

template <class Op>
SpillLink::Submitted SpillLink::ask(const Op& op, proxy::AskOptions options, Request&& request) {
    const uint32_t ticket = requests_.next();
    const uint64_t now_ns = boottime_ns();
    options.ticket = proxy::Ticket(ticket);
    options.session = ticket + 1;  // each request has its own: their keys differ
    options.patience_ns = timeout_ns;
    options.deadline_ns = now_ns + timeout_ns;
    proxy::AskResult result;
    if constexpr (std::is_same_v<Op, protocol::GetOp>)
        result = link_.requests().get(op, options, *this, now_ns);
    else
        result = link_.requests().ask(op, options, *this);
    if (result == proxy::AskResult::down) return Submitted::down;
    if (result != proxy::AskResult::accepted) return Submitted::not_now;
    requests_.add(std::move(request));
    return Submitted::yes;
}

SpillLink::Submitted SpillLink::put(const std::shared_ptr<const PeerRecord>& record) {
    if (!store_.alive(*record)) return store_.refused(*record), Submitted::yes;
    protocol::StoreOp op;
    op.key.bytes = protocol::view_of(record->key);
    op.value = record->view();
    op.flags = record->flags;
    op.exptime = never_expires;  // the stub decides, which may be touched
    op.key_binary = record->key_binary;
    op.spilled = true;
    if (record->cas != 0) op.cas_set = record->cas;
    proxy::AskOptions options;
    options.value = record;
    Request request;
    request.what = Request::What::put;
    request.record = record;
    return ask(op, std::move(options), std::move(request));
}

SpillLink::Submitted SpillLink::read(const PeerStore::Read& read) {
    protocol::GetOp op;
    op.key.bytes = protocol::view_of(read.key);
    op.lease = table_ != nullptr;
    proxy::AskOptions options;
    options.one_sided = true;
    Request request;
    request.what = Request::What::read;
    request.read = read;
    return ask(op, std::move(options), std::move(request));
}

SpillLink::Submitted SpillLink::remove(const protocol::SpilledKey& key, Request&& request) {
    protocol::DeleteOp op;
    op.key.bytes = protocol::view_of(key);
    return ask(op, {}, std::move(request));
}

SpillLink::Submitted SpillLink::forget(const protocol::SpilledKey& key) {
    Request request;
    request.what = Request::What::forget;
    return remove(key, std::move(request));
}

// The record's death is certain with the reply.
SpillLink::Submitted SpillLink::kill(const std::shared_ptr<SpillWaits::Wait>& wait) {
    if (!store_.alive(wait->place)) return Submitted::yes;  // perhaps it is on another node than this one
    Request request;
    request.what = Request::What::wait;
    request.wait = wait;
    return remove(wait->key, std::move(request));
}

// valid_until_ns 0: none.
fabric::LeasedPtr SpillLink::lease_on(const protocol::SpilledKey& key) {
    if (table_ == nullptr || !link_.up()) return {};
    const protocol::Welcome& welcome = link_.welcome();
    const uint64_t hash = hash_key(protocol::view_of(key), welcome.hash_seed);
    const proxy::PointerTable::Lookup found = table_->find(hash, welcome.incarnation, boottime_ns());
    return found.found == proxy::PointerTable::Found::hit ? found.leased : fabric::LeasedPtr();
}

// ---- replies ------------------------------------------------------------------------------------------

void SpillLink::answered(proxy::Ticket ticket, proxy::Answer& answer) {
    const Request request = requests_.take(uint32_t(ticket));
    if (request.what == Request::What::put) {
        const auto* const reply = std::get_if<protocol::StoreReply>(&answer.op);
        const bool stored = reply != nullptr && reply->status == protocol::StoreReply::Status::stored;
        return stored ? store_.stored(*request.record) : store_.refused(*request.record);
    }
    if (request.what == Request::What::wait) return SpillWaits::end(*request.wait);
    if (request.what != Request::What::read) return;
    const auto* const reply = std::get_if<protocol::GetReply>(&answer.op);
    if (reply != nullptr && reply->status == protocol::GetReply::Status::hit)
        store_.found(request.read, answer.value, lease_on(request.read.key));
    else
        store_.lost(request.read);
}

void SpillLink::failed(proxy::Ticket ticket, const proxy::Failed& failed) {
    const Request request = requests_.take(uint32_t(ticket));
    if (request.what == Request::What::read) return store_.lost(request.read);
    if (request.what != Request::What::put) return;
    if (failed.why == proxy::AskFailure::refused) return store_.refused(*request.record);
    store_.stored(*request.record);  // J4
}

// ---- the connection -----------------------------------------------------------------------------------

void SpillLink::say(process::Level level, const std::string& what) noexcept {
    lines_.say(level, what, {{"node", peer_->name}});
}

void SpillLink::came_up() {
    const protocol::Welcome& welcome = link_.welcome();
    if (welcome.incarnation == own_incarnation_)
        return say(process::Level::error, "--spill-to " + describe() + " is this node itself: no value moves; name another node");
    if (welcome.version < protocol::version_with_spilled)
        return say(process::Level::error, "--spill-to " + describe() + " is an older farnode: no value moves; update it");
    usable_ = retry_ = true;
    if (std::exchange(peer_incarnation_, welcome.incarnation) != welcome.incarnation) work_.forgets.clear();
    store_.came_up(welcome.incarnation, welcome.item_bytes_max);
    if (std::exchange(told_down_, false)) say(process::Level::notice, "--spill-to " + describe() + " is up again");
}

void SpillLink::went_down(proxy::LinkDown, const std::string& text) noexcept {
    usable_ = false;
    retry_ = true;
    store_.went_down();
    if (std::exchange(told_down_, true)) return;
    try {
        const std::string evicted = has_disk_ ? "go to the disk" : "are dropped";
        say(process::Level::warning,
            "--spill-to " + describe() + " is down: " + text + "; until it is back, evicted values " + evicted);
    } catch (const std::bad_alloc&) {
        process::lose_line();
    }
}

}  // namespace farcached::node
