// SPDX-License-Identifier: BSD-3-Clause
// A node for tests of the proxy's side: executes frames on a node::Node, in the way that the test wants.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "node/store/node.h"
#include "node/store/prefix_deletes.h"
#include "protocol/frame_writer.h"
#include "protocol/handshake.h"
#include "t/lib/tap.h"
#include "t/unit/proxy/link_channel.h"

namespace link_test {

using protocol::Frame;
using protocol::FrameKind;

constexpr uint64_t ms = 1'000'000;
constexpr uint64_t second = 1000 * ms;
constexpr uint64_t start_ns = 5000 * second;

inline node::Config node_config() {
    node::Config config;
    config.memory_bytes = 16 << 20;
    config.item_bytes_max = 4 << 20;
    config.workers = 1;
    config.lease.enabled = true;
    return config;
}

// Executes frames; one connection at a time.
class FakeNode {
  public:
    FakeNode() { restart(); }

    NodeSeconds now(uint64_t now_ns) const { return NodeSeconds((now_ns - zero_ns) / second); }
    // The reading in its frames: with a fraction if the version has one.
    NodeReading reading(uint64_t now_ns) const {
        NodeReading at{now(now_ns)};
        if (limits_.version >= protocol::version_with_right) at.right_ms = right_ms;
        if (limits_.version >= protocol::version_with_now_us) at.us = uint32_t((now_ns - zero_ns) % second / 1000);
        return at;
    }

    // Executes received requests and answers them; at most `requests_most`.
    void serve(Wire& wire, uint64_t now_ns) {
        for (; !wire.ended && !wire.node_written.empty(); wire.node_written.pop_front())
            report_written(wire, wire.node_written.front(), now_ns);
        while (!wire.ended) {
            const protocol::FrameParse parse = protocol::parse_frame(wire.to_node, limits_);
            if (parse.status == protocol::FrameParse::Status::need_more) return;
            if (parse.status == protocol::FrameParse::Status::bad) {
                bad_frames++;
                tap::note("the node got a bad frame: %s",
                          std::string(protocol::frame_error_name(parse.error)).c_str());
                wire.end = fabric::ChannelEnd::peer_closed;
                return;
            }
            if (parse.frame.kind == FrameKind::requests && hold) return;
            take(wire, parse.frame, now_ns);
            wire.to_node.erase(0, parse.bytes);
        }
    }
    void forget_connection() {
        limits_ = {protocol::Sender::proxy, false, protocol::frame_bytes_lowest, 0};
        incoming_.clear();
    }
    // The capacity of the slot there, in bytes.
    uint32_t capacity(uint64_t offset) const {
        const fabric::RegionView& view = cache->view();
        const layout::PageEntry& page = view.pages[(offset - view.header->arena_offset) / layout::page_bytes];
        return page.run_pages != 0 ? page.run_pages * layout::page_bytes : view.header->class_bytes[page.size_class];
    }
    // Begins another run of the node.
    void restart() {
        cache = std::make_unique<node::Node>(node_config());
        incarnation = cache->view().header->incarnation;
        forget_connection();
    }

