// SPDX-License-Identifier: BSD-3-Clause
// Fixture of the text engine's tests and fuzz targets: a small real node, a session's buffers, and a clock that the
// test moves. An Admin and a WatchLog record their calls.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/out_buffer.h"
#include "daemon/engine/engine.h"
#include "node/store/node.h"
#include "proxy/local_get.h"
#include "t/lib/sent_bytes.h"
#include "t/lib/tap.h"

namespace fixture {

using namespace farcached;

class RecordingAdmin final : public daemon::Admin {
  public:
    std::string told;  // one word or line per call

    void stats_text(std::string_view args, std::string_view, OutBuffer& out) override {
        told += "stats[" + std::string(args) + "]";
        out.append("END\r\n");
    }
    daemon::StatsFound stats_binary(std::string_view, std::string_view,
                                    FunctionRef<void(std::string_view, std::string_view)>) override {
        return daemon::StatsFound::unknown;
    }
    void verbosity(uint32_t level) override { told += "verbosity" + std::to_string(level); }
    void tune(std::string_view line, OutBuffer& out) override {
        told += "tune[" + std::string(line) + "]";
        out.append("TUNED\r\n");
    }
    void flush_at(NodeSeconds when) override { told += "flush_at" + std::to_string(when); }
    void drain(std::string_view node, bool on, OutBuffer& out) override {
        told += (on ? "drain[" : "undrain[") + std::string(node) + "]";
        out.append("OK\r\n");
    }
    void shutdown(bool graceful) override { told += graceful ? "graceful" : "shutdown"; }
    void detail(std::string_view key, daemon::KeyUse use) override {
        constexpr std::string_view words[] = {"+", "-", "set:", "del:"};
        told.append(words[size_t(use)]).append(key);
    }
};

class RecordingWatch final : public daemon::WatchLog {
  public:
    std::string lines;

    void want(uint32_t flags) { wanted_.store(flags, std::memory_order_relaxed); }
    void item_get(std::string_view key, std::string_view status, uint8_t, int fd,
                  uint32_t value_len) override {
        lines += "get " + std::string(key) + " " + std::string(status) + " " +
                 std::to_string(fd) + " " + std::to_string(value_len) + "\n";
    }
    void item_store(std::string_view key, std::string_view status, std::string_view cmd,
                    int64_t ttl, uint8_t, int, uint32_t value_len) override {
        lines += "store " + std::string(key) + " " + std::string(status) + " " + std::string(cmd) +
                 " " + std::to_string(ttl) + " " + std::to_string(value_len) + "\n";
    }
    void deleted(std::string_view key, std::string_view cmd, uint8_t, uint32_t value_len) override {
        lines += "deleted " + std::string(key) + " " + std::string(cmd) + " " +
                 std::to_string(value_len) + "\n";
    }
    void eviction(std::string_view, const protocol::ItemMeta&, int64_t, NodeSeconds) override {}
    void connection(std::string_view) override {}
};

inline node::Config small_config() {
    node::Config config;
    config.memory_bytes = UINT64_C(8) << 20;
    config.partitions = 1;
    config.workers = 1;
    return config;
}

// One client of one worker on one node, in whichever protocol.
template <class AdminKind>
class OneClient {
  public:
    static constexpr NodeSeconds start = 1000;
    static constexpr int64_t started_unix = 1'700'000'000;

    explicit OneClient(const node::Config& config)
        : node(config), local(node, admin), counters(std::make_unique<daemon::WorkerCounters>()),
          context{daemon::Router(local), *counters, options, admin, watch, start, started_unix} {
        session.fd = 7;
    }

    node::Node node;
    AdminKind admin;
    daemon::LocalPeer local;
    std::unique_ptr<daemon::WorkerCounters> counters;
    daemon::EngineOptions options;
    RecordingWatch watch;
    daemon::Context context;
    daemon::SessionState session;
    daemon::Progress last;  // of the latest engine call
    bool closed = false;
    size_t out_peak = 0;    // the most that one engine call had appended
    uint32_t budget = 1000;

    size_t held() const { return input_.size(); }
    void drop_held() { input_.clear(); }
    uint64_t class_sum(Counter daemon::ClassCounters::* counter) const {
        uint64_t sum = 0;
        for (const daemon::ClassCounters& c : counters->classes) sum += (c.*counter).get();
        return sum;
    }

  protected:
    std::string input_;
    OutBuffer out_;
};

// Its conversation in text.
class Talk : public OneClient<RecordingAdmin> {
  public:
    explicit Talk(const node::Config& config = small_config()) : OneClient(config) {}

    // As a session does: all of `bytes` arrive at once. Returns what is sent back. `held` bytes
    // stay.
    std::string say(std::string_view bytes) {
        std::string sent;
        if (closed) return sent;
        input_.append(bytes);
        do {
            last = daemon::run_text(context, session, input_, out_, budget);
            if (last.consumed > input_.size()) std::abort();
            input_.erase(0, last.consumed);
            if (out_.leaves() > out_peak) out_peak = out_.leaves();
            sent += sent_bytes(out_);
            out_.clear(1 << 16);
            context.router.record_accesses(context.now);
            if (last.next == daemon::Next::close) closed = true;
        } while (last.next == daemon::Next::yield);
        return sent;
    }
    // The same, cut in two at `at`.
    std::string say_cut(std::string_view bytes, size_t at) {
        std::string sent = say(bytes.substr(0, at));
        return sent + say(bytes.substr(at));
    }
    // The same, in pieces of `size` bytes.
    std::string say_in_pieces(std::string_view bytes, size_t size) {
        std::string sent;
        for (size_t at = 0; at < bytes.size(); at += size) sent += say(bytes.substr(at, size));
        return sent;
    }
};

// The bytes that a client sends to a new server, and all replies to it.
struct Conversation {
    const char* name;
    std::string_view said;
    std::string_view heard;
};

// Whole, in single bytes, and cut in two at every byte: each time the same reply and nothing left
// over.
template <size_t size>
void hold(const Conversation (&conversations)[size],
          const std::function<void(Talk&)>& prepare = [](Talk&) {}) {
    for (const Conversation& c : conversations) {
        Talk whole;
        prepare(whole);
        tap::is(whole.say(c.said), c.heard, c.name);
        size_t differing = 0;
        std::string example;
        auto compare = [&](const std::string& heard, const std::string& how) {
            if (heard == c.heard) return;
            differing++;
            example = how + ": " + tap::show(heard);
        };
        Talk bytes;
        prepare(bytes);
        compare(bytes.say_in_pieces(c.said, 1), "in single bytes");
        for (size_t cut = 1; cut < c.said.size(); cut++) {
            Talk two;
            prepare(two);
            compare(two.say_cut(c.said, cut), "cut at " + std::to_string(cut));
        }
        if (!tap::ok(differing == 0, std::string(c.name) + ", cut anywhere"))
            tap::note("%s", example.c_str());
    }
}

}  // namespace fixture
