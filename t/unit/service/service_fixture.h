// SPDX-License-Identifier: BSD-3-Clause
// A node's service between a channel of memory and a proxy's end that speaks the protocol, for t/unit/service/service*.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "node/service/service.h"
#include "t/unit/protocol/frame_words.h"

namespace service_fixture {

using namespace farcached;
using namespace farcached::protocol;

constexpr NodeSeconds at_start = 1000;
inline bool with_containers = false;  // what a new channel begins with
inline NodeSeconds clock_reads = at_start;  // the reading of the services' clock
inline uint32_t clock_us = 0;
inline uint64_t steady_ns = 0;        // its clock for durations
inline uint64_t steady_step_ns = 0;   // the step of that clock at each reading
inline uint64_t read_steady() { return steady_ns += steady_step_ns; }
inline NodeReading read_clock() { return {clock_reads, clock_us}; }

// Fed bytes wait as in a socket, and are shown as a channel shows them; sent bytes wait until they are taken.
class MemoryChannel final : public fabric::Channel {
  public:
    explicit MemoryChannel(fabric::ChannelEvents& events) : events_(events) {}

    void feed(std::string_view bytes) { wire_.append(bytes); }
    std::string take_sent() { return std::exchange(sent_, {}); }
    size_t unconsumed() const { return wire_.size(); }
    void end(fabric::ChannelEnd why) { ending_ = why; }

    size_t input_bytes_max = 128 * 1024;
    size_t room = SIZE_MAX;  // bytes that the other end still takes
    size_t most_pending = 0;
    uint64_t at_once = 0;  // flushes of what was to be sent at once

    int fd() const override { return -1; }
    bool wants_write() const override { return false; }
    void ready() override {
        if (written_ != 0 && !ended_) events_.written(std::exchange(written_, 0));
        while (!ended_ && !wire_.empty()) {
            // A copy of exact size at a different place each time.
            std::vector<char> shown(wire_.begin(),
                                    wire_.begin() + long(std::min(wire_.size(), input_bytes_max)));
            const size_t used = events_.received({shown.data(), shown.size()});
            most_pending = std::max(most_pending, out_pending());
            CHECK(used <= shown.size());
            wire_.erase(0, used);
            if (used == 0) break;
        }
        tell();
    }
    void flush() override {
        most_pending = std::max(most_pending, out_pending());
        if (out_.size() > 0) at_once += std::exchange(now_, false) ? 1 : 0;
        const size_t taken = std::min(room, out_.size());
        if (room != SIZE_MAX) room -= taken;
        sent_.append(out_.data(), taken);
        const std::string rest(out_.data() + taken, out_.size() - taken);
        out_.truncate(0);
        if (!rest.empty()) out_.append(rest);
        tell();
    }
    const fabric::RegionView* mapped_region(uint32_t) const override { return nullptr; }
    bool owner_alive() const override { return true; }
    bool can_read() const override { return false; }
    bool post_read(const fabric::ReadRequest&) override { return false; }
    void send_at_once() override { now_ = true; }
    // READs the proxy's lent values when the test asks for it.
    bool post_fetch(const fabric::FetchRequest& request) override {
        if (request.offset > lent.size() || request.bytes > lent.size() - request.offset) return false;
        fetches.push_back(request);
        return true;
    }
    void fetched(size_t which, fabric::ReadStatus status = fabric::ReadStatus::done) {
        const fabric::FetchRequest request = fetches[which];
        fetches.erase(fetches.begin() + long(which));
        if (status == fabric::ReadStatus::done) std::memcpy(request.landing, lent.data() + request.offset, request.bytes);
        events_.read_done(request.token, status);
    }
    std::string lent;
    std::vector<fabric::FetchRequest> fetches;
    bool has_container() const override { return containers; }
    void copy_container(char* to, size_t bytes) const override { container.copy(to, bytes); }
    bool post_report(std::string_view bytes) override {
        if (!containers) return false;
        proxy_container.replace(0, bytes.size(), bytes);
        proxy_written = bytes.size();
        return true;
    }
    // The proxy wrote so much; reported in the next turn.
    void write(std::string_view content, size_t bytes) {
        container.replace(0, content.size(), content);
        written_ = bytes;
    }
    void write(std::string_view content) { write(content, content.size()); }
    size_t proxy_written = 0;  // and not read
    bool containers = with_containers;
    std::string container = std::string(fabric::container_bytes, '\0'), proxy_container = container;
    void close() override { ending_ = fabric::ChannelEnd::closed; }
    std::string describe() const override { return "memory"; }

  private:
    void tell() {
        if (!ending_ || ended_) return;
        ended_ = true;
        events_.ended(*ending_, "memory: it ended");
    }

