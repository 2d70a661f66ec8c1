// SPDX-License-Identifier: BSD-3-Clause
// RoomKeeper: when memory is short, decides which sessions end, frees their memory, and sends their clients the reason.
//
// A session ends for buffers (read_buf_mem_limit), or for a large value whose slot cannot be pinned. If another worker's session
// holds twice as much, that worker ends it in its next tick (daemon/engine/session_memory.h), and this request is refused.
//
// Owner: a worker's Sessions. One thread.
// K1  A session that is being worked on (AtHand), dumps or is doomed does not end.
// K2  No session ends if its bytes would not suffice, or for a session that holds more.
// K3  It frees a session's memory at once, and closes none: the session is doomed.
// K4  A client gets the reason only in front of a reply: never within one, nor behind bytes that its socket has not taken.
#pragma once

#include <array>
#include <functional>

#include "base/check.h"
#include "base/function_ref.h"
#include "daemon/engine/engine.h"
#include "daemon/session/session.h"

namespace farcached::daemon {

class TlsLayer;

class RoomKeeper final : public RoomMaker {
  public:
    // All outlive this. wake: wakes the worker; any thread calls it. context: its memory and its recorder are set.
    RoomKeeper(const Context& context, SessionList& sessions, SocketIo& io, TlsLayer& tls, std::function<void()> wake)
        : context_(context),
          sessions_(sessions),
          io_(io),
          tls_(tls),
          hoard_(context.memory->hoards().join(std::move(wake))) {}

    bool make_room(size_t bytes, Lack lack) override;
    // For the other workers: called where a session begins to wait, and may hold more than before.
    void note_held(const Session& session) {
        const Held held = held_by(session);
        for (const Lack lack : lacks) hoard_.note(lack, held.of(lack));
    }
    // Ends sessions at the request of other workers; reads the clock first.
    void end_as_asked(FunctionRef<void()> read_clock);

    // Counts a session that ends because it found no room, and sends its client the reason. has_replies: for the session, not
    // sent.
    void report_refused(const Session& session, bool has_replies);

    // Marks a session that is being worked on: make_room() does not end it, other causes may. Marks nest: a send for one
    // session may run callbacks of another.
    class AtHand {
      public:
        AtHand(RoomKeeper& room, const Session& session) : room_(room) {
            CHECK(room_.at_hand_count_ < room_.at_hand_.size());
            room_.at_hand_[room_.at_hand_count_++] = &session;
        }
        ~AtHand() { room_.at_hand_count_--; }
        AtHand(const AtHand&) = delete;
        AtHand& operator=(const AtHand&) = delete;

      private:
        RoomKeeper& room_;
    };

  private:
    struct Held {
        size_t buffers = 0;  // of SessionMemory
        size_t pinned = 0;   // of the cache's memory
        size_t of(Lack lack) const { return lack == Lack::buffer ? buffers : buffers + pinned; }
    };
    struct Hoarder {
        Session* session = nullptr;
        size_t held = 0;
        size_t most = 0;  // held by one session
        Held all;         // held by all sessions that may end
    };
    static Held held_by(const Session& session);
    bool may_end(const Session& session) const;
    bool is_silent(const Session& session) const;
    Hoarder hoarder(Lack lack, size_t least) const;
    bool may_lend(uint64_t bytes, uint64_t freed = 0) const;
    uint64_t bytes_lent() const;
    bool has_room(Lack lack, size_t bytes) const;
    bool may_suffice(Lack lack, size_t bytes, const Held& all) const;
    void relieve_pins(size_t bytes, bool asks);
    bool end_hoarders(Lack lack, size_t bytes, size_t from, bool asks);
    void end(Session& session);
    void report(const Session& session, bool writes);

    const Context& context_;
    SessionList& sessions_;
    SocketIo& io_;
    TlsLayer& tls_;
    Hoard& hoard_;
    NodeSeconds pins_sought_ = 0;  // when the largest pin was last searched
    std::array<const Session*, 8> at_hand_{};
    size_t at_hand_count_ = 0;
};

}  // namespace farcached::daemon
