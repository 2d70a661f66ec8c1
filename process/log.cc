// SPDX-License-Identifier: BSD-3-Clause
#include "process/log.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <vector>

#include "base/node_clock.h"
#include "process/json_text.h"

namespace farcached::process {

namespace {

std::string rfc3339(LogMoment at) {
    const time_t seconds = time_t(at.seconds);
    tm utc{};
    gmtime_r(&seconds, &utc);
    char text[40];
    const size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    std::snprintf(text + size, sizeof text - size, ".%03uZ", unsigned(at.ms));
    return text;
}

// Replaces control characters, so that foreign text cannot control the terminal.
std::string shown(std::string_view text) {
    std::string line(text);
    for (char& c : line)
        if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
    return line;
}

bool is_plain(char c) {
    return static_cast<unsigned char>(c) > ' ' && c != '"' && c != '=' && c != '\\' && c != 0x7f;
}

// logfmt: bare if unambiguous, otherwise quoted as in JSON.
std::string value_of(std::string_view text) {
    const bool bare = !text.empty() && std::all_of(text.begin(), text.end(), is_plain);
    return bare ? std::string(text) : json_string(text);
}

std::string pairs(LogFields fields) {
    std::string text;
    for (const LogField& field : fields) text.append(" ").append(field.name).append("=").append(value_of(field.value));
    return text;
}

}  // namespace

std::string log_line(LogFormat format, LogLevel level, LogMoment at, std::string_view sentence, LogFields fields) {
    const std::string_view level_name = log_level_names[size_t(level)];
    if (format == LogFormat::text) return shown(sentence) + pairs(fields);
    if (format == LogFormat::logfmt)
        return "ts=" + rfc3339(at) + " level=" + std::string(level_name) + " msg=" + value_of(sentence) + pairs(fields);
    JsonText line;
    line.begin('{');
    line.add("ts", rfc3339(at));
    line.add("level", level_name);
    line.add("msg", sentence);
    for (const LogField& field : fields) line.add(field.name, field.value);
    line.end('}');
    return line.text();
}

namespace {

// The initial $JOURNAL_STREAM, "device:inode"; copied, since other threads may call later.
std::string_view journal_stream() {
    static const std::string named = [] {
        const char* stream = std::getenv("JOURNAL_STREAM");
        return std::string(stream == nullptr ? "" : stream);
    }();
    return named;
}

// Without allocation.
std::string_view digits(uint64_t value, char (&room)[20]) {
    return {room, std::to_chars(room, room + sizeof room, value).ptr};
}

// One per process, like stderr.
struct Log {
    std::atomic<Level> least{Level::notice}, by_verbosity{Level::error};
    std::atomic<LogFormat> format{LogFormat::text};
    std::atomic<uint64_t> lost{0};
    std::mutex lock;
    std::atomic<uint64_t> lost_told{0};  // part of `lost` already logged; written under lock
    bool cut = false;            // under lock: the last line was written in part
};
Log& log() {
    static Log of_process;
    return of_process;
}

// The size that a terminal takes without waiting if it has any room. It counts room in pieces of 256 characters. A line
// end becomes two characters, so it must not share the last piece.
size_t at_once(std::string_view part) {
    constexpr size_t bytes_max = 128;
    return part.front() == '\n' ? 1 : std::min({part.size(), part.find('\n'), bytes_max});
}

// Bytes written without waiting (L4); -1: no room or no reader. All of `part`, except to a terminal or a full disk.
ssize_t write_at_once(std::string_view part, mode_t kind) {
    if (S_ISSOCK(kind)) return send(STDERR_FILENO, part.data(), part.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (S_ISREG(kind)) return write(STDERR_FILENO, part.data(), part.size());
    const iovec piece{const_cast<char*>(part.data()), part.size()};
    const ssize_t wrote = pwritev2(STDERR_FILENO, &piece, 1, -1, RWF_NOWAIT);
    if (wrote >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)) return wrote;
    // An older kernel, or a device: poll() shows room for at least this size.
    pollfd there{STDERR_FILENO, POLLOUT, 0};
    if (poll(&there, 1, 0) != 1) return -1;
    return write(STDERR_FILENO, part.data(), S_ISCHR(kind) ? at_once(part) : part.size());
}

// Number of bytes written.
size_t write_some(std::string_view text) {
    struct stat there {};
    if (fstat(STDERR_FILENO, &there) != 0) return 0;
    size_t done = 0;
    while (done < text.size()) {
        const ssize_t wrote = write_at_once(text.substr(done, PIPE_BUF), there.st_mode);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) break;
        done += size_t(wrote);
    }
    return done;
}

LogMoment moment() {
    const uint64_t now_us = realtime_us();
    return {int64_t(now_us / 1'000'000), uint32_t(now_us / 1000 % 1000)};
}

// Starts with a line end, used if the last line was cut.
std::string marked(Level level, std::string_view sentence, LogFields fields) {
    std::string text = stderr_is_journal() ? "\n<" + std::to_string(journal_level(level)) + ">" : std::string("\n");
    return text + log_line(log().format.load(std::memory_order_relaxed), level, moment(), sentence, fields) + "\n";
}

// Called under the lock. False: the line was not written whole.
bool write_line(Log& to, std::string_view marked_line) {
    const std::string_view text = marked_line.substr(to.cut ? 0 : 1);
    const size_t done = write_some(text);
    if (done != 0) to.cut = done < text.size();
    return done == text.size();
}

// Allocates before taking the lock: without memory, the process's final message needs the lock, too.
void write_lines(Level level, std::string_view lines, LogFields fields) {
    Log& to = log();
    std::vector<std::string> marked_lines;
    while (!lines.empty()) {
        const size_t end = lines.find('\n');
        marked_lines.push_back(marked(level, lines.substr(0, end), fields));
        lines.remove_prefix(end == lines.npos ? lines.size() : end + 1);
    }
    const uint64_t told = to.lost_told.load(std::memory_order_relaxed);
    const uint64_t lost = to.lost.load(std::memory_order_relaxed);
    std::string of_lost;
    if (lost != told) {
        const std::string count = std::to_string(lost - told);
        of_lost = marked(Level::warning, "log lines were lost because stderr did not accept them", {{"lines", count}});
    }
    std::lock_guard hold(to.lock);
    bool takes = true;
    if (lost != told && to.lost_told.load(std::memory_order_relaxed) == told) {  // else another thread logged the count
        takes = write_line(to, of_lost);
        if (takes) to.lost_told.store(lost, std::memory_order_relaxed);
    }
    for (const std::string& line : marked_lines)
        if (!takes || !write_line(to, line)) to.lost.fetch_add(1, std::memory_order_relaxed);
}

// A short sentence of plain characters, without allocation and timestamp. False: the sentence is not one.
bool write_without_memory(Level level, std::string_view sentence) noexcept {
    constexpr size_t bytes_max = 400;
    const auto is_plain = [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; };
    if (sentence.size() > bytes_max || !std::all_of(sentence.begin(), sentence.end(), is_plain)) return false;
    Log& to = log();
    const std::string_view name = log_level_names[size_t(level)];
    const LogFormat format = to.format.load(std::memory_order_relaxed);
    char line[bytes_max + 100] = "\n";
    size_t bytes = 1;
    if (stderr_is_journal()) bytes += size_t(std::snprintf(line + 1, sizeof line - 1, "<%d>", journal_level(level)));
    const auto append = [&](std::string_view words) {
        std::memcpy(line + bytes, words.data(), words.size());
        bytes += words.size();
    };
    if (format == LogFormat::logfmt) {
        for (std::string_view words : {std::string_view("level="), name, std::string_view(" msg=\"")}) append(words);
    } else if (format == LogFormat::json) {
        for (std::string_view words : {std::string_view("{\"level\":\""), name, std::string_view("\",\"msg\":\"")}) append(words);
    }
    append(sentence);
    append(format == LogFormat::text ? "\n" : format == LogFormat::logfmt ? "\"\n" : "\"}\n");
    std::lock_guard hold(to.lock);
    return write_line(to, {line, bytes});
}

}  // namespace

