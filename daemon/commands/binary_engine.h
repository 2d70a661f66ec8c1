// SPDX-License-Identifier: BSD-3-Clause
// Shared by the parts of the binary engine: binary_engine.cc (the loop), binary_get.cc, binary_store.cc and binary_auth.cc. And
// by Datagrams, for their errors.
//
// Owner: none. A Call lives for one call of the engine; it borrows the worker's Context and the session's state. Threads: the
// worker's that serves the session or the datagram.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "daemon/commands/asking.h"
#include "daemon/commands/watch_lines.h"
#include "daemon/engine/engine.h"
#include "protocol/binary.h"

namespace farcached::daemon {

// Parsed requests are Records. The key is their only view.
inline void restore(protocol::BinaryRequest& request, const ReplySlot& slot) { request.key = slot.key(); }
inline void restore(protocol::BinaryParse& parse, const ReplySlot& slot) { restore(parse.request, slot); }

}  // namespace farcached::daemon

namespace farcached::daemon::binary {

struct Call : Submitter {
    std::string_view input;  // the rest, from the front request's first byte
    Progress& progress;
    const PendingSet* pending = nullptr;  // `input` is its head, and its value is complete

    void consume(size_t bytes) {
        progress.consumed += bytes;
        input.remove_prefix(bytes);
    }
    // Discards a request's value: the received part now, the rest as it arrives.
    void swallow(uint64_t bytes) {
        uint64_t here = bytes < input.size() ? bytes : input.size();
        consume(size_t(here));
        session.swallow = uint32_t(bytes - here);
    }
};

inline protocol::BinaryReply reply_to(const protocol::BinaryRequest& request) {
    protocol::BinaryReply reply;
    reply.opcode = request.opcode;
    reply.opaque = request.opaque;
    return reply;
}

// Appends a whole reply without extras.
void answer(OutBuffer& out, protocol::BinaryReply reply, std::string_view key,
            std::string_view value);

// Success: no reply if the request is quiet.
void answer_ok(OutBuffer& out, const protocol::BinaryRequest& request, uint64_t cas,
               std::string_view value = {});

// Quiet requests get errors, too.
void answer_error(OutBuffer& out, const protocol::BinaryRequest& request, protocol::BinaryStatus status,
                  std::string_view text);
inline void answer_error(OutBuffer& out, const protocol::BinaryRequest& request,
                         protocol::BinaryStatus status) {
    answer_error(out, request, status, protocol::binary_status_text(status));
}
void answer_version(OutBuffer& out, const protocol::BinaryRequest& request);
inline void answer_unavailable(const ReplyTarget& to, const protocol::BinaryRequest& request) {
    to.context.counters.mutations_unavailable.add(1);
    answer_error(to.out, request, protocol::BinaryStatus::temporary_failure);
}

// ---- binary_get.cc -----------------------------------------------------------------------------
// The get at the front and those directly behind it, at most `most`; consumes and counts them.
void run_gets(Call& call, const protocol::BinaryParse& first, uint32_t most);
void run_touch(Call& call, const protocol::BinaryRequest& request);
void run_config_get(Call& call, const protocol::BinaryRequest& request);

// ---- binary_store.cc ---------------------------------------------------------------------------
// False if the value is incomplete.
bool run_store(Call& call, const protocol::BinaryParse& parse);
void run_delete(Call& call, const protocol::BinaryRequest& request);
void run_arith(Call& call, const protocol::BinaryRequest& request);

// ---- binary_auth.cc ----------------------------------------------------------------------------
// With -S, until the client has authenticated (daemon/engine/engine.h, run_locked()).
Progress run_locked(Context& context, SessionState& session, std::string_view input, OutBuffer& out, uint32_t budget,
                    std::unique_ptr<SaslExchange>& exchange);

}  // namespace farcached::daemon::binary