    fabric::ChannelEvents& events_;
    std::string wire_, sent_;
    size_t written_ = 0;
    bool now_ = false;
    std::optional<fabric::ChannelEnd> ending_;
    bool ended_ = false;
};

inline node::Config node_config(uint64_t megabytes = 16, uint64_t item_bytes_max = 1 << 20) {
    node::Config config;
    config.memory_bytes = megabytes << 20;
    config.item_bytes_max = item_bytes_max;
    config.partitions = 1;  // two nodes with the same operations number their items alike
    config.workers = 1;
    config.lease.enabled = true;
    return config;
}

// One node with all that its services share.
struct ServedNode {
    explicit ServedNode(const node::Config& config = node_config())
        : cache(config), flushes(cache), stats(cache, "n1", at_start) {
        stats.include(counters);
        facts.name = "n1";
        facts.started_unix = 1'700'000'000;
    }
    uint64_t counted(node::ServiceEnd end) const { return counters.ends[size_t(end)].get(); }
    uint64_t counted(FrameError error) const { return counters.frame_errors[size_t(error)].get(); }

    node::Node cache;
    node::FlushSchedule flushes;
    node::NodeStats stats;
    node::NodeFacts facts;
    node::ServiceCounters counters;
    node::FetchPool fetches{size_t(1) << 19};
    node::ServiceShared shared{cache, flushes, stats, facts, read_clock, {}, &fetches, read_steady};
};

struct Answer {
    NodeReply reply;    // its views are not to be used
    std::string value;  // here or from chunks
    bool whole = false;
    NodeReading now;
};

inline std::string refusal(const Answer& answer) {
    const auto* refused = std::get_if<RefusedReply>(&answer.reply.op);
    return std::string(refused == nullptr ? "done" : request_refusal_name(refused->reason));
}

// A connection with its proxy.
class Proxy {
  public:
    using Address = std::pair<uint64_t, uint32_t>;

    explicit Proxy(ServedNode& served, bool greet = true,
                   RegionAccess access = RegionAccess::mapped, node::AwayValues* away = nullptr)
        : service(served.shared, served.counters, /* waker= */ nullptr, away), channel(service) {
        service.attach(channel, access);
        hello.name = "p";
        hello.host = "h";
        hello.pid = 7;
        if (greet) greet_now();
    }
    void greet_now() {
        OutBuffer out;
        append_hello(out, hello);
        give(out);
    }

    // Sends the proxy's bytes, runs the service until it wants no more turns, and reads its answers.
    void give(OutBuffer& out) {
        give(std::string_view(out.data(), out.size()));
        out.truncate(0);
    }
    void give(std::string_view bytes) {
        channel.feed(bytes);
        turns();
    }
    void turns() {
        do service.turn();
        while (service.turn_wanted());
        read();
    }
    // As turns(), of a proxy that takes so little at a time.
    void drip(size_t bytes) {
        for (;;) {
            channel.room = bytes;
            service.turn();
            const std::string got = channel.take_sent();
            if (got.empty() && !service.turn_wanted()) break;
            input_ += got;
        }
        channel.room = SIZE_MAX;
        read();
    }

    // Sends one request in a separate frame; returns its answer.
    template <class Op>
    const Answer& ask(const Op& op, RequestOptions options = {}) {
        OutBuffer out;
        const uint64_t sequence = put(out, op, options);
        give(out);
        return answers[{sequence, options.tag}];
    }
    // Its frame, its chunks if the value must follow.
    template <class Op>
    uint64_t put(OutBuffer& out, const Op& op, RequestOptions options) {
        const uint64_t sequence = next_sequence++;
        if constexpr (std::is_same_v<Op, StoreOp>)
            if (must_follow(op, welcome.frame_bytes_max)) options.value_follows = true;
        FrameWriter writer(out, welcome.frame_bytes_max);
        writer.begin(FrameKind::requests, sequence);
        CHECK(writer.add(op, options));
        writer.end();
        if constexpr (std::is_same_v<Op, StoreOp>)
            if (options.value_follows) put_chunks(out, sequence, options.tag, op.value);
        return sequence;
    }
    void put_chunks(OutBuffer& out, uint64_t sequence, uint32_t tag, std::string_view value) {
        for (uint64_t at = 0; at < value.size();)
            at += put_chunk(out, sequence, tag, value, at);
    }
    uint32_t put_chunk(OutBuffer& out, uint64_t sequence, uint32_t tag, std::string_view value,
                       uint64_t at) {
        const uint32_t size = chunk_size(value.size() - at, welcome.frame_bytes_max);
        char* to = write_chunk_head(out.reserve(chunk_head_bytes + size), sequence, tag, at, size);
        std::memcpy(to, value.data() + at, size);
        out.commit(chunk_head_bytes + size);
        return size;
    }

