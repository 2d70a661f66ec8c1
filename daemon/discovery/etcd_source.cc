// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/etcd_source.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>
#include <variant>

#include "base/host.h"
#include "base/limits.h"
#include "base/node_clock.h"
#include "base/random_word.h"
#include "daemon/discovery/etcd_messages.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t source_ms_ns = 1'000'000;
constexpr uint32_t wait_ms_min = 100, wait_ms_max = 3000;

// Between half of it and all: many proxies do not come back together.
uint32_t jittered(uint32_t ms) { return ms / 2 + uint32_t(random_word() % (ms / 2 + 1)); }

}  // namespace

Result<std::unique_ptr<Source>> make_etcd_source(const conf::ProxySettings& settings, std::function<void()> changed) {
    Result<EtcdAccess> access = etcd_access(settings, settings.discovery.source);
    if (auto* const problem = std::get_if<Problem>(&access)) return std::move(*problem);
    MemberWays ways{settings.discovery.channel};
    if (settings.discovery.shm) ways.boot = boot_name();
    return std::make_unique<EtcdSource>(std::get<EtcdAccess>(access), ways, settings.discovery.source, std::move(changed));
}

EtcdSource::EtcdSource(const EtcdAccess& access, const MemberWays& ways, const std::string& origin, std::function<void()> changed)
    : client_(access), keys_(access.url.nodes()), board_(origin, std::move(changed)), book_(keys_, ways, origin) {
    thread_ = std::thread(&EtcdSource::run, this);
}

EtcdSource::EtcdSource(const EtcdAccess& access, const std::string& keys, const MemberWays& ways, const std::string& origin,
                       Listed listed)
    : client_(access),
      told_(std::move(listed)),
      keys_(keys),
      board_(origin, [] {}, SourceBoard::Lines::none),
      book_(keys_, ways, origin) {
    thread_ = std::thread(&EtcdSource::run, this);
}

EtcdSource::~EtcdSource() {
    client_.interrupt();
    thread_.join();
}

SourceState EtcdSource::state() const {
    SourceState state = board_.state();
    state.skipped = skipped_;
    return state;
}

// ---- the thread ---------------------------------------------------------------------------------------

void EtcdSource::run() {
    const Recorder::Running running(recorder_);
    while (!client_.is_interrupted()) {
        try {
            if (!follow()) return;
        } catch (const std::bad_alloc&) {
            process::lose_line();
        }
        (void)client_.pause(wait_ms());
    }
}

uint32_t EtcdSource::wait_ms() const {
    const uint32_t ms = failures_in_row_ >= 6 ? wait_ms_max : wait_ms_min << failures_in_row_;
    return jittered(std::min(ms, wait_ms_max));
}

bool EtcdSource::follow() {
    if (!take_range()) return !client_.is_interrupted();
    client_.watch(watch_request(keys_, book_.revision() + 1));
    const Next next = watch();
    client_.end_watch();
    publish();
    return next != Next::stop;
}

bool EtcdSource::take_range() {
    const EtcdClient::Reply reply = client_.ask("kv/range", range_request(keys_, limits::nodes_max));
    if (const auto* failure = std::get_if<EtcdFailure>(&reply)) {
        if (!failure->interrupted) failed(failure->text);
        return false;
    }
    const std::optional<EtcdRange> range = read_range(std::get<std::string>(reply), Member::bytes_max);
    if (!range.has_value()) {
        failed(client_.endpoint() + ": the answer is not etcd's");
        return false;
    }
    complain(book_.take(*range, boottime_ns()));
    publish();
    confirm();
    return true;
}

EtcdSource::Next EtcdSource::watch() {
    const uint64_t moves = client_.moves();
    bool behind = false;
    asked_ns_ = boottime_ns();
    for (std::string line;;) {
        const uint64_t now_ns = boottime_ns();
        uint64_t until_ns = question_at_ns();
        if (const std::optional<uint64_t> leaves_ns = book_.next_ns()) until_ns = std::min(until_ns, *leaves_ns);
        const uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns) / source_ms_ns + 1 : 0;
        Next next = Next::go_on;
        switch (client_.next(line, uint32_t(left_ms))) {
            case EtcdClient::Event::interrupted: return Next::stop;
            case EtcdClient::Event::ended: failed(client_.endpoint() + ": the watch ended: " + client_.why()); return Next::wait;
            case EtcdClient::Event::line: next = take_line(line); break;
            case EtcdClient::Event::timeout: break;
        }
        if (next == Next::go_on && boottime_ns() >= question_at_ns()) next = question(behind);
        if (next != Next::go_on) return next;
        if (client_.moves() != moves) return Next::range;  // the watch is at an endpoint that did not answer
        publish();
    }
}

