// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farnode/registration.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/broken.h"
#include "base/host.h"
#include "base/node_clock.h"
#include "conf/program.h"
#include "process/node_time.h"

namespace farcached::node {

namespace {

daemon::Member own_member(const conf::NodeSettings& settings, const std::string& name, uint64_t incarnation,
                          const conf::Advertised& addresses) {
    daemon::Member member;
    member.name = name;
    member.tcp = addresses.tcp;
    member.verbs = addresses.verbs;
    std::error_code none;
    if (settings.shm_path.starts_with('/')) member.shm = std::filesystem::canonical(settings.shm_path, none).string();
    member.shm_socket = socket_identity(member.shm);
    if (member.shm_socket.empty()) member.shm.clear();
    member.weight = settings.registration.weight;
    member.zone = settings.registration.zone;
    member.incarnation = incarnation;
    member.version = conf::farcached_version();
    member.ttl_s = settings.registration.ttl_s;
    return member;
}

}  // namespace

NodeRegistration::NodeRegistration(const daemon::EtcdAccess& etcd, const conf::Settings& settings, const NodeFacts& facts,
                                   FarnodeServer& server, Node& node, uint64_t former_incarnation,
                                   const conf::Advertised& addresses)
    : fence_(settings.node.registration.fence),
      server_(server),
      node_(node),
      record_(etcd, etcd.url.nodes(), own_member(settings.node, facts.name, node.view().header->incarnation, addresses),
              items(former_incarnation), show_right()) {
    const auto changed = [this](const std::vector<daemon::FoundNode>&, int64_t last_change) {
        unsent_.changed(uint64_t(last_change));
    };
    const daemon::MemberWays any{conf::NodeChannel::verbs};  // or tcp
    if (is_strict())
        records_ = std::make_unique<daemon::EtcdSource>(etcd, etcd.url.nodes(), any, settings.node.registration.source, changed);
    record_.start();
}

void NodeRegistration::stop(bool keep_record) { record_.stop(keep_record); }

bool NodeRegistration::drop_items() {
    server_.end_steps();  // one may have begun while the node had a right
    const NodeSeconds now = process::node_now();
    const bool any = node_.stats(now).items != 0;
    if (any) server_.drop_items(now);
    if (is_fenced()) node_.shared_keys().note_touched(now);  // before its record is there
    return any;
}

daemon::EtcdRegistration::Items NodeRegistration::items(uint64_t former_incarnation) {
    daemon::EtcdRegistration::Items items{former_incarnation, [this] { return drop_items(); }};
    if (!is_fenced()) return items;
    items.looked = [this](uint64_t revision, uint64_t empty_since) {
        node_.shared_keys().looked(revision, process::node_now());
        (void)server_.list().refuse_before(empty_since);  // the node drops its items before it gets keys again
    };
    items.strict = is_strict();
    if (!is_strict()) return items;
    items.received = [this] { return server_.list().received(); };
    items.elsewhere = [this](uint64_t epoch) { refuse_unsent(epoch); };
    return items;
}

daemon::EtcdRegistration::ShowRight NodeRegistration::show_right() {
    if (!is_fenced()) return {};
    return [this](const daemon::RegistrationRight& right, uint64_t revision) { show(right, revision); };
}

void NodeRegistration::show(const daemon::RegistrationRight& right, uint64_t revision) {
    const bool is_new = server_.list().registered(revision);
    if (is_new) in_use_ = 0;
    if (is_new && revision != ListEpoch::leaving) node_.shared_keys().joined(revision, process::node_now());
    server_.right().set(right.reads_until_ns(), right.serves_until_ns());
    server_.right().set_silent(right.is_silent(boottime_ns()));
}

// E7. A list counts from the next look on: this node may be about to receive it. It also counts after the other node has gone.
void NodeRegistration::refuse_unsent(uint64_t elsewhere) {
    const uint64_t in_use = std::exchange(in_use_, std::max(in_use_, elsewhere));
    ListEpoch& list = server_.list();
    const uint64_t revision = unsent_.newest(list.known_to(), in_use);
    if (broken::s17_take_unsent || !list.refuse_before(revision)) return;
    lines_.say(process::Level::warning,
               "discovery: no farcached has sent this node the list of revision " + std::to_string(revision) +
                   " of etcd, which is in use; it refuses requests by earlier lists. See whether all farcached reach it");
}

}  // namespace farcached::node
