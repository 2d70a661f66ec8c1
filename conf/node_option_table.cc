// SPDX-License-Identifier: BSD-3-Clause
#include "conf/option.h"

#include <string>
#include <string_view>
#include <variant>

#include "base/limits.h"
#include "conf/addresses.h"
#include "conf/advertise.h"
#include "conf/check_settings.h"
#include "conf/disk_options.h"
#include "conf/etcd_url.h"
#include "conf/exposure.h"
#include "conf/kinds.h"
#include "conf/program.h"

namespace farcached::conf {

namespace node_options {

namespace {

using S = Settings;
using M = MemorySettings;
using N = NodeSettings;

constexpr auto in_registration = in<&S::node, &N::registration>;
using P = ProcessSettings;

constexpr double megabytes_max = 256.0 * 1024;  // the maximum that one node's index can address

template <std::string N::* host, uint16_t N::* port>
constexpr Kind address() {
    return {.set = [](const Option& option, Settings& settings, const char* text, std::string&) -> Refusal {
                return take_listen_address(option, text, text, settings.node.*host, settings.node.*port);
            },
            .show = [](const Option&, const Settings& settings) {
                return host_and_port(settings.node.*host, settings.node.*port);
            },
            .value = Value::text};
}
constexpr std::array<std::string_view, 3> discover_fence_names = {"off", "on", "strict"};
constexpr Kind tcp_address = address<&N::tcp_host, &N::tcp_port>();
constexpr Kind verbs_address = address<&N::verbs_host, &N::verbs_port>();

constexpr Kind register_at = {
    .set = [](const Option& option, Settings& settings, const char* given, std::string&) -> Refusal {
        if (const Refusal refused = check_etcd(given))
            return Problem{option.exit_status, "discover '" + std::string(given) + "': " + refused->text + "\n"};
        settings.node.registration.source = given;
        return {};
    },
    .show = text<in_registration, &RegistrationSettings::source>().show,
    .value = Value::text};

constexpr Kind advertised = {
    .set = [](const Option& option, Settings& settings, const char* given, std::string&) -> Refusal {
        const auto parsed = parse_advertised(given);
        if (const auto* why = std::get_if<std::string>(&parsed))
            return Problem{option.exit_status, "advertise: " + *why + "\n"};
        settings.node.registration.advertise = given;
        return {};
    },
    .show = text<in_registration, &RegistrationSettings::advertise>().show,
    .value = Value::text};

constexpr std::string_view address_allowed = "ADDR:PORT, with brackets around an IPv6 address; port 0 to 65535";

// One term for all leases: also sets the shortest and the longest.
constexpr Kind one_term() {
    Kind kind = number<&S::node, &N::lease_ms>(1, 256'000);
    kind.set = [](const Option& option, Settings& settings, const char* text, std::string& note) -> Refusal {
        static constexpr Kind of_one = number<&S::node, &N::lease_ms>(1, 256'000);
        Refusal wrong = of_one.set(option, settings, text, note);
        settings.node.lease_ms_min = settings.node.lease_ms_max = settings.node.lease_ms;
        return wrong;
    };
    return kind;
}

// Of --spill-to.
constexpr Kind peer_address = {
    .set = [](const Option& option, Settings& settings, const char* text, std::string&) -> Refusal {
        const auto refused = [&](const std::string& why) {
            return Problem{option.exit_status, "spill-to '" + std::string(text) + "': " + why + "\n"};
        };
        if (std::string_view(text).find(',') != std::string_view::npos)
            return refused("give one node, as in --spill-to b=tcp:10.0.0.2:11300");
        std::variant<NodeSpec, Complaints> parsed = parse_node(text);
        if (const auto* wrong = std::get_if<Complaints>(&parsed)) return refused(wrong->front());
        settings.node.spill_to = std::get<NodeSpec>(std::move(parsed));
        settings.node.spill_to.origin = "--spill-to " + std::string(text);
        return {};
    },
    .show = [](const Option&, const Settings& settings) {
        const NodeSpec& to = settings.node.spill_to;
        return to.name.empty() ? std::string() : to.name + "=" + address_of(to);
    },
    .value = Value::text};

constexpr const char* policy_help_text =
    "eviction policy and lease terms:\n"
#define X(name, leases, help) "  " #name ": " help "\n"
    POLICIES(X)
#undef X
    "lru and mq grant no leases";

constexpr Option table[] = {
    {.name = "name", .argument = "<name>", .kind = checked_text<&S::node, &N::name>(is_node_name),
     .section = Section::network, .exit_status = exit_usage,
     .allowed = "1 to 63 letters, digits, and any of . _ -",
     .help = "name of the node in messages and statistics; unless given,\n"
             "made of the host's name and the port of --tcp"},
    {.name = "shm", .argument = "<path>", .kind = checked_text<&S::node, &N::shm_path>(is_socket_path),
     .section = Section::network, .exit_status = exit_usage,
     .allowed = socket_path_allowed,
     .help = "Unix socket for proxies of this host, which read the node's\n"
             "memory directly; <path>.lock beside it excludes a second\n"
             "node"},
    {.name = "shm-group", .initial = "no", .kind = toggle<&S::node, &N::shm_group>(), .section = Section::network,
     .exit_status = exit_usage,
     .help = "serve proxies of other users over --shm if their primary\n"
             "group is the node's (shm_group of farcached(1)); otherwise\n"
             "only those of the node's user and root"},
    {.name = "tcp", .argument = "<addr>:<port>", .kind = tcp_address, .section = Section::network,
     .exit_status = exit_usage,
     .allowed = address_allowed,
     .help = "TCP address for proxies: a host name, an IPv4 address, an\n"
             "IPv6 address in brackets, or * for all; port 0: chosen by\n"
             "the kernel and written to the file that\n"
             "$FARNODE_PORT_FILENAME names"},
    {.name = "verbs", .argument = "<addr>:<port>", .kind = verbs_address, .section = Section::network,
     .exit_status = exit_usage, .allowed = address_allowed,
     .help = "RDMA address for proxies, that of an RDMA device. They read\n"
             "the node's memory one-sided, so it is locked at the start:\n"
             "-m and a third more (LimitMEMLOCK)"},
    {.name = "discover", .argument = "<source>", .kind = register_at, .section = Section::network, .exit_status = exit_usage,
     .allowed = "etcd://HOST:PORT[,HOST:PORT]/PREFIX, or etcds:// with TLS",
     .help = "etcd where the node registers, and farcached of the same\n"
             "--discover find it: etcd://<host>:<port>[,...]/<prefix>, or\n"
             "etcds:// with TLS"},
    {.name = "advertise", .argument = "<list>", .kind = advertised, .section = Section::network, .exit_status = exit_usage,
     .allowed = "tcp:HOST:PORT[,verbs:HOST:PORT]",
     .help = "addresses that the node registers, tcp:<host>:<port> and\n"
             "verbs:<host>:<port> with a comma between them.\n"
             "Default: those of --tcp and --verbs"},
    {.name = "weight", .argument = "<num>", .initial = "1",
     .kind = number<in_registration, &RegistrationSettings::weight>(0, limits::node_weight_max),
     .section = Section::network, .live = true, .exit_status = exit_usage,
     .help = "share of the keys that the node registers for, in relation\n"
             "to the others. 0: none; the others get its keys, and the\n"
             "node gives them the items"},
    {.name = "zone", .argument = "<name>", .kind = checked_text<in_registration, &RegistrationSettings::zone>(is_node_name),
     .section = Section::network, .exit_status = exit_usage, .allowed = "1 to 63 letters, digits, and any of . _ -",
     .help = "name of the zone that the node registers"},
    {.name = "member-ttl", .argument = "<seconds>", .initial = "10",
     .kind = counted_in(Unit::seconds, number<in_registration, &RegistrationSettings::ttl_s>(2, 300)), .section = Section::network,
     .exit_status = exit_usage,
     .help = "time after which etcd removes a silent node. The node reports\n"
             "three times as often"},
    {.name = "discover-fence", .argument = "<mode>", .initial = "on",
     .kind = choice<in_registration, &RegistrationSettings::fence>(discover_fence_names), .section = Section::network,
     .exit_status = exit_usage,
     .help = "on: proxies read the node's memory one-sided only while its\n"
             "registration lasts. A node and a proxy that are both cut\n"
             "off from etcd may show old values. strict: without the\n"
             "registration the node executes no requests, either. If only\n"
             "other nodes have received a newer list of nodes, it\n"
             "executes none by an older one. off: proxies always read; a\n"
             "node that stands still may show old values, too"},
    discover_ca_option(Section::network), discover_user_option(Section::network), discover_password_option(Section::network),
    {.flag = 'c', .name = "conn-limit", .argument = "<num>", .initial = "1024",
     .kind = number<&S::session, &SessionSettings::connections_max>(1, 1 << 20),
     .section = Section::network, .live = true, .exit_status = exit_usage,
     .help = "maximum number of proxy connections after their greeting; a\n"
             "proxy has one for each of its threads. At the limit, new\n"
             "connections replace unused and silent ones"},
    {.name = "auth-key-file", .argument = "<path>", .kind = text<&S::node, &N::auth_key_file>(), .section = Section::network,
     .exit_status = exit_usage,
     .help = "file of keys, one of which each proxy must prove to hold,\n"
             "and this node to it, before anything else. Each line: role,\n"
             "name, and a key of 32 to 64 bytes in hexadecimal or base64.\n"
             "Roles: proxy; reader, which may only GET; operator, which\n"
             "sees no item. Several keys are valid at a time. A reload\n"
             "reads the file again and ends connections whose key is\n"
             "gone. Nothing is encrypted"},
    {.name = "greeting-timeout-ms", .argument = "<ms>", .initial = "10000",
     .kind = counted_in(Unit::milliseconds, number<&S::node, &N::greeting_timeout_ms>(100, 600'000)),
     .section = Section::network, .live = true,
     .exit_status = exit_usage,
     .help = "time until a connection without a proxy's greeting is closed"},
    admin_option(Section::network),
    http_option(Section::network),
    http_names_option(Section::network),
    peer_cert_option(Section::network), peer_key_option(Section::network), peer_ca_option(Section::network),
    http_token_file_option(Section::network), http_cert_option(Section::network), http_key_option(Section::network),
    http_health_option(Section::network),
    insecure_option(Section::network, "accept addresses in --tcp, --verbs and --http that other\n"
                                      "machines reach without authentication. For trusted networks\n"
                                      "only: those machines can read and change all items"),
    {.flag = 'm', .name = "memory-limit", .argument = "<megabytes>", .initial = "64",
     .kind = counted_in(Unit::megabytes, number<&S::memory, &M::bytes_max>(1, megabytes_max, 1 << 20)),
     .section = Section::memory, .live = true,
     .exit_status = exit_usage, .help = "limit on the memory that items take"},
    {.flag = 'M', .name = "disable-evictions", .initial = "no", .kind = toggle<&S::memory, &M::evict, false>(),
     .section = Section::memory,
     .help = "no evictions: stores fail with an error when memory is\n"
             "full"},
    {.flag = 'I', .name = "max-item-size", .argument = "<size>", .initial = "1m",
     .kind = item_size, .section = Section::memory,
     .exit_status = exit_usage, .allowed = item_size_allowed,
     .help = "maximum item size including the key: 1k to 1024m, at most\n"
             "half of -m"},
    {.flag = 'e', .name = "memory-file", .argument = "<path>", .kind = text<&S::memory, &M::file>(),
     .section = Section::memory,
     .help = "file with the items, which keeps them over a restart, also\n"
             "after a kill. On tmpfs or persistent memory: the cache is\n"
             "as fast as the file's memory"},
    disk::ext_path(Where::flag), disk::ext_page_size(Where::flag), disk::ext_wbuf_size(Where::flag),
    disk::ext_threads(Where::flag), disk::ext_io_depth(Where::flag), disk::ext_item_size(Where::flag),
    disk::ext_item_age(Where::flag), disk::ext_recache_rate(Where::flag), disk::ext_drop_unread(Where::flag),
    disk::no_ext_drop_unread(Where::flag),
    {.name = "spill-to", .argument = "<name=address>", .kind = peer_address, .section = Section::memory,
     .exit_status = exit_usage, .once = "spill-to is given twice, but one node gets the values; give one\n",
     .allowed = "NAME=ADDRESS, where ADDRESS is shm:PATH, tcp:HOST:PORT or verbs:HOST:PORT",
     .help = "another farnode: values of evicted items move to its memory,\n"
             "before --ext_path. Options ext_item_size, ext_item_age,\n"
             "ext_recache_rate and ext_drop_unread hold for it, too"},
    {.name = "spill-share", .argument = "<percent>", .initial = "25",
     .kind = number<&S::node, &N::spill_share_percent>(0, 90), .section = Section::memory, .live = true,
     .exit_status = exit_usage,
     .help = "share of this node's memory that values of other nodes may\n"
             "take, which name it in their --spill-to; 0: none"},
    {.flag = 'L', .name = "enable-largepages", .initial = "no",
     .kind = toggle<&S::memory, &M::huge_pages>(), .section = Section::memory,
     .help = "use huge pages if available"},
    {.name = "policy", .argument = "<name>", .initial = "s3fifo",
     .kind = choice<&S::node, &N::policy>(policy_names), .section = Section::memory,
     .exit_status = exit_usage, .help = policy_help_text},
    {.name = "lease-ms", .argument = "<ms>", .initial = "4000",
     .kind = counted_in(Unit::milliseconds, one_term()), .section = Section::memory, .live = true,
     .exit_status = exit_usage,
     .help = "lease term: how long a proxy may read an item one-sided\n"
             "without a request, from the second access of the item on.\n"
             "Sets all terms, unless one of the options below follows;\n"
             "its default is that of policies with one term for all"},
    {.name = "lease-ms-min", .argument = "<ms>", .initial = "4000",
     .kind = counted_in(Unit::milliseconds, number<&S::node, &N::lease_ms_min>(1, 256'000)), .section = Section::memory,
     .live = true,
     .exit_status = exit_usage,
     .help = "shortest lease term, for items accessed twice while memory\n"
             "is full and leased, where terms differ (pdla, s3fifo,\n"
             "pdla_paper)"},
    {.name = "lease-ms-max", .argument = "<ms>", .initial = "256000",
     .kind = counted_in(Unit::milliseconds, number<&S::node, &N::lease_ms_max>(1, 256'000)), .section = Section::memory,
     .live = true,
     .exit_status = exit_usage,
     .help = "longest lease term, for items accessed 128 times while there\n"
             "is free memory; the term of --policy original"},
    {.name = "no-lease", .initial = "no", .kind = toggle<&S::node, &N::lease, false>(),
     .section = Section::memory,
     .help = "grant no leases: each GET is sent to the node, or reads its\n"
             "index"},
    {.name = "dead-share", .argument = "<percent>", .initial = "6",
     .kind = number<&S::node, &N::dead_share_percent>(1, 100), .section = Section::memory,
     .exit_status = exit_usage,
     .help = "share of the memory limit for dead slots (items deleted or\n"
             "outgrown under a lease). Above it, a key with a dead slot\n"
             "earns no lease until the slot is free; above twice the\n"
             "share, no key earns a new lease"},
    {.name = "access_tracking", .old_name = "access-tracking", .argument = "<none|atomic|report>", .initial = "none",
     .kind = choice<&S::node, &N::access_tracking>(access_tracking_names_of_nodes), .section = Section::memory,
     .exit_status = exit_usage,
     .help = "how the node learns which items are read one-sided. atomic:\n"
             "proxies over --verbs may count their reads in separate\n"
             "memory, an eighth of -m that is locked too, and items read\n"
             "are not evicted first; no effect on other transports. none,\n"
             "report: proxies send their reads with requests or in\n"
             "reports (access_tracking of farcached(1))"},
    {.name = "rpc", .argument = "<send|write|rfp|auto>", .initial = "auto",
     .kind = choice<&S::node, &N::rpc>(rpc_mode_names), .section = Section::memory, .exit_status = exit_usage,
     .help = "ways of requests that proxies over --verbs may choose (rpc of\n"
             "farcached(1)). send: SENDs. write: also WRITEs. rfp, auto:\n"
             "also READs of replies"},
    {.name = "rfp-slots", .argument = "<num>", .initial = "8",
     .kind = number<&S::node, &N::rfp_slots>(1, limits::rfp_slots_max), .section = Section::memory,
     .exit_status = exit_usage,
     .help = "slots for requests of each connection over --verbs, and as\n"
             "many for replies, of 4 KiB each; locked memory"},
    {.name = "rfp-awake-us", .argument = "<num>", .initial = "50",
     .kind = number<&S::node, &N::rfp_awake_us>(0, 1'000'000), .section = Section::memory, .exit_status = exit_usage,
     .help = "longest time in microseconds that a thread polls the slots of\n"
             "a connection after a reply, if requests come often enough;\n"
             "0: never, each request wakes the thread"},
    {.name = "report-share", .argument = "<percent>", .initial = "25",
     .kind = number<&S::node, &N::report_share_percent>(0, 100), .section = Section::memory, .live = true,
     .exit_status = exit_usage,
     .help = "share of the leasable memory that one proxy, or all of a\n"
             "host that report together, may keep leased by reports"},
    {.flag = 't', .name = "threads", .argument = "<num>", .initial = "4",
     .kind = number<&S::session, &SessionSettings::threads>(1, limits::workers_max),
     .section = Section::process, .exit_status = exit_usage,
     .help = "number of threads that serve connections"},
    {.flag = 'd', .name = "daemon", .initial = "no", .kind = toggle<&S::process, &P::daemonize>(),
     .section = Section::process,
     .help = "run in the background; returns when the node serves"},
    {.flag = 'u', .name = "user", .argument = "<name>", .kind = text<&S::process, &P::user>(),
     .section = Section::process, .help = "user to run as (required for root)"},
    {.flag = 'P', .name = "pidfile", .argument = "<path>", .kind = text<&S::process, &P::pid_file>(),
     .section = Section::process, .help = "file to write the process id to"},
    {.flag = 'v', .name = "verbose", .kind = louder, .section = Section::process, .live = true,
     .help = "log connections and the reasons of their ends on stderr"},
    log_level_option(Section::process), log_format_option(Section::process), crash_request_option(Section::process),
    {.name = "drop-privileges", .initial = "no", .kind = drop_privileges, .section = Section::process,
     .exit_status = exit_usage,
     .help = "seccomp filter once the node serves: only the system calls\n"
             "that it needs. Any other call fails with EPERM, and the\n"
             "kernel's audit log names it. Without seccomp support the\n"
             "node does not start"},
    config_option(Section::process), check_config_option(Section::process), print_config_option(Section::process),
    print_limits_option(Section::process),
    {.flag = 'h', .name = "help", .action = Action::help, .section = Section::process,
     .help = "print this and exit"},
    {.flag = 'V', .name = "version", .action = Action::version, .section = Section::process,
     .help = "print the version and exit"},
    {.name = "print-options-man", .action = Action::options_man},
    {.name = "print-config-man", .action = Action::config_man},
    {.name = "print-config-sample", .action = Action::config_sample},
    {.name = "print-completion-bash", .action = Action::completion_bash},
    {.name = "print-completion-zsh", .action = Action::completion_zsh},
};
static_assert(limits::node_name_bytes_max == 63, "as in the table");

Refusal check_terms(const Settings& settings) {
    if (settings.node.lease_ms_max >= settings.node.lease_ms_min) return {};
    return Problem{exit_usage, "--lease-ms-max is less than --lease-ms-min.\n"};
}

Refusal check_listens(const Settings& settings) {
    const NodeSettings& at = settings.node;
    if (!at.shm_path.empty() || !at.tcp_host.empty() || !at.verbs_host.empty()) return {};
    return Problem{exit_usage,
                   "No address to listen on: give --shm <path>, --tcp <addr>:<port>, --verbs <addr>:<port>, "
                   "or several.\n"};
}

std::vector<Conflict> check_node_settings(const Settings& settings) {
    std::vector<Conflict> conflicts = disk::check(settings);
    const auto add = [&](Refusal refusal, std::vector<std::string_view> keys) {
        if (refusal) conflicts.push_back({std::move(*refusal), std::move(keys)});
    };
    add(check_item_size(settings), {"max-item-size", "memory-limit"});
    add(check_admin_path(settings, settings.node.shm_path, "--shm"), {"admin", "shm"});
    add(check_terms(settings), {"lease-ms-max", "lease-ms-min"});
    add(check_listens(settings), {});
    add(check_peer_tls(settings), {"peer-cert", "peer-key", "peer-ca"});
    add(check_registration(settings), {"discover", "advertise", "discover-user", "discover-ca"});
    const NodeSettings& at = settings.node;
    const auto check_place = [&](NodeChannel channel, std::string_view key, const std::string& host, uint16_t port) {
        if (host.empty()) return;
        add(check_node_place(settings, channel, "--" + std::string(key) + " " + host_and_port(host, port), host), {key});
    };
    check_place(NodeChannel::tcp, "tcp", at.tcp_host, at.tcp_port);
    check_place(NodeChannel::verbs, "verbs", at.verbs_host, at.verbs_port);
    add(check_http_place(settings), {"http"});
    add(check_http_options(settings.admin), {"http-key", "http-token-file", "http-cert"});
    return conflicts;
}

std::string version_line() { return "farnode " + std::string(farcached_version()) + "\n"; }
std::string no_remarks(const Settings&) { return {}; }

}  // namespace

}  // namespace node_options

std::span<const Option> node_option_table() { return node_options::table; }

const Program& farnode_program() {
    static constexpr Program program{"farnode", node_options::version_line, node_options::check_node_settings,
                                    node_options::no_remarks, farnode_limits};
    return program;
}

}  // namespace farcached::conf
