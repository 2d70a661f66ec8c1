// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/session/worker.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <system_error>

#include "base/boottime.h"
#include "base/check.h"
#include "base/random_word.h"
#include "daemon/engine/trace.h"
#include "daemon/session/event_io.h"
#include "daemon/session/ring_io.h"
#include "process/affinity.h"
#include "process/node_time.h"
#include "protocol/binary.h"
#include "protocol/likely_key.h"

namespace farcached::daemon {

using process::node_moment;
using process::node_now;
using process::node_started_unix;

namespace {

constexpr size_t session_bytes_kept = 16 << 10;   // capacity of a session's own input buffer, while in use
constexpr size_t ahead_bytes_max = 64 << 10;      // input of a busy session; above this it is not read
constexpr uint64_t second_ns = 1'000'000'000;
constexpr uint64_t stop_deadline_ns = 2 * second_ns;
constexpr int rounds_per_tick = 4;  // of answers to clients, and their next requests

// Bytes of the value that the session waits for.
uint64_t missing_of(const Session& session) {
    return session.state.pending == nullptr ? 0 : session.state.pending->upload->missing();
}

std::string_view new_connection_words(SessionProtocol protocol) {
    switch (protocol) {
        case SessionProtocol::any: return "new auto-negotiating client connection";
        case SessionProtocol::text: return "new ascii client connection.";
        case SessionProtocol::binary: break;
    }
    return "new binary client connection.";
}

}  // namespace

Session::Session(SocketIo& sockets, int socket, SessionProtocol speaks) : protocol(speaks), io(sockets) {
    slot = nullptr;
    state.fd = socket;
}

Session::~Session() { delete state.replies; }

Worker::Worker(node::Node* node, Nodes* nodes, const EngineOptions& engine, Admin& admin, WatchHub& watch,
               SessionEvents& events, const WorkerOptions& options)
    : watch_(watch),
      events_(events),
      options_(options),
      recorder_("worker " + std::to_string(options.number)),
      latencies_(options.latency, counters_, watch, options.number, /* embedded= */ nodes == nullptr),
      hot_keys_(options.hot_keys_one_in, random_word()),
      context_{Router(), counters_, engine, admin, watch, node_now(), node_started_unix()},
      replies_(context_, /* events= */ nullptr) {
    if (options_.ring) io_ = make_ring_io(*this, counters_, ring_refusal_);
    on_ring_ = io_ != nullptr;
    if (!on_ring_) io_.reset(new EventIo(*this, counters_));
    CHECK((node == nullptr) != (nodes == nullptr));
    if (nodes != nullptr) links_ = std::make_unique<Links>(*nodes, options.number, *io_, replies_);
    if (node != nullptr) local_.emplace(*node);
    context_.router = local_.has_value() ? Router(*local_) : Router(*links_);
    if (latencies_.enabled()) context_.latencies = &latencies_;
    context_.recorder = &recorder_;
    if (options.hot_keys_one_in != 0) context_.hot_keys = &hot_keys_;
    context_.memory = options.memory;
    context_.room = this;
    if (options.memory != nullptr) hoard_ = &options.memory->hoards().join([this] { wake(); });
    wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    wake_ready_ = io_->make_readiness([this] { woken(); });
    wake_ready_->await(wake_fd_, /* writable= */ false);
    set_idle_check();
}

Worker::~Worker() {
    CHECK(!thread_.joinable());
    wake_ready_.reset();
    ::close(wake_fd_);
}

void Worker::start() { thread_ = std::thread([this] { run(); }); }

void Worker::run() {
    const Recorder::Running running(recorder_);
    if (options_.cpu >= 0) process::pin_this_thread(uint32_t(options_.cpu));
    io_->start();
    if (links_ != nullptr) links_->start();
    do {
        const bool awake = links_ != nullptr && replies_.begin_tick();
        io_->turn(awake);
        end_as_asked();
        end_doomed();
        if (links_ != nullptr)
            end_tick();
        else
            latencies_.end_tick();
        end_doomed();  // those doomed by answers from nodes
    } while (!stopping_ || oldest_ != nullptr);
    out_.clear(0);  // references to the node's memory: the node may end now
    if (links_ != nullptr) links_->stop();
    wake_ready_->stop();  // here: only this thread may use a ring
}

void Worker::end_doomed() {
    while (!doomed_.empty()) close(*doomed_.back(), doomed_.back()->end);
}

// W5. Clients may send the next request on an answer, so it repeats; after some rounds other sessions run.
void Worker::end_tick() {
    if (must_take_ && !stopping_) take_nodes();
    for (int round = 0; round < rounds_per_tick; round++) {
        links_->end_tick();
        const std::span<ReplyQueue* const> ready = replies_.take_ready();
        if (ready.empty()) return latencies_.end_tick();
        read_clock();
        recorder_.note("connections whose answers came:", int64_t(ready.size()));
        for (ReplyQueue* queue : ready) {
            io_->relieve();
            deliver(*queue->session());
        }
    }
    links_->end_tick();
    latencies_.end_tick();
}

void Worker::read_clock() {
    const process::Moment moment = node_moment();
    context_.now = moment.seconds;
    const bool is_short = options_.memory != nullptr && options_.memory->short_of_room();
    context_.out_bytes_max = is_short ? out_bytes_short_max : out_bytes_soft_max;
    latencies_.reading(moment.ns);
    recorder_.clock(moment.ns);
}

uint64_t Worker::timer_at_ns() {
    const uint64_t nodes_at_ns = links_ != nullptr ? links_->timer_at_ns() : UINT64_MAX;
    return std::min({idle_check_at_ns_, stopped_at_ns_, nodes_at_ns});
}

void Worker::timer_due() {
    const uint64_t now_ns = boottime_ns();
    if (links_ != nullptr && links_->timer_at_ns() <= now_ns) links_->timer_due();
    if (idle_check_at_ns_ <= now_ns) {
        set_idle_check();
        end_idle();
    }
    if (stopped_at_ns_ > now_ns) return;
    stopped_at_ns_ = UINT64_MAX;
    while (oldest_ != nullptr) close(*oldest_, SessionEnd::server_stopped);
}

void Worker::set_idle_check() { idle_check_at_ns_ = options_.idle_timeout_s != 0 ? boottime_ns() + second_ns : UINT64_MAX; }

// Emits arrived answers for the session, unless its socket takes no more.
void Worker::deliver(Session& session) {
    const AtHand at_hand(*this, session);
    if (session.is(SessionPhase::queued)) return session.state.replies->remind();
    if (!session.is(SessionPhase::open)) return note_held(session);
    recorder_.take(session.state.fd, session.address, {});
    const bool written = take_memory(session, [&] { session.state.replies->emit(out_); });
    recorder_.put_down();
    if (written) send_replies(session);
}

void Worker::give(NewConnection connection) {
    std::lock_guard hold(lock_);
    arriving_.push_back(std::move(connection));
    wake();
}

void Worker::change(std::list<Change>&& one) noexcept {
    std::lock_guard hold(lock_);
    changes_.splice(changes_.end(), one);
    wake();
}

void Worker::stop() {
    std::lock_guard hold(lock_);
    stop_asked_ = true;
    wake();
}

void Worker::wake() {
    uint64_t one = 1;
    (void)!write(wake_fd_, &one, sizeof one);
}

void Worker::woken() {
    uint64_t count = 0;
    (void)!read(wake_fd_, &count, sizeof count);
    heartbeat_.answer();
    std::vector<NewConnection> arriving;
    std::list<Change> changes;
    bool stop = false;
    {
        std::lock_guard hold(lock_);
        arriving.swap(arriving_);
        changes.swap(changes_);
        stop = stop_asked_;
    }
    for (const Change& change : changes) carry_out(change);
    for (NewConnection& connection : arriving) open(std::move(connection));
    if (stop && !stopping_) begin_stop();
}

void Worker::carry_out(const Change& change) {
    static_cast<WorkerLive&>(options_) = change.live;
    latencies_.change(change.live.latency);
    context_.latencies = latencies_.enabled() ? &latencies_ : nullptr;
    hot_keys_.change(change.live.hot_keys_one_in);
    context_.hot_keys = change.live.hot_keys_one_in != 0 ? &hot_keys_ : nullptr;
    set_idle_check();
    if (links_ != nullptr && !stopping_) take_nodes();
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

// Without memory the connection is closed.
void Worker::open(NewConnection connection) {
    const int fd = connection.fd;
    const bool own = connection.own, admin = connection.admin;
    try {
        begin(std::move(connection));
    } catch (const std::bad_alloc&) {
        ::close(fd);
        events_.not_opened();
        if (!own) events_.descriptor_closed(admin);
        return;
    }
    if (context_.options.trace) trace_connection(fd, new_connection_words(newest_->protocol));
    resume(*newest_);
}

// Adds the newest session. Throws std::bad_alloc, without a session.
void Worker::begin(NewConnection connection) {
    for (std::vector<Session*>* list : {&ready_, &turn_, &doomed_})
        if (list->capacity() <= sessions_) list->reserve(std::max<size_t>(64, 2 * size_t(sessions_)));
    auto session = std::make_unique<Session>(*io_, connection.fd, connection.protocol);
    session->address = std::move(connection.address);
    session->state.admin = connection.admin;
    session->state.own = connection.own;
    if (links_ != nullptr) session->state.replies = new ReplyQueue(replies_, connection.fd, session.get());
    recorder_.note("opened connection", connection.fd);
    context_.now = node_now();
    session->last_command.store(context_.now, std::memory_order_relaxed);
    events_.opened(*session);
    sessions_++;
    list_newest(*session.release());
}

// Unread input is discarded first: closing over it makes the kernel send a reset, and the last answer may be lost.
void Worker::close(Session& session, SessionEnd why) {
    const SessionPhase before = session.phase();
    if (before != SessionPhase::doomed) session.enter(SessionPhase::doomed);  // make_room() must not end it once more
    recorder_.put_down();
    recorder_.note(session_end_name(why).data(), session.state.fd);
    io_->leave(session);
    unlist(session);
    if (before == SessionPhase::queued) std::erase(ready_, &session);
    if (before == SessionPhase::doomed) std::erase(doomed_, &session);
    events_.closed(session, why);
    if (context_.options.trace) trace_connection(session.state.fd, "connection closed.");
    if (why == SessionEnd::protocol_close || why == SessionEnd::server_stopped || why == SessionEnd::buffers_full) {
        ::shutdown(session.state.fd, SHUT_WR);
        constexpr int reads_max = 64;
        char thrown_away[8 << 10];
        for (int i = 0; i < reads_max; i++)
            if (recv(session.state.fd, thrown_away, sizeof thrown_away, MSG_DONTWAIT) <= 0) break;
    }
    if (why != SessionEnd::became_watcher) {
        ::close(session.state.fd);
        if (!session.state.own) events_.descriptor_closed(session.state.admin);
    }
    sessions_--;
    delete &session;
}

void Worker::begin_stop() {
    io_->catch_up();
    stopping_ = true;
    stopped_at_ns_ = boottime_ns() + stop_deadline_ns;
    for (Session* session = oldest_; session != nullptr; session = session->newer)
        if (session->is(SessionPhase::open)) queue(*session);
}

// Sessions without a request for idle_timeout_s.
void Worker::end_idle() {
    const NodeSeconds now = node_now();
    const uint32_t limit = options_.idle_timeout_s;
    for (;;) {
        io_->relieve();
        if (oldest_ == nullptr) return;
        Session& session = *oldest_;
        const NodeSeconds last = session.last_command.load(std::memory_order_relaxed);
        if (last >= now || now - last <= limit) return;  // later than now: it was just served
        context_.now = now;
        touch(session);
        // A client with a request in the socket or in the queue is not idle: this turn may have begun long before the request
        // came. Nor is one whose value arrives in its slot, which receive_now() does not return.
        const uint64_t missing = missing_of(session);
        if (session.is(SessionPhase::queued) || (!session.busy() && io_->receive_now(session)) || missing_of(session) != missing) continue;
        counters_.idle_kicks.add(1);
        close(session, SessionEnd::idle_timeout);
    }
}

void Worker::touch(Session& session) {
    if (session.last_command.load(std::memory_order_relaxed) == context_.now) return;
    session.last_command.store(context_.now, std::memory_order_relaxed);
    unlist(session);
    list_newest(session);
}

// As in a multi-get: prefetches for all before the first is read.
void Worker::coming(std::span<const std::string_view> inputs) {
    std::array<protocol::Key, proxy::LocalGet::prefetch_window> keys;
    for (size_t i = 0; i < inputs.size();) {
        size_t count = 0;
        for (; i < inputs.size() && count < keys.size(); i++) {
            const std::string_view key = protocol::likely_key(inputs[i]);
            if (!key.empty()) keys[count++] = context_.router.key(key);
        }
        context_.router.expect(std::span(keys).first(count));
    }
}

void Worker::received(Session& session, std::string_view bytes, bool all) {
    const AtHand at_hand(*this, session);
    counters_.bytes_read.add(bytes.size());
    recorder_.note("received on connection, bytes:", session.state.fd, int64_t(bytes.size()));
    session.drained = stopping_ && all;
    touch(session);
    if (session.busy()) return keep(session, bytes);
    std::string_view input = bytes;
    const bool stashed = !session.unread().empty();
    if (stashed) {
        if (!take_memory(session, [&] { take_in(session, bytes); })) return;
        input = session.unread();
    }
    if (input.size() >= session.input_want)
        serve(session, input, stashed);
    else if (stash(session, input, stashed))
        stopping_ ? send_replies(session) : after_sending(session);  // no new ones, but queued ones leave before it ends
}

// Appends to the session's input.
void Worker::take_in(Session& session, std::string_view bytes) {
    SessionBytes& input = kept(session).input;
    const size_t needed = input.size() + bytes.size();
    if (needed > input.capacity()) context_.has_room(std::max(needed, 2 * input.capacity()));
    input.append(bytes);
}

void Worker::received_in_place(Session& session, size_t bytes) {
    read_clock();
    counters_.bytes_read.add(bytes);
    recorder_.note("received a value on connection, bytes:", session.state.fd, int64_t(bytes));
    touch(session);
    session.state.pending->upload->advance(bytes);
}

// Keeps bytes received by a busy session for its next turn (T2).
void Worker::keep(Session& session, std::string_view bytes) {
    if (session.next == Next::close || session.is(SessionPhase::doomed)) return;
    if (!take_memory(session, [&] { take_in(session, bytes); })) return;
    if (session.unread().size() >= session.input_want) session.unserved = true;
    if (session.unread().size() > ahead_bytes_max && session.input == SessionInput::open) pause(session);
}

void Worker::input_ended(Session& session, int error) {
    const AtHand at_hand(*this, session);
    if (session.is(SessionPhase::doomed)) return;
    session.end = error == 0 ? SessionEnd::client_closed : SessionEnd::peer_reset;
    const bool answers_come = session.state.replies != nullptr && !session.state.replies->empty();
    const bool now = !session.busy() && !answers_come;
    if (error != 0 && !session.busy()) return close(session, session.end);
    pause(session, SessionInput::ended);
    if (now) send_replies(session);  // no new ones, but queued ones leave before it ends
}

// The worker stops: serves the bytes in the socket. If there are none, the session ends once all is answered and sent.
void Worker::receive_rest(Session& session) {
    if (!unpause(session) || io_->receive_now(session)) return;
    session.end = SessionEnd::server_stopped;
    pause(session, SessionInput::ended);
    if (session.state.replies == nullptr || session.state.replies->empty()) send_replies(session);
}

bool Worker::serve(Session& session, std::string_view input, bool stashed) {
    if (session.protocol == SessionProtocol::any) {
        bool binary = uint8_t(input[0]) == protocol::binary_request_magic;
        session.protocol = binary ? SessionProtocol::binary : SessionProtocol::text;
    }
    auto* engine = session.protocol == SessionProtocol::binary ? run_binary : run_text;
    show(session, ShownState::parsing);
    if (latencies_.lists_slow()) {
        const PendingSet* const pending = session.state.pending.get();  // then `input` is in the middle of its value
        latencies_.begin_batch(session.state.fd, pending != nullptr ? std::string_view(pending->head) : input);
    }
    Progress progress;
    const bool waited = session.state.pending != nullptr;
    recorder_.take(session.state.fd, session.address, input);
    if (!take_memory(session, [&] {
            progress = engine(context_, session.state, input, out_, options_.requests_per_event);
            if (session.state.replies != nullptr) session.state.replies->settle(out_);
        }))
        return false;
    recorder_.put_down();
    if (!waited && session.state.pending == nullptr) session.state.line.sends_values = false;
    CHECK(progress.consumed <= input.size());
    session.input_want = progress.next == Next::more ? progress.want : 0;
    session.unserved = progress.next != Next::more && progress.consumed < input.size();
    if (!stash(session, input.substr(progress.consumed), stashed)) return false;
    switch (progress.next) {
        case Next::more: break;
        case Next::yield: counters_.conn_yields.add(1); break;
        case Next::hold:
            if (!session.unserved) break;
            session.follow_with(Next::hold);
            session.held_slots = session.state.replies->slots();
            pause(session);
            break;
        case Next::dump: {
            const auto begin = [&] { kept(session).dump = std::make_unique<DumpWalk>(progress.mgdump, progress.dump_classes); };
            if (!take_memory(session, begin)) return false;
            session.follow_with(Next::dump);
            break;
        }
        case Next::watch: session.watch_flags = progress.watch_flags; [[fallthrough]];
        case Next::close: session.follow_with(progress.next);
    }
    return send_replies(session);
}

// Keeps unconsumed input. `rest` may lie in the session's own buffer (stashed) or in the shared one. Frees capacity of large
// values and deep pipelines after use.
bool Worker::stash(Session& session, std::string_view rest, bool stashed) {
    show_resting(session);
    if (!stashed) {
        if (rest.empty()) return true;
        if (!take_memory(session, [&] { take_in(session, rest); })) return false;
        note_held(session);
        return true;
    }
    Unfinished& unfinished = kept(session);
    if (rest.empty()) {
        release(unfinished.input);
        unfinished.input_start = 0;
        session.release();
        return true;
    }
    unfinished.input_start = unfinished.input.size() - rest.size();
    note_held(session);
    if (unfinished.input_start <= std::max(rest.size(), session_bytes_kept)) return true;
    return take_memory(session, [&] {
        SessionBytes(rest, unfinished.input.get_allocator()).swap(unfinished.input);
        unfinished.input_start = 0;
    });
}

void Worker::show_resting(Session& session) {
    if (session.state.swallow != 0)
        show(session, ShownState::swallowing);
    else
        show(session, session.input_want != 0 || session.state.pending != nullptr ? ShownState::receiving_value
                                                                                  : ShownState::waiting);
}

void Worker::queue(Session& session) {
    session.enter(SessionPhase::queued);
    if (ready_.empty()) io_->turn_soon();
    ready_.push_back(&session);
}

// A step of each queued session, after the sockets that were ready with them.
void Worker::turn_of_waiting() {
    turn_.swap(ready_);
    read_clock();
    for (Session* session : turn_) {
        io_->relieve();
        if (!session->is(SessionPhase::queued)) continue;  // waits for its socket
        session->enter(SessionPhase::open);
        take_turn(*session);
    }
    turn_.clear();
}

void Worker::take_turn(Session& session) {
    const AtHand at_hand(*this, session);
    if (session.state.replies != nullptr && session.state.replies->due()) return deliver(session);
    if (session.next == Next::dump)
        stream_dump(session);
    else if (session.next != Next::more)
        after_sending(session);
    else if (session.unserved)
        serve(session, session.unread(), true);
    else if (session.input == SessionInput::ended)
        after_sending(session);
    else
        receive_rest(session);
}

void Worker::list_newest(Session& session) {
    session.older = newest_;
    session.newer = nullptr;
    if (newest_ != nullptr) newest_->newer = &session;
    newest_ = &session;
    if (oldest_ == nullptr) oldest_ = &session;
}

}  // namespace farcached::daemon
