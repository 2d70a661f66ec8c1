// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/auth.h"

#ifdef FARCACHED_OPENSSL
#include <openssl/crypto.h>
#include <openssl/evp.h>
#endif

#include <algorithm>
#include <cstring>
#include <variant>

#include "base/check.h"
#include "base/secret.h"

namespace farcached::protocol {

namespace {

constexpr std::string_view label_of_proxy = "farcached-proxy-to-node-1";
constexpr std::string_view label_of_node = "farcached-node-to-proxy-1";

// ---- OpenSSL -----------------------------------------------------------------------------------------

#ifdef FARCACHED_OPENSSL
void wipe(void* bytes, size_t size) { OPENSSL_cleanse(bytes, size); }

std::optional<AuthProof> hmac_sha256(std::string_view secret, std::string_view message) {
    const auto bytes = [](std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); };
    AuthProof proof{};
    size_t size = 0;
    const unsigned char* made =
        EVP_Q_mac(nullptr, "HMAC", nullptr, "SHA256", nullptr, secret.data(), secret.size(), bytes(message), message.size(),
                  reinterpret_cast<unsigned char*>(proof.data()), proof.size(), &size);
    if (made == nullptr || size != proof.size()) return std::nullopt;
    return proof;
}
#else
void wipe(void* bytes, size_t size) { std::memset(bytes, 0, size); }
std::optional<AuthProof> hmac_sha256(std::string_view, std::string_view) { return std::nullopt; }
#endif

// ---- the file's text -----------------------------------------------------------------------------------

// Bytes of a key, wiped at the end.
struct SecretBytes {
    std::array<char, auth_key_bytes_max + 1> bytes{};
    size_t size = 0;

    SecretBytes() = default;
    ~SecretBytes() { wipe(bytes.data(), bytes.size()); }
    SecretBytes(const SecretBytes&) = delete;
    SecretBytes& operator=(const SecretBytes&) = delete;
    std::string_view view() const { return {bytes.data(), size}; }
    bool full() const { return size == bytes.size(); }
    void add(unsigned byte) {
        if (!full()) bytes[size++] = char(byte);
    }
};

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool is_hex(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return hex_digit(c) >= 0; });
}

// Base64 of a random key has so few other characters less often than once in 10^15 keys.
bool is_almost_hex(std::string_view text) {
    const auto others = std::count_if(text.begin(), text.end(), [](char c) { return hex_digit(c) < 0; });
    return text.size() >= 2 * auth_key_bytes_min - 1 && others <= 2;
}

// Of an even number of digits.
void take_hex(std::string_view text, SecretBytes& key) {
    for (size_t i = 0; i < text.size(); i += 2) key.add(unsigned(hex_digit(text[i]) * 16 + hex_digit(text[i + 1])));
}

std::string_view next_word(std::string_view& line) {
    const size_t start = std::min(line.find_first_not_of(" \t"), line.size());
    line.remove_prefix(start);
    const std::string_view word = line.substr(0, line.find_first_of(" \t"));
    line.remove_prefix(word.size());
    return word;
}

AuthRole role_of(std::string_view word) {
    for (size_t i = size_t(AuthRole::reader); i < size_t(AuthRole::count); i++)
        if (word == auth_role_texts[i].name) return AuthRole(i);
    return AuthRole::none;
}

// The key of a line, or what is wrong with it.
std::variant<std::shared_ptr<const AuthKey>, const char*> key_of_line(std::string_view line) {
    const AuthRole role = role_of(next_word(line));
    if (role == AuthRole::none) return "the first word must be reader, proxy or operator, followed by a name and a key";
    const std::string_view name = next_word(line);
    if (!is_auth_name(name)) return "the second word must be a name of 1 to 64 printable characters without #";
    const std::string_view text = next_word(line);
    SecretBytes key;
    if (text.empty()) return "the key is missing: the third word must be 32 to 64 bytes in hexadecimal or base64";
    if (is_hex(text)) {
        if (text.size() % 2 != 0) return "the key has an odd number of hexadecimal digits";
        take_hex(text, key);
    } else if (is_almost_hex(text)) {
        return "the key is hexadecimal but for one or two characters";
    } else if (!decode_base64(text, [&key](unsigned char byte) { key.add(byte); })) {
        return "the key is neither hexadecimal nor base64";
    }
    if (key.size < auth_key_bytes_min) return "the key is shorter than 32 bytes";
    if (key.size > auth_key_bytes_max) return "the key is longer than 64 bytes";
    if (!next_word(line).empty()) return "there is more than role, name and key";
    return std::make_shared<const AuthKey>(role, std::string(name), key.view());
}

}  // namespace

