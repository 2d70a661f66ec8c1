// SPDX-License-Identifier: BSD-3-Clause
// The operations of protocol/op.h, with memcached's semantics, on a partition's primitives.
#include <algorithm>
#include <charconv>
#include <new>
#include <string>

#include "base/broken.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/sanitizers.h"
#include "node/items/stub.h"
#include "node/store/impl.h"
#include "protocol/words.h"

namespace farcached::node {

namespace {

using protocol::ArithOp;
using protocol::ArithReply;
using protocol::DeleteOp;
using protocol::DeleteReply;
using protocol::GetOp;
using protocol::GetReply;
using protocol::StoreOp;
using protocol::StoreReply;

// Extending the life of an unleased item changes only the descriptor: the header's expiry time is a lower bound (S13). Under a
// lease, readers with remote pointers use the header, so it is rewritten.
Index::Place touch(Node::Impl& impl, Partition& partition, Index::Place at, const protocol::Key& key,
                   NodeSeconds exptime, NodeSeconds now) {
    const layout::ItemHeader& header = impl.arena.header(at.ref);
    Descriptor& descriptor = impl.arena.descriptor(at.ref);
    const bool lengthens = exptime == never_expires ||
                           (header.exptime != never_expires && exptime >= header.exptime);
    if (exptime == header.exptime || (lengthens && !partition.leases().runs(at.ref, now))) {
        broken::step();
        descriptor.exptime = exptime;
        broken::step();
        return at;
    }
    NewItem item = copy_of(impl.arena, at.ref, key);
    item.exptime = exptime;
    return partition.rewrite(at, item, now);
}

// Win and stale tokens (meta W, X, Z). The item is marked so that one-sided mg readers use RPC.
Index::Place hand_out_tokens(Node::Impl& impl, Partition& partition, Index::Place at, const GetOp& op,
                             NodeSeconds now, GetReply& reply) {
    const Descriptor& descriptor = impl.arena.descriptor(at.ref);
    const bool sent = (descriptor.flags & item_win_sent) != 0;
    const bool stale = (descriptor.flags & item_stale) != 0;
    reply.meta.stale = stale;
    reply.meta.win_sent = sent;
    bool win = stale && !sent;
    if (op.recache_before.has_value())
        if (!sent && descriptor.exptime != never_expires)
            if (descriptor.exptime < *op.recache_before) win = true;
    reply.meta.win = win;
    if (!win) return at;
    NewItem item = copy_of(impl.arena, at.ref, op.key);
    item.descriptor_flags |= item_win_sent;
    item.format |= layout::format_tokens;
    return partition.rewrite(at, item, now);
}

template <class Reply>
void lease_to(Reply& reply, const Partition::Granted& granted) {
    reply.grant = granted.grant;
    reply.denied = granted.denied;
}

bool vivify(Partition& partition, const GetOp& op, NodeSeconds now, Reservation& reserved,
            uint64_t& need_pages, Node::ValueSink value, GetReply& reply) {
    NewItem item;
    item.key = op.key;
    item.exptime = *op.vivify;
    item.descriptor_flags = item_win_sent;
    item.format = layout::format_tokens;
    if (op.key_binary) item.format |= layout::format_key_binary;
    Ref ref = partition.room_for(item, {}, now, reserved, need_pages);
    if (ref == nil) {
        if (need_pages == 0) partition.items().counts().no_memory(item.bytes());
        return false;
    }
    item.cas = op.cas_set.value_or(0);
    if (!op.cas_set.has_value()) item.cas = partition.items().uniques().next();
    partition.items().put(ref, item, now, {});
    reply.status = GetReply::Status::hit;
    reply.why = protocol::Miss::none;
    reply.vivified = true;
    reply.meta = partition.items().meta(ref);
    reply.meta.win = true;
    reply.meta.win_sent = false;
    value(reply.meta);
    if (!op.no_bump) partition.order().access(ref, now);
    if (op.lease) {
        Index::Place at = partition.items().locate(op.key);
        lease_to(reply, partition.grant(at, now, Partition::Asker::mutation));
    }
    return true;
}

StoreReply stored_reply(const Partition& partition, Ref ref) {
    const protocol::ItemMeta meta = partition.items().meta(ref);
    StoreReply reply;
    reply.status = StoreReply::Status::stored;
    reply.cas = meta.cas;
    reply.item_bytes = meta.item_bytes;
    reply.value_len = meta.value_len;
    reply.size_class = meta.size_class;
    reply.exptime = meta.exptime;
    return reply;
}

// A cas with the mark of a missing item brings a value from elsewhere, which is older than any mutation since that mark (Marks).
// With 0 it asks for the mark. With a unique it is a client's, who learns that there is no item.
bool is_mutation(const StoreOp& op, bool exists, StoreReply::Status status) {
    if (op.mode != StoreOp::Mode::cas) return true;
    const uint64_t compared = op.cas_compare.value_or(0);
    return exists ? status == StoreReply::Status::stored : compared != 0 && !protocol::is_mark(compared);
}

// memcached's conditions for storing over the found item; `stored` means proceed.
StoreReply::Status verdict(const StoreOp& op, bool exists, uint64_t cas, uint64_t compared, uint64_t mark, bool& as_stale) {
    using Status = StoreReply::Status;
    using Mode = StoreOp::Mode;
    if (!exists) {
        if (op.mode == Mode::set || op.mode == Mode::add) return Status::stored;
        if (op.mode == Mode::cas) {
            const bool same = compared == mark || (broken::s7_ignore_mark && protocol::is_mark(compared));
            return same ? Status::stored : Status::not_found;
        }
        bool appends = op.mode == Mode::append || op.mode == Mode::prepend;
        return appends && op.vivify.has_value() ? Status::stored : Status::not_stored;
    }
    switch (op.mode) {
        case Mode::add: return Status::not_stored;
        case Mode::cas:
            if (op.cas_compare.has_value() && *op.cas_compare == cas && cas != 0) return Status::stored;
            if (op.invalidate && op.cas_compare.value_or(0) != 0 && *op.cas_compare < cas) {
                as_stale = true;
                return Status::stored;
            }
            return Status::exists;
        case Mode::append:
        case Mode::prepend:
            if (op.cas_compare.has_value() && *op.cas_compare != 0 && *op.cas_compare != cas)
                return Status::exists;
            return Status::stored;
        case Mode::set:
        case Mode::replace: return Status::stored;
    }
    return Status::not_stored;
}

bool joins(const StoreOp& op) { return op.mode == StoreOp::Mode::append || op.mode == StoreOp::Mode::prepend; }

NewItem compose(const StoreOp& op, const Items::Found& found, Arena& arena, bool as_stale) {
    NewItem item;
    item.key = op.key;
    item.value = op.value;
    item.flags = op.flags;
    item.exptime = op.exptime;
    if (op.key_binary) item.format |= layout::format_key_binary;
    if (op.spilled && !joins(op)) item.format |= layout::format_spilled;
    if (joins(op) && found.place.slot == nullptr) item.exptime = *op.vivify;
    if (joins(op) && found.place.slot != nullptr) {
        const Ref old = found.place.ref;
        item = copy_of(arena, old, op.key);
        item.descriptor_flags = 0;
        item.format &= layout::format_key_binary;
        const bool append = op.mode == StoreOp::Mode::append;
        item.value = append ? value_of(arena, old) : op.value;
        item.value_tail = append ? op.value : value_of(arena, old);
    }
    if (as_stale) {  // keeps its expiry time, and the win token if one was handed out
        const Descriptor& old = arena.descriptor(found.place.ref);
        item.exptime = old.exptime;
        item.descriptor_flags = uint8_t(item_stale | (old.flags & item_win_sent));
        item.format |= layout::format_tokens;
    }
    return item;
}

// The S1 switch: writes the value into the published item, as no correct build does.
bool overwrite_in_place(Arena& arena, const Items::Found& found, const NewItem& item) {
    if (!broken::s1_overwrite_in_place) return false;
    if (found.place.slot == nullptr) return false;
    const layout::ItemHeader& header = arena.header(found.place.ref);
    if (header.value_len != item.value.size()) return false;
    if (!item.value_tail.empty()) return false;
    words::Writer body(arena.words(found.place.ref) + 5);
    body.append(item.key.bytes.data(), item.key.bytes.size());
    body.append(item.value.data(), item.value.size());
    body.finish();
    return true;
}

// BorrowedBytes::Release.
void unpin(void* partition, uint64_t ref) {
    Partition& of = *static_cast<Partition*>(partition);
    std::lock_guard hold(of.lock);
    of.unpin(Ref(ref));
}

}  // namespace

// ---- values received in parts -----------------------------------------------------------------------

struct Upload::Place {
    Partition& partition;
    const Ref ref;
    uint64_t* const words;  // of the slot
    const size_t start;     // of the value in it
    bool published = false;
};

Upload::Upload(std::unique_ptr<Place> place, uint64_t value_bytes) : place_(std::move(place)), value_bytes_(value_bytes) {}

Upload::~Upload() {
    if (place_->published) return;
    std::lock_guard hold(place_->partition.lock);
    place_->partition.drop_received(place_->ref);
}

void Upload::append(std::string_view bytes) {
    CHECK(bytes.size() <= missing());
    words::copy_in(place_->words, place_->start + filled_, bytes.data(), bytes.size());
    advance(bytes.size());
}

std::span<char> Upload::room() {
    if constexpr (has_tsan) return {};  // TSan does not know that the kernel's writes do not race with readers by atomic words
    return {reinterpret_cast<char*>(place_->words) + place_->start + filled_, missing()};
}

// Pads the last word with zeros.
void Upload::advance(uint64_t bytes) {
    CHECK(bytes <= missing());
    filled_ += bytes;
    const size_t end = place_->start + value_bytes_;
    constexpr char zeros[sizeof(uint64_t)] = {};
    if (missing() == 0 && end % sizeof zeros != 0) words::copy_in(place_->words, end, zeros, sizeof zeros - end % sizeof zeros);
}

std::string_view Upload::value() const {
    CHECK(missing() == 0);
    return {reinterpret_cast<const char*>(place_->words) + place_->start, value_bytes_};
}

// Whether the item's value is the one in the slot, complete.
bool Upload::holds(const NewItem& item) const {
    return missing() == 0 && item.value.data() == value().data() && item.value_tail.empty();
}

void Upload::publish() {
    place_->partition.take_received(place_->ref);
    place_->published = true;
}

std::unique_ptr<Upload> Node::begin_upload(const protocol::Key& key, uint64_t value_bytes, NodeSeconds now) {
    const uint64_t bytes = layout::item_bytes(key.bytes.size(), value_bytes);
    if (value_bytes == 0 || too_large(key.bytes.size(), value_bytes)) return nullptr;
    // Checked before any eviction; and a refusal is no memory shortage, which would stop leases.
    const uint64_t kept = Arena::kept_by_item(bytes);
    if (!impl_->arena.withheld().count_receiving(kept)) return nullptr;
    Ref ref = nil;
    const auto body = [&](Partition& partition, Reservation& reserved, uint64_t& need_pages) {
        ref = partition.receive(bytes, now, reserved, need_pages);
        return ref != nil;
    };
    if (!impl_->with_memory(key.hash, now, body)) {
        impl_->arena.withheld().uncount_receiving(kept);
        return nullptr;
    }
    uint64_t* const at = impl_->arena.words(ref);
    constexpr size_t key_at = sizeof(layout::ItemHeader);
    Partition& partition = impl_->partitions.of(key.hash);
    std::unique_ptr<Upload> upload;
    try {
        auto place = std::unique_ptr<Upload::Place>(new Upload::Place{partition, ref, at, key_at + key.bytes.size()});
        upload.reset(new Upload(std::move(place), value_bytes));
    } catch (const std::bad_alloc&) {
        std::lock_guard hold(partition.lock);
        partition.drop_received(ref);
        return nullptr;
    }
    words::copy_in(at, key_at, key.bytes.data(), key.bytes.size());  // the header follows when the item is published
    return upload;
}

// ---- operations -------------------------------------------------------------------------------------

bool Node::may_lend(uint64_t value_bytes, uint64_t freed) const {
    return impl_->arena.withheld().may_pin(Arena::kept_by_item(layout::item_bytes(limits::key_bytes_max, value_bytes)), freed);
}

uint64_t Node::bytes_lent() const { return impl_->arena.withheld().pinned(); }

GetReply Node::get(const GetOp& op, NodeSeconds now, ValueSink value, BorrowedBytes* lent, Place* away) {
    GetReply reply;
    auto body = [&](Partition& partition, Reservation& reserved, uint64_t& need_pages) {
        if (op.touch.has_value() || op.vivify.has_value()) partition.changes().note(op.key.hash);
        Items::Found found = partition.items().find(op.key, now);
        if (found.place.slot == nullptr) {
            reply.why = found.why;
            if (!op.vivify.has_value()) return true;
            return vivify(partition, op, now, reserved, need_pages, value, reply);
        }
        Index::Place at = found.place;
        reply.status = GetReply::Status::hit;
        reply.why = protocol::Miss::none;
        partition.order().see_reads(at.ref, now);
        // The header sent a one-sided reader here, and would again.
        if (has_expired(impl_->arena.header(at.ref).exptime, now) && !op.peek) partition.items().true_exptime(at, now);
        reply.meta = partition.items().meta(at.ref);
        const bool tokens_first = op.win_tokens && op.recache_first;
        if (tokens_first) at = hand_out_tokens(*impl_, partition, at, op, now, reply);
        if (op.touch.has_value()) {
            at = touch(*impl_, partition, at, op.key, *op.touch, now);
            reply.meta.exptime = *op.touch;
        }
        if (op.win_tokens && !tokens_first) at = hand_out_tokens(*impl_, partition, at, op, now, reply);
        std::string_view bytes = value_of(impl_->arena, at.ref);
        if (is_stub(impl_->arena, at.ref)) {
            if (away != nullptr)
                *away = stub_from(bytes).place;
            else if (value(reply.meta) != nullptr)
                return reply = {}, true;
        } else if (lent != nullptr && bytes.size() >= lent_bytes_min && partition.pin(at.ref))
            *lent = BorrowedBytes(bytes, &partition, at.ref, &unpin);
        else if (char* to = value(reply.meta))
            std::memcpy(to, bytes.data(), bytes.size());
        if (!op.peek)
            if (!op.no_bump) partition.order().access(at.ref, now);
        if (op.lease) lease_to(reply, partition.grant(at, now, Partition::Asker::get));
        return true;
    };
    if (!impl_->with_memory(op.key.hash, now, body)) reply.status = GetReply::Status::no_memory;
    return reply;
}

StoreReply Node::store(const StoreOp& op, NodeSeconds now, Upload* upload) {
    StoreReply reply;
    reply.status = StoreReply::Status::no_memory;
    if (too_large(op.key.bytes.size(), op.value.size())) {
        if (protocol::is_hold(op.cas_compare.value_or(0))) shared_keys_.hold({op.key, 0, *op.cas_compare}, now);
        reply.status = StoreReply::Status::too_large;
        return reply;
    }
    std::optional<uint64_t> compared = op.cas_compare;
    auto body = [&](Partition& partition, Reservation& reserved, uint64_t& need_pages) {
        Items::Found found = partition.items().find(op.key, now);
        const bool exists = found.place.slot != nullptr;
        protocol::ItemMeta old;
        if (exists) old = partition.items().meta(found.place.ref);
        bool as_stale = false;
        if (protocol::is_mark(compared.value_or(0))) compared = partition.changes().compared_mark(op.key.hash, *compared, now);
        const uint64_t mark = partition.changes().mark(op.key.hash);
        StoreReply::Status status = verdict(op, exists, old.cas, compared.value_or(0), mark, as_stale);
        if (is_mutation(op, exists, status)) partition.changes().note(op.key.hash);
        if (status != StoreReply::Status::stored) {
            reply = {};
            reply.status = status;
            if (status == StoreReply::Status::not_found)
                reply.cas = partition.changes().takes_item(op.key.hash, op.moved_since, now) ? mark : protocol::mark_bit;
            reply.size_class =
                exists ? old.size_class : size_class(op.key.bytes.size(), op.value.size());
            if (exists && op.mode == StoreOp::Mode::add) partition.order().bump(found.place.ref, now);
            return true;
        }
        if (exists && joins(op) && is_stub(impl_->arena, found.place.ref)) {  // its value is not in memory
            reply = {};
            reply.size_class = old.size_class;
            return true;
        }
        NewItem item = compose(op, found, impl_->arena, as_stale);
        if (too_large(op.key.bytes.size(), item.value.size() + item.value_tail.size())) {
            reply.status = StoreReply::Status::too_large;
            return true;
        }
        if (overwrite_in_place(impl_->arena, found, item)) {
            reply = stored_reply(partition, found.place.ref);
            return true;
        }
        if (op.spilled && !partition.has_room_for_foreign(item.bytes(), impl_->config.spill.foreign_share, now)) return true;
        // A set may lose the item it replaces; other modes must keep it.
        const bool keeps = exists && op.mode != StoreOp::Mode::set;
        Ref ref = nil;
        if (upload != nullptr && upload->holds(item))
            ref = partition.room_for_received(upload->place_->ref, item, found.place, now);
        else
            ref = partition.room_for(item, found.place, now, reserved, need_pages, keeps);
        if (ref == nil) {
            if (need_pages == 0) partition.items().counts().no_memory(item.bytes());
            return false;
        }
        item.cas = op.cas_set.has_value() ? *op.cas_set : partition.items().uniques().next();
        if (op.cas_set.has_value() && protocol::is_mark(op.cas_compare.value_or(0))) partition.items().uniques().seen(*op.cas_set);
        if (upload != nullptr && ref == upload->place_->ref) upload->publish();
        partition.items().put(ref, item, now, found.place);
        reply = stored_reply(partition, ref);
        if (op.lease) {
            Index::Place at = partition.items().locate(op.key);
            lease_to(reply, partition.grant(at, now, Partition::Asker::mutation));
        }
        return true;
    };
    impl_->with_memory(op.key.hash, now, body);
    if (reply.status == StoreReply::Status::no_memory && op.forget) forget(op.key, now);
    return reply;
}

DeleteReply Node::remove(const DeleteOp& op, NodeSeconds now) {
    DeleteReply reply;
    Partition& partition = impl_->partitions.of(op.key.hash);
    std::lock_guard hold(partition.lock);
    now = partition.latest(now);
    partition.changes().note(op.key.hash);
    Items::Found found = partition.items().find(op.key, now);
    if (found.place.slot == nullptr) return reply;
    const Ref ref = found.place.ref;
    const protocol::ItemMeta old = partition.items().meta(ref);
    reply.size_class = old.size_class;
    reply.item_bytes = old.item_bytes;
    if (op.cas_compare.has_value())
        if (*op.cas_compare != old.cas || old.cas == 0) {
            reply.status = DeleteReply::Status::exists;
            return reply;
        }
    reply.status = DeleteReply::Status::deleted;
    if (!op.invalidate && !op.remove_value) {
        partition.items().kill(ref, found.place.slot, Gone::deleted, now);
        return reply;
    }
    NewItem item = copy_of(impl_->arena, ref, op.key);
    if (op.remove_value) {
        item.value = {};
        item.flags = 0;
        item.exptime = never_expires;
        item.descriptor_flags = 0;
        item.format &= layout::format_key_binary;
    }
    if (op.touch.has_value()) item.exptime = *op.touch;
    if (op.invalidate) {
        item.descriptor_flags = uint8_t((item.descriptor_flags | item_stale) & ~item_win_sent);
        item.format |= layout::format_tokens;
        if (!op.cas_set.has_value()) item.cas = partition.items().uniques().next();
    }
    if (op.cas_set.has_value()) item.cas = *op.cas_set;
    if (partition.rewrite(found.place, item, now).slot != nullptr) return reply;
    // The value is being sent, and no memory is left for another copy of the item.
    partition.items().kill(ref, found.place.slot, Gone::deleted, now);
    return reply;
}

namespace {

// Parses a number as memcached does: white space, a sign, then digits up to the end, white space or a NUL. False: not a number,
// or more than 64 bits. strtoull negates modulo 2^64; memcached refuses results above 2^63.
bool read_number(std::string_view text, uint64_t& number) {
    constexpr std::string_view space = " \t\n\v\f\r";
    text.remove_prefix(std::min(text.find_first_not_of(space), text.size()));
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) text.remove_prefix(1);
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return false;
    if (negative) number = -number;
    if (negative && number > uint64_t(INT64_MAX)) return false;
    return end == text.data() + text.size() || *end == 0 || space.find(*end) != space.npos;
}

// False: no memory.
bool pad(std::string& padding, size_t bytes) noexcept {
    try {
        padding.assign(bytes, ' ');
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

uint64_t apply(const ArithOp& op, uint64_t number) {
    if (!op.decrement) return number + op.delta;
    return op.delta > number ? 0 : number - op.delta;
}

}  // namespace

ArithReply Node::arith(const ArithOp& op, NodeSeconds now) {
    ArithReply reply;
    auto body = [&](Partition& partition, Reservation& reserved, uint64_t& need_pages) {
        reply = {};
        partition.changes().note(op.key.hash);
        Items& items = partition.items();
        Items::Found found = items.find(op.key, now);
        const bool exists = found.place.slot != nullptr;
        if (!exists && !op.vivify.has_value()) return true;
        NewItem item;
        item.key = op.key;
        if (op.key_binary) item.format |= layout::format_key_binary;
        reply.value = op.initial;
        if (exists) {
            const Ref old = found.place.ref;
            reply.meta = items.meta(old);
            // An empty value is no number, with any CAS.
            if (op.cas_compare.value_or(0) != 0 && reply.meta.value_len != 0 && *op.cas_compare != reply.meta.cas) {
                reply.status = ArithReply::Status::exists;
                return true;
            }
            uint64_t number = 0;
            if (is_stub(impl_->arena, old) || !read_number(value_of(impl_->arena, old), number)) {
                reply.status = ArithReply::Status::non_numeric;
                return true;
            }
            reply.value = apply(op, number);
            item = copy_of(impl_->arena, old, op.key);
        }
        char digits[20];
        char* end = std::to_chars(digits, digits + sizeof digits, reply.value).ptr;
        item.value = {digits, size_t(end - digits)};
        // memcached writes a number that did not grow in place of the old one, and pads it.
        std::string padding;
        if (exists && reply.meta.value_len >= item.value.size()) {
            if (!pad(padding, reply.meta.value_len - item.value.size())) return items.counts().no_memory(item.bytes()), false;
            item.value_tail = padding;
            item.counts_as_new = false;
        } else if (exists) {
            item.descriptor_flags = 0;  // memcached stores a longer number as a new item, neither read nor stale
            item.format &= layout::format_key_binary;
        }
        item.exptime = (exists ? op.touch : op.vivify).value_or(item.exptime);
        item.cas = op.cas_set.has_value() ? *op.cas_set : items.uniques().next();
        Index::Place at = found.place;
        // A run of pages visible to readers never gets other bytes: a longer number goes to another slot.
        if (exists && item.bytes() <= std::min<uint64_t>(reply.meta.item_bytes, layout::page_bytes)) {
            at = partition.rewrite(at, item, now);
            if (at.slot == nullptr) return items.counts().no_memory(item.bytes()), false;
        } else {
            at.ref = partition.room_for(item, found.place, now, reserved, need_pages, exists);
            if (at.ref == nil) {
                if (need_pages == 0) items.counts().no_memory(item.bytes());
                return false;
            }
            items.put(at.ref, item, now, found.place);
        }
        reply.status = exists ? ArithReply::Status::ok : ArithReply::Status::vivified;
        reply.meta = items.meta(at.ref);
        if (exists) partition.order().bump(at.ref, now);
        if (op.lease) {
            at = items.locate(op.key);
            lease_to(reply, partition.grant(at, now, Partition::Asker::mutation));
        }
        return true;
    };
    if (!impl_->with_memory(op.key.hash, now, body)) reply.status = ArithReply::Status::no_memory;
    return reply;
}

bool Node::too_large(size_t key_bytes, uint64_t value_bytes) const {
    return layout::item_bytes(key_bytes, value_bytes) > impl_->config.item_bytes_max;
}

uint8_t Node::size_class(size_t key_bytes, uint64_t value_bytes) const {
    return impl_->classes.of(layout::item_bytes(key_bytes, value_bytes));
}

void Node::forget(const protocol::Key& key, NodeSeconds now) {
    Partition& partition = impl_->partitions.of(key.hash);
    std::lock_guard hold(partition.lock);
    now = partition.latest(now);
    partition.changes().note(key.hash);
    Items::Found found = partition.items().find(key, now);
    if (found.place.slot != nullptr)
        partition.items().kill(found.place.ref, found.place.slot, Gone::deleted, now);
}

}  // namespace farcached::node
