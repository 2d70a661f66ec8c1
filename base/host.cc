// SPDX-License-Identifier: BSD-3-Clause
#include "base/host.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <variant>

#include "base/out_buffer.h"

namespace farcached {

namespace {

std::optional<uint8_t> hex_digit(char c) {
    if (c >= '0' && c <= '9') return uint8_t(c - '0');
    if (c >= 'a' && c <= 'f') return uint8_t(c - 'a' + 10);
    return {};
}

}  // namespace

Result<BootId> read_boot_id() {
    static constexpr const char* path = "/proc/sys/kernel/random/boot_id";
    char text[64];
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = file < 0 ? -1 : read(file, text, sizeof text);
    const int error = errno;
    if (file >= 0) close(file);
    const auto failed = [](const std::string& why) { return system_problem(std::string(path) + ": " + why); };
    if (got < 0) return failed(std::generic_category().message(error) + "; /proc must be mounted");
    BootId id{};
    uint32_t digits = 0;
    for (char c : std::string_view(text, size_t(got))) {
        if (std::optional<uint8_t> digit = hex_digit(c); digit && digits < 32) {
            uint64_t& word = id[digits++ / 16];
            word = word << 4 | *digit;
        }
    }
    if (digits != 32) return failed("holds no boot id; /proc must be the kernel's own");
    return id;
}

std::optional<ProcessLife> process_life(uint64_t pid) {
    constexpr int fields_between = 18;  // proc(5): the name is the 2nd field, state the 3rd, starttime the 22nd
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    if (!std::getline(file, text)) return std::nullopt;
    const size_t name_end = text.rfind(')');  // a name may contain blanks
    if (name_end == std::string::npos) return std::nullopt;
    std::istringstream fields(text.substr(name_end + 1));
    ProcessLife life;
    fields >> life.state;
    std::string skipped;
    for (int i = 0; i < fields_between; i++) fields >> skipped;
    if (!(fields >> life.started)) return std::nullopt;
    return life;
}

std::string boot_name() {
    const Result<BootId> boot = read_boot_id();
    const auto* const id = std::get_if<BootId>(&boot);
    return id == nullptr ? std::string() : hex_text((*id)[0]) + hex_text((*id)[1]);
}

std::string socket_identity(const std::string& path) {
    struct stat at{};
    if (stat(path.c_str(), &at) != 0 || !S_ISSOCK(at.st_mode)) return {};
    const std::string boot = boot_name();
    return boot.empty() ? boot : boot + ":" + std::to_string(at.st_dev) + ":" + std::to_string(at.st_ino);
}

}  // namespace farcached
