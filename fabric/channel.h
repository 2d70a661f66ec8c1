// SPDX-License-Identifier: BSD-3-Clause
// Channel: one connection between a worker of a proxy and a node. Frames travel over it in order, both ways. Where the
// transport reaches the node's memory, the proxy's side also reads it one-sided. Both ends use the same class.
//
// No call waits. The owner of a channel polls fd(). It calls ready() when fd() is readable (or, while wants_write(),
// writable). It calls flush() once at the end of a tick that appended to out() or posted a read. ChannelEvents reports
// results: ended() from within ready() and flush(), all else from within ready() alone. So flush() never causes an
// append to the bytes that it sends.
//
// C1  A channel belongs to one thread.
// C2  The channel copies input out of shared memory before anything parses it (S10).
// C3  Buffers are bounded: received() is shown at most input_bytes_max unconsumed bytes; beyond that the channel takes
//     no more from the transport. The owner bounds out(): it checks out_pending() and stops sending or consuming
//     (back-pressure). When the pending bytes are sent, the channel shows the unconsumed input again.
// C4  After ended() the channel reports no event, completes no read, and is only good for destruction, from within
//     ended() at the earliest. It calls ended() once, and never from within the constructor.
// C5  A landing buffer belongs to the channel from post_read() until its read_done() or until ended() (S12).
// C6  A read proves nothing by itself: validate its bytes (S4), on a clock read after read_done().
// C7  Where the transport allows it, each end has a container: container_bytes that only the other end of this
//     connection writes, one-sided. One call writes a report there and notifies its reader; one event gives its length.
//     Over RDMA both are one WRITE with immediate data. Over shm the event is a word beside the container. Reports and
//     frames have no order between them. The writer can write the container at any time. So its owner reads it from a
//     copy (C2) and checks it as any input. Over shm it lies in memory that only the two processes share. Over RDMA it is
//     registered for the connection alone. Where the device has memory windows of type 2, the other end writes through
//     one bound to the queue pair: WRITEs of other connections cannot reach it with any key. Without windows its key
//     protects it, and only the other end gets the key. Another client of the same node could guess the key. Then it can
//     spoil a message of that connection, and do no more than that connection itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/enum_text.h"
#include "base/out_buffer.h"
#include "base/result.h"
#include "base/rpc_mode.h"
#include "base/stat_row.h"
#include "fabric/remote_ptr.h"

