// SPDX-License-Identifier: BSD-3-Clause
// Reads a TOML file of settings. Its keys are the rows of an option table marked in_file, with the same names and bounds; a dot
// in a name denotes a table.
//
// No state; any thread. Main calls it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/option.h"

namespace farcached::conf {

constexpr size_t config_bytes_max = 1 << 20;  // longer files are refused

// The file's bytes, or the error: "PATH: cannot be opened: ...".
Result<std::string> read_whole_file(const std::string& path);

// Sets all valid values. Returns all errors in the text's order, each a line without its end: "NAME:LINE:COLUMN: key: what was
// found; what is allowed". Empty: all values are set. A TOML syntax error is the only error reported: the rest cannot be
// parsed.
// origins, if any, gets the places of the keys that are set.
std::vector<std::string> read_config_text(std::string_view text, const std::string& name,
                                          std::span<const Option> table, Settings& settings, Origins* origins = nullptr);

// Parses Debian's /etc/memcached.conf: command-line words, one flag per line.
struct ConfLine {
    size_t number = 0;               // from 1
    std::vector<std::string> words;  // "-l", "127.0.0.1"; without the quotes
    std::string error = {};          // not empty: the error in the line; ignore the words
};

// The lines with options. As Debian's wrapper does, it skips comments from # on, -d and -h. It also skips `logfile`, with a
// remark, because this server logs to stderr.
std::vector<ConfLine> memcached_conf_lines(std::string_view text, const std::string& name, std::string& remarks);

}  // namespace farcached::conf
