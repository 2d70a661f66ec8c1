// SPDX-License-Identifier: BSD-3-Clause
// Parses Debian's /etc/memcached.conf: command-line words, one flag per line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace farcached::conf {

struct ConfLine {
    size_t number = 0;               // from 1
    std::vector<std::string> words;  // "-l", "127.0.0.1"; without the quotes
    std::string error = {};          // not empty: the error in the line; ignore the words
};

// The lines with options. As Debian's wrapper does, it skips comments from # on, -d and -h. It also skips `logfile`, with a
// remark, because this server logs to stderr.
std::vector<ConfLine> memcached_conf_lines(std::string_view text, const std::string& name, std::string& remarks);

}  // namespace farcached::conf
