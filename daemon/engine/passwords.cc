// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/passwords.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

namespace farcached::daemon {

namespace {

// Compares all bytes, so that the time tells nothing of them.
bool same(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    unsigned difference = 0;
    for (size_t i = 0; i < a.size(); i++) difference |= unsigned(uint8_t(a[i]) ^ uint8_t(b[i]));
    return difference == 0;
}

Problem refused(const std::string& path, const std::string& why) { return system_problem("-Y " + path + ": " + why); }

}  // namespace

Result<Passwords::Entries> Passwords::read(const std::string& path) {
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    if (!file) return refused(path, std::string("cannot read the passwords: ") + std::strerror(errno));
    Entries entries;
    size_t bytes = 0, number = 0;
    for (std::string line; std::getline(file, line);) {
        number++;
        bytes += line.size() + 1;
        if (bytes > file_bytes_max) return refused(path, "more than a megabyte of passwords");
        if (line.ends_with('\r')) line.pop_back();
        if (line.empty()) continue;
        const size_t colon = line.find(':');
        const bool named = colon != std::string::npos && colon > 0 && line.find(' ') >= colon;
        if (!named || line.find('\0') != std::string::npos)
            return refused(path, "line " + std::to_string(number) + " is not user:password");
        if (line.size() > token_bytes_max) return refused(path, "line " + std::to_string(number) + " is too long");
        entries.push_back({line.substr(0, colon), line.substr(colon + 1)});
    }
    if (file.bad()) return refused(path, std::string("cannot read the passwords: ") + std::strerror(errno));
    if (entries.empty()) return refused(path, "no line has user:password, so nobody could connect");
    return entries;
}

Passwords::Found Passwords::look_up(const std::string& path, std::string_view user, std::string_view password) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return Found::unreadable;
    const bool possible = !user.empty() && user.find(':') == std::string_view::npos;
    const size_t ends = user.size() + 1 + password.size();
    int found = 0;
    size_t bytes = 0;
    for (std::string line; bytes <= file_bytes_max && std::getline(file, line); bytes += line.size() + 1) {
        if (line.ends_with('\r')) line.pop_back();
        if (line.size() < ends || line[user.size()] != ':') continue;
        const std::string_view rest = std::string_view(line).substr(user.size() + 1);
        const bool ended = rest.size() == password.size() || rest[password.size()] == ':';
        found |= int(ended) & int(same(user, std::string_view(line).substr(0, user.size()))) &
                 int(same(password, rest.substr(0, password.size())));
    }
    if (file.bad()) return Found::unreadable;
    return possible && found != 0 ? Found::allowed : Found::refused;
}

void Passwords::use(Entries entries) {
    std::lock_guard hold(lock_);
    entries_ = std::move(entries);
}

bool Passwords::allows(std::string_view user, std::string_view password) const {
    std::lock_guard hold(lock_);
    int found = 0;
    for (const Entry& entry : entries_) found |= int(same(user, entry.user)) & int(same(password, entry.password));
    return found != 0;
}

}  // namespace farcached::daemon
