// SPDX-License-Identifier: BSD-3-Clause
// A node with keys (S16): what a proxy may do by its role, and that nothing is told before its proof.
#include <memory>
#include <string>
#include <string_view>

#include "t/lib/tap.h"
#include "t/unit/node/service_fixture.h"

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

}  // namespace

int main() {
    if (auth_unavailable().has_value()) {
        tap::skip(1, *auth_unavailable());
        return tap::done();
    }
    roles();
    failures();
    return tap::done();
}
