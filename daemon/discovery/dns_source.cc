// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/dns_source.h"

#include <new>
#include <utility>
#include <variant>

#include "base/limits.h"
#include "base/recorder.h"

namespace farcached::daemon {

DnsSource::DnsSource(const conf::ProxySettings& settings, conf::DiscoverPlace place, std::function<void()> changed)
    : place_(std::move(place)),
      traits_{settings.discovery.channel, "--discover " + settings.discovery.source},
      board_(settings.discovery.source, std::move(changed)),
      client_(settings.discovery.dns_server),
      thread_([this] { run(); }) {}

DnsSource::~DnsSource() {
    client_.cancel();
    thread_.join();
}

void DnsSource::run() {
    Recorder recorder("discovery");
    const Recorder::Running running(recorder);
    for (;;) {
        uint32_t pause_s = pause_s_min;
        try {
            pause_s = look_up();
        } catch (const std::bad_alloc&) {
            process::lose_line();
        }
        if (!client_.sleep(pause_s)) return;
    }
}

uint32_t DnsSource::look_up() {
    note_event("looks the nodes up", 0);
    if (place_.kind == conf::DiscoverKind::dns) {
        auto found = client_.addresses({place_.name});
        if (const auto* why = std::get_if<std::string>(&found)) return fail(*why);
        const auto& records = std::get<DnsRecords<std::vector<std::string>>>(found);
        return answer(nodes_of_addresses(records.records.front(), place_.port, traits_), records.ttl_s);
    }
    auto found = client_.services(place_.name);
    if (const auto* why = std::get_if<std::string>(&found)) return fail(*why);
    auto& records = std::get<DnsRecords<ServiceRecord>>(found);
    return look_up_hosts(nodes_of_services(std::move(records.records), traits_), records.ttl_s);
}

uint32_t DnsSource::look_up_hosts(std::vector<FoundNode> nodes, std::optional<uint32_t> ttl_s) {
    if (nodes.size() > limits::nodes_max) return answer(std::move(nodes), ttl_s);  // which refuses them
    const std::vector<std::string> hosts = hosts_of(nodes);
    auto found = client_.addresses(hosts);
    if (const auto* why = std::get_if<std::string>(&found)) return fail(*why);
    auto& records = std::get<DnsRecords<std::vector<std::string>>>(found);
    const std::string without = set_addresses(nodes, hosts, std::move(records.records));
    if (!without.empty()) return fail("the host " + without + " has no address");
    return answer(std::move(nodes), smaller_ttl(ttl_s, records.ttl_s));
}

uint32_t DnsSource::fail(const std::string& why) {
    if (!client_.is_canceled()) board_.failed(why);
    return pause_after_failures(++failures_);
}

uint32_t DnsSource::answer(std::vector<FoundNode> nodes, std::optional<uint32_t> ttl_s) {
    if (nodes.empty()) return fail("the answer lists no node");
    if (nodes.size() > limits::nodes_max)
        return fail("the answer lists " + std::to_string(nodes.size()) + " nodes; allowed: up to " +
                    std::to_string(limits::nodes_max));
    failures_ = 0;
    board_.answered(std::move(nodes));
    return pause_after_answer(ttl_s);
}

}  // namespace farcached::daemon
