// SPDX-License-Identifier: BSD-3-Clause
// Safety of one-sided reads over a link (S3, S4, S5, S7, S9, S11, S12, S13), in chosen moments and in random histories.
// Reads are torn, complete late or fail; other writers store; a node restarts; connections end at every step. Built
// again with a rule broken on purpose (t/faulty/node_link_safety), the test must find a violation, and reports it by
// its one check.
//
// The checker: time and all events are the test's, one after the other, so it knows each key's value at every step. A
// reply must be a value that the key held at some step from the request to the reply. A reply by a pointer must also
// come before the node's lease ends. Copies tear between words: a word that can change is read whole
// (protocol/layout.h).
#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/broken.h"
#include "t/unit/proxy/link_fixture.h"

using namespace link_test;
using proxy::AskResult;

namespace {

int violations = 0;

void violation(const std::string& what) {
    if (violations++ < 5) std::printf("# violation: %s\n", what.c_str());
}

proxy::LinkConfig patient() {
    proxy::LinkConfig config = link_config();
    config.silence_ns = 100 * second;
    return config;
}

// Another proxy's set.
void set_elsewhere(World& world, std::string_view key, std::string_view value,
                   NodeSeconds exptime = never_expires) {
    protocol::StoreOp op;
    op.key = world.node.cache->key(key);
    op.value = value;
    op.exptime = exptime;
    world.node.cache->store(op, world.node.now(world.now_ns));
}

// ---- chosen moments ---------------------------------------------------------------------------------

// S3: the reply that brings the lease is late.
void slow_reply() {
    World world(patient());
    world.start();
    world.store("k", "value");
    world.get(1, "k", 10 * second);
    world.link->flush(world.now_ns);
    world.node.serve(*world.wire, world.now_ns);
    const uint64_t granted = world.now_ns;
    world.now_ns += 3 * second;
    world.link->ready(world.now_ns);
    world.now_ns += 2 * second;
    world.fetch("k");
    if (world.sink[1'000'001].one_sided && world.now_ns > granted + world.node.term_ms * ms)
        violation("a read after the node's lease was over");
}

// S4: the read's copy is made in time, and its completion seen long after: the memory may hold another item by then.
void slow_completion() {
    World world(patient());
    world.start();
    world.hold_pointer("k", "value");
    world.get(1, "k", 100 * second);
    world.complete(0);
    world.now_ns += 30 * second;
    set_elsewhere(world, "k", "other");
    world.pump();
    if (world.sink[1].value != "other") violation("a copy was used after its lease was over");
}

// S18: a node of the version before offers its memory and grants pointers, but does not write in place. A proxy that
// assumes writes in place misreads its memory.
void node_of_before() {
    World world(patient());
    world.node.of_before = true;
    world.start();
    world.hold_pointer("k", "value");
    world.fetch("k");
    if (world.counters().get_onesided.get() != 0) violation("a read from a node of an older version");
}

// S4, S7: the item behind a pointer was replaced, and a client has the acknowledgement.
void replaced() {
    World world(patient());
    world.start();
    world.hold_pointer("k", "value");
    set_elsewhere(world, "k", "other");
    if (world.fetch("k") != "other") violation("an item that was replaced was served");
}

// S4, S7: the item behind a pointer is gone, and a client has the acknowledgement.
void removed() {
    World world(patient());
    world.start();
    world.hold_pointer("k", "value");
    protocol::DeleteOp op;
    op.key = world.node.cache->key("k");
    world.node.cache->remove(op, world.node.now(world.now_ns));
    if (!world.fetch("k").empty()) violation("an item that was deleted was served");
}

// S1, S4: a pointer finds an item that was written in its place. Asking the node is no violation, but a key read and
// written often would then always ask it.
void written_in_place() {
    World world(patient());
    world.start();
    world.hold_pointer("k", "value");
    const in_place::Words before(world.slot("k"), world.slot("k") + 8);
    world.carry_out(world.write_in_place("k", "other"), world.slot("k"));
    const bool found = world.fetch("k") == "other" && world.sink[world.tickets - 1].one_sided;
    if (!found) violation("an item that was written in place is not found by the pointer to its slot");
    std::copy(before.begin(), before.end(), world.slot("k"));
}

// S5: an item is written in place while it is copied, on the same host or over a NIC.
void torn_under_lease() {
    const std::string values[] = {std::string(100, 'a'), std::string(100, 'b')};
    for (const uint32_t cut : {8u, 16u, 24u, 40u, 48u, 80u, 136u}) {
        for (const bool end_first : {false, true}) {
            World world(patient());
            world.start();
            world.hold_pointer("k", values[0]);
            world.get(1, "k", 100 * second);
            const fabric::ReadRequest read = world.wire->posted.at(0);
            uint64_t* slot = world.slot("k");
            const size_t words = read.ptr.length / 8;
            const in_place::Words before(slot, slot + words);
            world.carry_out(world.write_in_place("k", values[1]), slot);
            world.carry_out(read);
            std::copy(before.begin(), before.end(), slot);
            const size_t from = end_first ? cut / 8 : 0, to = end_first ? words : cut / 8;
            std::copy(before.begin() + long(from), before.begin() + long(to), read.landing + from);
            world.wire->posted.clear();
            world.wire->completed.push_back({read.token, fabric::ReadStatus::done});
            world.pump();
            const std::string& value = world.sink[1].value;
            if (value != values[0] && value != values[1]) violation("a torn item was served by a pointer");
        }
    }
}

// S13: an item written in place expires before the lease does.
void expired_under_lease() {
    World world(patient());
    world.start();
    world.hold_pointer("k", "value");
    const in_place::Words before(world.slot("k"), world.slot("k") + 8);
    world.carry_out(world.write_in_place("k", "other", world.node.now(world.now_ns) + 1), world.slot("k"));
    world.now_ns += second + second / 2;
    world.get(1, "k");
    world.complete_all();
    std::copy(before.begin(), before.end(), world.slot("k"));
    world.pump();
    if (world.sink[1].one_sided) violation("an expired item was served by a pointer");
}

// S4: the table holds for one key the pointer of another.
void wrong_key() {
    World world(patient());
    world.start();
    world.hold_pointer("one", "value of one");
    world.store("two", "value of two");
    world.table().put(world.hash("two"), *world.pointer("one"), world.now_ns);
    if (world.fetch("two") != "value of two") violation("another key's value was served");
}

// S9: the table holds impossible places.
void wrong_place() {
    World world(patient());
    world.start();
    world.store("k", "value");
    fabric::LeasedPtr leased;
    leased.ptr.incarnation = world.node.incarnation;
    leased.ptr.length = 100;
    leased.valid_until_ns = world.now_ns + second;
    const uint64_t end = world.wire->region_bytes;
    for (uint64_t offset : {end, end - 96, uint64_t(1) << 40}) {
        leased.ptr.offset = offset / 16 * 16;
        leased.ptr.generation++;
        world.table().put(world.hash("k"), leased, world.now_ns);
        world.get(offset, "k");
    }
    leased.ptr.offset = 4096;
    leased.ptr.region = 3;
    leased.ptr.generation++;
    world.table().put(world.hash("k"), leased, world.now_ns);
    const uint64_t posts = world.wire->posts;
    world.get(1, "k");
    if (world.wire->posts != posts) violation("a region that is none was read");
    world.wire->posted.clear();
    if (world.wire->outside != 0) violation("a read outside of the region was posted");
    world.wire->end = fabric::ChannelEnd::reset;
    world.pump();
}

// S12: the reader gives up, the transport does not.
void reused_buffer() {
    World world(patient());
    world.start();
    world.hold_pointer("one", "value of one");
    world.hold_pointer("two", "value of two");
    world.get(1, "one", 100 * ms);
    world.advance(100 * ms);
    world.get(2, "two", second);
    if (world.wire->overlaps != 0) violation("a landing buffer was reused while a read was under way");
    world.complete(1);                         // two's copy is made,
    world.carry_out(world.wire->posted.at(0));  // then the late one's, and then two is looked at
    world.link->ready(world.now_ns);
    world.pump();
    if (world.sink[2].value != "value of two") violation("a late read wrote over another's value");
}

// S5: an item is replaced, and replaced again in its place, during a copy by the index's words.
void torn_without_lease() {
    proxy::LinkConfig config = patient();
    config.probe_index = true;
    const std::string values[] = {std::string(100, 'a'), std::string(100, 'b'), std::string(100, 'c')};
    for (const uint32_t cut : {8u, 16u, 24u, 40u, 48u, 80u, 136u}) {
        for (const bool end_first : {false, true}) {
            World world(config);
            world.start();
            set_elsewhere(world, "k", values[0]);
            world.fetch("k");
            world.get(1, "k", 100 * second);
            world.complete_all();
            world.link->ready(world.now_ns);
            const fabric::ReadRequest item = world.wire->posted.at(0);
            const char* from = world.node.cache->view().base + item.ptr.offset;
            char* to = reinterpret_cast<char*>(item.landing);
            const uint32_t rest = item.ptr.length - cut;
            std::memcpy(to + (end_first ? cut : 0), from + (end_first ? cut : 0), end_first ? rest : cut);
            set_elsewhere(world, "k", values[1]);
            set_elsewhere(world, "k", values[2]);
            std::memcpy(to + (end_first ? 0 : cut), from + (end_first ? 0 : cut), end_first ? cut : rest);
            world.wire->posted.clear();
            world.wire->completed.push_back({item.token, fabric::ReadStatus::done});
            world.pump();
            bool whole = false;
            for (const std::string& value : values) whole |= world.sink[1].value == value;
            if (!whole) violation("a torn item was served");
        }
    }
}

// S17: a read begins before the end of the node's right and completes after it; another begins after it.
void read_without_right(bool by_index) {
    proxy::LinkConfig config = patient();
    config.probe_index = by_index;
    World world(config);
    world.node.right_ms = 1000;
    world.start();
    if (!by_index) world.hold_pointer("k", "value");
    if (by_index) set_elsewhere(world, "k", "value"), world.fetch("k");
    const auto reads = [&world] { return world.counters().get_index.get() + world.counters().get_onesided.get(); };
    const uint64_t before = reads();
    world.get(1, "k", 100 * second);
    world.complete_all();
    world.now_ns += second + second / 4, world.node.right_ms = 0;
    world.pump();
    world.fetch("k");
    if (reads() != before) violation("memory was read after the end of its node's right");
    world.node.right_ms = 10'000;
    world.fetch("none"), world.fetch("k");
    if (reads() == before) violation("one two-sided reply does not renew the right of all keys");
}

// S13: the index leads to an item whose time has come.
void expired_without_lease() {
    proxy::LinkConfig config = patient();
    config.probe_index = true;
    World world(config);
    world.start();
    set_elsewhere(world, "k", "value", world.node.now(world.now_ns) + 2);
    world.fetch("k");
    world.now_ns += 2 * second;
    if (!world.fetch("k").empty()) violation("an expired item was served");
}

// ---- random histories -------------------------------------------------------------------------------

class History {
  public:
    explicit History(uint64_t seed) : random_(seed), cold_(seed % 2 == 0), world_(config(seed)) {
        world_.sink.then = [this](uint64_t ticket) {
            const uint64_t by_index = world_.counters().get_index.get();
            if (by_index != by_index_) leaseless_.insert(ticket);
            by_index_ = by_index;
        };
    }

