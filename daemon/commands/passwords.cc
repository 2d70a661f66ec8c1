// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/commands/passwords.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <utility>

#include "base/secret.h"
#include "fabric/socket.h"

namespace farcached::daemon {

namespace {

Problem refused(const std::string& path, const std::string& why) { return system_problem("-Y " + path + ": " + why); }

enum class Reading : uint8_t { whole, unreadable, too_long };

// errno has the reason of unreadable.
Reading read_text(const std::string& path, std::string& text) {
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    if (!file) return Reading::unreadable;
    constexpr size_t step = 64 << 10;
    while (file && text.size() <= Passwords::file_bytes_max) {
        const size_t before = text.size();
        text.resize(before + step);
        file.read(text.data() + before, step);
        text.resize(before + size_t(file.gcount()));
    }
    if (file.bad()) return Reading::unreadable;
    return text.size() > Passwords::file_bytes_max ? Reading::too_long : Reading::whole;
}

std::string_view take_line(std::string_view& text) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
}

}  // namespace

void FailedLogins::tell(int fd, std::string_view reason) const noexcept {
    if (!process::is_said(process::Level::info)) return;
    try {
        lines_.say(process::Level::info, "a client's authentication failed", {{"reason", reason}, {"client", fabric::peer_of(fd)}});
    } catch (const std::bad_alloc&) {
        process::lose_line();
    }
}

Result<Passwords::Entries> Passwords::read(const std::string& path) {
    std::string text;
    const Reading result = read_text(path, text);
    if (result == Reading::unreadable) return refused(path, std::string("cannot read the passwords: ") + std::strerror(errno));
    if (result == Reading::too_long) return refused(path, "more than a megabyte of passwords");
    Entries entries;
    size_t number = 0;
    for (std::string_view rest = text; !rest.empty();) {
        number++;
        const std::string_view line = take_line(rest);
        if (line.empty()) continue;
        const size_t colon = line.find(':');
        const bool named = colon != std::string_view::npos && colon > 0 && line.find(' ') >= colon;
        if (!named || line.find('\0') != std::string_view::npos)
            return refused(path, "line " + std::to_string(number) + " is not user:password");
        if (line.size() > token_bytes_max) return refused(path, "line " + std::to_string(number) + " is too long");
        entries.push_back({std::string(line.substr(0, colon)), std::string(line.substr(colon + 1))});
    }
    if (entries.empty()) return refused(path, "no line has user:password, so nobody could connect");
    return entries;
}

Passwords::Found Passwords::look_up(const std::string& path, std::string_view user, std::string_view password) {
    std::string text;
    const Reading result = read_text(path, text);
    if (result != Reading::whole) return result == Reading::too_long ? Found::too_long : Found::unreadable;
    const bool possible = !user.empty() && user.find(':') == std::string_view::npos;
    const size_t ends = user.size() + 1 + password.size();
    int found = 0;
    for (std::string_view left = text; !left.empty();) {
        const std::string_view line = take_line(left);
        if (line.size() < ends || line[user.size()] != ':') continue;
        const std::string_view rest = line.substr(user.size() + 1);
        const bool ended = rest.size() == password.size() || rest[password.size()] == ':';
        const bool same_user = same_secret(user, line.substr(0, user.size()));
        found |= int(ended) & int(same_user) & int(same_secret(password, rest.substr(0, password.size())));
    }
    return possible && found != 0 ? Found::allowed : Found::refused;
}

void Passwords::use(Entries entries) {
    std::lock_guard hold(lock_);
    entries_ = std::move(entries);
}

bool Passwords::allows(std::string_view user, std::string_view password) const {
    std::lock_guard hold(lock_);
    int found = 0;
    for (const Entry& entry : entries_) found |= int(same_secret(user, entry.user)) & int(same_secret(password, entry.password));
    return found != 0;
}

}  // namespace farcached::daemon
