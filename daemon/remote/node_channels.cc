// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/node_channels.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/broken.h"
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

std::string this_host() {
    char name[256] = "";
    if (gethostname(name, sizeof name - 1) != 0) return "unknown";
    return name;
}

}  // namespace

NodeChannels::NodeChannels(const Fences& fences, const NodeLog& log, bool shm_group, const PeerTrust& trust)
    : fences_(fences),
      log_(log),
      tls_(trust.tls),
      authenticates_(trust.key != nullptr),
      shm_group_(shm_group),
      host_(this_host()),
      devices_(fabric::VerbsConfig(), [](const std::string& text) { process::say(process::Level::warning, text); }) {}

proxy::LinkConfig NodeChannels::link_config(const OneNode& node, const NodeOptions& options, uint32_t worker) const {
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

proxy::NodeLink::MakeChannel NodeChannels::maker(std::shared_ptr<OneNode> node, const fabric::VerbsMemories& memories,
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

proxy::NodeLink::MakeChannel NodeChannels::plain_maker(std::shared_ptr<OneNode> node, const fabric::VerbsMemories& memories,
                                                 const fabric::RpcWish& rpc, uint32_t worker) {
    if (node->channel == conf::NodeChannel::shm)
        return [this, node](fabric::ChannelEvents& events) { return connect_shm(node->place, events); };
    // Attempts rotate through the host's addresses, per connection: with a shared counter, as many workers as addresses would
    // each retry the same one. A reconnect looks the host up again, as it may have moved.
    const bool verbs = node->channel == conf::NodeChannel::verbs;
    return [this, node, host = node->host, verbs, memories, rpc, worker,
            turn = size_t(0)](fabric::ChannelEvents& events) mutable -> Result<std::unique_ptr<fabric::Channel>> {
        if (host != nullptr && turn != 0) host->refresh(boottime_ns());
        const Result<fabric::SocketAddress> found =
            host != nullptr ? host->at(turn++) : node->addresses.next(fences_, node->fence, worker, turn, boottime_ns());
        if (const auto* const unknown = std::get_if<Problem>(&found)) return *unknown;
        const fabric::SocketAddress& to = std::get<0>(found);
        auto made = verbs ? fabric::connect_verbs(to, devices_, memories, events, rpc) :
                            fabric::connect_tcp(to, events, {.tls = tls_, .host = node->place});
        if (node->is_found && std::holds_alternative<Problem>(made)) node->addresses.ended(worker, boottime_ns());
        return made;
    };
}

Result<std::unique_ptr<fabric::Channel>> NodeChannels::connect_shm(const std::string& path, fabric::ChannelEvents& events) {
    fabric::ShmOptions options;
    options.group = shm_group_;
    options.withholds = authenticates_;
    return fabric::connect_shm(path, regions_, events, options);
}

// Empty: the next channel goes to the node's address. In another container the path may lead to nothing, or to another node's
// socket; the identity shows that before the greeting does. The path is etcd's, and this thread a worker's: it
// never waits for a file system.
std::string NodeChannels::take_shortcut(OneNode& node, proxy::Shortcut& shortcut) const {
    const SharedSocket socket = node.socket.get();
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

void NodeChannels::shortcut_failed(OneNode& node, std::string_view why) const noexcept {
    if (node.socket.report_failure()) log_.unmapped(node, why);
}

}  // namespace farcached::daemon
