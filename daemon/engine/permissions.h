// SPDX-License-Identifier: BSD-3-Clause
// Permissions: the classes of commands that each client identity may use ([permissions]). ClientRights: a client's identity, and
// the classes that it may use now.
//
// Owner: Permissions: shared by the workers, and replaced by a reload. ClientRights: its session.
// Threads: Permissions: any. ClientRights: its worker.
//
// Q1  An engine compares a request's needs (protocol/command_needs.h) with the rights once, after the parse. A request that was
//     accepted is executed, even if a reload takes the permission away while its value arrives.
// Q2  Without a table all rights are set, and the test of a bit is the only cost.
// Q3  The operator's and this process's own sessions keep all rights.
// Q4  One-sided readers see the whole arena: no table binds them (docs/permissions.md).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/command_class.h"
#include "conf/settings.h"
#include "process/log.h"
#include "protocol/command_needs.h"

namespace farcached::daemon {

struct Context;
struct SessionState;

class Permissions {
  public:
    explicit Permissions(const conf::PermissionSettings& settings) : settings_(settings) {}
    // nullptr: no table.
    static std::shared_ptr<const Permissions> of(const conf::PermissionSettings& settings) {
        return settings.classes_of.empty() ? nullptr : std::make_shared<const Permissions>(settings);
    }

    // Those of "*" if it is not named; without that, none.
    CommandClasses classes_of(std::string_view identity) const { return settings_.of(identity); }

  private:
    friend void note_refusal(Context& context, const SessionState& session, const protocol::CommandNeeds& needs) noexcept;

    const conf::PermissionSettings settings_;
    mutable process::LimitedLines lines_;
};

// In 8 bytes, since every session has one: the address of the name, or 0, and the classes in its low bits.
class ClientRights {
  public:
    ClientRights() = default;  // an anonymous client that may use all
    ClientRights(ClientRights&& other) noexcept : word_(std::exchange(other.word_, all_command_classes)) {}
    ClientRights& operator=(ClientRights&& other) noexcept {
        std::swap(word_, other.word_);
        return *this;
    }
    ~ClientRights() { std::default_delete<const Name>()(name()); }

    bool all() const { return (word_ & all_command_classes) == all_command_classes; }
    CommandClasses classes() const { return CommandClasses(word_ & all_command_classes); }
    bool allow(CommandClasses needed) const { return (needed & ~classes()) == 0; }
    std::string_view identity() const { return name() == nullptr ? anonymous_identity : name()->text; }

    void set(CommandClasses classes) { word_ = (word_ & ~uintptr_t{all_command_classes}) | classes; }
    // Throws std::bad_alloc, with no effect.
    void identify(std::string_view as) {
        auto* const made = new Name{std::string(as)};
        const CommandClasses kept = classes();
        std::default_delete<const Name>()(name());
        word_ = reinterpret_cast<uintptr_t>(made) | kept;
    }

  private:
    struct alignas(16) Name {
        std::string text;
    };
    static_assert(alignof(Name) > all_command_classes, "the low bits are free");
    const Name* name() const { return reinterpret_cast<const Name*>(word_ & ~uintptr_t{all_command_classes}); }

    uintptr_t word_ = all_command_classes;
};

// A client's rights by the table in use; after each change of its identity or of the table.
void grant_rights(const Context& context, SessionState& session);
// The client has proved to be that one. Throws std::bad_alloc.
void identify(const Context& context, SessionState& session, std::string_view identity);

// Counts a request that its client may not make, logs it and shows it to watchers. Without memory the lines are lost.
void note_refusal(Context& context, const SessionState& session, const protocol::CommandNeeds& needs) noexcept;

}  // namespace farcached::daemon
