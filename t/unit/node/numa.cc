// SPDX-License-Identifier: BSD-3-Clause
// NUMA on simulated hosts: parsing of the kernel's files, and the node to which each part of memory is bound.
// Partitions take their pages at home first and from all of memory in the end. The real kernel accepts the bindings,
// where it may.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/mapping.h"
#include "node/memory/numa.h"
#include "t/lib/tap.h"
#include "t/unit/node/invariants.h"

using namespace farcached;
using namespace farcached::node;

namespace {

constexpr NodeSeconds at_start = 1000;
using Numbers = std::vector<uint32_t>;

void lists() {
    tap::ok(parse_number_list("0") == Numbers{0} && parse_number_list("0-3,8\n") == Numbers({0, 1, 2, 3, 8}), "lists");
    tap::ok(parse_number_list("8,1-2, ").empty() && parse_number_list("8,1-2,1") == Numbers({1, 2, 8}), "in any order");
    bool none = true;
    for (const char* text : {"", "\n", "x", "1-", "-1", "3-1", "1,,2", ",", "1,", "0-4294967295", "1024", "99999999999", "1 2"})
        none = none && parse_number_list(text).empty();
    tap::ok(none, "what is no list is empty");
}

struct Folder {
    Folder() {
        char name[] = "/tmp/farcached-numa-XXXXXX";
        path = mkdtemp(name);
    }
    ~Folder() { std::filesystem::remove_all(path); }
    void write(const std::string& file, const std::string& text) { std::ofstream(path + "/" + file) << text; }
    std::string path;
};

void hosts() {
    Folder folder;
    const auto read = [&] { return read_numa_nodes(folder.path, folder.path + "/status"); };
    tap::ok(read().empty(), "no files, no nodes");
    folder.write("has_memory", "0-3\n");
    tap::ok(read().empty(), "nor if the kernel does not say what may be used");
    folder.write("status", "Name:\tx\nMems_allowed:\t0000000f\nMems_allowed_list:\t0-7\nThreads:\t1\n");
    tap::ok(read() == Numbers({0, 1, 2, 3}), "four nodes");
    folder.write("status", "Mems_allowed_list:\t1,3\n");
    tap::ok(read() == Numbers({1, 3}), "of which two may be used");
    tap::note("here: %d nodes", int(read_numa_nodes().size()));
}

// Records for its calls the bytes and the node (`in_turns`: all).
class Told : public MemoryBinder {
  public:
    static constexpr uint32_t in_turns = 9999;
    bool prefer(void* at, size_t bytes, uint32_t node) override { return note(at, bytes, node); }
    bool interleave(void* at, size_t bytes, const std::vector<uint32_t>&) override { return note(at, bytes, in_turns); }

    // The node of a byte; -1: no call covered it.
    int64_t node_of(const void* at) const {
        auto found = ranges_.upper_bound(reinterpret_cast<uintptr_t>(at));
        if (found == ranges_.begin()) return -1;
        --found;
        return reinterpret_cast<uintptr_t>(at) < found->second.first ? int64_t(found->second.second) : -1;
    }

    bool refuses = false;
    uint64_t calls = 0, misaligned = 0, twice = 0;

