// SPDX-License-Identifier: BSD-3-Clause
// Histories of a node that DNS finds (Fences, F9), by chance: workers connect and attend, connections end, processes end and others
// begin, and the list of addresses changes. Each process has one item. A read is wrong if it finds an item that is not of the last
// mutation.
//
// One thing is not left to chance, as nothing could show the difference. An address is in the list, and the last contact with the
// process in use was there, or a connection there goes on. Then no other process begins there than one that was in use lately,
// perhaps restarted, or an empty one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "t/unit/daemon/fence_fixture.h"

namespace fence_test {

struct Histories {
    uint64_t hits = 0, deletes = 0;
    uint64_t kept = 0;                        // hits of items that a process kept over a restart
    uint64_t first_old = 0, first_stuck = 0;  // the first seed of a history with that fault; 0: none
};

class History {
  public:
    // waits: no request goes to a connection before its worker attends.
    History(uint64_t seed, bool failover, bool waits, Histories& all)
        : chance_(uint32_t(seed)), seed_(seed), failover_(failover), waits_(waits), all_(all) {
        for (uint32_t i = 0; i < 2 + seed % 2; i++) {
            links_.push_back(Link{.worker = Worker{world_, i}});
            Worker& worker = links_.back().worker;
            worker.up = false;
            worker.failover = failover;
            worker.attend();
        }
        there_[1] = new_process({});
    }
    void run() {
        for (int i = 0; i < steps; i++) step();
        calm_down();
    }

  private:
    static constexpr int steps = 500, rounds = 40;
    static constexpr uint64_t addresses = 3;
    static constexpr size_t none = SIZE_MAX;

    struct Process {
        uint64_t item = 0;  // the number of its mutation; 0: none
        bool restarted = false;
    };
    enum class State { none, trying, up };
    struct Link {
        Worker worker;
        State state = State::none;
        uint64_t at = 0;
        uint64_t tried = 0;      // as OneNode::tried_at
        size_t process = none;
        bool broken = false;     // the other side has gone, which the worker does not know yet
        bool fresh = false;      // its worker has not attended since it is up
        uint64_t connection = 0, deletes_over = 0;
    };

    uint64_t pick(uint64_t below) { return chance_() % below; }
    bool is_listed(uint64_t at) const { return ((listed_ >> at) & 1) != 0; }
    size_t new_process(Process process) {
        processes_.push_back(process);
        return processes_.size() - 1;
    }
    // Of an index: never 0.
    static uint64_t incarnation(size_t process) { return process + 1; }

    void step() {
        world_.now_ns += pick(300) * ms;
        Link& link = links_[pick(links_.size())];
        const uint64_t what = pick(100);
        if (what < 2) return change_list();
        if (what < 5) return end_process();
        if (what < 13) return begin_process(1 + pick(addresses));
        if (what < 15) {
            const uint64_t at = 1 + pick(addresses);
            return leave_address(at, /* breaks= */ pick(4) != 0);
        }
        if (what < 17) return end(link);
        if (what < 35) return link.state == State::none ? connect(link) : come_up(link);
        if (what < 60) return attend(link, /* old= */ pick(8) == 0);
        if (what < 75) return delete_items(link, /* done= */ pick(4) != 0);
        request(link);
    }

    // ---- the list, as Nodes::replace_addresses() and Links::take()
    void change_list() {
        const uint64_t next = (1 + pick((1u << addresses) - 1)) << 1;
        bool gone = false;
        for (const Link& link : links_) gone |= link.tried != 0 && ((next >> link.tried) & 1) == 0;
        if (gone) {
            for (Link& link : links_) link.tried = 0;
            world_.fences.renew(world_.a);
        }
        world_.fences.readdress(world_.a, [next](uint64_t at) { return at <= addresses && ((next >> at) & 1) != 0; });
        listed_ = next;
    }
    void take(Link& link) {
        const uint64_t renewal = world_.fences.renewal(world_.a);
        if (link.worker.renewal == renewal) return;
        link.worker.renewal = renewal;
        link.worker.up = link.worker.down = link.worker.held = false;
        link.state = State::none;
        link.tried = 0;
    }

    // ---- processes
    void break_links(size_t process, uint64_t at) {
        for (Link& link : links_)
            if (link.state == State::up && link.process == process && (at == 0 || link.at == at)) link.broken = true;
    }
    void end_process() {
        const size_t process = there_[1 + pick(addresses)];
        if (process == none) return;
        for (size_t& there : there_)
            if (there == process) there = none;
        break_links(process, 0);
    }
    // breaks: connections end. Else the address leads elsewhere from now on, and present connections stay.
    void leave_address(uint64_t at, bool breaks = true) {
        if (there_[at] == none) return;
        if (breaks) break_links(there_[at], at);
        there_[at] = none;
    }
    // One of the last that were in use: it is no restart.
    bool was_used(size_t process) const { return std::ranges::find(lately_used_, process) != lately_used_.end(); }
    void begin_process(uint64_t at) {
        if (there_[at] != none) return;
        bool may_be_any = at != contact_, goes_on = false;
        for (const Link& link : links_) {
            if (link.state != State::up || link.at != at) continue;
            if (!link.broken || (link.fresh && link.process == used_)) may_be_any = false;
            goes_on = goes_on || !link.broken;
        }
        may_be_any = may_be_any || !is_listed(at);
        const uint64_t kind = pick(4);
        const size_t present = there_[1 + pick(addresses)];
        if (kind == 0 && present != none && (may_be_any || present == used_ || was_used(present))) there_[at] = present;
        if (kind == 1) there_[at] = new_process({});
        if (kind == 2 && used_ != none && !goes_on) there_[at] = new_process({processes_[used_].item, /* restarted= */ true});
        if (kind == 3 && may_be_any) there_[at] = new_process({pick(last_ + 1)});
    }

