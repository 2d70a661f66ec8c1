// SPDX-License-Identifier: BSD-3-Clause
#include "node/items/stored_item.h"

#include <atomic>
#include <cstring>
#include <iterator>
#include <string_view>

#include "base/check.h"
#include "base/hash.h"
#include "node/policy/lease_terms.h"
#include "protocol/layout_hash.h"
#include "protocol/words.h"

namespace farcached::node {

namespace {

constexpr size_t behind_check = offsetof(layout::ItemHeader, cas);  // the check covers all bytes from here on

layout::ItemHeader header_of(const NewItem& item) {
    layout::ItemHeader header{};
    header.cas = item.cas;
    header.value_len = uint32_t(item.value.size() + item.value_tail.size());
    header.flags = item.flags;
    const bool is_elsewhere = (item.format & layout::format_stub) != 0 || (item.descriptor_flags & item_moved) != 0;
    header.exptime = is_elsewhere ? layout::stub_exptime : item.exptime;
    header.key_len = uint16_t(item.key.bytes.size());
    header.format = item.format;
    return header;
}

// An item of at most a page in private memory, padded with zeros to whole words.
class Composed {
  public:
    Composed(const layout::ItemHeader& header, const NewItem& item) {
        add({reinterpret_cast<const char*>(&header), sizeof header});
        add(item.key.bytes);
        add(item.value);
        add(item.value_tail);
        std::memset(bytes_ + size_, 0, -size_ % sizeof(uint64_t));
    }
    uint64_t check(uint64_t seed) const { return hash_bytes(bytes_ + behind_check, size_ - behind_check, seed); }
    // Stores all words behind the check.
    void store(uint64_t* to) const {
        for (size_t at = behind_check; at < size_; at += sizeof(uint64_t)) {
            uint64_t word;
            std::memcpy(&word, bytes_ + at, sizeof word);
            words::store_relaxed(to + at / sizeof word, word);
            broken::step();
        }
    }

  private:
    void add(std::string_view part) {
        if (part.empty()) return;
        std::memcpy(bytes_ + size_, part.data(), part.size());
        size_ += part.size();
    }

