// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/pointer_get.h"

#include <algorithm>
#include <cstring>

#include "base/broken.h"
#include "base/check.h"

namespace farcached::proxy {

namespace {

constexpr uint64_t ms_ns = 1'000'000;

}  // namespace

PointerGets::PointerGets(const Parts& parts, uint32_t reads_max, bool verify_check)
    : table_(parts.table),
      pool_(parts.pool),
      order_(parts.order),
      clock_(parts.clock),
      counters_(parts.counters),
      unseen_(parts.unseen),
      reads_max_(reads_max),
      verify_check_(verify_check) {}

void PointerGets::greeted(const protocol::Welcome& welcome) {
    CHECK(live_ == 0);
    incarnation_ = welcome.incarnation;
    check_secret_ = welcome.check_secret;
    regions_ = welcome.regions;
}

const protocol::RegionFact* PointerGets::region(uint32_t id) const {
    auto is_it = [&](const protocol::RegionFact& fact) { return fact.id == id; };
    auto at = std::find_if(regions_.begin(), regions_.end(), is_it);
    return at == regions_.end() ? nullptr : &*at;
}

// The table is shared, and whoever else writes there may be wrong (S9, S10).
bool PointerGets::usable(const fabric::RemotePtr& ptr) const {
    if (broken::s9_trust_pointer) return true;
    if (ptr.incarnation != incarnation_) return false;
    if (!fabric::well_formed(ptr)) return false;
    const protocol::RegionFact* in = region(ptr.region);
    if (in == nullptr) return false;
    if (in->access == protocol::RegionAccess::none) return false;
    return fabric::inside(ptr, in->bytes);
}

// ---- pointers ---------------------------------------------------------------------------------------

void PointerGets::keep(const protocol::Grant& grant, const Earned& earned) {
    CHECK(earned.frame_sent_ns <= earned.received_ns);
    fabric::LeasedPtr leased;
    leased.ptr.incarnation = incarnation_;
    leased.ptr.offset = grant.offset;
    leased.ptr.generation = grant.generation;
    leased.ptr.region = grant.region;
    leased.ptr.length = grant.length;
    const bool of_this_item = grant.length == layout::item_bytes(earned.key_len, earned.value_len);
    const protocol::RegionFact* in = region(grant.region);
    const bool fits = in != nullptr && protocol::grant_fits(grant, in->bytes);
    if (!of_this_item || !fits || !usable(leased.ptr)) {
        counters_.lease_unusable.add(1);
        return;
    }
    counters_.lease_granted.add(1);
    const uint64_t term_ns = grant.term_ms * ms_ns;
    const uint64_t from = broken::s3_count_from_reply ? earned.received_ns : earned.frame_sent_ns;
    leased.valid_until_ns = from + term_ns - term_ns / uint64_t(clock_rate_error) - 1;
    table_->put(earned.key_hash, leased, earned.received_ns);
}

void PointerGets::forget(uint64_t key_hash) {
    if (table_ != nullptr) table_->forget(key_hash, incarnation_);
}

void PointerGets::note_access(const Read& read) {
    const fabric::RemotePtr& ptr = read.leased.ptr;
    if (!read.op.no_bump) {
        const uint32_t dropped = unseen_.note(read.op.key.hash, ptr.generation, ptr.offset, ptr.region);
        if (dropped != 0) counters_.accesses_dropped.add(dropped);
    }
    const uint64_t entry = read.entry;
    Uses& uses = uses_[entry % uses_.size()];
    if (uses.entry != entry && uses.count != 0) {
        table_->count_access(uses.entry, uses.count);
        uses.count = 0;
    }
    uses.entry = entry;
    uses.count++;
    any_uses_ = true;
}

void PointerGets::count_accesses() {
    if (!any_uses_) return;
    any_uses_ = false;
    for (Uses& uses : uses_) {
        if (uses.count != 0) table_->count_access(uses.entry, uses.count);
        uses.count = 0;
    }
}

// ---- reads ------------------------------------------------------------------------------------------

PointerGets::Read& PointerGets::open(const protocol::GetOp& op, const AskOptions& options,
                                     ReplySink& sink) {
    if (free_.empty()) {
        reads_.emplace_back();
        reads_.back().number = uint32_t(reads_.size() - 1);
        free_.push_back(reads_.back().number);
    }
    Read& read = reads_[free_.back()];
    free_.pop_back();
    CHECK(read.state == Read::State::free);
    CHECK(op.key.bytes.size() <= read.key.size());
    read.state = Read::State::posted;
    read.sink = &sink;
    read.options = options;
    read.op = op;
    std::memcpy(read.key.data(), op.key.bytes.data(), op.key.bytes.size());
    read.op.key.bytes = {read.key.data(), op.key.bytes.size()};
    live_++;
    order_.begun(KeyOrder::Kind::read, op.key.hash);
    read.ordered = true;
    read.place = uint32_t(awaited_.size());
    awaited_.push_back({op.key.hash, read.number});
    next_deadline_ns_ = std::min(next_deadline_ns_, options.deadline_ns);
    return read;
}

void PointerGets::close(Read& read) {
    CHECK(read.state != Read::State::free);
    CHECK(read.sink == nullptr);
    release_landing(read);
    release_order(read);
    read.state = Read::State::free;
    live_--;
    free_.push_back(read.number);
}

void PointerGets::release_landing(Read& read) {
    if (read.landing != nullptr) pool_->give_back(read.landing);
    read.landing = nullptr;
}

void PointerGets::release_order(Read& read) {
    if (!read.ordered) return;
    read.ordered = false;
    order_.over(KeyOrder::Kind::read, read.op.key.hash);
    CHECK(awaited_[read.place].number == read.number);
    awaited_[read.place] = awaited_.back();
    reads_[awaited_[read.place].number].place = read.place;
    awaited_.pop_back();
}

bool PointerGets::awaited(uint64_t key_hash) const {
    auto is_it = [&](const Awaited& one) { return one.key_hash == key_hash; };
    return std::any_of(awaited_.begin(), awaited_.end(), is_it);
}

bool PointerGets::begin(fabric::Channel& channel, const protocol::GetOp& op,
                        const AskOptions& options, ReplySink& sink, uint64_t now_ns) {
    const PointerTable::Lookup found = table_->find(op.key.hash, incarnation_, now_ns);
    if (found.found == PointerTable::Found::miss) counters_.pointer_misses.add(1);
    if (found.found == PointerTable::Found::expired) counters_.pointer_expired.add(1);
    if (found.found != PointerTable::Found::hit) return false;
    counters_.pointer_hits.add(1);
    if (found.shared) counters_.pointer_shared_hits.add(1);
    const fabric::RemotePtr& ptr = found.leased.ptr;
    if (!usable(ptr)) {
        counters_.read_invalid_length.add(1);
        table_->drop(op.key.hash, ptr.incarnation, ptr.generation);
        return false;
    }
    uint64_t* landing = nullptr;
    if (live_ < reads_max_) landing = pool_->lend((size_t(ptr.length) + 7) / 8 * 8);
    if (landing == nullptr) {
        counters_.read_unposted.add(1);
        return false;
    }
    Read& read = open(op, options, sink);
    read.leased = found.leased;
    read.entry = found.entry;
    read.landing = landing;
    if (channel.post_read({ptr, landing, read.number})) return true;
    counters_.read_unposted.add(1);
    read.sink = nullptr;
    close(read);
    return false;
}

void PointerGets::completed(uint64_t token, fabric::ReadStatus status) {
    CHECK(token < reads_.size());
    Read& read = reads_[token];
    CHECK(read.state == Read::State::posted);
    read.state = Read::State::landed;
    read.status = status;
    landed_.push_back(read.number);
}

void PointerGets::settle(uint64_t now_ns) {
    CHECK(settling_.empty());  // sinks do not drive the link
    settling_.swap(landed_);
    for (uint32_t number : settling_) settle(reads_[number], now_ns);
    settling_.clear();
}

void PointerGets::settle(Read& read, uint64_t now_ns) {
    CHECK(read.state == Read::State::landed);
    if (read.sink == nullptr) {
        counters_.read_late.add(1);
        close(read);
        return;
    }
    fabric::Outcome outcome = fabric::Outcome::hit;
    if (read.status == fabric::ReadStatus::done) {
        const fabric::PointerCopy copy{read.landing, read.leased, now_ns};
        std::optional<uint64_t> secret;
        if (verify_check_) secret = check_secret_;
        const fabric::PointerRead judged =
            fabric::judge_copy(copy, read.op.key.bytes, read.op.win_tokens, secret);
        if (judged.outcome == fabric::Outcome::hit) {
            answer(read, judged);
            return;
        }
        outcome = judged.outcome;
        count_invalid(outcome);
        if (outcome != fabric::Outcome::tokens)
            table_->drop(read.op.key.hash, read.leased.ptr.incarnation, read.leased.ptr.generation);
    } else {
        counters_.read_failed.add(1);
    }
    release_landing(read);
    read.state = Read::State::two_sided;
    two_sided_.push_back(read.number);
}

void PointerGets::answer(Read& read, const fabric::PointerRead& judged) {
    counters_.get_onesided.add(1);
    note_access(read);
    protocol::GetReply reply;
    reply.status = protocol::GetReply::Status::hit;
    reply.why = protocol::Miss::none;
    reply.meta.cas = judged.meta.cas;
    reply.meta.value_len = judged.meta.value_len;
    reply.meta.flags = judged.meta.flags;
    reply.meta.item_bytes = read.leased.ptr.length;
    reply.meta.exptime = clock_.to_host(judged.meta.exptime);
    reply.meta.key_binary = judged.meta.key_binary;
    const protocol::ReplyOp op(reply);
    Answer told{op, judged.value, /* one_sided= */ true, nullptr};
    ReplySink* sink = read.sink;
    read.sink = nullptr;
    release_order(read);
    sink->answered(read.options.cookie, told);
    close(read);
}

void PointerGets::count_invalid(fabric::Outcome outcome) {
    using fabric::Outcome;
    const bool stale = outcome == Outcome::generation || outcome == Outcome::guard_dead;
    if (stale) counters_.pointer_stale.add(1);
    switch (outcome) {
        case Outcome::generation: counters_.read_invalid_generation.add(1); return;
        case Outcome::guard_dead: counters_.read_invalid_dead.add(1); return;
        case Outcome::key: counters_.read_invalid_key.add(1); return;
        case Outcome::bounds: counters_.read_invalid_length.add(1); return;
        case Outcome::check: counters_.read_invalid_crc.add(1); return;
        case Outcome::lease: counters_.read_invalid_lease.add(1); return;
        case Outcome::tokens: counters_.read_tokens.add(1); return;
        case Outcome::hit:
        case Outcome::not_found:
        case Outcome::moved:
        case Outcome::expired:
        case Outcome::flushed: break;  // not of a read by pointer
    }
    CHECK(outcome == Outcome::lease);
}

void PointerGets::ask_two_sided(FunctionRef<bool(const Fallback&)> ask) {
    while (!two_sided_.empty()) {
        Read& read = reads_[two_sided_.front()];
        CHECK(read.state == Read::State::two_sided);
        if (read.sink != nullptr) {
            if (!ask({read.op, read.options, *read.sink})) return;
            read.sink = nullptr;
        }
        two_sided_.pop_front();
        close(read);
    }
}

// ---- giving up --------------------------------------------------------------------------------------

void PointerGets::fail(Read& read, const Failed& why) {
    ReplySink* sink = read.sink;
    read.sink = nullptr;
    release_order(read);
    sink->failed(read.options.cookie, why);
}

void PointerGets::fail_unasked(const Failed& why) {
    while (!two_sided_.empty()) {
        Read& read = reads_[two_sided_.front()];
        two_sided_.pop_front();
        if (read.sink != nullptr) fail(read, why);
        close(read);
    }
}

void PointerGets::expire(uint64_t now_ns) {
    if (now_ns < next_deadline_ns_) return;
    next_deadline_ns_ = UINT64_MAX;
    for (size_t i = 0; i < reads_.size(); i++) {
        Read& read = reads_[i];
        if (read.state == Read::State::free || read.sink == nullptr) continue;
        if (read.options.deadline_ns > now_ns) {
            next_deadline_ns_ = std::min(next_deadline_ns_, read.options.deadline_ns);
            continue;
        }
        counters_.node_timeouts.add(1);
        if (broken::s12_reuse_at_timeout) release_landing(read);
        fail(read, {AskFailure::timed_out, std::nullopt});
    }
}

void PointerGets::fail_all(const Failed& why) {
    landed_.clear();
    two_sided_.clear();
    for (size_t i = 0; i < reads_.size(); i++) {
        Read& read = reads_[i];
        if (read.state == Read::State::free) continue;
        release_landing(read);
        if (read.sink != nullptr) fail(read, why);
        close(read);
    }
    next_deadline_ns_ = UINT64_MAX;
}

void PointerGets::forget_sink(const ReplySink& sink) {
    for (Read& read : reads_) {
        if (read.state == Read::State::free || read.sink != &sink) continue;
        read.sink = nullptr;
        release_order(read);
    }
}

}  // namespace farcached::proxy
