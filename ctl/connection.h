// SPDX-License-Identifier: BSD-3-Clause
// Connection: farctl's connection to an admin socket: sends one line and waits for the answer.
//
// Owner: main; one thread. Input is not trusted: lines, answers and their time are bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ctl/stats.h"

namespace farcached::ctl {

struct Answer {
    Stats stats;         // from its STAT lines
    std::string status;  // the line after them: "END", "OK", "ERROR", "VERSION ...", "CLIENT_ERROR ..."
};

class Connection {
  public:
    // timeout_ms: the longest wait for an answer.
    static Or<Connection> open(const std::string& path, uint32_t timeout_ms);
    Connection(Connection&& other) noexcept;
    Connection& operator=(Connection&& other) noexcept;
    ~Connection();

    // After a failure, discard the connection.
    Or<Answer> ask(std::string_view line);

  private:
    Connection(std::string path, int fd, uint32_t timeout_ms);
    std::optional<Failure> fill(int64_t deadline_ms);
    Or<std::string> take_line(int64_t deadline_ms);
    Failure failure(std::string_view why) const { return {path_ + ": " + std::string(why)}; }

    std::string path_;
    int fd_;
    uint32_t timeout_ms_;
    std::string input_;  // received, not yet parsed
};

}  // namespace farcached::ctl
