// SPDX-License-Identifier: BSD-3-Clause
// tap: prints the results of our test programs. Header-only, one file for every unit program.
//
//     int main() {
//         tap::plan(3);                              // optional: without it, done() prints the plan
//         tap::ok(cache.empty(), "a new cache is empty");
//         tap::is(cache.size(), 0u, "of size nothing");        // prints both values when they differ
//         tap::skip(1, "needs two CPUs");
//         return tap::done();                        // 0 if every check held and the plan was kept
//     }
//
// I1  Any thread may call; each line is printed whole, and stdout is flushed per line, so that a crash
//     loses nothing.
// I2  Checks that run in great number (a parser at every split) count failures and call ok() once.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

namespace tap {

struct State {
    std::mutex lock;
    int planned = -1;
    int ran = 0;
    int failed = 0;
};

inline State& state() {
    static State only;
    return only;
}

// A value as text: bytes that would not print as \xNN, so that CR, LF and NUL are seen.
inline std::string show_bytes(std::string_view bytes) {
    std::string out = "\"";
    for (char c : bytes) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (c == '\r') {
            out += "\\r";
        } else if (c == '\n') {
            out += "\\n";
        } else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) {
            char hex[5];
            std::snprintf(hex, sizeof hex, "\\x%02x", unsigned(static_cast<unsigned char>(c)));
            out += hex;
        } else {
            out += c;
        }
    }
    return out + "\"";
}

template <class T>
std::string show(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
        return value ? "true" : "false";
    } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
        return show_bytes(std::string_view(value));
    } else if constexpr (std::is_enum_v<T>) {
        return std::to_string(static_cast<long long>(value));
    } else if constexpr (std::is_integral_v<T>) {
        return std::to_string(value);
    } else {
        std::ostringstream out;
        out << value;
        return out.str();
    }
}

inline void comment(std::string_view text) {
    while (!text.empty()) {
        size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        std::printf("# %.*s\n", int(line.size()), line.data());
        text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    }
    std::fflush(stdout);
}

// A remark in the log, printf-style.
[[gnu::format(printf, 1, 2)]] inline void note(const char* format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    std::lock_guard<std::mutex> held(state().lock);
    comment(text);
}

inline void plan(int tests) {
    std::lock_guard<std::mutex> held(state().lock);
    state().planned = tests;
    std::printf("1..%d\n", tests);
    std::fflush(stdout);
}

// `why` is printed below a check that failed. Returns `good`.
inline bool report(bool good, std::string_view name, std::string_view why) {
    std::lock_guard<std::mutex> held(state().lock);
    State& s = state();
    s.ran++;
    if (!good) s.failed++;
    // '#' in a name would be read as a directive.
    std::string safe(name);
    for (char& c : safe) {
        if (c == '#' || c == '\n' || c == '\r') c = ' ';
    }
    std::printf("%sok %d - %s\n", good ? "" : "not ", s.ran, safe.c_str());
    std::fflush(stdout);
    if (!good && !why.empty()) comment(why);
    return good;
}

inline bool ok(bool good, std::string_view name) { return report(good, name, ""); }

template <class Got, class Want>
bool is(const Got& got, const Want& want, std::string_view name) {
    bool good;
    if constexpr (std::is_convertible_v<const Got&, std::string_view> &&
                  std::is_convertible_v<const Want&, std::string_view>) {
        good = std::string_view(got) == std::string_view(want);
    } else {
        good = got == static_cast<Got>(want);
    }
    return report(good, name, good ? "" : "  got:  " + show(got) + "\n  want: " + show(want));
}

// `tests` checks that cannot run here, and why.
inline void skip(int tests, std::string_view why) {
    std::lock_guard<std::mutex> held(state().lock);
    for (int i = 0; i < tests; i++) {
        state().ran++;
        std::printf("ok %d # SKIP %.*s\n", state().ran, int(why.size()), why.data());
    }
    std::fflush(stdout);
}

// Ends the program: no further test can run.
[[noreturn]] inline void bail_out(std::string_view why) {
    std::printf("Bail out! %.*s\n", int(why.size()), why.data());
    std::fflush(stdout);
    std::exit(1);
}

// The last thing main calls: what it returns is the program's exit status.
inline int done() {
    std::lock_guard<std::mutex> held(state().lock);
    State& s = state();
    if (s.planned < 0) {
        std::printf("1..%d\n", s.ran);
        std::fflush(stdout);
        s.planned = s.ran;
    }
    return s.failed == 0 && s.planned == s.ran && s.ran > 0 ? 0 : 1;
}

}  // namespace tap
