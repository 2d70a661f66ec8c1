// SPDX-License-Identifier: BSD-3-Clause
// HotReads: which keys a worker's gets ask for so often that both nodes of the key should serve them (replica_reads).
//
// Owner: PeerSet; the worker's thread alone.
//
// R1  A key is hot if it was at least one in `share` of the last samples_max samples. One get in about sampled_one_in is sampled.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "daemon/stats/hot_keys.h"

namespace farcached::daemon {

class HotReads {
  public:
    static constexpr uint32_t sampled_one_in = 16, samples_max = 1024, share = 64;

    explicit HotReads(uint32_t seed) : chance_(seed | 1) { hot_.reserve(share); }

    // Of each get.
    bool is_hot(std::string_view key) noexcept {
        if (--left_ == 0) sample(key);
        if (hot_.empty()) [[likely]] return false;
        return std::ranges::find(hot_, hash_of(key)) != hot_.end();
    }

    // Of a hot key: half of the gets, at random.
    bool next_reads_copy() noexcept {
        draw();
        return (chance_ >> 31) != 0;
    }

  private:
    void draw() noexcept { chance_ = chance_ * 1'664'525 + 1'013'904'223; }
    static uint64_t hash_of(std::string_view key) { return hash_bytes(key.data(), key.size(), 0); }
    void sample(std::string_view key) noexcept {
        draw();
        left_ = 1 + (chance_ >> 16) % (2 * sampled_one_in - 1);
        if (samples_ == nullptr) samples_.reset(new (std::nothrow) SpaceSaving());
        if (samples_ == nullptr) return;
        samples_->add(key);
        if (samples_->total() < samples_max) return;
        hot_.clear();
        for (size_t i = 0; i < samples_->size(); i++) {
            const SpaceSaving::Counted one = samples_->at(i);
            if (one.count - one.error >= samples_max / share) hot_.push_back(hash_of(one.key));
        }
        *samples_ = SpaceSaving();
    }

    uint32_t left_ = sampled_one_in;
    uint32_t chance_;
    std::unique_ptr<SpaceSaving> samples_;
    std::vector<uint64_t> hot_;  // hashes of keys; `share` at most
};

}  // namespace farcached::daemon
