// SPDX-License-Identifier: BSD-3-Clause
// Channel: one connection between a worker of a proxy and a node. Frames travel over it in order, both ways; where
// the node's memory can be reached, the proxy's side also reads it one-sided. The same class stands at both ends.
//
// Nothing here waits. Whoever owns a channel polls fd(), calls ready() when it is readable (or, while
// wants_write(), writable) and flush() once at the end of a tick in which out() was appended to or a read was
// posted. What happens is told through ChannelEvents: ended() from within ready() and flush(), all else from within
// ready() alone, so that flush() never makes anybody append to what it sends.
//
// C1  A channel belongs to one thread.
// C2  What arrives is copied out of shared memory before anybody looks at it (S10).
// C3  Buffers are bounded: received() is shown at most input_bytes_max unconsumed bytes, then nothing more is taken
//     from the transport; out() is bounded by who appends, who looks at out_pending() and stops asking or consuming
//     (back-pressure). When what was pending has been sent, what was left unconsumed is shown again.
// C4  After ended() nothing is told any more, no read completes, and the channel is only good for destruction, from
//     within ended() at the earliest. It is told once, and never from within the constructor.
// C5  A landing buffer belongs to the channel from post_read() until its read_done() or until ended() (S12).
// C6  A read proves nothing by itself: its bytes are to be validated (S4), on a clock read after read_done().
// C7  Where the transport allows it, each end has a container: container_bytes that the other end of this very
//     connection writes one-sided, and nobody else; nothing there says so, but what is sent behind it. Whoever can write
//     it can do so at any time, so it is looked at in a copy (C2), and believed as little as any input. Over shm it lies
//     in memory that only the two processes have. Over RDMA it is registered for the connection alone and, where the
//     device has memory windows of type 2, reached through one that is bound to the queue pair: no other connection's
//     WRITEs get there, whatever key they name. Where it has none, it is the key that keeps others out, which only the
//     other end is told, and which another client of the same node could guess: what it can do then is to spoil a
//     message of that connection, and no more than that connection itself could.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/out_buffer.h"
#include "fabric/channel_counters.h"
#include "fabric/region_view.h"
#include "fabric/remote_ptr.h"

namespace farcached::fabric {

//        name             help
#define CHANNEL_ENDS(X)                                                            \
    X(closed, "this side closed the connection")                                   \
    X(peer_closed, "the other end closed the connection")                          \
    X(refused, "nobody listens there")                                             \
    X(unreachable, "the address cannot be reached")                                \
    X(timed_out, "the connection was not made, or not answered, in time")          \
    X(reset, "the connection was reset")                                           \
    X(handshake, "the other end does not speak this transport's handshake")        \
    X(permission, "the other end belongs to another user, or may not be opened")   \
    X(owner_dead, "the process that owns the mapped memory is dead")               \
    X(corrupt, "the other end wrote what cannot be into the memory of the channel") \
    X(no_memory, "there was no memory for the connection")                         \
    X(system, "the operating system refused")

enum class ChannelEnd : uint8_t {
#define X(name, help) name,
    CHANNEL_ENDS(X)
#undef X
        count
};
std::string_view channel_end_name(ChannelEnd end);
std::string_view channel_end_help(ChannelEnd end);

// Unconsumed bytes that a channel shows at most, unless its maker is told otherwise: two frames of the usual size. Not
// less than one frame and eight bytes of the next.
constexpr size_t input_bytes_default = 128 * 1024;

constexpr size_t container_bytes = 8 * 1024;  // C7

// How a posted read ended.
enum class ReadStatus : uint8_t {
    done,        // the landing buffer holds what was there at some time since the posting, perhaps torn
    owner_dead,  // the process that owns the memory is dead (S9)
    failed,      // the transport refused, or completed with an error
};

class ChannelEvents {
  public:
    virtual ~ChannelEvents() = default;
    // A proxy's side: the transport is up, and it may say hello.
    virtual void connected() = 0;
    // All that has come and is not consumed yet; returns how much of it is. More of it only ever extends it. May be
    // shown without anything new in it.
    virtual size_t received(std::string_view bytes) = 0;
    virtual void read_done(uint64_t token, ReadStatus status) = 0;
    virtual void ended(ChannelEnd why, const std::string& text) = 0;  // the text: a sentence with address and cause
};

// A one-sided read of ptr.length bytes into `landing`, 8-byte aligned, with room for ptr.length rounded up to 8.
struct ReadRequest {
    RemotePtr ptr;
    uint64_t* landing = nullptr;
    uint64_t token = 0;
    // Behind the read, one is added to the counter of the item at ptr, if the channel counts_reads(). What of that
    // comes late, or of a read that is not believed, counts all the same.
    bool count = false;
};

// A one-sided read of `bytes` bytes `offset` bytes behind the beginning of what the other side lends.
struct FetchRequest {
    uint64_t offset = 0;
    uint32_t bytes = 0;
    uint64_t* landing = nullptr;  // as a ReadRequest's
    uint64_t token = 0;
};

class Channel {
  public:
    virtual ~Channel() = default;

