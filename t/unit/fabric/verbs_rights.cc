// SPDX-License-Identifier: BSD-3-Clause
// The rights that an end gives over RDMA, and when (fabric/channel.h, S16), with a device. A peer that knows each key gets
// nothing before grant(), and nothing after revoke(). Runs in a guest, or wherever FARCACHED_RDMA_ADDRESS is the address of a
// device; elsewhere only the records are tested.
#include <dlfcn.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/layout.h"
#include "t/unit/fabric/verbs_fixture.h"

namespace {

using namespace verbs_test;

// ---- records ------------------------------------------------------------------------------------------

std::string_view bytes_of(const VerbsGrant& grant) { return {reinterpret_cast<const char*>(&grant), sizeof grant}; }

void records() {
    VerbsGrant node{};
    node.head = verbs_head(verbs_node_grant_magic, sizeof node);
    node.names = good_welcome().names;
    node.names.fetch_bytes_max = 1 << 20;
    node.names.container = {1 << 22, verbs_container_bytes, 78};
    node.names.requests = node.names.replies = {1 << 23, 79, 8, 64};
    VerbsGrant proxy{};
    proxy.head = verbs_head(verbs_proxy_grant_magic, sizeof proxy);
    proxy.names.region_address = 4096, proxy.names.region_bytes = 8192, proxy.names.region_key = 5;
    proxy.names.container = node.names.container;
    const auto taken = [](std::string_view bytes, uint64_t magic) { return error_of(parse_verbs_grant(bytes, magic)).empty(); };
    tap::ok(taken(bytes_of(node), verbs_node_grant_magic), "a node's grant is taken");
    tap::ok(taken(bytes_of(proxy), verbs_proxy_grant_magic), "and a proxy's");
    tap::ok(!taken(bytes_of(node), verbs_proxy_grant_magic) && !taken(bytes_of(proxy), verbs_node_grant_magic),
            "neither for the other");
    size_t cut = 0;
    for (size_t size = 0; size < sizeof node; size++) cut += taken(bytes_of(node).substr(0, size), verbs_node_grant_magic) ? 0 : 1;
    tap::is(cut, sizeof node, "none that is cut");
    tap::ok(!taken(std::string(bytes_of(node)) + std::string(grant_bytes_max, '\0'), verbs_node_grant_magic), "nor a long one");
    uint32_t wrong = 0, tried = 0;
    const auto refused = [&](VerbsGrant from, const auto& mend) {
        mend(from);
        tried++;
        if (taken(bytes_of(from), from.head.magic)) wrong++;
    };
    refused(node, [](VerbsGrant& one) { one.head.version++; });
    refused(node, [](VerbsGrant& one) { one.head.bytes--; });
    refused(node, [](VerbsGrant& one) { one.head.bytes = grant_bytes_max; });
    refused(node, [](VerbsGrant& one) { one.names.region_address = UINT64_MAX - 100; });
    refused(node, [](VerbsGrant& one) { one.names.counters_address = 1; });
    refused(node, [](VerbsGrant& one) { one.names.counters_reserved = 1; });
    refused(node, [](VerbsGrant& one) { one.names.container.bytes++; });
    refused(node, [](VerbsGrant& one) { one.names.replies.slots = 4; });
    refused(node, [](VerbsGrant& one) { one.names.requests.address = UINT64_MAX - 7; });
    refused(proxy, [](VerbsGrant& one) { one.names.incarnation = 1; });
    refused(proxy, [](VerbsGrant& one) { one.names.requests = {1 << 23, 79, 8, 64}; });
    refused(proxy, [](VerbsGrant& one) { one.names.fetch_bytes_max = 1; });
    refused(proxy, [](VerbsGrant& one) { one.names.counters_bytes = 8; });
    tap::is(wrong, 0u, "impossible fields are refused");
    tap::note("%u of them", tried);
}

// ---- two ends that withhold -----------------------------------------------------------------------------

constexpr uint64_t lent_words = 1024;

// The memory of both ends, and two ends of one connection.
struct Pair {
    Region region{small_region(4711)};
    uint64_t arena = region.view().region_bytes - region.view().arena_bytes;
    std::vector<uint64_t> counters = std::vector<uint64_t>(region.view().arena_bytes / layout::slot_bytes_min);
    std::vector<uint64_t> lent = std::vector<uint64_t>(lent_words, 7), fetched = std::vector<uint64_t>(lent_words);
    VerbsDevices node_devices, proxy_devices;
    std::unique_ptr<VerbsListener> listener;
    End client, server;

