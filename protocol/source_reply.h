// SPDX-License-Identifier: BSD-3-Clause
// A memcached's replies to the meta commands of a client: mn, mg with v f t, md; and to flush_all. And such commands. Pure.
//
// S1  A reply's bytes are not trusted: lines are bounded, numbers are checked, and a value above the limit is not kept.
// S2  Commands carry a number, which the source repeats with each value (VA) and with HD and NF. So no other command's reply is
//     taken for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace farcached::protocol {

struct SourceReply {
    enum class Status : uint8_t {
        need_more,
        version,    // MN
        item,       // VA with all of its fields
        unusable,   // VA of an item that has expired, or that a client is to recache
        too_large,  // VA with a value above the limit, of which `skip` bytes follow the line
        miss,       // EN
        deleted,    // HD
        not_found,  // NF
        ok,         // OK
        refused,    // an error of the server: it may have done nothing
        invalid     // no such reply
    };
    Status status = Status::need_more;
    size_t bytes = 0;           // of the reply, or of its line if the value is too large
    uint64_t skip = 0;
    std::string_view value;     // within the input
    uint32_t flags = 0;
    int64_t ttl_s = -1;         // -1: never expires
    std::optional<uint64_t> opaque;  // the command's number, if the reply has it
};

// The reply at the front of `input`.
SourceReply parse_source_reply(std::string_view input, uint64_t value_bytes_max);

// Appends a command with its number. A key that is no word goes as base64. False: memcached takes no such key, and has no such
// item.
[[nodiscard]] bool append_source_get(std::string& to, std::string_view key, uint64_t number);
[[nodiscard]] bool append_source_delete(std::string& to, std::string_view key, uint64_t number);

}  // namespace farcached::protocol
