// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/password_file.h"

#include <strings.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "process/secret_file.h"

namespace farcached::daemon {

namespace {

Problem refused_password(const std::string& path, const std::string& why) {
    return system_problem("--discover-password-file " + path + ": " + why);
}

// Also the bytes behind its end.
void wipe(std::string& text) noexcept {
    text.resize(text.capacity());  // takes no memory
    explicit_bzero(text.data(), text.size());
}

}  // namespace

SecretText::SecretText(SecretText&& other) noexcept : text(std::move(other.text)) {
    wipe(other.text);
    other.text.clear();
}
SecretText::~SecretText() { wipe(text); }

Result<Password> read_password(const std::string& path) {
    constexpr size_t line_end_bytes = 1;
    const process::SecretFile file(path.c_str(), Password::bytes_max + line_end_bytes, S_IRWXG | S_IRWXO);
    using enum process::SecretFile::Status;
    switch (file.status()) {
        case unreadable: return refused_password(path, std::strerror(errno));
        case irregular: return refused_password(path, "it is no regular file");
        case exposed: return refused_password(path, process::secret_file_exposed);
        case whole:
        case too_long: break;  // only the first line counts
    }
    std::string_view line = file.text();
    line = line.substr(0, line.find('\n'));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.size() > Password::bytes_max)
        return refused_password(path, "its first line must have 1 to " + std::to_string(Password::bytes_max) + " characters");
    return Password(std::string(line));
}

}  // namespace farcached::daemon
