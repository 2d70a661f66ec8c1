// SPDX-License-Identifier: BSD-3-Clause
// Fixture of the tests of `stats` with nodes. FakeNodes are numbers and a name; Tellers are real nodes, for the texts
// of their statistics. AskedNodes are behind real links and send the test's answers. NodesTalk is a client of the
// engines.
#pragma once

#include <poll.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/node_clock.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/links.h"
#include "daemon/engine/reply_queue.h"
#include "node/service/node_stats.h"
#include "process/node_time.h"
#include "t/unit/daemon/links_fixture.h"
#include "t/unit/daemon/stats_fixture.h"

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

inline std::string told_of(std::string_view name, std::string_view text) {
    return std::string(name) + " " + std::to_string(text.size()) + "\n" + std::string(text);
}

// A node that writes its own statistics.
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

// A request that came to nodes and waits for the test's answer.
struct Asked {
    std::string word;
    struct At {
        size_t node;
        uint64_t sequence;
        uint32_t tag;
    };
    std::vector<At> at;
};

// Nodes a and b behind TCP connections. They send the test's answers.
class AskedNodes {
  public:
    explicit AskedNodes(daemon::ReplyPool& pool) {
        conf::ProxySettings settings;
        settings.node_timeout_ms = 10'000;
        for (size_t i = 0; i < 2; i++) {
            settings.nodes.push_back(links_test::Desk::spec_of(names[i], servers_[i]));
            // Half a second behind this clock: the link's conversions round to it.
            servers_[i].node.zero_ns = uint64_t(process::node_zero_ns()) + UINT64_C(500'000'000);
            servers_[i].node.takes = [this, i](uint64_t sequence, const protocol::NodeRequest& request) {
                take(word_of(request.op), {i, sequence, request.options.tag});
                return true;
            };
        }
        nodes_ = std::get<std::unique_ptr<daemon::Nodes>>(daemon::Nodes::make(settings, {}, links_test::Desk::at_home));
        links.emplace(*nodes_, room_, 0, waits_, pool);
        links->start();
        const bool up = until([&] {
            for (const daemon::NodeShown& shown : nodes_->all())
                if (shown.state != daemon::NodeState::up) return false;
            return true;
        });
        CHECK(up);
    }
    ~AskedNodes() { links->stop(); }
    AskedNodes(const AskedNodes&) = delete;
    AskedNodes& operator=(const AskedNodes&) = delete;

