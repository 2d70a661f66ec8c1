// SPDX-License-Identifier: BSD-3-Clause
#include "bench/rnic/rpc_costs.h"

#include <algorithm>

namespace farcached::bench {

RpcOperations rpc_operations(RpcMode mode, const RpcShape& shape) {
    RpcOperations found;
    found.bytes_in = shape.request_bytes;
    found.bytes_out = shape.reply_bytes;
    found.in_bound = 1;
    if (mode != RpcMode::rfp) {
        found.out_bound = 1;
        return found;
    }
    const bool second = shape.reply_bytes > shape.fetch_bytes;
    found.in_bound += 1 + shape.extra_round_trips + (second ? 1 : 0);
    found.bytes_out = std::max(shape.reply_bytes, shape.fetch_bytes);
    return found;
}

double RpcCosts::mops(const RpcOperations& operations) const {
    const double bytes = std::max(operations.bytes_in, operations.bytes_out);
    const double us = std::max({operations.in_bound / in_bound_mops, operations.out_bound / out_bound_mops,
                                bytes * 8 / gbps / 1000});
    return 1 / us;
}

}  // namespace farcached::bench
