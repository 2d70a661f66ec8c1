// SPDX-License-Identifier: BSD-3-Clause
// farnode_probe ADDRESS: a proxy's conversation with a running node over tcp:HOST:PORT or shm:PATH, for scripts. It
// stores and gets small and large values, and over shm reads the granted items in place. Status 0: all checks passed;
// else it prints which check failed.
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fabric/shm/shm_channel.h"
#include "fabric/tcp_channel.h"
#include "protocol/frame.h"
#include "protocol/frame_reply.h"
#include "protocol/frame_writer.h"
#include "protocol/handshake.h"

using namespace farcached;
using namespace farcached::protocol;

namespace {

[[noreturn]] void fail(const std::string& what) {
    std::printf("%s\n", what.c_str());
    std::exit(1);
}
void check(bool good, const char* what) {
    if (!good) fail(std::string("not so: ") + what);
}

// HOST:PORT.
fabric::SocketAddress address_of(const std::string& text) {
    const size_t colon = text.rfind(':');
    const auto to = fabric::numeric_address(text.substr(0, colon), uint16_t(std::atoi(text.c_str() + colon + 1)));
    check(to.has_value(), "the address is one");
    return *to;
}

struct Answer {
    NodeReply reply;  // but its views
    std::string value;
};

class Probe final : public fabric::ChannelEvents {
  public:
    void open(const std::string& address) {
        auto made = address.starts_with("shm:") ? fabric::connect_shm(address.substr(4), regions_, *this)
                                                : fabric::connect_tcp(address_of(address.substr(4)), *this);
        if (const auto* problem = std::get_if<Problem>(&made)) fail(problem->text);
        channel_ = std::get<0>(std::move(made));
        hello_.name = hello_.host = "probe";
        run([&] { return limits_.greeted; });
    }
    template <class Op>
    Answer ask(const Op& op, RequestOptions options = {}) {
        OutBuffer& out = channel_->out();
        const uint64_t sequence = ++sequence_;
        if constexpr (std::is_same_v<Op, StoreOp>) options.value_follows = must_follow(op, limits_.frame_bytes_max);
        FrameWriter writer(out, limits_.frame_bytes_max);
        writer.begin(FrameKind::requests, sequence);
        check(writer.add(op, options), "a request fits");
        writer.end();
        if constexpr (std::is_same_v<Op, StoreOp>)
            if (options.value_follows) append_chunks(out, sequence, op.value);
        channel_->flush();
        run([&] { return answers_.contains(sequence) && left_.empty(); });
        return answers_[sequence];
    }
    const fabric::RegionView* region() const { return channel_->mapped_region(0); }
    fabric::Channel& channel() { return *channel_; }
    bool read_is_done() {
        run([&] { return read_.has_value(); });
        return *read_ == fabric::ReadStatus::done;
    }
    Welcome welcome;

  private:
    template <class Done>
    void run(Done done) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!done()) {
            if (std::chrono::steady_clock::now() > deadline) fail("nothing came in time");
            pollfd waits{channel_->fd(), short(channel_->wants_write() ? POLLIN | POLLOUT : POLLIN), 0};
            (void)poll(&waits, 1, 1000);
            channel_->ready();
            channel_->flush();
        }
    }
    void append_chunks(OutBuffer& out, uint64_t sequence, std::string_view value) {
        for (uint64_t at = 0; at < value.size();) {
            const uint32_t size = chunk_size(value.size() - at, limits_.frame_bytes_max);
            char* to = write_chunk_head(out.reserve(chunk_head_bytes + size), sequence, 0, at, size);
            std::memcpy(to, value.data() + at, size);
            out.commit(chunk_head_bytes + size);
            at += size;
        }
    }

    void connected() override { append_hello(channel_->out(), hello_); }
    void read_done(uint64_t, fabric::ReadStatus status) override { read_ = status; }
    void ended(fabric::ChannelEnd, const std::string& text) override { fail("it ended: " + text); }
    size_t received(std::string_view bytes) override {
        size_t used = 0;
        for (;;) {
            const FrameParse parse = parse_frame(bytes.substr(used), limits_);
            if (parse.status == FrameParse::Status::need_more) return used;
            check(parse.status == FrameParse::Status::frame, "what comes is a frame");
            take(parse.frame);
            used += parse.bytes;
        }
    }
    void take(const Frame& frame) {
        if (frame.kind == FrameKind::welcome) {
            check(parse_welcome(frame, welcome) == FrameError::none, "the welcome is one");
            check(!check_welcome(welcome, hello_), "and agrees");
            limits_ = agreed_limits(welcome, Sender::node);
        } else if (frame.kind == FrameKind::replies) {
            ReplyReader reader(frame, limits_);
            NodeReply reply;
            check(reader.next(reply) == FrameStep::entry, "a reply is one");
            answers_[frame.sequence] = {reply, std::string(reply.value)};
            if (reply.form == ValueForm::follows) left_[frame.sequence] = reply.value_bytes;
        } else if (frame.kind == FrameKind::chunk) {
            Chunk piece;
            check(parse_chunk(frame, piece) == FrameError::none, "a piece is one");
            answers_[frame.sequence].value += piece.bytes;
            if ((left_[frame.sequence] -= piece.size) == 0) left_.erase(frame.sequence);
        } else {
            fail("it said " + std::string(frame_kind_name(frame.kind)));
        }
    }

    fabric::MappedRegions regions_;
    Hello hello_;
    FrameLimits limits_{Sender::node, false, frame_bytes_lowest, 0};
    uint64_t sequence_ = 0;
    std::map<uint64_t, Answer> answers_;
    std::map<uint64_t, uint32_t> left_;  // bytes of values that are still coming
    std::optional<fabric::ReadStatus> read_;
    std::unique_ptr<fabric::Channel> channel_;
};

