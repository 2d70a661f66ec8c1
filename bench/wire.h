// SPDX-License-Identifier: BSD-3-Clause
// The client's side of the three protocols: requests to bytes, bytes to pieces of replies. Pure.
//
//            get of one key   get of many keys                     set
//  text      get              get with all of them                 set
//  meta      mg v             mg k v q for each, then mn           ms
//  binary    GET              GETKQ for each, then NOOP            SET
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

// What was asked, as far as the shape of the reply depends on it.
enum class Asked : uint8_t { set, get, get_many };

class RequestWriter {
  public:
    RequestWriter(Wire wire, std::string key_prefix);

    void get(OutBuffer& out, uint64_t key) const;
    void get_many(OutBuffer& out, std::span<const uint64_t> keys) const;
    // fill: writes the value where it is told to.
    void set(OutBuffer& out, uint64_t key, uint32_t value_bytes,
             FunctionRef<void(char*)> fill) const;

    // The number of a key that we wrote; false if we cannot have written it.
    bool key_number(std::string_view key, uint64_t& number) const;

  private:
    char* write_key(char* to, uint64_t key) const;
    char* write_packet(char* to, uint8_t opcode, uint64_t key, uint8_t extras_bytes,
                       uint32_t value_bytes) const;

    Wire wire_;
    std::string prefix_;
};

struct Piece {
    enum class Kind : uint8_t {
        need_more,  // bytes: how many a whole piece has, as far as is known
        value,      // a hit; last: the reply ends with it
        end,        // the reply ends: what was asked for and did not come is a miss
        stored,
        refused,  // an error, but a proper reply; value: what it says
        broken,   // not the protocol
    } kind = Kind::need_more;
    bool last = false;
    bool has_key = false;
    size_t bytes = 0;  // of the input that are done with
    std::string_view key;
    std::string_view value;
};

Piece next_piece(Wire wire, Asked asked, std::string_view input);

}  // namespace farcached::bench
