// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/away_gets.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "base/broken.h"
#include "base/check.h"
#include "node/store/impl.h"
#include "node/store/stub.h"
#include "protocol/spilled.h"

namespace farcached::node {

AwayGets::AwayGets(Node& node, Over over, Wanted wanted, Ended ended)
    : node_(node), over_(std::move(over)), wanted_(std::move(wanted)), ended_(std::move(ended)) {
    const Config& config = node.config();
    CHECK(config.has_tiers());
    if (config.disk == nullptr) own_event_ = fabric::Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    event_ = config.disk != nullptr ? disk_.emplace(*config.disk).fd() : own_event_.get();
    if (event_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    if (config.peer != nullptr) peer_.emplace(*config.peer, event_);
}

bool AwayGets::idle() const {
    return (!disk_.has_value() || disk_->under_way() == 0) && (!peer_.has_value() || peer_->under_way() == 0);
}

void AwayGets::get(uint64_t asker, std::string_view key, const protocol::GetReply& reply, const Place& place) {
    CHECK(reply.status == protocol::GetReply::Status::hit);
    waiting_.push_back({asker, std::string(key), reply, place});
    if (waiting_.size() == 1 && !start_next() && idle()) (void)eventfd_write(event_, 1);  // G1
}

void AwayGets::await_end(uint64_t asker, const Place& place, uint64_t until_ns) {
    CHECK(peer_.has_value());
    peer_->await_end(place, until_ns, first_wait + asker);
}

// False: no memory for one more read.
bool AwayGets::add_room() {
    constexpr size_t at_first = 16;
    try {
        if (reading_.size() == reading_.capacity()) reading_.reserve(2 * reading_.size() + at_first);
        free_.reserve(reading_.capacity());
    } catch (const std::bad_alloc&) {
        return false;
    }
    free_.push_back(uint32_t(reading_.size()));
    reading_.emplace_back();
    return true;
}

// False: no room, or no memory. A place of no tier is read of the disk, which has it not.
bool AwayGets::start(const Place& place, uint32_t number) try {
    if (is_at_peer(place) || !disk_.has_value()) {
        if (!peer_.has_value() || !peer_->has_room()) return false;
        peer_->get(place, number);
        return true;
    }
    return disk_->has_room(place) && disk_->get(place, number);
} catch (const std::bad_alloc&) {
    return false;
}

// Starts the first one's read. False: there is no room, or no memory.
bool AwayGets::start_next() {
    Get& next = waiting_.front();
    if (free_.empty() && !add_room()) return false;
    if (!start(next.place, free_.back())) return false;
    reading_[free_.back()] = std::move(next);
    free_.pop_back();
    waiting_.pop_front();
    return true;
}

void AwayGets::read_next() {
    while (!waiting_.empty()) {
        const bool wanted = wanted_(waiting_.front().asker);
        if (wanted && start_next()) continue;
        if (wanted && !idle()) return;  // the next complete one makes room
        const uint64_t asker = waiting_.front().asker;
        waiting_.pop_front();
        if (wanted) refused_++;
        refuse(asker);
    }
}

void AwayGets::ready(NodeSeconds now) {
    if (!disk_.has_value()) {
        eventfd_t count = 0;
        (void)eventfd_read(event_, &count);
    }
    if (disk_.has_value())
        disk_->take([&](uint64_t cookie, const DiskRecord* record) {
            if (record == nullptr) return finish(cookie, std::nullopt, {}, now);
            finish(cookie, record->key, record->value, now);
        });
    if (peer_.has_value())
        peer_->take([&](uint64_t cookie, std::optional<std::string_view> bytes, const fabric::LeasedPtr* leased) {
            if (cookie >= first_wait) return ended_(cookie - first_wait);
            const size_t key_length = reading_[cookie].key.size();
            if (!bytes.has_value() || bytes->size() < key_length) return finish(cookie, std::nullopt, {}, now);
            finish(cookie, bytes->substr(0, key_length), bytes->substr(key_length), now, leased);
        });
    read_next();
}

void AwayGets::refuse(uint64_t asker) {
    protocol::GetReply reply;
    reply.status = protocol::GetReply::Status::no_memory;
    over_({asker, reply, {}});
}

void AwayGets::finish(uint64_t cookie, std::optional<std::string_view> found, std::string_view value, NodeSeconds now,
                      const fabric::LeasedPtr* leased) {
    const Get get = std::move(reading_[cookie]);
    free_.push_back(uint32_t(cookie));
    const protocol::Key key = node_.key(get.key);
    if (found == get.key && value.size() == get.reply.meta.value_len) {
        over_({get.asker, get.reply, value, get.key, get.place, leased});
        return node_.found_away(key, get.place, value, now);
    }
    node_.lost_away(key, get.place, now);
    ask_again(get, now);
}

// G3.
void AwayGets::ask_again(const Get& get, NodeSeconds now) {
    protocol::GetReply reply;
    std::string value;
    try {
        protocol::GetOp op;
        op.key = node_.key(get.key);
        op.no_bump = true;
        Place place{};
        const auto sink = [&](const protocol::ItemMeta& meta) {
            value.resize(meta.value_len);
            return value.data();
        };
        reply = node_.get(op, now, sink, /* lent= */ nullptr, &place);
        if (reply.status == protocol::GetReply::Status::hit && reply.meta.cas == get.reply.meta.cas) {
            reply.meta.win = get.reply.meta.win;
            reply.meta.win_sent = get.reply.meta.win_sent;
        }
        if (place != Place{}) return waiting_.push_back({get.asker, get.key, reply, place});
    } catch (const std::bad_alloc&) {
        refused_++;
        return refuse(get.asker);
    }
    if (reply.status != protocol::GetReply::Status::hit) lost_++;
    over_({get.asker, reply, value, get.key});
}

// ---- the node's part -----------------------------------------------------------------------------------

namespace {

// The item, if its value is still at that place of its tier.
Index::Place stub_at(Partition& partition, Arena& arena, const protocol::Key& key, const Place& place, NodeSeconds now) {
    const Items::Found found = partition.items().find(key, now);
    if (found.place.slot == nullptr || !is_stub(arena, found.place.ref)) return {};
    return stub_of(arena, found.place.ref).place == place ? found.place : Index::Place();
}

}  // namespace

void Node::found_away(const protocol::Key& key, const Place& place, std::string_view value, NodeSeconds now) {
    const uint32_t rate = impl_->config.spill.recache_rate;
    if (rate == 0 || impl_->found_away.fetch_add(1, std::memory_order_relaxed) % rate != rate - 1) return;
    Partition& partition = impl_->partitions.of(key.hash);
    std::lock_guard hold(partition.lock);
    now = partition.latest(now);
    const Index::Place at = stub_at(partition, impl_->arena, key, place, now);
    if (at.slot == nullptr) return;
    NewItem item = copy_of(impl_->arena, at.ref, key);
    item.value = value;
    item.format = uint16_t(item.format & ~layout::format_stub);
    item.counts_as_new = false;
    item.same_item = true;
    if (item.bytes() > layout::page_bytes) return;  // no page is emptied for it
    Reservation none;
    uint64_t need_pages = 0;
    const Ref ref = partition.room_for(item, at, now, none, need_pages, /* made_of_old= */ true);
    if (ref == nil) return;
    partition.items().put(ref, item, now, at);
    impl_->recached.fetch_add(1, std::memory_order_relaxed);
}

void Node::lost_away(const protocol::Key& key, const Place& place, NodeSeconds now) {
    Partition& partition = impl_->partitions.of(key.hash);
    std::lock_guard hold(partition.lock);
    now = partition.latest(now);
    impl_->lost_away.fetch_add(1, std::memory_order_relaxed);
    const Index::Place at = stub_at(partition, impl_->arena, key, place, now);
    if (at.slot != nullptr) partition.items().evict(at, key.hash, now);
}

// ---- subleases (node/store/subleases.h) ----------------------------------------------------------------

std::optional<protocol::Grant> Node::sublease(const protocol::Key& key, const Place& place, const fabric::LeasedPtr& leased,
                                              uint64_t now_ns, NodeSeconds now) {
    constexpr uint64_t ns_per_ms = 1'000'000;
    constexpr NodeSeconds life_min = 2;  // longer than a sublease: it ends before the item expires
    const uint64_t left_ms = leased.valid_until_ns > now_ns ? (leased.valid_until_ns - now_ns) / ns_per_ms : 0;
    const uint32_t term_ms = uint32_t(std::min<uint64_t>(left_ms, protocol::spilled_term_ms_max));
    if (term_ms == 0) return std::nullopt;
    Partition& partition = impl_->partitions.of(key.hash);
    std::lock_guard hold(partition.lock);
    now = partition.latest(now);
    const Index::Place at = stub_at(partition, impl_->arena, key, place, now);
    if (at.slot == nullptr || (impl_->arena.header(at.ref).format & layout::format_tokens) != 0) return std::nullopt;
    const NodeSeconds exptime = impl_->arena.descriptor(at.ref).exptime;
    if (exptime != never_expires && exptime < now + life_min) return std::nullopt;
    if (impl_->flush_announced.load()) return std::nullopt;  // none outlasts a scheduled flush
    const uint64_t until_ns = now_ns + term_ms * ns_per_ms;
    if (!partition.subleases().add(key.hash, place, until_ns, now_ns)) return std::nullopt;
    if (!impl_->subleases.pass(until_ns)) return std::nullopt;
    protocol::Grant grant;
    grant.offset = leased.ptr.offset;
    grant.generation = leased.ptr.generation;
    grant.region = leased.ptr.region;
    grant.length = uint32_t(protocol::spilled_item_bytes(key.bytes.size(), stub_of(impl_->arena, at.ref).value_len));
    grant.capacity = std::max(grant.length, leased.ptr.length);
    grant.term_ms = term_ms;
    grant.incarnation = leased.ptr.incarnation;
    return grant;
}

uint64_t Node::sublease_end(const protocol::Key& key, uint64_t now_ns, Place& place) {
    if (!impl_->subleases.any_runs(now_ns) || broken::s15_ignore_subleases) return 0;
    Partition& partition = impl_->partitions.of(key.hash);
    std::lock_guard hold(partition.lock);
    const Subleases::Running running = partition.subleases().find(key.hash, now_ns);
    place = running.place;
    return running.until_ns;
}

uint64_t Node::begin_change(const protocol::Key& key, uint64_t now_ns, Place& place) {
    if (broken::s15_ignore_subleases) return 0;
    Partition& partition = impl_->partitions.of(key.hash);
    std::lock_guard hold(partition.lock);
    const Subleases::Running running = partition.subleases().end(key.hash, now_ns);
    place = running.place;
    return running.until_ns;
}

void Node::change_over(uint64_t key_hash) {
    if (broken::s15_ignore_subleases) return;
    Partition& partition = impl_->partitions.of(key_hash);
    std::lock_guard hold(partition.lock);
    partition.subleases().change_over();
}

void Node::sublease_over(uint64_t key_hash, const Place& place) {
    Partition& partition = impl_->partitions.of(key_hash);
    std::lock_guard hold(partition.lock);
    partition.subleases().over(key_hash, place);
}

uint64_t Node::stop_subleases(uint64_t now_ns) {
    const uint64_t last_ns = impl_->subleases.stop();
    return last_ns > now_ns && !broken::s15_ignore_subleases ? last_ns : 0;
}

void Node::resume_subleases() { impl_->subleases.resume(); }

SpillRules& Node::spill_rules() { return impl_->config.spill; }

}  // namespace farcached::node
