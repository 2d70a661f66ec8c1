// SPDX-License-Identifier: BSD-3-Clause
// The values that the consistency load stores: each describes itself.
//
// A value is a chain of records: a set stores one, append and prepend add one each. A record names its key, its writer
// and the writer's sequence number for that key. It also holds the sequence number of the record before it in the chain
// and (with a time to live) its expiry. Its body is a stream that follows from these; `check` covers everything. So a
// value that is torn, cut, foreign or mixed cannot be read as whole.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace consistency {

inline uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t h = (a ^ (b * UINT64_C(0x9e3779b97f4a7c15))) + UINT64_C(0x632be59bd9b4e019);
    h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
    return h ^ (h >> 31);
}

// A small generator: one per thread, seeded from the run's seed.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next() { return mix(state_++, 0x5eed); }
    uint64_t below(uint64_t n) { return next() % n; }
    bool one_in(uint64_t n) { return below(n) == 0; }

  private:
    uint64_t state_;
};

struct RecordHead {
    uint64_t magic;
    uint32_t key;
    uint32_t writer;
    uint64_t sequence;
    uint64_t previous;   // sequence of the record this one was added to; 0: the chain begins here
    int64_t gone_at_ms;  // no reader that starts later may see it; 0: never
    uint64_t body_bytes;
    uint64_t check;
};
static_assert(sizeof(RecordHead) == 56);

constexpr uint64_t record_magic = UINT64_C(0x31304352414d4652);

inline uint64_t head_hash(const RecordHead& h) {
    uint64_t x = mix(h.key, h.writer);
    x = mix(mix(x, h.sequence), h.previous);
    return mix(mix(x, uint64_t(h.gone_at_ms)), h.body_bytes);
}

inline uint64_t stream_word(uint64_t seed, uint64_t i) {
    return (seed + i * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
}

inline uint64_t body_hash(std::string_view body, uint64_t h) {
    size_t at = 0;
    for (; at + 8 <= body.size(); at += 8) {
        uint64_t word;
        std::memcpy(&word, body.data() + at, 8);
        h = (h ^ word) * UINT64_C(0x100000001b3);
        h ^= h >> 32;
    }
    for (; at < body.size(); at++) h = (h ^ uint8_t(body[at])) * UINT64_C(0x100000001b3);
    return h;
}

inline void append_record(std::string& out, RecordHead h) {
    h.magic = record_magic;
    const uint64_t seed = head_hash(h);
    const size_t head_at = out.size();
    out.resize(head_at + sizeof h + h.body_bytes);
    char* body = out.data() + head_at + sizeof h;
    for (uint64_t at = 0; at < h.body_bytes; at += 8) {
        const uint64_t word = stream_word(seed, at);
        std::memcpy(body + at, &word, std::min<uint64_t>(8, h.body_bytes - at));
    }
    h.check = body_hash({body, size_t(h.body_bytes)}, seed);
    std::memcpy(out.data() + head_at, &h, sizeof h);
}

// The chain of a value in the order of its bytes; `wrong` is the reason why it is not one (empty: it is).
struct Chain {
    std::vector<RecordHead> records;
    std::string wrong;

    uint64_t newest() const {
        uint64_t n = 0;
        for (const RecordHead& r : records) n = std::max(n, r.sequence);
        return n;
    }
    // One number for the whole value, which the history checker compares.
    uint64_t identity() const {
        uint64_t id = 0;
        for (const RecordHead& r : records) id = mix(id, mix(r.writer, r.sequence));
        return id;
    }
};

inline Chain read_chain(std::string_view value, uint32_t key) {
    Chain chain;
    const size_t size = value.size();
    while (!value.empty() && chain.wrong.empty()) {
        RecordHead h;
        const std::string where =
            " at byte " + std::to_string(size - value.size()) + " of " + std::to_string(size);
        if (value.size() < sizeof h) {
            chain.wrong = "cut head" + where;
            break;
        }
        std::memcpy(&h, value.data(), sizeof h);
        value.remove_prefix(sizeof h);
        if (h.magic != record_magic) {
            chain.wrong = "not a record" + where;
        } else if (h.key != key) {
            chain.wrong = "record of key " + std::to_string(h.key) + where;
        } else if (h.body_bytes > value.size()) {
            chain.wrong = "cut body of " + std::to_string(h.body_bytes) + where + ", record " +
                          std::to_string(h.sequence) + " on " + std::to_string(h.previous);
        } else if (body_hash(value.substr(0, size_t(h.body_bytes)), head_hash(h)) != h.check) {
            chain.wrong = "torn body" + where;
        } else {
            value.remove_prefix(size_t(h.body_bytes));
            chain.records.push_back(h);
        }
    }
    return chain;
}

// A chain of one writer is unbroken: sorted by sequence, each record was added to the one before.
inline std::string broken_link(const Chain& chain) {
    std::vector<RecordHead> sorted = chain.records;
    std::sort(sorted.begin(), sorted.end(),
              [](const RecordHead& a, const RecordHead& b) { return a.sequence < b.sequence; });
    uint64_t before = 0;
    for (const RecordHead& r : sorted) {
        if (r.previous != before) {
            return "record " + std::to_string(r.sequence) + " was added to " +
                   std::to_string(r.previous) + " but stands after " + std::to_string(before);
        }
        before = r.sequence;
    }
    return {};
}

}  // namespace consistency
