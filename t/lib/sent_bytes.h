// SPDX-License-Identifier: BSD-3-Clause
// The bytes that a client receives of an OutBuffer: own and borrowed bytes, in the order of sending.
#pragma once

#include <string>
#include <vector>

#include "base/out_buffer.h"

inline std::string sent_bytes(const farcached::OutBuffer& out) {
    std::vector<iovec> parts(2 * out.pieces().size() + 1);
    parts.resize(farcached::describe_parts(out.own(), 0, out.pieces(), parts));
    std::string bytes;
    for (const iovec& part : parts) bytes.append(static_cast<const char*>(part.iov_base), part.iov_len);
    return bytes;
}