// Reads the granted item in place and by a posted read: it must be whole.
void read_one_sided(Probe& probe, std::string_view key, std::string_view value, const Grant& grant) {
    const fabric::RegionView* region = probe.region();
    check(region != nullptr, "the region is mapped");
    check(grant_fits(grant, region->region_bytes), "the pointer lies in it");
    check(probe.welcome.incarnation == region->header->incarnation, "it is the node's that welcomed");
    auto is_the_item = [&](const char* at, const char* how) {
        layout::ItemHeader header;
        std::memcpy(&header, at, sizeof header);
        check(layout::Guard{header.guard} == layout::Guard::make(grant.generation, layout::GuardState::live), how);
        const std::string rest(at + sizeof header, grant.length - sizeof header);
        check(rest == std::string(key) + std::string(value), how);
    };
    is_the_item(region->base + grant.offset, "the item lies where the pointer says");
    const auto landing = std::make_unique<uint64_t[]>(grant.length / 8 + 1);
    fabric::ReadRequest read;
    read.ptr = {probe.welcome.incarnation, grant.offset, grant.generation, grant.region, grant.length};
    read.landing = landing.get();
    check(probe.channel().can_read() && probe.channel().post_read(read), "it can be read");
    probe.channel().flush();
    check(probe.read_is_done(), "the read is done");
    is_the_item(reinterpret_cast<const char*>(landing.get()), "and brings it");
    check(probe.channel().owner_alive(), "its owner is alive");
}

void converse(Probe& probe, bool one_sided) {
    for (size_t bytes : {size_t(0), size_t(100), size_t(70'000), size_t(900'000)}) {
        std::string value(bytes, 'a');
        for (size_t i = 0; i < bytes; i++) value[i] = char('a' + i * 7 % 23);
        const std::string key = "probe" + std::to_string(bytes);
        StoreOp store;
        store.key = {key, 0};
        store.value = value;
        const Answer stored = probe.ask(store);
        const auto* reply = std::get_if<StoreReply>(&stored.reply.op);
        check(reply != nullptr && reply->status == StoreReply::Status::stored, "a value is stored");
        GetOp get;
        get.key = {key, 0};
        RequestOptions options;
        options.want_grant = true;
        Answer got;
        for (int i = 0; i < 2; i++) {
            got = probe.ask(get, options);
            check(got.value == value, "it comes back");
        }
        check(one_sided || !got.reply.grant, "a proxy that cannot read one-sided gets no pointer");
        if (one_sided && got.reply.grant) read_one_sided(probe, key, value, *got.reply.grant);
        check(!one_sided || bytes != 100 || got.reply.grant.has_value(), "one that can gets one");
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) fail("usage: farnode_probe tcp:HOST:PORT|shm:PATH");
    const std::string address = argv[1];
    Probe probe;
    probe.open(address);
    converse(probe, address.starts_with("shm:"));
    return 0;
}
