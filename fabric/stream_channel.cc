// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/stream_channel.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace farcached::fabric {

namespace {

constexpr int rounds_max = 8;  // full buffers that one call receives before other channels run
constexpr int passes_max = 4;  // passes of one call while a little more arrives in each
constexpr size_t out_keep_bytes = 16 * 1024;  // memory that an empty out() keeps

}  // namespace

ChannelEnd channel_end_of(int error) {
    switch (error) {
        case ECONNREFUSED:
        case ENOENT:
            return ChannelEnd::refused;
        case EHOSTUNREACH:
        case ENETUNREACH:
        case EADDRNOTAVAIL:
        case EAFNOSUPPORT:
            return ChannelEnd::unreachable;
        case ETIMEDOUT:
            return ChannelEnd::timed_out;
        case ECONNRESET:
        case EPIPE:
            return ChannelEnd::reset;
        case EACCES:
        case EPERM:
            return ChannelEnd::permission;
        case ENOMEM:
        case ENOBUFS:
            return ChannelEnd::no_memory;
        default:
            return ChannelEnd::system;
    }
}

StreamChannel::StreamChannel(Descriptor poller, std::string name, ChannelEvents& events,
                             size_t input_bytes_max)
    : poller_(std::move(poller)),
      name_(std::move(name)),
      events_(events),
      input_(input_bytes_max) {}

void StreamChannel::end(ChannelEnd why, std::string_view cause) {
    if (told_ || ending_) return;
    std::string text = name_ + ": " + std::string(channel_end_help(why));
    if (!cause.empty()) text += " (" + std::string(cause) + ")";
    ending_ = Ending{why, std::move(text)};
}

void StreamChannel::end_with_errno(ChannelEnd why, int error) { end(why, std::strerror(error)); }

void StreamChannel::close() {
    if (told_ || ending_) return;
    end(ChannelEnd::closed, "");
    hang_up();
}

void StreamChannel::tell() {
    told_ = true;
    const Ending ending = std::move(*ending_);
    events_.ended(ending.why, ending.text);
}

void StreamChannel::ready() {
    if (told_) return;
    if (!ending_ && !open_) advance();
    if (!ending_ && open_) turn();
    if (ending_) tell();
}

void StreamChannel::flush() {
    if (told_) return;
    if (!ending_) send_flushed();
    if (ending_) tell();
}

void StreamChannel::turn() {
    woken();
    for (int pass = 1;; pass++) {
        if (ending_) return;
        tell_reads();
        if (ending_) return;
        tell_written();
        if (ending_) return;
        send_unsent();
        if (ending_) return;
        const bool again = receive() || pass == passes_max;
        if (ending_) return;
        post();
        if (watch({!input_.full(), !unsent_.empty(), again})) return;
    }
}

// True: more is there than one call may receive.
bool StreamChannel::receive() {
    const bool more = receive_rounds();
    if (!input_.keep()) end(ChannelEnd::no_memory, "");
    return more;
}

bool StreamChannel::receive_rounds() {
    if (input_.full()) show();
    for (int round = 0; round < rounds_max; round++) {
        if (ending_) return false;
        if (input_.full()) {
            look_for_end();
            return false;
        }
        size_t room = 0;
        char* to = input_.room(room);
        if (to == nullptr) {
            end(ChannelEnd::no_memory, "");
            return false;
        }
        const size_t got = pull(to, room);
        counters().link_bytes_received.add(got);
        input_.commit(got);
        // Shows the bytes before an end that pull() has noted.
        if (!input_.empty()) show();
        if (got < room) return false;
    }
    return true;
}

void StreamChannel::show() {
    const std::string_view bytes = input_.view();
    const size_t consumed = events_.received(bytes);
    CHECK(consumed <= bytes.size());
    input_.consume(consumed);
}

void StreamChannel::send_unsent() {
    if (unsent_.empty()) return;
    const size_t sent = push(unsent_.view());
    count_sent(sent);
    unsent_.consume(sent);
    unsent_bytes_ = unsent_.size();
}

void StreamChannel::send_flushed() {
    const std::string_view bytes(out_.data(), out_.size());
    if (bytes.empty()) {
        if (open_) post();
        return;
    }
    if (!open_ || !unsent_.empty()) {
        unsent_.append(bytes);
        unsent_bytes_ = unsent_.size();
        out_.clear(out_keep_bytes);
        if (open_) send_unsent();
    } else {
        const size_t sent = push(bytes);
        count_sent(sent);
        unsent_.append(bytes.substr(sent));
        unsent_bytes_ = unsent_.size();
        out_.clear(out_keep_bytes);
    }
    if (!open_ || ending_) return;
    post();
    // An owner that stopped consuming because too much was pending may want to go on.
    const bool again = !input_.empty() && unsent_.empty();
    if (!watch({!input_.full(), !unsent_.empty(), again})) watch({false, false, true});
}

// ---- buffers ---------------------------------------------------------------------------------------

namespace {

struct Scratch {
    std::unique_ptr<char[]> bytes;
    size_t size = 0;
};
thread_local Scratch scratch;  // empty while a buffer of this thread uses it

}  // namespace

// Moves the bytes held; the first one is at data_ then.
void InputBuffer::settle_in(char* to, size_t capacity) {
    const std::string_view held = view();
    if (!held.empty()) std::memcpy(to, held.data(), held.size());
    end_ = held.size();
    begin_ = 0;
    data_ = to;
    capacity_ = capacity;
}

bool InputBuffer::move_to(size_t capacity) {
    std::unique_ptr<char[]> to(new (std::nothrow) char[capacity]);
    if (to == nullptr) return false;
    settle_in(to.get(), capacity);
    own_ = std::move(to);
    return true;
}

char* InputBuffer::room(size_t& bytes) {
    bytes = 0;
    if (scratch_ == nullptr && end_ - begin_ <= copy_bytes_max && !move_to_scratch()) return nullptr;
    if (begin_ != 0) {
        std::memmove(data_, data_ + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    if (end_ > capacity_ / 2 && capacity_ < bytes_max_ && !move_to(std::min(bytes_max_, 2 * end_))) return nullptr;
    bytes = capacity_ - end_;
    return data_ + end_;
}

bool InputBuffer::move_to_scratch() {
    scratch_ = std::move(scratch.bytes);
    if (scratch_ == nullptr || scratch.size < bytes_max_) scratch_.reset(new (std::nothrow) char[bytes_max_]);
    if (scratch_ == nullptr) return false;
    settle_in(scratch_.get(), bytes_max_);
    own_.reset();
    return true;
}

bool InputBuffer::keep() {
    const size_t held = end_ - begin_;
    const size_t least = std::min(bytes_max_, std::max(held, keep_bytes_min));
    bool kept = true;
    if (held != 0 && (scratch_ != nullptr || capacity_ / 2 > least)) kept = move_to(least);
    if (scratch_ != nullptr) {
        scratch = {std::move(scratch_), bytes_max_};
        if (own_ == nullptr) data_ = nullptr;
    }
    if (held == 0) {
        own_.reset();
        data_ = nullptr;
    }
    if (data_ == nullptr) capacity_ = begin_ = end_ = 0;
    return kept;
}

}  // namespace farcached::fabric
