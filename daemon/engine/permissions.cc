// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/permissions.h"

#include <bit>
#include <new>

#include "daemon/engine/engine.h"
#include "fabric/socket.h"

namespace farcached::daemon {

namespace {

// As in the lines of connections: "127.0.0.1:40950"; of a datagram "udp:127.0.0.1:40950".
std::string client_of(const Context& context, const SessionState& session) {
    if (!session.datagram) return fabric::peer_of(session.fd);
    return context.sender != nullptr ? "udp:" + fabric::to_string(*context.sender) : "udp";
}

Counter& counter_of(WorkerCounters& counters, CommandClass which) {
    switch (which) {
        case CommandClass::read: return counters.refused_read;
        case CommandClass::write: return counters.refused_write;
        case CommandClass::admin: return counters.refused_admin;
        case CommandClass::stats:
        case CommandClass::count: break;
    }
    return counters.refused_stats;
}

}  // namespace

void grant_rights(const Context& context, SessionState& session) {
    if (session.admin || session.own) return;
    const Permissions* const table = context.permissions;
    session.rights.set(table == nullptr ? all_command_classes : table->classes_of(session.rights.identity()));
}

void identify(const Context& context, SessionState& session, std::string_view identity) {
    session.rights.identify(identity);
    grant_rights(context, session);
}

void note_refusal(Context& context, const SessionState& session, const protocol::CommandNeeds& needs) noexcept {
    const CommandClasses missing = needs.classes & CommandClasses(~session.rights.classes());
    const auto which = CommandClass(std::countr_zero(missing));
    counter_of(context.counters, which).add(1);
    const bool watched = context.watch.wants(watch_refusals);
    if (!watched && !process::is_said(process::Level::notice)) return;
    try {
        const std::string peer = client_of(context, session);
        const std::string_view identity = session.rights.identity(), name = command_class_name(which);
        if (watched) context.watch.refusal(refusal_line(identity, name, needs.command, peer, session.fd));
        if (context.permissions != nullptr)
            context.permissions->lines_.say(
                process::Level::notice, "permission denied",
                {{"identity", identity}, {"class", name}, {"command", needs.command}, {"client", peer}});
    } catch (const std::bad_alloc&) {
        process::lose_line();
    }
}

}  // namespace farcached::daemon
