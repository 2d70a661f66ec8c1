// SPDX-License-Identifier: BSD-3-Clause
// The operations of protocol/op.h, with memcached's meaning, over one partition's primitives.
#include <algorithm>
#include <charconv>
#include <string>

#include "base/broken.h"
#include "base/check.h"
#include "node/impl.h"
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

// Runs `body(partition, reserved, need_pages)` under the key's partition lock until it does not ask for pages;
// what it asks for is reserved between two tries, without the lock. False: no memory.
template <class Body>
bool with_memory(Node::Impl& impl, uint64_t hash, NodeSeconds now, Body&& body) {
    constexpr uint32_t tries_max = 8;
    Reservation reserved;
    struct GiveBack {
        Node::Impl& impl;
        Reservation& reserved;
        ~GiveBack() { impl.give_back(reserved); }
    } give_back{impl, reserved};
    bool done = false;
    for (uint32_t i = 0; i < tries_max; i++) {
        uint64_t need_pages = 0;
        {
            Partition& partition = impl.partition(hash);
            std::lock_guard hold(partition.lock);
            done = body(partition, reserved, need_pages);
        }
        if (done || need_pages == 0) break;
        if (!impl.reserve(need_pages, now, reserved)) break;
    }
    if (!done) impl.note_shortage(now);
    return done;
}

// What must not stay as it is goes, if it can neither be written anew nor where it is leased; its bytes stay until
// the lease has ended. No slot in the place then.
Index::Place rewrite_or_evict(Partition& partition, Index::Place at, const NewItem& item,
                              NodeSeconds now) {
    Index::Place place = partition.rewrite(at, item, now);
    if (place.slot == nullptr) partition.kill(at.ref, at.slot, Gone::evicted, now);
    return place;
}

// A touch that lengthens changes only the descriptor, one that shortens is a mutation (S1); so is one to a moment
// that a running lease would outlive (S3).
Index::Place touch(Node::Impl& impl, Partition& partition, Index::Place at, const protocol::Key& key,
                   NodeSeconds exptime, NodeSeconds now) {
    const layout::ItemHeader& header = impl.arena.header(at.ref);
    Descriptor& descriptor = impl.arena.descriptor(at.ref);
    bool lengthens = exptime == never_expires ||
                     (header.exptime != never_expires && exptime >= header.exptime);
    if (partition.lease_runs(at.ref, now))
        if (exptime != never_expires && exptime < descriptor.lease_end) lengthens = false;
    if (lengthens) {
        descriptor.exptime = exptime;
        return at;
    }
    NewItem item = partition.same_item(key, at.ref);
    item.exptime = exptime;
    return rewrite_or_evict(partition, at, item, now);
}

// Win and stale tokens (meta W, X, Z). The item is marked so that lock-free mg readers come here.
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
    if (!win || at.slot == nullptr) return at;
    NewItem item = partition.same_item(op.key, at.ref);
    item.descriptor_flags |= item_win_sent;
    item.format |= layout::format_tokens;
    return rewrite_or_evict(partition, at, item, now);
}

bool vivify(Partition& partition, const GetOp& op, NodeSeconds now, Reservation& reserved,
            uint64_t& need_pages, Node::ValueSink value, GetReply& reply) {
    NewItem item;
    item.key = op.key;
    item.exptime = *op.vivify;
    item.descriptor_flags = item_win_sent;
    item.format = layout::format_tokens;
    if (op.key_binary) item.format |= layout::format_key_binary;
    Ref ref = partition.allocate(item.bytes(), now, nil, reserved, need_pages);
    if (ref == nil) {
        if (need_pages == 0) partition.count_no_memory(item.bytes());
        return false;
    }
    item.cas = op.cas_set.value_or(0);
    if (!op.cas_set.has_value()) item.cas = partition.next_cas();
    partition.put(ref, item, now, {});
    reply.status = GetReply::Status::hit;
    reply.why = protocol::Miss::none;
    reply.vivified = true;
    reply.meta = partition.meta(ref);
    reply.meta.win = true;
    reply.meta.win_sent = false;
    value(reply.meta);
    if (!op.no_bump) partition.access(ref, now);
    return true;
}