  private:
    bool note(void* at, size_t bytes, uint32_t node) {
        calls++;
        const uintptr_t begin = reinterpret_cast<uintptr_t>(at);
        const size_t page = size_t(sysconf(_SC_PAGESIZE));
        if (begin % page != 0 || bytes % page != 0 || bytes == 0) misaligned++;
        if (node_of(at) != -1 || node_of(static_cast<char*>(at) + bytes - 1) != -1) twice++;
        ranges_[begin] = {begin + bytes, node};
        return !refuses;
    }
    std::map<uintptr_t, std::pair<uintptr_t, uint32_t>> ranges_;
};

Config config_of(const Numbers& nodes, Told& told) {
    Config config;
    config.memory_bytes = 16 << 20;
    config.item_bytes_max = 1 << 20;
    config.partitions = 8;
    config.policy = PolicyKind::pdla;
    config.lease.enabled = true;
    config.seed = 11;
    config.numa_nodes = nodes;
    config.binder = &told;
    return config;
}

bool set(Node& cache, const std::string& key, const std::string& value) {
    protocol::StoreOp op;
    op.key = cache.key(key);
    op.value = value;
    return cache.store(op, at_start).status == protocol::StoreReply::Status::stored;
}

bool leased(Node& cache, const std::string& key) {
    protocol::GetOp op;
    op.key = cache.key(key);
    op.lease = true;
    return cache.get(op, at_start, [](const protocol::ItemMeta&) -> char* { return nullptr; }).grant.has_value();
}

// Each page's memory, its descriptors and each partition's index are bound where they should be.
void bound(const Numbers& nodes) {
    const std::string title = std::to_string(nodes.size()) + " nodes: ";
    Told told;
    Node cache(config_of(nodes, told));
    Node::Impl& impl = cache.impl();
    std::map<int64_t, uint64_t> pages, zone_pages;
    uint64_t changes = 0, astray = 0;
    const uint64_t limit = impl.arena.pool().limit_pages();
    int64_t before = -1;
    for (uint64_t page = 0; page < impl.arena.pool().reserved_pages(); page++) {
        const char* at = reinterpret_cast<char*>(impl.region.arena()) + page * layout::page_bytes;
        const int64_t node = told.node_of(at);
        if (node != told.node_of(at + layout::page_bytes - 1)) astray++;
        if (node != told.node_of(&impl.arena.descriptor(make_ref(page, 0)))) astray++;
        if ((node == int64_t(Told::in_turns)) != (page >= limit)) astray++;
        if (page >= limit) continue;
        pages[node]++;
        if (page < impl.arena.pool().lease_zone()) zone_pages[node]++;
        changes += node != before;
        before = node;
    }
    bool equal = pages.size() == nodes.size() && zone_pages.size() == nodes.size();
    for (const uint32_t node : nodes)
        equal = equal && pages[node] == limit / nodes.size() && zone_pages[node] == limit / 2 / nodes.size();
    tap::ok(equal && astray == 0, title + "equal shares of memory and of the lease zone, descriptors beside them");
    tap::is(changes, 2 * nodes.size(), title + "in contiguous parts");
    std::map<int64_t, uint64_t> partitions;
    for (uint32_t i = 0; i < 8; i++) {
        const int64_t node = told.node_of(reinterpret_cast<char*>(impl.region.buckets(i)) + 8192);
        if (node != told.node_of(reinterpret_cast<char*>(impl.region.overflow(i)) + 8192)) astray++;
        partitions[node]++;
    }
    bool shared = astray == 0 && partitions.size() == nodes.size();
    for (const uint32_t node : nodes) shared = shared && partitions[node] == 8 / nodes.size();
    tap::ok(shared, title + "partitions are shared out, with their index");
    tap::ok(told.misaligned == 0 && told.twice == 0, title + "whole pages of the system's, and none twice");
    tap::is(cache.stats(at_start).numa_nodes, nodes.size(), title + "as the statistics say");
}

// Pages of each partition that are at home, and that are not.
struct Places {
    uint64_t home = 0, elsewhere = 0;
};

Places places(Node& cache, const Told& told, const Numbers& nodes) {
    Node::Impl& impl = cache.impl();
    Places sum;
    for (uint64_t page = 0; page < impl.arena.pool().reserved_pages(); page++) {
        const uint16_t owner = impl.arena.owner_hint(page);
        if (owner == Page::no_owner) continue;
        const int64_t node = told.node_of(reinterpret_cast<char*>(impl.region.arena()) + page * layout::page_bytes);
        (node == nodes[impl.arena.pool().home_of(owner, 8)] ? sum.home : sum.elsewhere)++;
    }
    return sum;
}

void used(const Numbers& nodes) {
    const std::string title = std::to_string(nodes.size()) + " nodes: ";
    Told told;
    Node cache(config_of(nodes, told));
    const std::string value(900, 'v');
    int i = 0;
    bool stored = true;
    for (; cache.stats(at_start).pages_used < 64; i++) stored = stored && set(cache, "k" + std::to_string(i), value);
    for (int k = 0; k < i; k++) {
        leased(cache, "k" + std::to_string(k));
        leased(cache, "k" + std::to_string(k));
    }
    const Places some = places(cache, told, nodes);
    tap::ok(some.home > 60 && some.elsewhere == 0, title + "pages are taken at home, those for leases, too");
    for (; cache.stats(at_start).pages_used < 256; i++) stored = stored && set(cache, "k" + std::to_string(i), value);
    for (int k = 0; k < 20'000; k++) stored = stored && set(cache, "m" + std::to_string(k), value);
    tap::ok(stored && cache.stats(at_start).pages_used == 256, title + "all memory is used");
    const Places all = places(cache, told, nodes);
    tap::ok(all.home > 200, title + "nearly all of it at home");

    tap::ok(cache.set_memory_limit(32 << 20, at_start), title + "the limit is raised");
    for (int k = 0; k < 40'000; k++) stored = stored && set(cache, "n" + std::to_string(k), value);
    tap::ok(stored && cache.stats(at_start).pages_used == 512, title + "and all of that used");
    tap::ok(cache.set_memory_limit(8 << 20, at_start), title + "it is lowered");
    for (int k = 0; k < 20'000; k++) stored = stored && set(cache, "o" + std::to_string(k), value);
    tap::ok(stored && cache.stats(at_start).pages_used <= 128, title + "and holds");
    tap::is(wrong_in(cache, at_start, false), "", title + "nothing is lost or counted twice");
}

// All keys are of one partition, whose home holds only a part of the memory.
void not_lost() {
    const Numbers nodes = {0, 1, 2, 3};
    Told told;
    Node cache(config_of(nodes, told));
    const std::string value(900, 'v');
    uint64_t first_elsewhere = 0;
    bool stored = true;
    for (int i = 0, taken = 0; taken < 18'000; i++) {
        const std::string key = "k" + std::to_string(i);
        if (&cache.impl().partitions.of(cache.key(key).hash) != &cache.impl().partitions[7]) continue;
        stored = stored && set(cache, key, value);
        if (taken++ % 64 == 0 && first_elsewhere == 0 && places(cache, told, nodes).elsewhere != 0)
            first_elsewhere = cache.stats(at_start).pages_used;
    }
    tap::ok(first_elsewhere > 256 / 8 && first_elsewhere < 256 / 4, "a partition takes what its home has outside the lease zone,");
    tap::ok(stored && cache.stats(at_start).pages_used == 256, "then all that others have");
    tap::ok(set(cache, "large", std::string(900'000, 'l')), "and there is room for a large item");
}

void edges() {
    Told told;
    Node one(config_of({3}, told)), none(config_of({}, told));
    tap::is(told.calls, 0u, "with one node, or none known, nothing is bound");
    tap::ok(one.stats(at_start).numa_nodes == 1 && none.stats(at_start).numa_nodes == 1, "which is counted as one");
    told.refuses = true;
    Node refused(config_of({0, 1}, told));
    tap::is(refused.stats(at_start).numa_refused, told.calls, "what the kernel refuses is counted,");
    tap::ok(set(refused, "k", "value"), "and the memory used all the same");
    Told huge;
    Config config = config_of({0, 1, 2}, huge);
    config.huge_pages = true;
    config.memory_bytes = 64 << 20;
    Node large(config);
    bool whole = true;
    for (const auto* ranges : {&large.impl().arena.pool().zone_ranges(), &large.impl().arena.pool().other_ranges()})
        for (const HomeRange& range : *ranges) whole = whole && range.begin % 32 == 0;
    tap::ok(whole, "parts begin at huge pages if those are requested");
}

void kernel() {
    constexpr size_t bytes = 1 << 20;
    Mapping memory(Mapping::Kind::shared_memory, bytes, false);
    const Numbers here = read_numa_nodes();
    if (here.empty()) return tap::skip(2, "the kernel lists no NUMA node");
    if (!kernel_binder().prefer(memory.data(), bytes, here[0])) return tap::skip(2, "mbind is refused here");
    memory.data()[0] = 1;
    tap::ok(kernel_binder().interleave(memory.data(), bytes, here), "the kernel accepts a valid binding");
    tap::ok(!kernel_binder().prefer(memory.data() + 1, bytes, here[0]), "and refuses an invalid one");
}

}  // namespace

int main() {
    lists();
    hosts();
    for (const Numbers& nodes : {Numbers{0, 1}, Numbers{0, 2, 5, 7}}) {
        bound(nodes);
        used(nodes);
    }
    not_lost();
    edges();
    kernel();
    return tap::done();
}
