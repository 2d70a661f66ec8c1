// SPDX-License-Identifier: BSD-3-Clause
// Writes text to a file, whole.
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>

namespace farcached::bench {

// mode: std::ios::trunc or std::ios::app. Throws std::runtime_error.
inline void write_file(const std::string& path, const std::string& text, std::ios::openmode mode) {
    std::ofstream file(path, mode);
    file << text;
    file.close();
    if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace farcached::bench
