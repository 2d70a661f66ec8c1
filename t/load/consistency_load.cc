// SPDX-License-Identifier: BSD-3-Clause
#include "t/load/consistency_load.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace consistency {

constexpr uint32_t hot_keys_per_thread = 4;
constexpr uint32_t chain_records_max = 8;
constexpr uint64_t added_bytes_max = 2000;
constexpr int64_t ttl_slack_ms =
    3000;  // memcached's clock ticks in seconds, and the answer takes its time
constexpr uint32_t faults_told_max = 20;

int64_t now_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

void Faults::add(Fault kind, const std::string& what) {
    counts_[size_t(kind)].fetch_add(1);
    if (forgiven(kind)) return;
    const std::lock_guard hold(lock_);
    if (told_++ >= faults_told_max) return;
    std::printf("# fault: %s\n", what.c_str());
    std::fflush(stdout);
}

std::string key_name(const Shared& shared, uint32_t key) {
    const char* kind = key >= history_key_first ? "h" : key >= shared.single_keys ? "t" : "s";
    std::string name = kind + std::to_string(key);
    if (key % 7 == 0) name.append(key % 230, 'x');
    return name;
}

void Shared::doubt(uint32_t key, uint64_t sequence) {
    const std::lock_guard hold(lock);
    doubts.insert({key, sequence});
}

bool Shared::doubted(uint32_t key, uint64_t sequence) {
    const std::lock_guard hold(lock);
    return doubts.contains({key, sequence});
}

Worker::Worker(Shared& shared, uint32_t index)
    : shared_(shared),
      index_(index),
      random_(mix(shared.options.seed, index)),
      client_(shared.options.ports[index % shared.options.ports.size()],
              shared.options.admins.empty() ? "" : shared.options.admins[index % shared.options.admins.size()]) {}

void Worker::round(uint32_t number) {
    random_ = Random(mix(mix(shared_.options.seed, index_), number));
    const uint32_t group = index_ / history_group;
    const auto history = [&] {
        seen_.clear();
        for (uint32_t i = 0; i < history_operations && !shared_.over(); i++) {
            const uint32_t n = (number * 64 + group) * history_keys_per_group;
            history_operation(history_key_first + n +
                              uint32_t(random_.below(history_keys_per_group)));
        }
    };
    if (index_ == 0 && !shared_.options.admins.empty()) flush(some_prefix());
    // Half of the groups record their histories while the others press on memory.
    if ((group + number) % 2 == 0) history();
    for (uint32_t i = 0; i < shared_.options.round && !shared_.over(); i++) {
        if (i >= round_least && now_ms() >= shared_.end_ms) break;
        mixed_operation();
        for (uint32_t more = 0; more < shared_.options.reads; more++) read_one();
    }
    if ((group + number) % 2 == 1) history();
}

Step Worker::any_step() {
    const auto& shares = shared_.options.mix->shares;
    uint64_t left = random_.below(std::accumulate(shares.begin(), shares.end(), UINT64_C(0)));
    size_t step = 0;
    while (left >= shares[step]) left -= shares[step++];
    return Step(step);
}

void Worker::mixed_operation() {
    const Step step = any_step();
    switch (step) {
        case Step::ttl: return store_with_ttl();
        case Step::shorten: return shorten();
        case Step::get: return read_one();
        case Step::gat: return read_and_touch();
        case Step::get_many: return read_many();
        case Step::count: return count();
        case Step::flush: return flush("");
        case Step::prefix:
            if (!shared_.options.admins.empty()) flush(some_prefix());
            return;
        default: return write_one(step, own_key());
    }
}

uint32_t Worker::any_key() {
    const uint32_t hot = hot_keys_per_thread * shared_.options.threads;
    return uint32_t(random_.one_in(2) ? random_.below(std::min(hot, shared_.all_keys))
                                      : random_.below(shared_.all_keys));
}

uint32_t Worker::own_key() {
    const uint32_t threads = shared_.options.threads;
    const uint64_t mine = random_.one_in(2) ? hot_keys_per_thread : shared_.single_keys / threads;
    return uint32_t(random_.below(mine)) * threads + index_;
}

