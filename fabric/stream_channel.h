// SPDX-License-Identifier: BSD-3-Clause
// StreamChannel: what channels over a byte stream (tcp) and over rings (shm) have in common. They
// differ in how bytes are moved, how the connection is made, and how one is woken.
//
// fd() is an epoll descriptor of the channel's own, so that the channel itself chooses what wakes
// its owner: input that nobody consumes does not, the sending of what is left does.
//
// T1  An ending is noted first and told as the last act of ready() or flush(): nothing of the
// channel is touched
//     after ended().
// T2  Between two calls of its owner the channel watches for all that it waits for: no wake-up is
// lost.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "fabric/channel.h"
#include "fabric/descriptor.h"
#include "fabric/stream_buffers.h"

namespace farcached::fabric {

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

    // Carries on with making the connection; opened() when it is made.
    virtual void advance() = 0;
    // Eats the wake-up, once the connection is made.
    virtual void woken() = 0;
    // Moves bytes that came to `to`; fewer than `room`: no more are there now. May end the channel;
    // what it has moved is told before.
    virtual size_t pull(char* to, size_t room) = 0;
    // Moves bytes to the transport; fewer: it takes no more now. May end the channel.
    virtual size_t push(std::string_view bytes) = 0;
    // Nothing is pulled because the buffer is full: is the other end still there? May end the
    // channel.
    virtual void look_for_end() = 0;
    // All that was pushed, or posted to be read, in this call of its owner is with the transport from
    // here on; once the connection is made.
    virtual void post() {}
    // From here on fd() is readable when there is something to do; `again`: there is, so now.
    // False: not so, since something has come meanwhile.
    struct Interest {
        bool input, output, again;
    };
    virtual bool watch(const Interest& interest) = 0;
    // Makes fd() readable, for good.
    virtual void hang_up() = 0;
    // Posted reads that are done.
    virtual void tell_reads() {}

    void opened() { open_ = true; }
    bool open() const { return open_; }
    // Notes how the channel ended; the first counts. `cause` follows the help text of `why`.
    void end(ChannelEnd why, std::string_view cause);
    void end_with_errno(ChannelEnd why, int error);
    bool ending() const { return ending_.has_value(); }
    bool ended() const { return told_; }
    ChannelEvents& events() { return events_; }
    int poller() const { return poller_.get(); }

  private:
    struct Ending {
        ChannelEnd why;
        std::string text;
    };
    void turn();
    bool receive();
    void show();
    void send_unsent();
    void send_flushed();
    void tell();

    Descriptor poller_;
    std::string name_;
    ChannelEvents& events_;
    InputBuffer input_;
    UnsentBytes unsent_;
    std::optional<Ending> ending_;
    bool open_ = false;
    bool told_ = false;
};

// What connect(), send() and recv() say about the other end.
ChannelEnd channel_end_of(int error);

}  // namespace farcached::fabric
