// SPDX-License-Identifier: BSD-3-Clause
// Console: lines of a user on a terminal, with editing, completion and history (libedit). The history is a file of mode 0600
// below $XDG_STATE_HOME, or else ~/.local/state. farctl's commands have no secrets; a line that begins with a blank is not kept.
// Owner: main; one thread; at most one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farcached::ctl {

// Whether this farctl was built with libedit.
bool console_is_built();

// A line as words; blanks separate them, and quotes and backslashes protect blanks. None: a quote is open.
std::optional<std::vector<std::string>> words_of_line(std::string_view line);

// The history's file. Empty: neither environment variable is set. Null: unset.
std::string history_path(const char* state_home, const char* home);

class Console {
  public:
    // Candidates for the word behind these.
    using Complete = std::function<std::vector<std::string>(const std::vector<std::string>& before)>;

    Console(std::string prompt, std::string history_path, Complete complete);
    ~Console();
    Console(const Console&) = delete;
    Console& operator=(const Console&) = delete;

    // The next line, without its end. None: the end of input (Ctrl-D). An interrupted line (Ctrl-C) is empty.
    std::optional<std::string> next();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace farcached::ctl
