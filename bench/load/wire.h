// SPDX-License-Identifier: BSD-3-Clause
// The client's side of the three protocols: requests to bytes, bytes to pieces of replies. Pure.
//
//            get of one key   get of many keys                     set
//  text      get              get with all of them                 set
//  meta      mg v             mg k v q for each, then mn           ms
//  binary    GET              GETKQ for each, then NOOP            SET
// A key is removed by delete, md or DELETE; "not found" is as good a reply.
//
// W1  next_piece() depends on the bytes only, not on how they arrive.
// W2  A piece's views point into the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "base/out_buffer.h"

namespace farcached::bench {

enum class Wire : uint8_t { text, meta, binary };
constexpr std::string_view wire_names[] = {"text", "meta", "binary"};

// The kind of a request, as far as it shapes the reply.
enum class RequestKind : uint8_t { set, get, get_many, remove };
constexpr bool reads(RequestKind kind) { return kind == RequestKind::get || kind == RequestKind::get_many; }

class RequestWriter {
  public:
    struct Words;

    RequestWriter(Wire wire, std::string key_prefix);

    void get(OutBuffer& out, uint64_t key) const;
    void get_many(OutBuffer& out, std::span<const uint64_t> keys) const;
    // fill: writes the value to the given address.
    void set(OutBuffer& out, uint64_t key, uint32_t value_bytes,
             FunctionRef<void(char*)> fill) const;

    void remove(OutBuffer& out, uint64_t key) const;

    // The number of a key that this program wrote; false for other keys.
    bool key_number(std::string_view key, uint64_t& number) const;

  private:
    char* write_key(char* to, uint64_t key) const;
    // A request, to the end of its key or line. Returns the end.
    char* write(char* to, const Words* words, uint8_t opcode, uint64_t key, uint8_t extras_bytes = 0,
                uint32_t value_bytes = 0) const;
    char* write_packet(char* to, uint8_t opcode, uint64_t key, uint8_t extras_bytes,
                       uint32_t value_bytes) const;

    Wire wire_;
    std::string prefix_;
};

struct Piece {
    enum class Kind : uint8_t {
        need_more,  // bytes: size of a whole piece, as far as known
        value,      // a hit; last: the reply ends with it
        end,        // end of the reply: requested values that did not arrive are misses
        done,     // stored, or removed
        refused,  // a valid error reply; value: its text
        broken,   // not the protocol
    } kind = Kind::need_more;
    bool last = false;
    bool has_key = false;
    size_t bytes = 0;  // of the input consumed
    std::string_view key;
    std::string_view value;
};

Piece next_piece(Wire wire, RequestKind kind, std::string_view input);

}  // namespace farcached::bench
