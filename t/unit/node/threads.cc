// SPDX-License-Identifier: BSD-3-Clause
// A writer and the readers of the same few slots as threads of one process, so that ThreadSanitizer sees both (S1, S4,
// S5). Under leases items are written in place, grow, shrink, die and come back, are flushed and move. Other threads
// read the mapped memory by the index, or copy it by pointers. No reader may see a byte that was not stored, or a value
// older than the one acknowledged before the read began.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/sanitizers.h"
#include "fabric/local_read.h"
#include "fabric/remote_ptr.h"
#include "fabric/validate.h"
#include "node/store/node.h"
#include "node/store/prefix_deletes.h"
#include "protocol/words.h"
#include "t/lib/tap.h"

using namespace farcached;

namespace {

constexpr int steps_least = has_tsan ? 20'000 : 100'000;
constexpr int steps_most = 50 * steps_least;
constexpr uint64_t hits_least = 2000;  // of each way of reading
constexpr int keys = 6;
constexpr size_t pointers_max = 1 << 20;
constexpr uint64_t second_ns = 1'000'000'000;

std::string key_of(int key) { return "key" + std::to_string(key); }

// "2:17;2:17;...": of key 2 the 17th.
std::string stamped(int key, uint64_t sequence, size_t size) {
    const std::string stamp = std::to_string(key) + ":" + std::to_string(sequence) + ";";
    std::string value;
    while (value.size() < std::max(size, stamp.size())) value += stamp;
    return value;
}

// The sequence number; 0: not what was stored.
uint64_t sequence_of(std::string_view value, int key) {
    const size_t colon = value.find(':'), end = value.find(';');
    if (end == std::string_view::npos || colon > end || value.substr(0, colon) != std::to_string(key)) return 0;
    if (value.size() % (end + 1) != 0) return 0;
    for (size_t i = end + 1; i < value.size(); i++)
        if (value[i] != value[i - end - 1]) return 0;
    return std::stoull(std::string(value.substr(colon + 1, end - colon - 1)));
}

class Race {
  public:
    Race() : node_(config()), pointers_(pointers_max) {}

    void run() {
        std::array<std::thread, 6> threads{
            std::thread([this] { write(); }),        std::thread([this] { ask(); }),
            std::thread([this] { read_mapped(0); }), std::thread([this] { read_by_pointers(0); }),
            std::thread([this] { read_mapped(1); }), std::thread([this] { read_by_pointers(1); }),
        };
        for (std::thread& one : threads) one.join();
        tell();
    }

  private:
    struct Key {
        std::atomic<uint64_t> acknowledged{0};  // nothing before it is seen any more
        std::atomic<uint64_t> pointer{0};       // place in pointers_, plus one; 0: none
    };

    static node::Config config() {
        node::Config config;
        config.memory_bytes = 4 << 20;
        config.partitions = 1;
        config.lease.enabled = true;
        return config;
    }

    void wrong(const std::string& what) {
        if (wrong_.fetch_add(1) < 5) std::printf("# violation: %s\n", what.c_str());
    }

    void judge(const char* how, int key, std::string_view value, uint64_t acknowledged) {
        const uint64_t sequence = sequence_of(value, key);
        if (sequence == 0) return wrong(std::string(how) + ": bytes that were not stored");
        if (sequence < acknowledged)
            wrong(std::string(how) + ": " + std::to_string(sequence) + " after " + std::to_string(acknowledged));
    }

    // An entry is written once, and then published.
    void publish(int key, const std::optional<protocol::Grant>& grant, NodeSeconds asked_at) {
        if (!grant) return;
        const uint64_t place = pointers_count_.fetch_add(1);
        if (place >= pointers_max) return;
        fabric::LeasedPtr& pointer = pointers_[place];
        pointer.ptr = {/* incarnation= */ 1, grant->offset, grant->generation, grant->region,
                       fabric::read_length(grant->length, grant->capacity)};
        pointer.valid_until_ns = asked_at * second_ns + grant->term_ms * UINT64_C(1'000'000);
        all_[size_t(key)].pointer.store(place + 1, std::memory_order_release);
    }

    protocol::StoreReply::Status store(int key, const std::string& value, protocol::StoreOp::Mode mode) {
        const std::string name = key_of(key);
        protocol::StoreOp op;
        op.key = node_.key(name);
        op.value = value;
        op.mode = mode;
        op.lease = true;
        const NodeSeconds now = now_;
        const protocol::StoreReply reply = node_.store(op, now);
        publish(key, reply.grant, now);
        return reply.status;
    }

    void remove(int key) {
        const std::string name = key_of(key);
        protocol::DeleteOp op;
        op.key = node_.key(name);
        node_.remove(op, now_);
    }

    bool enough(int step) const {
        if (step >= steps_most) return true;
        return step >= steps_least && mapped_hits_ >= hits_least && pointer_hits_ >= hits_least;
    }

    void write() {
        std::mt19937_64 dice(1);
        uint64_t issued[keys] = {};
        static constexpr size_t sizes[] = {5, 60, 60, 60, 300, 300, 700, 3000};
        for (int step = 0; !enough(step); step++) {
            const int key = int(dice() % keys);
            uint64_t& sequence = issued[key];
            const uint64_t what = dice() % 1000;
            if (step % 2000 == 1999) now_++;
            if (what < 700) {
                const size_t size = what == 0 ? 100'000 : sizes[dice() % std::size(sizes)];
                sequence++;
                if (store(key, stamped(key, sequence, size), protocol::StoreOp::Mode::set) !=
                    protocol::StoreReply::Status::stored)
                    wrong("a set was refused");
            } else if (what < 850) {
                // Of the same sequence, so whole after it or without it.
                store(key, stamped(key, sequence, 1), protocol::StoreOp::Mode::append);
                continue;
            } else if (what < 997) {
                sequence++;
                remove(key);
            } else {
                for (uint64_t& one : issued) one++;
                if (what == 997) node_.flush_all(now_);
                if (what != 997) node_.prefixes().remove("key", now_);
                for (int i = 0; i < keys; i++) all_[size_t(i)].acknowledged.store(issued[i], std::memory_order_release);
                continue;
            }
            all_[size_t(key)].acknowledged.store(sequence, std::memory_order_release);
            if (step % 100 == 0) store_others(dice);
        }
        over_ = true;
    }

