// SPDX-License-Identifier: BSD-3-Clause
// A node whose memory is in a file (-e), and its items in the next run: after a stop, after a kill at each step of each mutation,
// and with other options. t/unit/node/restart_files.cc has other files. Built with base/broken.h's steps and S7_RESTART.
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/broken.h"
#include "base/check.h"
#include "node/store/impl.h"
#include "node/store/restart.h"
#include "t/lib/tap.h"
#include "t/unit/node/restart_fixture.h"

using namespace farcached;
using namespace farcached::node;
using namespace farcached::node::restart_tests;

namespace {

// ---- what is back -----------------------------------------------------------------------------------

void everything_is_back(bool stopped) {
    const std::string how = stopped ? "after a stop" : "after a kill";
    Folder folder;
    std::vector<std::pair<std::string, std::string>> stored;
    for (const size_t bytes : {0, 1, 7, 8, 100, 1000, 10'000, 64'000, 70'000, 1'500'000})
        stored.push_back({"size-" + std::to_string(bytes), long_value(bytes, 'v')});
    for (int i = 0; i < 3000; i++) stored.push_back({"many-" + std::to_string(i), "value " + std::to_string(i)});
    uint64_t cas = 0, last_cas = 0;
    {
        Run run(folder.file());
        for (const auto& [key, value] : stored) last_cas = set(*run.node, key, value);
        cas = set(*run.node, "flags", "f", 0, 77);
        set(*run.node, "expires", "e", now + 500);
        set(*run.node, "touched", "t", now + 500);
        touch(*run.node, "touched", now + 900);
        touch(*run.node, "touched", now + 800);
        protocol::StoreOp stale = store_op(*run.node, "stale", "s");
        set(*run.node, "stale", "s");
        stale.mode = protocol::StoreOp::Mode::cas;
        stale.invalidate = true;
        stale.cas_compare = 1;
        CHECK(run.node->store(stale, now).status == protocol::StoreReply::Status::stored);
        protocol::GetOp vivify;
        vivify.key = run.node->key("vivified");
        vivify.vivify = now + 500;
        CHECK(run.node->get(vivify, now, [](const protocol::ItemMeta&) -> char* { return nullptr; }).vivified);
        protocol::StoreOp binary = store_op(*run.node, "binary", "b");
        binary.key_binary = true;
        CHECK(run.node->store(binary, now).status == protocol::StoreReply::Status::stored);
        last_cas = set(*run.node, "last", "l");
        if (stopped) run.stop();
    }
    Run run(folder.file());
    size_t wrong = 0;
    for (const auto& [key, value] : stored) wrong += value_of(*run.node, key) != value;
    tap::is(wrong, size_t{0}, how + " all values are back");
    tap::is(run.node->stats(now).items, uint64_t(stored.size() + 7), how + ": as many items as before");
    tap::is(run.restart.items(), uint64_t(stored.size() + 7), how + ": and they are counted");
    tap::report((run.said.find("killed") == std::string::npos) == stopped, how + ": the message says so", run.said);
    tap::ok(get(*run.node, "flags")->meta.flags == 77 && get(*run.node, "flags")->meta.cas == cas, how + ": flags and cas unique");
    tap::is(get(*run.node, "expires")->meta.exptime, NodeSeconds(now + 500), how + ": the expiry");
    tap::is(get(*run.node, "touched")->meta.exptime, NodeSeconds(now + 800), how + ": the expiry of the last touch");
    tap::ok(get(*run.node, "stale")->meta.stale, how + ": a stale item is stale");
    tap::ok(get(*run.node, "vivified")->meta.win_sent, how + ": a token that was handed out is out");
    tap::ok(get(*run.node, "binary")->meta.key_binary, how + ": the key's form");
    tap::ok(set(*run.node, "new", "n") > last_cas, how + ": new cas uniques are above all earlier ones");
}

int violations = 0;

void dead_stays_dead(bool stopped, const std::function<void(bool, const std::string&)>& verdict) {
    const std::string how = stopped ? " (stop)" : " (kill)";
    Folder folder;
    {
        Run run(folder.file());
        Node& node = *run.node;
        set(node, "deleted", "d");
        CHECK(remove(node, "deleted"));
        for (const char* key : {"same size", "grown", "shrunk"}) set(node, key, std::string(300, 'o'));
        set(node, "same size", std::string(300, 'n'));
        set(node, "grown", std::string(3000, 'n'));
        set(node, "shrunk", std::string(3, 'n'));
        set(node, "flushed", "f");
        node.flush_all(now);
        set(node, "behind the flush", "b");
        set(node, "user:1", "1");
        set(node, "user:2", "2");
        CHECK(node.prefixes().remove("user:", now));
        set(node, "user:2", "new");
        set(node, "swept:1", "1");
        CHECK(node.prefixes().remove("swept:", now));
        sweep(node);
        set(node, "swept:2", "2");
        set(node, "expires", "e", now + 50);
        if (stopped) run.stop();
    }
    for (int i = 0; i < 2; i++) {  // the second run has the notes of the first one's end
        Run run(folder.file(), small(), {first_clock.boottime_s + 100, first_clock.unix_s + 100});
        Node& node = *run.node;
        for (const char* key : {"deleted", "same size", "grown", "shrunk", "flushed", "user:1", "swept:1", "expires"})
            verdict(value_of(node, key) == "(none)", std::string(key) + how);
        for (const auto& [key, value] : std::vector<std::pair<const char*, const char*>>{
                 {"behind the flush", "b"}, {"user:2", "new"}, {"swept:2", "2"}})
            verdict(value_of(node, key) == value, std::string(key) + how);
    }
}

void clocks_and_flushes() {
    Folder folder;
    {
        Run run(folder.file());
        set(*run.node, "long", "l", now + 5000);
        set(*run.node, "never", "n");
        run.node->announce_flush(now + 1000);
    }
    {
        Run run(folder.file(), small(), {first_clock.boottime_s + 900, first_clock.unix_s}, 200);
        tap::is(get(*run.node, "long", 200)->meta.exptime, NodeSeconds(now + 5000 - 900), "an expiry is on the new run's clock");
        tap::is(run.flush_at, NodeSeconds(now + 1000 - 900), "so is a scheduled flush");
        tap::ok(get(*run.node, "never", 200)->meta.exptime == never_expires, "never is never");
    }
    Run run(folder.file(), small(), {first_clock.boottime_s + 2000, first_clock.unix_s}, 2);
    tap::ok(value_of(*run.node, "never", 2) == "(none)" && run.flush_at == 0, "a flush is over that was due between the runs");
    tap::report(run.said.find("flush was due") != std::string::npos, "and the message says so", run.said);
}

// ---- the process ends at each step ------------------------------------------------------------------

struct Mutation {
    const char* name;
    std::function<void(Node&)> before, act;
    std::set<std::string> meanwhile;  // possible values of "key" if the process ends before the reply; "(none)": a miss
    std::string after;
};

// True: it ended before the last step.
bool killed_at(const std::string& file, const Mutation& mutation, uint64_t step) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        Run run(file);
        set(*run.node, "other", std::string(300, 'x'));
        set(*run.node, "key was here", "gone");
        remove(*run.node, "key was here");
        mutation.before(*run.node);
        broken::steps_left(step);
        mutation.act(*run.node);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

void at_each_step(const Mutation& mutation) {
    uint64_t step = 1;
    std::string wrong;
    for (bool killed = true; killed; step++) {
        Folder folder;
        killed = killed_at(folder.file(), mutation, step);
        Run run(folder.file());
        const std::string value = value_of(*run.node, "key");
        const bool good = killed ? mutation.meanwhile.contains(value) : value == mutation.after;
        if (!good && wrong.empty()) wrong = "step " + std::to_string(step) + ": " + value.substr(0, 20);
        if (value_of(*run.node, "key was here") != "(none)") wrong = "a deleted item is back";
        const bool others_stay = !mutation.meanwhile.contains("all");
        if (others_stay && value_of(*run.node, "other") != std::string(300, 'x')) wrong = "another is lost";
    }
    const std::string name = std::string(mutation.name) + ": killed at each of " + std::to_string(step - 2) + " steps";
    tap::report(wrong.empty() && step > 2, name, wrong);
}

void each_mutation() {
    const std::string old(300, 'o'), same(300, 'n'), large(3000, 'n'), huge(200'000, 'n');
    const auto had_old = [=](Node& node) { set(node, "key", old); };
    const auto nothing = [](Node&) {};
    const std::set<std::string> old_or_none{old, "(none)"};
    const auto with = [](std::set<std::string> set, const std::string& more) {
        set.insert(more);
        return set;
    };
    const auto join = [](Node& node) {
        protocol::StoreOp op = store_op(node, "key", "+");
        op.mode = protocol::StoreOp::Mode::append;
        CHECK(node.store(op, now).status == protocol::StoreReply::Status::stored);
    };
    const auto add_one = [](Node& node) {
        protocol::ArithOp op;
        op.key = node.key("key");
        op.delta = 1;
        (void)node.arith(op, now);
    };
    const auto upload = [=](Node& node) {
        auto under_way = node.begin_upload(node.key("key"), huge.size(), now);
        CHECK(under_way != nullptr);
        under_way->append(huge);
        protocol::StoreOp op = store_op(node, "key", under_way->value());
        CHECK(node.store(op, now, under_way.get()).status == protocol::StoreReply::Status::stored);
    };
    const auto delete_moved = [](Node& node) {
        PartialFlush flush{{}, std::make_shared<const protocol::KeptKeys>(protocol::KeptKeys{{protocol::OwnedKeys()}})};
        return node.prefixes().begin(flush) && node.prefixes().go_on(flush, UINT32_MAX, now);
    };
    const auto swept_prefix = [](Node& node) {
        CHECK(node.prefixes().remove("ke", now));
        sweep(node);
    };
    at_each_step({"a first set", nothing, [=](Node& node) { set(node, "key", same); }, {"(none)", same}, same});
    at_each_step({"a set in place", had_old, [=](Node& node) { set(node, "key", same); }, with(old_or_none, same), same});
    at_each_step({"a set out of place", had_old, [=](Node& node) { set(node, "key", large); }, with(old_or_none, large), large});
    at_each_step({"a set of a run of pages", had_old, [=](Node& node) { set(node, "key", huge); }, with(old_or_none, huge), huge});
    at_each_step({"a value that arrives in its slot", had_old, upload, with(old_or_none, huge), huge});
    at_each_step({"an append", had_old, join, with(old_or_none, old + "+"), old + "+"});
    at_each_step({"an incr", [](Node& node) { set(node, "key", "7"); }, add_one, {"7", "8", "(none)"}, "8"});
    at_each_step({"a delete", had_old, [](Node& node) { remove(node, "key"); }, old_or_none, "(none)"});
    at_each_step({"a shorter expiry", had_old, [](Node& node) { touch(node, "key", long_expired); }, old_or_none, "(none)"});
    at_each_step({"a longer expiry", [=](Node& node) { set(node, "key", old, now + 50); },
                  [](Node& node) { touch(node, "key", now + 90); }, old_or_none, old});
    at_each_step({"a flush", had_old, [](Node& node) { node.flush_all(now); }, with(old_or_none, "all"), "(none)"});
    const auto delete_prefix = [](Node& node) { CHECK(node.prefixes().remove("ke", now)); };
    at_each_step({"a delete by prefix", had_old, delete_prefix, old_or_none, "(none)"});
    at_each_step({"a delete by prefix, swept", had_old, swept_prefix, old_or_none, "(none)"});
    at_each_step({"keys that moved", had_old, [=](Node& node) { CHECK(delete_moved(node)); }, with(old_or_none, "all"), "(none)"});
}

// ---- other options, another boot ----------------------------------------------------------------------

uint64_t back_with(const std::string& file, const Config& config, std::string& said) {
    Run run(file, config);
    said = run.said;
    uint64_t wrong = 0, found = 0;
    for (int i = 0; i < 20'000; i++) {
        const std::string key = "k" + std::to_string(i), value = value_of(*run.node, key);
        if (value == "(none)") continue;
        found++;
        wrong += value != std::string(100, 'v') + key;
    }
    CHECK(wrong == 0);
    run.stop();
    return found;
}

void other_options() {
    Folder folder;
    std::string said;
    {
        Run run(folder.file());
        for (int i = 0; i < 20'000; i++)
            set(*run.node, "k" + std::to_string(i), std::string(100, 'v') + "k" + std::to_string(i));
        CHECK(run.node->stats(now).items == 20'000);
        run.stop();
    }
    Config config = small();
    tap::is(back_with(folder.file(), config, said), uint64_t{20'000}, "the same options: all items");
    config.memory_bytes = 16 << 20;
    tap::is(back_with(folder.file(), config, said), uint64_t{20'000}, "more memory: all items");
    config.partitions = 8;
    config.growth_factor = 1.5;
    config.policy = PolicyKind::s3fifo;
    tap::is(back_with(folder.file(), config, said), uint64_t{20'000}, "other partitions, classes and policy: all items");
    config.memory_bytes = 3 << 20;
    config.item_bytes_max = 1 << 20;
    const uint64_t fewer = back_with(folder.file(), config, said);
    tap::report(fewer > 10'000 && fewer < 20'000, "less memory: as many as fit", std::to_string(fewer));
    tap::is(back_with(folder.file(), config, said), fewer, "and these are all back");
    config.item_bytes_max = 130;
    tap::is(back_with(folder.file(), config, said), uint64_t{0}, "-I below their size: none");
    tap::report(said.find("no room with the present -m and -I") != std::string::npos, "and the message says so", said);
}

void newer_of_two() {
    for (const bool newer_first : {true, false}) {
        Run run(Folder().file());
        Node::Impl& impl = run.node->impl();
        const protocol::Key key = run.node->key("key");
        for (const bool newer : {newer_first, !newer_first}) {
            FormerRun::Item item{};
            item.key = "key";
            item.value = newer ? "newer" : "older";
            item.generation = newer ? 6400 : 640;
            NodeSeconds at = now;
            CHECK(impl.with_memory(key.hash, at, [&](Partition& partition, Reservation& reserved, uint64_t& need) {
                return partition.restore(item, key, at, reserved, need);
            }));
        }
        const uint64_t items = run.node->stats(now).items;
        run.node->impl().partitions.each([](Partition&) {});
        tap::is(items, uint64_t{1}, "of two items with one key one is stored");
    }
}

}  // namespace

int main() {
    if (broken::must_catch()) {  // t/faulty/broken_rules.py
        // New items may happen to take the slots of all dead ones.
        for (int i = 0; i < 20 && violations == 0; i++)
            dead_stays_dead(/* stopped= */ true, [](bool passed, const std::string&) { violations += !passed; });
        tap::ok(violations > 0, "a dead item that returns is caught");
        return tap::done();
    }
    const auto tell = [](bool passed, const std::string& name) { tap::ok(passed, name); };
    everything_is_back(/* stopped= */ true);
    everything_is_back(/* stopped= */ false);
    dead_stays_dead(/* stopped= */ true, tell);
    dead_stays_dead(/* stopped= */ false, tell);
    each_mutation();
    clocks_and_flushes();
    other_options();
    newer_of_two();
    return tap::done();
}
