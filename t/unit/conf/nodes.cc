// SPDX-License-Identifier: BSD-3-Clause
// Node options: --node and the -o options, the TOML file with all its errors at once, both together, and the sample
// file.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/check.h"
#include "conf/addresses.h"
#include "conf/command_line.h"
#include "conf/config_file.h"
#include "conf/help.h"
#include "conf/option.h"
#include "proxy/pointer_table_layout.h"
#include "t/lib/tap.h"

using namespace farcached;
using namespace farcached::conf;

namespace {

const std::vector<Option> table = option_table_with_nodes();

CommandLine parse(const std::vector<std::string>& words) {
    std::vector<const char*> argv = {"farcached"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    return parse_command_line(argv, table);
}

// A node in one line, as "name shm:/x 3 hash_as".
std::string shown(const NodeSpec& node) {
    return node.name + " " + address_of(node) + " " + std::to_string(node.weight) +
           (node.hash_as.empty() ? "" : " " + node.hash_as);
}

std::string shown(const std::vector<NodeSpec>& nodes) {
    std::string text;
    for (const NodeSpec& node : nodes) text += (text.empty() ? "" : ", ") + shown(node);
    return text;
}

// A node of the command line, or what is wrong with it, a line each.
std::string parsed(std::string_view text) {
    std::variant<NodeSpec, Complaints> result = parse_node(text);
    if (auto* spec = std::get_if<NodeSpec>(&result)) return shown(*spec);
    std::string lines;
    for (const std::string& complaint : std::get<Complaints>(result)) lines += complaint + "\n";
    return lines;
}

struct Row {
    std::string given;
    std::string want;
};

void test_node_words() {
    const std::string path(107, 'p'), long_name(64, 'n');
    const std::string name_allowed = "; allowed: 1 to 63 letters, digits, and any of . _ -\n";
    const std::string address_allowed =
        "; allowed: shm:PATH, tcp:HOST:PORT or verbs:HOST:PORT, with brackets around an IPv6 address\n";
    const std::string needs_brackets =
        "address: an IPv6 address needs brackets, as in tcp:[::1]:11300; found ";
    const Row rows[] = {
        {"a=shm:/run/a.sock", "a shm:/run/a.sock 1"},
        {"a.b_c-9=shm:a.sock", "a.b_c-9 shm:a.sock 1"},
        {"a=shm:/x=y:z", "a shm:/x=y:z 1"},
        {"a=shm:" + path, "a shm:" + path + " 1"},
        {"a=tcp:10.0.0.1:11300", "a tcp:10.0.0.1:11300 1"},
        {"a=tcp:cache.example.org:1", "a tcp:cache.example.org:1 1"},
        {"a=tcp:[::1]:65535", "a tcp:[::1]:65535 1"},
        {"a=tcp:[fe80::1%eth0]:5", "a tcp:[fe80::1%eth0]:5 1"},
        {"a=tcp:h:5,weight=3", "a tcp:h:5 3"},
        {"a=tcp:h:5,weight=65535,hash_as=10.0.0.1:11211", "a tcp:h:5 65535 10.0.0.1:11211"},
        {"a=shm:/x,hash_as=[::1]:7,weight=1", "a shm:/x 1 [::1]:7"},

        {"", "found ''; allowed: NAME=ADDRESS[,weight=N][,hash_as=HOST:PORT]\n"},
        {"a", "found 'a'; allowed: NAME=ADDRESS[,weight=N][,hash_as=HOST:PORT]\n"},
        {"=shm:/x", "name: found ''" + name_allowed},
        {"a b=shm:/x", "name: found 'a b'" + name_allowed},
        {long_name + "=shm:/x", "name: found '" + long_name + "'" + name_allowed},
        {"a=", "address: found ''" + address_allowed},
        {"a=/run/a.sock", "address: found '/run/a.sock'" + address_allowed},
        {"a=shm:", "address: shm: needs the path of the node's Unix socket, as in shm:/run/farnode/a.sock\n"},
        {"a=shm:" + path + "p", "address: the path of a Unix socket has 107 bytes at most, '" + path +
                                    "p' has 108\n"},
        {"a=shm:/x\ny", "address: the path has a character that is not printable\n"},
        {"a=tpc:h:5", "address: unknown channel 'tpc', did you mean 'tcp'? Allowed: shm, tcp, verbs\n"},
        {"a=udp:h:5", "address: unknown channel 'udp'. Allowed: shm, tcp, verbs\n"},
        {"a=verbs:h:5", "a verbs:h:5 1"},
        {"a=verbs:[fd00::1]:5,weight=2", "a verbs:[fd00::1]:5 2"},
        {"a=verbs:h", "address: verbs: needs a host and a port, as in verbs:10.0.0.1:11300; found 'h'\n"},
        {"a=tcp:h", "address: tcp: needs a host and a port, as in tcp:10.0.0.1:11300; found 'h'\n"},
        {"a=tcp::5", "address: '' is not a host\n"},
        {"a=tcp:a b:5", "address: 'a b' is not a host\n"},
        {"a=tcp:h:0", "address: '0' is not a port; allowed: 1 to 65535\n"},
        {"a=tcp:h:65536", "address: '65536' is not a port; allowed: 1 to 65535\n"},
        {"a=tcp:h:5x", "address: '5x' is not a port; allowed: 1 to 65535\n"},
        {"a=tcp:h:", "address: '' is not a port; allowed: 1 to 65535\n"},
        {"a=tcp:::1:5", needs_brackets + "'::1:5'\n"},
        {"a=tcp:::1", needs_brackets + "'::1'\n"},
        {"a=tcp:[::1:5", "address: the bracket of '[::1:5' is not closed\n"},
        {"a=tcp:[h]:5", "address: 'h' in brackets is not an IPv6 address\n"},
        {"a=tcp:[::1]", "address: tcp: needs a port after '[::1]'\n"},
        {"a=tcp:[::1]5", "address: '5' follows the bracket instead of :PORT\n"},
        {"a=shm:/x,wieght=3", "unknown key 'wieght', did you mean 'weight'? Allowed: weight, hash_as\n"},
        {"a=shm:/x,name=b", "unknown key 'name'. Allowed: weight, hash_as\n"},
        {"a=shm:/x,", "unknown key ''. Allowed: weight, hash_as\n"},
        {"a=shm:/x,weight", "weight: found ''; allowed: a whole number from 1 to 65535\n"},
        {"a=shm:/x,weight=0", "weight: found '0'; allowed: a whole number from 1 to 65535\n"},
        {"a=shm:/x,weight=65536", "weight: found '65536'; allowed: a whole number from 1 to 65535\n"},
        {"a=shm:/x,weight=-1", "weight: found '-1'; allowed: a whole number from 1 to 65535\n"},
        {"a=shm:/x,weight=1,weight=2", "weight is given twice\n"},
        {"a=shm:/x,hash_as=", "hash_as: found ''; allowed: HOST:PORT, up to 260 characters without blanks\n"},
        {"a,=tcp:h:0,wait=1,weight=x",
         "name: found 'a,'" + name_allowed + "address: '0' is not a port; allowed: 1 to 65535\n"
         "unknown key 'wait'. Allowed: weight, hash_as\n"
         "weight: found 'x'; allowed: a whole number from 1 to 65535\n"},
    };
    for (const Row& row : rows) tap::is(parsed(row.given), row.want, "--node " + row.given.substr(0, 40));
}

void test_command_line() {
    CommandLine line = parse({"--node", "a=shm:/x", "-p", "5000", "--node=b=tcp:h:5,weight=2", "-o",
                              "distribution=ketama_weighted,hash=murmur3,hash_tag={},no_local_read", "-o",
                              "pointer_miss=index,access_tracking=report,report_interval_ms=100,report_items=64", "-o",
                              "pointer_table.path=/t,pointer_table.entries=64", "-o",
                              "node_timeout_ms=5,failover,failover_ttl=5m,links_per_node=2"});
    tap::ok(!line.exit_status, "nodes and their options on the command line");
    tap::is(line.err, "", "without a word");
    const ProxySettings& proxy = line.settings.proxy;
    tap::is(shown(proxy.nodes), "a shm:/x 1, b tcp:h:5 2", "the nodes in order");
    tap::is(line.settings.listen.port, 5000, "farcached's own options beside them");
    tap::is(proxy.distribution, Distribution::ketama_weighted, "distribution");
    tap::is(proxy.hash, KeyHash::murmur3, "hash");
    tap::is(proxy.hash_tag, "{}", "hash_tag");
    tap::is(proxy.local_read, false, "local_read");
    tap::is(proxy.pointer_miss, PointerMiss::index, "pointer_miss");
    tap::is(parse({"-o", "cold_get=index"}).settings.proxy.pointer_miss, PointerMiss::index, "cold_get, its old name");
    tap::is(proxy.access_tracking, farcached::AccessTracking::report, "access_tracking");
    tap::is(proxy.report_interval_ms, 100u, "report_interval_ms");
    tap::is(proxy.report_items, 64u, "report_items");
    tap::is(proxy.pointer_table.path, "/t", "pointer_table.path");
    tap::is(proxy.pointer_table.entries, 64u, "pointer_table.entries");
    tap::is(proxy.node_timeout_ms, 5u, "node_timeout_ms");
    tap::is(proxy.failover, true, "failover");
    tap::is(proxy.failover_ttl_s, 300u, "failover_ttl");
    tap::is(proxy.links_per_node, 2u, "links_per_node");

    const CommandLine copies = parse({"-o", "replicas=2,warm_up=5m,zone=east-1,replica_reads", "-o", "distribution=ketama_weighted",
                                     "--discover", "etcd://h:7/far", "--replica-prefixes", "user:,s:"});
    tap::is(copies.err, "", "copies with etcd");
    tap::is(copies.settings.proxy.replicas.count, 2u, "replicas");
    tap::is(copies.settings.proxy.warm_up_s, 300u, "warm_up");
    tap::is(copies.settings.proxy.zone, "east-1", "zone");
    tap::ok(copies.settings.proxy.replicas.reads && copies.settings.proxy.replicas.prefixes == "user:,s:",
            "replica_reads, prefixes");
    tap::ok(key_prefixes_of("user:,s:") == std::vector<std::string>{"user:", "s:"}, "which are two");
    for (const char* bad : {"a,", ",a", "a b", "a,,b"}) tap::ok(!is_prefix_list(bad), std::string("not prefixes: ") + bad);
    tap::ok(is_prefix_list(std::string(250, 'k')) && !is_prefix_list(std::string(251, 'k')), "as long as keys");

    const ProxySettings without = parse({}).settings.proxy;
    tap::ok(without.replicas.count == 1 && without.warm_up_s == 300, "no copies");
    tap::is(without.nodes.size(), 0u, "by default no nodes");
    tap::is(without.distribution, Distribution::ketama, "ketama");
    tap::is(without.hash, KeyHash::automatic, "libmemcached's hash");
    tap::is(without.hash_tag, "", "whole keys");
    tap::ok(without.local_read && !without.failover && without.pointer_miss == PointerMiss::rpc, "toggles");
    tap::is(without.access_tracking, farcached::AccessTracking::automatic, "reports where pointers are used");
    tap::is(without.report_interval_ms, 10000u, "ten seconds between reports");
    tap::is(without.report_items, 4096u, "of the best of so many keys");
    tap::is(without.pointer_table.path, "/farcached-" + std::to_string(proxy::table_version) + "-%U",
            "the table's name has its version and the user");
    tap::is(without.pointer_table.entries, 1048576u, "its entries");
    tap::is(without.node_timeout_ms, 1000u, "timeout");
}

struct Refused {
    std::vector<std::string> words;
    std::string_view err;
};

void test_refused_words() {
    const Refused rows[] = {
        {{"--node", "a=tcp:h:0,weight=0"},
         "--node a=tcp:h:0,weight=0: address: '0' is not a port; allowed: 1 to 65535\n"
         "--node a=tcp:h:0,weight=0: weight: found '0'; allowed: a whole number from 1 to 65535\n"},
        {{"--node", "a=shm:/x", "--node", "a=shm:/y"},
         "--node a=shm:/y: the name 'a' is taken by --node a=shm:/x\n"},
        {{"--node", "a=shm:/x", "--node", "b=shm:/x,weight=2"},
         "--node b=shm:/x,weight=2: the address shm:/x is that of --node a=shm:/x already\n"},
        {{"--node", "a=shm:/x,weight=2", "-o", "distribution=modula"},
         "--node a=shm:/x,weight=2: weight 2 has no effect in distribution 'modula'; "
         "allowed: 1, or a distribution with weights: ketama, ketama_weighted\n"},
        {{"-o", "distribution=ketma"},
         "could not parse argument to distribution: unknown word 'ketma', did you mean 'ketama'? "
         "Allowed: ketama, ketama_weighted, modula, random\n"},
        {{"-o", "hash_tag={"},
         "could not parse argument to hash_tag: found '{'; "
         "allowed: two characters that are no blanks, such as {}\n"},
        {{"-o", "pointer_table.path=x"},
         "could not parse argument to pointer_table.path: found 'x'; "
         "allowed: a POSIX shared-memory name: a slash and up to 254 characters without another\n"},
        {{"-o", "pointer_table.entries=1000"},
         "could not parse argument to pointer_table.entries: "
         "'1000' is not a power of two from 64 to 1073741824\n"},
        {{"-o", "node_timeout_ms=0"},
         "could not parse argument to node_timeout_ms: '0' is out of range: 1 to 60000 milliseconds\n"},
        {{"-o", "zone=a/b"}, "could not parse argument to zone: found 'a/b'; allowed: 1 to 63 letters, digits, and any of . _ -\n"},
        {{"-o", "replicas=3"}, "could not parse argument to replicas: '3' is out of range: 1 to 2\n"},
        {{"-o", "replicas=2"},
         "replicas=2: only etcd tells all processes in one order which nodes there are; give --discover "
         "etcd://HOST:PORT/PREFIX, or remove the option\n"},
        {{"-o", "replicas=2", "--discover", "dns+h:7"},
         "replicas=2: only etcd tells all processes in one order which nodes there are; give --discover "
         "etcd://HOST:PORT/PREFIX, or remove the option\n"},
        {{"-o", "discover_shm", "--discover", "dns+h:7"},
         "discover_shm: DNS does not name the sockets of nodes; give --discover etcd://HOST:PORT/PREFIX, or remove the option\n"},
        {{"-o", "discover_shm", "--discover", "etcd://h:7/far", "--peer-cert", "c", "--peer-key", "k", "--peer-ca", "i"},
         "discover_shm and --peer-cert: a node proves no certificate over shm, so any process of this user could pose as one; give "
         "--auth-key-file, or remove discover_shm\n"},
        {{"-o", "replicas=2,failover", "--discover", "etcd://h:7/far"},
         "replicas=2: the copy stands in for a lost node, and failover would send its keys to others; remove one of the two\n"},
        {{"-o", "replicas=2,distribution=modula", "--discover", "etcd://h:7/far"},
         "replicas=2: the copy is on the next node of a ring; give distribution=ketama or ketama_weighted\n"},
        {{"-o", "replicas=2,warm_from=127.0.0.1:11211", "--discover", "etcds://h:7/far"},
         "replicas=2: items of warm_from are stored on one node; remove the option until the cache is warm\n"},
        {{"-o", "warm_up=2d"}, "could not parse argument to warm_up: '2d' is out of range: 0 to 86400 seconds\n"},
        {{"--config", "/nonexistent/farcached.toml"},
         "/nonexistent/farcached.toml: cannot be opened: No such file or directory\n"},
    };
    for (const Refused& row : rows) {
        CommandLine line = parse(row.words);
        tap::is(line.err, row.err, "refused: " + row.words[1]);
        tap::is(line.exit_status.value_or(-1), 64, "as a mistake in use");
    }
}

// Until the daemon serves nodes, its own command line has none of these options.
std::string file_errors(std::string_view text) {
    Settings settings = defaults(table);
    std::string lines;
    for (const std::string& line : read_config_text(text, "f", table, settings)) lines += line + "\n";
    return lines;
}

void test_file() {
    Settings settings = defaults(table);
    auto errors = read_config_text(R"(
distribution = "modula"
hash = "md5"
hash_tag = "<>"
local_read = false
pointer_miss = "index"
access_tracking = "atomic"
report_interval_ms = 60000
node_timeout_ms = 60000
failover = true
pointer_table.path = "/pointers"
pointer_table.entries = 128
[[node]]
name = "a"
address = "shm:/run/farnode/with,comma.sock"
[[node]]
address = "tcp:[::1]:11300"
hash_as = "10.0.0.1:11211"
weight = 1
name = "b"
)", "f", table, settings);
    const ProxySettings& proxy = settings.proxy;
    tap::is(errors.size(), 0u, "a file with every key");
    tap::is(shown(proxy.nodes), "a shm:/run/farnode/with,comma.sock 1, b tcp:[::1]:11300 1 10.0.0.1:11211",
            "its nodes");
    tap::is(proxy.nodes.at(1).origin, "f:16:1", "the place of a node");
    tap::ok(proxy.distribution == Distribution::modula && proxy.hash == KeyHash::md5, "words");
    tap::ok(proxy.hash_tag == "<>" && proxy.pointer_miss == PointerMiss::index, "more words");
    Settings renamed = defaults(table);
    tap::ok(read_config_text("cold_get = 'index'", "f", table, renamed).empty(), "cold_get, the old name of pointer_miss");
    tap::is(renamed.proxy.pointer_miss, PointerMiss::index, "sets it");
    tap::is(read_config_text("pointer_miss = 'index'\ncold_get = 'rpc'", "f", table, renamed).size(), 1u, "not both names");
    tap::is(proxy.access_tracking, farcached::AccessTracking::atomic, "and one more");
    tap::is(proxy.report_interval_ms, 60000u, "the longest interval");
    tap::ok(!proxy.local_read && proxy.failover, "toggles");
    tap::is(proxy.node_timeout_ms, 60000u, "a number");
    tap::is(proxy.pointer_table.path, "/pointers", "a table's text");
    tap::is(proxy.pointer_table.entries, 128u, "and number");
    for (const char* same : {"pointer_table = { path = \"/x\", entries = 64 }",
                             "[pointer_table]\npath = \"/x\"\nentries = 64\n"}) {
        Settings other = defaults(table);
        tap::is(read_config_text(same, "f", table, other).size(), 0u, "a table written otherwise");
        tap::is(other.proxy.pointer_table.entries, 64u, "is the same");
    }
    tap::is(file_errors(""), "", "an empty file");
    tap::is(file_errors("# nothing\n"), "", "one with a comment");
}

// Those that have an effect, a table by its name.
std::string effective_keys() {
    std::string names;
    for (const Option& option : table) {
        if (!is_key(option) || option.section == Section::compat) continue;
        const std::string name = file_key(option).substr(0, file_key(option).find('.'));
        if (!names.ends_with(name)) names += (names.empty() ? "" : ", ") + name;
    }
    return names;
}

void test_file_errors() {
    const std::string in_ms = "(milliseconds), or one with its unit as a text, like \"10s\" (us, ms, s, m, h, d)";
    const Row rows[] = {
        {"distributon = \"modula\"",
         "f:1:1: unknown key 'distributon', did you mean 'distribution'?\n"},
        {"config = \"x\"", "f:1:1: unknown key 'config'. Allowed: " + effective_keys() + "\n"},
        {"hash = \"md6\"",
         "f:1:8: hash: unknown word 'md6', did you mean 'md5'? Allowed: auto, one_at_a_time, md5, crc, "
         "fnv1_64, fnv1a_64, fnv1_32, fnv1a_32, hsieh, murmur, jenkins, murmur3\n"},
        {"access_tracking = \"reports\"",
         "f:1:19: access_tracking: unknown word 'reports', did you mean 'report'? Allowed: none, atomic, report, auto\n"},
        {"report_items = 63", "f:1:16: report_items: '63' is out of range: 64 to 65536\n"},
        {"report_items = 65537", "f:1:16: report_items: '65537' is out of range: 64 to 65536\n"},
        {"links_per_node = 65", "f:1:18: links_per_node: '65' is out of range: 0 to 64\n"},
        {"report_interval_ms = 99", "f:1:22: report_interval_ms: '99' is out of range: 100 to 60000 milliseconds\n"},
        {"pointer_miss = true", "f:1:16: pointer_miss: found true; allowed: one of rpc, index\n"},
        {"local_read = \"yes\"", "f:1:14: local_read: found the text 'yes'; allowed: true or false\n"},
        {"node_timeout_ms = \"5\"",
         "f:1:19: node_timeout_ms: found the text '5'; allowed: a number from 1 to 60000 " + in_ms + "\n"},
        {"node_timeout_ms = 5.0",
         "f:1:19: node_timeout_ms: found a number with a point; allowed: a number from 1 to 60000 " + in_ms + "\n"},
        {"node_timeout_ms = 60001", "f:1:19: node_timeout_ms: '60001' is out of range: 1 to 60000 milliseconds\n"},
        {"node_timeout_ms = -9223372036854775808",
         "f:1:19: node_timeout_ms: '-9223372036854775808' is out of range: 1 to 60000 milliseconds\n"},
        {"hash_tag = \"{\\u0000\"",
         "f:1:12: hash_tag: found the text '{?'; allowed: two characters that are no blanks, such as {}\n"},
        {"hash_tag = \"a\\nb\"",
         "f:1:12: hash_tag: found 'a?b'; allowed: two characters that are no blanks, such as {}\n"},
        {"hash_tag = 1979-05-27",
         "f:1:12: hash_tag: found a date or time; allowed: two characters that are no blanks, such as {}\n"},
        {"pointer_table = 5", "f:1:17: pointer_table: found 5; allowed: a table of path, entries\n"},
        {"pointer_table = { path = \"x\", entires = 5 }",
         "f:1:26: pointer_table.path: found 'x'; allowed: a POSIX shared-memory name: a slash and up to 254 "
         "characters without another\n"
         "f:1:31: unknown key of pointer_table 'entires', did you mean 'entries'? Allowed: path, entries\n"},
        {"[node]\nname = \"a\"", "f:1:1: node: found a table; allowed: a table [[node]] for each\n"},
        {"node = [1]", "f:1:9: node: found 1; allowed: a table [[node]] for each\n"},
        {"[[nodes]]\nname = \"a\"",
         "f:1:3: unknown key 'nodes', did you mean 'node'?\n"},
        {"[[node]]\n",
         "f:1:1: node.name: missing; allowed: 1 to 63 letters, digits, and any of . _ -\n"
         "f:1:1: node.address: missing; allowed: shm:PATH, tcp:HOST:PORT or verbs:HOST:PORT, with brackets around an IPv6 "
         "address\n"},
        {"[[node]]\nname = \"a\"\naddress = \"verbs:mlx5_0\"\n",
         "f:3:11: node.address: verbs: needs a host and a port, as in verbs:10.0.0.1:11300; found 'mlx5_0'\n"},
        {"[[node]]\nname = \"a\"\naddress = \"shm:/x\"\n[[node]]\nname = \"a\"\naddress = \"shm:/x\"\n",
         "f:4:1: the name 'a' is taken by f:1:1\n"
         "f:4:1: the address shm:/x is that of f:1:1 already\n"},
        // Every error of a file at once, in its order.
        {"wait = 1\nlocal_read = 1\n[[node]]\nadress = \"shm:/x\"\nname = \"a\"\nweight = \"3\"\n"
         "[[node]]\nname = \"\"\naddress = \"tcp:h:0\"\nweight = 0\nhash_as = 7\n",
         "f:1:1: unknown key 'wait'. Allowed: " + effective_keys() + "\n"
         "f:2:14: local_read: found 1; allowed: true or false\n"
         "f:3:1: node.address: missing; allowed: shm:PATH, tcp:HOST:PORT or verbs:HOST:PORT, with brackets around an IPv6 "
         "address\n"
         "f:4:1: unknown key of node 'adress', did you mean 'address'? "
         "Allowed: name, address, weight, hash_as\n"
         "f:6:10: node.weight: found the text '3'; allowed: a whole number from 1 to 65535\n"
         "f:8:8: node.name: found ''; allowed: 1 to 63 letters, digits, and any of . _ -\n"
         "f:9:11: node.address: '0' is not a port; allowed: 1 to 65535\n"
         "f:10:10: node.weight: found '0'; allowed: a whole number from 1 to 65535\n"
         "f:11:11: node.hash_as: found 7; allowed: HOST:PORT, up to 260 characters without blanks\n"},
    };
    for (const Row& row : rows) tap::is(file_errors(row.given), row.want, row.given.substr(0, 50));
    // The text behind the place comes from the TOML library.
    for (const char* text : {"a = 1\na = 2", "a = 1\nb = \"", "a = 1\n[[node]"}) {
        tap::is(file_errors(text).substr(0, 4), "f:2:", std::string("no TOML: ") + text);
        tap::ok(file_errors(text).find(": not valid TOML: ") != std::string::npos, "with an error");
    }
}

// Removed with the object.
class TemporaryFile {
  public:
    explicit TemporaryFile(const std::string& text) {
        char pattern[] = "/tmp/farcached-conf-XXXXXX";
        int fd = mkstemp(pattern);
        CHECK(fd >= 0);
        path = pattern;
        ssize_t written = write(fd, text.data(), text.size());
        CHECK(written == ssize_t(text.size()));
        close(fd);
    }
    ~TemporaryFile() { unlink(path.c_str()); }
    TemporaryFile(const TemporaryFile&) = delete;
    std::string path;
};

void test_file_and_words() {
    TemporaryFile file("hash = \"md5\"\npointer_miss = \"index\"\n"
                       "[[node]]\nname = \"a\"\naddress = \"shm:/x\"\n");
    CommandLine line = parse(
        {"-o", "hash=crc", "--config", file.path, "--node", "b=shm:/y", "-l", "127.0.0.1"});
    tap::is(line.err, "", "a file and words");
    tap::is(line.settings.proxy.hash, KeyHash::crc, "a word counts more than the file, wherever it stands");
    tap::is(line.settings.proxy.pointer_miss, PointerMiss::index, "a setting of the file alone holds");
    tap::is(shown(line.settings.proxy.nodes), "a shm:/x 1, b shm:/y 1", "nodes of both, the file's first");
    tap::is(line.settings.listen.interfaces, "127.0.0.1", "a word that adds up is counted once");
    line = parse({"--config", file.path, "--node", "a=shm:/y"});
    tap::is(line.err, "--node a=shm:/y: the name 'a' is taken by " + file.path + ":3:1\n", "a name in both");

    TemporaryFile wrong("hash = 5\npointer_miss = 6\n");
    line = parse({"--config", wrong.path});
    tap::is(line.err,
            wrong.path + ":1:8: hash: found 5; allowed: one of auto, one_at_a_time, md5, crc, fnv1_64, "
            "fnv1a_64, fnv1_32, fnv1a_32, hsieh, murmur, jenkins, murmur3\n" +
            wrong.path + ":2:16: pointer_miss: found 6; allowed: one of rpc, index\n",
            "all that is wrong with a file");
    tap::is(line.exit_status.value_or(-1), 64, "ends the program");
    TemporaryFile large(std::string(config_bytes_max + 1, '\n'));
    tap::is(parse({"--config", large.path}).err, large.path + ": is longer than 1048576 bytes\n",
            "too large");
    tap::is(parse({"--config", "/tmp"}).err, "/tmp: cannot be read: Is a directory\n", "a directory");
}

std::string read_sample() {
    std::ifstream file(std::string(std::getenv("abs_top_srcdir")) + "/conf/farcached.toml");
    return {std::istreambuf_iterator<char>(file), {}};
}

void test_sample() {
    if (std::getenv("abs_top_srcdir") == nullptr) {
        return tap::skip(1, "the sample file is found by abs_top_srcdir, which make check sets");
    }
    std::string sample = read_sample();
    tap::ok(!sample.empty(), "the sample file is there");
    Settings settings = defaults(table);
    auto errors = read_config_text(sample, "farcached.toml", table, settings);
    tap::is(errors.size(), 0u, "it loads");
    tap::is(shown(settings.proxy.nodes), "", "without nodes");
    std::string with_nodes = sample;
    const size_t begin = with_nodes.find("# node = ["), end = with_nodes.find("\n# ]\n", begin);
    tap::ok(begin != with_nodes.npos && end != with_nodes.npos, "nodes are an example in comments");
    for (size_t at = begin; at <= end + 1; at = with_nodes.find("\n#", at) + 1) with_nodes[at] = ' ';
    Settings of_example = defaults(table);
    tap::is(read_config_text(with_nodes, "farcached.toml", table, of_example).size(), 0u, "which loads");
    tap::is(shown(of_example.proxy.nodes), "a shm:/run/farnode/a.sock 1, b tcp:10.0.0.1:11300 2 10.0.0.1:11211", "its nodes");
    for (const Option& option : proxy_option_table()) {
        if (!is_key(option)) continue;
        std::string key(option.name.substr(option.name.rfind('.') + 1));
        std::ranges::replace(key, '-', '_');
        tap::ok(sample.find(key + " = ") != std::string::npos, "it names " + std::string(option.name));
        if (option.kind.show == nullptr) continue;
        tap::is(option.kind.show(option, settings), option.kind.show(option, defaults(table)),
                "as it is without the file: " + std::string(option.name));
    }
}

void test_texts() {
    std::string help = help_text(table), man = options_man(table);
    for (const Option& option : proxy_option_table()) {
        tap::ok(!option.help.empty() && help.find(option.name) != std::string::npos,
                "help has " + std::string(option.name));
    }
    for (const NodeKey& key : node_keys()) {
        tap::ok(help.find(key.name) != std::string::npos && !key.help.empty(),
                "and of a node " + std::string(key.name));
    }
    tap::ok(man.find(".B \\-\\-node=<name>=<address>") != std::string::npos, "the man page has --node");
    for (std::string_view name : key_hash_names) {
        if (name == "auto") continue;
        tap::ok(help.find(name) != std::string::npos, "help names the hash " + std::string(name));
    }
}

// `stats settings` has them behind memcached's, where there are nodes.
std::string nodes_settings(const Settings& settings) {
    std::string text;
    bool behind = false;
    settings_stats(settings, [&](std::string_view name, std::string_view value) {
        behind = behind || name == "nodes";
        if (behind) text.append(name).append(" ").append(value).append("\n");
    });
    return text;
}

void test_settings() {
    tap::is(nodes_settings(parse({"-o", "distribution=modula"}).settings), "", "stats settings without nodes");
    tap::is(nodes_settings(parse({"--node", "a=shm:/x y", "--node", "b=tcp:h:1,weight=2"}).settings),
            "nodes a,b\ndiscover NULL\ndiscover-ca NULL\ndiscover-user NULL\ndiscover-password-file NULL\n"
            "auth-key-file NULL\ndiscover_channel tcp\ndiscover_shm no\ndiscover_timeout 30\ndiscover_dns_server NULL\n"
            "member_ttl 10\n"
            "distribution ketama\nhash auto\nhash_tag NULL\nlocal_read yes\npointer_miss rpc\ncold_get rpc\n"
            "access_tracking auto\nrpc auto\nrfp_fetch_bytes 0\nlinks_per_node 0\nshm_group no\nreport_interval_ms 10000\n"
            "report_items 4096\n"
            "pointer_table.path /farcached-3-%U\npointer_table.entries 1048576\nnode_timeout_ms 1000\nfailover no\n"
            "failover_ttl 60\nreplicas 1\nreplica-prefixes NULL\nreplica_reads no\nwarm_up 300\nzone NULL\n"
            "warm_from NULL\nwarm_timeout_ms 500\n",
            "stats settings with nodes");
}

}  // namespace

int main() {
    test_settings();
    test_node_words();
    test_command_line();
    test_refused_words();
    test_file();
    test_file_errors();
    test_file_and_words();
    test_sample();
    test_texts();
    return tap::done();
}
