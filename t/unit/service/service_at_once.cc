// SPDX-License-Identifier: BSD-3-Clause
// Which frames a node sends at once (fabric::Channel::send_at_once()), since the proxy READs no slot for them: those that no
// request of the proxy awaits.
#include "t/lib/tap.h"
#include "t/unit/service/service_fixture.h"

using namespace farcached;
using namespace farcached::protocol;

namespace {

using namespace service_fixture;

void replies() {
    ServedNode served;
    Proxy proxy(served);
    tap::ok(proxy.welcomed && proxy.channel.at_once == 0, "a welcome is a reply");
    proxy.ask(get_of("k"));
    tap::is(proxy.channel.at_once, 0u, "so is what a request awaits");
    OutBuffer out;
    append_ping(out, 7);
    proxy.give(out);
    tap::ok(proxy.pongs == 1 && proxy.channel.at_once == 0, "and a pong");
    const uint64_t at = served.cache.view().header->arena_offset;
    FrameWriter writer(out, proxy.welcome.frame_bytes_max);
    writer.begin(FrameKind::report, proxy.next_sequence++);
    CHECK(writer.add(item_access(1, at, 0, 2, 1).value()));
    writer.end();
    proxy.give(out);
    tap::ok(!proxy.kinds.empty() && proxy.kinds.back() == FrameKind::reported, "a report is answered");
    tap::is(proxy.channel.at_once, 1u, "at once: the proxy READs no slot for it");
    proxy.ask(get_of("k"));
    tap::is(proxy.channel.at_once, 1u, "the next reply is one again");
}

void goodbyes() {
    ServedNode served;
    Proxy stopped(served);
    stopped.service.stop(Goodbye::stopping);
    stopped.turns();
    tap::ok(stopped.goodbye == Goodbye::stopping && stopped.channel.at_once == 1, "a node that stops says goodbye at once");
    Proxy bad(served);
    bad.give(std::string(40, '\xff'));
    tap::ok(bad.goodbye == Goodbye::protocol_error && bad.channel.at_once == 1, "and the one after a bad frame");
    Proxy ousted(served);
    ousted.service.oust(node::ServiceEnd::over_budget);
    ousted.turns();
    tap::ok(ousted.goodbye == Goodbye::no_memory && ousted.channel.at_once == 1, "and that of a connection that is ousted");
    Proxy silent(served);
    clock_reads = at_start + 1'000'000;
    (void)silent.service.silence_is_due();
    clock_reads = at_start;
    silent.turns();
    tap::ok(silent.goodbye == Goodbye::idle && silent.channel.at_once == 1, "and that of a silent one");
}

}  // namespace

int main() {
    replies();
    goodbyes();
    return tap::done();
}
