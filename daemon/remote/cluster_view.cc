// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/cluster_view.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "conf/addresses.h"

namespace farcached::daemon {

namespace {

std::string text_of(const std::vector<ClusterView::Member>& members, uint64_t version) {
    std::string text = std::to_string(version) + '\n';
    for (const ClusterView::Member& one : members) {
        if (&one != &members.front()) text += ' ';
        text += one.host + '|' + one.address + '|' + std::to_string(one.port);
    }
    return text + '\n';
}

std::vector<conf::ClientAddress> addresses_of(const conf::ClusterSettings& settings, uint16_t own_port) {
    if (!settings.members.empty()) return conf::cluster_members_of(settings.members);
    std::optional<conf::ClientAddress> own = conf::advertised_of(settings.advertise);
    if (!own.has_value()) return {};
    if (own->port == 0) own->port = own_port;
    return {*own};
}

// Without brackets and port.
std::string numeric(const fabric::SocketAddress& address) {
    std::string text = to_string(address);
    text.resize(text.rfind(':'));
    if (text.starts_with('[')) text = text.substr(1, text.size() - 2);
    return text;
}

// A failed look-up does not lose an address.
void keep_addresses(std::vector<ClusterView::Member>& members, const std::vector<ClusterView::Member>& before) {
    for (ClusterView::Member& one : members) {
        if (!one.address.empty()) continue;
        const auto known = std::ranges::find_if(before, [&](const ClusterView::Member& other) {
            return other.host == one.host && !other.address.empty();
        });
        if (known != before.end()) one.address = known->address;
    }
}

}  // namespace

void ClusterView::set(std::vector<Member> members, uint64_t version_min) {
    std::lock_guard hold(lock_);
    keep_addresses(members, members_);
    if (members != members_) replace(std::move(members), std::max(version_ + 1, version_min));
}

void ClusterView::agree(std::vector<Member> members, uint64_t version) {
    std::lock_guard hold(lock_);
    keep_addresses(members, members_);
    if (members != members_) replace(std::move(members), std::max(version_ + 1, version));
    else if (version > version_) replace(std::move(members), version);
}

// Under lock_.
void ClusterView::replace(std::vector<Member> members, uint64_t version) {
    std::shared_ptr<const List> list;
    if (!members.empty()) list = std::make_shared<const List>(List{version, text_of(members, version)});
    members_ = std::move(members);
    version_ = version;
    list_ = std::move(list);
}

std::shared_ptr<const ClusterView::List> ClusterView::list() const {
    std::lock_guard hold(lock_);
    return list_;
}

std::vector<ClusterView::Member> members_of(const conf::ClusterSettings& settings, uint16_t own_port,
                                            std::vector<std::string>& unknown, const HostAddresses::LookUp& look_up) {
    return members_at(addresses_of(settings, own_port), unknown, look_up);
}

std::vector<ClusterView::Member> members_at(const std::vector<conf::ClientAddress>& addresses, std::vector<std::string>& unknown,
                                            const HostAddresses::LookUp& look_up) {
    std::vector<HostRequest> asked;
    for (const conf::ClientAddress& one : addresses) asked.push_back({one.host, one.port});
    if (asked.empty()) return {};
    const std::vector<HostAddresses::Found> found = look_up_all(std::move(asked), look_up);
    std::vector<ClusterView::Member> members;
    for (size_t i = 0; i < addresses.size(); i++) {
        ClusterView::Member member{addresses[i].host, "", addresses[i].port};
        if (const auto* why = std::get_if<std::string>(&found[i]))
            unknown.push_back("the list of the cluster: the host " + member.host + " is not known (" + *why +
                              "); clients get its last known address or none; use a known name or an address");
        else
            member.address = numeric(std::get<0>(found[i]).front());
        members.push_back(std::move(member));
    }
    return members;
}

}  // namespace farcached::daemon
