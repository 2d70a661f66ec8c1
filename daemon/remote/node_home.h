// SPDX-License-Identifier: BSD-3-Clause
// NodeHome: the process whose items are used, of a node that DNS finds (Fences, F9), and where each worker's connection leads.
//
// Owner: Fence. Under the lock of Fences.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>

#include "base/function_ref.h"
#include "base/limits.h"

namespace farcached::daemon {

class NodeHome {
  public:
    using Workers = std::bitset<limits::workers_max>;  // those that take part
    static constexpr uint64_t gone_address = UINT64_MAX;  // one that the list has no more
    static constexpr size_t former_max = 8;               // processes that were home before

    // A connection whose worker attends.
    enum class Met : uint8_t {
        home,       // it is to home
        in_place,   // a process that was never home is at home's address: it is home now
        moved,      // another process is home now; it is to delete its items
        back,       // the same, and it was home before
        elsewhere,  // it is to another process while home has connections
        ended,      // a later connection to its address leads to home
    };
    // The worker has a new connection, to this address (not 0). The process counts when the worker attends.
    void met(uint32_t worker, uint64_t at) noexcept { contacts_[worker] = {at, ++last_contact_, /* process= */ 0}; }
    // Did the worker ever have a connection?
    bool has_met(uint32_t worker) const { return contacts_[worker].at != 0; }
    // By the worker, after met(). process: the incarnation that answers; 0: the connection has ended.
    Met attend(uint32_t worker, uint64_t process, const Workers& workers) noexcept;
    // The node's list of addresses is another one.
    void readdress(FunctionRef<bool(uint64_t)> has, const Workers& workers) noexcept;

    // Are there connections to two processes?
    bool has_other(const Workers& workers) const {
        return last_contact_ != 0 && any(workers, [this](const Contact& contact) { return is_other(contact); });
    }
    struct Address {
        uint64_t at = 0;     // 0: none
        bool is_up = false;  // a worker has a connection to home
    };
    Address address(const Workers& workers) const {
        return {home_.at, any(workers, [this](const Contact& contact) { return is_home(contact); })};
    }

  private:
    // A worker's connection.
    struct Contact {
        uint64_t at = 0;       // the address; 0: there was none so far, or DNS does not find the node
        uint64_t number = 0;   // a later connection has a higher one
        uint64_t process = 0;  // the incarnation, as the worker has shown it; 0: it has not, or the connection has ended
    };

    template <class Is>
    bool any(const Workers& workers, Is is) const {
        for (size_t i = 0; i < contacts_.size(); i++)
            if (workers.test(i) && is(contacts_[i])) return true;
        return false;
    }
    bool is_home(const Contact& contact) const { return contact.process != 0 && contact.process == home_.process; }
    // A later connection to its address is to home.
    bool has_ended(const Contact& contact) const {
        return !is_home(contact) && contact.at == home_.at && contact.number < home_.number;
    }
    bool is_other(const Contact& contact) const { return contact.process != 0 && !is_home(contact) && !has_ended(contact); }
    bool was_home(uint64_t process) const { return std::ranges::find(former_, process) != former_.end(); }
    bool may_be_restarted(const Contact& own, const Workers& workers) const;
    void follow(const Workers& workers);
    void move_to(const Contact& own, const Workers& workers);

    Contact home_;  // the latest connection to the process. Process 0: none so far
    bool alone_ = false;  // all others are at that address, too, and the list has the address
    std::array<Contact, limits::workers_max> contacts_{};
    uint64_t last_contact_ = 0;  // Contact::number
    std::array<uint64_t, former_max> former_{};  // processes that were home
    size_t next_former_ = 0;
};

}  // namespace farcached::daemon