    node::NodeService service;
    MemoryChannel channel;
    Hello hello;
    Welcome welcome;
    bool welcomed = false;
    std::optional<Refuse> refused;
    std::optional<Goodbye> goodbye;
    std::optional<UnlentRecord> unlent;
    std::map<Address, Answer> answers;
    std::vector<FrameKind> kinds;  // of what came, in order
    uint64_t next_sequence = 1;
    size_t pongs = 0;
    NodeReading pong;  // the last one's clock
    // Of the last report's answer.
    uint64_t report_answered = 0;
    uint64_t answers_written = 0;  // so far
    uint32_t left_us = 0;
    std::vector<uint32_t> terms_ms;
    std::vector<uint64_t> epochs;  // of lists that the node has named
    std::string trouble;  // what the node sent and should not have

  private:
    void read() {
        input_ += channel.take_sent();
        size_t used = 0;
        for (;;) {
            const FrameParse parse = parse_frame(std::string_view(input_).substr(used), limits_);
            if (parse.status == FrameParse::Status::need_more) break;
            if (parse.status == FrameParse::Status::bad) {
                fail(parse.error);
                break;
            }
            kinds.push_back(parse.frame.kind);
            take(parse.frame);
            used += parse.bytes;
        }
        input_.erase(0, used);
        if (channel.proxy_written != 0) answer_written();
    }
    void fail(FrameError error) {
        if (error != FrameError::none) trouble += std::string(frame_error_name(error)) + " ";
    }
    void take(const Frame& frame) {
        Refuse why;
        GoodbyeFrame said;
        switch (frame.kind) {
            case FrameKind::welcome:
                fail(parse_welcome(frame, welcome));
                limits_ = agreed_limits(welcome, Sender::node);
                welcomed = true;
                break;
            case FrameKind::refuse:
                fail(parse_refuse(frame, why));
                refused = why;
                break;
            case FrameKind::replies:
                replies(frame);
                break;
            case FrameKind::chunk:
                chunk(frame);
                break;
            case FrameKind::unlent:
                fail(parse_unlent(frame, unlent.emplace()));
                break;
            case FrameKind::reported:
                reported(frame);
                break;
            case FrameKind::pong:
                fail(parse_pong(frame, limits_, pong));
                pongs++;
                break;
            case FrameKind::epoch:
                epochs.push_back(epoch_of(frame));
                break;
            case FrameKind::goodbye:
                fail(parse_goodbye(frame, said));
                goodbye = said.reason;
                break;
            default:
                trouble += "kind ";
        }
    }
    void replies(const Frame& frame) {
        ReplyReader reader(frame, limits_);
        NodeReply reply;
        for (;;) {
            const FrameStep step = reader.next(reply);
            if (step == FrameStep::end) return;
            if (step == FrameStep::bad) return fail(reader.error());
            auto [at, fresh] = answers.try_emplace({frame.sequence, reply.tag});
            if (!fresh) trouble += "answered twice ";
            at->second.reply = reply;
            at->second.value = reply.value;
            at->second.whole = reply.form != ValueForm::follows;
            at->second.now = reader.now();
        }
    }
    void reported(const Frame& frame) {
        fail(parse_reported(frame, left_us));
        terms_ms.clear();
        for (uint32_t i = 0; i < frame.count; i++) fail(renewal_at(frame, i, terms_ms.emplace_back()));
        report_answered = frame.sequence;
    }
    void answer_written() {
        const std::string content = channel.proxy_container.substr(0, std::exchange(channel.proxy_written, 0));
        Frame frame;
        fail(parse_written(content, limits_, frame));
        if (frame.kind != FrameKind::reported) return;
        answers_written++;
        reported(frame);
    }
    void chunk(const Frame& frame) {
        Chunk piece;
        fail(parse_chunk(frame, piece));
        auto found = answers.find({frame.sequence, piece.tag});
        if (found == answers.end() || found->second.whole) {
            trouble += "stranger ";
            return;
        }
        Answer& answer = found->second;
        if (piece.offset != answer.value.size()) trouble += "order ";
        answer.value += piece.bytes;
        answer.whole = answer.value.size() == answer.reply.value_bytes;
    }

    FrameLimits limits_{Sender::node, false, frame_bytes_lowest, 0};
    std::string input_;
};

inline StoreOp set_of(std::string_view key, std::string_view value) {
    StoreOp op;
    op.key = {key, 0};
    op.value = value;
    return op;
}
inline GetOp get_of(std::string_view key) {
    GetOp op;
    op.key = {key, 0};
    return op;
}
inline RequestOptions wanting_grant() {
    RequestOptions options;
    options.want_grant = true;
    return options;
}
inline bool is_hit(const Answer& answer) {
    const auto* got = std::get_if<GetReply>(&answer.reply.op);
    return got != nullptr && got->status == GetReply::Status::hit;
}
inline bool is_stored(const Answer& answer) {
    const auto* got = std::get_if<StoreReply>(&answer.reply.op);
    return got != nullptr && got->status == StoreReply::Status::stored;
}
inline std::optional<RequestRefusal> refusal_of(const Answer& answer) {
    const auto* why = std::get_if<RefusedReply>(&answer.reply.op);
    return why == nullptr ? std::nullopt : std::optional(why->reason);
}

}  // namespace service_fixture
