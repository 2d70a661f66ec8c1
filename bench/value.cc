// SPDX-License-Identifier: BSD-3-Clause
#include "bench/value.h"

#include <cstring>

#include "base/check.h"
#include "base/hash.h"
#include "bench/random.h"

namespace farcached::bench {

namespace {

constexpr uint32_t shifts = 64;  // of the filler against itself, one per sequence number

struct Head {
    uint64_t key;
    uint64_t sequence;
    uint64_t check;
};
static_assert(sizeof(Head) == Values::verified_bytes_min);

uint64_t check_of(const Head& head, std::string_view filler) {
    uint64_t seed = mix(head.key ^ mix(head.sequence ^ mix(filler.size())));
    return hash_bytes(filler.data(), filler.size(), seed);
}

}  // namespace

Values::Values(uint32_t bytes_min, uint32_t bytes_max, bool verified)
    : bytes_min_(bytes_min),
      bytes_max_(bytes_max),
      verified_(verified),
      filler_(bytes_max + shifts) {
    CHECK(bytes_min <= bytes_max);
    if (verified) CHECK(bytes_min >= verified_bytes_min);
    Random random(1);
    for (char& c : filler_) c = char('!' + random.below(94));
}

uint32_t Values::size(uint64_t sequence) const {
    if (bytes_min_ == bytes_max_) return bytes_min_;
    return bytes_min_ + uint32_t(Random(sequence).below(uint64_t(bytes_max_) - bytes_min_ + 1));
}

void Values::fill(char* to, uint32_t bytes, uint64_t key, uint64_t sequence) const {
    CHECK(bytes <= bytes_max_);
    const char* filler = filler_.data() + sequence % shifts;
    if (!verified_) {
        std::memcpy(to, filler, bytes);
        return;
    }
    Head head{key, sequence, 0};
    uint32_t rest = bytes - uint32_t(sizeof head);
    head.check = check_of(head, {filler, rest});
    std::memcpy(to, &head, sizeof head);
    std::memcpy(to + sizeof head, filler, rest);
}

bool Values::good(std::string_view value, uint64_t key) const {
    if (!verified_) return true;
    if (value.size() < bytes_min_) return false;
    if (value.size() > bytes_max_) return false;
    Head head;
    std::memcpy(&head, value.data(), sizeof head);
    return head.key == key && head.check == check_of(head, value.substr(sizeof head));
}

}  // namespace farcached::bench
