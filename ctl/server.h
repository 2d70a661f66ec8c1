// SPDX-License-Identifier: BSD-3-Clause
// Server: the daemon at an admin socket: its kind and its answers. Connects on demand, and again after a failure.
// Owner: main; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ctl/connection.h"
#include "ctl/stats.h"

namespace farcached::ctl {

class Server {
  public:
    enum class Kind : uint8_t { unknown, farcached, farnode };

    Server(std::string path, uint32_t timeout_ms) : path_(std::move(path)), timeout_ms_(timeout_ms) {}

    const std::string& path() const { return path_; }

    // The daemon's kind; a failure if none answers or its kind is unknown.
    Or<Kind> kind();
    // `group`: the words after `stats`. A group that the daemon lacks is a failure with `refused` set.
    Or<Stats> stats(std::string_view group = {});
    // Sends a command whose success is OK or RESET. None: success.
    std::optional<Failure> order(std::string_view line);

  private:
    std::optional<Failure> connect();
    Or<Answer> ask(std::string_view line);
    Failure refusal(std::string_view status) const;

    std::string path_;
    uint32_t timeout_ms_;
    Kind kind_ = Kind::unknown;
    std::optional<Connection> connection_;
};

}  // namespace farcached::ctl
