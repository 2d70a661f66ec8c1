// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/session/worker.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/node_clock.h"
#include "base/random_word.h"
#include "daemon/steps/moved_items.h"
#include "daemon/steps/replicas.h"
#include "daemon/steps/warm_up.h"
#include "process/node_time.h"
#include "process/process.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t second_ns = 1'000'000'000;
constexpr uint64_t stop_deadline_ns = 2 * second_ns;
constexpr int rounds_per_tick = 4;  // of answers to clients, and their next requests

}  // namespace

Worker::Worker(node::Node* node, Nodes* nodes, Mailroom* room, const EngineOptions& engine, Admin& admin, WatchHub& watch,
               SessionEvents& events, const WorkerOptions& options)
    : options_(options),
      recorder_("worker " + std::to_string(options.number)),
      latencies_(options.latency, counters_, watch, options.number,
                 /* embedded= */ nodes == nullptr && node->config().disk == nullptr && options.warm == nullptr),
      hot_keys_(options.hot_keys_one_in, random_word()),
      context_{Router(), counters_, engine, admin, watch, process::node_now(), process::node_started_unix(), nullptr, nullptr,
               &recorder_, options.memory},
      replies_(context_),
      sessions_(context_, options_, events, watch, replies_, *this, options.ring, ring_refusal_, [this] { inbox_.wake(); },
                options.tls),
      datagrams_(context_, options_, sessions_, replies_, sessions_.io(), options.udp,
                 /* later= */ nodes != nullptr || node->config().disk != nullptr || options.warm != nullptr),
      room_(room) {
    CHECK((node == nullptr) != (nodes == nullptr));
    take_permissions();
    measure();
    if (nodes != nullptr) links_ = std::make_unique<Links>(*nodes, *room, options.number, sessions_.io(), replies_);
    if (node != nullptr) local_.emplace(*node, admin);
    context_.router = local_.has_value() ? Router(*local_) : Router(*links_);
    if (node != nullptr && node->config().disk != nullptr)
        disk_ = std::make_unique<DiskGets>(*node, sessions_.io(), replies_, context_);
    context_.disk = disk_.get();
    if (options.warm != nullptr) steps_ = std::make_unique<WarmUp>(*options.warm, sessions_.io(), replies_, context_);
    if (nodes != nullptr && nodes->set()->options.copies) steps_ = std::make_unique<Replicas>(replies_, context_);
    if (nodes != nullptr && steps_ == nullptr && nodes->set()->epoch != nullptr)
        steps_ = std::make_unique<MovedItems>(replies_, context_);
    context_.steps = steps_.get();
    inbox_.listen(sessions_.io(), [this] { woken(); });
    set_idle_check();
}

Worker::~Worker() { CHECK(!thread_.joinable()); }

void Worker::start() {
    sessions_.tls().start(options_.number);
    thread_ = std::thread([this] { run(); });
}

void Worker::run() {
    const Recorder::Running running(recorder_);
    if (options_.cpu >= 0) process::pin_this_thread(uint32_t(options_.cpu));
    sessions_.io().start();
    if (links_ != nullptr) links_->start();
    if (disk_ != nullptr) disk_->start();
    datagrams_.start();
    do {
        const bool awake = answers_later() && replies_.begin_tick();
        sessions_.io().turn(awake || datagrams_.waiting());
        datagrams_.take_turns();
        sessions_.end_as_asked();
        sessions_.end_doomed();
        if (answers_later())
            end_tick();
        else
            latencies_.end_tick();
        sessions_.end_doomed();  // those doomed by answers from nodes
    } while (!sessions_.ended() || !datagrams_.ended());
    sessions_.drop_output();
    sessions_.tls().stop();
    datagrams_.end_all();
    if (steps_ != nullptr) steps_->stop();
    if (links_ != nullptr) {
        serve_borrowers();
        links_->stop();
    }
    context_.steps = nullptr;
    steps_.reset();
    context_.disk = nullptr;
    disk_.reset();  // the node's disk may end before the worker
    inbox_.shut();
}

