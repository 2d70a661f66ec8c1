// SPDX-License-Identifier: BSD-3-Clause
// EtcdSilence: whether etcd answers this node, a member of a fleet. If it does not, that is why the node executes no request
// (node/service/serving_right.h); if it does, etcd refuses the node, or has no record of it. The admin socket and --http show it.
//
// Owner: a FarnodeServer. Threads: one calls set(), any may read.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

namespace farcached::node {

class EtcdSilence {
  public:
    static constexpr std::string_view name = "etcd_silent";
    static constexpr std::string_view help = "1: etcd does not answer the node";

    void set(bool is_silent) { state_.store(is_silent ? State::silent : State::answers, std::memory_order_relaxed); }
    bool is_silent() const { return state_.load(std::memory_order_relaxed) == State::silent; }
    // The statistic. Nothing before the first set(): the node needs no registration to serve.
    std::optional<uint64_t> number() const {
        const State state = state_.load(std::memory_order_relaxed);
        return state == State::none ? std::nullopt : std::optional<uint64_t>(state == State::silent);
    }

  private:
    enum class State : uint8_t { none, answers, silent };
    std::atomic<State> state_{State::none};
};

}  // namespace farcached::node
