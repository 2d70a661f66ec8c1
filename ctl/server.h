// SPDX-License-Identifier: BSD-3-Clause
// Server: a daemon at an admin socket: which it is, and what it answers. Connects when it is asked, and again after a
// failure.
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

    // Who answers; a failure if nobody does, or a stranger.
    Or<Kind> kind();
    // `group`: the words behind `stats`. A group that it does not have is a failure that is `refused`.
    Or<Stats> stats(std::string_view group = {});
    // A command that is answered OK or RESET. None: it was.
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