    size_t size_ = 0;
    alignas(uint64_t) char bytes_[layout::page_bytes];
};

void append_item(words::Writer& to, const layout::ItemHeader& header, const NewItem& item) {
    to.append(reinterpret_cast<const char*>(&header.cas), sizeof header - behind_check);
    to.append(item.key.bytes.data(), item.key.bytes.size());
    to.append(item.value.data(), item.value.size());
    to.append(item.value_tail.data(), item.value_tail.size());
    to.finish();
}

// All words behind the check.
void store_header(uint64_t* at, const layout::ItemHeader& header) {
    uint64_t all[sizeof header / sizeof(uint64_t)];
    std::memcpy(all, &header, sizeof header);
    for (size_t word = behind_check / sizeof(uint64_t); word < std::size(all); word++) words::store_relaxed(at + word, all[word]);
}

// No word of the slot changes while its guard is live.
void begin_write_at(uint64_t* at) {
    const layout::Guard guard{words::load_relaxed(at)};
    if (guard.state() == layout::GuardState::live && !broken::s1_keep_guard_live)
        words::store_relaxed(at, guard.dead().word);
    std::atomic_thread_fence(std::memory_order_release);
}

}  // namespace

void ItemWriter::attach(Arena& arena, uint64_t arena_offset, uint64_t secret, bool checked, uint64_t first_generation) {
    arena_ = &arena;
    arena_offset_ = arena_offset;
    secret_ = secret;
    checked_ = checked;
    generation_ = first_generation;
}

void ItemWriter::keep(uint64_t* generation_ceiling) {
    constexpr uint64_t step = layout::partitions_max << 16;
    ceiling_.keep_in(generation_ceiling, step, generation_);
}

uint64_t ItemWriter::check_seed(Ref ref, uint64_t generation) const {
    return layout::item_check_seed(secret_, generation, arena_offset_ + arena_->offset(ref));
}

// The check of the item in that slot, from its stored bytes.
uint64_t ItemWriter::check_of(Ref ref, uint64_t bytes, uint64_t generation) const {
    if (!checked_) return 0;
    return layout::item_check(arena_->words(ref), bytes, secret_, generation, arena_offset_ + arena_->offset(ref));
}

void ItemWriter::flip_to_dead(Ref ref) {
    uint64_t* at = arena_->words(ref);
    words::store_release(at, layout::Guard{words::load_relaxed(at)}.dead().word);
    broken::step();
}

void ItemWriter::begin_write(Ref ref) { begin_write_at(arena_->words(ref)); }

void ItemWriter::compose(Ref ref, const layout::ItemHeader& header, const NewItem& item, uint64_t generation) {
    uint64_t* at = arena_->words(ref);
    if (broken::s1_compose_in_slot) return write_run(ref, header, item, generation);
    const Composed composed(header, item);
    const uint64_t check = checked_ ? composed.check(check_seed(ref, generation)) : 0;
    begin_write_at(at);
    if (broken::s1_receive_live || broken::s1_keep_guard_live) halfway();
    broken::step();
    composed.store(at);
    words::store_relaxed(at + 1, check);
    broken::step();
}

// Rewrites the header only; key and value stay. An item that is never leased gets no check, to save a read of all its bytes. A
// reader by the index takes it for torn and uses RPC. In a file each item needs its check.
void ItemWriter::write_header(Ref ref, const layout::ItemHeader& header, uint64_t generation) {
    uint64_t* at = arena_->words(ref);
    const char* rest = reinterpret_cast<const char*>(at) + sizeof header;
    uint64_t words_of_header[sizeof header / sizeof(uint64_t)];
    std::memcpy(words_of_header, &header, sizeof header);
    const size_t rest_bytes = size_t(header.key_len) + header.value_len;
    uint64_t check = words::load_relaxed(at + 1);
    if (ceiling_.kept() || (checked_ && sizeof header + rest_bytes <= leased_item_bytes_max))
        check = hash_bytes(words_of_header + 2, sizeof header - behind_check, rest, rest_bytes, check_seed(ref, generation));
    begin_write_at(at);
    broken::step();
    store_header(at, header);
    broken::step();
    words::store_relaxed(at + 1, check);
    broken::step();
}

// Writes directly into a run of pages without readers: a free one, or a dead one of the key.
void ItemWriter::write_run(Ref ref, const layout::ItemHeader& header, const NewItem& item, uint64_t generation) {
    uint64_t* at = arena_->words(ref);
    begin_write_at(at);
    words::Writer body(at + 2);
    broken::step();
    append_item(body, header, item);
    broken::step();
    words::store_relaxed(at + 1, check_of(ref, item.bytes(), generation));
}

uint64_t ItemWriter::write(Ref ref, const NewItem& item) {
    const uint64_t generation = item.generation != 0 ? item.generation : generation_ += layout::partitions_max;
    CHECK(generation <= layout::generation_max);
    ceiling_.cover(generation);
    const layout::ItemHeader header = header_of(item);
    const SlotState state = arena_->descriptor(ref).state;
    if (state == SlotState::receiving) {
        finish_received(ref, header, item, generation);
    } else if (state == SlotState::live && held(*arena_, ref) && same_value(*arena_, ref, item)) {
        write_header(ref, header, generation);  // its value is being sent
    } else if (item.bytes() <= layout::page_bytes) {
        compose(ref, header, item, generation);
    } else if (state == SlotState::live) {
        CHECK(same_value(*arena_, ref, item));
        write_header(ref, header, generation);
    } else {
        write_run(ref, header, item, generation);
    }
    return generation;
}

void ItemWriter::receive_live(Ref ref, const NewItem& item) {
    words::Writer body(arena_->words(ref) + 2);
    append_item(body, header_of(item), item);
}

// A release store: a reader that sees the live guard sees the rest.
void ItemWriter::bring_to_life(Ref ref, uint64_t generation) {
    words::store_release(arena_->words(ref),
                         layout::Guard::make(generation, layout::GuardState::live).word);
    broken::step();
}

// Key and value are in place; no reader can have found the slot.
void ItemWriter::finish_received(Ref ref, const layout::ItemHeader& header, const NewItem& item, uint64_t generation) {
    uint64_t* at = arena_->words(ref);
    CHECK(item.value_tail.empty());
    CHECK(item.value.data() == reinterpret_cast<const char*>(at) + sizeof header + header.key_len);
    begin_write_at(at);
    store_header(at, header);
    words::store_relaxed(at + 1, check_of(ref, item.bytes(), generation));
}

}  // namespace farcached::node
