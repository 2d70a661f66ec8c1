// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farnode/admin.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "conf/program.h"
#include "process/process.h"

namespace farcached::node {

namespace {

constexpr size_t line_bytes_max = 256;   // longer than any command
constexpr size_t receive_bytes_max = 4096;
constexpr int lines_per_turn = 8;
constexpr timeval send_patience{2, 0};   // for the client to read more of a reply
constexpr std::string_view line_end = "\r\n";

// Reads bytes that arrived after the last reply before it closes: closing over unread input resets the connection, and the
// client may lose the reply.
void close_gently(int fd) {
    ::shutdown(fd, SHUT_WR);
    char unread[receive_bytes_max];
    constexpr int reads_max = 8;
    for (int i = 0; i < reads_max; i++)
        if (recv(fd, unread, sizeof unread, MSG_DONTWAIT) <= 0) break;
    close(fd);
}

constexpr std::string_view config_group = "config";  // of this socket alone

std::string group_names() {
    std::string names;
    for (const node::NodeStats::Group& group : node::NodeStats::groups()) names.append(group.name).append(", ");
    return names.append(config_group);
}

}  // namespace

struct FarnodeAdmin::Connection {
    FarnodeAdmin& admin;
    int fd;
    std::list<Connection>::iterator self;
    event readiness{};
    std::string input;    // D1: begins with an unexecuted line
    std::string output;   // unsent
    bool closing = false; // once output is sent
};

FarnodeAdmin::FarnodeAdmin(event_base* base, std::unique_ptr<process::AdminSocket> socket,
                           const NodeStats& stats, const process::Reloader& reloader, NodeReading (*clock)())
    : base_(base), socket_(std::move(socket)), stats_(stats), reloader_(reloader), clock_(clock) {
    socket_->open(base_, [this](int fd) { enter(fd); });
}

FarnodeAdmin::~FarnodeAdmin() {
    while (!connections_.empty()) remove(connections_.front());
}

void FarnodeAdmin::enter(int fd) {
    try {
        connections_.emplace_back(Connection{*this, fd, {}, {}, {}, {}, false});
    } catch (const std::bad_alloc&) {
        close(fd);
        socket_->left();
        return say_no_memory();
    }
    Connection& connection = connections_.back();
    connection.self = std::prev(connections_.end());
    event_assign(&connection.readiness, base_, fd, EV_READ | EV_PERSIST, on_ready, &connection);
    event_add(&connection.readiness, nullptr);
}

void FarnodeAdmin::remove(Connection& connection) {
    event_del(&connection.readiness);
    close_gently(connection.fd);
    connections_.erase(connection.self);
    socket_->left();
}

void FarnodeAdmin::say_no_memory() noexcept {
    no_memory_lines_.say(process::Level::warning,
                         "no memory for a connection; closing it; lower the memory limit, or raise the "
                         "memory limit of the process");
}

// receive() and serve() allocate nothing after they remove the connection.
void FarnodeAdmin::on_ready(evutil_socket_t, short what, void* argument) {
    Connection& connection = *static_cast<Connection*>(argument);
    FarnodeAdmin& admin = connection.admin;
    if ((what & EV_TIMEOUT) != 0) return admin.remove(connection);  // D2
    try {
        if ((what & EV_READ) != 0 && !admin.receive(connection)) return;
        admin.serve(connection);
    } catch (const std::bad_alloc&) {
        admin.remove(connection);
        admin.say_no_memory();
    }
}

// False: the connection is closed, or no input arrived.
bool FarnodeAdmin::receive(Connection& connection) {
    char bytes[receive_bytes_max];
    const ssize_t got = recv(connection.fd, bytes, sizeof bytes, 0);
    if (got > 0) {
        connection.input.append(bytes, size_t(got));
        return true;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) remove(connection);
    return false;
}

// Sends pending output, then executes lines until no complete line is left, or a reply is unsent.
void FarnodeAdmin::serve(Connection& connection) {
    if (!send_output(connection)) return;
    for (int i = 0; i < lines_per_turn; i++) {
        const size_t end = connection.input.find('\n');
        if (end == std::string::npos && connection.input.size() <= line_bytes_max)
            return wait_for(connection, EV_READ);
        if (std::min(end, connection.input.size()) > line_bytes_max) {
            connection.input.clear();
            connection.output = "CLIENT_ERROR line too long\r\n";
            connection.closing = true;
        } else {
            std::string line = connection.input.substr(0, end);
            connection.input.erase(0, end + 1);
            if (line.ends_with('\r')) line.pop_back();
            execute(line, connection);
        }
        if (!send_output(connection)) return;
    }
    wait_for(connection, EV_WRITE);  // D3: the socket is writable at once
}

void FarnodeAdmin::execute(std::string_view line, Connection& connection) {
    std::string& out = connection.output;
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    while (line.ends_with(' ')) line.remove_suffix(1);
    const std::string_view verb = line.substr(0, line.find(' '));
    std::string_view rest = line.substr(verb.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (verb == "stats") return append_stats(rest, out);
    if (line == "version") {
        out.append("VERSION farnode ").append(conf::farcached_version()).append(line_end);
    } else if (line == "reload") {
        process::Signals::ask_to_reload();
        out.append("OK").append(line_end);
    } else if (line == "quit") {
        connection.closing = true;
    } else {
        out.append("ERROR").append(line_end);
    }
}

void FarnodeAdmin::append_stats(std::string_view group, std::string& out) const {
    if (group == config_group) {
        reloader_.each([&](std::string_view name, std::string_view value) {
            out.append("STAT ").append(name).append(" ").append(value).append(line_end);
        });
        out.append("END").append(line_end);
        return;
    }
    std::string text;
    if (!stats_.append(group, clock_().seconds, text)) {
        out.append("CLIENT_ERROR no group of this name; groups: " + group_names()).append(line_end);
        return;
    }
    if (group == "groups") text.append(config_group).append(" 1\n");
    if (group.empty() || group == "general") text += "log_lines_lost " + std::to_string(process::log_lines_lost()) + "\n";
    std::string_view rest = text;
    while (!rest.empty()) {
        const size_t end = rest.find('\n');
        out.append("STAT ").append(rest.substr(0, end)).append(line_end);
        rest.remove_prefix(end + 1);
    }
    out.append("END").append(line_end);
}

// False: the connection is closed, or waits for its socket.
bool FarnodeAdmin::send_output(Connection& connection) {
    std::string& out = connection.output;
    if (!out.empty()) {
        const ssize_t sent = send(connection.fd, out.data(), out.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) return remove(connection), false;
        out.erase(0, sent < 0 ? 0 : size_t(sent));
        if (!out.empty()) return wait_for(connection, EV_WRITE), false;
    }
    if (connection.closing) return remove(connection), false;
    return true;
}

void FarnodeAdmin::wait_for(Connection& connection, short what) {
    if ((event_get_events(&connection.readiness) & what) != 0) return;
    event_del(&connection.readiness);
    event_assign(&connection.readiness, base_, connection.fd, short(what | EV_PERSIST), on_ready, &connection);
    event_add(&connection.readiness, what == EV_WRITE ? &send_patience : nullptr);
}

}  // namespace farcached::node