// From nothing to the most.
uint64_t Worker::any_size() {
    if (shared_.options.mix->even_sizes) return random_.below(shared_.options.value_bytes_max);
    const double most = std::log(double(shared_.options.value_bytes_max));
    return uint64_t(std::exp(most * double(random_.below(1'000'000)) / 1e6)) - 1;
}

std::string Worker::record(uint32_t key, uint64_t sequence, uint64_t previous, int64_t gone_at_ms,
                           uint64_t bytes) const {
    std::string value;
    append_record(value, {0, key, index_, sequence, previous, gone_at_ms, bytes, 0});
    return value;
}

// -- Mutations of a key with this thread as its only writer
// -----------------------------------------------------------

bool Worker::unknown(Answer answer) {
    if (answer != Answer::unknown) return false;
    shared_.unavailable++;
    if (!shared_.options.outages) shared_.faults.add(Fault::reply, "a node did not answer");
    return true;
}

bool Worker::settle(Answer answer, uint32_t key, uint64_t sequence, bool empty) {
    if (!unknown(answer)) {
        acknowledge(key, sequence);
        return true;
    }
    shared_.doubt(key, sequence);
    if (empty) shared_.doubt(key, 0);
    doubted_.insert(key);
    return false;
}

void Worker::write_one(Step step, uint32_t key) {
    Own& own = own_[key];
    const uint64_t sequence = issue(key);
    shared_.mutations++;
    switch (step) {
        case Step::add: return add_to(key, own, sequence);
        case Step::remove: return remove(key, own, sequence);
        case Step::cas: return store_by_cas(key, own, sequence);
        case Step::gone: return store_gone(key, own, sequence);
        case Step::touch: return touch(key, own);  // changes no bytes: this sequence number stays unused
        default: return store(key, own, sequence);
    }
}

void Worker::store(uint32_t key, Own& own, uint64_t sequence) {
    const std::string name = key_name(shared_, key);
    const bool empty = random_.one_in(30);
    std::string value;
    if (empty) {
        shared_.keys[key].empty.store(sequence);
        own = {true, 0, 0};
    } else {
        value = record(key, sequence, 0, 0, any_size());
        own = {true, 1, sequence};
    }
    Wire wire = any_wire();
    Answer answer;
    if (random_.one_in(8)) {
        if (shared_.options.outages && wire == Wire::text) wire = Wire::meta;
        answer = client_.store_quietly(wire, name, value);
    } else {
        answer = client_.store(wire, Verb::set, name, value, random_.one_in(3) ? 1000 : 0, 0);
    }
    if (answer != Answer::ok && answer != Answer::unknown)
        shared_.faults.add(Fault::reply, "a set was refused");
    settle(answer, key, sequence, empty);
}

void Worker::add_to(uint32_t key, Own& own, uint64_t sequence) {
    if (own.records >= chain_records_max || doubted_.contains(key)) return store(key, own, sequence);
    const std::string value =
        record(key, sequence, own.newest_record, 0, random_.below(added_bytes_max));
    const Verb verb = random_.one_in(3) ? Verb::prepend : Verb::append;
    const std::string name = key_name(shared_, key);
    const Answer answer = client_.store(any_wire(), verb, name, value, 0, 0);
    if (answer == Answer::refused && shared_.options.disk) return;  // C9
    if (!settle(answer, key, sequence)) return;
    if (answer != Answer::ok) {
        own = {};
        return;
    }
    if (!own.may_exist && !is_doubted(key))
        shared_.faults.add(Fault::stale, "append found " + name + ", which is gone");
    own = {true, own.records + 1, sequence};
}

void Worker::store_by_cas(uint32_t key, Own& own, uint64_t sequence) {
    const std::string name = key_name(shared_, key);
    const Found before = checked_get(key);
    if (!before.hit) return store(key, own, sequence);
    const bool stale = random_.one_in(3);
    if (stale) {
        store(key, own, sequence);
        sequence = issue(key);
    }
    const std::string value = record(key, sequence, 0, 0, any_size());
    const Answer answer = client_.store(any_wire(), Verb::cas, name, value, 0, before.cas);
    if (answer == Answer::exists) {
        if (!stale && !is_doubted(key))
            shared_.faults.add(Fault::stale, "cas with the right unique was refused for " + name);
        return;  // the value before it stays
    }
    if (!settle(answer, key, sequence)) return;
    if (answer == Answer::ok) own = {true, 1, sequence};
    if (answer == Answer::absent) own = {};
    if (answer == Answer::refused || (stale && answer == Answer::ok && !is_doubted(key))) {
        shared_.faults.add(Fault::stale, std::string("cas with ") + (stale ? "a stale" : "the right") +
                                             " unique answered " + std::to_string(int(answer)) +
                                             " for " + name);
    }
}