void set_log(Level least, LogFormat format) {
    log().least.store(least, std::memory_order_relaxed);
    log().format.store(format, std::memory_order_relaxed);
}

void set_verbosity(uint32_t verbosity) {
    const Level most = verbosity == 0 ? Level::error : verbosity == 1 ? Level::info : Level::debug;
    log().by_verbosity.store(most, std::memory_order_relaxed);
}

bool is_said(Level level) {
    const Log& of = log();
    return level <= of.least.load(std::memory_order_relaxed) || level <= of.by_verbosity.load(std::memory_order_relaxed);
}

void say(Level level, std::string_view line, LogFields fields) noexcept {
    try {
        if (is_said(level)) write_lines(level, line.empty() ? "\n" : line, fields);
    } catch (const std::bad_alloc&) {
        if (!write_without_memory(level, line)) lose_line();
    }
}

void lose_line() noexcept { log().lost.fetch_add(1, std::memory_order_relaxed); }

uint64_t log_lines_lost() { return log().lost.load(std::memory_order_relaxed); }

bool stderr_is_journal() {
    const std::string_view named = journal_stream();
    if (named.empty()) return false;
    struct stat there {};
    if (fstat(STDERR_FILENO, &there) != 0) return false;
    char device[20], inode[20];
    const size_t colon = named.find(':');
    if (colon == named.npos) return false;
    return named.substr(0, colon) == digits(there.st_dev, device) && named.substr(colon + 1) == digits(there.st_ino, inode);
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
    if (left_out_ != 0) text += " (" + std::to_string(left_out_) + " similar lines were suppressed)";
    left_out_ = 0;
    return text;
}

void LimitedLines::say(Level level, std::string_view line, LogFields fields) noexcept {
    try {
        if (!is_said(level)) return;
        const std::string text = admit(Clock::now(), line);
        if (!text.empty()) process::say(level, text, fields);
    } catch (const std::bad_alloc&) {  // admit() passed and counted it
        process::say(level, line);
    }
}

}  // namespace farcached::process
