// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/session/session.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "daemon/commands/sasl.h"
#include "daemon/session/tls.h"
#include "protocol/layout.h"

namespace farcached::daemon {

namespace {

constexpr size_t session_bytes_kept = 16 << 10;  // of a session's own input buffer, while in use

}  // namespace

Session::Session(SocketIo& sockets, int socket, SessionProtocol speaks) : protocol(speaks), io(sockets) {
    slot = nullptr;
    state.fd = socket;
}

Session::~Session() { delete state.replies; }

bool Session::tls_handshakes() const { return tls()->in_handshake(); }

bool Session::tls_seals() const { return !tls()->kernel_seals(); }

// `rest` may lie in the session's own buffer (stashed) or in a shared one.
bool Session::stash(const Context& context, std::string_view rest, bool stashed) {
    show_resting();
    if (rest.empty()) {
        if (!stashed) return false;
        unfinished->keep_only(rest);
        release();
        return false;
    }
    Unfinished& kept = keep(context.memory);
    stashed ? kept.keep_only(rest) : kept.append(context, rest);
    return true;
}

void Session::write_dump(const Context& context, OutBuffer& out, size_t bytes) {
    if (unfinished->dump->more(out, context.router.local()->node(), context.now, context.started_unix, bytes)) return;
    unfinished->dump.reset();
    follow_with(Next::more);
    release();
}

// ---- what a session keeps -------------------------------------------------------------------------------

Unfinished::Unfinished(SessionMemory* memory)
    : input_(SessionAllocator<char>(memory)), output_(SessionAllocator<char>(memory)) {}

Unfinished::~Unfinished() = default;

void Unfinished::drop() {
    for (SessionBytes* bytes : {&input_, &output_}) daemon::release(*bytes);
    input_start_ = output_start_ = 0;
    pieces_.clear();
    dump.reset();
    exchange.reset();
}

void append_with_room(const Context& context, SessionBytes& to, std::string_view bytes) {
    const size_t needed = to.size() + bytes.size();
    if (needed > to.capacity()) context.has_room(std::max(needed, 2 * to.capacity()));
    to.append(bytes);
}

void Unfinished::append(const Context& context, std::string_view bytes) { append_with_room(context, input_, bytes); }

void Unfinished::keep_only(std::string_view rest) {
    if (rest.empty()) daemon::release(input_);
    input_start_ = input_.size() - rest.size();
    if (input_start_ <= std::max(rest.size(), session_bytes_kept)) return;
    SessionBytes(rest, input_.get_allocator()).swap(input_);
    input_start_ = 0;
}

void Unfinished::keep_rest(const Context& context, OutBuffer& out, size_t taken) {
    std::vector<OutPiece> pieces = out.take_pieces();
    const size_t start = take_front(pieces, 0, taken);
    for (OutPiece& piece : pieces) piece.at -= start;
    const std::string_view rest = out.own().substr(start);
    context.has_room(rest.size());
    output_.assign(rest);
    output_start_ = 0;
    pieces_ = std::move(pieces);
}

ssize_t Unfinished::send(int socket) {
    const ssize_t sent = send_some(socket, output_, output_start_, pieces_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) output_taken(size_t(sent));
    return sent;
}

size_t Unfinished::seal(size_t most, OutBuffer& sealed) {
    const size_t done = tls->seal(output_, output_start_, pieces_, 0, most, sealed);
    output_taken(done);
    return done;
}

void Unfinished::output_taken(size_t bytes) {
    output_start_ = take_front(pieces_, output_start_, bytes);
    if (!no_output()) return;
    daemon::release(output_);
    output_start_ = 0;
}

size_t Unfinished::pinned_bytes() const {
    size_t bytes = 0;
    for (const OutPiece& piece : pieces_)
        bytes += (piece.bytes.size() + layout::page_bytes - 1) / layout::page_bytes * layout::page_bytes;
    return bytes;
}

}  // namespace farcached::daemon
