// SPDX-License-Identifier: BSD-3-Clause
// StatsLine: a connection that reads a server's statistics over the text protocol.
//
// Owner: one thread. Each request waits for its reply.
#pragma once

#include <map>
#include <string>

#include "bench/load/options.h"

namespace farcached::bench {

class StatsLine {
  public:
    // All of these throw std::runtime_error without a valid answer.
    StatsLine(const Target& target, double connect_wait_s, double answer_wait_s);
    ~StatsLine();
    StatsLine(const StatsLine&) = delete;
    StatsLine& operator=(const StatsLine&) = delete;

    // `stats GROUP`: values by name.
    std::map<std::string, std::string> ask(const std::string& group);
    void answer_within(double answer_wait_s) { answer_wait_s_ = answer_wait_s; }

    [[noreturn]] void fail(const std::string& what) const;

  private:
    void wait_for(short events) const;

    const std::string where_;
    const int fd_;
    double answer_wait_s_;
};

}  // namespace farcached::bench
