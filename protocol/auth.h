// SPDX-License-Identifier: BSD-3-Clause
// Authentication of proxies and nodes to each other (S16): keys, their file's text, and proofs over a greeting. Pure, but for
// OpenSSL's HMAC. protocol/handshake.h has the frames.
//
//   proxy -> node   hello      with a nonce
//   node  -> proxy  challenge  with a nonce
//   proxy -> node   proof      role and name of its key; HMAC over hello, challenge, role and name
//   node  -> proxy  welcome    with the node's grant; HMAC over hello, challenge, proof and welcome
//   proxy -> node   grant      if the proxy has memory to grant
//
// It authenticates and does not encrypt: frames after the greeting have no proof.
//
// Owner: an AuthKeys owns its keys; connections share them. All are constant: any thread.
// Y1  A proof covers whole frames, which hold both nonces. Each direction has its own label, so that no proof is an answer to
//     itself. Every part has its length in front, so that no two transcripts have the same bytes.
// Y2  Bytes of keys and proofs are compared in constant time, and are never logged. A destroyed key is wiped.
// Y3  Names are unique, so a name chooses one key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_text.h"
#include "base/result.h"

namespace farcached::protocol {

constexpr size_t auth_nonce_bytes = 32;
constexpr size_t auth_proof_bytes = 32;
constexpr size_t auth_key_bytes_min = 32, auth_key_bytes_max = 64;
constexpr size_t auth_name_bytes_max = 64;
constexpr size_t auth_keys_max = 1024;  // in a file

using AuthNonce = std::array<char, auth_nonce_bytes>;  // random, never used twice
using AuthProof = std::array<char, auth_proof_bytes>;

// The numbers are part of the protocol.
//
//        name         word        help
#define AUTH_ROLES(X)                                                                  \
    X(none, "none", "no key")                                                          \
    X(reader, "reader", "may GET, also one-sided")                                     \
    X(proxy, "proxy", "may do all that a farcached does")                              \
    X(operating, "operator", "administration and statistics only: sees no item")

enum class AuthRole : uint32_t {
#define X(name, word, help) name,
    AUTH_ROLES(X)
#undef X
        count
};
inline constexpr EnumText auth_role_texts[] = {
#define X(name, word, help) {word, help},
    AUTH_ROLES(X)
#undef X
};
constexpr std::string_view auth_role_name(AuthRole role) { return text_of(auth_role_texts, role).name; }

// A sentence if this program was built without OpenSSL: it cannot authenticate.
std::optional<std::string> auth_unavailable();

class AuthKey {
  public:
    // secret: auth_key_bytes_min to auth_key_bytes_max bytes.
    AuthKey(AuthRole role, std::string name, std::string_view secret);
    ~AuthKey();
    AuthKey(const AuthKey&) = delete;
    AuthKey& operator=(const AuthKey&) = delete;

    AuthRole role() const { return role_; }
    const std::string& name() const { return name_; }
    // "proxy key fleet-1", for messages
    std::string describe() const;
    bool same(const AuthKey& other) const;
    bool has_bytes_of(const AuthKey& other) const;  // whatever its name and role
    // Nothing if OpenSSL fails.
    std::optional<AuthProof> sign(std::string_view label, std::initializer_list<std::string_view> parts) const;

  private:
    const AuthRole role_;
    const std::string name_;
    std::array<char, auth_key_bytes_max> secret_{};
    const size_t size_;
};

class AuthKeys {
  public:
    using Parsed = Result<std::shared_ptr<const AuthKeys>>;
    // The text of a key file: lines of role, name and key, or a comment that begins with #. The key is in hexadecimal, or else
    // in base64. A problem is the end of a sentence, "line 3: ...", and shows no part of a key.
    static Parsed parse(std::string_view text);

    bool has_bytes_of(const AuthKey& key) const;  // has one of them?
    // nullptr: none.
    std::shared_ptr<const AuthKey> find(std::string_view name) const;
    // The first of that role in the file; nullptr: none.
    std::shared_ptr<const AuthKey> first(AuthRole role) const;
    // The key of a proxy: the first of role proxy, else the first reader; nullptr: none.
    std::shared_ptr<const AuthKey> of_proxy() const;
    // Is the same key, with the same name and role, in this list?
    bool hold(const AuthKey& key) const;
    size_t size() const { return keys_.size(); }

  private:
    std::vector<std::shared_ptr<const AuthKey>> keys_;
};

// 1 to auth_name_bytes_max printable bytes without blanks and without #.
bool is_auth_name(std::string_view name);

// ---- proofs: arguments are whole frames, header and body --------------------------------------------------

// claims: the proof frame without its HMAC.
std::optional<AuthProof> proof_of_proxy(const AuthKey& key, std::string_view hello, std::string_view challenge,
                                        std::string_view claims);
// welcome: without its HMAC.
std::optional<AuthProof> proof_of_node(const AuthKey& key, std::string_view hello, std::string_view challenge,
                                       std::string_view proof, std::string_view welcome);
// In constant time. False without a proof.
bool same_proof(const std::optional<AuthProof>& computed, const AuthProof& claimed);

}  // namespace farcached::protocol
