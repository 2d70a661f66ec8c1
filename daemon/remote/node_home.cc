// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/node_home.h"

namespace farcached::daemon {

// A connection to home at an address that stays shows where the next one is to be made.
void NodeHome::readdress(FunctionRef<bool(uint64_t)> has, const Workers& workers) noexcept {
    for (Contact& contact : contacts_)
        if (contact.at != 0 && !has(contact.at)) contact.at = gone_address;
    if (home_.process == 0 || has(home_.at)) return;
    alone_ = false;
    follow(workers);
}

// The connection to home has ended, or its address has gone. If another one is at another address, the process at the former may be
// another one by now.
void NodeHome::follow(const Workers& workers) {
    const Contact* beside = nullptr;
    const bool is_there = any(workers, [&](const Contact& contact) {
        if (!is_home(contact) || contact.at == gone_address) return false;
        beside = &contact;
        return contact.at == home_.at;
    });
    if (is_there || beside == nullptr) return;
    home_ = *beside;
    alone_ = false;
}

void NodeHome::move_to(const Contact& own, const Workers& workers) {
    if (home_.process != 0 && home_.process != own.process) former_[next_former_++ % former_.size()] = home_.process;
    const bool is_beside =
        any(workers, [&](const Contact& contact) { return contact.process == own.process && contact.at != own.at; });
    home_ = own;
    alone_ = !is_beside && own.at != gone_address;
}

// May the process at home's address be home, restarted? One that was home before is not: others had its keys since.
bool NodeHome::may_be_restarted(const Contact& own, const Workers& workers) const {
    if (own.at != home_.at || !alone_ || was_home(own.process)) return false;
    return !any(workers, [&](const Contact& contact) { return contact.process == own.process && contact.at != own.at; });
}

NodeHome::Met NodeHome::attend(uint32_t worker, uint64_t process, const Workers& workers) noexcept {
    Contact& own = contacts_[worker];
    const bool is_new = own.process == 0;
    own.process = process;
    if (process == 0) {
        follow(workers);
        return Met::home;
    }
    if (home_.process == 0 || is_home(own)) {
        if (is_new) move_to(own, workers);
        return Met::home;
    }
    if (has_ended(own)) {
        own.process = 0;
        return Met::ended;
    }
    if (may_be_restarted(own, workers)) {
        move_to(own, workers);
        return Met::in_place;
    }
    const bool home_is_up = any(workers, [&](const Contact& contact) {
        return is_home(contact) && (contact.at != own.at || contact.number > own.number);
    });
    if (home_is_up) return Met::elsewhere;
    const bool is_back = was_home(own.process);
    move_to(own, workers);
    return is_back ? Met::back : Met::moved;
}

}  // namespace farcached::daemon
