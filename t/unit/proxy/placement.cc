// SPDX-License-Identifier: BSD-3-Clause
// Placement against libmemcached itself, set up here as its clients do. Pinned answers of both reveal a library that
// moves keys.
#include <libmemcached/memcached.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "proxy/placement.h"
#include "t/lib/tap.h"

using namespace farcached;
using namespace farcached::proxy;

namespace {

using Snapshot = std::shared_ptr<const Placement>;

struct Host {
    std::string name;
    uint16_t port;
    uint32_t weight;
};

// libmemcached for a list of hosts. Never connects.
class Reference {
  public:
    // A list is faster: each addition rebuilds the ring.
    Reference(const std::vector<Host>& hosts, Distribution distribution, KeyHash hash,
              bool one_by_one = false)
        : client_(memcached_create(nullptr)) {
        CHECK(client_ != nullptr);
        set(MEMCACHED_BEHAVIOR_NO_BLOCK, 1);
        if (distribution == Distribution::ketama) set(MEMCACHED_BEHAVIOR_KETAMA, 1);
        if (distribution == Distribution::ketama_weighted) set(MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1);
        if (distribution == Distribution::modula) {
            set(MEMCACHED_BEHAVIOR_DISTRIBUTION, MEMCACHED_DISTRIBUTION_MODULA);
        }
        if (distribution == Distribution::random) {
            set(MEMCACHED_BEHAVIOR_DISTRIBUTION, MEMCACHED_DISTRIBUTION_RANDOM);
        }
        // Both have the functions in the same order.
        if (hash != KeyHash::automatic) set(MEMCACHED_BEHAVIOR_HASH, uint64_t(hash) - 1);
        one_by_one ? add_each(hosts) : add_list(hosts);
    }
    ~Reference() { memcached_free(client_); }
    Reference(const Reference&) = delete;
    Reference& operator=(const Reference&) = delete;

    uint32_t node_of(std::string_view key) const {
        return memcached_generate_hash(client_, key.data(), key.size());
    }
    // The same by the function that clients call.
    std::string server_of(std::string_view key) {
        memcached_return_t status;
        const auto* server = memcached_server_by_key(client_, key.data(), key.size(), &status);
        CHECK(server != nullptr);
        return std::string(memcached_server_name(server)) + ":" +
               std::to_string(memcached_server_port(server));
    }
    void add_unix_socket(const char* path) {
        memcached_return_t added = memcached_server_add_unix_socket(client_, path);
        CHECK(added == MEMCACHED_SUCCESS);
    }