std::optional<std::string> auth_unavailable() {
#ifdef FARCACHED_OPENSSL
    // The first use loads OpenSSL's provider: not later, when system calls may be limited.
    if (hmac_sha256(std::string(auth_key_bytes_min, '\0'), "test").has_value()) return std::nullopt;
    return "OpenSSL has no HMAC-SHA-256";
#else
    return "this program was built without OpenSSL (configure --with-openssl)";
#endif
}

bool is_auth_name(std::string_view name) {
    if (name.empty() || name.size() > auth_name_bytes_max) return false;
    return std::all_of(name.begin(), name.end(), [](char c) { return c > 0x20 && c < 0x7f && c != '#'; });
}

// ---- keys ---------------------------------------------------------------------------------------------

AuthKey::AuthKey(AuthRole role, std::string name, std::string_view secret)
    : role_(role), name_(std::move(name)), size_(secret.size()) {
    CHECK(size_ >= auth_key_bytes_min);
    CHECK(size_ <= auth_key_bytes_max);
    std::memcpy(secret_.data(), secret.data(), size_);
}

AuthKey::~AuthKey() { wipe(secret_.data(), secret_.size()); }

std::string AuthKey::describe() const { return std::string(auth_role_name(role_)) + " key " + name_; }

bool AuthKey::same(const AuthKey& other) const {
    return role_ == other.role_ && name_ == other.name_ && has_bytes_of(other);
}

bool AuthKey::has_bytes_of(const AuthKey& other) const {
    return same_secret({secret_.data(), size_}, {other.secret_.data(), other.size_});
}

std::optional<AuthProof> AuthKey::sign(std::string_view label, std::initializer_list<std::string_view> parts) const {
    std::string message;
    const auto add = [&message](std::string_view part) {
        const uint64_t size = part.size();
        message.append(reinterpret_cast<const char*>(&size), sizeof size);
        message.append(part);
    };
    add(label);
    for (const std::string_view part : parts) add(part);
    return hmac_sha256({secret_.data(), size_}, message);
}

AuthKeys::Parsed AuthKeys::parse(std::string_view text) {
    const auto keys = std::make_shared<AuthKeys>();
    for (size_t number = 1; !text.empty(); number++) {
        const size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        const auto wrong = [number](const char* why) { return system_problem("line " + std::to_string(number) + ": " + why); };
        if (line.ends_with('\r')) line.remove_suffix(1);
        line = line.substr(0, line.find('#'));
        if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
        auto made = key_of_line(line);
        if (const auto* why = std::get_if<const char*>(&made)) return wrong(*why);
        auto& key = std::get<0>(made);
        if (keys->find(key->name()) != nullptr) return wrong("another key has the same name");
        if (keys->has_bytes_of(*key)) return wrong("another name has the same key");
        if (keys->size() == auth_keys_max) return wrong("there are more than 1024 keys");
        keys->keys_.push_back(std::move(key));
    }
    if (keys->keys_.empty()) return system_problem("it has no key");
    return std::shared_ptr<const AuthKeys>(keys);
}

bool AuthKeys::has_bytes_of(const AuthKey& key) const {
    return std::any_of(keys_.begin(), keys_.end(), [&](const auto& one) { return one->has_bytes_of(key); });
}

std::shared_ptr<const AuthKey> AuthKeys::find(std::string_view name) const {
    const auto at = std::find_if(keys_.begin(), keys_.end(), [&](const auto& key) { return key->name() == name; });
    return at == keys_.end() ? nullptr : *at;
}

std::shared_ptr<const AuthKey> AuthKeys::first(AuthRole role) const {
    const auto at = std::find_if(keys_.begin(), keys_.end(), [&](const auto& key) { return key->role() == role; });
    return at == keys_.end() ? nullptr : *at;
}

std::shared_ptr<const AuthKey> AuthKeys::of_proxy() const {
    std::shared_ptr<const AuthKey> key = first(AuthRole::proxy);
    return key != nullptr ? key : first(AuthRole::reader);
}

bool AuthKeys::hold(const AuthKey& key) const {
    const std::shared_ptr<const AuthKey> found = find(key.name());
    return found != nullptr && found->same(key);
}

// ---- proofs -------------------------------------------------------------------------------------------

std::optional<AuthProof> proof_of_proxy(const AuthKey& key, std::string_view hello, std::string_view challenge,
                                        std::string_view claims) {
    return key.sign(label_of_proxy, {hello, challenge, claims});
}

std::optional<AuthProof> proof_of_node(const AuthKey& key, std::string_view hello, std::string_view challenge,
                                       std::string_view proof, std::string_view welcome) {
    return key.sign(label_of_node, {hello, challenge, proof, welcome});
}

bool same_proof(const std::optional<AuthProof>& computed, const AuthProof& claimed) {
    return computed.has_value() && same_secret({computed->data(), computed->size()}, {claimed.data(), claimed.size()});
}

}  // namespace farcached::protocol