namespace farcached::fabric {

struct RegionView;

// Traffic of a channel, counted by the channel itself: declared once, here, for the counters, the statistics and the man
// page. A counter of a feature that a transport lacks stays 0: only RDMA has SENDs, READs and doorbells.
//
// Owner: the owner of the channel (Channel::count_in()); any thread may read (base/counters.h).

//        name                  help
#define CHANNEL_COUNTERS(X)                                         \
    X(link_bytes_sent, "bytes of frames sent")                      \
    X(link_bytes_received, "bytes of frames received")              \
    X(rdma_doorbells, "calls that posted SENDs, READs and atomics") \
    X(rdma_sends, "RDMA SENDs, including those with credits only")  \
    X(rdma_send_bytes, "bytes in them")                             \
    X(rdma_receives, "messages received over RDMA")                 \
    X(rdma_receive_bytes, "bytes in them")                          \
    X(rdma_reads, "RDMA READs")                                     \
    X(rdma_read_bytes, "bytes requested by them")                   \
    X(rdma_writes, "RDMA WRITEs of reports, requests and replies")  \
    X(rdma_write_bytes, "bytes in them")                            \
    X(rfp_wakeups, "RDMA WRITEs that woke a node for a request in a slot") \
    X(rfp_fetches, "RDMA READs of replies from a node's slots")     \
    X(rfp_fetches_early, "of these, READs that found no reply yet") \
    X(rfp_second_reads, "of these, READs of the rest of a reply longer than rfp_fetch_bytes") \
    X(rfp_switched, "slow service: demands that the node sends its replies") \
    X(rdma_atomics, "RDMA FETCH_AND_ADDs of 8 bytes, which count reads (access_tracking)")

template <class Cell>
struct ChannelCells {
#define X(name, help) Cell name{};
    CHANNEL_COUNTERS(X)
#undef X
    static std::span<const StatRow<Cell ChannelCells::*>> rows() {
#define X(name, help) {#name, help, &ChannelCells::name},
        static constexpr StatRow<Cell ChannelCells::*> table[] = {CHANNEL_COUNTERS(X)};
#undef X
        return table;
    }
};
using ChannelCounters = ChannelCells<Counter>;

//        name             help
#define CHANNEL_ENDS(X)                                                         \
    X(closed, "this side closed the connection")                                \
    X(peer_closed, "the peer closed the connection")                            \
    X(refused, "no listener at this address")                                   \
    X(unreachable, "the address cannot be reached")                             \
    X(timed_out, "connecting or its reply timed out")                           \
    X(reset, "the connection was reset")                                        \
    X(handshake, "the peer does not use this transport's handshake")            \
    X(tls, "TLS with the peer failed")                                          \
    X(permission, "the peer belongs to another user, or permission was denied") \
    X(owner_dead, "the process that owns the mapped memory is dead")            \
    X(corrupt, "the peer wrote invalid data into the memory of the channel")    \
    X(no_memory, "out of memory for the connection")                            \
    X(system, "the operating system returned an error")

enum class ChannelEnd : uint8_t {
#define X(name, help) name,
    CHANNEL_ENDS(X)
#undef X
        count
};
inline constexpr EnumText channel_end_texts[] = {
#define X(name, help) {#name, help},
    CHANNEL_ENDS(X)
#undef X
};
constexpr std::string_view channel_end_name(ChannelEnd value) { return text_of(channel_end_texts, value).name; }
constexpr std::string_view channel_end_help(ChannelEnd value) { return text_of(channel_end_texts, value).help; }

// Unconsumed bytes that a channel shows at most, unless its creator chooses otherwise: two frames of the usual size. Not
// less than one frame and eight bytes of the next.
constexpr size_t input_bytes_default = 128 * 1024;

constexpr size_t container_bytes = 8 * 1024;  // C7
constexpr size_t grant_bytes_max = 256;       // of Channel::grant()

// How a posted read ended.
enum class ReadStatus : uint8_t {
    done,        // the landing buffer holds bytes from some time since the posting, perhaps torn
    owner_dead,  // the process that owns the memory is dead (S9)
    failed,      // the transport refused, or completed with an error
};

class ChannelEvents {
  public:
    virtual ~ChannelEvents() = default;
    // A proxy's side: the transport is up; the proxy may send its hello.
    virtual void connected() = 0;
    // All input that is not consumed yet; returns how many bytes of it are consumed. A later call only extends the rest. A
    // call may show nothing new.
    virtual size_t received(std::string_view bytes) = 0;
    virtual void read_done(uint64_t token, ReadStatus status) = 0;
    // The other end wrote a report of so many bytes into this end's container: 1 to container_bytes (C7). If a second
    // report arrives before this call, the call reports only the second.
    virtual void written(size_t) {}
    virtual void ended(ChannelEnd why, const std::string& text) = 0;  // text: a sentence with address and cause
};

// A one-sided read of ptr.length bytes into `landing`, 8-byte aligned, with room for ptr.length rounded up to 8.
struct ReadRequest {
    RemotePtr ptr;
    uint64_t* landing = nullptr;
    uint64_t token = 0;
    // After the read, adds one to the counter of the item at ptr, if the channel counts_reads(). The addition counts even
    // when it is late or when the read fails validation.
    bool count = false;
};

// A one-sided read of `bytes` bytes at `offset` from the start of the memory that the other side lends.
struct FetchRequest {
    uint64_t offset = 0;
    uint32_t bytes = 0;
    uint64_t* landing = nullptr;  // as a ReadRequest's
    uint64_t token = 0;
};

class Channel {
  public:
    virtual ~Channel() = default;

    // Poll it for reading, level-triggered. One descriptor for the whole life of the channel.
    virtual int fd() const = 0;
    virtual bool wants_write() const = 0;
    virtual void ready() = 0;  // may be called at any time

    // Frames to send: append, then flush(). At flush() it holds whole frames only; flush() empties it.
    OutBuffer& out() { return out_; }
    // Sends as much as the transport takes now; keeps the rest and sends it as soon as possible.
    virtual void flush() = 0;
    size_t out_pending() const { return out_.size() + unsent_bytes_; }
    // Bytes of frames that the transport has taken so far.
    uint64_t bytes_sent() const { return bytes_sent_; }
    // For the end of a tick, after flush(), when the worker is idle: polls briefly for more input, if polling has paid
    // lately. True: call ready() again before sleeping. Optional.
    virtual bool linger() { return false; }

