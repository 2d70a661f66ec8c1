// SPDX-License-Identifier: BSD-3-Clause
// Requests by older lists of nodes than another proxy's (ListEpoch): which of them a node refuses, and what it says to the proxy.
#include <memory>
#include <string>
#include <vector>

#include "node/store/shared_keys.h"
#include "protocol/owned_keys.h"
#include "t/lib/tap.h"
#include "t/unit/service/service_fixture.h"

using namespace service_fixture;

namespace {

// Of a node with the keys that begin with `k`, by a list of epoch 20 (ListEpoch).
void old_lists() {
    ServedNode served;
    steady_ns = 500'000'000'000;
    served.shared.right.limit();
    served.shared.right.set(steady_ns + 700'000'000, steady_ns + 700'000'000);
    Proxy late(served), now(served), without(served), before(served, /* greet= */ false);
    before.hello.speaks.protocol = version_with_newest_epoch - 1;
    before.greet_now();
    const auto name = [](Proxy& proxy, uint64_t epoch) {
        OutBuffer out;
        append_epoch(out, epoch);
        proxy.give(out);
    };
    name(late, 9);
    name(now, 10);
    name(before, 9);
    tap::is(refusal(late.ask(set_of("k", "1"))), "done", "before it registers, a node knows no list");
    served.shared.list.registered(10);
    tap::is(refusal(late.ask(set_of("k", "2"))) + refusal(now.ask(set_of("k", "2"))), "old_listdone",
            "registered, it refuses a list of before");
    tap::ok(late.epochs == std::vector<uint64_t>{10} && late.kinds.back() == FrameKind::replies && now.epochs.empty(),
            "and names the newest epoch before that");
    const Answer& missed = late.ask(get_of("k"));
    tap::ok(missed.value.empty() && refusal(missed) == "done" && missed.now.right_ms == 0u,
            "its gets miss, and it has no right to read");
    tap::is(refusal(late.ask(set_of("k", std::string(100'000, 'v')))), "old_list", "no value in pieces is stored");
    tap::is(without.ask(get_of("k")).value, "2", "a proxy without epochs is served");
    OwnedKeys all, none;
    all.modulus = 1;
    FlushOp keep;
    const std::string all_kept = kept_text({{all, all}}), none_kept = kept_text({{all, none}});
    keep.kept = all_kept;
    name(now, 20);
    now.ask(keep);
    tap::is(late.ask(get_of("k")).value, "2", "keys that are still the node's own are served for any list");
    keep.kept = none_kept;
    late.ask(keep);
    tap::is(now.ask(get_of("k")).value, "", "an older list can delete");
    tap::is(refusal(late.ask(set_of("k", "3"))), "old_list", "but tells nothing, and is of before the record: no change by it");
    name(now, 21);
    now.ask(keep);
    name(late, 20);
    tap::is(refusal(late.ask(set_of("k", "4"))) + refusal(now.ask(set_of("k", "4"))), "old_listdone", "a newer one does");
    name(late, 0);
    tap::is(refusal(late.ask(set_of("k", "5"))), "done", "an epoch can end");
    served.shared.list.registered(5);
    name(late, 6);
    tap::is(refusal(late.ask(set_of("k", "6"))), "done", "etcd without its data begins anew");
    tap::is(served.counters.requests_old_list.get(), 5u, "each refused request is counted");
    tap::ok(late.epochs == std::vector<uint64_t>{10, 20, 21} && now.epochs.empty() && without.epochs.empty(),
            "each newer epoch was named once, to the proxy with the older list");
    served.shared.list.registered(10);
    tap::ok(refusal(before.ask(set_of("k", "7"))) == "old_list" && before.epochs.empty(),
            "a proxy that knows no such frame is refused without it");
    tap::is(late.trouble + now.trouble + before.trouble, "", "no frame is wrong");
}

// Before its first request, a proxy may have a list from before the node's newest one.
void before_first_request() {
    ServedNode served;
    steady_ns = 500'000'000'000;
    served.shared.right.limit();
    served.shared.right.set(steady_ns + 700'000'000, steady_ns + 700'000'000);
    Proxy early(served);
    tap::is(early.welcome.now.right_ms.value_or(0), 700u, "a node without a list gives its right with the welcome");
    served.shared.list.registered(10);
    Proxy now(served), without(served), before(served, /* greet= */ false);
    before.hello.speaks.protocol = version_with_epoch - 1;
    before.greet_now();
    tap::ok(now.welcome.now.right_ms == 0u && without.welcome.now.right_ms == 0u,
            "one that has a list does not: the proxy's may be older");
    tap::is(before.welcome.now.right_ms.value_or(0), 700u, "it does to a proxy that names no list");
    OutBuffer epoch;
    append_epoch(epoch, 10);
    now.give(epoch);
    tap::ok(now.ask(get_of("k")).now.right_ms == 700u && without.ask(get_of("k")).now.right_ms == 700u,
            "the first reply gives it to proxies with that list, and to those without epochs");
}

// ListEpoch, E4.
void marks_of_old_lists() {
    ServedNode served;
    steady_ns = 500'000'000'000;
    served.shared.right.limit();
    served.shared.right.set(steady_ns + 700'000'000, steady_ns + 700'000'000);
    served.cache.shared_keys().note_touched(at_start);
    served.shared.list.registered(10);
    served.cache.shared_keys().joined(10, at_start);
    const auto gives_mark = [&](uint64_t epoch, size_t value_bytes = 0) {
        Proxy proxy(served);
        OutBuffer out;
        append_epoch(out, epoch);
        proxy.give(out);
        const std::string value(value_bytes, 'v');
        StoreOp op = set_of("k", value);
        op.mode = StoreOp::Mode::cas, op.cas_compare = 0, op.moved_since = 10;
        const auto* const reply = std::get_if<StoreReply>(&proxy.ask(op).reply.op);  // else it is refused
        return reply != nullptr && reply->cas != protocol::mark_bit;
    };
    tap::ok(gives_mark(10) && gives_mark(12) && !gives_mark(0), "a node that joined gives marks to proxies with its list");
    const OwnedKeys all{.place = {}, .modulus = 1}, none{};
    for (const bool own : {false, true})
        served.shared.list.kept(own ? 30 : 20, std::make_shared<const KeptKeys>(KeptKeys{{all, own ? all : none}}));
    tap::ok(gives_mark(30) && !gives_mark(12) && !gives_mark(29) && !gives_mark(29, 100'000),
            "not by a list from before another node had its keys");
}

// ListEpoch, E3.
void leaving() {
    ServedNode served;
    steady_ns = 500'000'000'000;
    served.shared.right.limit();
    served.shared.right.set(steady_ns + 700'000'000, steady_ns + 700'000'000);
    served.shared.list.registered(10);
    Proxy copies(served, /* greet= */ false);
    copies.hello.copies = 2;
    copies.greet_now();
    OutBuffer epoch;
    append_epoch(epoch, 10);
    copies.give(epoch);
    const std::string served_before = refusal(copies.ask(set_of("k", "1"))) + refusal(copies.ask(get_of("k")));
    tap::is(served_before, "donedone", "a node serves a farcached with copies");
    served.shared.list.registered(node::ListEpoch::leaving);
    tap::is(refusal(copies.ask(get_of("k"))), "stopping", "while it leaves, a get goes to the copy");
    tap::is(refusal(copies.ask(set_of("k", "2"))), "old_list", "and a set waits for the next list");
}

}  // namespace

int main() {
    old_lists();
    leaving();
    before_first_request();
    marks_of_old_lists();
    return tap::done();
}