    // ---- connections
    void connect(Link& link) {
        const NodeHome::Address home = world_.fences.home_address(world_.a);
        link.at = 1 + pick(addresses);
        if (home.is_up && pick(2) == 0) link.at = home.at;
        if (!is_listed(link.at)) return;
        link.state = State::trying;
        link.tried = link.at;
    }
    void come_up(Link& link) {
        if (link.state != State::trying) return;
        if (there_[link.at] == none) return end(link);
        link.state = State::up;
        link.process = there_[link.at];
        link.broken = false;
        link.fresh = true;
        link.connection = ++connections_;
        const bool counts = link.tried != 0 && is_listed(link.tried);
        link.worker.come_up(incarnation(link.process), counts ? link.tried : NodeHome::gone_address);
        link.worker.held = waits_;
    }
    void end(Link& link) {
        if (link.state == State::none) return;
        link.state = State::none;
        link.tried = 0;
        link.worker.end();
    }

    // ---- workers
    // old: the list changes just before it attends, and it has no memory to take that.
    void attend(Link& link, bool old) {
        if (!old) take(link);
        Worker& worker = link.worker;
        worker.attend();
        if (worker.counts && !worker.elsewhere && (link.fresh || !link.broken)) note_contact(link);
        link.fresh = false;
        if (worker.ends) end(link);
        if (worker.at_a.what != What::none && link.deletes_over == 0) link.deletes_over = link.connection;
        if (worker.at_b.what != What::none) worker.acknowledge_guests();
    }
    void note_contact(const Link& link) {
        contact_ = link.at;
        if (used_ == link.process) return;
        used_ = link.process;
        lately_used_[next_used_++ % lately_used_.size()] = used_;
    }
    void delete_items(Link& link, bool done) {
        if (link.deletes_over == 0) return;
        done = done && link.state == State::up && !link.broken && link.connection == link.deletes_over;
        if (done) processes_[link.process].item = 0;
        if (done) all_.deletes++;
        link.worker.acknowledge(done);
        link.deletes_over = 0;
    }
    void request(Link& link) {
        Worker& worker = link.worker;
        if (failover_ && worker.a == FenceState::out) {
            if (!worker.guests_at_b) return;
            world_.divert("k");
            last_++;
            return;
        }
        if (!worker.uses() || link.broken) return;
        Process& process = processes_[link.process];
        note_contact(link);
        if (pick(2) == 0) {
            process = {.item = ++last_};
            return;
        }
        if (process.item == 0) return;
        all_.hits++;
        if (process.restarted) all_.kept++;
        if (process.item != last_ && all_.first_old == 0) all_.first_old = seed_;
    }

    // One process answers at one address of the list: it is used at last.
    void calm_down() {
        uint64_t at = 1;
        while (!is_listed(at)) at++;
        for (uint64_t other = 1; other <= addresses; other++)
            if (other != at) leave_address(other);
        if (there_[at] == none) there_[at] = new_process({});
        for (Link& link : links_)
            if (link.state == State::up && link.process != there_[at]) link.broken = true;
        bool used = false;
        for (int i = 0; i < rounds && !used; i++) {
            world_.wait();
            used = true;
            for (Link& link : links_) {
                if (link.broken || link.state == State::trying) end(link);
                delete_items(link, /* done= */ true);
                attend(link, /* old= */ false);
                if (link.state == State::none) {
                    link.at = link.tried = at;
                    link.state = State::trying;
                    come_up(link);
                }
                attend(link, /* old= */ false);
                request(link);
                used = used && link.worker.uses();
            }
        }
        if (!used && all_.first_stuck == 0) all_.first_stuck = seed_;
    }

    std::mt19937 chance_;
    const uint64_t seed_;
    const bool failover_, waits_;
    Histories& all_;
    World world_;
    std::vector<Link> links_;
    std::vector<Process> processes_;
    size_t there_[addresses + 1] = {none, none, none, none};  // by address, from 1: the process
    uint64_t listed_ = 1u << 1;                               // a bit for each address
    uint64_t connections_ = 0;
    uint64_t last_ = 0;     // mutation
    size_t used_ = none;    // the process of the last contact
    uint64_t contact_ = 0;  // its address
    std::array<size_t, 4> lately_used_ = {none, none, none, none};
    size_t next_used_ = 0;
};

inline Histories run_histories(bool failover, bool waits = true) {
    Histories all;
    for (uint64_t seed = 1; seed <= 4000; seed++) History(seed, failover, waits, all).run();
    return all;
}

}  // namespace fence_test
