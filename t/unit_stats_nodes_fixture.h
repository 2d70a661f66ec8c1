// SPDX-License-Identifier: BSD-3-Clause
// What the tests of `stats` with nodes run in: nodes that are only numbers and a name, real ones for the texts that
// they tell, a backend that is answered by the test, and a client in front of the engines and the real AdminImpl.
#pragma once

#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/backend.h"
#include "daemon/engine.h"
#include "daemon/reply_queue.h"
#include "node/node_stats.h"
#include "t/unit_stats_fixture.h"

namespace fixture {

class FakeNodes final : public daemon::NodesView {
  public:
    struct Node {
        daemon::NodeShown shown;
        proxy::LinkCounters links[2];
        proxy::LocalGetCounters locals[2];
    };
    std::deque<Node> nodes, gone;
    proxy::PointerTable* table = nullptr;

    void add(std::string name, uint64_t incarnation) {
        daemon::NodeShown& shown = nodes.emplace_back().shown;
        shown.number = uint32_t(nodes.size() + gone.size() - 1);
        shown.name = std::move(name);
        shown.address = "shm:/run/" + shown.name;
        shown.incarnation = incarnation;
        shown.state = daemon::NodeState::up;
        shown.links = shown.links_up = 2;
    }
    std::vector<daemon::NodeShown> all() const override {
        std::vector<daemon::NodeShown> all;
        for (const Node& node : nodes) all.push_back(node.shown);
        return all;
    }
    void each_link(uint32_t number, LinkVisit visit) const override {
        for (const Node& node : nodes)
            for (int i = 0; i < 2; i++)
                if (node.shown.number == number) visit(node.links[i], node.locals[i]);
    }
    void each_past_link(LinkVisit visit) const override {
        for (const Node& node : gone)
            for (int i = 0; i < 2; i++) visit(node.links[i], node.locals[i]);
    }
    proxy::PointerTable* pointer_table() const override { return table; }
    bool drain(std::string_view, bool) override { return false; }
    daemon::Route way;  // of every key
    daemon::Route route(std::string_view) const override { return way; }
};

// Answers nothing by itself.
class FakeBackend final : public daemon::Backend {
  public:
    std::string asked;                    // what was asked, a word each
    std::vector<daemon::Ticket> tickets;  // unanswered

    daemon::Asked ask(const protocol::GetOp&, daemon::Wanted, daemon::Ticket ticket, ValueSink,
                      protocol::GetReply&) override {
        return later("get", ticket);
    }
    daemon::Asked ask(const protocol::StoreOp&, daemon::Ticket ticket, protocol::StoreReply&) override {
        return later("store", ticket);
    }
    daemon::Asked ask(const protocol::DeleteOp&, daemon::Ticket ticket, protocol::DeleteReply&) override {
        return later("delete", ticket);
    }
    daemon::Asked ask(const protocol::ArithOp&, daemon::Ticket ticket, protocol::ArithReply&) override {
        return later("arith", ticket);
    }
    daemon::Asked ask(const protocol::ForgetOp&, daemon::Ticket ticket) override { return later("forget", ticket); }
    daemon::Asked ask(const protocol::FlushOp& op, daemon::Ticket ticket) override {
        return later(op.at.has_value() ? "flush@" + std::to_string(*op.at) : "flush", ticket);
    }
    daemon::Asked ask(const protocol::StatsOp& op, std::string_view node, daemon::Ticket ticket) override {
        return later("stats[" + std::string(op.group) + "]" + std::string(node), ticket);
    }
    bool too_large(size_t, uint64_t) const override { return false; }
    void end_tick() override {}

  private:
    daemon::Asked later(const std::string& what, daemon::Ticket ticket) {
        asked += (asked.empty() ? "" : " ") + what;
        tickets.push_back(ticket);
        return daemon::Asked::later;
    }
};

inline std::string told_of(std::string_view name, std::string_view text) {
    return std::string(name) + " " + std::to_string(text.size()) + "\n" + std::string(text);
}

// A node that tells of itself.
struct Teller {
    std::string name;
    node::Node node;
    node::NodeStats stats;

