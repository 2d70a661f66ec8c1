// SPDX-License-Identifier: BSD-3-Clause
// StreamChannel: the common part of channels over a byte stream (tcp), over rings (shm) and over RDMA. They differ in how
// they move bytes, make the connection and wake their owner.
//
// fd() is an epoll descriptor of the channel's own, so that the channel chooses its wake-ups: unconsumed input does not
// wake the owner, room for unsent bytes does.
//
// Owner and threads: as of any channel (fabric/channel.h). Input lands in a buffer that the channels of a thread share.
//
// T1  A channel notes its end first and reports it as the last act of ready() or flush(): after ended() it touches no
//     member.
// T2  Between two calls of its owner the channel watches for every event that it waits for: no wake-up is lost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.h"
#include "fabric/channel.h"
#include "fabric/socket.h"

namespace farcached::fabric {

// Received bytes in one piece, at most `bytes_max` of them.
//
// I1  A channel receives into the thread's scratch buffer, after a copy of the bytes held. keep() stores the unconsumed
//     bytes. So an idle connection, or one whose frames arrive whole, has no memory here. When more than copy_bytes_max
//     bytes are held, the channel receives into the buffer's own memory.
// I2  After keep() that memory is at most twice its contents, and keep_bytes_min at least.
class InputBuffer {
  public:
    explicit InputBuffer(size_t bytes_max) : bytes_max_(bytes_max) {}

    std::string_view view() const { return {data_ + begin_, end_ - begin_}; }
    bool empty() const { return begin_ == end_; }
    bool full() const { return end_ - begin_ == bytes_max_; }

    // The place for the next bytes, right after those held, and its size. nullptr: out of memory. Until keep() this buffer
    // has the thread's scratch; the thread's other buffers then allocate memory of their own.
    char* room(size_t& bytes);
    void commit(size_t bytes) {
        CHECK(bytes <= capacity_ - end_);
        end_ += bytes;
    }
    void consume(size_t bytes) {
        CHECK(bytes <= end_ - begin_);
        begin_ += bytes;
        if (begin_ == end_) begin_ = end_ = 0;
    }
    // At the end of receiving: moves the bytes held to memory of the buffer's own. False: out of memory.
    bool keep();

  private:
    static constexpr size_t keep_bytes_min = 1024, copy_bytes_max = 16 * 1024;
    void settle_in(char* to, size_t capacity);
    bool move_to(size_t capacity);
    bool move_to_scratch();

    std::unique_ptr<char[]> own_, scratch_;  // at most one of them
    char* data_ = nullptr;                   // in it
    size_t capacity_ = 0;
    size_t bytes_max_;
    size_t begin_ = 0, end_ = 0;
};

// Bytes that wait to be sent; empty unless the other side is slow.
class UnsentBytes {
  public:
    std::string_view view() const { return std::string_view(bytes_).substr(from_); }
    size_t size() const { return bytes_.size() - from_; }
    bool empty() const { return size() == 0; }
    void append(std::string_view bytes) { bytes_.append(bytes); }
    void consume(size_t bytes) {
        CHECK(bytes <= size());
        from_ += bytes;
        if (from_ == bytes_.size()) {
            bytes_ = std::string();
            from_ = 0;
        } else if (from_ > bytes_.size() / 2) {
            bytes_.erase(0, from_);
            from_ = 0;
        }
    }

  private:
    std::string bytes_;
    size_t from_ = 0;
};

// How long linger() polls. Polling that has found something doubles the next polls, else it halves them. Below the least it
// has stopped to pay; a retry shows when it pays again.
class Spins {
  public:
    // retry: polls of a retry, which must be enough to find something if anything comes soon.
    Spins(uint32_t most, uint32_t retry) : most_(most), retry_(std::min(most, retry)), now_(most) {}
    // For one linger(); 0: it does not poll.
    uint32_t polls() {
        if (now_ >= least) return now_;
        return ++idle_calls_ % tries_every == 0 ? retry_ : 0;
    }
    void found(uint32_t polls) { now_ = std::min(most_, std::max(polls, least) * 2); }
    void found_nothing() {
        if (now_ >= least) now_ /= 2;
    }

    static constexpr uint32_t least = 16;        // fewer take less than a microsecond
    static constexpr uint32_t tries_every = 64;  // calls from one retry to the next

  private:
    uint32_t most_, retry_, now_, idle_calls_ = 0;
};

class StreamChannel : public Channel {
  public:
    int fd() const final { return poller_.get(); }
    bool wants_write() const final { return false; }  // writability makes fd() readable
    void ready() final;
    void flush() final;
    void close() final;
    std::string describe() const final { return name_; }

  protected:
    // `poller`: an epoll descriptor. events outlives the channel.
    StreamChannel(Descriptor poller, std::string name, ChannelEvents& events,
                  size_t input_bytes_max);

    // Continues making the connection; calls opened() when it is made.
    virtual void advance() = 0;
    // Consumes the wake-up, once the connection is made.
    virtual void woken() = 0;
    // Moves received bytes to `to`; fewer than `room`: no more now. May end the channel; the owner gets the bytes first.
    virtual size_t pull(char* to, size_t room) = 0;
    // Moves bytes to the transport; fewer: it takes no more now. May end the channel.
    virtual size_t push(std::string_view bytes) = 0;
    // Checks whether the other end is still there, while the full buffer stops pull(). May end the channel.
    virtual void look_for_end() = 0;
    // Hands all that this call of the owner pushed or posted to the transport; once the connection is made.
    virtual void post() {}
    // From here on fd() is readable when there is something to do; `again`: at once. False: something has arrived before
    // that took effect; call it again after taking that.
    struct Interest {
        bool input, output, again;
    };
    virtual bool watch(const Interest& interest) = 0;
    // Makes fd() readable, permanently.
    virtual void hang_up() = 0;
    // Reports posted reads that are done.
    virtual void tell_reads() {}
    // Reports the other end's report, if there is one. May end the channel.
    virtual void tell_written() {}

    void opened() { open_ = true; }
    bool open() const { return open_; }
    // Notes the end of the channel; the first call counts. `cause` follows the help text of `why`.
    void end(ChannelEnd why, std::string_view cause);
    void end_with_errno(ChannelEnd why, int error);
    bool ending() const { return ending_.has_value(); }
    bool ended() const { return told_; }
    ChannelEvents& events() { return events_; }
    int poller() const { return poller_.get(); }
    const std::string& name() const { return name_; }

  private:
    struct Ending {
        ChannelEnd why;
        std::string text;
    };
    void turn();
    bool receive();
    bool receive_rounds();
    void show();
    void send_unsent();
    void send_flushed();
    void tell();
    void count_sent(size_t bytes) {
        bytes_sent_ += bytes;
        counters().link_bytes_sent.add(bytes);
    }

    Descriptor poller_;
    std::string name_;
    ChannelEvents& events_;
    InputBuffer input_;
    UnsentBytes unsent_;
    std::optional<Ending> ending_;
    bool open_ = false;
    bool told_ = false;
};

// The end that an errno of connect(), send() or recv() stands for.
ChannelEnd channel_end_of(int error);

}  // namespace farcached::fabric
