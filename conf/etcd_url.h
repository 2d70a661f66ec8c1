// SPDX-License-Identifier: BSD-3-Clause
// The place of a list of members in etcd, as --discover names it: etcd://HOST:PORT[,HOST:PORT]/PREFIX, or etcds:// with TLS.
//
// Pure. Owner: none; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace farcached::conf {

struct EtcdUrl {
    static constexpr size_t endpoints_max = 16, prefix_bytes_max = 256;

    std::vector<std::string> endpoints;  // "http://10.0.0.1:2379", at least one
    std::string prefix;                  // "/farcached": of all keys, without a slash at its end; not empty
    bool tls = false;

    // "/farcached/nodes/": the keys of the nodes begin with it.
    std::string nodes() const { return prefix + "/nodes/"; }
    // "/farcached/proxies/": those of the farcached.
    std::string proxies() const { return prefix + "/proxies/"; }
    // "/farcached/lists/": which lists nodes have received (SentLists).
    std::string lists() const { return prefix + "/lists/"; }
    // "http://10.0.0.1:2379 and 2 more", for messages
    std::string describe() const;
};

// Has `text` one of the two prefixes?
bool is_etcd_url(std::string_view text);
// A problem is the end of a sentence without its subject.
Result<EtcdUrl> parse_etcd_url(std::string_view text);
// The same, and whether this program can ask etcd.
Refusal check_etcd(std::string_view text);

}  // namespace farcached::conf