    void run(int steps) {
        world_.prepare = [this](Wire& wire) {
            if (below(3) == 0) wire.events_left = int64_t(below(80));
            if (below(8) == 0) wire.takes_bytes = 1 + below(400);
        };
        world_.node.executed = [this] { note_values(); };
        world_.node.credits = uint32_t(1 + below(6));
        world_.node.frame_bytes_max = 4096u << below(3);
        world_.link->start(world_.now_ns);
        for (int i = 0; i < steps; i++) {
            step();
            note_values();
            judge();
            account(world_.wire ? world_.wire->posted.size() + world_.wire->completed.size() : 0);
        }
        world_.link->stop(world_.now_ns);
        account(0);
        judge();
        for (const auto& [ticket, asked] : asked_)
            if (world_.sink[ticket].times != 1) violation("an accepted request was not answered once");
        if (world_.node.bad_frames != 0) violation("the node got what was no frame");
        if (world_.wire && world_.wire->overlaps != 0) violation("two reads into one buffer");
        if (world_.landing().lent_bytes() != 0) violation("a landing buffer was lost");
        const proxy::LinkCounters& counters = world_.counters();
        onesided += counters.get_onesided.get();
        index += counters.get_index.get();
        index_void += counters.read_invalid_crc.get() + counters.read_invalid_flushed.get() +
                      counters.read_invalid_expired.get();
        invalid += counters.read_invalid_dead.get() + counters.read_invalid_generation.get() +
                   counters.read_invalid_grown.get();
        void_leases += counters.read_invalid_lease.get();
        late += counters.read_late.get();
        answers += asked_.size();
        connections += uint64_t(world_.connections);
    }

