// SPDX-License-Identifier: BSD-3-Clause
// A node with a file (-e) and a disk, whose process ends at steps of its moves: to the disk, back to memory, and of mutations of
// what is there. In the next run a key has a value that it could have had then, or none. Built with base/broken.h's steps.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/broken.h"
#include "base/check.h"
#include "node/store/away_items.h"
#include "node/store/restart.h"
#include "t/lib/tap.h"
#include "t/unit/node/disk_fixture.h"

namespace farcached::node {
namespace {

using namespace disk_tests;

constexpr RunClock first_clock{1'000'000, 2'000'000'000};
constexpr NodeSeconds now = 1000;

std::string bytes_of(std::string_view key, int version) {
    std::string value;
    while (value.size() < 600) value += std::string(key) + "#" + std::to_string(version) + " ";
    return value;
}

// A process that has both files.
struct Run {
    explicit Run(const std::string& folder) : restart(folder + "/items", first_clock, [](bool, const std::string&) {}) {
        DiskConfig of_disk;
        of_disk.path = folder + "/values";
        of_disk.segment_bytes = 64 * kib;
        of_disk.bytes = 64 * of_disk.segment_bytes;
        of_disk.buffer_bytes = 4 * kib;
        of_disk.former_store = restart.former_disk();
        disk = open(of_disk);
        Config config = node_with(*disk, 512 * kib);
        config.file = restart.file();
        node = std::make_unique<Node>(config);
        restart.carry_out(*node, 1, now);
        reads = std::make_unique<DiskReads>(*disk);
    }

    void set(std::string_view key, int version) {
        const std::string value = bytes_of(key, version);
        protocol::StoreOp op;
        op.key = node->key(key);
        op.value = value;
        CHECK(node->store(op, now).status == protocol::StoreReply::Status::stored);
    }
    void remove(std::string_view key) {
        protocol::DeleteOp op;
        op.key = node->key(key);
        node->remove(op, now);
    }
    void touch(std::string_view key, NodeSeconds exptime) {
        protocol::GetOp op;
        op.key = node->key(key);
        op.touch = exptime;
        node->get(op, now, [](const protocol::ItemMeta&) -> char* { return nullptr; });
    }
    // The value, or its place.
    std::optional<std::string> get(std::string_view key, Place& place) {
        protocol::GetOp op;
        op.key = node->key(key);
        op.no_bump = true;
        std::string value;
        place = {};
        const auto sink = [&](const protocol::ItemMeta& meta) {
            value.resize(meta.value_len);
            return value.data();
        };
        if (node->get(op, now, sink, nullptr, &place).status != protocol::GetReply::Status::hit) return std::nullopt;
        return value;
    }
    bool is_away(std::string_view key) {
        Place place;
        get(key, place);
        return place != Place{};
    }
    // What a client sees.
    std::optional<std::string> value(std::string_view key) {
        Place place;
        const std::optional<std::string> found = get(key, place);
        if (place == Place{}) return found;
        const std::optional<Seen> seen = read(*reads, place);
        return seen.has_value() && seen->key == key ? std::optional(seen->value) : std::nullopt;
    }
    void recache(std::string_view key) {
        Place place;
        get(key, place);
        if (place != Place{}) node->away().found(node->key(key), place, bytes_of(key, 1), now);
    }
    void fill(int items) {
        for (; items > 0; items--) {
            set("fill" + std::to_string(filled++), 1);
            if (filled % 4 == 0) settle(*disk);
        }
    }

    Restart restart;
    std::unique_ptr<DiskStore> disk;
    std::unique_ptr<Node> node;
    std::unique_ptr<DiskReads> reads;
    int filled = 0;
};

// Key and the versions that it may have afterwards; it may also be gone.
const std::map<std::string, std::set<int>> before_kill{
    {"set", {1, 2}}, {"deleted", {1}}, {"touched", {1}}, {"returned", {1}}, {"returned and set", {1, 2}},
    {"was replaced", {2}}, {"was deleted", {}}, {"was flushed", {}}};
const std::map<std::string, std::set<int>> after_all{
    {"set", {2}}, {"deleted", {}}, {"touched", {1}}, {"returned", {1}}, {"returned and set", {2}},
    {"was replaced", {2}}, {"was deleted", {}}, {"was flushed", {}}};

void prepare(Run& run) {
    run.set("was flushed", 1);
    while (!run.is_away("was flushed")) run.fill(1);
    run.node->flush_all(now);
    for (const auto& [key, versions] : before_kill)
        if (key != "was flushed") run.set(key, 1);
    for (const auto& [key, versions] : before_kill)
        while (key != "was flushed" && !run.is_away(key)) run.fill(1);
    run.set("was replaced", 2);
    run.remove("was deleted");
    run.fill(8);  // the write buffers with their values are full
    settle(*run.disk);
}

void act(Run& run) {
    run.set("set", 2);
    run.remove("deleted");
    run.touch("touched", now + 100);
    run.recache("returned");
    run.recache("returned and set");
    run.set("returned and set", 2);
    run.fill(130);  // a page of items moves to the disk
}

// True: the process was killed at that step, counted from 1; 0: at none.
bool killed_at(const std::string& folder, uint64_t step) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        Run run(folder);
        prepare(run);
        broken::steps_left(step);
        act(run);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

// Empty: all is right.
std::string wrong_in(const std::string& folder, bool killed, size_t& found) {
    Run run(folder);
    for (const auto& [key, versions] : killed ? before_kill : after_all) {
        const std::optional<std::string> value = run.value(key);
        if (!value.has_value()) continue;
        found++;
        const auto is_it = [&, &key = key](int version) { return *value == bytes_of(key, version); };
        if (std::ranges::none_of(versions, is_it)) return "\"" + key + "\" is " + value->substr(0, 30);
    }
    for (int i = 0; i < 1000; i++) {
        const std::string key = "fill" + std::to_string(i);
        const std::optional<std::string> value = run.value(key);
        if (!value.has_value()) continue;
        found++;
        if (*value != bytes_of(key, 1)) return key + " is " + value->substr(0, 30);
    }
    return "";
}

// Every step at first, then some of the thousands.
void at_steps() {
    std::minstd_rand random(7);
    std::string wrong;
    uint64_t step = 1, runs = 0;
    size_t found = 0;
    for (bool killed = true; killed && wrong.empty(); step += runs < 40 ? 1 + random() % 20 : 1 + random() % 300, runs++) {
        Folder folder;
        killed = killed_at(folder.path(), step);
        wrong = wrong_in(folder.path(), killed, found);
        if (!wrong.empty()) wrong = "step " + std::to_string(step) + ": " + wrong;
    }
    tap::report(wrong.empty(), "killed while values move to the disk and back: none is wrong, none is back", wrong);
    tap::ok(runs > 40 && found > 100 * runs, std::to_string(runs) + " kills in " + std::to_string(step) + " steps; " +
                                                 std::to_string(found) + " values were back");
}

}  // namespace
}  // namespace farcached::node

int main() {
    farcached::node::at_steps();
    return ::tap::done();
}
