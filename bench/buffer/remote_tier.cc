// SPDX-License-Identifier: BSD-3-Clause
#include "bench/buffer/remote_tier.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <variant>

#include "base/check.h"
#include "base/node_clock.h"
#include "bench/command.h"

namespace farcached::bench {

namespace {

constexpr uint64_t answer_ns_max = UINT64_C(20'000'000'000);

}  // namespace

RemoteTier::RemoteTier(const Config& config) : config_(config) { start(); }

RemoteTier::~RemoteTier() {
    if (link_ != nullptr) link_->disconnect();
}

void RemoteTier::start() {
    std::vector<std::string> arguments = {"-e", config_.files + ".items", "--ext_path=" + config_.files + ".values:64M",
                                          "--ext_page_size=1", "--ext_wbuf_size=1", "--no_ext_drop_unread", "-I", "32k"};
    arguments.insert(arguments.end(), config_.arguments.begin(), config_.arguments.end());
    node_ = std::make_unique<NodeProcess>(config_.start, arguments);
    reach_ = std::make_unique<Reach>(node_->places().front(), config_.spin);
    connect();
}

void RemoteTier::connect() {
    link_.reset();
    const ClientLink::Maker maker = channels_over(*reach_, rpc_);
    ClientLink::Dependencies deps{maker, [] { return interrupted.load(std::memory_order_relaxed); }};
    deps.spin = config_.spin;
    link_ = std::make_unique<ClientLink>(client_link_config(), page_bytes, deps);
    link_->connect();
}

void RemoteTier::restart() {
    link_.reset();
    reach_.reset();
    node_.reset();
    start();
}

// Asks, and waits for the reply.
template <class Ask>
void RemoteTier::exchange(Ask&& ask) {
    const auto stop_if_interrupted = [] {
        if (interrupted.load(std::memory_order_relaxed)) throw std::runtime_error("interrupted");
    };
    proxy::AskOptions options;
    done_ = hit_ = false;
    for (;;) {
        options.deadline_ns = link_->read_clock() + answer_ns_max;
        if (link_->up() && ask(options) == proxy::AskResult::accepted) break;
        stop_if_interrupted();
        link_->flush();
        link_->wait();
        if (!link_->up()) link_->await();
    }
    while (!done_) {
        link_->flush();
        if (!done_) link_->wait();
        stop_if_interrupted();
    }
    if (!error_.empty()) throw std::runtime_error("the remote node: " + error_);
}

From RemoteTier::get(std::string_view key, std::string& value) {
    protocol::GetOp op;
    op.key = {key, 0};
    value_ = &value;
    exchange([&](const proxy::AskOptions& options) { return link_->requests().get(op, options, *this, link_->now_ns()); });
    return hit_ ? From::node : From::nowhere;
}

void RemoteTier::set(std::string_view key, std::string_view value) {
    protocol::StoreOp op;
    op.key = {key, 0};
    op.value = value;
    CHECK(!link_->up() || !link_->requests().value_follows(op));
    exchange([&](const proxy::AskOptions& options) { return link_->requests().ask(op, options, *this); });
    if (!hit_) throw std::runtime_error("a value was not stored");
}

uint64_t RemoteTier::statistic(std::string_view name) {
    std::string text;
    value_ = &text;
    const protocol::StatsOp op{};
    exchange([&](const proxy::AskOptions& options) { return link_->requests().ask(op, options, *this); });
    // Lines of a name, a blank and a value.
    for (std::string_view left = text; !left.empty();) {
        const std::string_view line = left.substr(0, left.find('\n'));
        left.remove_prefix(std::min(line.size() + 1, left.size()));
        const size_t blank = line.find(' ');
        if (blank == line.npos || line.substr(0, blank) != name) continue;
        uint64_t number = 0;
        std::from_chars(line.data() + blank + 1, line.data() + line.size(), number);
        return number;
    }
    throw std::runtime_error("the node has no statistic " + std::string(name));
}

void RemoteTier::answered(proxy::Ticket, proxy::Answer& answer) {
    done_ = true;
    if (const auto* stored = std::get_if<protocol::StoreReply>(&answer.op)) {
        hit_ = stored->status == protocol::StoreReply::Status::stored;
        return;
    }
    const auto* got = std::get_if<protocol::GetReply>(&answer.op);
    hit_ = got == nullptr || got->status == protocol::GetReply::Status::hit;
    if (hit_) value_->assign(answer.value);
}

void RemoteTier::failed(proxy::Ticket, const proxy::Failed& failed) {
    done_ = true;
    error_ = failure_text(failed);
}

}  // namespace farcached::bench
