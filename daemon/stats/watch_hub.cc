// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/watch_hub.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <new>
#include <span>
#include <system_error>

#include "base/check.h"
#include "base/node_clock.h"
#include "base/out_buffer.h"
#include "base/recorder.h"
#include "daemon/stats/dump.h"
#include "proxy/link_counters.h"

namespace farcached::daemon {

namespace {

// Precedes each line's text in pending_.
struct Record {
    int64_t seconds;
    uint64_t number;
    uint32_t microseconds;
    uint32_t flag;
    size_t text_bytes;
};

constexpr size_t prefix_bytes_max = 80;   // ts=<i64>.<6> gid=<u64> and a blank
constexpr size_t skipped_bytes_max = 40;  // skipped=<u64> and its newline

void append_signed(OutBuffer& out, int64_t n) {
    if (n < 0) out.append('-');
    out.append_number(n < 0 ? uint64_t(0) - uint64_t(n) : uint64_t(n));
}

void append_field(OutBuffer& out, std::string_view name, uint64_t value) {
    out.append(name);
    out.append_number(value);
}

void append_key(OutBuffer& out, std::string_view type, std::string_view key) {
    out.append(type);
    out.append(" key=");
    append_uri_encoded(out, key);
}

std::string_view text_of(const OutBuffer& out) { return {out.data(), out.size()}; }

// Room for `bytes` more; false: no memory.
bool make_room(std::string& text, size_t bytes) noexcept {
    if (text.size() + bytes <= text.capacity()) return true;
    try {
        text.reserve(std::max(text.size() + bytes, 2 * text.capacity()));
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

}  // namespace

// ---- writers ------------------------------------------------------------------------------------------

// Without memory a line is dropped, as without room (W1): its event has happened.
void WatchHub::write(WatchFlag flag, std::string_view tail) noexcept {
    const uint64_t now_us = realtime_us();
    Record record = {int64_t(now_us / 1'000'000), 0, uint32_t(now_us % 1'000'000), flag, tail.size()};
    bool was_empty;
    {
        std::lock_guard held(lock_);
        const size_t bytes = sizeof record + tail.size();
        if (pending_.size() + bytes > limits_.pending_bytes_max || !make_room(pending_, bytes)) {
            dropped_.fetch_add(1, std::memory_order_relaxed);
            return;
        }
        was_empty = pending_.empty();
        record.number = next_number_++;
        pending_.append(reinterpret_cast<const char*>(&record), sizeof record);
        pending_.append(tail);
    }
    written_.fetch_add(1, std::memory_order_relaxed);
    if (was_empty) wake();
}

template <class Fill>
void WatchHub::write_line(WatchFlag flag, Fill&& fill) noexcept {
    try {
        OutBuffer line;
        fill(line);
        write(flag, text_of(line));
    } catch (const std::bad_alloc&) {
        dropped_.fetch_add(1, std::memory_order_relaxed);
    }
}

void WatchHub::wake() {
    uint64_t one = 1;
    // It can only fail when the counter is full; then the hub is awake.
    [[maybe_unused]] ssize_t written = ::write(wake_fd_, &one, sizeof one);
}

void WatchHub::item_get(std::string_view key, std::string_view status, uint8_t size_class, int fd,
                        uint32_t value_len) {
    write_line(watch_fetchers, [&](OutBuffer& line) {
        append_key(line, "type=item_get", key);
        line.append(" status=");
        line.append(status);
        append_field(line, " clsid=", size_class);
        line.append(" cfd=");
        append_signed(line, fd);
        append_field(line, " size=", value_len);
    });
}

void WatchHub::item_store(std::string_view key, std::string_view status, std::string_view cmd,
                          int64_t ttl, uint8_t size_class, int fd, uint32_t value_len) {
    write_line(watch_mutations, [&](OutBuffer& line) {
        append_key(line, "type=item_store", key);
        line.append(" status=");
        line.append(status);
        line.append(" cmd=");
        line.append(cmd);
        line.append(" ttl=");
        append_signed(line, ttl);
        append_field(line, " clsid=", size_class);
        line.append(" cfd=");
        append_signed(line, fd);
        append_field(line, " size=", value_len);
    });
}

// memcached has no cfd in this line.
void WatchHub::deleted(std::string_view key, std::string_view cmd, uint8_t size_class, uint32_t value_len) {
    write_line(watch_deletions, [&](OutBuffer& line) {
        append_key(line, "type=deleted", key);
        line.append(" cmd=");
        line.append(cmd);
        append_field(line, " clsid=", size_class);
        append_field(line, " size=", value_len);
    });
}

void WatchHub::eviction(std::string_view key, const protocol::ItemMeta& meta, int64_t ttl,
                        NodeSeconds now) {
    write_line(watch_evictions, [&](OutBuffer& line) {
        append_key(line, "type=eviction", key);
        line.append(meta.fetched ? " fetch=yes ttl=" : " fetch=no ttl=");
        append_signed(line, ttl);
        append_field(line, " la=", seconds_since(meta.last_access, now));
        append_field(line, " clsid=", meta.size_class);
        append_field(line, " size=", meta.value_len);
    });
}

void WatchHub::connection(std::string_view line_tail) {
    write(watch_connevents, line_tail);
}

void WatchHub::slow(std::string_view line_tail) {
    write_line(watch_proxyreqs, [&](OutBuffer& line) {
        line.append("type=slow_req ");
        line.append(line_tail);
    });
}

void WatchHub::proxy_event(std::string_view line_tail) {
    write(watch_proxyevents, line_tail);
}

void WatchHub::refusal(std::string_view line_tail) {
    write(watch_refusals, line_tail);
}

void WatchHub::evicted(std::string_view key, const protocol::ItemMeta& meta, NodeSeconds now) noexcept {
    if (!wants(watch_evictions)) return;
    int64_t ttl = meta.exptime == never_expires ? -1 : int64_t(meta.exptime) - int64_t(now);
    eviction(key, meta, ttl, now);
}

// ---- life ---------------------------------------------------------------------------------------------

WatchHub::WatchHub(const WatchLimits& limits) : limits_(limits) {}

WatchHub::~WatchHub() { stop(); }

void WatchHub::start() {
    CHECK(wake_fd_ == -1);
    watchers_.reserve(watchers_max);  // so that the thread allocates nothing for watchers
    wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd_ == -1) throw std::system_error(errno, std::generic_category(), "eventfd");
    running_ = true;
    thread_ = std::thread([this] { run(); });
}

void WatchHub::stop() {
    if (!thread_.joinable()) return;
    {
        std::lock_guard held(lock_);
        running_ = false;
    }
    wake();
    thread_.join();
    for (Watcher& watcher : arriving_) watchers_.push_back(std::move(watcher));
    arriving_.clear();
    for (Watcher& watcher : watchers_) watcher.dead = true;
    remove_dead();
    close(wake_fd_);
    wake_fd_ = -1;
}

bool WatchHub::adopt(int fd, uint32_t flags, std::function<void()> closed, Seal seal) {
    {
        std::lock_guard held(lock_);
        if (!running_) return false;
        if (watcher_count_ == watchers_max) return false;
        Watcher watcher;
        watcher.fd = fd;
        watcher.flags = flags;
        watcher.from_number = next_number_;
        watcher.closed = std::move(closed);
        watcher.seal = std::move(seal);
        watcher.out = "OK\r\n";
        arriving_.push_back(std::move(watcher));
        try {
            WatchHub::seal(arriving_.back());  // while a lack of memory can still be refused
        } catch (const std::bad_alloc&) {
            arriving_.pop_back();
            throw;
        }
        watcher_count_++;
        // Before the client can see the OK: afterwards it misses no line.
        wanted_.store(flags_of_all(), std::memory_order_relaxed);
        watching_.store(watcher_count_, std::memory_order_relaxed);
    }
    wake();
    return true;
}

WatchNumbers WatchHub::numbers() const {
    WatchNumbers n;
    n.dropped = dropped_.load(std::memory_order_relaxed);
    n.written = written_.load(std::memory_order_relaxed);
    n.skipped = skipped_.load(std::memory_order_relaxed);
    n.sent = sent_.load(std::memory_order_relaxed);
    n.watchers = watching_.load(std::memory_order_relaxed);
    return n;
}

// ---- the hub's thread ---------------------------------------------------------------------------------

void WatchHub::run() {
    Recorder recorder("watch");
    const Recorder::Running running(recorder);
    std::string lines;
    for (;;) {
        wait_for_work();
        lines.clear();
        {
            std::lock_guard held(lock_);
            if (!running_) return;
            lines.swap(pending_);
            for (Watcher& watcher : arriving_) watchers_.push_back(std::move(watcher));
            arriving_.clear();
        }
        deliver(lines);
        for (Watcher& watcher : watchers_) flush(watcher);
        remove_dead();
    }
}

// Sleeps until there are lines, watchers, or room in a watcher's socket; notices closed ones.
void WatchHub::wait_for_work() {
    pollfd polled[1 + watchers_max];
    polled[0] = {wake_fd_, POLLIN, 0};
    size_t count = watchers_.size();
    CHECK(count <= watchers_max);
    for (size_t i = 0; i < count; i++) {
        short events = watchers_[i].out.empty() && watchers_[i].sealed.empty() ? POLLIN : POLLIN | POLLOUT;
        polled[1 + i] = {watchers_[i].fd, events, 0};
    }
    if (poll(polled, 1 + count, -1) <= 0) return;
    if (polled[0].revents != 0) {
        uint64_t times;
        [[maybe_unused]] ssize_t got = ::read(wake_fd_, &times, sizeof times);
    }
    for (size_t i = 0; i < count; i++)
        if ((polled[1 + i].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
            read_and_discard(watchers_[i]);
}

void WatchHub::deliver(std::string_view lines) {
    char line_prefix[prefix_bytes_max];
    while (!lines.empty()) {
        Record record;
        std::memcpy(&record, lines.data(), sizeof record);
        std::string_view text = lines.substr(sizeof record, record.text_bytes);
        lines.remove_prefix(sizeof record + record.text_bytes);
        // memcached prints the microseconds without leading zeros, which misreads as a decimal fraction. Patterns that match
        // its lines match these, too.
        int size = std::snprintf(line_prefix, sizeof line_prefix, "ts=%" PRId64 ".%06u gid=%" PRIu64 " ",
                                 record.seconds, record.microseconds, record.number);
        for (Watcher& watcher : watchers_) {
            if ((watcher.flags & record.flag) == 0) continue;
            if (record.number >= watcher.from_number) offer(watcher, {line_prefix, size_t(size)}, text);
        }
    }
}

// The whole line or none of it (W2), also without memory.
void WatchHub::offer(Watcher& watcher, std::string_view head, std::string_view text) {
    const size_t needed = head.size() + text.size() + 1 + skipped_bytes_max;
    if (watcher.out.size() + needed > limits_.watcher_bytes_max) flush(watcher);
    if (watcher.out.size() + needed > limits_.watcher_bytes_max || !make_room(watcher.out, needed)) {
        watcher.skipped++;
        skipped_.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    if (watcher.skipped != 0) {
        char count[skipped_bytes_max];
        const int bytes = std::snprintf(count, sizeof count, "skipped=%" PRIu64 "\n", watcher.skipped);
        watcher.out.append(count, size_t(bytes));
    }
    watcher.skipped = 0;
    watcher.out.append(head).append(text).append(1, '\n');
    sent_.fetch_add(1, std::memory_order_relaxed);
}

void WatchHub::seal(Watcher& watcher) {
    if (!watcher.seal || !watcher.sealed.empty() || watcher.out.empty()) return;
    watcher.dead |= !watcher.seal(watcher.out, watcher.sealed);
    watcher.out.clear();
}

void WatchHub::flush(Watcher& watcher) {
    try {
        seal(watcher);
    } catch (const std::bad_alloc&) {
        return;  // the lines wait
    }
    std::string& out = watcher.seal ? watcher.sealed : watcher.out;
    if (watcher.dead || out.empty()) return;
    ssize_t sent = send(watcher.fd, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0)
        out.erase(0, size_t(sent));
    else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        watcher.dead = true;
}

// Discards a watcher's input; end of stream ends the watch.
void WatchHub::read_and_discard(Watcher& watcher) {
    char junk[4096];
    ssize_t got = recv(watcher.fd, junk, sizeof junk, MSG_DONTWAIT);
    if (got > 0) return;
    if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) watcher.dead = true;
}

void WatchHub::remove_dead() {
    if (std::none_of(watchers_.begin(), watchers_.end(), [](const Watcher& w) { return w.dead; }))
        return;
    std::array<Watcher, watchers_max> dead;
    size_t dead_count = 0;
    {
        std::lock_guard held(lock_);
        for (Watcher& watcher : watchers_)
            if (watcher.dead) dead[dead_count++] = std::move(watcher);
        std::erase_if(watchers_, [](const Watcher& watcher) { return watcher.dead; });
        watcher_count_ -= dead_count;
        wanted_.store(flags_of_all(), std::memory_order_relaxed);
        watching_.store(watcher_count_, std::memory_order_relaxed);
    }
    for (Watcher& watcher : std::span(dead).first(dead_count)) {
        close(watcher.fd);
        if (watcher.closed) watcher.closed();
    }
}

uint32_t WatchHub::flags_of_all() const {
    uint32_t flags = 0;
    for (const Watcher& watcher : watchers_) flags |= watcher.flags;
    for (const Watcher& watcher : arriving_) flags |= watcher.flags;
    return flags;
}

namespace {

using proxy::LinkDown;

// memcached's proxy's word for a backend's failure.
std::string_view error_word(LinkDown why, bool was_up) {
    switch (why) {
        case LinkDown::silent: return "timeout";
        case LinkDown::mismatch:
        case LinkDown::authentication:
        case LinkDown::refused: return "readvalidate";
        case LinkDown::bad_frame: return "parsing";
        case LinkDown::connect_timeout:
        case LinkDown::no_channel: return "connecting";
        case LinkDown::channel_ended:
        case LinkDown::goodbye:
        case LinkDown::no_memory:
        case LinkDown::replaced:
        case LinkDown::stopped:
        case LinkDown::count: break;
    }
    return was_up ? "disconnected" : "connecting";
}

std::string where(const NodePlace& place) {
    return " name=" + printable(place.host) + " port=" + std::to_string(place.port) + " label=" + std::string(place.label);
}

}  // namespace

std::string backend_connected_line(const NodePlace& place, uint32_t links_up) {
    return "type=proxy_backend event=connected" + where(place) + " links_up=" + std::to_string(links_up);
}

std::string backend_error_line(const NodePlace& place, LinkDown why, bool was_up, uint32_t lost, std::string_view text) {
    return "type=proxy_backend error=" + std::string(error_word(why, was_up)) + where(place) + " depth=" + std::to_string(lost) +
           " rbuf= cause=" + std::string(proxy::link_down_name(why)) + " text=" + printable(text);
}

std::string backend_bad_line(const NodePlace& place, uint64_t retry_s) {
    return "type=proxy_backend error=markedbad" + where(place) + " retry=" + std::to_string(retry_s);
}

std::string backend_good_line(const NodePlace& place) { return "type=proxy_backend event=markedgood" + where(place); }

std::string backend_drained_line(const NodePlace& place, bool on) {
    return std::string("type=proxy_backend event=") + (on ? "drained" : "undrained") + where(place);
}

std::string request_failed_line(std::string_view why, std::string_view label, std::string_view key, int fd) {
    return "type=proxy_request error=" + std::string(why) + " label=" + std::string(label.empty() ? "-" : label) +
           " key=" + uri_encoded(key) + " cfd=" + std::to_string(fd);
}

std::string read_failed_line(const NodePlace& place, std::string_view why, bool by_index, std::string_view key) {
    return "type=proxy_read error=" + std::string(why) + where(place) + (by_index ? " way=index key=" : " way=pointer key=") +
           uri_encoded(key);
}

std::string reload_line(std::string_view status) { return "type=proxy_conf status=" + std::string(status); }

std::string refusal_line(std::string_view identity, std::string_view class_name, std::string_view command, std::string_view client,
                         int fd) {
    return "type=refused identity=" + uri_encoded(identity) + " class=" + std::string(class_name) + " command=" +
           printable(command) + " client=" + std::string(client) + " cfd=" + std::to_string(fd);
}

}  // namespace farcached::daemon
