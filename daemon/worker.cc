// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/worker.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

#include "base/check.h"
#include "base/random_word.h"
#include "daemon/trace.h"
#include "process/node_time.h"

namespace farcached::daemon {

using process::node_moment;
using process::node_now;
using process::node_started_unix;

namespace {

// One recv: large enough for a deep pipeline, small enough to stay in the second-level cache.
constexpr size_t receive_bytes_max = 64 << 10;
constexpr size_t out_bytes_kept = 256 << 10;      // of the shared output buffer, between ticks
constexpr size_t session_bytes_kept = 16 << 10;   // of a session's own input buffer, while in use
constexpr timeval stop_deadline{2, 0};
constexpr timeval one_second{1, 0};
constexpr timeval at_once{0, 0};
constexpr int rounds_per_tick = 4;  // of answers to clients who ask again
constexpr unsigned char binary_magic = 0x80;

std::string_view new_connection_words(SessionProtocol protocol) {
    switch (protocol) {
        case SessionProtocol::any: return "new auto-negotiating client connection";
        case SessionProtocol::text: return "new ascii client connection.";
        case SessionProtocol::binary: break;
    }
    return "new binary client connection.";
}

}  // namespace

Session::Session(Worker& owner, int socket, SessionProtocol speaks) : worker(owner), protocol(speaks) {
    state.fd = socket;
}

Worker::Worker(node::Node& node, Nodes* nodes, const EngineOptions& engine, Admin& admin, WatchHub& watch,
               SessionEvents& events, const WorkerOptions& options)
    : node_(node),
      watch_(watch),
      events_(events),
      options_(options),
      recorder_("worker " + std::to_string(options.number)),
      local_(node.view()),
      latencies_(options.latency, counters_, watch, options.number, /* embedded= */ nodes == nullptr),
      hot_keys_(options.hot_keys_one_in, random_word()),
      context_{node, local_, counters_, engine, admin, watch, node_now(), node_started_unix()},
      replies_(context_, /* events= */ nullptr), in_(new char[receive_bytes_max]) {
    std::unique_ptr<event_config, decltype(&event_config_free)> config(event_config_new(), &event_config_free);
    CHECK(config != nullptr);
    event_config_set_flag(config.get(), EVENT_BASE_FLAG_NOLOCK);
    base_.reset(event_base_new_with_config(config.get()));
    if (base_ == nullptr) throw std::system_error(errno, std::generic_category(), "event_base_new");
    if (nodes != nullptr) {
        backend_ = std::make_unique<RemoteBackend>(*nodes, options.number, base_.get(), replies_);
        context_.backend = backend_.get();
    }
    if (latencies_.enabled()) context_.latencies = &latencies_;
    context_.recorder = &recorder_;
    if (options.hot_keys_one_in != 0) context_.hot_keys = &hot_keys_;
    wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    event_assign(&wake_event_, base_.get(), wake_fd_, EV_READ | EV_PERSIST, on_wake, this);
    event_add(&wake_event_, nullptr);
    event_assign(&second_event_, base_.get(), -1, EV_PERSIST, on_second, this);
    if (options_.idle_timeout_s != 0) event_add(&second_event_, &one_second);
    event_assign(&turn_event_, base_.get(), -1, 0, on_turn, this);
    event_assign(&deadline_event_, base_.get(), -1, 0, on_deadline, this);
}

Worker::~Worker() {
    CHECK(!thread_.joinable());
    backend_.reset();
    base_.reset();
    ::close(wake_fd_);
}

void Worker::start() { thread_ = std::thread([this] { run(); }); }

void Worker::run() {
    const Recorder::Running running(recorder_);
    if (backend_ == nullptr) {
        do {
            event_base_loop(base_.get(), EVLOOP_ONCE);
            latencies_.end_tick();
        } while (!stopping_ || oldest_ != nullptr);
        return;
    }
    backend_->start();
    do {
        const bool awake = replies_.begin_tick();
        event_base_loop(base_.get(), awake ? EVLOOP_ONCE | EVLOOP_NONBLOCK : EVLOOP_ONCE);
        end_tick();
    } while (!stopping_ || oldest_ != nullptr);
    backend_->stop();
}

// W5. Clients that got their answers may ask again at once, so it goes round; after some rounds others have their turn.
void Worker::end_tick() {
    if (must_take_ && !stopping_) take_nodes();
    for (int round = 0; round < rounds_per_tick; round++) {
        backend_->end_tick();
        const std::vector<ReplyQueue*> ready = replies_.take_ready();
        if (ready.empty()) return latencies_.end_tick();
        read_clock();
        recorder_.note("connections whose answers came:", int64_t(ready.size()));
        for (ReplyQueue* queue : ready) deliver(*queue->session());
    }
    backend_->end_tick();
    latencies_.end_tick();
}

void Worker::read_clock() {
    const process::Moment moment = node_moment();
    context_.now = moment.seconds;
    latencies_.reading(moment.ns);
    recorder_.clock(moment.ns);
}

// Answers have come for the session; while its socket takes no more they wait.
void Worker::deliver(Session& session) {
    if (session.writing) return;
    if (session.queued) return session.replies->remind();
    recorder_.take(session.state.fd, session.address, {});
    const bool written = take_memory(session, [&] { session.replies->emit(out_); });
    recorder_.put_down();
    if (written) send_replies(session);
}

void Worker::give(NewConnection connection) {
    std::lock_guard hold(lock_);
    arriving_.push_back(std::move(connection));
    wake();
}

void Worker::change(const WorkerLive& live, std::function<void()> done) {
    std::lock_guard hold(lock_);
    changes_.push_back({live, std::move(done)});
    uint64_t one = 1;
    (void)!write(wake_fd_, &one, sizeof one);
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

void Worker::on_wake(evutil_socket_t fd, short, void* argument) {
    Worker& worker = *static_cast<Worker*>(argument);
    uint64_t count = 0;
    (void)!read(fd, &count, sizeof count);
    worker.pulse_.answer();
    std::vector<NewConnection> arriving;
    std::vector<Change> changes;
    bool stop = false;
    {
        std::lock_guard hold(worker.lock_);
        arriving.swap(worker.arriving_);
        changes.swap(worker.changes_);
        stop = worker.stop_asked_;
    }
    for (const Change& change : changes) worker.carry_out(change);
    for (NewConnection& connection : arriving) worker.open(std::move(connection));
    if (stop && !worker.stopping_) worker.begin_stop();
}

void Worker::carry_out(const Change& change) {
    static_cast<WorkerLive&>(options_) = change.live;
    latencies_.change(change.live.latency);
    context_.latencies = latencies_.enabled() ? &latencies_ : nullptr;
    hot_keys_.change(change.live.hot_keys_one_in);
    context_.hot_keys = change.live.hot_keys_one_in != 0 ? &hot_keys_ : nullptr;
    if (options_.idle_timeout_s == 0)
        event_del(&second_event_);
    else
        event_add(&second_event_, &one_second);
    if (backend_ != nullptr && !stopping_) take_nodes();
    change.done();
}

void Worker::take_nodes() {
    try {
        backend_->take();
        must_take_ = false;
    } catch (const std::bad_alloc&) {  // at the end of the next tick
        must_take_ = true;
    }
}

void Worker::open(NewConnection connection) {
    auto* session = new Session(*this, connection.fd, connection.protocol);
    session->address = std::move(connection.address);
    session->listen_address = std::move(connection.listen_address);
    session->state.admin = connection.admin;
    session->state.own = connection.own;
    if (backend_ != nullptr) {
        session->replies = std::make_unique<ReplyQueue>(replies_, connection.fd, session);
        session->state.replies = session->replies.get();
    }
    recorder_.note("opened connection", connection.fd);
    context_.now = node_now();
    session->last_active = context_.now;
    session->shown.last_command.store(context_.now, std::memory_order_relaxed);
    list_newest(*session);
    events_.opened(*session);
    if (context_.options.trace) trace_connection(connection.fd, new_connection_words(connection.protocol));
    wait_for(*session, EV_READ);
}

// What a client sent after its last answer is read away first: closing over unread input makes the kernel
// send a reset, and the answer may be lost.
void Worker::close(Session& session, SessionEnd why) {
    recorder_.put_down();
    recorder_.note(session_end_name(why).data(), session.state.fd);
    event_del(&session.readiness);
    unlist(session);
    if (session.queued) std::erase(ready_, &session);
    events_.closed(session, why);
    if (context_.options.trace) trace_connection(session.state.fd, "connection closed.");
    if (why == SessionEnd::protocol_close || why == SessionEnd::server_stopped) {
        ::shutdown(session.state.fd, SHUT_WR);
        constexpr int reads_max = 8;
        for (int i = 0; i < reads_max; i++)
            if (recv(session.state.fd, in_.get(), receive_bytes_max, MSG_DONTWAIT) <= 0) break;
    }
    if (why != SessionEnd::became_watcher) {
        ::close(session.state.fd);
        if (!session.state.own) events_.descriptor_closed(session.state.admin);
    }
    delete &session;
    if (stopping_ && oldest_ == nullptr) event_base_loopbreak(base_.get());
}

void Worker::begin_stop() {
    stopping_ = true;
    event_add(&deadline_event_, &stop_deadline);
    for (Session* session = oldest_; session != nullptr; session = session->newer)
        if (!session->writing) queue(*session);
    if (oldest_ == nullptr) event_base_loopbreak(base_.get());
}

void Worker::on_deadline(evutil_socket_t, short, void* argument) {
    Worker& worker = *static_cast<Worker*>(argument);
    while (worker.oldest_ != nullptr) worker.close(*worker.oldest_, SessionEnd::server_stopped);
    event_base_loopbreak(worker.base_.get());
}

void Worker::on_second(evutil_socket_t, short, void* argument) {
    Worker& worker = *static_cast<Worker*>(argument);
    const NodeSeconds now = node_now();
    const uint32_t limit = worker.options_.idle_timeout_s;
    while (worker.oldest_ != nullptr) {
        Session& session = *worker.oldest_;
        if (now - session.last_active <= limit) return;
        worker.counters_.idle_kicks.add(1);
        worker.close(session, SessionEnd::idle_timeout);
    }
}

void Worker::on_ready(evutil_socket_t, short what, void* argument) {
    Session& session = *static_cast<Session*>(argument);
    if ((what & EV_WRITE) != 0)
        session.worker.writable(session);
    else
        session.worker.readable(session);
}

void Worker::touch(Session& session) {
    read_clock();
    if (session.last_active == context_.now) return;
    session.last_active = context_.now;
    session.shown.last_command.store(context_.now, std::memory_order_relaxed);
    unlist(session);
    list_newest(session);
}

void Worker::readable(Session& session) {
    if (session.queued) return;  // what was received before comes first
    std::string_view input;
    bool stashed = false;
    if (!receive(session, input, stashed)) return;
    touch(session);
    if (input.size() >= session.input_want)
        serve(session, input, stashed);
    else if (stash(session, input, stashed))
        after_sending(session);
}

bool Worker::receive(Session& session, std::string_view& input, bool& stashed) {
    ssize_t got = recv(session.state.fd, in_.get(), receive_bytes_max, 0);
    counters_.read_calls.add(1);
    if (got <= 0) {
        const bool later = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
        if (later && !stopping_) return false;
        if ((got == 0 || later) && session.replies != nullptr && !session.replies->empty()) {
            session.deaf = true;
            pause(session);
        } else if (later) {
            close(session, SessionEnd::server_stopped);
        } else {
            close(session, got == 0 ? SessionEnd::client_closed : SessionEnd::peer_reset);
        }
        return false;
    }
    counters_.bytes_read.add(uint64_t(got));
    recorder_.note("received on connection, bytes:", session.state.fd, got);
    session.drained = stopping_ && size_t(got) < receive_bytes_max;
    stashed = !session.unread().empty();
    if (!stashed) {
        input = {in_.get(), size_t(got)};
        return true;
    }
    if (!take_memory(session, [&] { session.input.append(in_.get(), size_t(got)); })) return false;
    input = session.unread();
    return true;
}

template <class Take>
bool Worker::take_memory(Session& session, Take take) {
    try {
        take();
        return true;
    } catch (const std::bad_alloc&) {
        out_.clear(0);
        close(session, SessionEnd::no_memory);
        return false;
    }
}

bool Worker::serve(Session& session, std::string_view input, bool stashed) {
    if (session.protocol == SessionProtocol::any) {
        bool binary = static_cast<unsigned char>(input[0]) == binary_magic;
        session.protocol = binary ? SessionProtocol::binary : SessionProtocol::text;
    }
    auto* engine = session.protocol == SessionProtocol::binary ? run_binary : run_text;
    show(session, ShownState::parsing);
    if (latencies_.lists_slow()) latencies_.begin_batch(session.state.fd, input);
    Progress progress;
    recorder_.take(session.state.fd, session.address, input);
    if (!take_memory(session, [&] {
            progress = engine(context_, session.state, input, out_, options_.requests_per_event);
            if (session.replies != nullptr) session.replies->settle(out_);
        }))
        return false;
    recorder_.put_down();
    CHECK(progress.consumed <= input.size());
    session.input_want = progress.next == Next::more ? progress.want : 0;
    session.unserved = progress.next != Next::more && progress.consumed < input.size();
    if (!stash(session, input.substr(progress.consumed), stashed)) return false;
    if (progress.next == Next::close) session.closing = true;
    if (progress.next == Next::watch) session.watch_flags = progress.watch_flags;
    if (progress.next == Next::dump)
        if (!take_memory(session, [&] {
                session.dump = std::make_unique<DumpWalk>(progress.mgdump, progress.dump_classes);
            }))
            return false;
    if (progress.next == Next::yield) counters_.conn_yields.add(1);
    if (progress.next == Next::hold && session.unserved) {
        session.held = true;
        session.held_slots = session.replies->slots();
        pause(session);
    }
    return send_replies(session);
}

// Keeps what was not consumed. `rest` may lie in the session's own buffer (stashed) or in the shared one.
// What a large value or a deep pipeline made room for is given back with what it was needed for.
bool Worker::stash(Session& session, std::string_view rest, bool stashed) {
    show_resting(session);
    if (rest.empty()) {
        session.input_start = 0;
        std::string().swap(session.input);
        return true;
    }
    if (!stashed) return take_memory(session, [&] { session.input.assign(rest); });
    session.input_start = session.input.size() - rest.size();
    if (session.input_start <= std::max(rest.size(), session_bytes_kept)) return true;
    return take_memory(session, [&] {
        std::string(rest).swap(session.input);
        session.input_start = 0;
    });
}

void Worker::show_resting(Session& session) {
    if (session.state.swallow != 0)
        show(session, ShownState::swallowing);
    else
        show(session, session.input_want != 0 ? ShownState::receiving_value : ShownState::waiting);
}

void Worker::queue(Session& session) {
    CHECK(!session.writing);
    if (session.queued) return;
    session.queued = true;
    if (ready_.empty()) event_add(&turn_event_, &at_once);
    ready_.push_back(&session);
}

// The turn of those that gave way: once each, after the sockets that were ready with them.
void Worker::on_turn(evutil_socket_t, short, void* argument) {
    Worker& worker = *static_cast<Worker*>(argument);
    std::vector<Session*> turn;
    turn.swap(worker.ready_);
    worker.read_clock();
    for (Session* session : turn) {
        session->queued = false;
        worker.take_turn(*session);
    }
}

void Worker::take_turn(Session& session) {
    CHECK(!session.writing);
    if (session.replies != nullptr && session.replies->due()) return deliver(session);
    if (session.held || session.deaf || session.closing)
        after_sending(session);
    else if (session.dump != nullptr)
        stream_dump(session);
    else if (session.unserved)
        serve(session, session.unread(), true);
    else
        readable(session);  // the worker stops: is there anything more?
}

bool Worker::send_replies(Session& session) {
    context_.record_accesses();
    if (out_.empty()) return after_sending(session);
    iovec part{const_cast<char*>(out_.data()), out_.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    ssize_t sent = sendmsg(session.state.fd, &message, MSG_NOSIGNAL);
    counters_.write_calls.add(1);
    if (sent < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
            out_.clear(out_bytes_kept);
            close(session, SessionEnd::send_failed);
            return false;
        }
        sent = 0;
    }
    counters_.bytes_written.add(uint64_t(sent));
    recorder_.note("sent on connection, bytes:", session.state.fd, sent);
    if (size_t(sent) == out_.size()) {
        out_.clear(out_bytes_kept);
        return after_sending(session);
    }
    auto keep = [&] { session.output.assign(out_.data() + sent, out_.size() - size_t(sent)); };
    if (!take_memory(session, keep)) return false;
    out_.clear(out_bytes_kept);
    session.output_start = 0;
    session.writing = true;
    show(session, ShownState::writing);
    event_del(&session.readiness);
    return wait_for(session, EV_WRITE);
}

// The session is not read, for one of the reasons of await_answers() or because there is nothing more to read.
void Worker::pause(Session& session) {
    session.paused = true;
    event_del(&session.readiness);
}

bool Worker::unpause(Session& session) {
    if (!session.paused || session.deaf) return true;
    session.paused = false;
    return wait_for(session, EV_READ);
}

// What a session does while some of its replies are still to come.
bool Worker::await_answers(Session& session) {
    session.replies->remind();
    if (session.replies->due()) return true;
    if (session.closing || session.watch_flags != 0 || session.dump != nullptr) {
        pause(session);
        return true;
    }
    if (session.held && session.replies->slots() < session.held_slots && session.replies->has_room()) {
        session.held = false;
        if (!unpause(session)) return false;
    }
    if (session.unserved && !session.held) queue(session);
    return true;
}

// What a session does once all its replies are with the socket.
bool Worker::after_sending(Session& session) {
    if (session.replies != nullptr && !session.replies->empty()) return await_answers(session);
    if (session.closing) {
        close(session, SessionEnd::protocol_close);
        return false;
    }
    session.held = false;
    if (session.watch_flags != 0) return become_watcher(session);
    if (!unpause(session)) return false;
    if (session.deaf && !session.unserved && session.dump == nullptr) {
        close(session, stopping_ ? SessionEnd::server_stopped : SessionEnd::client_closed);
        return false;
    }
    if (session.dump != nullptr || session.unserved) {
        queue(session);
        return true;
    }
    if (!stopping_) return true;
    if (!session.drained) {
        queue(session);
        return true;
    }
    close(session, SessionEnd::server_stopped);
    return false;
}

// One portion; the rest in later turns. What the client sent behind the command waits for the end of it.
void Worker::stream_dump(Session& session) {
    bool more = false;
    if (!take_memory(session, [&] {
            more = session.dump->more(out_, node_, context_.now, context_.started_unix, out_bytes_kept);
        }))
        return;
    if (!more) session.dump.reset();
    send_replies(session);
}

bool Worker::become_watcher(Session& session) {
    uint32_t flags = session.watch_flags;
    session.watch_flags = 0;
    event_del(&session.readiness);
    auto closed = [&events = events_, admin = session.state.admin] { events.descriptor_closed(admin); };
    if (watch_.adopt(session.state.fd, flags, closed)) {
        close(session, SessionEnd::became_watcher);
        return false;
    }
    session.paused = false;
    if (!wait_for(session, EV_READ)) return false;
    out_.append(WatchHub::too_many);
    return send_replies(session);
}

bool Worker::wait_for(Session& session, short what) {
    event_assign(&session.readiness, base_.get(), session.state.fd, short(what | EV_PERSIST), on_ready, &session);
    if (event_add(&session.readiness, nullptr) == 0) return true;
    close(session, SessionEnd::no_memory);
    return false;
}

bool Worker::send_pending(Session& session) {
    std::string_view rest = std::string_view(session.output).substr(session.output_start);
    ssize_t sent = send(session.state.fd, rest.data(), rest.size(), MSG_NOSIGNAL);
    counters_.write_calls.add(1);
    if (sent < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return false;
        close(session, SessionEnd::send_failed);
        return false;
    }
    counters_.bytes_written.add(uint64_t(sent));
    session.output_start += size_t(sent);
    if (session.output_start < session.output.size()) return false;
    std::string().swap(session.output);
    session.output_start = 0;
    return true;
}

void Worker::writable(Session& session) {
    touch(session);
    if (!send_pending(session)) return;
    session.writing = false;
    show_resting(session);
    event_del(&session.readiness);
    if (session.paused || wait_for(session, EV_READ)) after_sending(session);
}

void Worker::list_newest(Session& session) {
    session.older = newest_;
    session.newer = nullptr;
    if (newest_ != nullptr) newest_->newer = &session;
    newest_ = &session;
    if (oldest_ == nullptr) oldest_ = &session;
}

}  // namespace farcached::daemon