// Stored as expired already: takes effect, and no get returns it.
void Worker::store_gone(uint32_t key, Own& own, uint64_t sequence) {
    const Wire wire = random_.one_in(2) ? Wire::text : Wire::meta;
    const std::string value = record(key, sequence, 0, 0, any_size());
    const Answer answer = client_.store(wire, Verb::set, key_name(shared_, key), value, -1, 0);
    own = {};
    if (settle(answer, key, sequence)) acknowledge(key, issue(key));
}

void Worker::remove(uint32_t key, Own& own, uint64_t sequence) {
    const std::string name = key_name(shared_, key);
    const Answer answer = client_.remove(any_wire(), name);
    if (answer == Answer::ok && !own.may_exist && !is_doubted(key)) {
        shared_.faults.add(Fault::stale, "delete found " + name + ", which is gone");
    }
    if (!settle(answer, key, sequence)) return;
    own = {};
    acknowledge(key, issue(key));  // and the value before it has another end
}

void Worker::touch(uint32_t key, const Own& own) {
    const std::string name = key_name(shared_, key);
    const Answer answer = client_.touch(any_wire(), name, 1000);
    if (!unknown(answer) && answer == Answer::ok && !own.may_exist && !is_doubted(key))
        shared_.faults.add(Fault::stale, "touch found " + name + ", which is gone");
}

uint32_t Worker::own_ttl_key() {
    const uint32_t keys = shared_.options.ttl_keys;
    return shared_.single_keys + index_ * keys + uint32_t(random_.below(keys));
}

// Where a touch may shorten it, some have a long time to live.
void Worker::store_with_ttl() {
    const uint32_t key = own_ttl_key();
    const uint64_t sequence = issue(key);
    const bool endless = shared_.options.mix->share(Step::shorten) > 0 && random_.one_in(2);
    const uint32_t ttl_s = endless ? 1000 : 1 + uint32_t(random_.below(2));
    const int64_t gone_at_ms = endless ? 0 : now_ms() + ttl_s * 1000 + ttl_slack_ms;
    const std::string value = record(key, sequence, 0, gone_at_ms, any_size() / 16);
    own_[key] = {true, 1, sequence};
    settle(client_.store(any_wire(), Verb::set, key_name(shared_, key), value, ttl_s, 0), key, sequence);
}

// But for this nothing changes when such an item ends, unless its set, of unknown outcome, is carried out later, or another
// node has it.
void Worker::shorten() {
    const uint32_t key = own_ttl_key();
    if (is_doubted(key)) return;
    const uint32_t ttl_s = 1 + uint32_t(random_.below(2));
    KeyState& state = shared_.keys[key];
    state.touched = 0;
    bool done = false;
    if (random_.one_in(2)) {
        done = checked_get(key, ttl_s).hit;
    } else {
        const Answer answer = client_.touch(any_wire(), key_name(shared_, key), ttl_s);
        done = !unknown(answer) && answer == Answer::ok;
    }
    if (!done) return;
    state.gone_at_ms = now_ms() + ttl_s * 1000 + ttl_slack_ms;
    state.touched = own_[key].newest_record;
}

// -- Reads
// --------------------------------------------------------------------------------------------

void Worker::check_chain(uint32_t key, uint64_t floor, const Chain& chain) {
    KeyState& state = shared_.keys[key];
    const std::string name = key_name(shared_, key);
    const uint64_t newest = chain.newest();
    if (newest > state.issued) {
        shared_.faults.add(Fault::torn,
                           name + ": saw " + std::to_string(newest) + ", which was never stored");
    }
    const std::string broken = broken_link(chain);
    if (newest >= floor && broken.empty()) return;
    for (const RecordHead& r : chain.records) {
        if (shared_.options.outages && shared_.doubted(key, r.sequence)) {
            shared_.doubts_seen++;
            return;
        }
    }
    if (newest < floor) {
        shared_.faults.add(Fault::stale, name + ": saw " + std::to_string(newest) + " after " +
                                             std::to_string(floor));
    } else {
        shared_.faults.add(shared_.options.failover ? Fault::stale : Fault::torn, name + ": " + broken);
    }
}