EtcdSource::Next EtcdSource::take_line(const std::string& line) {
    const std::optional<EtcdWatched> watched = read_watched(line, Member::bytes_max);
    if (!watched.has_value()) {
        const EtcdError error = read_error(line);
        failed(client_.endpoint() + ": the watch ended: " + (error.text.empty() ? "the answer is not etcd's" : error.text));
        return Next::wait;
    }
    if (watched->canceled && watched->compact_revision != 0) return Next::range;  // H1
    if (watched->canceled) {
        failed(client_.endpoint() + ": etcd ended the watch: " + watched->cancel_reason);
        return Next::wait;
    }
    complain(book_.take(*watched));
    return Next::go_on;
}

void EtcdSource::ask_soon(uint64_t epoch) {
    const std::shared_ptr<const Found> found = epoch != 0 ? latest() : nullptr;
    if (found != nullptr && epoch <= epoch_now(found->epoch)) return;  // a worker has yet to take it
    if (!asks_soon_.exchange(true)) client_.nudge();
}

uint64_t EtcdSource::question_at_ns() const { return asked_ns_ + (asks_soon_ ? soon_ms : question_ms) * source_ms_ns; }

// H2. behind: did the last one show a change that the watch had not told?
EtcdSource::Next EtcdSource::question(bool& behind) {
    const bool was_soon = asks_soon_.exchange(false);
    const EtcdClient::Reply reply = client_.ask("kv/range", newest_request(keys_));
    asked_ns_ = boottime_ns();
    if (const auto* failure = std::get_if<EtcdFailure>(&reply)) {
        if (failure->interrupted) return Next::stop;
        failed(failure->text);
        return Next::go_on;
    }
    const std::optional<EtcdRange> range = read_range(std::get<std::string>(reply), Member::bytes_max);
    if (!range.has_value()) {
        failed(client_.endpoint() + ": the answer is not etcd's");
        return Next::range;
    }
    const int64_t newest = range->keys.empty() ? 0 : range->keys.front().mod_revision;
    const bool lost_history = range->revision < book_.revision();
    const bool was_behind = std::exchange(behind, newest > book_.newest() || range->count != book_.keys());
    if (lost_history || (behind && was_behind)) return Next::range;
    if (!behind) book_.is_complete(range->revision);
    else if (was_soon) asks_soon_ = true;  // the next question finds it, unless the watch comes first
    publish();  // a change that the watch has told, so that the list before it does not get the newer epoch
    confirm();
    return Next::go_on;
}

// ---- what others see ----------------------------------------------------------------------------------

void EtcdSource::publish() {
    std::shared_ptr<const Found> list = book_.next_list(boottime_ns());
    complain(book_.left_out());
    const bool differs = list != nullptr;
    if (differs) listed_ = std::move(list);
    if (told_ != nullptr && listed_ != nullptr && (differs || told_change_ != book_.last_change())) {
        told_(listed_->nodes, book_.last_change());
        told_change_ = book_.last_change();  // after the call: one that throws is repeated
    }
    if (differs) return board_.answered(listed_->nodes, listed_->revision, book_.epoch(), /* is_new= */ true, listed_->former);
    if (!book_.is_empty()) board_.set_epoch(book_.epoch());
}

// Of an answer without a new list.
void EtcdSource::confirm() {
    failures_in_row_ = 0;
    if (book_.is_empty() || listed_ == nullptr) return board_.failed("etcd lists no node below " + keys_);
    board_.answered(listed_->nodes, listed_->revision, book_.epoch());
}

void EtcdSource::failed(const std::string& why) {
    failures_in_row_++;
    board_.failed(why);
}

void EtcdSource::complain(const MemberBook::Complaints& complaints) {
    skipped_ = book_.skipped();
    for (const std::string& complaint : complaints)
        member_lines_.say(process::Level::warning, "discovery: " + complaint + "; it is skipped");
}

}  // namespace farcached::daemon
