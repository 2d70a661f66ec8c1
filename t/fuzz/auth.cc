// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: authentication of proxies and nodes (protocol/auth.h). The first byte of the input selects what the rest is:
//   k                a key file's text
//   h, c, p, w or g  a frame: hello, challenge, proof, welcome or grant
//   a                changes to a good greeting
// Checked: a frame that was read and written again is the same. No proof in the input is accepted. A greeting with any changed
// byte proves nothing, and one without changes proves both keys.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "protocol/auth.h"
#include "protocol/handshake.h"

namespace {

using namespace farcached;
using namespace farcached::protocol;

void insist(bool good) {
    if (!good) std::abort();
}

std::string text_of(const OutBuffer& out) { return std::string(out.own()); }

constexpr FrameLimits from_proxy{Sender::proxy, false, frame_bytes_lowest, 0};
constexpr FrameLimits from_node{Sender::node, false, frame_bytes_lowest, 0};

std::optional<Frame> frame_of(std::string_view bytes, FrameKind kind) {
    const bool of_node = kind == FrameKind::challenge || kind == FrameKind::welcome;
    const FrameParse parse = parse_frame(bytes, of_node ? from_node : from_proxy);
    if (parse.status != FrameParse::Status::frame || parse.frame.kind != kind) return std::nullopt;
    insist(parse.bytes <= bytes.size());
    return parse.frame;
}

void same_body(const Frame& frame, const OutBuffer& out) { insist(out.own().substr(sizeof(FrameHeader)) == frame.body); }

// ---- a key file ---------------------------------------------------------------------------------------

// The parser has no key for a line that it does not know, and every name chooses one key.
void key_file(std::string_view text) {
    const auto parsed = AuthKeys::parse(text);
    if (const auto* problem = std::get_if<Problem>(&parsed)) {
        insist(problem->text == "it has no key" || problem->text.starts_with("line "));
        insist(problem->text.size() < 128 && printable(problem->text));
        return;
    }
    const auto& keys = std::get<0>(parsed);
    insist(keys->size() >= 1 && keys->size() <= auth_keys_max);
    const auto again = AuthKeys::parse("# a comment\r\n" + std::string(text) + "\n");
    insist(std::holds_alternative<std::shared_ptr<const AuthKeys>>(again) && std::get<0>(again)->size() == keys->size());
    for (const AuthRole role : {AuthRole::reader, AuthRole::proxy, AuthRole::operating}) {
        const auto key = keys->first(role);
        if (key == nullptr) continue;
        insist(key->role() == role && is_auth_name(key->name()));
        insist(keys->find(key->name()) == key && std::get<0>(again)->hold(*key));
    }
}

// ---- a greeting ----------------------------------------------------------------------------------------

const AuthKey& key() {
    static const AuthKey made(AuthRole::proxy, "fleet", std::string(auth_key_bytes_min, 'k'));
    return made;
}

struct Greeting {
    std::array<std::string, 4> frames;  // hello, challenge, proof, welcome

