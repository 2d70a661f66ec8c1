// SPDX-License-Identifier: BSD-3-Clause
// ClusterView: the farcached that clients may choose from, as the auto-discovery of ElastiCache asks for it (config get cluster).
//
// Owner: the program. Threads: any.
// V1  The version rises with each change. AWS's clients ignore a list with a lower version than the one that they have.
// V2  A list that was returned does not change; set() replaces it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "conf/addresses.h"
#include "conf/settings.h"
#include "daemon/remote/host_addresses.h"
#include "fabric/socket.h"

namespace farcached::daemon {

class ClusterView {
  public:
    struct Member {
        std::string host;     // a name or an address, without brackets
        std::string address;  // numeric; empty: not known
        uint16_t port = 0;

        bool operator==(const Member&) const = default;
    };
    struct List {
        uint64_t version = 0;
        std::string text;  // "VERSION\nHOST|ADDRESS|PORT HOST|ADDRESS|PORT\n"
    };

    // Clients get the members in this order; without any they get memcached's answers. After a change the version is version_min,
    // or the one after the present version if that is higher. For V1 over restarts, and between the farcached of one cluster,
    // version_min is a time, or another number that only rises. A member without an address keeps the one that its host has in the
    // present list.
    void set(std::vector<Member> members, uint64_t version_min);
    // The same, of members on which the farcached of a cluster agree, with the version that they have there. A higher version is
    // taken for the same members, too.
    void agree(std::vector<Member> members, uint64_t version);
    // nullptr: no members are known.
    std::shared_ptr<const List> list() const;

  private:
    void replace(std::vector<Member> members, uint64_t version);

    mutable std::mutex lock_;
    std::vector<Member> members_;  // under lock_, as the next two
    uint64_t version_ = 0;
    std::shared_ptr<const List> list_;
};

// The members at these addresses, or by the settings. Looks up names, and waits for them, for a bounded time. own_port: of
// --advertise without a port. unknown: gets a sentence for each host without an address.
std::vector<ClusterView::Member> members_at(const std::vector<conf::ClientAddress>& addresses, std::vector<std::string>& unknown,
                                            const HostAddresses::LookUp& look_up = fabric::look_up);
std::vector<ClusterView::Member> members_of(const conf::ClusterSettings& settings, uint16_t own_port,
                                            std::vector<std::string>& unknown,
                                            const HostAddresses::LookUp& look_up = fabric::look_up);

}  // namespace farcached::daemon
