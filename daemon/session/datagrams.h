// SPDX-License-Identifier: BSD-3-Clause
// Datagrams: a worker's UDP sockets, and the requests that arrived there. The engines of sessions execute a datagram's requests,
// and all their replies leave as one sequence of datagrams (protocol/udp_frame.h).
//
//   taken --> step --all is executed and answered--> sent, and free
//             ^  |budget used up, or replies are missing
//             |  v
//            kept: for its next step, or for replies of nodes or the disk
//                |its reply is too long, or memory is lacking
//                v
//             refused: an error is sent; free once its last answer has come
//
// Owner: a worker, whose thread alone calls it, except the constructor.
//
// G1  A datagram holds its sender's address until its reply is sent. No reply waits for a socket: what the socket does not take is
//     lost, and counted.
// G2  At most in_flight_max datagrams are kept. Above that the sockets are not read, and the kernel drops further datagrams. A
//     datagram keeps its place until all answers to its requests have come, also when it is refused.
// G3  A reply has at most protocol::udp_reply_max() bytes. Above that the rest of the datagram is not executed, and the reply is an
//     error; without room for that one, nothing.
// G4  A request that does not end in its datagram is not executed.
// G5  Kept requests and replies are charged to a part of SessionMemory, kept_bytes_max at most. A datagram that finds no room there
//     is refused. A kept reply pins no memory of the node.
// G6  No session ends for a datagram.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/node_clock.h"
#include "base/out_buffer.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/readiness.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/engine/session_memory.h"
#include "daemon/session/session.h"
#include "daemon/session/socket_io.h"
#include "fabric/socket.h"
#include "protocol/binary.h"

namespace farcached::daemon {

// A bound socket. Owner: the Server; it outlives the workers.
struct UdpSocket {
    int fd = -1;  // non-blocking
    SessionProtocol protocol = SessionProtocol::any;
    std::string address;  // "udp:127.0.0.1:11211"
    std::atomic<NodeSeconds> last_command{0};  // this and the next: written by its worker
    std::atomic<uint32_t> in_flight{0};        // its datagrams that are kept
};

// The two ends of a datagram: a reply leaves from the address that the request was sent to.
struct DatagramEnds {
    fabric::SocketAddress peer;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(in6_pktinfo))> here{};  // an IP_PKTINFO, or none
    size_t here_bytes = 0;
};

// The requests of one datagram.
struct Datagram {
    explicit Datagram(SessionMemory* memory) : input(SessionAllocator<char>(memory)) {}

    UdpSocket* socket = nullptr;
    DatagramEnds ends;
    uint16_t id = 0;
    bool binary = false;
    bool whole = false;            // nothing of it is left to execute
    bool refused = false;          // its reply is sent; only the places of its answers are kept
    bool queued = false;           // for its next step
    bool holds = false;            // Next::hold: continues once earlier requests are answered
    uint32_t held_slots = 0;       // unanswered ones when that came
    protocol::BinaryRequest first;  // for errors: its opcode and opaque
    size_t reply_max = 0;          // G3
    SessionState state;
    std::optional<ReplyQueue> replies;  // in front of nodes, or with a disk
    SessionBytes input;            // kept bytes, from input_start on
    size_t input_start = 0;
    OutBuffer out;                 // replies of earlier steps
    size_t charged = 0;            // for the bytes of `out` (G5)
    Datagram* next_free = nullptr;
};

class Datagrams {
  public:
    static constexpr uint32_t in_flight_max = 256;
    static constexpr size_t together_max = 8;  // received by one call
    static constexpr size_t bytes_max = 64 << 10;  // of a datagram
    static constexpr uint64_t kept_bytes_max = 8 << 20;  // of all kept (G5)

    // All outlive this; the sockets are borrowed. later: replies may arrive later.
    Datagrams(Context& context, const WorkerLive& live, SocketEvents& events, ReplyPool& replies, Waits& waits,
              std::span<UdpSocket* const> sockets, bool later);

    // In the worker's thread, before all others.
    void start() { await(true); }
    // Replies for a kept datagram have arrived.
    void deliver(Datagram& datagram);
    // Some wait for their next step: the worker must not sleep.
    bool waiting() const { return !turn_.empty(); }
    void take_turns();
    // Serves what the sockets have received, and no more.
    void begin_stop();
    bool ended() const { return (stopping_ || sockets_.empty()) && in_flight_ == 0; }
    // Drops those in flight, and everything that lies in the node's memory.
    void end_all();

  private:
    struct Arrival {
        std::array<char, CMSG_SPACE(sizeof(in6_pktinfo))> control;
        sockaddr_storage peer;
    };

    void await(bool on);
    bool receive(UdpSocket& socket);
    void serve(UdpSocket& socket, const msghdr& head, std::string_view bytes);
    Datagram& take(UdpSocket& socket);
    void free(Datagram& datagram);
    void step(Datagram& datagram, std::string_view input);
    void execute(Datagram& datagram, std::string_view input);
    void end_or_keep(Datagram& datagram);
    void charge(Datagram& datagram);
    void discharge(Datagram& datagram);
    void queue(Datagram& datagram);
    void unqueue(Datagram& datagram);
    void refuse(Datagram& datagram, protocol::BinaryStatus status, std::string_view why);
    void tell_unfinished(const Datagram& datagram, std::string_view rest);
    void send(Datagram& datagram);
    void send_all(const Datagram& datagram, std::string_view reply);
    template <class Work>
    bool within_memory(Datagram& datagram, Work work);

    Context& context_;
    const WorkerLive& live_;
    SocketEvents& events_;
    ReplyPool& pool_;
    const bool later_;
    SessionMemory memory_;  // G5
    struct Awaited {
        UdpSocket* socket;
        std::unique_ptr<Readiness> ready;
    };
    std::vector<Awaited> sockets_;
    std::unique_ptr<char[]> in_;  // together_max datagrams
    std::unique_ptr<Arrival[]> arrivals_;
    std::deque<Datagram> datagrams_;
    Datagram* free_ = nullptr;
    uint32_t in_flight_ = 0;
    std::vector<Datagram*> turn_, taking_;
    OutBuffer out_;  // replies to the datagram being served
    bool awaited_ = false;
    bool stopping_ = false;
};

}  // namespace farcached::daemon
