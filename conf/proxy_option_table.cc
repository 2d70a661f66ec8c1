// SPDX-License-Identifier: BSD-3-Clause
// The options of a farcached with nodes: each is a flag or an -o option. All but --config are also keys of the file that
// --config names, under the same name.
#include "conf/proxy_option_table.h"

#include <algorithm>

#include "base/limits.h"
#include "base/nearest.h"
#include "conf/kinds.h"
#include "conf/nodes.h"

namespace farcached::conf {

namespace {

using S = Settings;
using P = ProxySettings;

constexpr std::array<std::string_view, 2> pointer_miss_names = {"rpc", "index"};
static_assert(size_t(PointerMiss::index) == 1);

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

constexpr Section nodes = Section::nodes;
constexpr Where suboption = Where::suboption;

constexpr Option table[] = {
    {.name = "node", .argument = "<name>=<address>", .kind = node_list, .section = nodes, .live = true,
     .help = "keep items in this node and not in this process; repeated,\n"
             "in several: shm:<path>, its Unix socket, on this host;\n"
             "tcp:<host>:<port>, an IPv6 address in brackets;\n"
             "verbs:<host>:<port>, over RDMA, read one-sided. Then, after\n"
             "commas: weight=<num>, its share of the keys (default: 1);\n"
             "hash_as=<host>:<port>, be hashed as this, not by name, so\n"
             "that keys stay where clients of libmemcached put them.\n"
             "In the file: [[node]] with name, address, weight, hash_as"},
    {.where = suboption, .name = "distribution", .argument = "<name>", .initial = "ketama",
     .kind = choice<&S::proxy, &P::distribution>(distribution_names), .section = nodes, .live = true,
     .exit_status = exit_usage,
     .help = "which node a key belongs to, as libmemcached says: ketama,\n"
             "ketama_weighted (nutcracker's ketama too), modula, or\n"
             "random, for nodes that all hold the same"},
    {.where = suboption, .name = "hash", .argument = "<name>", .initial = "auto",
     .kind = choice<&S::proxy, &P::hash>(key_hash_names), .section = nodes, .live = true,
     .exit_status = exit_usage,
     .help = "of keys, by libhashkit's names: one_at_a_time, md5, crc,\n"
             "fnv1_64, fnv1a_64, fnv1_32, fnv1a_32, hsieh, murmur,\n"
             "jenkins, murmur3; auto: libmemcached's for the distribution,\n"
             "md5 for ketama_weighted, else one_at_a_time"},
    {.where = suboption, .name = "hash_tag", .argument = "<chars>",
     .kind = checked_text<&S::proxy, &P::hash_tag>(is_hash_tag), .section = nodes, .live = true,
     .exit_status = exit_usage, .allowed = "two characters that are no blanks, such as {}",
     .help = "two characters, say {}: of a key that has both, only what is\n"
             "between them is hashed, so that keys can be kept together"},
    {.where = suboption, .name = "local_read", .negatable = true, .initial = "yes",
     .kind = toggle<&S::proxy, &P::local_read>(), .section = nodes, .live = true,
     .help = "read the memory of a node on this host without asking it\n"
             "(default); no_local_read: as if it were elsewhere"},
    {.where = suboption, .name = "pointer_miss", .old_name = "cold_get", .argument = "<rpc|index>", .initial = "rpc",
     .kind = choice<&S::proxy, &P::pointer_miss>(pointer_miss_names), .section = nodes, .live = true,
     .exit_status = exit_usage,
     .help = "a get of a key whose place is not known asks the node (rpc),\n"
             "or reads the node's index first (index)"},
    {.where = suboption, .name = "access_tracking", .argument = "<none|atomic|report|auto>", .initial = "auto",
     .kind = choice<&S::proxy, &P::access_tracking>(access_tracking_names), .section = nodes, .live = true,
     .exit_status = exit_usage,
     .help = "how a node learns which items are read there without its\n"
             "help. report: from reports of those that are read most, sent\n"
             "also if nothing is asked, which renew their leases; none: from\n"
             "the next requests; auto: report where items are read by remote\n"
             "pointers, none where the node's memory is mapped (local_read);\n"
             "atomic: behind verbs by a FETCH_AND_ADD behind each read, if\n"
             "the node has counters: --access_tracking of farnode(1)"},
    {.where = suboption, .name = "shm_group", .negatable = true, .initial = "no",
     .kind = toggle<&S::proxy, &P::shm_group>(), .section = nodes, .exit_status = exit_usage,
     .help = "trust nodes over shm of other users too if their primary\n"
             "group is this process's (--shm-group of farnode(1));\n"
             "no_shm_group: those of this user and root alone (default)"},
    {.where = suboption, .name = "report_interval_ms", .argument = "<ms>", .initial = "10000",
     .kind = counted_in(Unit::milliseconds, number<&S::proxy, &P::report_interval_ms>(100, 60'000)), .section = nodes, .live = true,
     .exit_status = exit_usage,
     .help = "between such reports, of 8 KiB at most, from each thread to\n"
             "each node; where the table of pointers is shared, from one\n"
             "for all threads of all farcached of this host"},
    {.where = suboption, .name = "report_items", .argument = "<num>", .initial = "4096",
     .kind = number<&S::proxy, &P::report_items>(limits::report_items_min, limits::report_items_max), .section = nodes,
     .exit_status = exit_usage,
     .help = "keys among which those worth reporting are found, of each\n"
             "thread and node; 104 bytes each"},
    {.where = suboption, .name = "pointer_table.path", .argument = "<name>", .initial = "/farcached-3-%U",
     .kind = checked_text<&S::proxy, &P::pointer_table_path>(is_shared_memory_name),
     .section = nodes, .exit_status = exit_usage,
     .allowed = "a POSIX shared-memory name: a slash and up to 254 characters without another",
     .help = "shared memory in which the farcached processes of this host\n"
             "keep where items are, and what they report of together;\n"
             "with no_local_read or verbs. %U in the name is replaced by\n"
             "the user id: a table is for the processes of one user"},
    {.where = suboption, .name = "pointer_table.entries", .argument = "<num>", .initial = "1048576",
     .kind = power_of_two<&S::proxy, &P::pointer_table_entries>(limits::pointer_table_entries_min,
                                                                limits::pointer_table_entries_max),
     .section = nodes, .exit_status = exit_usage,
     .help = "entries of that table, 67 bytes each, a power of two; one\n"
             "that exists keeps its own"},
    {.where = suboption, .name = "node_timeout_ms", .argument = "<ms>", .initial = "1000",
     .kind = counted_in(Unit::milliseconds, number<&S::proxy, &P::node_timeout_ms>(1, 60'000)), .section = nodes, .live = true,
     .exit_status = exit_usage, .help = "give up on a node's reply after this long without any\nto what was asked before"},
    {.where = suboption, .name = "failover", .negatable = true, .initial = "no",
     .kind = toggle<&S::proxy, &P::failover>(), .section = nodes, .live = true,
     .help = "keys of a node that is down go to the next on the ring; an\n"
             "old value may then be read when it is back (default: off)"},
};

}  // namespace

std::span<const Option> proxy_option_table() { return table; }

std::vector<Option> option_table_with_nodes() {
    std::vector<Option> all(option_table().begin(), option_table().end());
    all.insert(all.end(), std::begin(table), std::end(table));
    return all;
}

}  // namespace farcached::conf