    std::unique_ptr<node::Node> cache;
    uint64_t incarnation = 0;
    uint64_t zero_ns = start_ns - 1234 * second - 300 * ms;  // when its clock read 0
    uint32_t frame_bytes_max = protocol::frame_bytes_default;
    uint32_t credits = 8;
    std::optional<protocol::Refuse> refuse;  // instead of a welcome
    uint32_t layout_version = layout::layout_version;
    uint32_t version = protocol::protocol_version;  // the highest supported
    std::optional<uint32_t> right_ms;  // the rest of its serving right
    bool of_before = false;  // from before writes in place: it supports no other version, and offers all it has
    bool mute = false;       // sends no welcome
    bool hold = false;       // requests stay where they are
    bool reads_lent = true;  // else lent values are requested in pieces
    bool hold_lent = false;  // lent values are neither
    std::function<const char*(uint64_t offset)> lent_memory;
    std::vector<std::pair<uint64_t, protocol::LentRecord>> lents;  // with the sequence
    bool backwards = false;  // replies of a frame in the wrong order, each in a separate frame
    bool no_welcome_regions = false;
    uint64_t secret_lie = 0;  // error of the check's secret in the greeting
    std::optional<protocol::LeaseDenial> deny;  // replies bring no grant, for that reason
    std::function<std::optional<protocol::Grant>(std::string_view key)> grants_elsewhere;  // in replies to gets, instead
    bool grants_all = false;  // every reply that could bring one does: another get earns it
    std::function<void()> executed;  // called after each request
    // Called before; true: the request is answered by answer_later() or never.
    std::function<bool(uint64_t sequence, const protocol::NodeRequest& request)> takes;
    uint64_t greetings_refused = 0, grants_wanted = 0;
    uint64_t bad_frames = 0, requests = 0, frames = 0, pings = 0, goodbyes = 0, abandoned = 0;
    std::vector<protocol::ItemAccess> accesses;  // received in reports
    bool hold_reports = false;            // they are not answered, and nothing of them is noted
    uint32_t report_takes = UINT32_MAX;   // looks at no more records of one
    uint32_t report_left_us = 0;          // time left, in its answers
    uint64_t reports = 0, report_number = 0;  // and the last one's
    uint64_t reports_written = 0;             // of these, that came by its container
    uint32_t in_flight_most = 0;
    std::map<std::string, uint64_t> granted_ns;  // by key: when its latest lease was granted
    uint32_t term_ms = node_config().lease.term_ms;

  private:
    struct Incoming {
        std::string key, value;
        protocol::StoreOp op;
        protocol::ValueProgress progress;
    };

    void take(Wire& wire, const Frame& frame, uint64_t now_ns) {
        OutBuffer out;
        switch (frame.kind) {
            case FrameKind::hello: greet(frame, now_ns, out); break;
            case FrameKind::requests: execute(frame, now_ns, out); break;
            case FrameKind::chunk: chunk(frame, now_ns, out); break;
            case FrameKind::lent: lent(frame, now_ns, out); break;
            case FrameKind::ping:
                pings++;
                protocol::append_pong(out, frame.sequence, reading(now_ns));
                break;
            case FrameKind::goodbye: goodbyes++; break;
            case FrameKind::accesses: record(frame, now_ns); break;
            case FrameKind::report: report(frame, now_ns, out); break;
            default: break;
        }
        wire.to_proxy.append(out.data(), out.size());
    }

    node::Access seen_in(const Frame& frame, uint32_t index) {
        const fabric::RegionView& view = cache->view();
        protocol::ItemAccess record;
        if (protocol::access_at(frame, index, record) != protocol::FrameError::none) bad_frames++;
        accesses.push_back(record);
        const uint64_t offset = record.offset - view.header->arena_offset;
        const uint32_t size_class = view.pages[offset / layout::page_bytes].size_class;
        node::Access seen;
        seen.slot_word = layout::Slot::make(layout::tag_of(record.hash), uint8_t(size_class), offset).word;
        seen.guard_word = 0;
        seen.hash = record.hash;
        seen.times = record.count;
        seen.generation_tag = record.generation_tag;
        return seen;
    }

    void record(const Frame& frame, uint64_t now_ns) {
        for (uint32_t i = 0; i < frame.count; i++) {
            node::Access seen = seen_in(frame, i);
            cache->record({&seen, 1}, now(now_ns));
        }
    }

    void report(const Frame& frame, uint64_t now_ns, OutBuffer& out) {
        reports++;
        report_number = frame.sequence;
        if (hold_reports) return;
        std::vector<uint32_t> terms_ms;
        for (uint32_t i = 0; i < std::min<uint32_t>(frame.count, report_takes); i++)
            terms_ms.push_back(cache->renew(seen_in(frame, i), now(now_ns), UINT64_MAX).term_ms);
        protocol::append_reported(out, frame.sequence, report_left_us, terms_ms);
    }

