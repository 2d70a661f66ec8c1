// SPDX-License-Identifier: BSD-3-Clause
// The options of a farcached with nodes: each is a flag or an -o option. All but --config are also keys of the file that
// --config names, under the same name.
#include "conf/option.h"

#include <algorithm>

#include "base/limits.h"
#include "base/nearest.h"
#include "conf/addresses.h"
#include "conf/discover.h"
#include "conf/etcd_url.h"
#include "conf/kinds.h"

namespace farcached::conf {

namespace proxy_options {

namespace {

using S = Settings;
using P = ProxySettings;

constexpr auto in_replicas = in<&S::proxy, &P::replicas>;
constexpr auto in_pointer_table = in<&S::proxy, &P::pointer_table>;
constexpr auto in_warm_source = in<&S::proxy, &P::warm_source>;

constexpr Kind prefix_list = list_of(checked_text<in_replicas, &ReplicaSettings::prefixes>(is_prefix_list));

constexpr std::array<std::string_view, 2> pointer_miss_names = {"rpc", "index"};
static_assert(size_t(PointerMiss::index) == 1);

constexpr std::array<std::string_view, 2> discover_channel_names = {"tcp", "verbs"};

bool is_printable(char c) { return c > ' ' && c < 0x7f; }

bool is_hash_tag(std::string_view text) {
    return text.size() == 2 && std::all_of(text.begin(), text.end(), is_printable);
}

// shm_open(3): a slash, then a file name.
bool is_shared_memory_name(std::string_view text) {
    constexpr size_t bytes_max = 255;
    if (text.size() < 2 || text.size() > bytes_max || text[0] != '/') return false;
    if (text == "/." || text == "/..") return false;
    std::string_view name = text.substr(1);
    return name.find('/') == name.npos && std::all_of(name.begin(), name.end(), is_printable);
}

Refusal set_node(const Option& option, Settings& settings, const char* text, std::string&) {
    std::variant<NodeSpec, Complaints> parsed = parse_node(text);
    if (auto* spec = std::get_if<NodeSpec>(&parsed)) {
        settings.proxy.nodes.push_back(std::move(*spec));
        return {};
    }
    std::string lines;
    for (const std::string& complaint : std::get<Complaints>(parsed)) {
        lines += spelled(option) + " " + text + ": " + complaint + "\n";
    }
    return Problem{exit_usage, lines};
}

// In the syntax of --node, one per line.
std::string write_nodes(const Option&, const Settings& settings) {
    std::string lines;
    for (const NodeSpec& node : settings.proxy.nodes) {
        lines += node.name + "=" + address_of(node) + ",weight=" + std::to_string(node.weight);
        lines += (node.hash_as.empty() ? "" : ",hash_as=" + node.hash_as) + "\n";
    }
    return lines;
}

constexpr Kind node_list{.set = set_node, .value = Value::tables, .write = write_nodes,
                         .copy = copy_field<&S::proxy, &P::nodes>};

Refusal set_discover(const Option& option, Settings& settings, const char* text, std::string&) {
    const auto parsed = parse_discover(text);
    if (const auto* why = std::get_if<std::string>(&parsed)) return Problem{exit_usage, spelled(option) + ": " + *why + "\n"};
#ifndef FARCACHED_CARES
    if (!is_etcd_url(text)) return Problem{exit_usage, std::string(discover_without_cares)};
#endif
    settings.proxy.discovery.source = text;
    return {};
}

constexpr Kind discover_source{.set = set_discover, .show = text<in_discovery, &DiscoverySettings::source>().show,
                               .value = Value::text, .copy = copy_field<in_discovery, &DiscoverySettings::source>};

Refusal set_discover_channel(const Option& option, Settings& settings, const char* text, std::string&) {
    const auto* found = std::ranges::find(discover_channel_names, std::string_view(text));
    if (found == discover_channel_names.end()) return refuse(option, text);
    settings.proxy.discovery.channel = *found == "verbs" ? NodeChannel::verbs : NodeChannel::tcp;
    return {};
}

std::string show_discover_channel(const Option&, const Settings& settings) {
    return std::string(discover_channel_names[settings.proxy.discovery.channel == NodeChannel::verbs]);
}

constexpr Kind discover_channel{.set = set_discover_channel, .show = show_discover_channel, .value = Value::text,
                                .choices = discover_channel_names, .copy = copy_field<in_discovery, &DiscoverySettings::channel>};

constexpr Section nodes = Section::nodes;
constexpr Where suboption = Where::suboption;

constexpr Option table[] = {
    {.name = "node", .argument = "<name>=<address>", .kind = node_list, .section = nodes, .live = true,
     .help = "node that stores the items, instead of this process;\n"
             "repeated for several. shm:<path>: its Unix socket, on this\n"
             "host; tcp:<host>:<port>, an IPv6 address in brackets;\n"
             "verbs:<host>:<port>: over RDMA, with one-sided reads. Then,\n"
             "after commas: weight=<num>, its share of the keys (default:\n"
             "1); hash_as=<host>:<port>, hashed as this instead of by\n"
             "name, which keeps keys where clients of libmemcached put\n"
             "them. In the file: [[node]] with name, address, weight,\n"
             "hash_as"},
    {.name = "discover", .argument = "<source>", .kind = discover_source, .section = nodes, .exit_status = exit_usage,
     .allowed = "dns+NAME:PORT, dnssrv+_SERVICE._PROTO.NAME, or etcd://HOST:PORT[,HOST:PORT]/PREFIX",
     .help = "source of the list of nodes, instead of --node.\n"
             "dns+<name>:<port>: all addresses of the name, with this\n"
             "port. dnssrv+_<service>._<proto>.<name>: hosts, ports and\n"
             "weights of its SRV records. The names are complete: no\n"
             "search domain is added. They are looked up again when their\n"
             "TTL ends, after 1 to 60 seconds.\n"
             "etcd://<host>:<port>[,...]/<prefix>, or etcds:// with TLS:\n"
             "nodes that registered there (--discover of farnode).\n"
             "An empty or failed answer keeps the last list"},
    discover_ca_option(nodes), discover_user_option(nodes), discover_password_option(nodes),
    {.name = "auth-key-file", .argument = "<path>", .kind = text<&S::proxy, &P::auth_key_file>(), .section = nodes,
     .exit_status = exit_usage,
     .help = "file of keys: this process and its nodes prove to each other\n"
             "that they hold the same one, before anything else. Each\n"
             "line: proxy or reader, a name, and a key of 32 to 64 bytes\n"
             "in hexadecimal or base64. The first proxy's is used. Nodes\n"
             "need it, too (--auth-key-file of farnode(1)). A reload\n"
             "reads the file again. Nothing is encrypted"},
    {.where = suboption, .name = "discover_channel", .argument = "<tcp|verbs>", .initial = "tcp", .kind = discover_channel,
     .section = nodes, .exit_status = exit_usage,
     .help = "channel to nodes that --discover finds; those in etcd that\n"
             "have no address of verbs are reached over tcp"},
    {.where = suboption, .name = "discover_shm", .negatable = true, .initial = "no",
     .kind = toggle<in_discovery, &DiscoverySettings::shm>(), .section = nodes, .exit_status = exit_usage,
     .help = "with --discover etcd://: direct reads of the memory of nodes\n"
             "on this host that have --shm, if this process may connect to\n"
             "that socket. Other nodes are reached by discover_channel\n"
             "(default: off)"},
    {.where = suboption, .name = "discover_timeout", .argument = "<seconds>", .initial = "30",
     .kind = counted_in(Unit::seconds, number<in_discovery, &DiscoverySettings::timeout_s>(1, 3600)), .section = nodes,
     .exit_status = exit_usage,
     .help = "longest wait at the start for the first list of --discover;\n"
             "then the program ends"},
    {.where = suboption, .name = "discover_dns_server", .argument = "<address>:<port>",
     .kind = checked_text<in_discovery, &DiscoverySettings::dns_server>(is_dns_server), .section = nodes, .exit_status = exit_usage,
     .allowed = "an address, in brackets if it is an IPv6 one, and a port, such as 10.0.0.53:53",
     .help = "DNS server for --discover; default: those of the system\n"
             "(resolv.conf(5))"},
    {.where = suboption, .name = "member_ttl", .argument = "<seconds>", .initial = "10",
     .kind = counted_in(Unit::seconds, number<in_discovery, &DiscoverySettings::member_ttl_s>(2, 300)), .section = nodes,
     .exit_status = exit_usage,
     .help = "time after which etcd removes a silent farcached from the\n"
             "list of the cluster (--advertise with --discover etcd://)"},
    {.where = suboption, .name = "distribution", .argument = "<name>", .initial = "ketama",
     .kind = choice<&S::proxy, &P::distribution>(distribution_names), .section = nodes, .live = true,
     .exit_status = exit_usage,
     .help = "distribution of keys over nodes, as in libmemcached: ketama,\n"
             "ketama_weighted (also nutcracker's ketama), modula, or\n"
             "random, for nodes with identical contents"},
    {.where = suboption, .name = "hash", .argument = "<name>", .initial = "auto",
     .kind = choice<&S::proxy, &P::hash>(key_hash_names), .section = nodes, .live = true,
     .exit_status = exit_usage,
     .help = "hash of keys, by libhashkit's names: one_at_a_time, md5,\n"
             "crc, fnv1_64, fnv1a_64, fnv1_32, fnv1a_32, hsieh, murmur,\n"
             "jenkins, murmur3; auto: libmemcached's for the distribution,\n"
             "md5 for ketama_weighted, else one_at_a_time"},
    {.where = suboption, .name = "hash_tag", .argument = "<chars>",
     .kind = checked_text<&S::proxy, &P::hash_tag>(is_hash_tag), .section = nodes, .live = true,
     .exit_status = exit_usage, .allowed = "two characters that are no blanks, such as {}",
     .help = "two characters that enclose a hash tag, such as {}: of a key\n"
             "with both, only the part between them is hashed, which keeps\n"
             "related keys on one node"},
    {.where = suboption, .name = "local_read", .negatable = true, .initial = "yes",
     .kind = toggle<&S::proxy, &P::local_read>(), .section = nodes, .live = true,
     .help = "direct reads of the memory of nodes on this host (default);\n"
             "no_local_read: treat them as remote nodes"},
    {.where = suboption, .name = "pointer_miss", .old_name = "cold_get", .argument = "<rpc|index>", .initial = "rpc",
     .kind = choice<&S::proxy, &P::pointer_miss>(pointer_miss_names), .section = nodes, .live = true,
     .exit_status = exit_usage,
     .help = "GETs without a remote pointer: an RPC to the node (rpc), or\n"
             "a read of the node's index first (index)"},
    {.where = suboption, .name = "access_tracking", .argument = "<none|atomic|report|auto>", .initial = "auto",
     .kind = choice<&S::proxy, &P::access_tracking>(access_tracking_names), .section = nodes, .live = true,
     .exit_status = exit_usage,
     .help = "how nodes learn which items are read one-sided. none: from\n"
             "the next requests; report: also from regular reports of the\n"
             "most read items, which renew their leases; auto: report\n"
             "where items are read by remote pointers, none where the\n"
             "node's memory is mapped (local_read); atomic: by a\n"
             "FETCH_AND_ADD after each read over verbs, if the node has\n"
             "counters (--access_tracking of farnode(1))"},
    {.where = suboption, .name = "rpc", .argument = "<send|write|rfp|auto>", .initial = "auto",
     .kind = choice<&S::proxy, &P::rpc>(rpc_mode_names), .section = nodes, .live = true, .exit_status = exit_usage,
     .help = "two-sided requests to nodes over verbs. send: SENDs both\n"
             "ways. write: WRITEs both ways. rfp: the request by WRITE, the\n"
             "reply by a READ of the proxy; the node posts nothing. auto:\n"
             "the fastest, measured for each link (\"rpc\" of \"stats\n"
             "nodes\")"},
    {.where = suboption, .name = "rfp_fetch_bytes", .argument = "<num>", .initial = "0",
     .kind = number<&S::proxy, &P::rfp_fetch_bytes>(0, limits::rfp_slot_bytes), .section = nodes, .live = true,
     .exit_status = exit_usage,
     .help = "bytes of the READ of a reply (rpc), 32 of them its head. A\n"
             "longer reply takes a second READ. 0: adaptive"},
    {.where = suboption, .name = "links_per_node", .argument = "<num>", .initial = "0",
     .kind = number<&S::proxy, &P::links_per_node>(0, limits::workers_max), .section = nodes, .live = true,
     .exit_status = exit_usage,
     .help = "connections of this process to each node over tcp or verbs,\n"
             "shared by its threads (-t). Fewer queue pairs fit into the\n"
             "cache of an RDMA device; requests of the other threads take\n"
             "longer. 0: one for each thread. Over shm there is always one\n"
             "for each: it reads the node's memory itself"},
    {.where = suboption, .name = "shm_group", .negatable = true, .initial = "no",
     .kind = toggle<&S::proxy, &P::shm_group>(), .section = nodes, .exit_status = exit_usage,
     .help = "trust nodes over shm of other users whose primary group is\n"
             "this process's (--shm-group of farnode(1)); no_shm_group:\n"
             "only nodes of this user and root (default)"},
    {.where = suboption, .name = "report_interval_ms", .argument = "<ms>", .initial = "10000",
     .kind = counted_in(Unit::milliseconds, number<&S::proxy, &P::report_interval_ms>(100, 60'000)), .section = nodes, .live = true,
     .exit_status = exit_usage,
     .help = "interval between access reports, of 8 KiB at most, from each\n"
             "thread to each node; with a shared pointer table, from one\n"
             "thread for all farcached processes of this host"},
    {.where = suboption, .name = "report_items", .argument = "<num>", .initial = "4096",
     .kind = number<&S::proxy, &P::report_items>(limits::report_items_min, limits::report_items_max), .section = nodes,
     .exit_status = exit_usage,
     .help = "keys tracked per thread and node to choose those worth\n"
             "reporting; 104 bytes each"},
    {.where = suboption, .name = "pointer_table.path", .argument = "<name>", .initial = "/farcached-3-%U",
     .kind = checked_text<in_pointer_table, &PointerTableSettings::path>(is_shared_memory_name),
     .section = nodes, .exit_status = exit_usage,
     .allowed = "a POSIX shared-memory name: a slash and up to 254 characters without another",
     .help = "name of the shared memory in which the farcached processes\n"
             "of this host keep the places of items and what they report\n"
             "together; with no_local_read or verbs. %U is replaced by the\n"
             "user id: each user has a table"},
    {.where = suboption, .name = "pointer_table.entries", .argument = "<num>", .initial = "1048576",
     .kind = power_of_two<in_pointer_table, &PointerTableSettings::entries>(limits::pointer_table_entries_min,
                                                                limits::pointer_table_entries_max),
     .section = nodes, .exit_status = exit_usage,
     .help = "entries of the pointer table, 67 bytes each, a power of two;\n"
             "an existing table keeps its own"},
    {.where = suboption, .name = "node_timeout_ms", .argument = "<ms>", .initial = "1000",
     .kind = counted_in(Unit::milliseconds, number<&S::proxy, &P::node_timeout_ms>(1, 60'000)), .section = nodes, .live = true,
     .exit_status = exit_usage, .help = "request timeout, extended while earlier replies still arrive"},
    {.where = suboption, .name = "failover", .negatable = true, .initial = "no",
     .kind = toggle<&S::proxy, &P::failover>(), .section = nodes, .live = true,
     .help = "keys of a node that is down move to the next on the ring;\n"
             "the node is used again after its old items are deleted\n"
             "(default: off). With --discover etcd:// the list of nodes\n"
             "decides instead"},
    {.where = suboption, .name = "failover_ttl", .argument = "<s>", .initial = "60",
     .kind = counted_in(Unit::seconds, number<&S::proxy, &P::failover_ttl_s>(0, 2'592'000)), .section = nodes, .live = true,
     .exit_status = exit_usage,
     .help = "longest time to live of items that failover stores at another\n"
             "node; 0: no limit"},
    {.where = suboption, .name = "replicas", .argument = "<num>", .initial = "1",
     .kind = number<in_replicas, &ReplicaSettings::count>(1, 2), .section = nodes, .exit_status = exit_usage,
     .help = "nodes that have an item; 2: the next node on the ring has a\n"
             "copy, and serves it when the first one is lost. It needs\n"
             "--discover etcd://, and the same value in all farcached"},
    {.name = "replica-prefixes", .argument = "<list>", .kind = prefix_list, .section = nodes, .live = true,
     .exit_status = exit_usage,
     .allowed = "beginnings of keys, 1 to 250 characters without blanks, several with commas between them, or an array of them",
     .help = "with replicas=2: only items whose keys begin with one of\n"
             "these have a copy; all if not given"},
    {.where = suboption, .name = "replica_reads", .negatable = true, .initial = "no",
     .kind = toggle<in_replicas, &ReplicaSettings::reads>(), .section = nodes, .live = true,
     .help = "with replicas=2: every second get of a very hot key reads\n"
             "the copy (default: off)"},
    {.where = suboption, .name = "warm_up", .argument = "<s>", .initial = "300",
     .kind = counted_in(Unit::seconds, number<&S::proxy, &P::warm_up_s>(0, 86'400)), .section = nodes, .live = true,
     .exit_status = exit_usage,
     .help = "with --discover etcd://: for so long after a node has joined,\n"
             "or its weight has changed, a miss asks the node that had the\n"
             "key before, and the item moves (ten minutes at most). With\n"
             "replicas=2 it asks the key's other node. 0: it does not"},
    {.where = suboption, .name = "zone", .argument = "<name>", .kind = checked_text<&S::proxy, &P::zone>(is_node_name),
     .section = nodes, .live = true, .exit_status = exit_usage, .allowed = "1 to 63 letters, digits, and any of . _ -",
     .help = "with replicas=2: gets read the copy of a node that\n"
             "registered this zone, if the item's first node is in another"},
    {.where = suboption, .name = "warm_from", .argument = "<host>:<port>",
     .kind = checked_text<in_warm_source, &WarmSourceSettings::address>(is_warm_source), .section = nodes,
     .exit_status = exit_usage,
     .allowed = "a host and a port, such as cache-1.example:11211",
     .help = "memcached 1.6 whose items move here as clients ask for them;\n"
             "clients must use it no more. A change or a delete of a key\n"
             "first deletes the key there, and flush_all flushes it"},
    {.where = suboption, .name = "warm_timeout_ms", .argument = "<ms>", .initial = "500",
     .kind = counted_in(Unit::milliseconds, number<in_warm_source, &WarmSourceSettings::timeout_ms>(1, 60'000)), .section = nodes,
     .exit_status = exit_usage,
     .help = "timeout of a command to warm_from; a GET is a miss then, and a\n"
             "change is refused"},
};

}  // namespace

}  // namespace proxy_options

std::span<const Option> proxy_option_table() { return proxy_options::table; }

std::vector<Option> option_table_with_nodes() {
    std::vector<Option> all(option_table().begin(), option_table().end());
    all.insert(all.end(), std::begin(proxy_options::table), std::end(proxy_options::table));
    return all;
}

}  // namespace farcached::conf
