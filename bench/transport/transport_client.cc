// SPDX-License-Identifier: BSD-3-Clause
#include "bench/transport/transport_client.h"

#include <memory>
#include <variant>

#include "base/node_clock.h"

namespace farcached::bench {

namespace {

uint32_t prefill_depth(uint32_t value_bytes) { return value_bytes <= 16 * 1024 ? 32 : 1; }
constexpr uint32_t touches = 2;  // gets until a lease is granted
constexpr uint64_t ms_ns = 1'000'000;
constexpr uint64_t answer_ns_max = 20'000 * ms_ns;
constexpr size_t key_digits = 7;

constexpr proxy::Ticket ticket_of(uint64_t key, bool set) { return proxy::Ticket(key << 1 | uint64_t(set)); }

}  // namespace

TransportClient::TransportClient(const Dependencies& deps, const proxy::LinkConfig& config, const ClientLink::Maker& maker,
                                 uint64_t seed)
    : deps_(deps),
      link_(config, deps.values.bytes_max(), {maker, [this] { return stopping(); }, deps.table, deps.one_sided, deps.sweep.spin}),
      random_(seed),
      sequence_(seed),
      key_(deps.key_prefix + std::string(key_digits, '0')),
      value_(deps.values.bytes_max(), '\0') {}

// ---- requests ---------------------------------------------------------------------------------------

void TransportClient::prepare(uint64_t key, bool set) {
    uint64_t key_left = key;
    char* digit = key_.data() + key_.size();
    for (size_t i = 0; i < key_digits; i++, key_left /= 10) *--digit = char('0' + key_left % 10);
    if (!set) return;
    value_.resize(deps_.values.size(sequence_));
    deps_.values.fill(value_.data(), uint32_t(value_.size()), key, sequence_++);
}

proxy::AskOptions TransportClient::options(uint64_t key, bool set) {
    proxy::AskOptions options;
    options.ticket = ticket_of(key, set);
    options.session = ++asked_;  // each operation has its own session
    options.deadline_ns = link_.now_ns() + answer_ns_max;
    options.one_sided = deps_.one_sided;
    return options;
}

bool TransportClient::ask_get(uint64_t key) {
    protocol::GetOp op;
    op.key = {key_, 0};
    op.lease = deps_.table != nullptr;
    return link_.requests().get(op, options(key, /* set= */ false), *this, link_.now_ns()) == proxy::AskResult::accepted;
}

bool TransportClient::ask_set(uint64_t key) {
    protocol::StoreOp op;
    op.key = {key_, 0};
    op.value = value_;
    op.lease = deps_.table != nullptr;
    proxy::AskOptions with = options(key, /* set= */ true);
    if (link_.requests().value_follows(op)) {
        const auto kept = std::make_shared<const std::string>(value_);
        op.value = *kept;
        with.value = kept;
    }
    return link_.requests().ask(op, with, *this) == proxy::AskResult::accepted;
}

// ---- answers ----------------------------------------------------------------------------------------

void TransportClient::error(const std::string& text) {
    errors_++;
    if (first_error_.empty()) first_error_ = text;
}

// Takes the time first, since verification is not part of the latency.
void TransportClient::answered(proxy::Ticket ticket, proxy::Answer& answer) {
    answered_ns_ = boottime_ns();
    under_way_--;
    const uint64_t key = uint64_t(ticket) >> 1;
    if ((uint64_t(ticket) & 1) != 0) {
        const auto* stored = std::get_if<protocol::StoreReply>(&answer.op);
        if (stored == nullptr || stored->status != protocol::StoreReply::Status::stored) error("a value was not stored");
        return;
    }
    gets_++;
    const auto* got = std::get_if<protocol::GetReply>(&answer.op);
    if (got == nullptr || got->status != protocol::GetReply::Status::hit)
        error("a key was not found");
    else if (!deps_.values.good(answer.value, key))
        error("a value differs from the stored one");
}

void TransportClient::failed(proxy::Ticket, const proxy::Failed& failed) {
    answered_ns_ = boottime_ns();
    under_way_--;
    error(failure_text(failed));
}

// ---- the loop ---------------------------------------------------------------------------------------

template <class Issue>
void TransportClient::keep_busy(uint64_t operations, uint32_t depth, Issue&& issue) {
    uint64_t asked = 0;
    while (asked < operations || under_way_ > 0) {
        if (stopping() && under_way_ == 0) return;
        link_.read_clock();
        if (!link_.up()) {
            link_.await();
            continue;
        }
        while (asked < operations && under_way_ < depth && issue(asked)) {
            asked++;
            under_way_++;
        }
        link_.flush();
        if (under_way_ > 0) link_.wait();
    }
}

void TransportClient::prefill(uint64_t first, uint64_t end) {
    const uint64_t keys = end - first;
    const uint32_t depth = prefill_depth(deps_.values.bytes_max());
    keep_busy(keys, depth, [&](uint64_t i) {
        prepare(first + i, /* set= */ true);
        return ask_set(first + i);
    });
    keep_busy(keys * touches, depth, [&](uint64_t i) {
        prepare(first + i % keys, /* set= */ false);
        return ask_get(first + i % keys);
    });
}

// Draws many operations in advance, to keep random numbers out of the measured time.
void TransportClient::draw(uint32_t sets_percent) {
    for (Draw& one : draws_) {
        one.set = random_.below(100) < sets_percent;
        one.key = deps_.distribution.key(random_);
    }
}

void TransportClient::run(uint64_t operations, uint32_t sets_percent, bool measured) {
    errors_ = gets_ = 0;
    const bool profile = measured && deps_.sweep.profile;
    for (uint64_t i = 0; i < operations && !stopping(); i++) {
        if (i % draws_.size() == 0) draw(sets_percent);
        const auto [key, set] = draws_[i % draws_.size()];
        prepare(key, set);
        const uint64_t asked_ns = link_.read_clock();
        while (!(set ? ask_set(key) : ask_get(key))) {
            link_.flush();
            link_.wait();
            if (!link_.up()) link_.await();
            if (stopping()) return;
        }
        under_way_ = 1;
        const uint64_t begun_ns = profile ? boottime_ns() : 0;
        link_.flush();
        const uint64_t posted_ns = profile ? boottime_ns() : 0;
        uint64_t woken_ns = 0;
        while (under_way_ > 0) {
            link_.wait();
            woken_ns = link_.now_ns();
            link_.flush();
        }
        if (!measured) continue;
        latency_.add(answered_ns_ - asked_ns);
        done_.add(1);
        if (!profile) continue;
        parts_.begin_ns += begun_ns - asked_ns;
        parts_.post_ns += posted_ns - begun_ns;
        parts_.wait_ns += woken_ns - posted_ns;
        parts_.finish_ns += answered_ns_ - woken_ns;
    }
}

}  // namespace farcached::bench
