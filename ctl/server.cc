// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/server.h"

#include <utility>

#include "ctl/format.h"

namespace farcached::ctl {

namespace {

// "CLIENT_ERROR no such thing": the sentence without the word in front.
std::string_view sentence_of(std::string_view status) {
    const size_t blank = status.find(' ');
    return blank == status.npos ? std::string_view() : status.substr(blank + 1);
}

}  // namespace

std::optional<Failure> Server::connect() {
    if (connection_) return {};
    auto made = Connection::open(path_, timeout_ms_);
    if (auto* failure = std::get_if<Failure>(&made)) return *failure;
    connection_.emplace(std::move(std::get<Connection>(made)));
    kind_ = Kind::unknown;  // it may be another daemon now
    return {};
}

Or<Answer> Server::ask(std::string_view line) {
    if (auto failure = connect()) return *failure;
    Or<Answer> answer = connection_->ask(line);
    if (std::holds_alternative<Failure>(answer)) connection_.reset();
    return answer;
}

Failure Server::refusal(std::string_view status) const {
    const std::string_view sentence = sentence_of(status);
    if (sentence.empty()) return {path_ + ": the daemon does not support this command on this socket", true};
    return {path_ + ": " + printable(sentence), true};
}

Or<Server::Kind> Server::kind() {
    if (auto failure = connect()) return *failure;
    if (kind_ != Kind::unknown) return kind_;
    Or<Answer> version = ask("version");
    if (auto* failure = std::get_if<Failure>(&version)) return *failure;
    const std::string& status = std::get<Answer>(version).status;
    if (status.starts_with("VERSION farnode ")) return kind_ = Kind::farnode;
    if (!status.starts_with("VERSION ")) {
        connection_.reset();
        return refusal(status);
    }
    Or<Stats> general = stats();
    if (auto* failure = std::get_if<Failure>(&general)) return *failure;
    if (std::get<Stats>(general).find("farcached_version") != nullptr) return kind_ = Kind::farcached;
    connection_.reset();
    return Failure{path_ + ": the server is memcached, not farcached"};
}

Or<Stats> Server::stats(std::string_view group) {
    Or<Answer> answer = ask(group.empty() ? "stats" : "stats " + std::string(group));
    if (auto* failure = std::get_if<Failure>(&answer)) return *failure;
    Answer& got = std::get<Answer>(answer);
    if (got.status != "END") return refusal(got.status);
    return std::move(got.stats);
}

std::optional<Failure> Server::order(std::string_view line) {
    Or<Answer> answer = ask(line);
    if (auto* failure = std::get_if<Failure>(&answer)) return *failure;
    const std::string& status = std::get<Answer>(answer).status;
    if (status == "OK" || status == "RESET") return {};
    if (status == "ERROR")
        return Failure{path_ + ": not allowed for clients; use the socket of --admin", true};
    return refusal(status);
}

}  // namespace farcached::ctl
