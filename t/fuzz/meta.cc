// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: meta commands whose verbs are valid more often than random ones. Each line of the input becomes a
// command on one of three keys, unless it is a meta command already.
#include <string>
#include <string_view>

#include "t/fuzz/text_session.h"

namespace {

constexpr std::string_view verbs[] = {"mg", "ms", "md", "ma", "me"};
constexpr std::string_view keys[] = {"a", "Zm9v", "foo"};

bool is_meta(std::string_view line) {
    for (std::string_view verb : verbs)
        if (line.starts_with(verb)) return true;
    return false;
}

std::string command(std::string_view line) {
    if (line.empty() || is_meta(line)) return std::string(line) + "\n";
    uint8_t choice = static_cast<uint8_t>(line.front());
    std::string_view verb = verbs[choice % 5];
    std::string made = std::string(verb) + " " + std::string(keys[choice / 5 % 3]);
    if (verb == "ms") made += " 2";
    made += " " + std::string(line.substr(1)) + "\r\n";
    if (verb == "ms") made += "12\r\n";
    return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
    std::string said;
    while (!rest.empty()) {
        std::string_view line = rest.substr(0, rest.find('\n'));
        said += command(line);
        rest.remove_prefix(line.size() == rest.size() ? line.size() : line.size() + 1);
    }
    fuzz::compare(said, data[0]);
    return 0;
}
