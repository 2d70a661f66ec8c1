// SPDX-License-Identifier: BSD-3-Clause
// The part of Nodes that makes connections: how links are configured, and what their channels are.
#include "daemon/remote/nodes.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/broken.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/node_clock.h"
#include "base/random_word.h"
#include "fabric/fault_channel.h"
#include "fabric/shm/shm_channel.h"
#include "fabric/tcp_channel.h"
#include "process/node_time.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t silent_timeouts = 3;  // without an answer; then the node counts as dead
constexpr uint64_t silence_ns_min = 200'000'000;

// Over TCP every access goes through the node: no reports.
bool reports(const OneNode& node, const NodeOptions& options) {
    if (node.channel == conf::NodeChannel::verbs) return true;
    if (!node.maps()) return false;
    return !options.local_read || options.report_mapped;
}

}  // namespace

proxy::LinkConfig Nodes::link_config(const OneNode& node, const NodeOptions& options, uint32_t worker) const {
    proxy::LinkConfig config;
    config.hello.name = "farcached";
    config.hello.host = host_;
    config.hello.pid = uint32_t(getpid());
    config.hello.copies = options.copies ? 2 : 1;
    config.key = options.key;
    config.silence_ns = std::max(silent_timeouts * options.timeout_ns, silence_ns_min);
    config.connect_timeout_ns = std::max(options.timeout_ns, silence_ns_min);
    config.host_zero_ns = process::node_zero_ns();
    config.probe_index = options.probe_index;
    config.count_reads = options.count_reads;
    if (reports(node, options)) config.report_interval_ns = options.report_interval_ns;
    config.report_items = options.report_items;
    config.share_reports = true;
    config.seed = random_word() ^ (uint64_t(worker) << 32 | node.number);
    return config;
}

proxy::NodeLink::MakeChannel Nodes::maker(std::shared_ptr<OneNode> node, const fabric::VerbsMemories& memories,
                                           const fabric::RpcWish& rpc, proxy::Shortcut* shortcut, uint32_t worker) {
    fabric::VerbsMemories offered = memories;
    offered.withholds = authenticates_;
    auto make = plain_maker(node, offered, rpc, worker);
    if (shortcut != nullptr)
        make = [this, node, shortcut, plain = std::move(make)](fabric::ChannelEvents& events) mutable {
            const std::string path = take_shortcut(*node, *shortcut);
            return path.empty() ? plain(events) : connect_shm(path, events);
        };
    if constexpr (!broken::build) return make;
    return [make](fabric::ChannelEvents& events) {
        return fabric::FaultChannel::wrap(fabric::fault_plan_of_process(), events, make);
    };
}

proxy::NodeLink::MakeChannel Nodes::plain_maker(std::shared_ptr<OneNode> node, const fabric::VerbsMemories& memories,
                                                 const fabric::RpcWish& rpc, uint32_t worker) {
    if (node->channel == conf::NodeChannel::shm)
        return [this, node](fabric::ChannelEvents& events) { return connect_shm(node->place, events); };
    // Attempts rotate through the host's addresses, per connection: with a shared counter, as many workers as addresses would
    // each retry the same one. A reconnect looks the host up again, as it may have moved.
    const bool verbs = node->channel == conf::NodeChannel::verbs;
    return [this, node, host = node->host, verbs, memories, rpc, worker,
            turn = size_t(0)](fabric::ChannelEvents& events) mutable -> Result<std::unique_ptr<fabric::Channel>> {
        if (host != nullptr && turn != 0) host->refresh(boottime_ns());
        const Result<fabric::SocketAddress> found = host != nullptr ? host->at(turn++) : next_address(*node, worker, turn);
        if (const auto* const unknown = std::get_if<Problem>(&found)) return *unknown;
        const fabric::SocketAddress& to = std::get<0>(found);
        auto made = verbs ? fabric::connect_verbs(to, devices_, memories, events, rpc) :
                            fabric::connect_tcp(to, events, {.tls = tls_, .host = node->place});
        if (node->is_found && std::holds_alternative<Problem>(made)) lost_channel(*node, worker);
        return made;
    };
}

namespace {

uint64_t address_id(std::string_view address) { return hash_bytes(address.data(), address.size(), /* seed= */ 0) | 1; }

bool has_address(const FoundAddresses& found, uint64_t id) {
    return std::ranges::any_of(found.texts, [id](const std::string& text) { return address_id(text) == id; });
}

}  // namespace