void Worker::check_end(uint32_t key, const Before& before, const Chain& chain) {
    const auto late = [&](int64_t gone_at_ms) {
        if (before.started_ms <= gone_at_ms) return;
        shared_.faults.add(Fault::expired, key_name(shared_, key) + ": seen " +
                                               std::to_string(before.started_ms - gone_at_ms) +
                                               " ms after its end and slack");
    };
    for (const RecordHead& r : chain.records)
        if (r.gone_at_ms != 0) late(r.gone_at_ms);
    if (before.touched != 0 && chain.newest() == before.touched) late(before.gone_at_ms);
}

void Worker::check(uint32_t key, const Before& before, const Found& found) {
    shared_.gets++;
    if (!found.hit) return;
    shared_.hits++;
    KeyState& state = shared_.keys[key];
    const std::string name = key_name(shared_, key);
    if (found.value.empty()) {
        if (state.empty < before.floor && !shared_.doubted(key, 0))
            shared_.faults.add(Fault::stale, name + " is empty and was not since");
        return;
    }
    const Chain chain = read_chain(found.value, key);
    if (!chain.wrong.empty()) return shared_.faults.add(Fault::torn, name + ": " + chain.wrong);
    check_chain(key, before.floor, chain);
    check_end(key, before, chain);
    raise_to(state.known, chain.newest());
}

Worker::Before Worker::before(uint32_t key) const {
    const KeyState& state = shared_.keys[key];
    const int64_t started_ms = now_ms();
    const uint64_t touched = state.touched;
    return {started_ms, state.floor(), touched, state.gone_at_ms};
}

Found Worker::checked_get(uint32_t key, std::optional<uint32_t> exptime) {
    const Before known = before(key);
    Found found = client_.get(any_wire(), key_name(shared_, key), exptime);
    if (found.hit && found.cas == 0 && !exptime.has_value())
        shared_.faults.add(Fault::reply, key_name(shared_, key) + " was found without a unique");
    check(key, known, found);
    return found;
}

void Worker::read_one() {
    const bool refill = shared_.options.mix->refill && random_.one_in(2);
    const uint32_t key = refill ? own_key() : any_key();
    if (!checked_get(key).hit && refill) write_one(Step::set, key);
}

// Not for a key with a time to live: a touch would prolong it.
void Worker::read_and_touch() { checked_get(any_key() % shared_.single_keys, 1000); }

void Worker::read_many() {
    std::vector<uint32_t> keys(2 + random_.below(random_.one_in(5) ? 60 : 12));
    std::vector<std::string> names;
    std::vector<Before> known;
    for (uint32_t& key : keys) {
        key = any_key();
        names.push_back(key_name(shared_, key));
        known.push_back(before(key));
    }
    const std::vector<Found> found = client_.get_many(any_wire(), names);
    for (size_t i = 0; i < keys.size(); i++) check(keys[i], known[i], found[i]);
}

// -- Counters and flushes
// -------------------------------------------------------------------------------

void Worker::count() {
    const uint32_t n = uint32_t(random_.below(counters_count));
    const std::string name = "c" + std::to_string(n);
    uint64_t value = 0;
    const Answer answer = client_.increment(any_wire(), name, value);
    if (unknown(answer)) return;
    if (answer == Answer::absent) {
        const uint64_t base = shared_.ticket.fetch_add(1)
                              << 24;  // a new one each time: ranges do not meet
        unknown(client_.store(any_wire(), Verb::add, name, std::to_string(base), 0, 0));
        return;
    }
    const std::lock_guard hold(shared_.lock);
    if (!shared_.counted[n].insert(value).second) {
        shared_.faults.add(Fault::counter, name + " returned " + std::to_string(value) + " twice");
    }
}

// Of one kind of keys, or of a tenth of them.
std::string Worker::some_prefix() {
    std::string prefix = "sth"[random_.below(3)] + std::to_string(random_.below(10));
    if (random_.one_in(2)) prefix.resize(1);
    return prefix;
}

