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
    PointerRead read;
    read.outcome = validate(expect, seen);
    if (read.outcome != Outcome::hit) return read;
    const layout::ItemHeader& header = seen.header;
    read.meta = {header.cas,
                 header.value_len,
                 header.flags,
                 header.exptime,
                 /* size_class= */ 0,
                 (header.format & layout::format_key_binary) != 0};
    read.value = {reinterpret_cast<const char*>(copy.words) + sizeof header + header.key_len,
                  header.value_len};
    return read;
}

}  // namespace farcached::fabric
