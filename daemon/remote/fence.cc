// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/fence.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/broken.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/random_word.h"
#include "protocol/frame_request.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t look_again_ns = 5'000'000;        // while other workers' states are awaited
constexpr uint64_t look_again_down_ns = 1'000'000'000; // without a connection: a new one is an event
constexpr uint64_t kill_again_ns = 200'000'000;      // after deletes that failed
constexpr uint64_t refused_again_ns = 10'000'000;    // after a refusal for which requests wait

// One change in place of two. nullptr: it cannot be described.
std::shared_ptr<const Kept> both_changes(const Kept& former, const Kept& next) noexcept {
    try {
        const auto had = protocol::parse_kept(former.text), has = protocol::parse_kept(next.text);
        const auto after = had.has_value() && has.has_value() ? protocol::kept_after(*had, *has) : std::nullopt;
        return after.has_value() ? describe(*after, next.epoch) : nullptr;
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

}  // namespace

std::shared_ptr<const Kept> describe(const protocol::KeptKeys& keys, const SharedEpoch& epoch) {
    std::string text = protocol::kept_text(keys);
    if (text.size() > protocol::kept_bytes_max) {
        if (!keys.unmoved.has_value() || keys.lists.size() == 1) return nullptr;
        protocol::KeptKeys shorter = keys;
        shorter.lists.resize(1);
        return describe(shorter, epoch);
    }
    const size_t older_bytes = text.size() - (keys.first || keys.identity != 0 ? protocol::kept_tail_bytes : 0);
    return std::make_shared<const Kept>(Kept{std::move(text), keys.lists[0].none(), epoch, keys.first, older_bytes});
}

// ---- keys -------------------------------------------------------------------------------------------

void KeySet::add(std::string_view key) noexcept {
    if (all_) return;
    if (bytes_ + key.size() + key_overhead > bytes_max) return become_all();
    try {
        if (keys_.emplace(key).second) bytes_ += key.size() + key_overhead;
    } catch (const std::bad_alloc&) {
        become_all();
    }
}

void KeySet::become_all() noexcept {
    clear();
    all_ = true;
}

void KeySet::merge(KeySet& other) noexcept {
    if (other.all_) become_all();
    for (const std::string& key : other.keys_) add(key);
    other.clear();
}

void KeySet::clear() noexcept {
    keys_.clear();
    bytes_ = 0;
    all_ = false;
}

std::vector<std::string> KeySet::take(size_t most) {
    std::vector<std::string> taken;
    taken.reserve(std::min(most, keys_.size()));
    while (taken.size() < most && !keys_.empty()) {
        auto node = keys_.extract(keys_.begin());
        bytes_ -= node.value().size() + key_overhead;
        taken.push_back(std::move(node.value()));
    }
    return taken;
}

void GuestMarks::add(uint64_t hash, uint64_t where) noexcept {
    if (sets_ == nullptr) sets_.reset(new (std::nothrow) Set[sets]());
    if (sets_ == nullptr) return;
    Set& set = sets_[hash % sets];
    const auto same = std::ranges::find(set, hash, &Mark::hash);
    std::move_backward(set.begin(), same != set.end() ? same : set.end() - 1, same != set.end() ? same + 1 : set.end());
    set.front() = {hash, where};
}

bool GuestMarks::has(uint64_t hash, uint64_t where) const {
    if (sets_ == nullptr) return false;
    return std::ranges::any_of(sets_[hash % sets], [&](const Mark& mark) { return mark.hash == hash && mark.where == where; });
}

// ---- states -----------------------------------------------------------------------------------------

uint64_t Fence::new_run() {
    static std::atomic<uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void Fences::change() noexcept {
    std::lock_guard hold(lock_);
    generation_.fetch_add(1, std::memory_order_release);
}

bool Fences::all_took(uint64_t generation) const {
    for (size_t i = 0; i < taken_.size(); i++)
        if (workers_.test(i) && taken_[i] < generation) return false;
    return true;
}

bool Fences::wants_out(const Fence& fence, bool drained) const {
    if (drained) return true;
    for (size_t i = 0; i < taken_.size(); i++)
        if (workers_.test(i) && fence.links[i] == Fence::Link::down) return true;
    return false;
}

bool Fences::enter(Fence& fence, FenceState next) {
    fence.shown.state = next;
    fence.state_since = generation_.fetch_add(1, std::memory_order_release) + 1;
    if (next == FenceState::out) fence.first_kills = SIZE_MAX;
    if (next == FenceState::out) fence.was_out = true;
    if (next == FenceState::out || next == FenceState::in_use) fence.run = Fence::new_run();
    if (next == FenceState::in_use) fence.known.clear();
    return true;
}

// By a worker whose link is up. While out, after every worker's earlier requests (F4).
bool Fences::may_kill(const Fence& fence, const Seen& seen, uint64_t now_ns) const {
    if (!seen.up || seen.elsewhere || fence.killing || now_ns < fence.retry_at_ns) return false;
    if (fence.kept != nullptr) return true;
    if (fence.waits()) return !fence.stale.empty();
    if (fence.shown.state == FenceState::out) {
        if (wants_out(fence, seen.drained) || fence.stale.empty() || fence.first_kills == 0) return false;
        return (fence.busy & workers_).none();
    }
    if (fence.shown.state != FenceState::in_use || !fence.tainted || fence.guests.empty()) return false;
    if (!all_took(fence.tainted_since) || fence.guests_under_way.load(std::memory_order_acquire) != 0) return false;
    return !fence.guests.all() || fence.guests_until_ns == UINT64_MAX;
}

bool Fences::advance_out(Fence& fence, const Seen& seen, uint64_t now_ns) {
    if (!seen.up || fence.killing || wants_out(fence, seen.drained) || now_ns < fence.retry_at_ns) return false;
    if (fence.home.has_other(workers_) || (fence.busy & workers_).any()) return false;
    if constexpr (broken::build)
        if (broken::s19_skip_fence) fence.stale.clear();
    return (fence.stale.empty() || fence.first_kills == 0) && enter(fence, FenceState::joining);
}

// Out of use. Its guests are stale (F3).
bool Fences::put_out(Fence& fence) {
    fence.stale.merge(fence.guests);
    fence.guests_until_ns = 0;
    fence.tainted = false;
    return enter(fence, FenceState::out);
}

// Guests at other nodes are stale from now on, when their keys change.
bool Fences::rejoin(std::span<Seen> nodes, Seen& seen) {
    enter(*seen.fence, FenceState::in_use);
    if (!std::exchange(seen.fence->was_out, false)) return true;
    seen.rejoined = true;
    for (Seen& other : nodes) {
        Fence& gutter = *other.fence;
        if (&gutter == seen.fence || gutter.guests.empty()) continue;
        gutter.tainted = true;
        gutter.tainted_since = seen.fence->state_since;
    }
    return true;
}

// Of a node in use: true if its guests are gone.
bool Fences::clean(Fence& fence, uint64_t now_ns) {
    if constexpr (broken::build)
        if (broken::s19_skip_fence) fence.guests.clear();
    if (!fence.tainted || fence.killing) return false;
    if (fence.guests.all() && fence.guests_until_ns <= now_ns) fence.guests.clear();
    if (!fence.guests.empty()) return false;
    fence.tainted = false;
    fence.guests_until_ns = 0;
    generation_.fetch_add(1, std::memory_order_release);
    return true;
}

bool Fences::advance(std::span<Seen> nodes, Seen& seen, bool failover, uint64_t now_ns) {
    Fence& fence = *seen.fence;
    switch (fence.shown.state) {
        case FenceState::in_use:
            if (failover && wants_out(fence, seen.drained)) return enter(fence, FenceState::leaving);
            return clean(fence, now_ns);
        case FenceState::leaving: return all_took(fence.state_since) && put_out(fence);
        case FenceState::out: return advance_out(fence, seen, now_ns);
        case FenceState::joining:
        case FenceState::moving:
            if (wants_out(fence, seen.drained) && (fence.was_out || (failover && all_took(fence.state_since))))
                return put_out(fence);
            if constexpr (broken::build)
                if (broken::s19_keep_moved) fence.kept.reset();
            if (fence.killing || !fence.stale.empty() || !all_took(fence.state_since)) return false;
            if (fence.kept != nullptr && !fence.has_first()) return false;
            if (fence.home.has_other(workers_)) return false;
            return rejoin(nodes, seen);
    }
    return false;
}

void Fences::begin_kill(Seen& seen, uint64_t now_ns) noexcept {
    Fence& fence = *seen.fence;
    if (!may_kill(fence, seen, now_ns)) return;
    if (fence.kept != nullptr) {
        seen.kill.what = Kill::What::moved;
        seen.kill.kept = fence.kept;
        fence.killing = true;
        return;
    }
    const bool stale = fence.shown.state != FenceState::in_use;
    KeySet& keys = stale ? fence.stale : fence.guests;
    try {
        if (stale && fence.first_kills == SIZE_MAX) fence.first_kills = std::max<size_t>(keys.size(), 1);
        seen.kill.keys = keys.take(Kill::keys_max);
    } catch (const std::bad_alloc&) {
        fence.retry_at_ns = now_ns + kill_again_ns;
        return;
    }
    seen.kill.flush = keys.all();
    if (seen.kill.flush) keys.clear();
    seen.kill.what = stale ? Kill::What::stale : Kill::What::guests;
    fence.killing = true;
}

// When the worker is to attend without another event.
uint64_t Fences::again_at_ns(const Seen& seen, uint64_t now_ns) const {
    const Fence& fence = *seen.fence;
    const bool waits = !seen.up && fence.shown.state != FenceState::leaving;
    const uint64_t soon_ns = std::max(now_ns + (waits ? look_again_down_ns : look_again_ns), fence.retry_at_ns);
    if (fence.shown.state == FenceState::out && seen.busy) return now_ns + look_again_ns;
    if (fence.has_first() && seen.deletes && !seen.up)
        return std::min(soon_ns, std::max(fence.first.until_ns(), now_ns + look_again_ns));
    if (fence.shown.state == FenceState::out) return wants_out(fence, seen.drained) ? UINT64_MAX : soon_ns;
    if (fence.shown.state != FenceState::in_use || fence.kept != nullptr) return soon_ns;
    if (!fence.tainted) return UINT64_MAX;
    return fence.guests.all() ? std::max(fence.guests_until_ns, soon_ns) : soon_ns;
}

void Fences::note_link(uint32_t worker, Seen& seen) {
    using Link = Fence::Link;
    Fence& fence = *seen.fence;
    if (seen.renewal != fence.renewal) seen.up = seen.down = false;
    if (fence.home.has_met(worker)) note_process(worker, seen);
    fence.links[worker] = !seen.owns_link ? Link::none : seen.up ? Link::up : seen.down ? Link::down : Link::none;
    fence.busy[worker] = seen.busy;
}

Fences::Attended Fences::attend(uint32_t worker, std::span<Seen> nodes, bool failover, uint64_t now_ns) noexcept {
    std::lock_guard hold(lock_);
    workers_.set(worker);
    const uint64_t before = generation_.load(std::memory_order_relaxed);
    for (Seen& seen : nodes) note_link(worker, seen);
    // This worker follows every state that it finds here, so it counts as having taken it.
    for (bool again = true; again;) {
        again = false;
        taken_[worker] = generation_.load(std::memory_order_relaxed);
        for (Seen& seen : nodes) again |= advance(nodes, seen, failover, now_ns);
    }
    Attended attended{generation_.load(std::memory_order_relaxed)};
    attended.changed = attended.generation != before;
    for (Seen& seen : nodes) {
        Fence& fence = *seen.fence;
        if (fence.has_first()) fence.first.begin(now_ns);
        begin_kill(seen, now_ns);
        seen.state = fence.shown.state;
        const bool is_former = seen.renewal != fence.renewal;  // the link; its worker has not taken the newest set
        seen.former = is_former && fence.is_used();
        seen.two = fence.home.has_other(workers_);
        if (seen.former || (seen.ends && fence.is_used())) seen.state = FenceState::joining;
        seen.takes_guests = !fence.tainted;
        seen.deletes = fence.deletes() && !is_sent_later(fence, now_ns);
        seen.lost = wants_out(fence, /* drained= */ false);
        const uint64_t again_ns = is_former ? now_ns + look_again_ns : again_at_ns(seen, now_ns);
        attended.unsettled |= again_ns <= now_ns + look_again_ns || fence.killing;
        attended.again_at_ns = std::min(attended.again_at_ns, again_ns);
    }
    return attended;
}

void Fences::leave(uint32_t worker) noexcept {
    std::lock_guard hold(lock_);
    workers_.reset(worker);
    generation_.fetch_add(1, std::memory_order_release);
}

// ---- diverted requests and kills -----------------------------------------------------------------------

void Fences::divert(Fence& own, Fence& gutter, std::string_view key, uint64_t until_ns, bool capped) noexcept {
    std::lock_guard hold(lock_);
    own.stale.add(key);
    own.shown.diverted++;
    if (capped) own.shown.capped++;
    gutter.guests.add(key);
    gutter.guests_until_ns = std::max(gutter.guests_until_ns, until_ns);
    gutter.guests_under_way.fetch_add(1, std::memory_order_relaxed);
}

Fences::Guest Fences::guest(const Fence& own, const Fence& gutter, std::string_view key) const {
    Guest guest;
    const uint64_t seed = seed_.load(std::memory_order_acquire);
    guest.known = seed == 0;
    if (guest.known) return guest;
    guest.hash = hash_key(key, seed);
    std::lock_guard hold(lock_);
    guest.own_run = own.run;
    guest.gutter_run = gutter.run;
    guest.known = own.known.has(guest.hash, gutter.run);
    return guest;
}

void Fences::know(Fence& own, const Guest& guest) noexcept {
    std::lock_guard hold(lock_);
    if (own.run == guest.own_run) own.known.add(guest.hash, guest.gutter_run);
}

bool Fences::knows(const Fence& own, const Guest& guest) const {
    std::lock_guard hold(lock_);
    return own.run == guest.own_run && own.known.has(guest.hash, guest.gutter_run);
}

JoinedChanges Fences::join_unanswered(const Fence& fence, const std::shared_ptr<const Kept>& kept) const noexcept {
    JoinedChanges joined;
    {
        std::lock_guard hold(lock_);
        if (fence.kept != nullptr && !fence.has_first()) joined.unanswered = fence.kept;
    }
    if (joined.unanswered != nullptr && kept != nullptr) joined.both = both_changes(*joined.unanswered, *kept);
    return joined;
}

void Fences::list(Fence& fence, bool joins, std::shared_ptr<const Kept> kept, const JoinedChanges& joined) noexcept {
    std::lock_guard hold(lock_);
    if (kept != nullptr) {
        // A change keeps no item that the first list does not.
        if (fence.kept != nullptr && !fence.has_first()) {
            if (joined.both != nullptr && fence.kept == joined.unanswered)
                kept = joined.both;
            else
                fence.stale.become_all();
        }
        fence.kept = std::move(kept);
        fence.first = {};
    }
    if (joins && fence.is_used()) enter(fence, fence.shown.state == FenceState::joining ? FenceState::joining : FenceState::moving);
    if (seed_.load(std::memory_order_relaxed) == 0) seed_.store(random_word() | 1, std::memory_order_release);
    fence.known.clear();
    fence.run = Fence::new_run();
}

void Fences::send_first(Fence& fence, std::shared_ptr<const Kept> kept) noexcept {
    std::lock_guard hold(lock_);
    fence.kept = std::move(kept);
    generation_.fetch_add(1, std::memory_order_release);
}

void Fences::restarted(Fence& fence) noexcept {
    std::lock_guard hold(lock_);
    fence.first.forget_refusal();
}

bool Fences::is_sent_later(const Fence& fence, uint64_t now_ns) const {
    if (!fence.has_first()) return false;
    if (fence.first.is_refused() || wants_out(fence, /* drained= */ false)) return true;
    return now_ns >= fence.first.until_ns() && !fence.has_link();
}

bool Fences::moves(const Fence& fence) const {
    std::lock_guard hold(lock_);
    if (fence.shown.state == FenceState::moving) return true;
    if (!fence.has_first()) return fence.deletes();
    return !fence.first.is_refused() && fence.has_link();  // else it is sent later
}

void Fences::killed(Fence& fence, Kill&& kill, bool done, uint64_t now_ns) noexcept {
    std::lock_guard hold(lock_);
    CHECK(fence.killing);
    fence.killing = false;
    if (kill.what == Kill::What::moved) {
        if (kill.kept->first) generation_.fetch_add(1, std::memory_order_release);
        if (done && fence.kept == kill.kept) fence.kept.reset();
        if (done) return;
    }
    if (done) {
        fence.shown.killed += kill.keys.size();
        if (kill.flush) fence.shown.flushes++;
        if (kill.what != Kill::What::stale) return;
        const size_t fewer = kill.flush ? SIZE_MAX : kill.keys.size();
        if (fence.first_kills != SIZE_MAX) fence.first_kills -= std::min(fence.first_kills, fewer);
        return;
    }
    fence.shown.failures++;
    fence.retry_at_ns = now_ns + kill_again_ns;
    const bool is_first = kill.kept != nullptr && kill.kept->first && fence.kept == kill.kept;
    if (kill.refused && is_first && !fence.first.refuse(now_ns)) fence.retry_at_ns = now_ns + refused_again_ns;
    // A node that went out of use meanwhile has no guests any more, but stale keys.
    const bool guests = kill.what == Kill::What::guests && fence.shown.state == FenceState::in_use;
    KeySet& keys = guests ? fence.guests : fence.stale;
    if (kill.flush) keys.become_all();
    for (const std::string& key : kill.keys) keys.add(key);
}

FenceShown Fences::shown(const Fence& fence) const {
    std::lock_guard hold(lock_);
    FenceShown shown = fence.shown;
    shown.keys = fence.stale.size() + fence.guests.size();
    shown.all = fence.stale.all();
    return shown;
}

// ---- processes that answer at a node's addresses (F9) ---------------------------------------------------

void Fences::met(Fence& fence, uint32_t worker, uint64_t at) noexcept {
    std::lock_guard hold(lock_);
    fence.home.met(worker, at);
}

void Fences::readdress(Fence& fence, FunctionRef<bool(uint64_t)> has) noexcept {
    std::lock_guard hold(lock_);
    fence.home.readdress(has, workers_);
}

void Fences::renew(Fence& fence) noexcept {
    std::lock_guard hold(lock_);
    fence.renewal++;
    if (fence.is_used()) enter(fence, FenceState::joining);
}

uint64_t Fences::renewal(const Fence& fence) const {
    std::lock_guard hold(lock_);
    return fence.renewal;
}

NodeHome::Address Fences::home_address(const Fence& fence) const {
    std::lock_guard hold(lock_);
    return fence.home.address(workers_);
}

// The deletes that were to be done before concern the former process; this one deletes more.
void Fences::delete_all(Fence& fence) noexcept {
    if constexpr (broken::build)
        if (broken::s19_skip_check) return;
    try {
        fence.kept = std::make_shared<const Kept>(Kept{.text = "", .nothing = true});
    } catch (const std::bad_alloc&) {
        fence.stale.become_all();
    }
}

// By a worker that attends.
void Fences::note_process(uint32_t worker, Seen& seen) noexcept {
    using Met = NodeHome::Met;
    Fence& fence = *seen.fence;
    const Met met = fence.home.attend(worker, seen.up ? seen.incarnation : 0, workers_);
    if (met == Met::home) return;
    if (met == Met::ended) {
        seen.up = false;
        seen.ends = true;
        return;
    }
    seen.elsewhere = met == Met::elsewhere;
    if (fence.is_used() && !(seen.elsewhere && fence.shown.state == FenceState::joining)) enter(fence, FenceState::joining);
    seen.back = met == Met::back;
    if (met == Met::moved || met == Met::back) delete_all(fence);
}

}  // namespace farcached::daemon