// Of all keys that begin so; of all.
void Worker::flush(const std::string& prefix) {
    std::vector<uint64_t> before(shared_.all_keys);
    for (uint32_t k = 0; k < shared_.all_keys; k++) before[k] = shared_.keys[k].known;
    Operation op{Kind::flush, Outcome::done};
    op.sent = shared_.ticket.fetch_add(1);
    // Unknown: the reply promised nothing, and a cache may forget at any time.
    if (unknown(prefix.empty() ? client_.flush_all(any_wire()) : client_.delete_prefix(prefix))) return;
    op.answered = shared_.ticket.fetch_add(1);
    for (uint32_t k = 0; k < shared_.all_keys; k++)
        if (key_name(shared_, k).starts_with(prefix)) raise_to(shared_.keys[k].flushed, before[k]);
    if (!prefix.empty()) shared_.prefix_deletes++;
    const std::lock_guard hold(shared_.lock);
    shared_.flushes.emplace_back(prefix, op);
}

// -- Histories
// --------------------------------------------------------------------------------------------

Answer Worker::history_change(Operation& op, uint32_t key, uint64_t what, const std::string& value) {
    const std::string name = key_name(shared_, key);
    const Wire wire = any_wire();
    if (what < 5) {
        op.kind = Kind::set;
        return client_.store(wire, Verb::set, name, value, 0, 0);
    }
    if (what < 7) {
        op.kind = Kind::add;
        return client_.store(wire, Verb::add, name, value, 0, 0);
    }
    if (what < 8) {
        op.kind = Kind::append;
        const Answer answer = client_.store(wire, Verb::append, name, value, 0, 0);
        return answer == Answer::refused && !shared_.options.disk ? Answer::absent : answer;
    }
    if (what < 10) {
        op.kind = Kind::remove;
        return client_.remove(wire, name);
    }
    if (what < 11) {
        op.kind = Kind::touch;
        return client_.touch(wire, name, 1000);
    }
    op.kind = Kind::cas;
    op.expected = seen_[key].identity;
    return client_.store(wire, Verb::cas, name, value, 0, seen_[key].cas);
}

void Worker::record_history(uint32_t key, Operation op, Answer answer) {
    const bool changes_bytes = op.kind != Kind::remove && op.kind != Kind::touch;
    if (unknown(answer)) {
        if (!changes_bytes) return;
        op.answered = UINT64_MAX;
    }
    // A miss proves nothing if the node may not have got the request; mg touches, too.
    const bool may_not_be_asked = op.kind == Kind::get || op.kind == Kind::touch;
    if (may_not_be_asked && answer == Answer::absent && shared_.options.outages) return;
    op.outcome = answer == Answer::ok        ? Outcome::done
                 : answer == Answer::absent  ? Outcome::absent
                 : answer == Answer::unknown ? Outcome::unknown
                                             : Outcome::refused;
    const std::lock_guard hold(shared_.lock);
    shared_.histories[key].push_back(op);
}

void Worker::history_operation(uint32_t key) {
    const uint64_t sequence = mix(key, ++history_sequence_) >> 1;
    const std::string value = record(key, sequence, 0, 0, any_size() / 4);
    const uint64_t what = random_.below(20);
    Operation op{Kind::get, Outcome::done};
    op.record = mix(index_, sequence);
    Answer answer = Answer::ok;
    op.sent = shared_.ticket.fetch_add(1);
    if (what < 11 || (what < 14 && seen_.contains(key))) {
        answer = history_change(op, key, what, value);
    } else {
        const std::string name = key_name(shared_, key);
        const Found found = client_.get(any_wire(), name);
        answer = found.hit ? Answer::ok : Answer::absent;
        const Chain chain = read_chain(found.value, key);
        if (!chain.wrong.empty()) shared_.faults.add(Fault::torn, name + ": " + chain.wrong);
        op.expected = chain.identity();
        // A cas with 0 compares nothing.
        if (found.hit && found.cas == 0) shared_.faults.add(Fault::reply, name + " was found without a unique");
        if (found.hit) seen_[key] = {found.cas, op.expected};
        const std::lock_guard hold(shared_.lock);
        for (const RecordHead& r : chain.records) shared_.observed.insert(mix(r.writer, r.sequence));
    }
    op.answered = shared_.ticket.fetch_add(1);
    record_history(key, op, answer);
}

}  // namespace consistency
