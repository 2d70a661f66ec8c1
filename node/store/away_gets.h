// SPDX-License-Identifier: BSD-3-Clause
// AwayGets: the gets of one thread whose values are in a tier. The node has executed each of them; what is missing is the value.
//
//   get() -> waits for room -> DiskReads or PeerReads -> ready() -> over(): the node's reply with the value, or a miss
//
// Owner: a serving thread, the only one that calls it. The node and its tiers outlive it.
//
// G1  Each get() is over once, in ready(). One that finds too many reads under way waits for them, in order. Those that nobody
//     waits for any more are not read.
// G2  It ends with what the node said when it executed the get, and the bytes of that very item. Requests executed in between, of
//     any client, change neither: the get was under way. Without memory for the bytes it ends with no_memory.
// G3  If the tier has lost these bytes, it ends with what the key has then, or with a miss. The item may have moved: it was in
//     memory meanwhile, or is elsewhere in a tier. A miss would be followed by a hit of the same item (S7).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/node_clock.h"
#include "fabric/socket.h"
#include "node/disk/disk_reads.h"
#include "node/peer/peer_store.h"
#include "node/store/node.h"
#include "protocol/op.h"

namespace farcached::node {

class AwayGets {
  public:
    // What a get came to. All references are valid during the call.
    struct Done {
        uint64_t asker;  // as in get()
        const protocol::GetReply& reply;
        std::string_view value;                      // of a hit
        std::string_view key = {};                   // unless the reply is no_memory
        Place place = {};                            // with `leased`
        const fabric::LeasedPtr* leased = nullptr;   // to the value on another node (AwayItems::sublease())
    };
    using Over = std::function<void(const Done& done)>;
    using Ended = std::function<void(uint64_t asker)>;
    using Wanted = std::function<bool(uint64_t asker)>;  // does it wait still?
    // Of a node with a tier. Throws std::bad_alloc and std::system_error.
    AwayGets(Node& node, Over over, Wanted wanted, Ended ended = {});
    AwayGets(const AwayGets&) = delete;
    AwayGets& operator=(const AwayGets&) = delete;

    int fd() const { return event_; }  // readable: call ready()
    // reply: the hit whose value is at that place. Throws std::bad_alloc without effect.
    void get(uint64_t asker, std::string_view key, const protocol::GetReply& reply, const Place& place);
    // Ended follows, from ready(): the other node has killed the value, or it is until_ns (CLOCK_BOOTTIME). Without a place only
    // the latter. Throws std::bad_alloc without effect.
    void await_end(uint64_t asker, const Place& place, uint64_t until_ns);
    void ready(NodeSeconds now);
    uint64_t lost() const { return lost_; }        // gets that became misses, because the tier had lost the value
    uint64_t refused() const { return refused_; }  // the same for lack of memory

  private:
    static constexpr uint64_t first_wait = UINT64_C(1) << 32;  // cookies of gets are below
    struct Get {
        uint64_t asker = 0;
        std::string key;
        protocol::GetReply reply;
        Place place{};
    };

    bool add_room();
    bool start_next();
    void read_next();
    bool start(const Place& place, uint32_t number);
    bool idle() const;
    // value: of the record under that key; nullopt: the tier has it not.
    void finish(uint64_t cookie, std::optional<std::string_view> key, std::string_view value, NodeSeconds now,
                const fabric::LeasedPtr* leased = nullptr);
    void ask_again(const Get& get, NodeSeconds now);
    void refuse(uint64_t asker);

    Node& node_;
    const Over over_;
    const Wanted wanted_;
    const Ended ended_;
    std::deque<Get> waiting_;     // for their reads to begin
    std::vector<Get> reading_;    // by the cookie of the read
    std::vector<uint32_t> free_;  // numbers of reading_ that are not in use
    uint64_t lost_ = 0, refused_ = 0;
    std::optional<DiskReads> disk_;  // none: the node has no disk
    fabric::Descriptor own_event_;   // without a disk; else disk_ has the event
    int event_ = -1;
    std::optional<PeerReads> peer_;  // none: no value goes to another node
};

}  // namespace farcached::node