    Teller(std::string named, const node::Config& config)
        : name(std::move(named)), node(config), stats(node, name, 2) {}
    static node::Config config(double growth = 1.25) {
        node::Config config = small_node();
        config.growth_factor = growth;
        config.lease.enabled = true;
        return config;
    }
    void store(std::string_view key, std::string_view value) {
        protocol::StoreOp op;
        op.key = node.key(key);
        op.value = value;
        CHECK(node.store(op, 100).status == protocol::StoreReply::Status::stored);
    }
    uint64_t incarnation() const { return node.view().header->incarnation; }
    std::string tells(std::string_view group) const {
        std::string text;
        CHECK(stats.append(group, 100, text));
        return told_of(name, text);
    }
};

// A client of a worker whose items are in nodes a and b. What it says is answered when the test answers.
class NodesTalk {
  public:
    explicit NodesTalk(bool track_sizes = false)
        : rig({}, track_sizes),
          local(rig.node.view()),
          counters(rig.server.workers[0]),
          context{rig.node, local, counters, rig.options, *rig.admin, rig.watch, 100, 1'700'000'000, &backend},
          pool(context, nullptr),
          queue(pool, 7) {
        nodes.add("a", 0xa);
        nodes.add("b", 0xb);
        rig.server.behind = &nodes;
        session.fd = 7;
        session.replies = &queue;
        rig.store("embedded", "is never shown");
    }

    FakeNodes nodes;
    FakeBackend backend;
    Rig rig;
    proxy::LocalGet local;
    daemon::WorkerCounters& counters;
    daemon::Context context;
    daemon::ReplyPool pool;
    daemon::ReplyQueue queue;
    daemon::SessionState session;
    bool binary = false;
    uint32_t yields = 0;
    bool closed = false;

    // What is sent back at once.
    std::string say(std::string_view bytes) {
        input_.append(bytes);
        return serve();
    }
    // The same after the oldest question was answered.
    std::string answer(std::string_view told) {
        pool.answer(take_ticket(), protocol::StatsReply(), told);
        return go_on();
    }
    std::string answer_done() {
        pool.answer(take_ticket(), protocol::DoneReply());
        return go_on();
    }
    std::string unavailable() {
        pool.unavailable(take_ticket());
        return go_on();
    }
    std::string take_asked() { return std::exchange(backend.asked, {}); }
    // `stats GROUP`, all asked and answered.
    std::string stats(std::string_view group, std::string_view told) {
        std::string heard = say("stats " + std::string(group) + "\r\n");
        return backend.tickets.empty() ? heard : heard + answer(told);
    }

  private:
    daemon::Ticket take_ticket() {
        if (backend.tickets.empty()) std::abort();
        const daemon::Ticket ticket = backend.tickets.front();
        backend.tickets.erase(backend.tickets.begin());
        return ticket;
    }
    std::string go_on() {
        OutBuffer out;
        queue.emit(out);
        return std::string(out.data(), out.size()) + serve();
    }
    std::string serve() {
        std::string sent;
        auto* engine = binary ? daemon::run_binary : daemon::run_text;
        while (!closed) {
            OutBuffer out;
            const daemon::Progress progress = engine(context, session, input_, out, 100);
            input_.erase(0, progress.consumed);
            queue.settle(out);
            sent.append(out.data(), out.size());
            if (progress.next == daemon::Next::close) closed = true;
            if (progress.next == daemon::Next::yield) yields++;
            if (progress.next != daemon::Next::yield) break;
        }
        return sent;
    }

    std::string input_;
};

// The value of `STAT name value` in a reply; "-" if it is not there.
inline std::string stat_of(std::string_view reply, std::string_view name) {
    const std::string line = "STAT " + std::string(name) + " ";
    size_t at = reply.starts_with(line) ? 0 : reply.find("\n" + line);
    if (at == reply.npos) return "-";
    at = reply.find(line, at) + line.size();
    return std::string(reply.substr(at, reply.find("\r\n", at) - at));
}

}  // namespace fixture
