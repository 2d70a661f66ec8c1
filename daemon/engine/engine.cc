// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/engine.h"

#include <algorithm>
#include <cstdio>

#include "daemon/engine/session_memory.h"
#include "process/log.h"

namespace farcached::daemon {

bool Context::has_room(size_t bytes) const {
    if (memory == nullptr || memory->has_room(bytes)) return true;
    return room != nullptr && room->make_room(bytes, Lack::buffer);
}

void count_miss(Context& context, protocol::Miss why) {
    if (why == protocol::Miss::expired) context.counters.get_expired.add(1);
    if (why == protocol::Miss::flushed) context.counters.get_flushed.add(1);
}

void count_stored(Context& context, protocol::StoreOp::Mode mode, const protocol::StoreReply& reply) {
    using Status = protocol::StoreReply::Status;
    ClassCounters& counters = class_counters(context, reply.size_class);
    counters.cmd_set.add(1);
    if (mode != protocol::StoreOp::Mode::cas) return;
    if (reply.status == Status::stored) counters.cas_hits.add(1);
    if (reply.status == Status::exists) counters.cas_badval.add(1);
    if (reply.status == Status::not_found) context.counters.cas_misses.add(1);
}

void count_arith(Context& context, bool decrement, const protocol::ArithReply& reply) {
    using Status = protocol::ArithReply::Status;
    if (reply.status == Status::ok) {
        ClassCounters& counters = class_counters(context, reply.meta.size_class);
        (decrement ? counters.decr_hits : counters.incr_hits).add(1);
    }
    if (reply.status == Status::not_found)
        (decrement ? context.counters.decr_misses : context.counters.incr_misses).add(1);
}

bool begin_pending(Context& context, SessionState& session, const protocol::Key& key, std::string_view head,
                   std::string_view here, uint32_t value_bytes, size_t tail_bytes) {
    LocalPeer* const peer = context.router.local();
    if (peer == nullptr || value_bytes < node::lent_bytes_min) return false;
    auto set = std::make_unique<PendingSet>();
    set->head = head;
    set->tail_bytes = tail_bytes;
    set->upload = peer->node().begin_upload(key, value_bytes, context.now);
    if (set->upload == nullptr) return false;
    feed_pending(*set, here);
    session.pending = std::move(set);
    session.line.sends_values = true;
    return true;
}

size_t feed_pending(PendingSet& set, std::string_view input) {
    const size_t value = size_t(std::min<uint64_t>(set.upload->missing(), input.size()));
    set.upload->append(input.substr(0, value));
    if (set.upload->missing() != 0) return value;
    const size_t tail = std::min(set.tail_bytes - set.tail.size(), input.size() - value);
    set.tail.append(input.substr(value, tail));
    return value + tail;
}

bool is_whole(const PendingSet& set) { return set.upload->missing() == 0 && set.tail.size() == set.tail_bytes; }

namespace {

constexpr size_t shown_bytes_max = 300;  // a command with the longest key
constexpr size_t binary_head_bytes = 24;

bool is_binary(std::string_view bytes) {
    const auto first = static_cast<unsigned char>(bytes.front());
    return first == 0x80 || first == 0x81;
}

// The first line; unprintable bytes as \xNN.
std::string first_line(std::string_view bytes) {
    bytes = bytes.substr(0, std::min(bytes.find('\n'), shown_bytes_max));
    if (bytes.ends_with('\r')) bytes.remove_suffix(1);
    std::string line;
    for (char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7f) {
            line += c;
            continue;
        }
        char hex[5];
        std::snprintf(hex, sizeof hex, "\\x%02x", unsigned(byte));
        line += hex;
    }
    return line;
}

std::string binary_head(std::string_view bytes) {
    if (bytes.size() < binary_head_bytes) return "binary, not whole";
    auto at = [&](size_t i) { return unsigned(static_cast<unsigned char>(bytes[i])); };
    const bool reply = at(0) == 0x81;
    const unsigned body = at(8) << 24 | at(9) << 16 | at(10) << 8 | at(11);
    char text[80];
    int length = std::snprintf(text, sizeof text, "binary opcode 0x%02x, body of %u bytes", at(1), body);
    if (reply)
        std::snprintf(text + length, sizeof text - size_t(length), ", status 0x%04x", at(6) << 8 | at(7));
    return text;
}

template <class Text>
void write_line(char direction, int fd, Text&& text) noexcept {
    process::say_made(process::Level::debug,
                      [&] { return std::string(1, direction) + std::to_string(fd) + " " + std::string(text()); });
}

std::string shown(std::string_view bytes) { return is_binary(bytes) ? binary_head(bytes) : first_line(bytes); }

}  // namespace

void trace_connection(int fd, std::string_view what) noexcept {
    write_line('<', fd, [&] { return what; });
}

void trace_request(int fd, std::string_view bytes) noexcept {
    if (!bytes.empty()) write_line('<', fd, [&] { return shown(bytes); });
}

void trace_reply(int fd, std::string_view bytes) noexcept {
    if (!bytes.empty()) write_line('>', fd, [&] { return shown(bytes); });
}

}  // namespace farcached::daemon
