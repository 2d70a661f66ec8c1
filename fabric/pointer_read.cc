// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/pointer_read.h"

#include <cstring>

#include "base/check.h"
#include "protocol/item_check.h"

namespace farcached::fabric {

namespace {

Seen seen_in(const PointerCopy& copy, std::string_view key, std::optional<uint64_t> check_secret) {
    const RemotePtr& ptr = copy.leased.ptr;
    const char* bytes = reinterpret_cast<const char*>(copy.words);
    Seen seen;
    std::memcpy(&seen.header, bytes, sizeof seen.header);
    seen.guard_before = seen.guard_after = {seen.header.guard};
    seen.capacity_bytes = ptr.length;
    seen.now_ns = copy.completed_ns;
    if (key.size() <= ptr.length - sizeof seen.header)
        seen.key_equal = std::memcmp(bytes + sizeof seen.header, key.data(), key.size()) == 0;
    if (check_secret.has_value())
        seen.check_equal = seen.header.check == layout::item_check(bytes, ptr.length, *check_secret,
                                                                   ptr.generation, ptr.offset);
    return seen;
}

Seen seen_in(const ProbeCopy& copy, std::string_view key, uint64_t check_secret) {
    const char* bytes = reinterpret_cast<const char*>(copy.words);
    Seen seen;
    std::memcpy(&seen.header, bytes, sizeof seen.header);
    const layout::ItemHeader& header = seen.header;
    const layout::Guard guard{header.guard};
    seen.guard_before = seen.guard_after = guard;
    seen.capacity_bytes = copy.capacity_bytes;
    seen.flush_floor = copy.flush_floor;
    const uint64_t item_bytes = layout::item_bytes(header.key_len, header.value_len);
    if (item_bytes > copy.capacity_bytes) return seen;  // for validate() to refuse
    if (header.key_len == key.size())
        seen.key_equal = std::memcmp(bytes + sizeof header, key.data(), key.size()) == 0;
    seen.check_equal = header.check == layout::item_check(bytes, item_bytes, check_secret,
                                                          guard.generation(), copy.offset);
    return seen;
}

// Of what was seen in these words.
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

PointerRead judge_copy(const PointerCopy& copy, std::string_view key, bool tokens_matter,
                       std::optional<uint64_t> check_secret) {
    const RemotePtr& ptr = copy.leased.ptr;
    CHECK(ptr.length > sizeof(layout::ItemHeader));
    const Seen seen = seen_in(copy, key, check_secret);
    const ByPointer by{ptr.generation, ptr.length, copy.leased.valid_until_ns};
    Expect expect;
    expect.key_len = uint32_t(key.size());
    expect.tokens_matter = tokens_matter;
    expect.pointer = &by;
    return result(validate(expect, seen), seen, copy.words);
}

PointerRead judge_probe(const ProbeCopy& copy, std::string_view key, bool tokens_matter,
                        uint64_t check_secret) {
    CHECK(copy.capacity_bytes > sizeof(layout::ItemHeader));
    const Seen seen = seen_in(copy, key, check_secret);
    const Expect expect{uint32_t(key.size()), copy.latest, tokens_matter};
    return result(validate(expect, seen), seen, copy.words);
}

}  // namespace farcached::fabric
