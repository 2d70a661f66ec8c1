// SPDX-License-Identifier: BSD-3-Clause
#include "process/socket_holder.h"

#include <dirent.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <utility>

#include "process/socket_diag.h"

namespace farcached::process {

namespace {

// An IP address in the spelling of /proc/net/tcp and tcp6: its 32-bit words in hexadecimal.
struct Spelled {
    std::string words;
    uint16_t port = 0;
    bool ipv6 = false;

    bool is_any() const { return words.find_first_not_of('0') == words.npos; }
};

std::string hex_words(const void* bytes, size_t count) {
    std::string text;
    for (size_t i = 0; i < count; i++) {
        uint32_t word = 0;
        std::memcpy(&word, static_cast<const char*>(bytes) + i * sizeof word, sizeof word);
        char digits[9];
        std::snprintf(digits, sizeof digits, "%08X", word);
        text += digits;
    }
    return text;
}

// ::ffff:127.0.0.1 is 127.0.0.1.
Spelled without_mapping(Spelled at) {
    constexpr uint8_t beginning[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    const std::string mapped = hex_words(beginning, 3);
    if (!at.ipv6 || !at.words.starts_with(mapped)) return at;
    return {at.words.substr(mapped.size()), at.port, false};
}

Spelled spelled(const sockaddr* at) {
    if (at->sa_family == AF_INET6) {
        const auto* in6 = reinterpret_cast<const sockaddr_in6*>(at);
        return without_mapping({hex_words(&in6->sin6_addr, 4), ntohs(in6->sin6_port), true});
    }
    const auto* in = reinterpret_cast<const sockaddr_in*>(at);
    return {hex_words(&in->sin_addr, 1), ntohs(in->sin_port), false};
}

using Inode = uint64_t;  // of a socket; 0: none

// How a listener at `found` may hold `wanted`, most likely first.
enum class Match : uint8_t { exact, same_family, both_families, none };

Match match(const Spelled& found, const Spelled& wanted) {
    if (found.port != wanted.port) return Match::none;
    if (found.ipv6 == wanted.ipv6) {
        if (found.words == wanted.words) return Match::exact;
        return found.is_any() || wanted.is_any() ? Match::same_family : Match::none;
    }
    const Spelled& six = found.ipv6 ? found : wanted;
    return six.is_any() ? Match::both_families : Match::none;
}

struct Found {
    Match match = Match::none;
    Inode inode = 0;
};

// Replaces `best` by a better listener of a table in /proc/net, if there is one.
void look_up(const Spelled& wanted, bool ipv6, Found& best) {
    constexpr std::string_view listening = "0A";
    std::ifstream table(ipv6 ? "/proc/net/tcp6" : "/proc/net/tcp");
    std::string line;
    while (std::getline(table, line)) {
        std::istringstream fields(line);
        std::string number, local, remote, state, queues, timer, again, user, probes;
        Inode inode = 0;
        fields >> number >> local >> remote >> state >> queues >> timer >> again >> user >> probes >> inode;
        const size_t colon = local.find(':');
        if (!fields || state != listening || colon == local.npos) continue;
        Spelled found{local.substr(0, colon), 0, ipv6};
        (void)std::from_chars(local.data() + colon + 1, local.data() + local.size(), found.port, 16);
        found = without_mapping(std::move(found));
        const Match how = match(found, wanted);
        if (how >= best.match) continue;
        if (how == Match::both_families && found.ipv6 && !accepts_ipv4(inode)) continue;  // [::] with IPV6_V6ONLY
        best = {how, inode};
    }
}

constexpr std::string_view this_process = "this process";

struct CloseFolder {
    void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

bool has_socket(const std::string& process, const std::string& link) {
    const std::string path = "/proc/" + process + "/fd";
    const Folder folder(opendir(path.c_str()));
    if (folder == nullptr) return false;
    while (const dirent* entry = readdir(folder.get())) {
        char target[64];
        const ssize_t size = readlinkat(dirfd(folder.get()), entry->d_name, target, sizeof target);
        if (size > 0 && link == std::string_view(target, size_t(size))) return true;
    }
    return false;
}

// "memcached, process 812"
std::string process_with(Inode inode) {
    if (inode == 0) return {};
    const std::string link = "socket:[" + std::to_string(inode) + "]";
    const Folder folder(opendir("/proc"));
    if (folder == nullptr) return {};
    while (const dirent* entry = readdir(folder.get())) {
        const std::string process = entry->d_name;
        if (process.find_first_not_of("0123456789") != process.npos || !has_socket(process, link)) continue;
        if (process == std::to_string(getpid())) return std::string(this_process);
        std::ifstream file("/proc/" + process + "/comm");
        std::string name;
        std::getline(file, name);
        for (char& c : name)
            if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
        return (name.empty() ? "" : name + ", ") + "process " + process;
    }
    return {};
}

}  // namespace

// If no process shows the best match, another listener is no substitute: it may hold the port beside it.
std::string tcp_holder(const sockaddr* at) {
    const Spelled wanted = spelled(at);
    Found best;
    for (const bool ipv6 : {false, true}) look_up(wanted, ipv6, best);
    return process_with(best.inode);
}

std::string unix_holder(const std::string& path) { return process_with(unix_listener(path)); }

std::string holder_words(const std::string& holder) {
    if (holder == this_process) return " by " + holder + "; choose another address";
    return " by " + (holder.empty() ? "another process (`ss -lxtnp` as root names it)" : holder) +
           "; stop it, or choose another address";
}

std::string bind_error(int error, const sockaddr* at) {
    std::string text = std::strerror(error);
    return error == EADDRINUSE ? text + holder_words(tcp_holder(at)) : text;
}

}  // namespace farcached::process