    // The node's regions, mapped read-only into this process; nullptr: reach them with requests (two-sided), or with
    // post_read().
    virtual const RegionView* mapped_region(uint32_t) const { return nullptr; }
    // Is the owner of the mapped regions alive, with the incarnation of the greeting? Call it after a copy from a mapped
    // region (S9).
    virtual bool owner_alive() const { return true; }
    virtual bool can_read() const { return false; }  // by post_read()
    // Only if can_read(), and for a pointer that is well_formed() and inside() its region. False: too many reads are under
    // way; try again after the next read_done().
    virtual bool post_read(const ReadRequest& request) = 0;
    // Has the node counters of its items that a read can increment (ReadRequest::count)? Fixed once connected.
    virtual bool counts_reads() const { return false; }
    // From here on the channel counts in `counters`, which outlives it; before, in private counters.
    virtual void count_in(ChannelCounters& counters) { counters_ = &counters; }

    // A proxy's side: are replies due? While they are, a channel may READ for them (rpc). A channel without such READs ignores
    // it. Call it whenever that may have changed, before the worker sleeps.
    virtual void expect_replies(bool) {}
    // A proxy's side: the present way of requests and replies; count: the transport has only one.
    virtual RpcMode rpc() const { return RpcMode::count; }
    // A node's side: what out() holds is no reply that the proxy awaits. The next flush() sends it, without a READ of the proxy.
    virtual void send_at_once() {}
    // May input arrive soon without making fd() readable? Then an owner that calls has_input() or linger() again and again gets it
    // at once. An owner that sleeps is woken later.
    virtual bool looks() const { return false; }
    // Has ready() work to do? Only while looks(), or right after; true also for an event of fd() that the owner has not seen.
    virtual bool has_input() { return false; }

    // A proxy's side: the longest value that the node READs from memory lent at the channel's creation (BufferPool); 0: the
    // node READs none. A buffer named in a request belongs to the node until its reply, or until the channel is destroyed
    // (S12).
    virtual uint64_t lends() const { return 0; }
    // A node's side: READs from memory that the proxy lends; read_done() reports the end. False: impossible, or not now.
    virtual bool post_fetch(const FetchRequest&) { return false; }

    // Has this end a container (C7)? Once true, always true.
    virtual bool has_container() const { return false; }
    // Copies the container from its first byte, at most container_bytes. Only if has_container().
    virtual void copy_container(char*, size_t) const {}
    // Writes 1 to container_bytes bytes into the other end's container, from its first byte, and notifies that end; then call
    // flush(). Copies the bytes before it returns. May overwrite the previous report: the caller ensures that the other end
    // has read it. False: no container there, or no room now.
    virtual bool post_report(std::string_view) { return false; }

    // Authentication (S16). An end made with `withholds` (both ends, if --auth-key-file is set) gives the other end no right to
    // its memory and names no key, until grant(). Returns what the other end must know of this end's memory, for take_grant()
    // there: at most grant_bytes_max bytes, opaque. Once, after the other end has proved that it holds a key. A channel
    // without memory of its own returns an empty string.
    virtual Result<std::string> grant() { return std::string(); }
    // Checks and uses what the other end's grant() returned (S10).
    virtual Refusal take_grant(std::string_view) { return {}; }
    // Takes all rights back at once, before the connection ends. Any number of times.
    virtual void revoke() {}

    virtual void close() = 0;               // the next ready() or flush() calls ended(closed)
    virtual std::string describe() const = 0;  // "tcp:127.0.0.1:11300", "shm:/run/farnode/a.sock"

    // A node's side: an address prefix or process that may be one peer: "10.0.0.2", the first half of an IPv6 address,
    // "process 4711" of this host. Connections of one source compete with each other first (node/service/ousting.h).
    const std::string& source() const { return source_; }
    void set_source(std::string source) { source_ = std::move(source); }

  protected:
    ChannelCounters& counters() { return *counters_; }

    OutBuffer out_;
    size_t unsent_bytes_ = 0;  // flushed, but not taken by the transport yet
    uint64_t bytes_sent_ = 0;

  private:
    std::string source_;
    ChannelCounters own_counters_;
    ChannelCounters* counters_ = &own_counters_;
};

// A node's side: accepts connections. Owner: one thread; another thread may get the accepted channels.
class ChannelListener {
  public:
    virtual ~ChannelListener() = default;
    virtual int fd() const = 0;
    // The next connection, or nullptr if no connection waits. `events` gets calls from the first ready() on. Call it until
    // it returns nullptr.
    virtual std::unique_ptr<Channel> accept(ChannelEvents& events) = 0;
    virtual std::string describe() const = 0;
    // Connections closed for lack of a descriptor. Call it from the thread that calls accept().
    virtual uint64_t turned_away() const { return 0; }
};

}  // namespace farcached::fabric
