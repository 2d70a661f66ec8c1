// SPDX-License-Identifier: BSD-3-Clause
// Keys and proofs (S16): every line of a key file that is wrong is refused with its number, and a greeting in which any byte of
// any frame was changed, replayed or reflected proves nothing.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "protocol/auth.h"
#include "protocol/handshake.h"
#include "t/lib/tap.h"

namespace {

using namespace farcached;
using namespace farcached::protocol;

const std::string hex_a(64, 'a'), hex_b(128, 'b'), hex_c(64, 'c'), hex_d(64, 'd');
const std::string base64_32 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

std::string outcome(std::string_view text) {
    const auto parsed = AuthKeys::parse(text);
    if (const auto* why = std::get_if<Problem>(&parsed)) return why->text;
    return std::to_string(std::get<0>(parsed)->size());
}

std::shared_ptr<const AuthKeys> keys(std::string_view text) { return std::get<0>(AuthKeys::parse(text)); }

void files() {
    tap::is(outcome("proxy a " + hex_a), "1", "a line is a key");
    tap::is(outcome("# two\n\nproxy a " + hex_a + "\r\n\t reader  b\t" + hex_b + "  # of readers\noperator c " + base64_32 + "\n"),
            "3", "comments, blanks, hexadecimal and base64");
    tap::is(outcome(""), "it has no key", "no line");
    tap::is(outcome("# a\n \n"), "it has no key", "no key");
    tap::is(outcome("\nwriter a " + hex_a),
            "line 2: the first word must be reader, proxy or operator, followed by a name and a key",
            "an unknown role");
    tap::is(outcome("none a " + hex_a), "line 1: the first word must be reader, proxy or operator, followed by a name and a key",
            "none is no role");
    tap::is(outcome("proxy"), "line 1: the second word must be a name of 1 to 64 printable characters without #", "no name");
    tap::is(outcome("proxy " + std::string(65, 'n') + " " + hex_a),
            "line 1: the second word must be a name of 1 to 64 printable characters without #", "a long name");
    tap::is(outcome("proxy " + std::string(64, 'n') + " " + hex_a), "1", "the longest");
    tap::is(outcome("proxy \xc3\xa4 " + hex_a), "line 1: the second word must be a name of 1 to 64 printable characters without #",
            "a name that is not printable");
    tap::is(outcome("proxy a"), "line 1: the key is missing: the third word must be 32 to 64 bytes in hexadecimal or base64",
            "no key");
    tap::is(outcome("proxy a " + std::string(62, 'a')), "line 1: the key is shorter than 32 bytes", "31 bytes");
    tap::is(outcome("proxy a " + std::string(130, 'a')), "line 1: the key is longer than 64 bytes", "65 bytes");
    tap::is(outcome("proxy a " + std::string(3000, 'z')), "line 1: the key is longer than 64 bytes", "far more");
    tap::is(outcome("proxy a " + std::string(41, 'z')), "line 1: the key is neither hexadecimal nor base64", "half a byte");
    tap::is(outcome("proxy a " + std::string(63, 'a') + "!"), "line 1: the key is hexadecimal but for one or two characters",
            "another letter");
    tap::is(outcome("proxy a zz" + std::string(62, 'a')), "line 1: the key is hexadecimal but for one or two characters",
            "which base64 has");
    tap::is(outcome("proxy a zzz" + std::string(61, 'a')), "1", "more of them: base64");
    tap::is(outcome("proxy a " + hex_a + " b"), "line 1: there is more than role, name and key", "a fourth word");
    tap::is(outcome("proxy a " + hex_a + "\nreader a " + hex_b), "line 2: another key has the same name", "a name twice");
    tap::is(outcome("proxy a " + hex_a + "\nreader b " + hex_a), "line 2: another name has the same key", "a key twice");
    tap::is(outcome("proxy a " + std::string(63, 'a')), "line 1: the key has an odd number of hexadecimal digits", "a lost digit");
    std::string many;
    for (size_t i = 0; i <= auth_keys_max; i++)
        many += "proxy k" + std::to_string(i) + " " + std::to_string(100'000 + i) + hex_a.substr(6) + "\n";
    tap::is(outcome(many), "line 1025: there are more than 1024 keys", "too many");

    const auto list = keys("operator o " + hex_c + "\nreader r " + hex_d + "\nproxy p1 " + hex_a + "\nproxy p2 " + hex_b);
    tap::is(list->of_proxy()->name(), "p1", "a proxy uses its first key of role proxy");
    tap::is(keys("operator o " + hex_a + "\nreader r " + hex_b)->of_proxy()->name(), "r", "else a reader's");
    tap::ok(keys("operator o " + hex_a)->of_proxy() == nullptr, "never an operator's");
    tap::ok(list->find("p3") == nullptr && list->find("p2")->role() == AuthRole::proxy, "a name finds its key");
    tap::is(list->find("o")->describe(), "operator key o", "which names itself");
    tap::ok(list->hold(*keys("proxy p1 " + hex_a)->find("p1")), "a list holds an equal key");
    tap::ok(!list->hold(*keys("proxy p1 " + hex_b)->find("p1")) && !list->hold(*keys("reader p1 " + hex_a)->find("p1")) &&
                !list->hold(*keys("proxy p3 " + hex_a)->find("p3")),
            "none with another secret, role or name");
}

// One greeting, frame by frame.
struct Exchange {
    std::string hello, challenge, proof, welcome;
};

Hello hello_of(char nonce) {
    Hello hello;
    hello.name = "p";
    hello.host = "h";
    hello.nonce.emplace().fill(nonce);
    return hello;
}

Welcome some_welcome() {
    Welcome welcome;
    welcome.name = "n";
    welcome.incarnation = 7;
    welcome.hash_seed = 8;
    welcome.item_bytes_max = 1 << 20;
    welcome.regions = {{0, 65536, RegionAccess::mapped}};
    return welcome;
}

Exchange exchange(const AuthKey& key, char of_proxy, char of_node) {
    Exchange made;
    OutBuffer out;
    const auto take = [&out] {
        std::string bytes(out.own());
        out.truncate(0);
        return bytes;
    };
    append_hello(out, hello_of(of_proxy));
    made.hello = take();
    AuthNonce nonce;
    nonce.fill(of_node);
    append_challenge(out, nonce);
    made.challenge = take();
    tap::ok(append_proof(out, key, made.hello, made.challenge), "a proof is made");
    made.proof = take();
    tap::ok(append_proved_welcome(out, some_welcome(), "grant", key, made.hello, made.challenge, made.proof), "and a welcome");
    made.welcome = take();
    return made;
}

Frame frame_of(const std::string& bytes, Sender sender) {
    const FrameParse parse = parse_frame(bytes, {sender, false, frame_bytes_lowest, 0});
    return parse.status == FrameParse::Status::frame && parse.bytes == bytes.size() ? parse.frame : Frame{};
}

// Does the node accept it, with all checks?
bool node_accepts(const AuthKey& key, const Exchange& of) {
    const Frame frame = frame_of(of.proof, Sender::proxy);
    if (frame.kind != FrameKind::proof) return false;
    const std::string whole = whole_frame(frame);
    Proof proof;
    if (parse_proof(whole, proof) != FrameError::none) return false;
    if (proof.name != key.name() || proof.role != key.role()) return false;
    return same_proof(proof_of_proxy(key, of.hello, of.challenge, proof.claims), proof.proof);
}

bool proxy_accepts(const AuthKey& key, const Exchange& of) {
    const Frame frame = frame_of(of.welcome, Sender::node);
    return frame.kind == FrameKind::welcome && welcome_is_proved(frame, key, of.hello, of.challenge, of.proof);
}

void every_byte_counts() {
    const auto list = keys("proxy a " + hex_a + "\nproxy b " + hex_b + "\nreader c " + hex_c);
    const AuthKey& key = *list->find("a");
    const Exchange right = exchange(key, 1, 2);
    tap::ok(node_accepts(key, right), "the node accepts the proof");
    tap::ok(proxy_accepts(key, right), "the proxy accepts the welcome");
    Welcome welcome;
    std::string_view grant;
    const Frame frame = frame_of(right.welcome, Sender::node);
    tap::ok(parse_proved_welcome(frame, welcome, grant) == FrameError::none && grant == "grant" && welcome.hash_seed == 8,
            "which has the facts and the grant");
    tap::ok(parse_welcome(frame, welcome) == FrameError::body_excess, "and is no welcome without a proof");

    size_t node_taken = 0, proxy_taken = 0;
    for (std::string Exchange::* part : {&Exchange::hello, &Exchange::challenge, &Exchange::proof, &Exchange::welcome})
        for (size_t i = 0; i < (right.*part).size(); i++)
            for (const char change : {1, 64}) {
                Exchange wrong = right;
                (wrong.*part)[i] = char((wrong.*part)[i] ^ change);
                if (part != &Exchange::welcome && node_accepts(key, wrong)) node_taken++;
                if (proxy_accepts(key, wrong)) proxy_taken++;
            }
    tap::is(node_taken, size_t(0), "a changed byte of hello, challenge or proof makes the proof wrong");
    tap::is(proxy_taken, size_t(0), "and of these or the welcome the node's");

    tap::ok(!node_accepts(*list->find("b"), right) && !proxy_accepts(*list->find("b"), right), "another key accepts neither");
    const AuthKey renamed(AuthRole::proxy, "z", std::string(32, '\xaa')), other_role(AuthRole::reader, "a", std::string(32,
            '\xaa'));
    tap::ok(!node_accepts(renamed, right) && !node_accepts(other_role, right), "nor the same secret by another name or role");
}

void replays_and_reflections() {
    const AuthKey key(AuthRole::proxy, "a", std::string(32, 'x'));
    const Exchange first = exchange(key, 1, 2), second = exchange(key, 3, 4);
    Exchange replay = second;
    replay.proof = first.proof;
    tap::ok(!node_accepts(key, replay), "a proof of another connection is refused");
    replay.hello = first.hello;
    tap::ok(!node_accepts(key, replay), "also with its hello: the challenge is new");
    Exchange fake = second;
    fake.welcome = first.welcome;
    tap::ok(!proxy_accepts(key, fake), "so is a welcome of another connection");
    fake.challenge = first.challenge;
    fake.proof = first.proof;
    tap::ok(!proxy_accepts(key, fake), "also with its challenge: the hello is new");

    // The node's nonce is the proxy's: what one end signs is of no use to the other.
    const auto of_proxy = proof_of_proxy(key, "a", "b", "c"), of_node = proof_of_node(key, "a", "b", "c", "");
    tap::ok(of_proxy.has_value() && of_node.has_value() && *of_proxy != *of_node, "the directions have labels");
    tap::ok(*key.sign("l", {"ab", "c"}) != *key.sign("l", {"a", "bc"}), "parts have lengths");
    tap::ok(!same_proof(std::nullopt, AuthProof{}), "no proof equals none");
}

void frames_cut_short() {
    const AuthKey key(AuthRole::proxy, "name", std::string(64, 'x'));
    const Exchange right = exchange(key, 1, 2);
    size_t taken = 0;
    for (size_t size = sizeof(FrameHeader); size < right.proof.size(); size++) {
        Proof proof;
        if (parse_proof(std::string_view(right.proof).substr(0, size), proof) == FrameError::none) taken++;
    }
    tap::is(taken, size_t(0), "no part of a proof is a proof");
    Proof proof;
    tap::ok(parse_proof(right.proof + "x", proof) == FrameError::body_excess, "nor is more than one");
    Hello hello;
    const Frame greeting = frame_of(right.hello, Sender::proxy);
    tap::ok(parse_hello(greeting, hello) == FrameError::none && hello.nonce.has_value(), "a hello has its nonce");
    size_t partial = 0;
    for (size_t left = 1; left < sizeof(HelloNonce); left++) {
        Frame cut = greeting;
        cut.body.remove_suffix(left);
        if (parse_hello(cut, hello) == FrameError::none) partial++;
    }
    tap::is(partial, size_t(0), "no part of one");
    Hello older = hello_of(1);
    older.speaks.protocol = version_with_auth - 1;
    OutBuffer out;
    append_hello(out, older);
    const std::string bytes(out.own());
    tap::ok(parse_hello(frame_of(bytes, Sender::proxy), hello) == FrameError::body_excess, "a hello of an older version has none");
}

}  // namespace

int main() {
    files();
    if (auth_unavailable().has_value()) {
        tap::skip(1, *auth_unavailable());
        return tap::done();
    }
    every_byte_counts();
    replays_and_reflections();
    frames_cut_short();
    return tap::done();
}
