// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/etcd_messages.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "daemon/discovery/json_fields.h"
#include "process/json_text.h"
#include "protocol/meta.h"

namespace farcached::daemon {

namespace {

using process::JsonText;

std::string encoded(std::string_view bytes) {
    std::string text(protocol::base64_encoded_bytes(bytes.size()), '\0');
    protocol::base64_encode(bytes, text.data());
    return text;
}

// Nothing: not base64.
std::optional<std::string> decoded(std::string_view text) {
    if (text.empty()) return std::string();
    std::string bytes(text.size() / 4 * 3, '\0');
    const size_t size = protocol::base64_decode(text, bytes.data());
    if (size == 0) return {};
    bytes.resize(size);
    return bytes;
}

constexpr size_t key_bytes_max = 4096;
constexpr size_t error_bytes_max = 300;

// The key at the path. Nothing: it is malformed.
std::optional<EtcdKey> read_key(const JsonFields& fields, const std::string& path, size_t value_bytes_max) {
    EtcdKey key;
    const std::string* const name = fields.text(path + ".key");
    if (name == nullptr || name->size() > key_bytes_max) return {};
    std::optional<std::string> bytes = decoded(*name);
    if (!bytes.has_value()) return {};
    key.key = std::move(*bytes);
    key.mod_revision = fields.whole(path + ".mod_revision").value_or(0);
    key.created = key.mod_revision != 0 && fields.whole(path + ".create_revision") == key.mod_revision;
    key.lease = fields.whole(path + ".lease").value_or(0);
    const std::string* const value = fields.text(path + ".value");
    if (value == nullptr) return key;
    key.too_long = value->size() > protocol::base64_encoded_bytes(value_bytes_max);
    if (key.too_long) return key;
    bytes = decoded(*value);
    if (!bytes.has_value()) return {};
    key.value = std::move(*bytes);
    return key;
}

std::string quoted(int64_t number) { return std::to_string(number); }

// The text in a bounded length, and in printable characters.
std::string printable(std::string_view text) {
    std::string line(text.substr(0, error_bytes_max));
    std::ranges::replace_if(line, [](char c) { return c < ' ' || c > '~'; }, '?');
    return line;
}

// A request of one object with what `fill` adds.
template <class Fill>
std::string object(Fill&& fill) {
    JsonText json;
    json.begin('{');
    fill(json);
    json.end('}');
    return json.text();
}

}  // namespace

// ---- requests -----------------------------------------------------------------------------------------

std::string end_of_prefix(std::string prefix) {
    while (!prefix.empty() && prefix.back() == char(0xff)) prefix.pop_back();
    if (prefix.empty()) return std::string(1, '\0');  // all keys
    prefix.back() = char(uint8_t(prefix.back()) + 1);
    return prefix;
}

std::string range_request(std::string_view prefix, uint32_t keys_max, int64_t revision) {
    return object([&](JsonText& json) {
        json.add("key", encoded(prefix));
        json.add("range_end", encoded(end_of_prefix(std::string(prefix))));
        json.add("limit", quoted(keys_max));
        if (revision != 0) json.add("revision", quoted(revision));
    });
}

std::string key_request(std::string_view key) {
    return object([&](JsonText& json) { json.add("key", encoded(key)); });
}

std::string newest_request(std::string_view prefix) {
    return object([&](JsonText& json) {
        json.add("key", encoded(prefix));
        json.add("range_end", encoded(end_of_prefix(std::string(prefix))));
        json.add("limit", "1");
        json.add("sort_order", "DESCEND");
        json.add("sort_target", "MOD");
        json.add("keys_only", true);
    });
}

std::string watch_request(std::string_view prefix, int64_t from_revision) {
    return object([&](JsonText& json) {
        json.begin("create_request", '{');
        json.add("key", encoded(prefix));
        json.add("range_end", encoded(end_of_prefix(std::string(prefix))));
        json.add("start_revision", quoted(from_revision));
        json.end('}');
    });
}

std::string grant_request(uint32_t ttl_s) {
    return object([&](JsonText& json) { json.add("TTL", quoted(ttl_s)); });
}

std::string lease_request(int64_t lease) {
    return object([&](JsonText& json) { json.add("ID", quoted(lease)); });
}

std::string put_request(std::string_view key, std::string_view value, int64_t lease, int64_t mod_revision) {
    return object([&](JsonText& json) {
        json.begin("compare", '[');
        json.begin('{');
        json.add("key", encoded(key));
        json.add("target", "MOD");
        json.add("result", "EQUAL");
        json.add("mod_revision", quoted(mod_revision));
        json.end('}');
        json.end(']');
        json.begin("success", '[');
        json.begin('{');
        json.begin("request_put", '{');
        json.add("key", encoded(key));
        json.add("value", encoded(value));
        json.add("lease", quoted(lease));
        json.end('}');
        json.end('}');
        json.end(']');
    });
}

std::string authenticate_request(std::string_view user, std::string_view password) {
    return object([&](JsonText& json) {
        json.add("name", user);
        json.add("password", password);
    });
}

// ---- replies ------------------------------------------------------------------------------------------

std::optional<EtcdRange> read_range(std::string_view text, size_t value_bytes_max) {
    const std::optional<JsonFields> fields = JsonFields::parse(text);
    if (!fields.has_value()) return {};
    const std::optional<int64_t> revision = fields->whole("header.revision");
    if (!revision.has_value() || *revision <= 0 || *revision == INT64_MAX) return {};
    EtcdRange range;
    range.revision = *revision;
    if (const std::string* const cluster = fields->text("header.cluster_id"))
        range.cluster = std::strtoull(cluster->c_str(), nullptr, 10);
    range.more = fields->boolean("more").value_or(false);
    range.count = fields->whole("count").value_or(0);
    for (size_t i = 0; i < fields->count("kvs"); i++) {
        std::optional<EtcdKey> key = read_key(*fields, "kvs." + std::to_string(i), value_bytes_max);
        if (!key.has_value()) return {};
        range.keys.push_back(std::move(*key));
    }
    return range;
}

std::optional<EtcdWatched> read_watched(std::string_view line, size_t value_bytes_max) {
    const std::optional<JsonFields> fields = JsonFields::parse(line);
    if (!fields.has_value() || !fields->has("result.header")) return {};
    EtcdWatched watched;
    watched.revision = fields->whole("result.header.revision").value_or(0);
    watched.created = fields->boolean("result.created").value_or(false);
    watched.canceled = fields->boolean("result.canceled").value_or(false);
    watched.compact_revision = fields->whole("result.compact_revision").value_or(0);
    if (const std::string* const reason = fields->text("result.cancel_reason")) watched.cancel_reason = printable(*reason);
    for (size_t i = 0; i < fields->count("result.events"); i++) {
        const std::string path = "result.events." + std::to_string(i);
        std::optional<EtcdKey> key = read_key(*fields, path + ".kv", value_bytes_max);
        if (!key.has_value()) return {};
        const std::string* const type = fields->text(path + ".type");
        watched.events.push_back({std::move(*key), type != nullptr && *type == "DELETE"});
    }
    return watched;
}

std::optional<EtcdLease> read_grant(std::string_view text) {
    const std::optional<JsonFields> fields = JsonFields::parse(text);
    if (!fields.has_value()) return {};
    const EtcdLease lease{fields->whole("ID").value_or(0), fields->whole("TTL").value_or(0)};
    if (lease.id == 0 || lease.ttl_s <= 0) return {};
    return lease;
}

std::optional<EtcdLease> read_kept(std::string_view text) {
    const std::optional<JsonFields> fields = JsonFields::parse(text);
    if (!fields.has_value() || !fields->has("result.header")) return {};
    return EtcdLease{fields->whole("result.ID").value_or(0), std::max<int64_t>(fields->whole("result.TTL").value_or(0), 0)};
}

std::optional<int64_t> read_put(std::string_view text) {
    const std::optional<JsonFields> fields = JsonFields::parse(text);
    if (!fields.has_value()) return {};
    const std::optional<int64_t> revision = fields->whole("header.revision");
    if (!revision.has_value() || *revision <= 0) return {};
    return fields->boolean("succeeded").value_or(false) ? *revision : 0;
}

std::optional<std::string> read_token(std::string_view text) {
    const std::optional<JsonFields> fields = JsonFields::parse(text);
    const std::string* const token = fields.has_value() ? fields->text("token") : nullptr;
    const auto is_wrong = [](char c) { return c <= ' ' || c > '~'; };
    if (token == nullptr || token->empty() || token->size() > 8192 || std::ranges::any_of(*token, is_wrong)) return {};
    return *token;
}

EtcdError read_error(std::string_view text) {
    EtcdError error;
    const std::optional<JsonFields> fields = JsonFields::parse(text);
    if (!fields.has_value()) {
        error.text = printable(text);
        return error;
    }
    for (const std::string_view at : {"", "error."}) {
        const std::string prefix(at);
        if (const std::optional<int64_t> code = fields->whole(prefix + (at.empty() ? "code" : "grpc_code"))) error.code = *code;
        if (const std::string* const message = fields->text(prefix + "message")) error.text = printable(*message);
    }
    if (error.text.empty())
        if (const std::string* const message = fields->text("error")) error.text = printable(*message);
    return error;
}

bool needs_token(const EtcdError& error) {
    constexpr int64_t unauthenticated = 16;
    const auto says = [&](std::string_view words) { return error.text.find(words) != error.text.npos; };
    return error.code == unauthenticated || says("invalid auth token") || says("user name is empty") ||
           says("revision of auth store is old") || says("revision in header is old");
}

}  // namespace farcached::daemon