    // Stores other items, into the memory that is free.
    void store_others(std::mt19937_64& dice) {
        const std::string name = "other" + std::to_string(dice() % 500), value(dice() % 700, 'o');
        protocol::StoreOp op;
        op.key = node_.key(name);
        op.value = value;
        node_.store(op, now_);
    }

    // Two-sided gets, which touch, and bring pointers.
    void ask() {
        std::mt19937_64 dice(2);
        std::string value;
        while (!over_) {
            const int key = int(dice() % keys);
            const std::string name = key_of(key);
            protocol::GetOp op;
            op.key = node_.key(name);
            op.lease = true;
            if (dice() % 16 == 0) op.touch = now_ + 1000 + NodeSeconds(dice() % 8);
            const uint64_t acknowledged = all_[size_t(key)].acknowledged.load(std::memory_order_acquire);
            const NodeSeconds now = now_;
            const protocol::GetReply reply = node_.get(op, now, [&](const protocol::ItemMeta& meta) {
                value.resize(meta.value_len);
                return value.data();
            });
            if (reply.status != protocol::GetReply::Status::hit) continue;
            judge("two-sided", key, value, acknowledged);
            publish(key, reply.grant, now);
        }
    }

    void read_mapped(uint64_t seed) {
        std::mt19937_64 dice(10 + seed);
        std::string value;
        while (!over_) {
            const int key = int(dice() % keys);
            const std::string name = key_of(key);
            const uint64_t acknowledged = all_[size_t(key)].acknowledged.load(std::memory_order_acquire);
            fabric::Found found;
            const auto sink = [&](const fabric::ReadMeta& meta) {
                value.resize(meta.value_len);
                return value.data();
            };
            if (fabric::local_read(node_.view(), name, node_.key(name).hash, now_, false, sink, found, fabric::no_steps) !=
                fabric::Outcome::hit)
                continue;
            mapped_hits_++;
            judge("mapped", key, value, acknowledged);
        }
    }

    // Copies as ShmChannel does, and judges as a link does.
    void read_by_pointers(uint64_t seed) {
        std::mt19937_64 dice(20 + seed);
        std::vector<uint64_t> landing;
        while (!over_) {
            const int key = int(dice() % keys);
            const std::string name = key_of(key);
            const uint64_t place = all_[size_t(key)].pointer.load(std::memory_order_acquire);
            if (place == 0) continue;
            fabric::PointerCopy copy;
            copy.leased = pointers_[place - 1];
            const uint64_t acknowledged = all_[size_t(key)].acknowledged.load(std::memory_order_acquire);
            landing.resize((size_t(copy.leased.ptr.length) + 7) / 8);
            const auto* from = reinterpret_cast<const uint64_t*>(node_.view().base + copy.leased.ptr.offset);
            words::copy_out(reinterpret_cast<char*>(landing.data()), from, 0, landing.size() * 8, [] {});
            std::atomic_thread_fence(std::memory_order_acquire);
            copy.words = landing.data();
            copy.latest = now_;
            copy.completed_ns = copy.latest * second_ns;
            const fabric::PointerRead read = fabric::judge_copy(copy, name, false, node_.check_secret());
            outcomes_[size_t(read.outcome)]++;
            if (!fabric::keeps_pointer(read.outcome)) wrong("a pointer led elsewhere while its lease ran");
            if (read.outcome != fabric::Outcome::hit) continue;
            pointer_hits_++;
            judge("by pointer", key, read.value, acknowledged);
        }
    }

    void tell() {
        const node::LeaseStats leases = node_.stats(now_).leases;
        const auto of = [&](fabric::Outcome outcome) { return (unsigned long long)outcomes_[size_t(outcome)].load(); };
        tap::note("%llu mapped hits; by pointers %llu hits, %llu dead, %llu torn, %llu grown, %llu without a lease",
                  (unsigned long long)mapped_hits_, (unsigned long long)pointer_hits_, of(fabric::Outcome::guard_dead),
                  of(fabric::Outcome::check), of(fabric::Outcome::grown), of(fabric::Outcome::lease));
        tap::note("%llu written in place, %llu revived", (unsigned long long)leases.in_place,
                  (unsigned long long)leases.revived);
        tap::is(wrong_.load(), 0u, "no reader sees what was not stored, or what is older than acknowledged");
        tap::ok(mapped_hits_ >= hits_least && pointer_hits_ >= hits_least, "both ways of reading hit");
        tap::ok(leases.in_place > 1000 && leases.revived > 100, "while items are written in place and slots revived");
    }

    node::Node node_;
    std::vector<fabric::LeasedPtr> pointers_;
    std::atomic<uint64_t> pointers_count_{0};
    Key all_[keys];
    std::atomic<NodeSeconds> now_{1000};
    std::atomic<bool> over_{false};
    std::atomic<uint64_t> wrong_{0}, mapped_hits_{0}, pointer_hits_{0};
    std::atomic<uint64_t> outcomes_[16] = {};
};

}  // namespace

int main() {
    Race race;
    race.run();
    return tap::done();
}