// D5
Result<fabric::SocketAddress> Nodes::next_address(OneNode& node, uint32_t worker, size_t& turn) {
    std::lock_guard hold(lock_);
    const std::vector<std::string>& texts = node.found->texts;
    const Fences::HomeAddress home = fences_.home_address(node.fence);
    const auto at = std::ranges::find(texts, home.at, &address_id);
    const bool stays = (home.is_up || node.was_up.test(worker)) && at != texts.end();
    const size_t place = stays ? size_t(at - texts.begin()) : turn++ % texts.size();
    node.was_up.reset(worker);
    node.tried_at[worker] = address_id(texts[place]);
    return node.found->host->at(place);
}

void Nodes::lost_channel(OneNode& node, uint32_t worker) noexcept {
    std::lock_guard hold(lock_);
    node.tried_at[worker] = 0;
}

// D5. An attempt under way may lead to an address that has gone. An attempt that failed does not count.
void Nodes::replace_addresses(NodeSet& set) noexcept {
    for (NodeSet::Member& member : set.members) {
        OneNode& one = *member.one;
        const auto has = [&](uint64_t id) { return has_address(*member.found, id); };
        const auto has_gone = [&](uint64_t id) { return id != 0 && !has(id); };
        if (member.found != nullptr) {
            if (std::ranges::any_of(one.tried_at, has_gone)) {
                one.tried_at.fill(0);
                fences_.renew(one.fence);
            }
            fences_.readdress(one.fence, has);
        }
        one.found = member.found;
        member.renewal = fences_.renewal(one.fence);
    }
}

// The address may have gone since the attempt began. Then the connection belongs to a former set, and its worker takes the next one
// before it attends.
void Nodes::note_address(OneNode& node, uint32_t worker) noexcept {
    const uint64_t at = node.tried_at[worker];
    const bool is_listed = has_address(*node.found, at);
    fences_.met(node.fence, worker, is_listed ? at : Fences::gone_address);
    if (is_listed) node.was_up.set(worker);
}

void Nodes::two_processes(OneNode& node) noexcept {
    std::lock_guard hold(lock_);
    tell_if_memory([&] {
        node.lines.say(process::Level::warning,
                       "node " + node.name + ": two farnodes answer at " + node.found->text +
                           "; its keys miss and cannot be changed while both do; let the host have one farnode's addresses",
                       {{"node", node.name}});
    });
}

Result<std::unique_ptr<fabric::Channel>> Nodes::connect_shm(const std::string& path, fabric::ChannelEvents& events) {
    fabric::ShmOptions options;
    options.group = shm_group_;
    options.withholds = authenticates_;
    return fabric::connect_shm(path, regions_, events, options);
}

// Empty: the next channel goes to the node's address. In another container the path may lead to nothing, or to another node's
// socket; the identity shows that before the greeting does. The path is etcd's, and this thread a worker's: it
// never waits for a file system.
std::string Nodes::take_shortcut(OneNode& node, proxy::Shortcut& shortcut) {
    SharedSocket socket;
    {
        std::lock_guard hold(lock_);
        socket = node.socket;
    }
    shortcut.taken = false;
    if (socket == nullptr || shortcut.failed) return {};
    if (cached_socket_identity(socket->path) != socket->identity) {
        shortcut_failed(node, "its socket is not at " + socket->path + " here");
        return {};
    }
    shortcut.taken = true;
    shortcut.name = node.name;
    shortcut.incarnation = socket->incarnation;
    return socket->path;
}

void Nodes::shortcut_up(OneNode& node) noexcept {
    node.links_shm.fetch_add(1, std::memory_order_relaxed);
    std::lock_guard hold(lock_);
    node.told_unmapped = true;  // later the node may have restarted: its next record has another socket
}

void Nodes::shortcut_failed(OneNode& node, std::string_view why) noexcept {
    std::lock_guard hold(lock_);
    if (std::exchange(node.told_unmapped, true)) return;
    tell_if_memory([&] {
        node.lines.say(process::Level::notice,
                       "node " + node.name + " is not read in mapped memory: " + std::string(why) + "; it is reached at " +
                           node.address,
                       {{"node", node.name}});
    });
}

}  // namespace farcached::daemon