    // Polled for reading, by its level. One descriptor for the whole life of the channel.
    virtual int fd() const = 0;
    virtual bool wants_write() const = 0;
    virtual void ready() = 0;  // may be called at any time

    // Frames to be sent: append, then flush(). Whole frames only are in it at flush(), and nothing is after it.
    OutBuffer& out() { return out_; }
    // Sends what the transport takes now; the rest is kept and leaves as soon as it can.
    virtual void flush() = 0;
    size_t out_pending() const { return out_.size() + unsent_bytes_; }
    // For the end of a tick, after flush(), if there is nothing else to do: looks for a moment whether more comes, if
    // that has paid lately. True: call ready() again before sleeping. Never needed.
    virtual bool linger() { return false; }

    // The node's regions, mapped read-only into this process; nullptr: they can only be asked for (two-sided), or
    // read by post_read().
    virtual const RegionView* mapped_region(uint32_t region) const = 0;
    // Is the owner of the mapped regions alive and the one of the incarnation that was welcomed? To be asked after a
    // copy from a mapped region (S9).
    virtual bool owner_alive() const = 0;
    virtual bool can_read() const = 0;  // by post_read()
    // Only if can_read(), and for a pointer that is well_formed() and inside() its region. False: too many are under
    // way, try again after the next read_done().
    virtual bool post_read(const ReadRequest& request) = 0;
    // Has the node counters of its items that a read can move (ReadRequest::count)? Once connected it does not change.
    virtual bool counts_reads() const { return false; }
    // From here on counts there; `counters` outlives the channel. Else it counts for itself alone.
    virtual void count_in(ChannelCounters& counters) { counters_ = &counters; }

    // A proxy's side: the node READs values from the memory that was lent when the channel was made (BufferPool), of at
    // most so many bytes each; 0: it does not. What it is told of belongs to it until its reply, or until the channel is
    // destroyed (S12).
    virtual uint64_t lends() const { return 0; }
    // A node's side: READs what the proxy lends; read_done() tells of it. False: it cannot, or not now.
    virtual bool post_fetch(const FetchRequest&) { return false; }

    // Has this end a container (C7)? Once it has, it does.
    virtual bool has_container() const { return false; }
    // Copies out of it, from its first byte; at most container_bytes. Only if there is one.
    virtual void copy_container(char*, size_t) const {}
    // Writes the other end's container, from its first byte, with at most container_bytes, which are copied before the
    // call returns. They are there before anything arrives that is appended to out() from now on. What was written
    // before may be overwritten: whoever writes knows that it was read. False: there is none there, or no room now.
    virtual bool post_write(std::string_view) { return false; }

    virtual void close() = 0;               // ended(closed) is told at the next ready() or flush()
    virtual std::string describe() const = 0;  // "tcp:127.0.0.1:11300", "shm:/run/farnode/a.sock"

  protected:
    ChannelCounters& counters() { return *counters_; }

    OutBuffer out_;
    size_t unsent_bytes_ = 0;  // flushed, and not taken by the transport yet

  private:
    ChannelCounters own_counters_;
    ChannelCounters* counters_ = &own_counters_;
};

// A node's side: accepts connections. Owner: one thread; what it accepts may be given to another.
class ChannelListener {
  public:
    virtual ~ChannelListener() = default;
    virtual int fd() const = 0;
    // The next connection, or nullptr if there is none now. `events` is told from the first ready() on. May be called
    // until it returns nullptr.
    virtual std::unique_ptr<Channel> accept(ChannelEvents& events) = 0;
    virtual std::string describe() const = 0;
    // Connections that were closed because there was no descriptor for them; by who calls accept().
    virtual uint64_t turned_away() const { return 0; }
};

}  // namespace farcached::fabric
