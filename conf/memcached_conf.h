// SPDX-License-Identifier: BSD-3-Clause
// /etc/memcached.conf as Debian has it: the words of a command line, a flag to a line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace farcached::conf {

struct ConfLine {
    size_t number = 0;               // from 1
    std::vector<std::string> words;  // "-l", "127.0.0.1"; without quotes around them
    std::string error = {};          // not empty: what is wrong with it, and the words say nothing
};

// The lines that say something. Left out is what Debian's wrapper leaves out: comments from # on, -d and -h; and
// `logfile`, which is remarked in a whole line: what this server says goes to stderr.
std::vector<ConfLine> memcached_conf_lines(std::string_view text, const std::string& name, std::string& remarks);

}  // namespace farcached::conf