    void report_written(Wire& wire, size_t bytes, uint64_t now_ns) {
        const std::string content = wire.node_container.substr(0, bytes);
        Frame frame;
        if (protocol::parse_written(content, limits_, frame) != protocol::FrameError::none) bad_frames++;
        reports_written++;
        OutBuffer answer;
        report(frame, now_ns, answer);
        if (!answer.empty()) write_answer(wire, answer);
    }

  public:
    static void write_answer(Wire& wire, const OutBuffer& answer) {
        wire.proxy_container.replace(0, answer.size(), answer.data(), answer.size());
        wire.proxy_written.push_back(answer.size());
    }

  private:
    void greet(const Frame& frame, uint64_t now_ns, OutBuffer& out) {
        protocol::Hello hello;
        if (mute || protocol::parse_hello(frame, hello) != protocol::FrameError::none) return;
        if (refuse.has_value()) return protocol::append_refuse(out, *refuse);
        protocol::Welcome facts;
        facts.layout_version = layout_version;
        facts.name = "one";
        facts.incarnation = incarnation;
        facts.hash_seed = cache->view().hash_seed;
        facts.check_secret = cache->check_secret() ^ secret_lie;
        facts.now = reading(now_ns);
        facts.item_bytes_max = cache->config().item_bytes_max;
        facts.frame_bytes_max = frame_bytes_max;
        facts.credits = credits;
        facts.term_ms_min = facts.term_ms_max = term_ms;
        if (!no_welcome_regions)
            facts.regions.push_back(
                {0, cache->view().header->region_bytes, protocol::RegionAccess::mapped});
        if (of_before) {
            auto answer = protocol::check(hello, facts, protocol::versions_two_sided);
            if (const auto* no = std::get_if<protocol::Refuse>(&answer)) {
                greetings_refused++;
                return protocol::append_refuse(out, *no);
            }
            const protocol::Welcome& agreed = std::get<protocol::Welcome>(answer);
            facts.version = agreed.version;
            facts.layout_version = agreed.layout_version;
            facts.layout_hash = agreed.layout_hash;
            facts.frame_bytes_max = agreed.frame_bytes_max;
            facts.credits = agreed.credits;
            limits_ = protocol::agreed_limits(facts, protocol::Sender::proxy);
        } else if (layout_version == layout::layout_version) {
            auto answer = protocol::check(hello, facts, {.protocol = version});
            facts = std::get<protocol::Welcome>(answer);
            limits_ = protocol::agreed_limits(facts, protocol::Sender::proxy);
        }
        protocol::append_welcome(out, facts);
    }

    void execute(const Frame& frame, uint64_t now_ns, OutBuffer& out) {
        frames++;
        protocol::RequestReader reader(frame, limits_);
        protocol::NodeRequest request;
        std::vector<std::string> made;
        while (reader.next(request) == protocol::FrameStep::entry) {
            requests++;
            grants_wanted += request.options.want_grant;
            OutBuffer one;
            run(frame.sequence, request, now_ns, one);
            if (executed) executed();
            if (!one.empty()) made.emplace_back(one.data(), one.size());
        }
        if (reader.error() != protocol::FrameError::none) bad_frames++;
        if (backwards) std::reverse(made.begin(), made.end());
        for (const std::string& reply : made) out.append(reply);
    }

