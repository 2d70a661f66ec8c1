// SPDX-License-Identifier: BSD-3-Clause
#include "bench/value.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"
#include "bench/distribution.h"

namespace farcached::bench {

namespace {

constexpr uint32_t shifts = 64;  // offsets into the filler, chosen by sequence number

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

std::string text_of(std::span<const ValueSizes> sizes) {
    std::string text;
    for (const ValueSizes& one : sizes) {
        text += (text.empty() ? "" : ",") + std::to_string(one.bytes_min);
        if (one.bytes_max != one.bytes_min) text += ":" + std::to_string(one.bytes_max);
        if (sizes.size() > 1) text += "@" + std::to_string(one.weight);
    }
    return text;
}

Values::Values(std::span<const ValueSizes> sizes, bool verified)
    : sizes_(sizes.begin(), sizes.end()), bytes_min_(UINT32_MAX), bytes_max_(0), verified_(verified) {
    CHECK(!sizes_.empty());
    uint32_t weights = 0;
    for (ValueSizes& one : sizes_) {
        CHECK(one.bytes_min <= one.bytes_max);
        bytes_min_ = std::min(bytes_min_, one.bytes_min);
        bytes_max_ = std::max(bytes_max_, one.bytes_max);
        weights += one.weight;
        one.weight = weights;
    }
    CHECK(weights > 0);
    if (verified) CHECK(bytes_min_ >= verified_bytes_min);
    filler_.resize(bytes_max_ + shifts);
    Random random(1);
    for (char& c : filler_) c = char('!' + random.below(94));
}

Values::Values(uint32_t bytes_min, uint32_t bytes_max, bool verified)
    : Values(std::vector<ValueSizes>{{bytes_min, bytes_max}}, verified) {}

uint32_t Values::size(uint64_t sequence) const {
    if (bytes_min_ == bytes_max_) return bytes_min_;
    Random random(sequence);
    const ValueSizes* one = sizes_.data();
    if (sizes_.size() > 1)
        for (const uint64_t drawn = random.below(sizes_.back().weight); drawn >= one->weight; one++) {}
    return one->bytes_min + uint32_t(random.below(uint64_t(one->bytes_max) - one->bytes_min + 1));
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
