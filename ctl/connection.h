// SPDX-License-Identifier: BSD-3-Clause
// Connection: farctl's end of an admin socket: one line is asked, and its answer awaited.
//
// Nothing that comes is trusted: lines and answers are bounded, and so is the time they may take.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ctl/stats.h"

namespace farcached::ctl {

struct Answer {
    Stats stats;         // of its STAT lines
    std::string status;  // the line behind them: "END", "OK", "ERROR", "VERSION ...", "CLIENT_ERROR ..."
};

class Connection {
  public:
    // Waits no longer than so for each answer.
    static Or<Connection> open(const std::string& path, uint32_t timeout_ms);
    Connection(Connection&& other) noexcept;
    Connection& operator=(Connection&& other) noexcept;
    ~Connection();

    // After a failure the connection is of no more use.
    Or<Answer> ask(std::string_view line);

  private:
    Connection(std::string path, int fd, uint32_t timeout_ms);
    bool fill(int64_t deadline_ms, std::string& why);
    bool take_line(int64_t deadline_ms, std::string& line, std::string& why);

    std::string path_;
    int fd_;
    uint32_t timeout_ms_;
    std::string input_;  // received, not yet taken
};

}  // namespace farcached::ctl
