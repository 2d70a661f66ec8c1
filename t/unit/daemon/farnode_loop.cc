// SPDX-License-Identifier: BSD-3-Clause
// The event loop of farnode (daemon/farnode/loop.h): connections that always have work keep no other one waiting, whether it comes
// with events, looks for input, or wants steps. With channels whose work the test chooses.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/farnode/loop.h"
#include "t/lib/tap.h"
#include "t/unit/service/service_fixture.h"

namespace {

using namespace farcached;
using namespace farcached::protocol;
using namespace service_fixture;

// The connections' turns, in order, by their letters.
class Log {
  public:
    void add(char who) {
        std::lock_guard hold(lock_);
        if (turns_.size() < 100'000) turns_ += who;
    }
    std::string turns() const {
        std::lock_guard hold(lock_);
        return turns_;
    }
    size_t count(char who) const {
        const std::string all = turns();
        return size_t(std::count(all.begin(), all.end(), who));
    }

  private:
    mutable std::mutex lock_;
    std::string turns_;
};

// A connection's work, and a count of it.
struct Plan {
    explicit Plan(char name, bool events = false) : letter(name), with_events(events) {}
    const char letter;
    const bool with_events;       // fd() is always readable
    std::atomic<bool> looks{false}, has_input{false};
    std::string first;                   // bytes that come first
    std::function<std::string()> always; // and then, without an end
    std::atomic<uint64_t> wanted{0};  // turns after which it wanted another
};

class BusyChannel final : public fabric::Channel {
  public:
    BusyChannel(Plan& plan, Log& log, node::NodeService& service)
        : plan_(plan), log_(log), service_(service), fd_(eventfd(plan.with_events ? 1 : 0, EFD_NONBLOCK)) {
        input_ = plan.first;
    }
    ~BusyChannel() override { ::close(fd_); }
    int fd() const override { return fd_; }
    bool wants_write() const override { return false; }
    void ready() override {
        if (service_.turn_wanted()) plan_.wanted++;
        log_.add(plan_.letter);
        for (;;) {
            if (!input_.empty()) input_.erase(0, service_.received(std::string(input_)));
            if (!input_.empty() || !plan_.always) return;
            input_ = plan_.always();
        }
    }
    void flush() override { out_.clear(0); }
    bool looks() const override { return plan_.looks; }
    bool has_input() override { return plan_.has_input; }
    bool post_read(const fabric::ReadRequest&) override { return false; }
    void close() override {}
    std::string describe() const override { return std::string(1, plan_.letter); }

