// SPDX-License-Identifier: BSD-3-Clause
#include "bench/reports/reports_client.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "base/check.h"
#include "base/node_clock.h"
#include "protocol/frame_writer.h"

namespace farcached::bench {

namespace {

constexpr uint64_t patience_ns = UINT64_C(30'000'000'000);
constexpr int wait_ms_max = 50;
constexpr uint32_t region_of_nobody = 1;  // a region that no node has
constexpr uint32_t report_us = 500;       // longest time of a node per report

}  // namespace

ReportsClient::ReportsClient(Reach& reach, bool spin, const std::atomic<bool>& stop)
    : spin_(spin), interrupted_(stop) {
    hello_.name = "farbench";
    hello_.host = "farbench";
    hello_.pid = uint32_t(getpid());
    auto made = reach.connect({}, *this, 0);
    if (const auto* problem = std::get_if<Problem>(&made)) throw std::runtime_error(problem->text);
    channel_ = std::get<0>(std::move(made));
    channel_->count_in(counters_);
}

ReportsClient::~ReportsClient() = default;

void ReportsClient::connect(bool write) {
    wait_until([&] { return greeted_; });
    if (interrupted_.load()) return;
    if (limits_.version < protocol::version_with_in_place) throw std::runtime_error("the node does not accept reports");
    if (write && !channel_->has_container())
        throw std::runtime_error("no containers on " + channel_->describe());
    write_ = write;
}

// ---- input --------------------------------------------------------------------------------------------

void ReportsClient::connected() { protocol::append_hello(channel_->out(), hello_); }

size_t ReportsClient::received(std::string_view bytes) {
    size_t taken = 0;
    while (trouble_.empty()) {
        const protocol::FrameParse parse = protocol::parse_frame(bytes.substr(taken), limits_);
        if (parse.status == protocol::FrameParse::Status::need_more) return taken;
        if (parse.status == protocol::FrameParse::Status::bad)
            trouble_ = std::string(protocol::frame_error_help(parse.error));
        else
            take(parse.frame);
        taken += parse.bytes;
    }
    return bytes.size();
}

void ReportsClient::take(const protocol::Frame& frame) {
    using protocol::FrameKind;
    protocol::Welcome welcome;
    switch (frame.kind) {
        case FrameKind::welcome:
            if (protocol::parse_welcome(frame, welcome) != protocol::FrameError::none) trouble_ = "an invalid welcome";
            limits_ = protocol::agreed_limits(welcome, protocol::Sender::node);
            greeted_ = true;
            return;
        case FrameKind::reported: return answered(frame);
        case FrameKind::ping: return protocol::append_pong(channel_->out(), frame.sequence, {});
        default: trouble_ = "the node replied " + std::string(protocol::frame_kind_name(frame.kind));
    }
}

void ReportsClient::answered(const protocol::Frame& frame) {
    answered_ns_ = boottime_ns();
    if (frame.sequence != number_ || protocol::parse_reported(frame, left_us_) != protocol::FrameError::none)
        trouble_ = "a reply to another report";
    answered_ = frame.sequence;
}

void ReportsClient::written(size_t bytes) {
    std::array<char, fabric::container_bytes> copy;
    channel_->copy_container(copy.data(), bytes);
    protocol::Frame frame;
    const protocol::FrameError error = protocol::parse_written({copy.data(), bytes}, limits_, frame);
    if (error != protocol::FrameError::none)
        trouble_ = std::string(protocol::frame_error_help(error));
    else
        answered(frame);
}

// ---- output -------------------------------------------------------------------------------------------

void ReportsClient::make_report(uint32_t bytes) {
    report_.clear(2 * protocol::report_bytes_max);
    protocol::FrameWriter frame(report_, protocol::report_bytes_max);
    frame.begin(protocol::FrameKind::report, number_);
    do {
        const bool added = frame.add(protocol::ItemAccess{number_, 0, 1, region_of_nobody, 1});
        CHECK(added);
    } while (report_.size() + sizeof(protocol::AccessRecord) <= bytes);
    frame.end();
}

void ReportsClient::tell() {
    const std::string_view bytes(report_.data(), report_.size());
    if (!write_)
        channel_->out().append(bytes);
    else if (!channel_->post_report(bytes))
        throw std::runtime_error("a report could not be written");
}

void ReportsClient::run(uint64_t reports, uint32_t bytes, bool measured) {
    for (uint64_t i = 0; i < reports && !interrupted_.load(std::memory_order_relaxed); i++) {
        number_++;
        make_report(bytes);
        const uint64_t told_ns = boottime_ns();
        tell();
        wait_until([&] { return answered_ == number_; });
        if (!measured || answered_ != number_) continue;
        const uint64_t whole_ns = answered_ns_ - told_ns;
        const uint32_t node_us = report_us - std::min(left_us_, report_us);
        latency_.add(whole_ns - std::min<uint64_t>(whole_ns, uint64_t(node_us) * 1000));
        node_us_ += node_us;
    }
}

// Waits for the condition, a lost connection, an interrupt or the timeout.
template <class Until>
void ReportsClient::wait_until(Until&& until) {
    const uint64_t late_ns = boottime_ns() + patience_ns;
    while (!until()) {
        channel_->flush();
        if (trouble_.empty() && !spin_) {
            pollfd one{channel_->fd(), short(channel_->wants_write() ? POLLIN | POLLOUT : POLLIN), 0};
            (void)poll(&one, 1, wait_ms_max);
        }
        if (trouble_.empty() && spin_) (void)channel_->linger();
        if (trouble_.empty()) channel_->ready();
        if (interrupted_.load(std::memory_order_relaxed)) return;
        if (trouble_.empty() && boottime_ns() > late_ns) trouble_ = "no reply";
        if (!trouble_.empty()) throw std::runtime_error(channel_->describe() + ": " + trouble_);
    }
}

}  // namespace farcached::bench
