// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/authentication.h"

#include <optional>
#include <utility>
#include <variant>

#include "base/broken.h"
#include "base/check.h"
#include "base/random_word.h"

namespace farcached::node {

using protocol::AuthKey;
using protocol::AuthRole;
using protocol::FrameError;

namespace {

std::string shown_key(const AuthKey& key) { return std::string(protocol::auth_role_name(key.role())) + ":" + key.name(); }

bool is_plain(const protocol::GetOp& op) {
    return !op.touch.has_value() && !op.vivify.has_value() && !op.recache_before.has_value();
}

}  // namespace

// ---- keys ---------------------------------------------------------------------------------------------

void KeyRing::use(std::shared_ptr<const protocol::AuthKeys> keys) {
    CHECK(keys != nullptr);
    std::lock_guard hold(lock_);
    keys_ = std::move(keys);
    demanded_.store(true, std::memory_order_relaxed);
}

std::shared_ptr<const protocol::AuthKeys> KeyRing::keys() const {
    std::lock_guard hold(lock_);
    return keys_;
}

KeyRing::InUse::iterator KeyRing::entered(const AuthKey& key) {
    std::string name = shown_key(key);
    std::lock_guard hold(lock_);
    const auto at = in_use_.try_emplace(std::move(name)).first;
    at->second++;
    return at;
}

void KeyRing::left(InUse::iterator key) noexcept {
    std::lock_guard hold(lock_);
    if (--key->second == 0) in_use_.erase(key);
}

bool allows(AuthRole role, const protocol::RequestOp& op) {
    switch (role) {
        case AuthRole::proxy: return true;
        case AuthRole::reader: {
            const auto* get = std::get_if<protocol::GetOp>(&op);
            return get != nullptr && is_plain(*get);
        }
        case AuthRole::operating:
            return std::holds_alternative<protocol::StatsOp>(op) || std::holds_alternative<protocol::FlushOp>(op);
        case AuthRole::none:
        case AuthRole::count: break;
    }
    return false;
}

// ---- a connection ---------------------------------------------------------------------------------------

Authentication::~Authentication() {
    if (entered_.has_value()) ring_.left(*entered_);
}

void Authentication::challenge(const protocol::Frame& hello, OutBuffer& out) {
    OutBuffer frame;
    protocol::AuthNonce nonce;
    fill_random(nonce.data(), nonce.size());
    protocol::append_challenge(frame, nonce);
    hello_ = protocol::whole_frame(hello);
    challenge_ = frame.own();
    out.append(frame.own());
}

Authentication::Outcome Authentication::take(const protocol::Frame& proof, FrameError& error) {
    proof_ = protocol::whole_frame(proof);
    protocol::Proof claimed;
    error = protocol::parse_proof(proof_, claimed);
    if (error != FrameError::none) return Outcome::bad;
    const auto keys = ring_.keys();
    const std::shared_ptr<const AuthKey> found = keys->find(claimed.name);
    std::array<char, protocol::auth_key_bytes_min> random;
    fill_random(random.data(), random.size());
    const AuthKey unknown(AuthRole::proxy, std::string(claimed.name), {random.data(), random.size()});
    const AuthKey& key = found != nullptr ? *found : unknown;
    const auto right = protocol::proof_of_proxy(key, hello_, challenge_, claimed.claims);
    const bool holds = protocol::same_proof(right, claimed.proof) || broken::s16_accept_any_proof;
    if (found == nullptr) return Outcome::key_unknown;
    if (!holds) return Outcome::proof_wrong;
    if (found->role() != claimed.role) return Outcome::role_wrong;
    key_ = found;
    return Outcome::proved;
}

bool Authentication::welcome(OutBuffer& out, const protocol::Welcome& welcome, std::string_view grant) {
    CHECK(key_ != nullptr);
    const bool made = protocol::append_proved_welcome(out, welcome, grant, *key_, hello_, challenge_, proof_);
    for (std::string* frame : {&hello_, &challenge_, &proof_}) std::string().swap(*frame);
    if (!made) return false;
    entered_ = ring_.entered(*key_);
    return true;
}

bool Authentication::is_revoked() const { return key_ != nullptr && !ring_.keys()->hold(*key_); }

}  // namespace farcached::node