// Until no worker has sessions, for a bounded time: this worker may own links that theirs use.
void Worker::serve_borrowers() {
    room_->sessions_ended();
    stopped_at_ns_ = boottime_ns() + 2 * stop_deadline_ns;  // they end within one
    while (!room_->all_ended() && stopped_at_ns_ != UINT64_MAX) {
        sessions_.io().turn(/* awake= */ false);
        links_->end_tick();
    }
}

// W5. Clients may send the next request on an answer, so it repeats; after some rounds other sessions run.
void Worker::end_tick() {
    if (must_take_ && !sessions_.stopping()) take_nodes();
    for (int round = 0; round < rounds_per_tick; round++) {
        if (steps_ != nullptr) steps_->end_tick();
        if (links_ != nullptr) links_->end_tick();
        const std::span<ReplyQueue* const> ready = replies_.take_ready();
        if (ready.empty()) return latencies_.end_tick();
        sessions_.read_clock();
        recorder_.note("connections whose answers came:", int64_t(ready.size()));
        for (ReplyQueue* queue : ready) {
            sessions_.io().relieve();
            queue->datagram() != nullptr ? datagrams_.deliver(*queue->datagram()) : sessions_.deliver(*queue->session());
        }
    }
    if (steps_ != nullptr) steps_->end_tick();
    if (links_ != nullptr) links_->end_tick();
    latencies_.end_tick();
}

uint64_t Worker::timer_at_ns() {
    const uint64_t nodes_at_ns = links_ != nullptr ? links_->timer_at_ns() : UINT64_MAX;
    const uint64_t steps_at_ns = steps_ != nullptr ? steps_->timer_at_ns() : UINT64_MAX;
    return std::min({idle_check_at_ns_, stopped_at_ns_, nodes_at_ns, steps_at_ns, sessions_.tls().due_ns()});
}

void Worker::timer_due() {
    const uint64_t now_ns = boottime_ns();
    if (links_ != nullptr && links_->timer_at_ns() <= now_ns) links_->timer_due();
    if (steps_ != nullptr) steps_->timer_due();
    if (idle_check_at_ns_ <= now_ns) {
        set_idle_check();
        sessions_.end_idle();
    }
    if (sessions_.tls().due_ns() <= now_ns) sessions_.end_slow_handshakes();
    if (stopped_at_ns_ > now_ns) return;
    stopped_at_ns_ = UINT64_MAX;
    sessions_.end_all();
    datagrams_.end_all();
}

void Worker::set_idle_check() { idle_check_at_ns_ = options_.idle_timeout_s != 0 ? boottime_ns() + second_ns : UINT64_MAX; }

void Worker::woken() {
    Inbox::Mail mail = inbox_.take();
    for (const Inbox::Change& change : mail.changes) carry_out(change);
    sessions_.continue_handshakes();
    for (NewConnection& connection : mail.connections) sessions_.open(std::move(connection));
    if (!mail.stop || sessions_.stopping()) return;
    stopped_at_ns_ = boottime_ns() + stop_deadline_ns;
    sessions_.begin_stop();
    datagrams_.begin_stop();
}

void Worker::carry_out(const Inbox::Change& change) {
    static_cast<WorkerLive&>(options_) = change.live;
    latencies_.change(change.live.latency);
    hot_keys_.change(change.live.hot_keys_one_in);
    take_permissions();
    measure();
    set_idle_check();
    if (links_ != nullptr && !sessions_.stopping()) take_nodes();
    change.done();
}

void Worker::take_nodes() {
    try {
        links_->take();
        must_take_ = false;
    } catch (const std::bad_alloc&) {  // retry at the end of the next tick
        must_take_ = true;
    }
}

void Worker::take_permissions() noexcept {
    context_.permissions = options_.permissions.get();
    sessions_.grant_all();
}

// What the requests to come are counted in.
void Worker::measure() {
    context_.latencies = latencies_.enabled() ? &latencies_ : nullptr;
    context_.hot_keys = options_.hot_keys_one_in != 0 ? &hot_keys_ : nullptr;
}

}  // namespace farcached::daemon
