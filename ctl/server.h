// SPDX-License-Identifier: BSD-3-Clause
// Server: the daemon at an admin socket: its kind and its answers. It connects on demand, and again after a failure.
// Stats: the lines "STAT name value" of an answer, in the daemon's order. Failure: farctl's error.
// Owner: main; one thread. Input is not trusted: lines, answers and their time are bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace farcached::ctl {

// A sentence for the operator, without a full stop, that begins with its subject.
struct Failure {
    std::string text;
    bool refused = false;  // the daemon answered with a refusal
};

template <class Value>
using Or = Result<Value, Failure>;

class Stats {
  public:
    using Row = std::pair<std::string, std::string>;

    void add(std::string name, std::string value) { rows_.emplace_back(std::move(name), std::move(value)); }
    bool empty() const { return rows_.empty(); }
    auto begin() const { return rows_.begin(); }
    auto end() const { return rows_.end(); }

    // nullptr: absent.
    const std::string* find(std::string_view name) const;
    std::string text(std::string_view name) const;  // "": absent
    // None: absent, or not a number.
    std::optional<uint64_t> number(std::string_view name) const;
    uint64_t count(std::string_view name) const { return number(name).value_or(0); }

  private:
    std::vector<Row> rows_;
};

// A whole number without sign, blanks or leading zeros.
std::optional<uint64_t> parse_number(std::string_view text);

class Server {
  public:
    enum class Kind : uint8_t { unknown, farcached, farnode };

    Server(std::string path, uint32_t timeout_ms) : path_(std::move(path)), timeout_ms_(timeout_ms) {}

    const std::string& path() const { return path_; }

    // The daemon's kind; a failure if none answers or its kind is unknown.
    Or<Kind> kind();
    // The daemon's own version, once its kind is known.
    const std::string& version() const { return version_; }
    // The process that made the socket listen, as seen from here. 0: not visible, or not connected.
    uint64_t listener_pid() const;
    // `group`: the words after `stats`. A group that the daemon lacks is a failure with `refused` set.
    Or<Stats> stats(std::string_view group = {});
    // Sends a command whose success is rows and END.
    Or<Stats> rows(std::string_view line);
    // Sends a command whose success is OK or RESET. None: success.
    std::optional<Failure> order(std::string_view line);

  private:
    struct Answer {
        Stats stats;         // from its STAT lines
        std::string status;  // the line after them: "END", "OK", "ERROR", "VERSION ...", "CLIENT_ERROR ..."
    };
    struct Connection {
        explicit Connection(int socket) : fd(socket) {}
        ~Connection();
        Connection(const Connection&) = delete;
        Connection& operator=(const Connection&) = delete;

        const int fd;
        std::string input = {};  // received, not yet parsed
    };

    std::optional<Failure> connect();
    std::optional<Failure> fill(int64_t deadline_ms);
    Or<std::string> take_line(int64_t deadline_ms);
    Or<Answer> take_answer();
    Or<Answer> ask(std::string_view line);
    Failure failure(std::string_view why) const { return {path_ + ": " + std::string(why)}; }
    Failure refusal(std::string_view status) const;

    std::string path_;
    uint32_t timeout_ms_;  // the longest wait for an answer
    Kind kind_ = Kind::unknown;
    std::string version_;
    std::unique_ptr<Connection> connection_;  // none after a failure
};

}  // namespace farcached::ctl
