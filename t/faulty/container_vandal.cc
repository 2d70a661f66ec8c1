// SPDX-License-Identifier: BSD-3-Clause
// A proxy over shared memory that reports by its container (fabric/channel.h, C7) and goes on writing there while the
// node reads. It writes the announced report, something like it, or any bytes.
//
//     container_vandal PATH SECONDS SEED
//
// Prints "reports N answered M connections K" and exits 0, unless no node answers.
#include <poll.h>
#include <sched.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "base/node_clock.h"
#include "fabric/shm/shm_ring.h"
#include "protocol/frame_writer.h"
#include "protocol/handshake.h"
#include "t/unit/fabric/shm_fixture.h"

namespace {

using namespace shm_test;
using namespace farcached::protocol;

constexpr uint64_t answer_ns = UINT64_C(20'000'000'000);

// One connection: greeted, or not.
class Vandal {
  public:
    Vandal(const std::string& path, uint64_t seed) : proxy_(path), random_(seed) {
        (void)send_hello(proxy_.socket.get(), good_hello());
        pollfd answer{proxy_.socket.get(), POLLIN, 0};
        if (poll(&answer, 1, 20'000) != 1 || proxy_.meet()) return;
        writer_.emplace(proxy_.link->shared().to_node, proxy_.link->ring_to_node(), proxy_.link->ring_bytes());
        reader_.emplace(proxy_.link->shared().to_proxy, proxy_.link->ring_to_proxy(), proxy_.link->ring_bytes());
        OutBuffer out;
        Hello hello;
        hello.name = "vandal";
        hello.host = "h";
        append_hello(out, hello);
        say(out);
        greeted_ = hear(FrameKind::welcome);
    }
    bool greeted() const { return greeted_; }

    // False: a goodbye came, or the connection has ended.
    bool report(uint64_t number) {
        const std::string report = some_report(number);
        char* const container = proxy_.link->node_container();
        std::memcpy(container, report.data(), report.size());
        std::atomic<bool> over{false};
        const bool any = random_() % 4 == 0;
        std::thread scribbler([&, dice = std::mt19937_64(random_())]() mutable {
            while (!over.load(std::memory_order_relaxed)) {
                const size_t from = any ? 0 : sizeof(FrameHeader);
                const size_t at = from + dice() % (container_bytes - from - 8);
                const uint64_t word = dice() % 3 == 0 ? dice() : dice() % 1024;
                std::memcpy(container + at, &word, 1 + dice() % 8);
            }
        });
        const uint32_t lie = random_() % 20 == 0 ? uint32_t(1 + random_() % container_bytes) : uint32_t(report.size());
        words::store_release(&proxy_.link->shared().node_written, written_word(++written_, lie));
        proxy_.wake();
        const bool answered = hear_written();
        over.store(true);
        scribbler.join();
        return answered;
    }

  private:
    std::string some_report(uint64_t number) {
        OutBuffer out;
        FrameWriter frame(out, report_bytes_max);
        frame.begin(FrameKind::report, number);
        for (uint64_t i = 1 + random_() % report_records_max; i > 0; i--)
            frame.add(ItemAccess{random_(), random_() % (8 << 20) & ~UINT64_C(15), 1, 0, uint16_t(random_())});
        frame.end();
        return {out.data(), out.size()};
    }
    void say(const OutBuffer& out) {
        std::string_view rest(out.data(), out.size());
        for (const uint64_t late_ns = boottime_ns() + answer_ns; !rest.empty() && boottime_ns() < late_ns;) {
            rest.remove_prefix(writer_->write(rest).value_or(0));
            proxy_.wake();
        }
    }
    // Waits for a frame of that kind; false: the connection has ended, or another frame came.
    bool hear(FrameKind kind) {
        FrameLimits limits{protocol::Sender::node, greeted_, frame_bytes_default, 0};
        for (const uint64_t late_ns = boottime_ns() + answer_ns; boottime_ns() < late_ns;) {
            char more[4096];
            heard_.append(more, reader_->read(more, sizeof more).value_or(0));
            const FrameParse parse = parse_frame(heard_, limits);
            if (parse.status == FrameParse::Status::bad) return false;
            if (parse.status == FrameParse::Status::frame) {
                const bool right = parse.frame.kind == kind;
                heard_.erase(0, parse.bytes);
                return right;
            }
            sched_yield();
        }
        return false;
    }

    // Waits for an answer in this side's container; false: a frame came instead, which is a goodbye, or the connection
    // has ended.
    bool hear_written() {
        const uint64_t* word = &proxy_.link->shared().proxy_written;
        for (const uint64_t late_ns = boottime_ns() + answer_ns; boottime_ns() < late_ns;) {
            if (const uint64_t now = words::load_acquire(word); now != answered_) {
                answered_ = now;
                return true;
            }
            char more[64];
            if (reader_->read(more, sizeof more).value_or(1) != 0) return false;
            sched_yield();
        }
        return false;
    }

    RawProxy proxy_;
    std::mt19937_64 random_;
    uint32_t written_ = 0;
    uint64_t answered_ = 0;
    std::optional<RingWriter> writer_;
    std::optional<RingReader> reader_;
    std::string heard_;
    bool greeted_ = false;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 64;
    constexpr uint64_t patience = 20;  // a slow machine sees few reports, and most are refused
    const uint64_t start_ns = boottime_ns(), time_ns = uint64_t(std::atof(argv[2]) * 1e9);
    uint64_t seed = uint64_t(std::atoll(argv[3])), reports = 0, answered = 0, connections = 0;
    const auto goes_on = [&] { return boottime_ns() < start_ns + time_ns * (answered == 0 ? patience : 1); };
    while (goes_on()) {
        Vandal vandal(argv[1], seed++);
        if (!vandal.greeted()) return 1;
        connections++;
        for (uint64_t number = 1; goes_on(); number++) {
            reports++;
            if (!vandal.report(number)) break;
            answered++;
        }
    }
    std::printf("reports %llu answered %llu connections %llu\n", (unsigned long long)reports, (unsigned long long)answered,
                (unsigned long long)connections);
    return 0;
}