  private:
    void add_each(const std::vector<Host>& hosts) {
        for (const Host& host : hosts) {
            memcached_return_t added =
                memcached_server_add_with_weight(client_, host.name.c_str(), host.port, host.weight);
            CHECK(added == MEMCACHED_SUCCESS);
        }
    }
    void add_list(const std::vector<Host>& hosts) {
        memcached_server_list_st list = nullptr;
        for (const Host& host : hosts) {
            memcached_return_t status;
            list = memcached_server_list_append_with_weight(list, host.name.c_str(), host.port, host.weight,
                                                            &status);
            CHECK(status == MEMCACHED_SUCCESS);
        }
        memcached_return_t pushed = memcached_server_push(client_, list);
        CHECK(pushed == MEMCACHED_SUCCESS);
        memcached_server_list_free(list);
    }
    void set(memcached_behavior_t behavior, uint64_t value) {
        memcached_return_t done = memcached_behavior_set(client_, behavior, value);
        CHECK(done == MEMCACHED_SUCCESS);
    }
    memcached_st* client_;
};

Snapshot made(const std::vector<PlacementNode>& nodes, const PlacementOptions& options) {
    auto result = Placement::make(nodes, options);
    if (auto* errors = std::get_if<Placement::Errors>(&result)) tap::bail_out(errors->front());
    return std::get<Snapshot>(result);
}

// One line per error.
std::string errors_of(const std::vector<PlacementNode>& nodes, const PlacementOptions& options) {
    auto result = Placement::make(nodes, options);
    std::string text;
    if (auto* errors = std::get_if<Placement::Errors>(&result)) {
        for (const std::string& error : *errors) text += error + "\n";
    }
    return text;
}

std::vector<PlacementNode> nodes_of(const std::vector<Host>& hosts) {
    std::vector<PlacementNode> nodes;
    for (const Host& host : hosts) {
        nodes.push_back({"node" + std::to_string(nodes.size()), host.name + ":" + std::to_string(host.port),
                         host.weight});
    }
    return nodes;
}

std::vector<Host> random_hosts(std::mt19937& random, size_t count, bool weights) {
    std::vector<Host> hosts;
    for (size_t i = 0; i < count; i++) {
        std::string name = random() % 2 ? "cache" + std::to_string(i) + ".example.org"
                                        : "10.0." + std::to_string(random() % 256) + "." + std::to_string(i);
        uint16_t port = random() % 2 ? 11211 : uint16_t(1024 + random() % 60000);
        hosts.push_back({name, port, weights ? uint32_t(1 + random() % 20) : 1});
    }
    return hosts;
}

std::vector<std::string> random_keys(std::mt19937& random, size_t count) {
    std::vector<std::string> keys(count);
    for (std::string& key : keys) {
        size_t length = random() % 8 == 0 ? 1 + random() % limits::key_bytes_max : 1 + random() % 40;
        while (key.size() < length) key += char('!' + random() % 94);
    }
    return keys;
}

bool built_in(KeyHash hash) {
    if (hash == KeyHash::automatic) return true;
    return errors_of({{"a", "", 1}}, {Distribution::modula, hash, ""}).empty();
}

void test_equal(Distribution distribution, bool weights) {
    std::mt19937 random(7);
    for (size_t h = 0; h < key_hash_names.size(); h++) {
        KeyHash hash = KeyHash(h);
        std::string what = std::string(name_of(distribution)) + (weights ? ", weights, " : ", ") +
                           std::string(name_of(hash)) + ": 1 to 20 nodes as libmemcached's";
        if (!built_in(hash)) {
            tap::skip(1, "this libhashkit was built without " + std::string(name_of(hash)));
            continue;
        }
        uint64_t wrong = 0;
        for (size_t count = 1; count <= 20; count++) {
            std::vector<Host> hosts = random_hosts(random, count, weights);
            Reference reference(hosts, distribution, hash);
            Snapshot placement = made(nodes_of(hosts), {distribution, hash, ""});
            for (const std::string& key : random_keys(random, 150)) {
                uint32_t node = placement->node_of(key, 0);
                const Host& host = hosts[node];
                if (node != reference.node_of(key)) wrong++;
                if (host.name + ":" + std::to_string(host.port) != reference.server_of(key)) wrong++;
            }
        }
        tap::is(wrong, 0u, what);
    }
}

// libmemcached asks the process's random(), which we can wind back.
void test_random() {
    std::mt19937 random(8);
    std::vector<Host> hosts = random_hosts(random, 7, false);
    Reference reference(hosts, Distribution::random, KeyHash::automatic);
    Snapshot placement = made(nodes_of(hosts), {Distribution::random, KeyHash::automatic, ""});
    std::vector<uint32_t> theirs, ours, met(7);
    srandom(1);
    for (int i = 0; i < 1000; i++) theirs.push_back(reference.node_of("key"));
    srandom(1);
    for (int i = 0; i < 1000; i++) ours.push_back(placement->node_of("key", uint32_t(::random())));
    for (uint32_t node : ours) met[node]++;
    tap::ok(theirs == ours, "random: the chance that libmemcached draws gives the node it takes");
    uint32_t least = 1000;
    for (uint32_t times : met) least = std::min(least, times);
    tap::ok(least > 50, "and every node has its share");
}

void test_hash_as() {
    std::vector<Host> hosts = {{"10.0.0.1", 11211, 1}, {"10.0.0.1", 11300, 1}, {"::1", 11211, 1},
                               {"::1", 11301, 1},      {"cache", 11211, 1},    {"cache.example.org", 1, 1}};
    Reference reference(hosts, Distribution::ketama_weighted, KeyHash::automatic);
    reference.add_unix_socket("/run/cache.sock");
    Snapshot placement = made({{"a", "10.0.0.1:11211", 1}, {"b", "10.0.0.1:11300", 1},
                               {"c", "[::1]:11211", 1}, {"d", "[::1]:11301", 1}, {"cache", "", 1},
                               {"f", "cache.example.org:1", 1}, {"g", "/run/cache.sock:0", 1}},
                              {Distribution::ketama_weighted, KeyHash::automatic, ""});
    std::mt19937 random(9);
    uint64_t wrong = 0;
    std::vector<uint64_t> met(7);
    for (const std::string& key : random_keys(random, 5000)) {
        wrong += placement->node_of(key, 0) != reference.node_of(key);
        met[placement->node_of(key, 0)]++;
    }
    tap::is(wrong, 0u, "hash_as: port 11211, another, IPv6, a bare name, a Unix socket");
    tap::ok(*std::min_element(met.begin(), met.end()) > 300, "each of them got keys");
}

void test_tags() {
    std::vector<Host> hosts = {{"a", 1, 1}, {"b", 1, 1}, {"c", 1, 1}, {"d", 1, 1}, {"e", 1, 1}};
    Snapshot whole = made(nodes_of(hosts), {Distribution::ketama, KeyHash::automatic, ""});
    Snapshot tagged = made(nodes_of(hosts), {Distribution::ketama, KeyHash::automatic, "{}"});
    Snapshot bars = made(nodes_of(hosts), {Distribution::ketama, KeyHash::automatic, "||"});
    struct Row {
        const Snapshot& placement;
        const char* key;
        const char* hashed;
    };
    const Row rows[] = {
        {tagged, "user:{1234}:name", "1234"}, {tagged, "{1234}", "1234"},
        {tagged, "user:1234", "user:1234"},   {tagged, "user:{1234", "user:{1234"},
        {tagged, "user:1234}", "user:1234}"}, {tagged, "user:}1234{", "user:}1234{"},
        {tagged, "user:{}1234", "user:{}1234"}, {tagged, "{}{1234}", "{}{1234}"},
        {tagged, "{12}{34}", "12"},           {tagged, "{{12}34}", "{12"},
        {tagged, "}{12}", "12"},              {tagged, "{", "{"},
        {bars, "user|12|x", "12"},            {bars, "user||12|x", "user||12|x"},
        {bars, "user|12", "user|12"},         {whole, "user:{1234}", "user:{1234}"},
    };
    for (const Row& row : rows) {
        tap::is(row.placement->spot_of(row.key, 0), whole->spot_of(row.hashed, 0),
                std::string("hash tag: of ") + row.key + " is hashed " + row.hashed);
        tap::is(std::string(row.placement->hashed_part(row.key)), row.hashed, "which it returns");
    }
    Snapshot only = made({{"a", "", 1}}, {Distribution::ketama, KeyHash::automatic, "{}"});
    tap::is(only->node_of("{x}y", 5), 0u, "of one node all is its");
}

// What each node is told of its keys agrees with where keys go.
void test_owned() {
    std::mt19937 random(11);
    const std::vector<std::string> keys = random_keys(random, 5000);
    for (const Distribution distribution : {Distribution::ketama, Distribution::ketama_weighted, Distribution::modula}) {
        for (const size_t count : {size_t(1), size_t(2), size_t(17)}) {
            const std::vector<PlacementNode> nodes = nodes_of(random_hosts(random, count, distribution != Distribution::modula));
            const Snapshot placement = made(nodes, {distribution, KeyHash::fnv1a_64, "{}"});
            const std::vector<protocol::OwnedKeys> owned = placement->owned();
            uint64_t wrong = 0;
            for (const std::string& key : keys)
                for (uint32_t n = 0; n < count; n++) wrong += owned[n].owns(key) != (placement->node_of(key, 0) == n);
            tap::is(wrong, 0u, std::string(name_of(distribution)) + ": each key is owned by its node alone");
        }
    }
    tap::ok(made({{"a", "", 1}, {"b", "", 1}}, {Distribution::random, KeyHash::automatic, ""})->owned().empty(), "random: by any");
}

// Under ketama, the keys of a removed node are shared out in the order of a walk; all others stay.
void test_removal() {
    std::mt19937 random(10);
    std::vector<Host> hosts = random_hosts(random, 12, false);
    std::vector<PlacementNode> all = nodes_of(hosts);
    std::vector<std::string> keys = random_keys(random, 3000);
    for (Distribution distribution : {Distribution::ketama, Distribution::ketama_weighted}) {
        Snapshot before = made(all, {distribution, KeyHash::automatic, ""});
        uint64_t moved_wrongly = 0, elsewhere = 0, moved = 0;
        for (uint32_t gone = 0; gone < all.size(); gone++) {
            std::vector<PlacementNode> rest = all;
            rest.erase(rest.begin() + gone);
            Snapshot after = made(rest, {distribution, KeyHash::automatic, ""});
            for (const std::string& key : keys) {
                uint32_t now = after->node_of(key, 0);
                if (now >= gone) now++;  // as numbered before
                uint32_t was = before->node_of(key, 0);
                if (was != gone && now != was) moved_wrongly++;
                if (was != gone) continue;
                moved++;
                if (now != before->walk(before->spot_of(key, 0), 1)) elsewhere++;
            }
        }
        std::string name(name_of(distribution));
        tap::is(moved_wrongly, 0u, name + ": a node that goes moves its own keys only");
        tap::is(moved, keys.size(), name + ": each key had one node");
        tap::is(elsewhere, 0u, name + ": they go where the walk goes next");
    }
}

// A fleet grows from one node to 101. Each node that joins takes its share of the keys, in the mean of all joins. Under ketama no
// key moves between the others. Under ketama_weighted a few do: libmemcached's rounding changes the number of points of all nodes.
void test_joins() {
    constexpr uint32_t joins = 100;
    std::mt19937 random(14);
    const std::vector<std::string> keys = random_keys(random, 5000);
    for (const Distribution distribution : {Distribution::ketama, Distribution::ketama_weighted}) {
        std::vector<PlacementNode> nodes = {{"node0", "10.0.0.0:11300", 1}};
        std::vector<uint32_t> was(keys.size(), 0);
        uint64_t moved_between = 0;
        double moved = 0, ideal = 0;
        for (uint32_t joined = 1; joined <= joins; joined++) {
            const std::string number = std::to_string(joined);
            nodes.push_back({"node" + number, "10.0.0." + number + ":11300", 1});
            const Snapshot now = made(nodes, {distribution, KeyHash::automatic, ""});
            ideal += double(keys.size()) / double(nodes.size());
            for (size_t i = 0; i < keys.size(); i++) {
                const uint32_t node = now->node_of(keys[i], 0);
                moved += node == joined;
                moved_between += node != joined && node != was[i];
                was[i] = node;
            }
        }
        const std::string name(name_of(distribution));
        const double between_max = distribution == Distribution::ketama ? 0 : 0.1 * ideal;
        tap::ok(double(moved_between) <= between_max,
                name + ": keys that moved between others: " + std::to_string(moved_between) + " of " + std::to_string(moved));
        tap::ok(moved > 0.95 * ideal && moved < 1.05 * ideal,
                name + ": 100 joins moved " + std::to_string(moved / ideal) + " of their ideal shares");
    }
}

// Each of 100 nodes joins a fleet of 100 alone.
void test_joins_of_a_large_fleet() {
    constexpr uint32_t joins = 100, size = 100;
    std::mt19937 random(15);
    const std::vector<std::string> keys = random_keys(random, 20000);
    std::vector<PlacementNode> nodes;
    for (uint32_t i = 0; i < size; i++) nodes.push_back({"node" + std::to_string(i), "", 1});
    const PlacementOptions options = {Distribution::ketama, KeyHash::automatic, ""};
    const Snapshot before = made(nodes, options);
    nodes.emplace_back();
    uint64_t moved = 0, moved_between = 0;
    for (uint32_t joined = 0; joined < joins; joined++) {
        nodes.back() = {"new" + std::to_string(joined), "", 1};
        const Snapshot now = made(nodes, options);
        for (const std::string& key : keys) {
            const uint32_t node = now->node_of(key, 0);
            moved += node == size;
            moved_between += node != size && node != before->node_of(key, 0);
        }
    }
    const double share = double(moved) / joins / double(keys.size()) * (size + 1);
    tap::ok(share > 0.95 && share < 1.05, "a 101st node takes " + std::to_string(share) + " of its ideal share, mean of 100 joins");
    tap::is(moved_between, 0u, "no key moves between the others");
}

// The point reported for a place is the first that is not before it, or, behind the last, the first of all.
void test_points() {
    std::mt19937 random(12);
    Snapshot ring = made(nodes_of(random_hosts(random, 7, false)), {Distribution::ketama, {}, ""});
    std::vector<uint32_t> points;
    for (uint64_t at = 0; at <= UINT32_MAX;) {
        const uint32_t point = ring->point_of(uint32_t(at)).value();
        if (point < at) break;  // round the end
        points.push_back(point);
        at = uint64_t(point) + 1;
    }
    tap::is(points.size(), size_t(700), "each point is found");
    uint64_t wrong = 0;
    for (int i = 0; i < 10'000; i++) {
        const uint32_t place = uint32_t(random());
        auto want = std::lower_bound(points.begin(), points.end(), place);
        if (want == points.end()) want = points.begin();
        if (ring->point_of(place) != *want || ring->node_at(place) != ring->node_at(*want)) wrong++;
    }
    tap::is(wrong, 0u, "a place belongs to the first that is not before it, whose node is its own");
    Snapshot one = made(nodes_of(random_hosts(random, 1, false)), {Distribution::ketama, {}, ""});
    Snapshot modula = made(nodes_of(random_hosts(random, 5, false)), {Distribution::modula, {}, ""});
    tap::ok(!one->point_of(7).has_value() && !modula->point_of(7).has_value(), "one node, and modula, have none");
    tap::ok(ring->points() == points, "points() has the same");
    tap::ok(modula->points().empty(), "modula has none there, too");
}

void test_walk() {
    std::mt19937 random(11);
    for (Distribution distribution :
         {Distribution::ketama, Distribution::ketama_weighted, Distribution::modula, Distribution::random}) {
        uint64_t wrong = 0;
        for (size_t count : {1, 2, 3, 20}) {
            Snapshot placement = made(nodes_of(random_hosts(random, count, true)),
                                      {distribution, KeyHash::automatic, ""});
            for (const std::string& key : random_keys(random, 200)) {
                uint32_t spot = placement->spot_of(key, uint32_t(random()));
                std::vector<bool> met(count);
                for (uint32_t i = 0; i < count; i++) {
                    uint32_t node = placement->walk(spot, i);
                    if (met.at(node)) wrong++;
                    met.at(node) = true;
                }
                if (placement->walk(spot, 0) != placement->node_at(spot)) wrong++;
            }
        }
        tap::is(wrong, 0u, std::string(name_of(distribution)) + ": a walk meets each node once");
    }
    Snapshot modula = made(nodes_of(random_hosts(random, 5, false)), {Distribution::modula, {}, ""});
    tap::is(modula->walk(13, 4), 2u, "modula: a walk goes on by one and round the end");
}

void test_ends_of_the_ring() {
    Snapshot placement = made({{"a", "", 1}, {"b", "", 1}, {"c", "", 1}}, {});
    tap::is(placement->node_at(UINT32_MAX), placement->node_at(0), "past the last point comes the first");
    std::vector<PlacementNode> many;
    for (uint32_t i = 0; i < limits::nodes_max; i++) many.push_back({"n" + std::to_string(i), "", 1});
    Snapshot large = made(many, {Distribution::ketama_weighted, KeyHash::automatic, ""});
    std::vector<bool> met(many.size());
    for (uint32_t i = 0; i < many.size(); i++) met[large->walk(12345, i)] = true;
    tap::ok(std::find(met.begin(), met.end(), false) == met.end(), "as many nodes as may be are all met");
    many.push_back({"one more", "", 1});
    tap::is(errors_of(many, {}), "1025 nodes; allowed: up to 1024\n", "and one more is refused");
}

void test_errors() {
    using Nodes = std::vector<PlacementNode>;
    struct Row {
        const char* what;
        Nodes nodes;
        PlacementOptions options;
        const char* errors;
    };
    const Row rows[] = {
        {"no nodes", {}, {}, "no nodes: at least one is needed\n"},
        {"two of a name", {{"a", "x", 1}, {"a", "y", 1}}, {}, "two nodes are named 'a'\n"},
        {"weight 0", {{"a", "", 0}}, {}, "node 'a' has weight 0; allowed: 1 to 65535\n"},
        {"weight over the limit", {{"a", "", 65536}}, {}, "node 'a' has weight 65536; allowed: 1 to 65535\n"},
        {"weight that gives no point", {{"a", "", 1}, {"b", "", 1000}, {"c", "", 1000}}, {},
         "node 'a' would never get a key: its weight 1 is too small a part of 2001, all nodes' together\n"},
        {"two that are hashed alike", {{"a", "h:11211", 1}, {"h", "", 1}}, {},
         "nodes 'a' and 'h' are both hashed as 'h': one would never get a key\n"},
        {"the same under modula", {{"a", "h:11211", 1}, {"h", "", 1}}, {Distribution::modula, {}, ""}, ""},
        {"no name", {{"", "", 1}}, {}, "node 1 of the list has no name\n"},
        {"a tag of one character", {{"a", "", 1}}, {{}, {}, "{"},
         "hash tag '{' is not two characters, such as {}: an opening one and a closing one\n"},
        {"all at once", {{"a", "", 0}, {"a", "", 1}}, {{}, {}, "123"},
         "hash tag '123' is not two characters, such as {}: an opening one and a closing one\n"
         "node 'a' has weight 0; allowed: 1 to 65535\n"
         "two nodes are named 'a'\n"},
    };
    for (const Row& row : rows) tap::is(errors_of(row.nodes, row.options), row.errors, row.what);
    if (!built_in(KeyHash::hsieh)) {
        tap::is(errors_of({{"a", "", 1}}, {{}, KeyHash::hsieh, ""}),
                "hash function 'hsieh' is not included in this system's libhashkit\n",
                "a function that the library was built without");
    }
}

// Run under ThreadSanitizer: readers share one snapshot, and see the next one when it is there.
void test_threads() {
    std::mt19937 random(12);
    std::vector<Host> hosts = random_hosts(random, 9, false);
    std::vector<std::string> keys = random_keys(random, 2000);
    Snapshot first = made(nodes_of(hosts), {});
    std::vector<Host> fewer(hosts.begin(), hosts.end() - 1);
    Snapshot second = made(nodes_of(fewer), {});
    std::vector<uint32_t> expected[2];
    for (const std::string& key : keys) {
        expected[0].push_back(first->node_of(key, 0));
        expected[1].push_back(second->node_of(key, 0));
    }
    std::mutex lock;
    Snapshot current = first;  // guarded by lock
    std::atomic<uint64_t> wrong = 0, seen_second = 0;
    auto read = [&] {
        bool over = false;
        while (!over) {
            Snapshot placement;
            {
                std::lock_guard<std::mutex> held(lock);
                placement = current;
            }
            over = placement->size() == fewer.size();
            const std::vector<uint32_t>& right = expected[over ? 1 : 0];
            for (size_t i = 0; i < keys.size(); i++) wrong += placement->node_of(keys[i], 0) != right[i];
        }
        seen_second++;
    };
    std::vector<std::thread> readers;
    for (int i = 0; i < 4; i++) readers.emplace_back(read);
    first.reset();
    {
        std::lock_guard<std::mutex> held(lock);
        current = second;
    }
    for (std::thread& reader : readers) reader.join();
    tap::is(wrong.load(), 0u, "four threads ask one snapshot and get its answers");
    tap::is(seen_second.load(), 4u, "and each sees the next");
}

// The nodes of "pin:0" to "pin:47", a letter each, on five nodes; the fourth has port 11211.
std::string pinned(Distribution distribution, KeyHash hash, bool weights) {
    std::vector<Host> hosts;
    for (uint32_t i = 0; i < 5; i++) {
        hosts.push_back({"192.0.2." + std::to_string(i + 1), uint16_t(i == 3 ? 11211 : 11300 + i),
                         weights ? i + 1 : 1});
    }
    Snapshot placement = made(nodes_of(hosts), {distribution, hash, ""});
    Reference reference(hosts, distribution, hash, /* one_by_one= */ true);
    std::string ours, theirs;
    for (int i = 0; i < 48; i++) {
        std::string key = "pin:" + std::to_string(i);
        ours += char('a' + placement->node_of(key, 0));
        theirs += char('a' + reference.node_of(key));
    }
    return ours == theirs ? ours : ours + " but libmemcached " + theirs;
}

struct Pin {
    Distribution distribution;
    KeyHash hash;
    bool weights;
    const char* nodes;
};
using D = Distribution;
using H = KeyHash;
const Pin pins[] = {
    {D::ketama, H::automatic, false, "bbbdddddedebebdbcdebdeeeecccaaedadcdaecacbacccae"},
    {D::ketama, H::one_at_a_time, false, "bbbdddddedebebdbcdebdeeeecccaaedadcdaecacbacccae"},
    {D::ketama, H::md5, false, "abbcaadddbcccdaeaaadbeedcadaabbdacebaedaadbdcbaa"},
    {D::ketama, H::crc, false, "aaadeeeeddeeeeddddabcceebbbbdaeeccbbbbadddddeeee"},
    {D::ketama, H::fnv1_64, false, "bbbbbbbbbbeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"},
    {D::ketama, H::fnv1a_64, false, "cccccccccccccccccccccccccccccccccccccccccccccccc"},
    {D::ketama, H::fnv1_32, false, "eeeeeeeeeeccccccccccddddddddddddddddddddcccccccc"},
    {D::ketama, H::fnv1a_32, false, "bbbbbbbbbbcccccccccccccccccccccccccccccccccccccc"},
    {D::ketama, H::murmur, false, "bacedcaddbcadabbaaaeddeddaedddbdcdeeceaedaeacbec"},
    {D::ketama, H::jenkins, false, "aecedbdaaebbebdcbaaabbedabeebcbceeeaecccadcedbcb"},
    {D::ketama, H::murmur3, false, "cdeccbbdbaeceaeceededdaaaaebbebadadbcdbbbeddeccb"},
    {D::ketama_weighted, H::automatic, true, "cdecccdbdddbcdeededdbdddddbdbeedededdeddddeeeeee"},
    {D::ketama_weighted, H::one_at_a_time, true, "deecededeceeeceececdddeadcdcecdcccecebdcecbeebcb"},
    {D::ketama_weighted, H::md5, true, "cdecccdbdddbcdeededdbdddddbdbeedededdeddddeeeeee"},
    {D::ketama_weighted, H::crc, true, "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"},
    {D::ketama_weighted, H::fnv1_64, true, "bbbbbbbbbbdddddddddddddddddddddddddddddddddddddd"},
    {D::ketama_weighted, H::fnv1a_64, true, "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"},
    {D::ketama_weighted, H::fnv1_32, true, "cccccccccceeeeeeeeeeeeeeeeeeeeddddddddddaaaaaaaa"},
    {D::ketama_weighted, H::fnv1a_32, true, "cdadeecdbcacbdddecbccebcccceccccccebeeeecedcebdd"},
    {D::ketama_weighted, H::murmur, true, "edcedebdceebddeceaacdaeddcaddddbdbedebeeedcedebd"},
    {D::ketama_weighted, H::jenkins, true, "eebbdddceddeeebeeedeceeeceedcccbcdbbeedcdedecbbc"},
    {D::ketama_weighted, H::murmur3, true, "ecdedeedcbceeadcecbdbccdeebedccaddeddebcecededed"},
    {D::modula, H::automatic, false, "eeedbebdacbbdccaacabdceabdabdcdacaaccdaecbbaebdb"},
    {D::modula, H::one_at_a_time, false, "eeedbebdacbbdccaacabdceabdabdcdacaaccdaecbbaebdb"},
    {D::modula, H::md5, false, "eebdbcabeceadaaeabeeaceadbeebecbbeabeecceacbdcac"},
    {D::modula, H::crc, false, "cdebbddeeecdebaccdcddbcceceebdbaecdcadedcaaeedca"},
    {D::modula, H::fnv1_64, false, "cdeadeababaedcbaedcbabdeeacddecbeddcaeaedeabcdea"},
    {D::modula, H::fnv1a_64, false, "aaaaaaaaaacccccccccccccccccccccccccccccccccccccc"},
    {D::modula, H::fnv1_32, false, "bcdecdeaeadcbaedcbaebceaabdeeadcaeedbabaabcdeabc"},
    {D::modula, H::fnv1a_32, false, "badccbededbceacdabdebaedcbaeedabcdbcdededcaeedba"},
    {D::modula, H::murmur, false, "dcbdcbabbddeaeaaddebbabeedebcbbcebabeededaeacbdb"},
    {D::modula, H::jenkins, false, "ceaddedabdcdacddabaebdededbcddcdceaeccbadcabdbbb"},
    {D::modula, H::murmur3, false, "dbdaadacedbbabdabbeaaceeccdcdbecbebcaebbdabdadbd"},
    {D::ketama, H::automatic, true, "deecededeceeeceececdddeadcdcecdcccecebdcecbeebcb"},
    {D::ketama_weighted, H::automatic, false, "cbecccdbaddbcdebaebdbeddddbdabedeabdddaaedabaace"},
};

void test_pinned() {
    for (const Pin& pin : pins) {
        tap::is(pinned(pin.distribution, pin.hash, pin.weights), pin.nodes,
                "as when this was written: " + std::string(name_of(pin.distribution)) + ", " +
                    std::string(name_of(pin.hash)) + (pin.weights ? ", weights" : ""));
    }
}

}  // namespace

int main() {
    for (bool weights : {false, true}) {
        for (Distribution distribution :
             {Distribution::ketama, Distribution::ketama_weighted, Distribution::modula}) {
            test_equal(distribution, weights);
        }
    }
    test_random();
    test_hash_as();
    test_tags();
    test_owned();
    test_removal();
    test_joins();
    test_joins_of_a_large_fleet();
    test_walk();
    test_points();
    test_ends_of_the_ring();
    test_errors();
    test_threads();
    test_pinned();
    return tap::done();
}
