// SPDX-License-Identifier: BSD-3-Clause
// A node with keys (S16): what a proxy may do by its role, and that before its proof it gets a nonce alone. Ends that
// hold another key or none, against a node and against a proxy: the faulty build runs these alone.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/broken.h"
#include "proxy/link_parts.h"
#include "t/lib/tap.h"
#include "t/unit/service/service_fixture.h"

namespace {

using namespace service_fixture;

const std::string file_text = "proxy p " + std::string(64, 'a') + "\nreader r " + std::string(64, 'b') + "\noperator o " +
                              std::string(64, 'c') + "\n";
std::shared_ptr<const AuthKeys> keys_of(std::string_view text) { return std::get<0>(AuthKeys::parse(text)); }

// A proxy's greeting by hand: its fixture knows no keys.
struct Greeter {
    explicit Greeter(ServedNode& served) : service(served.shared, served.counters), channel(service) {
        service.attach(channel, RegionAccess::mapped);
    }
    std::string say(std::string_view bytes) {
        channel.feed(bytes);
        do service.turn();
        while (service.turn_wanted());
        return channel.take_sent();
    }
    std::string greet() {
        Hello hello;
        hello.name = "p";
        hello.host = "h";
        hello.nonce.emplace().fill('n');
        OutBuffer out;
        append_hello(out, hello);
        hello_frame = out.own();
        return challenge_frame = say(hello_frame);
    }
    std::string prove(const AuthKey& key) {
        OutBuffer out;
        tap::ok(append_proof(out, key, hello_frame, challenge_frame), "a proof is made");
        proof_frame = out.own();
        return say(proof_frame);
    }
    node::NodeService service;
    MemoryChannel channel;
    std::string hello_frame, challenge_frame, proof_frame;
};

Frame parsed(const std::string& bytes) {
    const FrameParse parse = parse_frame(bytes, {Sender::node, false, frame_bytes_lowest, 0});
    return parse.status == FrameParse::Status::frame ? parse.frame : Frame{};
}

void roles() {
    for (const char* name : {"p", "r", "o"}) {
        ServedNode served;
        served.shared.keys.use(keys_of(file_text));
        const auto key = served.shared.keys.keys()->find(name);
        Greeter proxy(served);
        const std::string challenge = proxy.greet();
        tap::ok(parsed(challenge).kind == FrameKind::challenge && challenge.size() == 56, "a hello gets a nonce alone");
        tap::is(served.shared.seats.seated(), 0u, "and no seat");
        const std::string bytes = proxy.prove(*key);
        const Frame frame = parsed(bytes);
        tap::ok(frame.kind == FrameKind::welcome, "a proof gets the welcome");
        if (frame.kind != FrameKind::welcome) continue;
        tap::ok(welcome_is_proved(frame, *key, proxy.hello_frame, proxy.challenge_frame, proxy.proof_frame), "with a proof");
        Welcome welcome;
        std::string_view grant;
        tap::ok(parse_proved_welcome(frame, welcome, grant) == FrameError::none, "and facts");
        const bool sees = key->role() != AuthRole::operating;
        tap::is(welcome.hash_seed != 0 && !welcome.regions.empty() && welcome.check_secret != 0, sees,
                std::string("memory and secrets for ") + name);
        tap::is(served.shared.seats.seated(), 1u, "it has a seat");
        served.shared.keys.use(keys_of("proxy other " + std::string(64, 'd')));
        proxy.service.check_key();
        tap::ok(proxy.service.close_wanted() && proxy.service.end() == node::ServiceEnd::authentication, "a removed key ends it");
    }
}

// The requests that each role allows.
void requests() {
    protocol::GetOp touch;
    touch.touch = 1;
    const protocol::RequestOp all[] = {protocol::GetOp(), touch, protocol::StoreOp(), protocol::DeleteOp(), protocol::ArithOp(),
                                       protocol::StatsOp(), protocol::FlushOp(), protocol::HoldOp(), protocol::CopiesOp()};
    const auto allowed = [&](AuthRole role) {
        std::string letters;
        for (const protocol::RequestOp& op : all) letters += node::allows(role, op) ? 'y' : '-';
        return letters;
    };
    tap::is(allowed(AuthRole::proxy), "yyyyyyyyy", "a proxy may ask for everything");
    tap::is(allowed(AuthRole::reader), "y--------", "a reader may get");
    tap::is(allowed(AuthRole::operating), "-----yy--", "an operator may ask for statistics and flush");
    tap::is(allowed(AuthRole::none), "---------", "nobody else may ask");
}

void failures() {
    ServedNode served;
    served.shared.keys.use(keys_of(file_text));
    const auto other = keys_of("proxy p " + std::string(64, 'd') + "\nproxy x " + std::string(64, 'a'));
    std::string wrong, unknown;
    {
        Greeter proxy(served);
        proxy.greet();
        wrong = proxy.prove(*other->find("p"));
        tap::ok(proxy.service.close_wanted(), "a wrong key ends the connection");
    }
    Greeter proxy(served);
    proxy.greet();
    unknown = proxy.prove(*other->find("x"));
    tap::ok(!wrong.empty() && wrong == unknown, "in the words of an unknown one");
    Greeter late(served);
    late.greet();
    late.service.greeting_is_due();
    tap::ok(late.service.end() == node::ServiceEnd::no_greeting, "the greeting timeout ends one without a proof");
    Greeter twice(served);
    twice.greet();
    tap::is(twice.say(twice.hello_frame), "", "a second hello ends it without a word");
    Proxy plain(served);
    tap::ok(plain.refused.has_value() && plain.refused->reason == protocol::Refusal::authentication,
            "so is one without a key refused");
    ServedNode open;
    Greeter demanding(open);
    const std::string refused = demanding.greet();
    tap::ok(parsed(refused).kind == FrameKind::refuse, "a node without keys refuses a proxy with one");
}

// ---- ends without the key --------------------------------------------------------------------------------

int violations = 0;

void is_no_welcome(const std::string& bytes) { violations += parsed(bytes).kind == FrameKind::welcome ? 1 : 0; }

void strangers_at_a_node() {
    ServedNode served;
    served.shared.keys.use(keys_of(file_text));
    const auto others = keys_of("proxy p " + std::string(64, 'd'));
    Greeter wrong(served);
    wrong.greet();
    is_no_welcome(wrong.prove(*others->find("p")));
    Greeter without(served);
    Hello hello;
    hello.name = "p";
    hello.host = "h";
    OutBuffer out;
    append_hello(out, hello);
    is_no_welcome(without.say(out.own()));
}

// The node proves a key that is not the proxy's.
void stranger_at_a_proxy() {
    ServedNode served;
    Greeter node(served);  // lends its channel
    Hello hello;
    hello.name = "p";
    hello.host = "h";
    proxy::NodeClockEstimate clock(0);
    proxy::Greeting greeting(hello, clock, keys_of(file_text)->find("p"));
    OutBuffer said, challenge, welcome;
    greeting.send(said, 1);
    AuthNonce nonce;
    nonce.fill('c');
    append_challenge(challenge, nonce);
    std::optional<proxy::Down> down;
    const std::string challenge_bytes(challenge.own());
    greeting.take(parsed(challenge_bytes), node.channel, 2, down);
    tap::ok(!down.has_value(), "a proxy answers a challenge");
    node.channel.flush();
    const std::string proof = node.channel.take_sent();
    Welcome facts;
    facts.name = "n0";
    facts.incarnation = 1;
    facts.item_bytes_max = 1;
    const AuthKey other(AuthRole::proxy, "p", std::string(auth_key_bytes_min, 'd'));
    tap::ok(append_proved_welcome(welcome, facts, "", other, said.own(), challenge_bytes, proof), "a proof is made");
    const std::string welcome_bytes(welcome.own());
    greeting.take(parsed(welcome_bytes), node.channel, 3, down);
    violations += greeting.welcome().incarnation == facts.incarnation ? 1 : 0;
}

}  // namespace

int main() {
    if (auth_unavailable().has_value()) {
        tap::skip(1, *auth_unavailable());
        return tap::done();
    }
    strangers_at_a_node();
    stranger_at_a_proxy();
    if (broken::must_catch()) {
        tap::ok(violations > 0, "the rule that was broken on purpose is caught");
    } else {
        tap::is(violations, 0, "an end without the key gets nothing");
        roles();
        requests();
        failures();
    }
    return tap::done();
}
