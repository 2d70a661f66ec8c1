// SPDX-License-Identifier: BSD-3-Clause
// RpcCosts: the costs of an RPC for the server's network interface, by the mode of the RPC. One station serves operations
// that others issue, a second one the server's own. Each direction of the link is a station, too. The busiest one limits the
// rate. Pure.
#pragma once

#include <cstdint>

#include "base/rpc_mode.h"

namespace farcached::bench {

// Operations and bytes of data at the server, for one request; or their means.
struct RpcOperations {
    double in_bound = 0, out_bound = 0;
    double bytes_in = 0, bytes_out = 0;
};

struct RpcShape {
    uint32_t request_bytes = 0, reply_bytes = 0;
    uint32_t fetch_bytes = 0;      // rfp: of the first READ; the rest of a longer reply takes a second one
    double extra_round_trips = 0;  // rfp: READs that found no reply yet
};
RpcOperations rpc_operations(RpcMode mode, const RpcShape& shape);

struct RpcCosts {
    double in_bound_mops = 0, out_bound_mops = 0;
    double gbps = 0;  // of data, each way

    // Requests per second, in millions.
    double mops(const RpcOperations& operations) const;
};

// ConnectX-3 by Jakiro's Tables I and II: 11.26 and 2.11 MOPS for 32 bytes. From 1.5 KiB both ways are equal, so the bytes of
// one such operation take as long as an out-bound operation.
constexpr RpcCosts jakiro_costs = {11.26, 2.11, 1536 * 8 * 2.11 / 1000};

}  // namespace farcached::bench