    static Greeting made() {
        Greeting made;
        Hello hello;
        hello.name = "p";
        hello.host = "h";
        hello.nonce.emplace().fill('n');
        Welcome welcome;
        welcome.name = "n0";
        welcome.incarnation = 1;
        welcome.item_bytes_max = 1;
        AuthNonce nonce;
        nonce.fill('c');
        OutBuffer of_hello, of_challenge, of_proof, of_welcome;
        append_hello(of_hello, hello);
        append_challenge(of_challenge, nonce);
        made.frames = {text_of(of_hello), text_of(of_challenge)};
        insist(append_proof(of_proof, key(), made.frames[0], made.frames[1]));
        made.frames[2] = text_of(of_proof);
        insist(append_proved_welcome(of_welcome, welcome, "grant", key(), made.frames[0], made.frames[1], made.frames[2]));
        made.frames[3] = text_of(of_welcome);
        return made;
    }
    // As a node does.
    bool proves_proxy() const {
        Proof proof;
        if (frames[2].size() < sizeof(FrameHeader) || parse_proof(frames[2], proof) != FrameError::none) return false;
        return proof.name == key().name() && same_proof(proof_of_proxy(key(), frames[0], frames[1], proof.claims), proof.proof);
    }
    // As a proxy does.
    bool proves_node() const {
        const std::optional<Frame> frame = frame_of(frames[3], FrameKind::welcome);
        return frame.has_value() && whole_frame(*frame) == frames[3] &&
               welcome_is_proved(*frame, key(), frames[0], frames[1], frames[2]);
    }
};

// A change is four bytes: what, which frame, where, and a byte.
void change(Greeting& greeting, std::string_view four) {
    const auto number = [four](size_t i) { return size_t(uint8_t(four[i])); };
    std::string& frame = greeting.frames[number(1) % 4];
    std::string& next = greeting.frames[(number(1) + 1) % 4];
    const size_t at = number(2) % (frame.size() + 1);
    switch (number(0) % 5) {
        case 0:
            if (at < frame.size()) frame[at] = char(frame[at] ^ four[3]);
            break;
        case 1: frame.insert(at, 1, four[3]); break;
        case 2: frame.erase(at, number(3)); break;
        case 3: frame.swap(next); break;
        default:  // the end of one is the beginning of the next
            next.insert(0, frame.substr(at));
            frame.resize(at);
    }
}

void changed_greeting(std::string_view changes) {
    static const Greeting good = Greeting::made();
    insist(good.proves_proxy() && good.proves_node());
    Greeting greeting = good;
    constexpr size_t changes_max = 16;
    for (size_t i = 0; i < changes_max && changes.size() >= 4; i++, changes.remove_prefix(4)) change(greeting, changes);
    const bool same = std::equal(good.frames.begin(), good.frames.begin() + 3, greeting.frames.begin());
    insist(greeting.proves_proxy() == same);
    insist(greeting.proves_node() == (same && greeting.frames[3] == good.frames[3]));
}

// ---- frames ---------------------------------------------------------------------------------------------

void hello(const Frame& frame) {
    Hello hello;
    const Versions ours = own_versions();
    if (parse_hello(frame, hello) != FrameError::none || hello.host.empty()) return;  // no common version: no host
    if (hello.speaks.protocol > ours.protocol) return;  // it may have fields of a later version
    OutBuffer out;
    append_hello(out, hello);
    same_body(frame, out);
}

void challenge(const Frame& frame) {
    AuthNonce nonce;
    if (parse_challenge(frame, nonce) != FrameError::none) return;
    OutBuffer out;
    append_challenge(out, nonce);
    same_body(frame, out);
}

void proof(const Frame& frame) {
    const std::string bytes = whole_frame(frame);
    Proof proof;
    if (parse_proof(bytes, proof) != FrameError::none) return;
    insist(proof.claims.size() + proof.proof.size() == bytes.size());
    const AuthKey named(proof.role, std::string(proof.name), std::string(auth_key_bytes_min, 's'));
    insist(!same_proof(proof_of_proxy(named, "hello", "challenge", proof.claims), proof.proof));
    OutBuffer out;
    if (!append_proof(out, named, "hello", "challenge")) return;
    insist(out.own().substr(sizeof(FrameHeader)).starts_with(proof.claims.substr(sizeof(FrameHeader))));
    insist(out.own().size() == bytes.size());
}

void welcome(const Frame& frame) {
    insist(!welcome_is_proved(frame, key(), "hello", "challenge", "proof"));
    Welcome welcome;
    std::string_view grant;
    if (parse_proved_welcome(frame, welcome, grant) != FrameError::none) return;
    OutBuffer out;
    if (!append_proved_welcome(out, welcome, grant, key(), "hello", "challenge", "proof")) return;
    const size_t facts = frame.body.size() - auth_proof_bytes;
    insist(out.own().substr(sizeof(FrameHeader), facts) == frame.body.substr(0, facts));
    insist(out.own().size() == sizeof(FrameHeader) + frame.body.size());
}

void grant(std::string_view bytes) {
    const FrameParse parse = parse_frame(bytes, {Sender::proxy, true, frame_bytes_lowest, 0});
    if (parse.status != FrameParse::Status::frame || parse.frame.kind != FrameKind::grant) return;
    insist(!parse.frame.body.empty());
    if (parse.frame.body.size() > grant_frame_bytes_max - sizeof(FrameHeader)) return;
    OutBuffer out;
    append_grant(out, parse.frame.body);
    same_body(parse.frame, out);
}

template <class Check>
void check(std::string_view bytes, FrameKind kind, const Check& check_frame) {
    if (const std::optional<Frame> frame = frame_of(bytes, kind)) check_frame(*frame);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0]) {
        case 'k': key_file(input); break;
        case 'h': check(input, FrameKind::hello, hello); break;
        case 'c': check(input, FrameKind::challenge, challenge); break;
        case 'p': check(input, FrameKind::proof, proof); break;
        case 'w': check(input, FrameKind::welcome, welcome); break;
        case 'g': grant(input); break;
        case 'a':
            if (!auth_unavailable().has_value()) changed_greeting(input);
            break;
        default: break;
    }
    return 0;
}
