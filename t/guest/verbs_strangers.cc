// SPDX-License-Identifier: BSD-3-Clause
// Connections to a node over RDMA that prove no key: they connect, send the bytes of standard input (a hello; every other one
// sends nothing), and wait for their end. Half of them say that they withhold their own rights, half that they give them.
//
//   verbs_strangers ADDRESS PORT COUNT
//
// Prints one line when all have connected and each hello is answered, and one when all have ended:
//   answered=N bytes=N rights=N ms=N      frames received, and their bytes; connections that got a right or a key; since the start
//   ended=N bytes=N rights=N ms=N         bytes received after the answer; ms: the longest life of a connection
// and then one for each kind of end, with their number and shortest life.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "t/unit/fabric/channel_fixture.h"

namespace {

using namespace channel_test;

constexpr size_t head_bytes = 16, challenge_bytes = head_bytes + 40;

struct Stranger : End {
    bool speaks = false, sent = false, has_rights = false;
    uint64_t began_ms = 0, ended_ms = 0;

    bool answered() const { return !speaks || bytes.size() >= challenge_bytes; }
    // Was anything of the node's named: memory to READ, counters, or a container to WRITE into?
    void look() { has_rights = has_rights || channel->can_read() || channel->counts_reads() || channel->post_report("report"); }
};

std::string standard_input() {
    std::string all;
    char some[4096];
    for (ssize_t got = 0; (got = read(STDIN_FILENO, some, sizeof some)) > 0;) all.append(some, size_t(got));
    return all;
}

class Crowd {
  public:
    Crowd(const SocketAddress& to, size_t count, std::string hello) : hello_(std::move(hello)) {
        for (size_t i = 0; i < count; i++) {
            Stranger& one = all_.emplace_back();
            one.speaks = i % 2 != 0;
            one.began_ms = now_ms();
            VerbsMemories memories{{landing_, sizeof landing_}, {}};
            memories.withholds = i / 2 % 2 != 0;
            one.channel = value_of(connect_verbs(to, devices_, memories, one));
            turn_all(0);
        }
    }
    ~Crowd() { all_.clear(); }
    template <class Condition>
    bool wait(Condition&& condition) {
        const uint64_t until = now_ms() + patience_ms();
        while (!std::ranges::all_of(all_, condition)) {
            if (now_ms() >= until) return false;
            turn_all(100);
        }
        return true;
    }
    size_t bytes() const {
        size_t sum = 0;
        for (const Stranger& one : all_) sum += one.bytes.size();
        return sum;
    }
    size_t rights() const { return count([](const Stranger& one) { return one.has_rights; }); }
    size_t count(auto condition) const { return size_t(std::ranges::count_if(all_, condition)); }
    void print_ends() const {
        std::map<std::string, std::pair<size_t, uint64_t>> kinds;
        for (const Stranger& one : all_) {
            auto& [number, shortest_ms] = kinds.try_emplace(one.ending() + ": " + one.text, 0, UINT64_MAX).first->second;
            number++;
            shortest_ms = std::min(shortest_ms, one.ended_ms - one.began_ms);
        }
        for (const auto& [kind, found] : kinds)
            std::printf("%zu, the shortest %llu ms: %s\n", found.first, static_cast<unsigned long long>(found.second),
                        kind.c_str());
    }
    uint64_t longest_ms() const {
        uint64_t longest = 0;
        for (const Stranger& one : all_) longest = std::max(longest, one.ended_ms - one.began_ms);
        return longest;
    }

  private:
    void turn_all(int timeout_ms) {
        std::vector<pollfd> polled;
        for (const Stranger& one : all_) polled.push_back({one.over ? -1 : one.channel->fd(), POLLIN, 0});
        if (poll(polled.data(), polled.size(), timeout_ms) <= 0) return;
        size_t i = 0;
        for (Stranger& one : all_) {
            if (polled[i++].revents == 0) continue;
            one.channel->ready();
            if (!one.over && one.up && one.speaks && !std::exchange(one.sent, true)) one.send(hello_);
            if (!one.over && one.up) one.look();
            if (!one.over) one.channel->flush();
            if (one.over && one.ended_ms == 0) one.ended_ms = now_ms();
        }
    }

    const std::string hello_;
    alignas(4096) char landing_[4096];
    VerbsDevices devices_{VerbsConfig()};
    std::list<Stranger> all_;
};

}  // namespace

int main(int count, char** words) {
    if (count != 4) tap::bail_out("ADDRESS PORT COUNT");
    const uint64_t began = now_ms();
    Crowd crowd(*numeric_address(words[1], uint16_t(std::atoi(words[2]))), size_t(std::atoi(words[3])), standard_input());
    crowd.wait([](const Stranger& one) { return one.over || (one.up && one.answered()); });
    const size_t first = crowd.bytes();
    std::printf("answered=%zu bytes=%zu rights=%zu ms=%llu\n",
                crowd.count([](const Stranger& one) { return one.speaks && one.answered(); }), first, crowd.rights(),
                static_cast<unsigned long long>(now_ms() - began));
    std::fflush(stdout);
    crowd.wait([](const Stranger& one) { return one.over; });
    std::printf("ended=%zu bytes=%zu rights=%zu ms=%llu\n", crowd.count([](const Stranger& one) { return one.over && one.up; }),
                crowd.bytes() - first, crowd.rights(), static_cast<unsigned long long>(crowd.longest_ms()));
    crowd.print_ends();
    return 0;
}
