// SPDX-License-Identifier: BSD-3-Clause
// When a node reads its clock for a request, and when flushes and deletes by prefix take effect, at once or at a moment.
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "node/store/hidden_items.h"
#include "t/lib/tap.h"
#include "t/unit/service/service_fixture.h"

using namespace service_fixture;

namespace {

void clock_after_receipt() {
    ServedNode served;
    Proxy proxy(served);
    clock_reads = 2000;
    OutBuffer out;
    const uint64_t get = proxy.put(out, get_of("k"), {});
    proxy.give(std::string_view(out.data(), out.size() - 1));
    clock_reads = 2100;
    proxy.give(std::string_view(out.data() + out.size() - 1, 1));
    tap::is(proxy.answers[{get, 0}].now.seconds, NodeSeconds(2100), "the clock is read after the request has come");
    const std::string value(200'000, 'v');
    out.truncate(0);
    StoreOp op = set_of("k", value);
    op.exptime = 2250;
    const uint64_t set = proxy.put(out, op, {});
    proxy.give(std::string_view(out.data(), out.size() - 1));
    clock_reads = 2200;
    proxy.give(std::string_view(out.data() + out.size() - 1, 1));
    tap::is(proxy.answers[{set, 0}].now.seconds, NodeSeconds(2200), "and after the last byte of its value");
    tap::ok(is_stored(proxy.answers[{set, 0}]), "which is stored then");
    clock_reads = 2250;
    tap::ok(!is_hit(proxy.ask(get_of("k"))), "and expires");
    clock_reads = at_start;
}

void flushes() {
    ServedNode served;
    Proxy proxy(served), other(served);
    auto set = [&](const char* key) {
        proxy.ask(set_of(key, "v"));
        proxy.ask(get_of(key));
    };
    set("a");
    tap::ok(std::holds_alternative<DoneReply>(proxy.ask(FlushOp{}).reply.op), "a flush is done");
    tap::ok(!is_hit(other.ask(get_of("a"))), "for all connections");
    set("b");
    proxy.ask(FlushOp{clock_reads + 3});
    tap::ok(is_hit(other.ask(get_of("b"))), "a scheduled one not yet");
    const std::optional<Grant> grant = other.ask(get_of("b"), wanting_grant()).reply.grant;
    tap::ok(grant && grant->term_ms <= 2000, "but a lease ends before it");
    clock_reads += 3;
    tap::ok(!is_hit(other.ask(get_of("b"))), "at its moment it happens, on any connection");
    set("c");
    clock_reads += 3;
    tap::ok(is_hit(other.ask(get_of("c"))), "once");
    proxy.ask(FlushOp{clock_reads + 3});
    proxy.ask(FlushOp{clock_reads + 100});
    clock_reads += 3;
    tap::ok(is_hit(other.ask(get_of("c"))), "a later order takes the place of an earlier one");
    proxy.ask(FlushOp{});
    tap::is(served.flushes.scheduled(), NodeSeconds(0), "an immediate flush too");
    set("b1");
    set("bc");
    set("cb");
    tap::ok(std::holds_alternative<DoneReply>(proxy.ask(FlushOp{std::nullopt, "b"}).reply.op), "a delete by prefix is done");
    tap::ok(!is_hit(other.ask(get_of("b1"))) && !is_hit(other.ask(get_of("bc"))), "what begins so is gone");
    tap::ok(is_hit(other.ask(get_of("cb"))), "and nothing else");
    for (size_t i = 1; i < node::HiddenPrefixes::prefixes_max; i++) proxy.ask(FlushOp{std::nullopt, "p" + std::to_string(i)});
    const Answer& full = proxy.ask(FlushOp{std::nullopt, "q"});
    const auto* refused = std::get_if<RefusedReply>(&full.reply.op);
    tap::ok(refused != nullptr && refused->reason == protocol::RequestRefusal::no_memory, "there may be too many, unswept");
    set("d");
    proxy.ask(FlushOp{clock_reads});
    tap::ok(!is_hit(other.ask(get_of("d"))), "a moment that has come is now");
    set("e");
    proxy.ask(FlushOp{clock_reads + 1});
    clock_reads += 1;
    served.flushes.due(clock_reads);
    tap::is(served.flushes.scheduled(), NodeSeconds(0), "a tick carries it out as well");
    clock_reads = at_start;
}

}  // namespace

int main() {
    clock_after_receipt();
    flushes();
    return tap::done();
}
