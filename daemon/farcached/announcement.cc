// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farcached/announcement.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/random_word.h"
#include "conf/addresses.h"
#include "conf/etcd_url.h"
#include "conf/program.h"

namespace farcached::daemon {

namespace {

// A name as of nodes, which has no colons and brackets. Of a long one the end stays: it has the port.
std::string name_at(const std::string& address) {
    std::string name = address;
    std::erase_if(name, [](char c) { return c == '[' || c == ']'; });
    std::ranges::replace(name, ':', '-');
    return name.size() <= limits::node_name_bytes_max ? name : name.substr(name.size() - limits::node_name_bytes_max);
}

Member own_member(const conf::Settings& settings, uint16_t own_port) {
    conf::ClientAddress own = conf::advertised_of(settings.cluster.advertise).value_or(conf::ClientAddress{});
    if (own.port == 0) own.port = own_port;
    Member member;
    member.tcp = conf::host_and_port(own.host, own.port);
    member.name = name_at(member.tcp);
    member.incarnation = random_word();
    member.version = conf::farcached_version();
    member.ttl_s = settings.proxy.discovery.member_ttl_s;
    return member;
}

}  // namespace

bool Announcement::wanted(const conf::Settings& settings) {
    return !settings.cluster.advertise.empty() && conf::is_etcd_url(settings.proxy.discovery.source);
}

Announcement::Announcement(const conf::Settings& settings, const EtcdAccess& access, uint16_t own_port, ClusterView& view)
    : access_(access),
      origin_(settings.proxy.discovery.source),
      view_(view),
      registration_(access, access.url.proxies(), own_member(settings, own_port), {}, {}),
      uses_etcd_(gives_list(settings)) {}

Announcement::~Announcement() { stop(); }

void Announcement::start() {
    source_ = std::make_unique<EtcdSource>(access_, access_.url.proxies(), MemberWays(), origin_,
                                           [this](const auto& found, int64_t change) { take(found, change); });
    registration_.start();
}

void Announcement::stop() {
    registration_.stop();
    source_.reset();
}

void Announcement::use_list(bool of_etcd) {
    std::lock_guard hold(lock_);
    uses_etcd_ = of_etcd;
    if (uses_etcd_ && !members_.empty()) view_.agree(members_, version_);
}

// Looks up names, for a bounded time, which delays only this list.
void Announcement::take(const std::vector<FoundNode>& found, int64_t last_change) {
    std::vector<conf::ClientAddress> addresses;
    for (const FoundNode& one : found) addresses.push_back({one.node.host, one.node.port});
    std::vector<std::string> unknown;
    std::vector<ClusterView::Member> members = members_at(addresses, unknown);
    for (const std::string& one : unknown) lines_.say(process::Level::warning, one);
    std::lock_guard hold(lock_);
    members_ = std::move(members);
    version_ = uint64_t(std::max<int64_t>(last_change, 0));
    if (uses_etcd_) view_.agree(members_, version_);
}

}  // namespace farcached::daemon