    Pair(Place& place, const VerbsConfig& config, bool node, bool proxy, const RpcWish& wish = {})
        : node_devices(config), proxy_devices(config) {
        listener = value_of(VerbsListener::listen(*numeric_address(place.host, 0), offer(node), node_devices, 64));
        VerbsMemories memories{{place.landing, sizeof place.landing}, memory_of(lent)};
        memories.withholds = proxy;
        client.channel = value_of(connect_verbs(listener->address(), proxy_devices, memories, client, wish));
        if (!accept_into(*listener, server, &client)) tap::bail_out("no connection");
        pump({&client, &server}, [&] { return client.up || client.over; });
        if (!client.up) tap::bail_out(client.text);
    }
    ~Pair() {
        listener.reset();
        client.channel.reset();
        server.channel.reset();
        nothing_dies(node_devices);
        nothing_dies(proxy_devices);
    }
    static VerbsMemory memory_of(std::vector<uint64_t>& words) {
        return {reinterpret_cast<char*>(words.data()), words.size() * sizeof(uint64_t)};
    }
    VerbsOffer offer(bool withholds) {
        VerbsOffer made{&region, counters.data(), counters.size() * layout::counter_bytes, memory_of(fetched)};
        made.withholds = withholds;
        return made;
    }
    bool talks() { return talk(client, server); }
    // `from` grants, and its grant travels in a frame.
    Refusal grants(End& from, End& to) {
        const std::string grant = value_of(from.channel->grant());
        from.send(grant);
        pump({&client, &server}, [&] { return to.bytes == grant; });
        to.bytes.clear();
        return to.channel->take_grant(grant);
    }
    void grant_all(bool node_first) {
        End& first = node_first ? server : client;
        End& second = node_first ? client : server;
        if (const Refusal no = grants(first, second)) tap::bail_out(no->text);
        if (const Refusal no = grants(second, first)) tap::bail_out(no->text);
    }
    // The device's registration of the node's region for READs, if the device has no windows.
    VerbsNames names() {
        const auto grant = value_of(server.channel->grant());
        return value_of(parse_verbs_grant(grant, verbs_node_grant_magic)).names;
    }
    bool nothing_yet() const {
        const Channel &a = *client.channel, &b = *server.channel;
        return !a.can_read() && !a.counts_reads() && !a.has_container() && a.lends() == 0 && !b.has_container();
    }
    bool reads(Place& place) {
        client.reads.clear();
        if (!client.channel->post_read({{4711, arena, 1, 0, 64}, place.words(), 1, true})) return false;
        client.channel->flush();
        return pump({&client}, [&] { return !client.reads.empty(); }) && client.reads[0].second == ReadStatus::done;
    }
    bool fetches() {
        server.reads.clear();
        if (!server.channel->post_fetch({0, 64, fetched.data(), 2})) return false;
        server.channel->flush();
        return pump({&server}, [&] { return !server.reads.empty() || server.over; }) && !server.over && fetched[0] == 7;
    }
    bool reports(End& from, End& to) {
        to.reports.clear();
        if (!from.channel->post_report("report")) return false;
        from.channel->flush();
        return pump({&client, &server}, [&] { return !to.reports.empty(); });
    }
};

std::string way_of(bool windows) { return windows ? "by windows: " : "by keys: "; }

VerbsConfig with_windows(bool windows) {
    VerbsConfig config;
    config.windows = windows;
    return config;
}

void ends_that_withhold(Place& place, bool windows, bool node_first, const RpcWish& wish) {
    const std::string way = way_of(windows) + (node_first ? "the node first: " : "the proxy first: ");
    Pair pair(place, with_windows(windows), true, true, wish);
    End &client = pair.client, &server = pair.server;
    tap::ok(pair.talks() && pair.nothing_yet(), way + "frames travel, and nothing else is there");
    tap::ok(!server.channel->post_fetch({0, 64, pair.fetched.data(), 2}) && !client.channel->post_report("x") &&
                !server.channel->post_report("x"),
            way + "nor can be tried");
    for (End* end : {&client, &server}) (void)end->channel->linger();
    const std::string nonsense(136, 'n');
    tap::ok(client.channel->take_grant(nonsense).has_value() && server.channel->take_grant("").has_value(),
            way + "what is no grant is refused");
    tap::ok(pair.nothing_yet(), way + "and changes nothing");
    pair.grant_all(node_first);
    tap::ok(client.channel->can_read() && client.channel->counts_reads() && client.channel->has_container() &&
                server.channel->has_container(),
            way + "after both grants all of it is there");
    tap::is(client.channel->lends(), lent_words * 8, way + "and the node fetches what the proxy lends");
    tap::ok(!error_of(server.channel->grant()).empty(), way + "a second grant is refused");
    tap::ok(pair.talks() && pair.reads(place) && pair.fetches(), way + "each end READs");
    tap::is(pair.counters[0], 1u, way + "a READ is counted");
    tap::ok(pair.reports(client, server) && pair.reports(server, client), way + "and WRITEs reports");
    client.channel->expect_replies(true);
    bool all = true;
    for (int i = 0; i < 50; i++) all = all && pair.talks();
    tap::ok(all, way + "and frames travel as before, in slots, too");
    ChannelCounters counters;
    client.channel->count_in(counters);
    (void)pair.talks();
    if (wish.mode == RpcMode::write) tap::ok(counters.rdma_writes.get() > 0, way + "by WRITE");
    // Taken back by the node, then by the proxy.
    server.channel->revoke();
    server.channel->revoke();
    client.reads.clear();
    (void)client.channel->post_read({{4711, pair.arena, 1, 0, 64}, place.words(), 3});
    client.channel->flush();
    pump({&client, &server}, [&] { return client.over; });
    tap::ok(client.reads.empty() && client.over, way + "after revoke() a READ with the key of before fails");
    if (!windows) tap::ok(pump({&server}, [&] { return server.over; }), way + "and the node's channel ends");
    client.channel->revoke();
}

// The first of both to act after revoke() is the node.
void lent_and_taken_back(Place& place, bool windows) {
    Pair pair(place, with_windows(windows), true, true);
    pair.grant_all(false);
    tap::ok(pair.talks() && pair.fetches(), way_of(windows) + "the node READs lent memory");
    pair.fetched[0] = 0;
    pair.client.channel->revoke();
    tap::ok(!pair.fetches() && pair.fetched[0] == 0, way_of(windows) + "and not after the proxy's revoke()");
}

// One end withholds, the other does not: frames travel, for the sentence of the one that refuses.
void ends_that_differ(Place& place, bool node) {
    const std::string way = node ? "a node alone withholds: " : "a proxy alone withholds: ";
    Pair pair(place, {}, node, !node);
    tap::ok(pair.talks() && !pair.client.channel->can_read() && pair.client.channel->lends() == 0, way + "frames travel");
    tap::ok(!pair.client.channel->post_report("x") && !pair.server.channel->post_report("x") &&
                !pair.server.channel->post_fetch({0, 64, pair.fetched.data(), 2}),
            way + "nothing is written or fetched");
    tap::ok(pair.talks(), way + "frames still travel");
    pair.server.send("refused");
    pair.server.channel->close();
    pump({&pair.client, &pair.server}, [&] { return pair.client.over && pair.server.over; });
    tap::is(pair.client.bytes, "refused", way + "the last words arrive");
}

// ---- no moment of rights ----------------------------------------------------------------------------------

struct Attempt {
    const char* name;
    ibv_wr_opcode opcode;
    bool counters;
};
constexpr Attempt attempts[] = {
    {"a READ of the arena", IBV_WR_RDMA_READ, false},
    {"a WRITE to the arena", IBV_WR_RDMA_WRITE, false},
    {"a FETCH_AND_ADD to a counter", IBV_WR_ATOMIC_FETCH_AND_ADD, true},
};

constexpr std::string_view attempt_times[] = {"early", "at once", "after frames"};

// Proxies by hand know each key of a connection that got a grant. The device refuses each attempt before their own grant: as
// soon as they can send, when the connection is made, and after frames went both ways.
void no_moment_of_rights(Place& place, bool windows) {
    Pair pair(place, with_windows(windows), true, true);
    const VerbsNames known = pair.names();
    const std::string before(pair.region.view().base, pair.region.view().region_bytes);
    for (const Attempt& one : attempts) {
        for (const std::string_view when : attempt_times) {
            const std::string name = way_of(windows) + one.name + ", " + std::string(when);
            const uint64_t at = one.counters ? known.counters_address : known.region_address + known.counters_from;
            const auto work = access_to(one.opcode, at, one.counters ? known.counters_key : known.region_key);
            const bool early = when == attempt_times[0];
            End server;
            RawProxy proxy(place, *pair.listener, server, [&](RawProxy& self) {
                if (early) is_granted(self.tries(work), false, name);
            });
            static constexpr VerbsNames none{};
            tap::ok(std::memcmp(&proxy.welcome.names, &none, sizeof none) == 0, name + ": the welcome names no memory");
            if (early) continue;
            if (when == attempt_times[2]) {
                proxy.welcomed_by(server);
                proxy.queue->messages().push("hello");
                proxy.queue->ring();
                pump({&server}, [&] { return server.bytes == "hello"; });
            }
            is_granted(proxy.tries(work), false, name);
        }
    }
    tap::ok(before == std::string_view(pair.region.view().base, before.size()), way_of(windows) + "no byte has changed");
}

// The rights of a queue pair end with revoke(), not with the connection; a key of another queue pair's window is of no use.
void keys_of_before(Place& place, bool windows) {
    const std::string way = way_of(windows);
    for (const bool revoked : {false, true}) {
        Pair pair(place, with_windows(windows), true, true);
        End server;
        RawProxy proxy(place, *pair.listener, server);
        const std::string grant = value_of(server.channel->grant());
        const VerbsNames named = value_of(parse_verbs_grant(grant, verbs_node_grant_magic)).names;
        proxy.welcomed_by(server);
        const auto work = access_to(IBV_WR_RDMA_READ, named.region_address, named.region_key);
        tap::is(proxy.tries(work), "", way + "a READ with the granted key is granted");
        if (revoked) {
            server.channel->revoke();
            const std::string said = proxy.tries(work);
            tap::ok(!said.empty(), way + "and not after revoke()");
            tap::note("%s", said.c_str());
            continue;
        }
        const VerbsNames others = pair.names();
        is_granted(proxy.tries(access_to(IBV_WR_RDMA_READ, others.region_address, others.region_key)), !windows,
                   way + "with another's key");
    }
}

// A node by hand that knows the key of what a proxy lends.
void lent_memory(Place& place) {
    RawNode node(place);
    VerbsDevices devices(with_windows(false));
    std::vector<uint64_t> lent(lent_words, 7);
    End client;
    VerbsMemories memories{{}, Pair::memory_of(lent)};
    memories.withholds = true;
    VerbsWelcome welcome = good_welcome();
    client.channel = value_of(connect_verbs(node.address, devices, memories, client));
    pollfd knock{node.events->fd, POLLIN, 0};
    pump({&client}, [&] { return poll(&knock, 1, 0) == 1; });
    (void)node.knocked(true);
    (void)node.queue->reach().use(node.queue->device(), {place.landing, sizeof place.landing}, VerbsAccess::landing);
    node.accept(welcome, sizeof welcome, /* reads= */ 1);
    pump({&client}, [&] { return client.up || client.over; });
    tap::ok(client.up && !client.channel->can_read(), "a node that names memory before it proved anything is not used");
    const std::shared_ptr<VerbsDevice> device = value_of(devices.device_of(*node.queue->id()));
    const auto registered = value_of(device->registered(memories.lent, VerbsAccess::remote_read));
    const auto work = access_to(IBV_WR_RDMA_READ, uint64_t((*registered)->addr), (*registered)->rkey);
    is_granted(tries_by(*node.queue, work), false, "the node's READ of lent memory before the proxy's grant");
    client.channel.reset();
    nothing_dies(devices);
}

// ---- the attributes of a queue pair -----------------------------------------------------------------------

// The daemons do not use these calls of librdmacm.
struct Librdmacm {
    void* library = dlopen("librdmacm.so.1", RTLD_NOW);
    template <class Function>
    Function* find(const char* name) const {
        return reinterpret_cast<Function*>(dlsym(library, name));
    }
    int (*create_qp)(rdma_cm_id*, ibv_pd*, ibv_qp_init_attr*) = find<decltype(rdma_create_qp)>("rdma_create_qp");
    void (*destroy_qp)(rdma_cm_id*) = find<decltype(rdma_destroy_qp)>("rdma_destroy_qp");
};

std::string attributes_of(ibv_qp* pair) {
    ibv_qp_attr is{};
    ibv_qp_init_attr init{};
    const int all = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT |
                    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |
                    IBV_QP_MAX_DEST_RD_ATOMIC;
    if (ibv_query_qp(pair, &is, all, &init) != 0) return "ibv_query_qp";
    std::string text = "state " + std::to_string(is.qp_state) + " key " + std::to_string(is.pkey_index) + " port " +
                       std::to_string(is.port_num) + " mtu " + std::to_string(is.path_mtu) + " timeout " +
                       std::to_string(is.timeout) + " retries " + std::to_string(is.retry_cnt) + " rnr " +
                       std::to_string(is.rnr_retry) + " " + std::to_string(is.min_rnr_timer) + " reads " +
                       std::to_string(is.max_rd_atomic) + " " + std::to_string(is.max_dest_rd_atomic);
    text += " hops " + std::to_string(is.ah_attr.grh.hop_limit) + " class " + std::to_string(is.ah_attr.grh.traffic_class) +
            " gid " + std::to_string(is.ah_attr.grh.sgid_index) + " level " + std::to_string(is.ah_attr.sl);
    return text;
}

// Both ends' attributes. own: of queue pairs that librdmacm makes and moves.
std::pair<std::string, std::string> attributes(Place& place, const Librdmacm* own) {
    RawNode node(place);
    const auto until_event = [&](VerbsQueue& queue) { return CmEvent(wait_event(queue.id()->channel)); };
    const auto queue = queue_towards(place, node.address);
    ibv_qp_init_attr how{};
    const auto made_by_library = [&](VerbsQueue& one) {
        how = {};
        how.send_cq = how.recv_cq = one.pair().get()->send_cq;
        how.qp_type = IBV_QPT_RC;
        how.cap = {16, 16, 1, 1, 0};
        if (own->create_qp(one.id(), one.device().domain(), &how) != 0) tap::bail_out("rdma_create_qp");
    };
    rdma_conn_param param{};
    param.initiator_depth = 16;
    param.responder_resources = 4;
    param.retry_count = 7;
    if (own != nullptr) made_by_library(*queue);
    if ((own != nullptr ? rdma_connect(queue->id(), &param) : queue->pair().connect(param)) != 0) tap::bail_out("rdma_connect");
    (void)node.knocked(true);
    time_out_as_configured(*node.queue);
    rdma_conn_param answer{};
    answer.responder_resources = 16;
    answer.initiator_depth = 4;
    if (own != nullptr) made_by_library(*node.queue);
    if (own == nullptr && node.queue->pair().ready(&answer)) tap::bail_out("ready");
    if ((own != nullptr ? rdma_accept(node.queue->id(), &answer) : node.queue->pair().accept(answer)) != 0)
        tap::bail_out("rdma_accept");
    until_event(*queue);
    if (own == nullptr && (queue->pair().ready(nullptr) || queue->pair().establish() != 0)) tap::bail_out("rdma_establish");
    const auto pair_of = [&](VerbsQueue& one) { return own != nullptr ? one.id()->qp : one.pair().get(); };
    const std::pair<std::string, std::string> both{attributes_of(pair_of(*queue)), attributes_of(pair_of(*node.queue))};
    for (VerbsQueue* one : {queue.get(), node.queue.get()}) {
        (void)rdma_disconnect(one->id());
        if (own != nullptr) own->destroy_qp(one->id());
    }
    return both;
}

void as_librdmacm_does(Place& place) {
    const Librdmacm library;
    const auto theirs = attributes(place, &library), ours = attributes(place, nullptr);
    tap::is(ours.first, theirs.first, "a proxy's queue pair has the attributes of librdmacm's, but for its rights");
    tap::is(ours.second, theirs.second, "and a node's");
    tap::note("%s; %s", ours.first.c_str(), ours.second.c_str());
}

}  // namespace

int main() {
    records();
    return run_with_device([](Place& place) {
        as_librdmacm_does(place);
        for (const bool windows : {true, false}) {
            ends_that_withhold(place, windows, true, {RpcMode::write, 0});
            ends_that_withhold(place, windows, false, {RpcMode::rfp, 0});
            lent_and_taken_back(place, windows);
            no_moment_of_rights(place, windows);
            keys_of_before(place, windows);
        }
        ends_that_differ(place, true);
        ends_that_differ(place, false);
        lent_memory(place);
    });
}
