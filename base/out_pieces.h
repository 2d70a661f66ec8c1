// SPDX-License-Identifier: BSD-3-Clause
// The bytes of one send: own bytes, and borrowed pieces between them.
//
//   own bytes      0 .......... at ............. size
//   sent as        [own bytes] [piece] [own bytes]
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/borrowed_bytes.h"

namespace farcached {

// Sent before the own byte `at`. Pieces are in the order of `at`.
struct OutPiece {
    size_t at;
    BorrowedBytes bytes;
};

// The most parts of one send; the next send takes the rest.
constexpr size_t out_parts_max = 192;

// Describes the unsent bytes, from own byte `start` on, for writev(). Returns the number of filled `parts`: all, if more
// bytes remain.
size_t describe_parts(std::string_view own, size_t start, std::span<const OutPiece> pieces, std::span<iovec> parts);

// The first `taken` of these bytes were sent: shortens pieces, and ends those sent whole. Returns the new `start`.
size_t take_front(std::vector<OutPiece>& pieces, size_t start, size_t taken);

}  // namespace farcached
