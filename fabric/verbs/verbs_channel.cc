// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_channel.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/node_clock.h"
#include "base/prefetch.h"
#include "fabric/verbs/verbs_internal.h"

namespace farcached::fabric {

bool set_up_descriptor(int fd) {
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

std::string verbs_name(const SocketAddress& address) { return "verbs:" + to_string(address); }

VerbsChannel::VerbsChannel(Descriptor poller, std::string name, VerbsDevices& devices, ChannelEvents& events,
                           size_t input_bytes_max)
    : StreamChannel(std::move(poller), std::move(name), events, input_bytes_max),
      devices_(devices),
      agreement_(devices, this->name()),
      connection_(devices, agreement_),
      wakeups_(this->poller(), devices.config().sleeps),
      // A READ takes several microseconds: with fewer polls a retry would never pay.
      spins_(devices.config().spins_max, devices.config().spins_max) {}

VerbsChannel::~VerbsChannel() { connection_.retire(open()); }

// ---- the connection ---------------------------------------------------------------------------------

Refusal VerbsChannel::connect(const SocketAddress& to, const VerbsMemories& memories, const RpcWish& wish) {
    agreement_.propose(memories, wish);
    if (Refusal no = connection_.begin()) return no;
    if (!set_up_descriptor(connection_.events_fd()) || !wakeups_.begin(connection_.events_fd()))
        return verbs_call_failed("epoll_ctl", "", errno);
    if (const auto failed = connection_.resolve(to)) {
        end(failed->why, failed->text);
        wakeups_.kick();
    }
    return {};
}

Refusal VerbsChannel::accepted(std::unique_ptr<VerbsQueue> queue, uint64_t fetch_bytes) {
    queue->count_in(counters());
    connection_.accepted(std::move(queue));
    agreement_.lent(fetch_bytes);
    if (!wakeups_.begin(connection_.events_fd())) return verbs_call_failed("epoll_ctl", "", errno);
    opened();
    wakeups_.kick();
    return {};
}

void VerbsChannel::end_with_call(const char* call, int error) {
    end(channel_end_of(error), verbs_call_failed(call, "", error).text);
}

void VerbsChannel::take_events() {
    using Progress = VerbsConnection::Progress;
    while (!ending()) {
        const auto step = connection_.next(open());
        if (const auto* failed = std::get_if<VerbsConnection::Failed>(&step)) return end(failed->why, failed->text);
        switch (std::get<Progress>(step)) {
            case Progress::waits: return;
            case Progress::goes_on: break;
            case Progress::has_queue: queue()->count_in(counters()); break;
            case Progress::connected:
                opened();
                wakeups_.kick();  // frames flushed before are waiting
                events().connected();
                break;
        }
    }
}

// ---- waking, and sleeping ---------------------------------------------------------------------------

void VerbsChannel::woken() {
    if (queue() == nullptr) return;
    // The first call after the connection is made.
    if (!wakeups_.beats() && !wakeups_.begin_beats(queue()->completions().fd(), devices_.config().beat_ms))
        return end_with_call("timerfd_create", errno);
    const bool look = wakeups_.look_due();
    if (std::exchange(lingered_, false)) return;  // linger() collected
    if (look) {
        const VerbsWakeups::Seen seen = wakeups_.look(queue()->completions());
        if (seen.events) take_events();
        if (seen.beat) beat();
    }
    queue()->collect();
}

void VerbsChannel::beat() {
    if (queue()->failure().any()) queue()->look_no_further();
    if (queue()->completed() == completed_seen_) queue()->post_beat();
    completed_seen_ = queue()->completed();
}

bool VerbsChannel::anything_for(const Interest& interest) const {
    if (queue()->failure().bad().has_value() || queue()->anything_to_post()) return true;
    if (!queue()->reads_done().empty() || !reads_failed_.empty()) return true;
    if (queue()->reports().written() != 0) return true;
    if (interest.input && queue()->messages().anything_came()) return true;
    return interest.output && queue()->messages().room_to_push();
}

bool VerbsChannel::watch(const Interest& interest) {
    if (!devices_.config().sleeps) {
        interest_ = interest;
        return true;  // the owner calls ready() again in any case
    }
    if (interest.again || !queue()->arm()) {
        wakeups_.kick();
        return true;
    }
    interest_ = interest;
    queue()->collect();
    if (anything_for(interest)) return false;
    // A READ of a reply, a wake or the end of a message may be due while this end sleeps.
    const char* failed = wakeups_.wake_at(std::min(queue()->messages().next_ns(), queue()->rpc().next_look_ns()));
    if (failed != nullptr) end_with_call(failed, errno);
    return true;
}

bool VerbsChannel::linger() {
    const bool sleeps = devices_.config().sleeps;
    if (!open() || ending() || ended() || (sleeps && !queue()->completions().armed())) return false;
    const bool look = looks();
    const uint32_t spins = sleeps && !look ? spins_.polls() : devices_.config().spins_max;
    for (uint32_t i = 0; i < spins; i++) {
        queue()->collect();
        if (anything_for(interest_)) {
            spins_.found(spins);
            lingered_ = true;
            return true;
        }
        pause_briefly();
    }
    if (spins > 0 && !look) spins_.found_nothing();
    return false;
}

bool VerbsChannel::looks() const {
    if (queue() == nullptr || !open() || ending() || ended()) return false;
    return queue()->rpc().fetches() || queue()->rpc().looks(boottime_ns());
}

bool VerbsChannel::has_input() {
    if (queue() == nullptr || !open() || ending() || ended()) return false;
    queue()->collect();
    lingered_ = anything_for(interest_);
    return lingered_;
}

void VerbsChannel::expect_replies(bool any) {
    if (queue() != nullptr && queue()->rpc().has_reads()) queue()->rpc().proxy()->expect_replies(any, boottime_ns());
}

RpcMode VerbsChannel::rpc() const {
    if (queue() == nullptr) return RpcMode::count;
    const RpcProxy* proxy = queue()->rpc().proxy();
    return proxy == nullptr ? RpcMode::send : proxy->choice().now();
}

// ---- bytes ------------------------------------------------------------------------------------------

size_t VerbsChannel::pull(char* to, size_t room) {
    const size_t got = queue()->messages().pull(to, room);
    if (got < room) look_for_end();
    return got;
}

size_t VerbsChannel::push(std::string_view bytes) {
    size_t taken = queue()->messages().push(bytes);
    if (taken < bytes.size()) {
        queue()->collect();
        taken += queue()->messages().push(bytes.substr(taken));
    }
    return taken;
}

void VerbsChannel::post() {
    if (!queue()->ring()) wakeups_.kick();
}

void VerbsChannel::look_for_end() {
    const std::optional<VerbsBadCompletion>& bad = queue()->failure().bad();
    if (bad.has_value() && (!connection_.peer_gone() || bad->refused || bad->why == ChannelEnd::corrupt))
        end(bad->why, bad->text);
    else if (connection_.peer_gone() && !queue()->messages().anything_came())
        end(ChannelEnd::peer_closed, "");
    if (ending()) connection_.retire(open());
}

void VerbsChannel::hang_up() {
    connection_.retire(open());  // C1
    wakeups_.kick();
}

// ---- reads ------------------------------------------------------------------------------------------

void VerbsChannel::count_in(ChannelCounters& counters) {
    StreamChannel::count_in(counters);
    if (queue() != nullptr) queue()->count_in(counters);
}

bool VerbsChannel::post_read(const ReadRequest& request) {
    CHECK(can_read());
    CHECK(well_formed(request.ptr));
    const bool count = request.count && counts_reads();
    if (!queue()->sends().room_to_read(count)) return false;
    if (agreement_.reads(request.ptr) && request.ptr.length <= queue()->device().read_bytes_max()) {
        queue()->post_read(request.landing, request.ptr.length, request.ptr.offset, request.token);
        if (count) queue()->post_count(request.ptr.offset);
    } else {
        reads_failed_.push_back(request.token);
        if (reads_failed_.size() == 1) wakeups_.kick();
    }
    return true;
}

bool VerbsChannel::post_fetch(const FetchRequest& request) {
    if (queue() == nullptr || ending() || !queue()->sends().room_to_read(/* counted= */ false)) return false;
    if (!agreement_.fetches(request.offset, request.bytes)) return false;
    queue()->post_read(request.landing, request.bytes, request.offset, request.token);
    return true;
}

void VerbsChannel::copy_container(char* to, size_t bytes) const {
    CHECK(has_container());
    queue()->reports().own()->copy(to, bytes);
}

bool VerbsChannel::post_report(std::string_view bytes) {
    return queue() != nullptr && open() && !ending() && queue()->messages().post_report(bytes);
}

void VerbsChannel::tell_written() {
    const uint32_t bytes = queue()->reports().take_written();
    if (bytes != 0) events().written(bytes);
}

// Both lists keep their memory.
void VerbsChannel::tell_reads() {
    auto tell = [&](std::vector<uint64_t>& tokens, ReadStatus status) {
        telling_.swap(tokens);
        for (const uint64_t token : telling_) {
            if (ending()) break;
            events().read_done(token, status);
        }
        telling_.clear();
    };
    tell(queue()->reads_done(), ReadStatus::done);
    tell(reads_failed_, ReadStatus::failed);
}

// ---- rights -----------------------------------------------------------------------------------------

Result<std::string> VerbsChannel::grant() { return agreement_.grant(open_queue()); }

Refusal VerbsChannel::take_grant(std::string_view bytes) {
    Refusal no = agreement_.take_grant(open_queue(), bytes);
    if (!no && agreement_.withholds()) wakeups_.kick();
    return no;
}

void VerbsChannel::revoke() {
    if (queue() == nullptr) return;
    queue()->revoke();
    wakeups_.kick();
}

// ---- making one -------------------------------------------------------------------------------------

Result<std::unique_ptr<Channel>> connect_verbs(const SocketAddress& to, VerbsDevices& devices, const VerbsMemories& memories,
                                               ChannelEvents& events, const RpcWish& wish, size_t input_bytes_max) {
    const std::string name = verbs_name(to);
    Descriptor poller(epoll_create1(EPOLL_CLOEXEC));
    if (!poller) return no_descriptor(name);
    auto channel = std::make_unique<VerbsChannel>(std::move(poller), name, devices, events, input_bytes_max);
    if (const Refusal no = channel->connect(to, memories, wish)) return system_problem(name + ": " + no->text);
    return channel;
}

}  // namespace farcached::fabric
