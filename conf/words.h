// SPDX-License-Identifier: BSD-3-Clause
// The words of options that modules outside conf/ read as enumerations, each list in the order of its enumeration.
// Threads: constants.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace farcached {

// How a node learns of one-sided reads of its items. A node's option accepts the first three words, a proxy's all.
enum class AccessTracking : uint8_t {
    none,    // a proxy sends them with its next requests, if any
    atomic,  // each read adds one to a counter of the item by RDMA
    report,  // a proxy regularly sends reports of the important ones, even without requests
    automatic,  // a proxy's: report if it reads by remote pointers, none if the memory is mapped
};
constexpr std::array<std::string_view, 4> access_tracking_names = {"none", "atomic", "report", "auto"};
static_assert(access_tracking_names[size_t(AccessTracking::automatic)] == "auto");
constexpr std::span<const std::string_view> access_tracking_names_of_nodes = std::span(access_tracking_names).first(3);

// log_level: in the order of syslog(3) and the journal, from its 3 on.
enum class LogLevel : uint8_t {
    error,    // the process cannot do its work, or ends
    warning,  // a resource is missing; the process goes on without it
    notice,   // the resource is back, or an operator acted
    info,     // with -v
    debug,    // with -vv: the requests of clients and the replies
};
constexpr std::array<std::string_view, 5> log_level_names = {"error", "warning", "notice", "info", "debug"};
static_assert(log_level_names[size_t(LogLevel::debug)] == "debug");
constexpr int journal_level(LogLevel level) { return 3 + int(level); }

enum class LogFormat : uint8_t {
    text,    // a sentence, then its subject as name=value
    logfmt,  // name=value alone, time and level first
    json,    // the same as an object
};
constexpr std::array<std::string_view, 3> log_format_names = {"text", "logfmt", "json"};
static_assert(log_format_names[size_t(LogFormat::json)] == "json");

// TLS of a listener's clients, by a prefix in -l.
enum class TlsMode : uint8_t {
    plain,       // none
    configured,  // client certificates as ssl_verify_mode demands
    unverified,  // without client certificates
    verified,    // with client certificates
};

// The backends for client sockets.
enum class SocketBackend : uint8_t {
    libevent,
    uring,      // io_uring, with a message on stderr if it is unavailable
    automatic,  // io_uring if it is available
};
constexpr std::array<std::string_view, 3> socket_backend_names = {"libevent", "uring", "auto"};
static_assert(socket_backend_names[size_t(SocketBackend::automatic)] == "auto");

}  // namespace farcached