  private:
    Plan& plan_;
    Log& log_;
    node::NodeService& service_;
    const int fd_;
    std::string input_;
};

template <class Condition>
bool in_time(Condition&& condition) {
    const char* slow = std::getenv("FARCACHED_TEST_SLOW");
    const int factor = slow == nullptr ? 1 : std::max(1, std::atoi(slow));
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20) * factor;
    while (!condition()) {
        if (std::chrono::steady_clock::now() >= until) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

// Runs a loop with these connections until the condition holds, at most as long as in_time() waits.
template <class Condition>
bool runs(ServedNode& served, std::vector<Plan*> plans, Log& log, Condition&& condition) {
    node::Loop loop(served.shared);
    loop.start();
    for (Plan* plan : plans) {
        node::Arrival arrival;
        arrival.service = loop.make_service();
        arrival.channel = std::make_unique<BusyChannel>(*plan, log, *arrival.service);
        loop.inbox().give(std::move(arrival));
    }
    const bool held = in_time(condition);
    loop.inbox().stop(Goodbye::stopping, 0);
    loop.join();
    return held;
}

// The most turns of others between two of this one, from its first to its last.
size_t longest_gap(const std::string& turns, char who, const std::string& others) {
    size_t gap = 0, longest = 0;
    const size_t first = turns.find(who), last = turns.rfind(who);
    for (size_t i = first; i != std::string::npos && i <= last; i++) {
        gap = turns[i] == who ? 0 : gap + (others.find(turns[i]) != std::string::npos ? 1 : 0);
        longest = std::max(longest, gap);
    }
    return longest;
}

// From the moment when all are there.
std::string together(const std::string& turns, const std::string& letters) {
    size_t from = 0;
    for (const char letter : letters) from = std::max(from, turns.find(letter));
    return turns.substr(std::min(from, turns.size()));
}

void looking(ServedNode& served) {
    Plan a{'a'}, b{'b'}, c{'c'}, e{'e', /* with_events= */ true};
    for (Plan* plan : {&a, &b, &c}) plan->looks = plan->has_input = true;
    Log log;
    tap::ok(runs(served, {&a, &b, &c, &e}, log, [&] { return log.count('c') > 200 && log.count('e') > 200; }),
            "three connections that always find input, and one with events, are served");
    const std::string turns = together(log.turns(), "abce");
    for (const char who : {'a', 'b', 'c'})
        tap::ok(longest_gap(turns, who, "abc") <= 2, std::string("in turn: ") + who);
    tap::ok(longest_gap(turns, 'e', "abc") <= 2, "the one with events is served after each pass");
}

void sometimes(ServedNode& served) {
    Plan busy{'a'}, quiet{'b'}, later{'c'};
    for (Plan* plan : {&busy, &quiet, &later}) plan->looks = true;
    busy.has_input = true;
    Log log;
    std::atomic<size_t> before{0};
    tap::ok(runs(served, {&busy, &quiet, &later}, log,
                 [&] {
                     if (log.count('a') > 100 && !later.has_input) before = log.count('c'), later.has_input = true;
                     return later.has_input && log.count('c') > before + 50;
                 }),
            "input that comes late is found while another connection is always busy");
    tap::is(log.count('b'), 1u, "a connection without input has no turn but its first");
}

// A frame of GETs.
std::string requests(uint64_t sequence) {
    OutBuffer out;
    FrameWriter writer(out, frame_bytes_lowest);
    writer.begin(FrameKind::requests, sequence);
    for (uint32_t tag = 1; tag <= 50; tag++) {
        GetOp get;
        get.key = {"large", 0};
        RequestOptions options;
        options.tag = tag;
        if (!writer.add(get, options)) break;
    }
    writer.end();
    return {out.data(), out.size()};
}

// One wants another step after each of its turns: its replies are longer than what one turn sends.
void wanting(ServedNode& served) {
    Plan greedy{'g'}, looks{'a'}, events{'e', /* with_events= */ true};
    looks.looks = true;
    OutBuffer hello;
    Hello said;
    said.name = "p";
    said.host = "h";
    append_hello(hello, said);
    greedy.first = std::string(hello.data(), hello.size());
    const std::string value(1 << 20, 'v');
    StoreOp store;
    store.key = served.cache.key("large");
    store.value = value;
    (void)served.cache.store(store, at_start);
    greedy.always = [sequence = UINT64_C(0)]() mutable { return requests(++sequence); };
    Log log;
    tap::ok(runs(served, {&greedy, &looks, &events}, log,
                 [&] {
                     if (greedy.wanted > 30) looks.has_input = true;
                     return log.count('a') > 30 && log.count('e') > 30;
                 }),
            "a connection that always wants another step keeps no other one waiting");
    const std::string turns = together(log.turns(), "gae");
    constexpr size_t one_turn = 8;  // NodeService's calls of ready() in one step
    const size_t from = turns.find('a', 1);  // behind its first turn, when it looks in vain
    tap::ok(longest_gap(turns.substr(std::min(from, turns.size())), 'a', "g") <= one_turn, "one that looks is served in each pass");
    tap::ok(longest_gap(turns, 'e', "g") <= one_turn, "and one with events");
    tap::note("%zu turns, %llu of them wanted", log.count('g'), (unsigned long long)greedy.wanted.load());
}

}  // namespace

int main() {
    ServedNode served(node_config(64, 2 << 20));
    looking(served);
    sometimes(served);
    wanting(served);
    return tap::done();
}
