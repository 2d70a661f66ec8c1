// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/etcd_registration.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>
#include <variant>

#include "base/broken.h"
#include "base/check.h"
#include "base/node_clock.h"
#include "base/random_word.h"

namespace farcached::daemon {

namespace {

using process::Level;
constexpr uint64_t registration_second_ns = 1'000'000'000;
constexpr int64_t no_lease = 5;  // gRPC: not found

// Of an answer that is not etcd's.
EtcdFailure unreadable(const std::string& endpoint) { return {endpoint + ": the answer is not etcd's"}; }

// No answer, a deadline inside etcd, or a member without a leader: the record may be there or not, and no list changes.
bool is_silence(const EtcdFailure& failure) {
    constexpr int64_t deadline_exceeded = 4, unavailable = 14;
    return failure.code == 0 || failure.code == deadline_exceeded || failure.code == unavailable;
}

}  // namespace

// A request that takes longer than a third of the lease, at all endpoints together, comes too late.
EtcdAccess EtcdRegistration::hurried(EtcdAccess access, uint32_t ttl_s) {
    access.request_ms = std::clamp(ttl_s * 1000 / 3 / uint32_t(access.url.endpoints.size()), 700u, access.request_ms);
    return access;
}

EtcdRegistration::EtcdRegistration(const EtcdAccess& access, const std::string& keys, Member member, Items items,
                                   ShowRight show_right)
    : member_(std::move(member)),
      items_(std::move(items)),
      show_right_(std::move(show_right)),
      keys_(keys),
      key_(keys + member_.name),
      weight_(member_.weight),
      client_(hurried(access, member_.ttl_s)),
      others_(client_, keys_, key_, asks()),
      lists_(access.url.lists(), member_.name, asks()),
      right_(items_.former_incarnation != 0, items_.strict),
      history_(member_.ttl_s * registration_second_ns) {
    if (show_right_ == nullptr) return;
    client_.call_often([this] {
        right_.runs(boottime_ns());
        this->show_right();
    });
}

EtcdRegistration::~EtcdRegistration() { CHECK(!thread_.joinable()); }

void EtcdRegistration::start() { thread_ = std::thread(&EtcdRegistration::run, this); }

void EtcdRegistration::stop(bool keep_record) {
    if (!thread_.joinable()) return;
    keep_record_ = keep_record;
    client_.interrupt();
    thread_.join();
}

void EtcdRegistration::run() {
    const Recorder::Running running(recorder_);
    while (!client_.is_interrupted()) {
        uint32_t ms = 1000;
        try {
            ms = step();
        } catch (const std::bad_alloc&) {
            process::lose_line();
        }
        (void)client_.pause(ms);
    }
    try {
        revoke();
    } catch (const std::bad_alloc&) {
        process::lose_line();
    }
}

// With jitter, and several times within a lease.
uint32_t EtcdRegistration::retry_ms() const {
    const uint32_t ms = std::clamp(member_.ttl_s * 1000 / 10, 200u, 1000u);
    return ms / 2 + uint32_t(random_word() % (ms / 2 + 1));
}

uint32_t EtcdRegistration::step() {
    if (lease_.id != 0 && registered_) {
        if (!keep_alive()) return lease_.id == 0 ? 0 : retry_ms();
        if (!look_at_record()) return registered_ ? retry_ms() : 0;
        renew_right();
        exchange_lists();
    }
    if (lease_.id == 0 && !take_lease()) return retry_ms();
    if (!registered_) {
        switch (put()) {
            case Put::failed: return retry_ms();
            case Put::taken: (void)keep_alive(); break;
            case Put::done: break;
        }
    }
    const uint32_t third_ms = uint32_t(std::min<int64_t>(lease_.ttl_s, member_.ttl_s)) * 1000 / 3;
    return lease_.id == 0 ? 0 : third_ms;
}

EtcdClient::Ask EtcdRegistration::asks() {
    return [this](const std::string& path, const std::string& body) { return ask(path, body); };
}

EtcdClient::Reply EtcdRegistration::ask(const std::string& path, const std::string& body) {
    history_.asks(boottime_ns());
    EtcdClient::Reply reply = client_.ask(path, body);
    history_.asked(boottime_ns());
    return reply;
}

void EtcdRegistration::renew_right() {
    const uint64_t ttl_s = uint64_t(std::min<int64_t>(lease_.ttl_s, member_.ttl_s));
    right_.registered(lease_sent_ns_, ttl_s * registration_second_ns);
    may_be_read_ = show_right_ != nullptr;
    is_refused_ = false;
    show_right();
}

void EtcdRegistration::show_right() {
    if (show_right_ == nullptr) return;
    show_right_(right_, uint64_t(record_revision_));
    const uint64_t now_ns = boottime_ns();
    const bool leaves = client_.is_interrupted() || record_revision_ == INT64_MAX;
    const bool reads = now_ns < right_.reads_until_ns();
    const Ended ended = leaves || reads ? Ended::none : ended_now(now_ns);
    const Ended was = std::exchange(told_ended_, ended);
    if (was == ended) return;
    if (ended != Ended::none)
        process::say(Level::warning,
                     ended == Ended::refused ?
                         "discovery: etcd refuses this node, which executes no requests until etcd accepts it" :
                     ended == Ended::all ?
                         "discovery: etcd does not answer; this node executes no requests until it does" :
                         "discovery: etcd does not answer; this node executes requests, and its memory is not read one-sided");
    else if (reads)
        process::say(Level::notice, was == Ended::reads ? "discovery: the memory of this node is read one-sided again" :
                                                          "discovery: etcd answers; this node executes requests again");
}

// After the end of the right to be read.
EtcdRegistration::Ended EtcdRegistration::ended_now(uint64_t now_ns) const {
    if (now_ns < right_.serves_until_ns()) return Ended::reads;
    if (!registered_) return Ended::none;
    if (is_refused_) return Ended::refused;
    return items_.strict && right_.is_silent(now_ns) ? Ended::all : Ended::none;
}

void EtcdRegistration::leave() {
    registered_ = false;
    right_.lost();
    show_right();
}

bool EtcdRegistration::take_lease() {
    const uint64_t sent_ns = boottime_ns();
    const EtcdClient::Reply reply = ask("lease/grant", grant_request(member_.ttl_s));
    if (const auto* failure = std::get_if<EtcdFailure>(&reply)) return failed(*failure);
    const std::optional<EtcdLease> lease = read_grant(std::get<std::string>(reply));
    if (!lease.has_value()) return failed(unreadable(client_.endpoint()));
    lease_ = *lease;
    lease_sent_ns_ = sent_ns;
    return true;
}

EtcdRegistration::Put EtcdRegistration::put() {
    EtcdClient::Reply reply = ask("kv/range", key_request(key_));
    if (const auto* failure = std::get_if<EtcdFailure>(&reply)) return failed(*failure), Put::failed;
    const std::optional<EtcdRange> found = read_range(std::get<std::string>(reply), Member::bytes_max);
    if (!found.has_value()) return failed(unreadable(client_.endpoint())), Put::failed;
    int64_t revision = 0;
    uint64_t incarnation = 0;  // of the run that put the present record
    bool had_keys = !history_.was_registered() || member_.weight != 0;  // M9
    if (!found->keys.empty()) {
        const auto other = parse_member(member_.name, found->keys.front().value);
        const Member* const is = std::get_if<Member>(&other);
        if (is != nullptr) incarnation = is->incarnation;
        had_keys = had_keys && (is == nullptr || is->weight != 0);
        const bool replaced_this = history_.was_registered() && incarnation != member_.incarnation;  // M5
        if (is != nullptr && (is->tcp != member_.tcp || is->verbs != member_.verbs || replaced_this)) {
            if (!std::exchange(told_taken_, true))
                process::say(Level::warning, "discovery: another process is registered as " + member_.name + ", at " +
                                                 (is->tcp.empty() ? is->verbs : is->tcp) +
                                                 "; this one waits until it is gone. Give each farnode another --name, each "
                                                 "farcached another --advertise");
            return Put::taken;
        }
        revision = found->keys.front().mod_revision;
    }
    const bool is_own = incarnation != 0 && (incarnation == member_.incarnation || incarnation == items_.former_incarnation);
    const uint32_t weight = weight_.load(std::memory_order_relaxed);
    const bool gets_keys = !had_keys && weight != 0;
    if (right_.served_unregistered() || (!is_own && !history_.was_kept(*found)))
        drop_items(Gone::registration);  // M6
    else if (gets_keys)
        drop_items(Gone::weight);  // M9
    member_.weight = weight;
    reply = ask("kv/txn", put_request(key_, member_text(member_), lease_.id, revision));
    if (const auto* failure = std::get_if<EtcdFailure>(&reply)) {
        if (failure->code != no_lease) return failed(*failure), Put::failed;
        lease_ = {};
        return Put::failed;
    }
    const std::optional<int64_t> done = read_put(std::get<std::string>(reply));
    if (!done.has_value()) return failed(unreadable(client_.endpoint())), Put::failed;
    if (*done == 0) return Put::failed;  // another writer was first
    record_revision_ = *done;
    others_.begin(0);
    registered_ = true;
    renew_right();
    history_.registered(*found);
    told_taken_ = told_failure_ = false;
    lines_.say(Level::notice, "discovery: registered as " + member_.name + " in etcd at " + client_.endpoint() + " for " +
                                  std::to_string(lease_.ttl_s) + " s at a time");
    return Put::done;
}

// M8. former: why other nodes may have had its keys.
void EtcdRegistration::drop_items(Gone former) {
    right_.lost();
    show_right();
    const bool any = items_.drop != nullptr && items_.drop();
    right_.dropped();
    may_be_read_ = false;
    if (!any) return;
    lines_.say(Level::warning, former == Gone::weight ?
                                   "discovery: this node had weight 0, and proxies may have stored newer values elsewhere; it "
                                   "drops all items before it gets keys again" :
                                   "discovery: this node has items of a time when it was not registered, and proxies may have "
                                   "stored newer values elsewhere; it drops all items, then registers");
}

// M5. False: registered_ is, too, or etcd does not tell.
bool EtcdRegistration::look_at_record() {
    const EtcdClient::Reply reply = ask("kv/range", key_request(key_));
    if (const auto* failure = std::get_if<EtcdFailure>(&reply)) return failed(*failure);
    const std::optional<EtcdRange> found = read_range(std::get<std::string>(reply), Member::bytes_max);
    if (!found.has_value()) return failed(unreadable(client_.endpoint()));
    if (!found->keys.empty() && found->keys.front().lease == lease_.id) {
        note_weight(found->keys.front());
        if (items_.looked != nullptr) items_.looked(uint64_t(found->revision), refused_before());
        put_weight(found->keys.front());
        return knows_others();
    }
    leave();
    lines_.say(Level::warning, found->keys.empty() ?
                                   "discovery: the record of this process was deleted in etcd; it registers again" :
                                   "discovery: the record of this process was replaced in etcd; it registers again");
    return false;
}

// M11
void EtcdRegistration::exchange_lists() {
    if (items_.elsewhere == nullptr) return;
    const Result<uint64_t, EtcdFailure> newest = lists_.read();
    const auto* const epoch = std::get_if<uint64_t>(&newest);
    if (epoch != nullptr && member_.weight != 0) items_.elsewhere(*epoch);
    const std::optional<EtcdFailure> failure =
        epoch != nullptr ? lists_.write(items_.received(), lease_.id) : std::get<EtcdFailure>(newest);
    if (!failure.has_value() || failure->interrupted) return;
    lines_.say(Level::warning, "discovery: this node cannot exchange with other nodes which lists they have received: " +
                                   failure->text + "; it tries again");
}

// If the answer to a change of the weight was lost.
void EtcdRegistration::note_weight(const EtcdKey& record) {
    const Result<Member, std::string> parsed = parse_member(member_.name, record.value);
    const auto* const is = std::get_if<Member>(&parsed);
    if (is != nullptr && is->weight != member_.weight) say_weight(set_weight(is->weight, record.mod_revision));
}

// M9. If it fails, or another writer was first, the next look at the record tries again.
void EtcdRegistration::put_weight(const EtcdKey& record) {
    const uint32_t weight = weight_.load(std::memory_order_relaxed);
    if (weight == member_.weight) return;
    if (member_.weight == 0) drop_items(Gone::weight);
    Member changed = member_;
    changed.weight = weight;
    const EtcdClient::Reply reply = ask("kv/txn", put_request(key_, member_text(changed), lease_.id, record.mod_revision));
    if (const auto* failure = std::get_if<EtcdFailure>(&reply)) return (void)failed(*failure);
    const int64_t revision = read_put(std::get<std::string>(reply)).value_or(0);
    if (revision == 0) return;
    // Etcd was asked after drop_items() began a span. That of a lost answer would be older than a span.
    if (member_.weight == 0 && items_.looked != nullptr) items_.looked(uint64_t(revision) - 1, 0);
    const uint32_t former = set_weight(weight, revision);
    if (weight == 0 && items_.looked != nullptr) items_.looked(uint64_t(revision), refused_before());
    (void)knows_others();
    say_weight(former);
}

// M9. False: the node has no right until etcd says whether others had keys.
bool EtcdRegistration::knows_others() {
    if (others_.knows_begin()) return true;
    right_.lost();
    show_right();
    return false;
}

// M9. 0: nothing. If no other member has keys, farcached keep their last list.
uint64_t EtcdRegistration::refused_before() { return others_.seen() ? uint64_t(others_.since()) : 0; }

// Returns the former weight.
uint32_t EtcdRegistration::set_weight(uint32_t weight, int64_t revision) {
    others_.begin(weight == 0 ? revision : 0);
    return std::exchange(member_.weight, weight);
}

void EtcdRegistration::say_weight(uint32_t former) {
    const uint32_t weight = member_.weight;
    lines_.say(Level::notice, "discovery: registered with weight " + std::to_string(weight) + " instead of " +
                                  std::to_string(former) + (weight == 0 ? "; other nodes get the keys of this one" : ""));
}

// False: not answered, or the lease is lost.
bool EtcdRegistration::keep_alive() {
    const uint64_t sent_ns = boottime_ns();
    const EtcdClient::Reply reply = ask("lease/keepalive", lease_request(lease_.id));
    if (const auto* failure = std::get_if<EtcdFailure>(&reply)) return failed(*failure);
    const std::optional<EtcdLease> kept = read_kept(std::get<std::string>(reply));
    if (!kept.has_value()) return failed(unreadable(client_.endpoint()));
    if (kept->ttl_s == 0) {  // M1
        lease_ = {};
        if (!registered_) return false;
        leave();
        lines_.say(Level::warning, "discovery: etcd no longer has the lease of this process, which registers again");
        return false;
    }
    lease_sent_ns_ = sent_ns;
    if (std::exchange(told_failure_, false)) lines_.say(Level::notice, "discovery: etcd answers at " + client_.endpoint());
    return true;
}

// M10. With millions of leased items the first drop takes seconds. The node executes requests during it: other nodes do not have
// the keys before etcd is asked. The second drop, without leases, is short.
void EtcdRegistration::end_right() {
    const bool drops = std::exchange(may_be_read_, false) && items_.drop != nullptr && !broken::s17_keep_items;
    right_.leaves();
    if (drops) {
        show_right();
        (void)items_.drop();
    }
    record_revision_ = INT64_MAX;  // the list of every proxy is older
    show_right();
    if (drops) (void)items_.drop();
}

void EtcdRegistration::revoke() {
    if (keep_record_ && registered_) {
        process::say(Level::notice, "discovery: this node stays registered for up to " + std::to_string(lease_.ttl_s) +
                                        " s; a restart within that time keeps its items");
        return;
    }
    end_right();
    if (lease_.id == 0) return;
    client_.resume();
    client_.hurry(stop_ms, 2 * stop_ms);
    const EtcdClient::Reply reply = client_.ask("lease/revoke", lease_request(lease_.id));
    const auto* const failure = std::get_if<EtcdFailure>(&reply);
    if (failure == nullptr || failure->code == no_lease) return;
    process::say(Level::warning, "discovery: this process stays registered until its lease of " + std::to_string(lease_.ttl_s) +
                                     " s ends: " + failure->text);
}

// False, for its callers.
bool EtcdRegistration::failed(const EtcdFailure& failure) {
    if (failure.interrupted) return false;
    is_refused_ = !is_silence(failure);
    if (is_refused_)
        right_.refused();
    else
        right_.failed(boottime_ns());
    show_right();
    if (right_.must_drop()) drop_items(Gone::registration);
    told_failure_ = true;
    lines_.say(Level::warning, "discovery: this process cannot keep its registration: " + failure.text + "; it tries again");
    return false;
}

}  // namespace farcached::daemon
