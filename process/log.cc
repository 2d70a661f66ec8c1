// SPDX-License-Identifier: BSD-3-Clause
#include "process/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace farcached::process {

namespace {

// Whether stderr is what the variable names, "device:inode": it may have been redirected since.
bool is_journal() {
    const char* stream = std::getenv("JOURNAL_STREAM");
    if (stream == nullptr) return false;
    struct stat there {};
    if (fstat(STDERR_FILENO, &there) != 0) return false;
    return std::to_string(there.st_dev) + ":" + std::to_string(there.st_ino) == stream;
}

}  // namespace

void say(Level level, std::string_view line) {
    const std::string mark = is_journal() ? "<" + std::to_string(int(level)) + ">" : "";
    if (line.ends_with('\n')) line.remove_suffix(1);
    std::string text(mark);
    for (char c : line) {
        text += c;
        if (c == '\n') text += mark;
    }
    text += '\n';
    std::fputs(text.c_str(), stderr);
}

std::string LimitedLines::admit(Clock::time_point now, std::string_view line) {
    std::lock_guard hold(lock_);
    if (said_ == 0 || now - window_begun_ >= window) {
        window_begun_ = now;
        said_ = 0;
    }
    if (said_ == lines_max) {
        left_out_++;
        return {};
    }
    said_++;
    std::string text(line);
    if (left_out_ != 0) text += " (" + std::to_string(left_out_) + " lines like this were left out)";
    left_out_ = 0;
    return text;
}

void LimitedLines::say_at(Clock::time_point now, Level level, std::string_view line) {
    const std::string text = admit(now, line);
    if (!text.empty()) process::say(level, text);
}

}  // namespace farcached::process
