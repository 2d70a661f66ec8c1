// SPDX-License-Identifier: BSD-3-Clause
// A node's service against its bounds over all connections: bytes that are held (PeerBudget), seats (Seats) and
// silence. A connection gives back all counted bytes, however it ends. And the book of proxies (ProxyBook).
#include <memory>
#include <string>
#include <vector>

#include "t/lib/tap.h"
#include "t/unit/service/service_fixture.h"

using namespace service_fixture;
using node::ServiceEnd;

namespace {

constexpr uint64_t small_budget = 400'000;
const std::string large(200'000, 'l');

uint64_t held(ServedNode& served) { return served.shared.budget.bytes(); }

// The announcement and the pieces of a value but for the last one; its sequence.
uint64_t begin_value(Proxy& proxy, std::string_view key) {
    OutBuffer out;
    RequestOptions options;
    options.value_follows = true;
    const uint64_t sequence = proxy.next_sequence++;
    const StoreOp op = set_of(key, large);
    FrameWriter writer(out, proxy.welcome.frame_bytes_max);
    writer.begin(FrameKind::requests, sequence);
    CHECK(writer.add(op, options));
    writer.end();
    proxy.give(out);
    for (uint64_t at = 0; at + proxy.welcome.frame_bytes_max < large.size();) {
        at += proxy.put_chunk(out, sequence, options.tag, large, at);
        proxy.give(out);
    }
    return sequence;
}

void end_value(Proxy& proxy, uint64_t sequence) {
    OutBuffer out;
    uint64_t at = 0;
    while (at + proxy.welcome.frame_bytes_max < large.size())
        at += chunk_size(large.size() - at, proxy.welcome.frame_bytes_max);
    while (at < large.size()) at += proxy.put_chunk(out, sequence, RequestOptions().tag, large, at);
    proxy.give(out);
}

void what_is_counted_is_given_back() {
    ServedNode served;
    {
        Proxy proxy(served);
        tap::is(held(served), 0u, "a connection that is idle holds nothing that is counted");
        const uint64_t first = begin_value(proxy, "a");
        tap::ok(held(served) > 100'000, "what came of a value is counted");
        end_value(proxy, first);
        tap::ok(is_stored(proxy.answers[{first, 0}]), "until it is whole and stored");
        tap::is(held(served), 0u, "and then no more");
        tap::ok(is_hit(proxy.ask(get_of("a"))) && held(served) == 0, "nor is what was sent");
        proxy.channel.room = 0;
        OutBuffer out;
        for (int i = 0; i < 3; i++) proxy.put(out, get_of("a"), {});
        proxy.give(out);
        tap::ok(held(served) >= 3 * large.size(), "what waits to be sent is counted");
        proxy.channel.room = SIZE_MAX;
        proxy.turns();
        tap::is(held(served), 0u, "until it is sent");
        begin_value(proxy, "b");
        proxy.channel.feed(std::string("\x00\x80", 2));
        proxy.turns();
        tap::ok(held(served) > 100'000, "another value is on its way");
    }
    tap::is(held(served), 0u, "what a connection held is given back at its end");
}

void half_frames() {
    ServedNode served;
    served.shared.budget.change(small_budget);
    std::vector<std::unique_ptr<Proxy>> proxies;
    uint64_t most = 0;
    bool told = false;
    OutBuffer out;
    Proxy(served).put(out, set_of("k", std::string(50'000, 'v')), {});
    const std::string half(out.data(), out.size() - 1);
    for (int i = 0; i < 20; i++) {
        steady_ns += 1'000'000;
        proxies.push_back(std::make_unique<Proxy>(served));
        proxies.back()->give(half);
        for (auto& proxy : proxies) proxy->turns();
        most = std::max(most, held(served));
        if (!told) told = proxies.front()->goodbye == Goodbye::no_memory;
        std::erase_if(proxies, [](auto& one) { return one->service.close_wanted(); });  // as a loop does
    }
    tap::ok(most <= small_budget / 4 * 5,
            "half frames of many connections hold no more than the budget, and a quarter while some end");
    tap::ok(served.counted(ServiceEnd::over_budget) > 10, "others are ended, by a separate reason");
    tap::ok(told, "and get a goodbye");
    tap::ok(proxies.size() >= 2, "some go on");
    proxies.back()->give(std::string(out.data() + half.size(), 1));
    tap::ok(is_hit(proxies.back()->ask(get_of("k"))), "and its frame is executed when it is whole");
    proxies.clear();
    tap::is(held(served), 0u, "nothing is left of them");
}

void values_over_budget() {
    ServedNode served;
    served.shared.budget.change(small_budget);
    Proxy proxy(served), other(served);
    const uint64_t first = begin_value(proxy, "a"), second = begin_value(other, "b");
    end_value(other, second);
    end_value(proxy, first);
    tap::ok(is_stored(proxy.answers[{first, 0}]), "a value within the budget is stored");
    tap::ok(refusal_of(other.answers[{second, 0}]) == RequestRefusal::no_memory, "one that is too much is refused");
    tap::is(served.counters.values_over_budget.get(), 1u, "and counted");
    const uint64_t again = begin_value(other, "b");
    end_value(other, again);
    tap::ok(is_stored(other.answers[{again, 0}]), "when there is room it is stored");
    tap::is(held(served), 0u, "nothing is held then");
    tap::ok(other.trouble.empty() && proxy.trouble.empty(), "the connections go on");
}

void silence() {
    ServedNode served;
    const NodeSeconds begun = clock_reads;
    Proxy silent(served), pings(served);
    const uint32_t silence_s = served.shared.limits.silence_s;
    tap::is(silent.service.silence_is_due(), silence_s * 1000, "a connection may be silent for so long");
    clock_reads += silence_s - 1;
    OutBuffer out;
    append_ping(out, 1);
    pings.give(out);
    tap::is(silent.service.silence_is_due(), 1000u, "a second before that it is asked again in a second");
    clock_reads++;
    tap::is(silent.service.silence_is_due(), 0u, "then it is over");
    tap::ok(silent.service.close_wanted() && silent.service.end() == ServiceEnd::silent, "by a reason of its own");
    tap::is(served.counted(ServiceEnd::silent), 1u, "which is counted");
    tap::is(pings.service.silence_is_due(), (silence_s - 1) * 1000, "one that pings goes on");
    clock_reads = begun;
}

void displaced() {
    ServedNode served;
    served.facts.connections_max = 2;
    Proxy worker(served);
    worker.ask(get_of("used"));
    Proxy idle(served), newcomer(served);
    tap::ok(newcomer.welcomed && !newcomer.service.is_ousted(), "a newcomer is welcome where a seat is unused");
    idle.turns();
    tap::ok(idle.service.close_wanted() && idle.service.end() == ServiceEnd::displaced, "whose connection is ended");
    tap::ok(idle.goodbye == Goodbye::idle, "with a goodbye");
    tap::ok(!worker.service.is_ousted() && worker.welcomed, "one in use goes on");
    worker.ask(get_of("used"));
    tap::ok(worker.trouble.empty() && !worker.service.close_wanted(), "and is served");
}

std::string proxies_shown(ServedNode& served) {
    std::string text;
    CHECK(served.stats.append("proxies", clock_reads, text));
    return text;
}

void named_by(Proxy& proxy, uint64_t epoch) {
    OutBuffer out;
    append_epoch(out, epoch);
    proxy.give(out);
}

// The book of proxies: by process, from the welcome to the end of the last connection.
void proxies() {
    const NodeSeconds begun = clock_reads;
    ServedNode served;
    served.stats.include(served.shared.proxies);
    {
        Proxy first(served), silent(served, /* greet= */ false);
        clock_reads += 5;
        Proxy second(served), other(served, /* greet= */ false);
        other.hello.pid = 8;
        other.greet_now();
        clock_reads += 2;
        named_by(first, 10);
        tap::is(proxies_shown(served),
                "proxies_left_out 0\n"
                "p@h:7:connections 2\np@h:7:epoch_lowest 10\np@h:7:epoch_highest 10\np@h:7:connected_s 7\n"
                "p@h:8:connections 1\np@h:8:epoch_lowest 0\np@h:8:epoch_highest 0\np@h:8:connected_s 2\n",
                "proxies by process; one that has not greeted is none");
        named_by(second, 12);
        named_by(first, 11);
        tap::ok(proxies_shown(served).find("p@h:7:epoch_lowest 11\np@h:7:epoch_highest 12\n") != std::string::npos,
                "the lowest and the highest epoch of its connections");
        named_by(second, 0);
        tap::ok(proxies_shown(served).find("p@h:7:epoch_lowest 11\np@h:7:epoch_highest 11\n") != std::string::npos,
                "an epoch can end");
    }
    tap::is(proxies_shown(served), "proxies_left_out 0\n", "none is shown after its last connection");
    clock_reads = begun;
}

void many_proxies() {
    node::ProxyBook book;
    std::vector<std::unique_ptr<node::ProxyBook::Entry>> entries;
    const auto enter = [&](size_t number) {
        entries.push_back(std::make_unique<node::ProxyBook::Entry>(book));
        entries.back()->enter("p@h:" + std::to_string(number), at_start, /* copies= */ 1);
        entries.back()->name(number + 1);
    };
    const auto count = [&] {
        size_t shown = 0;
        book.each(at_start, [&](const std::string&, const node::ProxyShown&) { shown++; });
        return shown;
    };
    for (size_t i = 0; i < node::ProxyBook::proxies_max + 3; i++) enter(i);
    enter(0);
    tap::is(count(), node::ProxyBook::proxies_max, "the book has a bound");
    tap::is(book.left_out(), 3u, "connections of further processes are counted");
    entries.clear();
    tap::is(count() + book.left_out(), 0u, "all are gone in the end");
}

}  // namespace

int main() {
    what_is_counted_is_given_back();
    half_frames();
    values_over_budget();
    silence();
    displaced();
    proxies();
    many_proxies();
    return tap::done();
}