StoreReply stored_reply(const Partition& partition, Ref ref) {
    const protocol::ItemMeta meta = partition.meta(ref);
    StoreReply reply;
    reply.status = StoreReply::Status::stored;
    reply.cas = meta.cas;
    reply.item_bytes = meta.item_bytes;
    reply.value_len = meta.value_len;
    reply.size_class = meta.size_class;
    reply.exptime = meta.exptime;
    return reply;
}

// What memcached's conditions say of storing over what was found; `stored` means go ahead.
StoreReply::Status verdict(const StoreOp& op, bool exists, uint64_t cas, bool& as_stale) {
    using Status = StoreReply::Status;
    using Mode = StoreOp::Mode;
    if (!exists) {
        if (op.mode == Mode::set || op.mode == Mode::add) return Status::stored;
        if (op.mode == Mode::cas) return Status::not_found;
        bool appends = op.mode == Mode::append || op.mode == Mode::prepend;
        return appends && op.vivify.has_value() ? Status::stored : Status::not_stored;
    }
    switch (op.mode) {
        case Mode::add: return Status::not_stored;
        case Mode::cas:
            if (op.cas_compare.has_value() && *op.cas_compare == cas && cas != 0) return Status::stored;
            if (op.invalidate && op.cas_compare.has_value() && *op.cas_compare < cas) {
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

NewItem compose(const StoreOp& op, const Partition& partition, const Partition::Found& found,
                Arena& arena, bool as_stale) {
    NewItem item;
    item.key = op.key;
    item.value = op.value;
    item.flags = op.flags;
    item.exptime = op.exptime;
    if (op.key_binary) item.format |= layout::format_key_binary;
    const bool joins = op.mode == StoreOp::Mode::append || op.mode == StoreOp::Mode::prepend;
    if (joins && found.place.slot == nullptr) item.exptime = *op.vivify;
    if (joins && found.place.slot != nullptr) {
        const Ref old = found.place.ref;
        item = partition.same_item(op.key, old);
        item.descriptor_flags = 0;
        item.format &= layout::format_key_binary;
        const bool append = op.mode == StoreOp::Mode::append;
        item.value = append ? partition.value_of(old) : op.value;
        item.value_tail = append ? op.value : partition.value_of(old);
    }
    if (as_stale) {  // it lives no longer for that, and its win was handed out if it was
        const Descriptor& old = arena.descriptor(found.place.ref);
        item.exptime = old.exptime;
        item.descriptor_flags = uint8_t(item_stale | (old.flags & item_win_sent));
        item.format |= layout::format_tokens;
    }
    return item;
}

// The S1 switch: writes the value into the published item, as no correct build does.
bool overwrite_in_place(Arena& arena, const Partition::Found& found, const NewItem& item) {
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

}  // namespace

GetReply Node::get(const GetOp& op, NodeSeconds now, ValueSink value) {
    GetReply reply;
    auto body = [&](Partition& partition, Reservation& reserved, uint64_t& need_pages) {
        Partition::Found found = partition.find(op.key, now);
        if (found.place.slot == nullptr) {
            reply.why = found.why;
            if (!op.vivify.has_value()) return true;
            return vivify(partition, op, now, reserved, need_pages, value, reply);
        }
        Index::Place at = found.place;
        reply.status = GetReply::Status::hit;
        reply.why = protocol::Miss::none;
        partition.see_reads(at.ref, now);
        reply.meta = partition.meta(at.ref);
        const bool tokens_first = op.win_tokens && op.recache_first;
        if (tokens_first) at = hand_out_tokens(*impl_, partition, at, op, now, reply);
        if (op.touch.has_value()) {
            at = touch(*impl_, partition, at, op.key, *op.touch, now);
            reply.meta.exptime = *op.touch;
        }
        if (op.win_tokens && !tokens_first) at = hand_out_tokens(*impl_, partition, at, op, now, reply);
        std::string_view bytes = partition.value_of(at.ref);
        if (char* to = value(reply.meta)) std::memcpy(to, bytes.data(), bytes.size());
        if (at.slot == nullptr) return true;
        if (!op.peek)
            if (!op.no_bump) partition.access(at.ref, now);
        if (op.lease) reply.grant = partition.grant(at, now);
        return true;
    };
    if (!with_memory(*impl_, op.key.hash, now, body)) reply.status = GetReply::Status::no_memory;
    return reply;
}

StoreReply Node::store(const StoreOp& op, NodeSeconds now) {
    StoreReply reply;
    reply.status = StoreReply::Status::no_memory;
    if (too_large(op.key.bytes.size(), op.value.size())) {
        reply.status = StoreReply::Status::too_large;
        return reply;
    }
    auto body = [&](Partition& partition, Reservation& reserved, uint64_t& need_pages) {
        Partition::Found found = partition.find(op.key, now);
        const bool exists = found.place.slot != nullptr;
        protocol::ItemMeta old;
        if (exists) old = partition.meta(found.place.ref);
        bool as_stale = false;
        StoreReply::Status status = verdict(op, exists, old.cas, as_stale);
        if (status != StoreReply::Status::stored) {
            reply = {};
            reply.status = status;
            reply.size_class =
                exists ? old.size_class : size_class(op.key.bytes.size(), op.value.size());
            if (op.mode == StoreOp::Mode::add) partition.bump(found.place.ref, now);
            return true;
        }
        NewItem item = compose(op, partition, found, impl_->arena, as_stale);
        if (too_large(op.key.bytes.size(), item.value.size() + item.value_tail.size())) {
            reply.status = StoreReply::Status::too_large;
            return true;
        }
        if (overwrite_in_place(impl_->arena, found, item)) {
            reply = stored_reply(partition, found.place.ref);
            return true;
        }
        Ref pinned = exists ? found.place.ref : nil;
        // A set may as well lose what it replaces; the others were promised that it is there.
        const bool keeps = exists && op.mode != StoreOp::Mode::set;
        Ref ref = partition.allocate(item.bytes(), now, pinned, reserved, need_pages, keeps);
        if (ref == nil) {
            if (need_pages == 0) partition.count_no_memory(item.bytes());
            return false;
        }
        item.cas = op.cas_set.has_value() ? *op.cas_set : partition.next_cas();
        partition.put(ref, item, now, found.place);
        reply = stored_reply(partition, ref);
        if (op.lease) {
            Index::Place at = partition.locate(op.key);
            reply.grant = partition.grant(at, now);
        }
        return true;
    };
    with_memory(*impl_, op.key.hash, now, body);
    if (reply.status == StoreReply::Status::no_memory && op.forget) forget(op.key, now);
    return reply;
}

DeleteReply Node::remove(const DeleteOp& op, NodeSeconds now) {
    DeleteReply reply;
    Partition& partition = impl_->partition(op.key.hash);
    std::lock_guard hold(partition.lock);
    Partition::Found found = partition.find(op.key, now);
    if (found.place.slot == nullptr) return reply;
    const Ref ref = found.place.ref;
    const protocol::ItemMeta old = partition.meta(ref);
    reply.size_class = old.size_class;
    reply.item_bytes = old.item_bytes;
    if (op.cas_compare.has_value())
        if (*op.cas_compare != old.cas || old.cas == 0) {
            reply.status = DeleteReply::Status::exists;
            return reply;
        }
    reply.status = DeleteReply::Status::deleted;
    if (!op.invalidate && !op.remove_value) {
        partition.kill(ref, found.place.slot, Gone::deleted, now);
        return reply;
    }
    NewItem item = partition.same_item(op.key, ref);
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
        if (!op.cas_set.has_value()) item.cas = partition.next_cas();
    }
    if (op.cas_set.has_value()) item.cas = *op.cas_set;
    rewrite_or_evict(partition, found.place, item, now);
    return reply;
}

namespace {

// A number as memcached reads one: white space and a sign before it, then digits up to the end, white
// space or a NUL. False: another thing, or more than 64 bits.
bool read_number(std::string_view text, uint64_t& number) {
    constexpr std::string_view space = " \t\n\v\f\r";
    text.remove_prefix(std::min(text.find_first_not_of(space), text.size()));
    if (text.starts_with('+')) text.remove_prefix(1);
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return false;
    return end == text.data() + text.size() || *end == 0 || space.find(*end) != space.npos;
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
        Partition::Found found = partition.find(op.key, now);
        const bool exists = found.place.slot != nullptr;
        if (!exists && !op.vivify.has_value()) return true;
        NewItem item;
        item.key = op.key;
        if (op.key_binary) item.format |= layout::format_key_binary;
        reply.value = op.initial;
        if (exists) {
            const Ref old = found.place.ref;
            reply.meta = partition.meta(old);
            const bool checks = op.cas_compare.has_value() && *op.cas_compare != 0;
            if (checks && *op.cas_compare != reply.meta.cas) {
                reply.status = ArithReply::Status::exists;
                return true;
            }
            uint64_t number = 0;
            if (!read_number(partition.value_of(old), number)) {
                reply.status = ArithReply::Status::non_numeric;
                return true;
            }
            reply.value = apply(op, number);
            item = partition.same_item(op.key, old);
        }
        char digits[20];
        char* end = std::to_chars(digits, digits + sizeof digits, reply.value).ptr;
        item.value = {digits, size_t(end - digits)};
        // memcached writes a number that did not grow where the old one was, and pads it.
        std::string padding;
        if (exists && reply.meta.value_len >= item.value.size()) {
            padding.assign(reply.meta.value_len - item.value.size(), ' ');
            item.value_tail = padding;
            item.counts_as_new = false;
        }
        if (!exists) item.exptime = *op.vivify;
        if (exists && op.touch.has_value()) item.exptime = *op.touch;
        item.cas = op.cas_set.has_value() ? *op.cas_set : partition.next_cas();
        Ref ref = nil;
        if (exists && item.bytes() <= reply.meta.item_bytes) {
            const Index::Place place = partition.rewrite(found.place, item, now);
            if (place.slot != nullptr) ref = place.ref;
        }
        if (ref == nil) {
            Ref pinned = exists ? found.place.ref : nil;
            ref = partition.allocate(item.bytes(), now, pinned, reserved, need_pages, exists);
            if (ref == nil) {
                if (need_pages == 0) partition.count_no_memory(item.bytes());
                return false;
            }
            partition.put(ref, item, now, found.place);
        }
        reply.status = exists ? ArithReply::Status::ok : ArithReply::Status::vivified;
        reply.meta = partition.meta(ref);
        if (exists) partition.bump(ref, now);
        return true;
    };
    if (!with_memory(*impl_, op.key.hash, now, body)) reply.status = ArithReply::Status::no_memory;
    return reply;
}

bool Node::too_large(size_t key_bytes, uint64_t value_bytes) const {
    return layout::item_bytes(key_bytes, value_bytes) > impl_->config.item_bytes_max;
}

uint8_t Node::size_class(size_t key_bytes, uint64_t value_bytes) const {
    return impl_->classes.of(layout::item_bytes(key_bytes, value_bytes));
}

void Node::forget(const protocol::Key& key, NodeSeconds now) {
    Partition& partition = impl_->partition(key.hash);
    std::lock_guard hold(partition.lock);
    Partition::Found found = partition.find(key, now);
    if (found.place.slot != nullptr)
        partition.kill(found.place.ref, found.place.slot, Gone::deleted, now);
}

}  // namespace farcached::node