    // Requests go to the nodes, and their answers to the client.
    void tick() {
        links->end_tick();
        for (links_test::Server& server : servers_) server.serve();
        waits_.run();
        if (links->timer_at_ns() <= boottime_ns()) links->timer_due();
    }
    template <class Is>
    bool until(Is is) {
        const uint64_t deadline_ns = boottime_ns() + UINT64_C(10'000'000'000);
        while (!is()) {
            if (boottime_ns() > deadline_ns) return false;
            tick();
            poll(nullptr, 0, 1);
        }
        return true;
    }
    // A word for each request: a node's name behind it if not both nodes have it.
    std::string take_words() {
        std::string words;
        for (; told_ < asked_.size(); told_++) {
            const Asked& one = asked_[told_];
            const bool both = one.at.size() == 2 || one.word == "get";
            words += (words.empty() ? "" : " ") + one.word + (both ? "" : names[one.at[0].node]);
        }
        return words;
    }
    bool awaits() const { return answered_ < asked_.size(); }
    // Answers the oldest request. told: as daemon/engine/links.h has it; a node without a text there refuses.
    void tell(std::string_view told) {
        answer([&](protocol::ReplyWriter& writer, size_t node, uint32_t tag) {
            const std::optional<std::string> text = text_of(told, names[node]);
            if (!text.has_value()) return refuse(writer, tag);
            writer.add_stats(tag, *text);
        });
    }
    void done() {
        answer([](protocol::ReplyWriter& writer, size_t, uint32_t tag) {
            protocol::ReplyOptions with;
            with.tag = tag;
            writer.add(protocol::DoneReply(), with);
        });
    }
    void refuse() {
        answer([](protocol::ReplyWriter& writer, size_t, uint32_t tag) { refuse(writer, tag); });
    }

  private:
    links_test::Server servers_[2];
    std::unique_ptr<daemon::Nodes> nodes_;
    daemon::Mailroom room_{1};
    links_test::PolledWaits waits_;

  public:
    std::optional<daemon::Links> links;

  private:
    static std::string word_of(const protocol::RequestOp& op) {
        if (const auto* stats = std::get_if<protocol::StatsOp>(&op)) return "stats[" + std::string(stats->group) + "]";
        if (const auto* flush = std::get_if<protocol::FlushOp>(&op))
            return flush->at.has_value() ? "flush@" + std::to_string(*flush->at) : "flush";
        return std::holds_alternative<protocol::GetOp>(op) ? "get" : "other";
    }
    // Notes a request; one to all nodes arrives at each.
    void take(const std::string& word, const Asked::At& at) {
        for (Asked& one : std::span(asked_).subspan(answered_))
            if (one.word == word && word != "get" && one.at.size() == 1 && one.at[0].node != at.node) return one.at.push_back(at);
        asked_.push_back({word, {at}});
    }
    static std::optional<std::string> text_of(std::string_view told, std::string_view name) {
        while (!told.empty()) {
            const std::string_view line = told.substr(0, told.find('\n'));
            told.remove_prefix(line.size() + 1);
            const size_t space = line.find(' ');
            const std::string_view size = line.substr(space + 1);
            const size_t bytes = size == "-" ? 0 : size_t(std::strtoull(std::string(size).c_str(), nullptr, 10));
            if (line.substr(0, space) == name)
                return size == "-" ? std::nullopt : std::optional<std::string>(told.substr(0, bytes));
            told.remove_prefix(bytes);
        }
        return std::nullopt;
    }
    static void refuse(protocol::ReplyWriter& writer, uint32_t tag) {
        protocol::ReplyOptions with;
        with.tag = tag;
        writer.add(protocol::RefusedReply{protocol::RequestRefusal::stats_unknown}, with);
    }
    template <class Write>
    void answer(Write write) {
        CHECK(awaits());
        for (const Asked::At& at : asked_[answered_++].at) {
            links_test::Server& server = servers_[at.node];
            server.node.answer_later(server.wire, at.sequence, boottime_ns(),
                                     [&](protocol::ReplyWriter& writer) { write(writer, at.node, at.tag); });
        }
    }

    static constexpr const char* names[] = {"a", "b"};
    std::vector<Asked> asked_;  // in the order of arrival
    size_t answered_ = 0;       // of these, the first ones
    size_t told_ = 0;           // by take_words()
};

// A client of a worker whose items are in nodes a and b. The test decides when its requests are answered.
class NodesTalk {
  public:
    explicit NodesTalk(bool track_sizes = false)
        : rig({}, track_sizes),
          counters(rig.server.workers[0]),
          context{daemon::Router(), counters, rig.options, *rig.admin, rig.watch, 100, 1'700'000'000},
          pool(context),
          asked_nodes(pool),
          queue(pool, 7) {
        context.router = daemon::Router(*asked_nodes.links);
        nodes.add("a", 0xa);
        nodes.add("b", 0xb);
        rig.server.behind = &nodes;
        session.fd = 7;
        session.replies = &queue;
        rig.store("embedded", "is never shown");
    }

    FakeNodes nodes;
    Rig rig;
    daemon::WorkerCounters& counters;
    daemon::Context context;
    daemon::ReplyPool pool;
    AskedNodes asked_nodes;
    daemon::ReplyQueue queue;
    daemon::SessionState session;
    bool binary = false;
    uint32_t yields = 0;
    bool closed = false;

    // The reply that leaves at once.
    std::string say(std::string_view bytes) {
        input_.append(bytes);
        return serve();
    }
    // The same after the oldest request was answered.
    std::string answer(std::string_view told) {
        asked_nodes.tell(told);
        return go_on();
    }
    std::string answer_done() {
        asked_nodes.done();
        return go_on();
    }
    std::string unavailable() {
        asked_nodes.refuse();
        return go_on();
    }
    std::string take_asked() { return asked_nodes.take_words(); }
    // `stats GROUP`: sends the request and the nodes' answers.
    std::string stats(std::string_view group, std::string_view told) {
        std::string heard = say("stats " + std::string(group) + "\r\n");
        return asked_nodes.awaits() ? heard + answer(told) : heard;
    }

  private:
    std::string go_on() {
        OutBuffer out;
        if (!asked_nodes.until([&] { return queue.ready(); })) return "(no answer came)";
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
        for (int i = 0; i < 2; i++) asked_nodes.tick();
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