    // Of the READs that were posted, only those are neither completed nor failed that are under way.
    void account(uint64_t under_way) {
        const proxy::LinkCounters& c = world_.counters();
        const uint64_t over = c.reads_completed.get() + c.reads_failed_transport.get() + c.reads_failed_owner.get() +
                              c.reads_failed_lost.get();
        if (world_.link->channel() == nullptr) under_way = 0;
        if (c.reads_posted.get() != over + under_way) violation("a READ that was posted is not accounted for");
    }

    static inline uint64_t index = 0, index_void = 0;
    static inline uint64_t onesided = 0, answers = 0, connections = 0, invalid = 0, void_leases = 0, late = 0;

  private:
    struct Request {
        std::string key;
        uint64_t step = 0;
        bool get = false;
        bool judged = false;
    };

    static proxy::LinkConfig config(uint64_t seed) {
        proxy::LinkConfig config = link_config();
        config.reconnect = {10 * ms, 200 * ms, second};
        config.under_way.exchanges_max = 1 + uint32_t(seed % 40);
        config.under_way.bytes_max = 100'000;
        config.reads_max = 1 + uint32_t(seed % 7);
        config.seed = seed;
        config.ping_ns = 3 * second;
        config.probe_index = seed % 2 == 0;
        if (config.probe_index) config.reads_max += 16;  // a probe takes several steps
        return config;
    }