    void run(uint64_t sequence, protocol::NodeRequest& request, uint64_t now_ns, OutBuffer& out) {
        protocol::ReplyWriter writer(out, limits_.frame_bytes_max, sequence, reading(now_ns));
        protocol::ReplyOptions with;
        with.tag = request.options.tag;
        const NodeSeconds at = now(now_ns);
        if (takes && takes(sequence, request)) return;
        auto keyed = [&](auto& op) { op.key = cache->key(op.key.bytes); };
        if (auto* get = std::get_if<protocol::GetOp>(&request.op)) {
            keyed(*get);
            return answer_get(sequence, *get, request.options, now_ns, out);
        }
        if (auto* store = std::get_if<protocol::StoreOp>(&request.op)) {
            if (request.options.value_follows) {
                Incoming& in = incoming_[{sequence, with.tag}];
                in.key = store->key.bytes;
                in.op = *store;
                in.op.lease = request.options.want_grant;
                in.progress.total = request.value_bytes;
                return;
            }
            keyed(*store);
            store->lease = request.options.want_grant;
            return answer_store(sequence, with.tag, *store, now_ns, out);
        }
        if (auto* remove = std::get_if<protocol::DeleteOp>(&request.op)) {
            keyed(*remove);
            writer.add(cache->remove(*remove, at), with);
        } else if (auto* arith = std::get_if<protocol::ArithOp>(&request.op)) {
            keyed(*arith);
            arith->lease = request.options.want_grant;
            const protocol::ArithReply reply = cache->arith(*arith, at);
            grant(with, reply, arith->key.bytes, now_ns);
            writer.add(reply, with);
        } else if (auto* forget = std::get_if<protocol::ForgetOp>(&request.op)) {
            keyed(*forget);
            cache->forget(forget->key, at);
            writer.add(protocol::DoneReply(), with);
        } else if (auto* flush = std::get_if<protocol::FlushOp>(&request.op)) {
            if (!flush->prefix.empty())
                cache->prefixes().remove(flush->prefix, at);
            else if (!flush->at.has_value())
                cache->flush_all(at);
            flushed_at = flush->at;
            writer.add(protocol::DoneReply(), with);
        } else if (auto* stats = std::get_if<protocol::StatsOp>(&request.op)) {
            if (stats->group == "none") {
                writer.add(protocol::RefusedReply{protocol::RequestRefusal::stats_unknown}, with);
            } else {
                const std::string text(stats->group == "long" ? 300'000 : 20, 's');
                writer.add_stats(with.tag, text);
                writer.end();
                if (stats->group == "long") add_chunks(sequence, with.tag, text, out);
                return;
            }
        }
        writer.end();
    }

    template <class Reply>
    void grant(protocol::ReplyOptions& with, const Reply& reply, std::string_view key, uint64_t now_ns) {
        with.grant = reply.grant;
        with.denied = reply.denied;
        for (int tries = 0; grants_all && !with.grant.has_value() && tries < 3; tries++) with.grant = grant_of(key, now_ns);
        if (deny.has_value()) with.grant.reset();
        with.denied = with.grant.has_value() ? protocol::LeaseDenial::none : deny.value_or(with.denied);
        if (!with.grant.has_value()) return;
        granted_ns[std::string(key)] = now_ns;
        if (with.grant->capacity == 0) with.grant->capacity = capacity(with.grant->offset);
    }
    std::optional<protocol::Grant> grant_of(std::string_view key, uint64_t now_ns) {
        protocol::GetOp op;
        op.key = cache->key(key);
        op.lease = true;
        return cache->get(op, now(now_ns), [](const protocol::ItemMeta&) -> char* { return nullptr; }).grant;
    }
    void answer_get(uint64_t sequence, protocol::GetOp op, const protocol::RequestOptions& options,
                    uint64_t now_ns, OutBuffer& out) {
        protocol::ReplyWriter writer(out, limits_.frame_bytes_max, sequence, reading(now_ns));
        op.lease = options.want_grant;
        std::string value;
        const protocol::GetReply reply =
            cache->get(op, now(now_ns), [&](const protocol::ItemMeta& meta) -> char* {
                value.resize(meta.value_len);
                return value.data();
            });
        protocol::ReplyOptions with;
        with.tag = options.tag;
        grant(with, reply, op.key.bytes, now_ns);
        const bool hit = reply.status == protocol::GetReply::Status::hit;
        if (hit && op.lease && grants_elsewhere) with.grant = grants_elsewhere(op.key.bytes);
        if (with.grant.has_value()) with.denied = protocol::LeaseDenial::none;
        if (hit && !options.no_value) with.value = protocol::ValueForm::here;
        if (writer.must_follow(protocol::hit_head_bytes(true), value.size()) && !options.no_value)
            with.value = protocol::ValueForm::follows;
        writer.add(reply, with, value);
        writer.end();
        if (with.value == protocol::ValueForm::follows) add_chunks(sequence, with.tag, value, out);
    }

    void answer_store(uint64_t sequence, uint32_t tag, const protocol::StoreOp& op, uint64_t now_ns,
                      OutBuffer& out) {
        protocol::ReplyWriter writer(out, limits_.frame_bytes_max, sequence, reading(now_ns));
        const protocol::StoreReply reply = cache->store(op, now(now_ns));
        protocol::ReplyOptions with;
        with.tag = tag;
        grant(with, reply, op.key.bytes, now_ns);
        writer.add(reply, with);
        writer.end();
    }

    void add_chunks(uint64_t sequence, uint32_t tag, std::string_view value, OutBuffer& out) {
        for (uint64_t at = 0; at < value.size();) {
            const uint32_t size = protocol::chunk_size(value.size() - at, limits_.frame_bytes_max);
            char* to = out.reserve(protocol::chunk_head_bytes + size);
            to = protocol::write_chunk_head(to, sequence, tag, at, size);
            std::memcpy(to, value.data() + at, size);
            out.commit(protocol::chunk_head_bytes + size);
            at += size;
        }
    }

    void chunk(const Frame& frame, uint64_t now_ns, OutBuffer& out) {
        protocol::Chunk piece;
        if (protocol::parse_chunk(frame, piece) != protocol::FrameError::none) bad_frames++;
        auto at = incoming_.find({frame.sequence, piece.tag});
        if (at == incoming_.end()) {
            bad_frames++;
            return;
        }
        Incoming& in = at->second;
        if (in.progress.accept(piece) != protocol::FrameError::none) bad_frames++;
        in.value.append(piece.bytes);
        if (piece.abandoned) {
            abandoned++;
            protocol::ReplyWriter writer(out, limits_.frame_bytes_max, frame.sequence, reading(now_ns));
            protocol::ReplyOptions with;
            with.tag = piece.tag;
            writer.add(protocol::RefusedReply{protocol::RequestRefusal::abandoned}, with);
            writer.end();
        } else if (in.progress.whole()) {
            in.op.key = cache->key(in.key);
            in.op.value = in.value;
            answer_store(frame.sequence, piece.tag, in.op, now_ns, out);
            if (executed) executed();
        } else {
            return;
        }
        incoming_.erase(at);
    }

    void lent(const Frame& frame, uint64_t now_ns, OutBuffer& out) {
        protocol::LentRecord record;
        if (protocol::parse_lent(frame, record) != protocol::FrameError::none) bad_frames++;
        lents.push_back({frame.sequence, record});
        if (!hold_lent) answer_lent(frame.sequence, record, now_ns, out);
    }

  public:
    // write(protocol::ReplyWriter&) adds the reply to a request of that sequence.
    template <class Write>
    void answer_later(Wire& wire, uint64_t sequence, uint64_t now_ns, Write write) {
        OutBuffer out;
        protocol::ReplyWriter writer(out, limits_.frame_bytes_max, sequence, reading(now_ns));
        write(writer);
        writer.end();
        wire.to_proxy.append(out.data(), out.size());
    }
    void answer_lent(uint64_t sequence, const protocol::LentRecord& record, uint64_t now_ns, OutBuffer& out) {
        if (!reads_lent) return protocol::append_unlent(out, sequence, record.tag);
        auto at = incoming_.find({sequence, record.tag});
        if (at == incoming_.end()) {
            bad_frames++;
            return;
        }
        Incoming& in = at->second;
        in.value.assign(lent_memory(record.offset), in.progress.total);
        if (protocol::lent_check(in.value) != record.check) bad_frames++;
        in.op.key = cache->key(in.key);
        in.op.value = in.value;
        answer_store(sequence, record.tag, in.op, now_ns, out);
        incoming_.erase(at);
    }

    std::optional<NodeSeconds> flushed_at;

  private:
    protocol::FrameLimits limits_{protocol::Sender::proxy, false, protocol::frame_bytes_lowest, 0};
    std::map<std::pair<uint64_t, uint32_t>, Incoming> incoming_;
};

}  // namespace link_test
