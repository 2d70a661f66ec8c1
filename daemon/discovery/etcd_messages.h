// SPDX-License-Identifier: BSD-3-Clause
// The messages of etcd's version 3 API that this program uses, as JSON of etcd's gateway. Keys and values are in base64, 64-bit
// numbers in quotes. Fields that are zero or empty are left out.
//
// Pure; value types. Owner: none; any thread.
// G1  Replies are not trusted (S10): a text of another shape gives nothing. Values are decoded up to a limit; longer ones are
//     marked, not copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farcached::daemon {

struct EtcdKey {
    std::string key;
    std::string value;
    bool too_long = false;     // the value was longer than the limit; it is not here
    int64_t mod_revision = 0;
    int64_t lease = 0;         // 0: none
    bool created = false;      // by its last change
};

struct EtcdRange {
    int64_t revision = 0;
    uint64_t cluster = 0;
    std::vector<EtcdKey> keys;
    bool more = false;         // there are further keys
    int64_t count = 0;         // of all
};

struct EtcdEvent {
    EtcdKey at;
    bool deleted = false;
};

struct EtcdWatched {
    int64_t revision = 0;
    bool created = false;
    bool canceled = false;
    int64_t compact_revision = 0;  // not 0: history before it is gone
    std::string cancel_reason;
    std::vector<EtcdEvent> events;
};

struct EtcdLease {
    int64_t id = 0;
    int64_t ttl_s = 0;         // 0: there is no such lease
};

struct EtcdError {
    int64_t code = 0;          // of gRPC
    std::string text;
};

// ---- requests -----------------------------------------------------------------------------------------
// The key after all keys with this prefix.
std::string end_of_prefix(std::string prefix);
// revision: the keys as they were then; 0: as they are.
std::string range_request(std::string_view prefix, uint32_t keys_max, int64_t revision = 0);
std::string key_request(std::string_view key);
// Of the key of the prefix that changed last, without its value.
std::string newest_request(std::string_view prefix);
std::string watch_request(std::string_view prefix, int64_t from_revision);
std::string grant_request(uint32_t ttl_s);
std::string lease_request(int64_t lease);
// Puts the value under the lease if the key still has that revision; 0: if there is no such key.
std::string put_request(std::string_view key, std::string_view value, int64_t lease, int64_t mod_revision);
std::string authenticate_request(std::string_view user, std::string_view password);

// ---- replies ------------------------------------------------------------------------------------------
std::optional<EtcdRange> read_range(std::string_view text, size_t value_bytes_max);
std::optional<EtcdWatched> read_watched(std::string_view line, size_t value_bytes_max);
std::optional<EtcdLease> read_grant(std::string_view text);
// Of a keepalive.
std::optional<EtcdLease> read_kept(std::string_view text);
// The revision of etcd with the value that was put; 0: it was not put.
std::optional<int64_t> read_put(std::string_view text);
// A token.
std::optional<std::string> read_token(std::string_view text);
// Of an error's body; also of a line of a stream.
EtcdError read_error(std::string_view text);
// Does it mean that the token is missing or no longer valid?
bool needs_token(const EtcdError& error);

}  // namespace farcached::daemon