    uint64_t below(uint64_t n) { return random_() % n; }
    std::string key() { return "key" + std::to_string(below(keys)); }
    std::string value() {
        const uint64_t sizes[] = {10, 10, 60, 60, 400, 3000, 20'000};
        std::string value = std::to_string(++values_) + " ";
        value.resize(value.size() + sizes[below(7)], char('a' + values_ % 26));
        return value;
    }

    void step() {
        step_++;
        world_.now_ns += below(1000);  // no two clock readings are the same moment
        Wire* wire = world_.wire && world_.wire->alive ? world_.wire.get() : nullptr;
        switch (below(16)) {
            case 0:
            case 1:
            case 2:
            case 3: ask_get(); return;
            case 4: ask_change(); return;
            case 5:
            case 6: world_.link->flush(world_.now_ns); return;
            case 7:
            case 8:
                if (wire != nullptr) world_.node.serve(*wire, world_.now_ns);
                return;
            case 9:
            case 10: world_.link->ready(world_.now_ns); return;
            case 11:
            case 12:
                for (int moves = cold_ ? 12 : 1; moves > 0 && wire != nullptr && !wire->posted.empty(); moves--)
                    move_read(*wire);
                if (cold_) world_.link->ready(world_.now_ns);
                return;
            case 13: elsewhere(); return;
            case 14:
                world_.now_ns += below(8) == 0 ? below(1500 * ms) : below(5 * ms);
                world_.link->tick(world_.now_ns);
                return;
            default: disturb(wire); return;
        }
    }

    void ask_get() {
        const std::string name = key();
        world_.session = below(3);
        const uint64_t ticket = ++ticket_;
        const AskResult asked = world_.get(ticket, name, below(10) == 0 ? below(100 * ms) : 5 * second);
        if (asked == AskResult::accepted) asked_[ticket] = {name, step_, true, false};
    }

    void ask_change() {
        const std::string name = key();
        world_.session = below(3);
        const uint64_t ticket = ++ticket_;
        AskResult asked;
        if (below(30) == 0) {
            asked = world_.link->requests().ask(protocol::FlushOp{}, world_.options(ticket, 5 * second), world_.sink);
        } else if (below(4) == 0) {
            protocol::DeleteOp op;
            op.key = {name, 0};
            asked = world_.link->requests().ask(op, world_.options(ticket, 5 * second), world_.sink);
        } else {
            asked = world_.set(ticket, name, value(), below(10) == 0 ? below(100 * ms) : 5 * second);
        }
        if (asked == AskResult::accepted) asked_[ticket] = {name, step_, false, false};
    }

    // Advances a read by one step: its copy begins, goes on, is complete, is reported.
    void move_read(Wire& wire) {
        const size_t which = below(wire.posted.size());
        const fabric::ReadRequest read = wire.posted[which];
        const char* from = world_.node.cache->view().base + read.ptr.offset;
        char* to = reinterpret_cast<char*>(read.landing);
        const uint64_t cut = below(read.ptr.length / 8 + 1) * 8;
        if (below(cold_ ? 30 : 5) == 0) return world_.complete(which, fabric::ReadStatus::failed);
        switch (below(5)) {
            case 0: std::memcpy(to, from, cut); return;  // the rest comes later, or never
            case 1: std::memcpy(to + cut, from + cut, read.ptr.length - cut); return;
            case 2: return spoil(which, cut);
            default: world_.complete(which); return;
        }
    }

    // The copy is complete, a part of it from before something else happened.
    void spoil(size_t which, uint64_t cut) {
        const fabric::ReadRequest read = world_.wire->posted[which];
        world_.carry_out(read);
        char* landing = reinterpret_cast<char*>(read.landing);
        const std::string before(landing, cut);
        for (int i = 0; i < 3; i++) {
            elsewhere();
            note_values();
        }
        world_.complete(which);
        std::memcpy(landing, before.data(), cut);
    }

    void elsewhere() {
        if (below(3) == 0) {
            // Stores others' items, in the memory of dead ones.
            for (int i = 0; i < 50; i++)
                set_elsewhere(world_, "filler" + std::to_string(below(2000)), value());
            return;
        }
        const std::string name = key();
        const NodeSeconds now = world_.node.now(world_.now_ns);
        if (below(20) == 0) return world_.node.cache->flush_all(now);
        const NodeSeconds exptime = below(6) == 0 ? now + 1 + NodeSeconds(below(3)) : never_expires;
        if (below(4) != 0) return set_elsewhere(world_, name, value(), exptime);
        protocol::DeleteOp op;
        op.key = world_.node.cache->key(name);
        world_.node.cache->remove(op, now);
    }

    void disturb(Wire* wire) {
        if (below(10) != 0) return;
        switch (below(5)) {
            case 0:
                if (wire != nullptr) wire->end = fabric::ChannelEnd::reset;
                return;
            case 1: world_.node.hold = !world_.node.hold && below(3) == 0; return;
            case 2: world_.node.backwards = !world_.node.backwards; return;
            case 3:
                if (below(8) != 0 || wire == nullptr) return;
                // The transport of a node that is gone carries no more reads out.
                wire->end = fabric::ChannelEnd::owner_dead;
                wire->posted.clear();
                world_.link->ready(world_.now_ns);
                world_.node.restart();
                return;
            default:
                world_.now_ns += below(6 * second);
                world_.link->tick(world_.now_ns);
                return;
        }
    }

    // Records each key's value, if it has changed.
    void note_values() {
        for (uint64_t i = 0; i < keys; i++) {
            const std::string name = "key" + std::to_string(i);
            std::string value;
            protocol::GetOp op;
            op.key = world_.node.cache->key(name);
            op.peek = true;
            world_.node.cache->get(op, world_.node.now(world_.now_ns), [&](const protocol::ItemMeta& meta) {
                value.resize(meta.value_len);
                return value.data();
            });
            auto& held = held_[name];
            if (held.empty() || held.back().second != value) held.push_back({step_, value});
        }
    }

    // Did the key hold the value at some step from `first` on?
    bool held(const std::string& name, const std::string& value, uint64_t first) {
        const auto& all = held_[name];
        for (size_t i = all.size(); i-- > 0;) {
            if (all[i].second == value) return true;
            if (all[i].first < first) return false;  // it held this one at `first`
        }
        return value.empty();
    }

    void judge() {
        for (auto& [ticket, asked] : asked_) {
            if (asked.judged || !world_.sink.has(ticket)) continue;
            asked.judged = true;
            const Sink::Told& told = world_.sink[ticket];
            if (!asked.get || told.failed) continue;
            const bool by_pointer = told.one_sided && leaseless_.count(ticket) == 0;
            if (by_pointer && world_.now_ns > world_.node.granted_ns[asked.key] + world_.node.term_ms * ms)
                violation("a one-sided read of " + asked.key + " after the node's lease was over");
            if (!held(asked.key, told.value, asked.step))
                violation("a get of " + asked.key + " brought what it did not hold: " +
                          told.value.substr(0, 20) + (told.one_sided ? " one-sided" : ""));
        }
    }

    static constexpr uint64_t keys = 4;

    std::mt19937_64 random_;
    bool cold_;
    World world_;
    uint64_t step_ = 0, ticket_ = 0, values_ = 0;
    uint64_t by_index_ = 0;
    std::set<uint64_t> leaseless_;  // what the index answered
    std::map<uint64_t, Request> asked_;
    std::map<std::string, std::vector<std::pair<uint64_t, std::string>>> held_;
};

[[maybe_unused]] void histories(int runs) {
    for (int seed = 1; seed <= runs; seed++) History(uint64_t(seed)).run(4000);
    auto sum = [](uint64_t n) { return static_cast<unsigned long long>(n); };
    tap::note("%d histories over %llu connections: %llu answers, %llu by pointers, %llu by the index (%llu torn, "
              "expired or flushed); %llu reads of what was replaced, %llu whose lease was over, %llu late",
              runs, sum(History::connections), sum(History::answers), sum(History::onesided),
              sum(History::index), sum(History::index_void),
              sum(History::invalid), sum(History::void_leases), sum(History::late));
}

}  // namespace

int main() {
    slow_reply();
    slow_completion();
    node_of_before();
    replaced();
    removed();
    written_in_place();
    torn_under_lease();
    expired_under_lease();
    wrong_key();
    wrong_place();
    reused_buffer();
    torn_without_lease();
    expired_without_lease();
    for (const bool by_index : {false, true}) read_without_right(by_index);
    if (broken::must_catch()) {
        tap::ok(violations > 0, "the rule that was broken on purpose is caught");
        return tap::done();
    }
    tap::is(violations, 0, "in chosen moments nothing is served that must not be");
    histories(110);
    tap::is(violations, 0, "nor in random histories, and each request is answered once");
    tap::ok(History::onesided > 1000, "one-sided reads answered often in them");
    tap::ok(History::connections > 200, "over many connections");
    tap::ok(History::index > 1000 && History::index_void > 10, "in half of them without a pointer");
    tap::ok(History::invalid > 100 && History::late > 20, "and often met what was replaced, or came too late");
    return tap::done();
}
