// SPDX-License-Identifier: BSD-3-Clause
// Fixture of the binary engine's tests and fuzz target: a small real node and a session's buffers.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/commands/sasl.h"
#include "t/lib/sent_bytes.h"
#include "t/unit/daemon/text_fixture.h"
#include "t/unit/protocol/binary_packets.h"

namespace fixture {

// Knows the groups "" and "many"; records its calls.
class BinaryAdmin final : public daemon::Admin {
  public:
    static constexpr int many = 1000;
    std::string told;

    daemon::StatsFound stats_binary(std::string_view group, std::string_view,
                                    FunctionRef<void(std::string_view, std::string_view)> emit) override {
        using daemon::StatsFound;
        if (group.empty()) {
            emit("pid", "42");
            emit("empty", "");
            return StatsFound::found;
        }
        if (group == "reset") return StatsFound::found;
        if (group != "many") return StatsFound::unknown;
        for (int i = 0; i < many; i++) emit("name" + std::to_string(i), std::string(100, 'v'));
        return StatsFound::found;
    }
    void flush_at(NodeSeconds when) override { told += "flush_at" + std::to_string(when); }
    void detail(std::string_view key, daemon::KeyUse use) override {
        constexpr std::string_view words[] = {"+", "-", "set:", "del:"};
        told.append(words[size_t(use)]).append(key);
    }
    void stats_text(std::string_view, std::string_view, OutBuffer&) override { std::abort(); }
    void verbosity(uint32_t) override { std::abort(); }
    void tune(std::string_view, OutBuffer&) override { std::abort(); }
    void drain(std::string_view, bool, OutBuffer&) override { std::abort(); }
    void shutdown(bool) override { std::abort(); }
};

// One client's conversation in binary.
class BinaryTalk : public OneClient<BinaryAdmin> {
  public:
    explicit BinaryTalk(const node::Config& config = small_config()) : OneClient(config) {
        options.cas_enabled = config.cas;
        options.item_bytes_max = config.item_bytes_max;
    }

    // Of a session that is to authenticate (-S).
    bool locked = false;
    std::unique_ptr<daemon::SaslExchange> exchange;

    uint64_t requests = 0, yields = 0;
    size_t want_peak = 0;

    // As a session does: all of `bytes` arrive at once. Returns what is sent back.
    std::string say(std::string_view bytes) {
        std::string sent;
        if (closed) return sent;
        input_.append(bytes);
        do {
            last = locked ? daemon::run_locked(context, session, input_, out_, budget, exchange)
                          : daemon::run_binary(context, session, input_, out_, budget);
            locked = last.locked || (locked && !last.unlocked);
            keep_promises();
            requests += last.requests;
            input_.erase(0, last.consumed);
            sent += sent_bytes(out_);
            out_.clear(1 << 16);
            context.router.record_accesses(context.now);
            if (last.next == daemon::Next::close) closed = true;
            if (last.next == daemon::Next::yield) yields++;
        } while (last.next == daemon::Next::yield);
        return sent;
    }
    std::string say(const packets::Packet& p) { return say(p.bytes()); }
    std::string say_in_pieces(std::string_view bytes, size_t size) {
        std::string sent;
        for (size_t at = 0; at < bytes.size(); at += size) sent += say(bytes.substr(at, size));
        return sent;
    }

  private:
    // Checks the engine's promises (daemon/engine/engine.h), for any input.
    void keep_promises() {
        if (last.consumed > input_.size()) std::abort();
        if (last.requests > budget) std::abort();
        if (session.swallow != 0 && last.consumed != input_.size()) std::abort();
        if (last.want > want_peak) want_peak = last.want;
        if (out_.leaves() > out_peak) out_peak = out_.leaves();
        bool waiting = last.next == daemon::Next::more && last.consumed < input_.size();
        if (waiting && last.want <= input_.size() - last.consumed) std::abort();
    }
};

}  // namespace fixture
