// SPDX-License-Identifier: BSD-3-Clause
#include "bench/transport/client_link.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "base/node_clock.h"
#include "base/random_word.h"

namespace farcached::bench {

namespace {

// Per client: room for a few READs of items of that size.
size_t landing_bytes(uint32_t value_bytes) { return std::max<size_t>(256 * 1024, std::bit_ceil(uint64_t(value_bytes)) * 8); }

constexpr int64_t second_ns = 1'000'000'000;
constexpr uint64_t millisecond_ns = second_ns / 1000;
constexpr int wait_ms_max = 50;
constexpr uint64_t connect_timeout_ns = 5 * second_ns;
constexpr uint64_t connect_ns_max = 30 * second_ns;  // with all tries
constexpr uint64_t silence_ns = 30 * second_ns;
constexpr uint64_t tick_every_ns = 10 * millisecond_ns;  // when polling without sleep
constexpr int flushes_max = 4;

}  // namespace

ClientLink::ClientLink(const proxy::LinkConfig& config, uint32_t value_bytes, const Dependencies& deps)
    : stopping_(deps.stopping),
      spin_(deps.spin),
      landing_(landing_bytes(value_bytes)),
      link_(config, {deps.maker(landing_), boottime_ns, *this, deps.table, deps.one_sided ? &landing_ : nullptr}) {}

ClientLink::~ClientLink() { disconnect(); }

void ClientLink::connect() {
    link_.start(read_clock());
    await();
}

void ClientLink::await() {
    const uint64_t until_ns = boottime_ns() + connect_ns_max;
    while (!link_.up() && !stopping_()) {
        if (boottime_ns() > until_ns)
            throw std::runtime_error("the node cannot be reached: " + (down_text_.empty() ? "no reply" : down_text_));
        flush();
        wait();
        link_.tick(read_clock());
    }
}

void ClientLink::disconnect() {
    if (link_.state() != proxy::LinkState::idle) link_.stop(boottime_ns());
}

void ClientLink::flush() {
    for (int i = 0; i < flushes_max && link_.flush(now_ns_); i++) {}
}

void ClientLink::wait() {
    if (spin_) {
        const bool more = link_.linger();
        link_.ready(read_clock());
        if (more || now_ns_ - ticked_ns_ < tick_every_ns) return;
        ticked_ns_ = now_ns_;
        link_.tick(now_ns_);
        return;
    }
    if (link_.only_reads() && link_.linger()) return link_.ready(read_clock());
    const uint64_t next_ns = link_.next_tick_ns();
    const uint64_t ms = next_ns > now_ns_ ? (next_ns - now_ns_) / millisecond_ns + 1 : 0;
    pollfd one{fd_, short(link_.wants_write() ? POLLIN | POLLOUT : POLLIN), 0};
    const int count = poll(&one, fd_ >= 0 ? 1 : 0, int(std::min<uint64_t>(ms, wait_ms_max)));
    read_clock();
    if (count > 0) link_.ready(now_ns_);
    if (now_ns_ >= link_.next_tick_ns()) link_.tick(now_ns_);
}

ClientLink::Maker channels_over(Reach& reach, const fabric::RpcWish& rpc) {
    return [&reach, &rpc](fabric::BufferPool& landing) -> proxy::NodeLink::MakeChannel {
        return [&reach, &rpc, memories = fabric::VerbsMemories{{landing.data(), landing.size()}, {}}, turn = size_t(0)](
                   fabric::ChannelEvents& events) mutable { return reach.connect(memories, events, turn++, rpc); };
    };
}

const char* failure_text(const proxy::Failed& failed) {
    constexpr const char* texts[] = {
#define X(name, help) help,
        ASK_FAILURES(X)
#undef X
    };
    return texts[size_t(failed.why)];
}

proxy::LinkConfig client_link_config() {
    proxy::LinkConfig config;
    config.hello.name = "farbench";
    config.hello.host = "farbench";
    config.hello.pid = uint32_t(getpid());
    config.connect_timeout_ns = connect_timeout_ns;
    config.silence_ns = silence_ns;
    config.host_zero_ns = int64_t(boottime_ns()) - 2 * second_ns;
    config.seed = random_word();
    return config;
}

}  // namespace farcached::bench
