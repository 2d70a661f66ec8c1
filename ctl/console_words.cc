// SPDX-License-Identifier: BSD-3-Clause
// The parts of ctl/console.h that need no terminal.
#include "ctl/console.h"

namespace farcached::ctl {

std::optional<std::vector<std::string>> words_of_line(std::string_view line) {
    std::vector<std::string> words;
    bool in_word = false;
    char quote = 0;
    for (size_t i = 0; i < line.size(); i++) {
        const char c = line[i];
        const bool is_blank = c == ' ' || c == '\t';
        if (quote == 0 && is_blank) {
            in_word = false;
            continue;
        }
        if (!in_word) words.emplace_back();
        in_word = true;
        if (quote == 0 && (c == '"' || c == '\'')) {
            quote = c;
        } else if (c == quote) {
            quote = 0;
        } else if (c == '\\' && quote != '\'' && i + 1 < line.size()) {
            words.back() += line[++i];
        } else {
            words.back() += c;
        }
    }
    if (quote != 0) return {};
    return words;
}

std::string history_path(const char* state_home, const char* home) {
    std::string folder;
    if (state_home != nullptr && *state_home == '/') folder = state_home;  // others are invalid, by the XDG specification
    else if (home != nullptr && *home == '/') folder = std::string(home) + "/.local/state";
    return folder.empty() ? folder : folder + "/farctl_history";
}

}  // namespace farcached::ctl
