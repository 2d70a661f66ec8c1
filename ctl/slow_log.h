// SPDX-License-Identifier: BSD-3-Clause
// `farctl slowlog`: the slow requests of `stats slow_log` as a table and as JSON. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ctl/server.h"
#include "ctl/show.h"

namespace farcached::ctl {

struct SlowRequest {
    uint64_t ago_ms = 0, took_us = 0, requests = 0;
    std::optional<uint64_t> queue_us, answer_us, reply_us;  // none: no node was asked
    std::string op, path, node, key;                        // the key as sent; unprintable bytes are %XX
};

// Newest first, at most `most`.
std::vector<SlowRequest> slow_requests_of(const Stats& stats, size_t most);
// The key of what the daemon recorded: of a batch it is the beginning of its bytes. Empty: they have none.
std::string key_of_batch(std::string_view encoded);

std::string slow_log_text(const std::vector<SlowRequest>& requests, Look look = {});
Json json_of(const std::vector<SlowRequest>& requests);

}  // namespace farcached::ctl
