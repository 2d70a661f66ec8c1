// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/validate.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "protocol/layout_hash.h"
#include "protocol/spilled.h"

namespace farcached::fabric {

namespace {

// Header and guard of the copy. validate() rejects lengths beyond the copy.
void look_into(Seen& seen, const uint64_t* words, uint64_t copy_bytes) {
    std::memcpy(&seen.header, words, sizeof seen.header);
    seen.guard_before = seen.guard_after = {seen.header.guard};
    seen.capacity_bytes = copy_bytes;
    seen.check_equal = false;
}

// Is it an item of that key? No byte beyond the copy is read.
bool is_of(const Seen& seen, const uint64_t* words, std::string_view key) {
    if (seen.header.key_len != key.size() || layout::item_bytes(key.size(), 0) > seen.capacity_bytes) return false;
    return std::string_view(reinterpret_cast<const char*>(words) + sizeof seen.header, key.size()) == key;
}

void verify_check(Seen& seen, const uint64_t* words, uint64_t secret, uint64_t generation, uint64_t offset) {
    const uint64_t item_bytes = layout::item_bytes(seen.header.key_len, seen.header.value_len);
    if (item_bytes > seen.capacity_bytes) return;
    seen.check_equal = seen.header.check == layout::item_check(words, item_bytes, secret, generation, offset);
}

// `seen` was read from `words`.
PointerRead result(Outcome outcome, const Seen& seen, const uint64_t* words) {
    PointerRead read;
    read.outcome = outcome;
    if (outcome != Outcome::hit) return read;
    const layout::ItemHeader& header = seen.header;
    read.generation = seen.guard_before.generation();
    read.meta = {header.cas,
                 header.value_len,
                 header.flags,
                 header.exptime,
                 /* size_class= */ 0,
                 (header.format & layout::format_key_binary) != 0};
    read.value = {reinterpret_cast<const char*>(words) + sizeof header + header.key_len,
                  header.value_len};
    return read;
}

}  // namespace

namespace {

// `seen` has the copy's header and key.
Outcome judge_pointer(Seen& seen, const PointerCopy& copy, uint32_t key_len, bool tokens_matter, uint64_t check_secret) {
    const RemotePtr& ptr = copy.leased.ptr;
    seen.now_ns = copy.completed_ns;
    const uint64_t generation = broken::s4_pointer_generation ? ptr.generation : seen.guard_before.generation();
    verify_check(seen, copy.words, check_secret, generation, ptr.offset);
    const ByPointer by{ptr.generation, copy.item_bytes_max, copy.leased.valid_until_ns};
    return validate({key_len, copy.latest, tokens_matter, &by}, seen);
}

// Is it a spilled item of that key? No byte beyond the copy is read.
bool is_spilled_of(const Seen& seen, const uint64_t* words, std::string_view key) {
    const layout::ItemHeader& header = seen.header;
    if (header.key_len != protocol::spilled_key_bytes || (header.format & layout::format_spilled) == 0) return false;
    if (layout::item_bytes(header.key_len, header.value_len) > seen.capacity_bytes) return false;
    const std::string_view bytes(reinterpret_cast<const char*>(words) + sizeof header, header.key_len + header.value_len);
    return protocol::is_spilled_key(bytes.substr(0, header.key_len)) &&
           protocol::spilled_value(bytes.substr(header.key_len), key).has_value();
}

}  // namespace

PointerRead judge_copy(const PointerCopy& copy, std::string_view key, bool tokens_matter, uint64_t check_secret) {
    CHECK(copy.leased.ptr.length > sizeof(layout::ItemHeader));
    Seen seen;
    look_into(seen, copy.words, copy.leased.ptr.length);
    seen.key_equal = is_of(seen, copy.words, key);
    return result(judge_pointer(seen, copy, uint32_t(key.size()), tokens_matter, check_secret), seen, copy.words);
}

PointerRead judge_spilled(const PointerCopy& copy, std::string_view key, bool tokens_matter, uint64_t check_secret) {
    const RemotePtr& ptr = copy.leased.ptr;
    CHECK(ptr.length > sizeof(layout::ItemHeader));
    Seen seen;
    look_into(seen, copy.words, ptr.length);
    seen.key_equal = is_spilled_of(seen, copy.words, key);
    Outcome outcome = judge_pointer(seen, copy, protocol::spilled_key_bytes, tokens_matter, check_secret);
    const bool later = seen.guard_before.generation() > ptr.generation && !broken::s4_spilled_later;
    if (later && outcome != Outcome::lease) outcome = Outcome::generation;
    PointerRead read = result(outcome, seen, copy.words);
    if (outcome != Outcome::hit) return read;
    read.value.remove_prefix(std::min(key.size(), read.value.size()));
    read.meta.value_len = uint32_t(read.value.size());
    return read;
}

PointerRead judge_probe(const ProbeCopy& copy, std::string_view key, bool tokens_matter, uint64_t check_secret) {
    CHECK(copy.capacity_bytes > sizeof(layout::ItemHeader));
    Seen seen;
    look_into(seen, copy.words, copy.capacity_bytes);
    seen.key_equal = is_of(seen, copy.words, key);
    seen.flush_floor = copy.flush_floor;
    verify_check(seen, copy.words, check_secret, seen.guard_before.generation(), copy.offset);
    const Expect expect{uint32_t(key.size()), copy.latest, tokens_matter};
    return result(validate(expect, seen), seen, copy.words);
}

}  // namespace farcached::fabric
