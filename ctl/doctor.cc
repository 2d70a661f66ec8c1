// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "conf/etcd_url.h"
#include "conf/option.h"
#include "conf/program.h"
#include "conf/settings.h"
#include "ctl/format.h"
#include "ctl/queue_pairs.h"
#include "protocol/frame_layout.h"
#include "proxy/pointer_table_layout.h"

namespace farcached::ctl {

namespace {

using Findings = std::vector<Finding>;

// The defaults of farcached.
const conf::Settings& by_default() {
    static const conf::Settings settings = conf::defaults(conf::option_table_with_nodes());
    return settings;
}
uint64_t table_bytes() {
    return proxy::table_bytes(by_default().proxy.pointer_table.entries);
}
// In its name, /farcached-3-%U.
uint64_t table_version() {
    const std::string& name = by_default().proxy.pointer_table.path;
    const size_t dash = name.find('-') + 1;
    return parse_number(name.substr(dash, name.find('-', dash) - dash)).value_or(0);
}
double dead_share() {
    return conf::defaults(conf::node_option_table()).node.dead_share_percent / 100.0;
}

void ok(Findings& to, const char* subject, std::string text) { to.push_back({Verdict::ok, subject, std::move(text)}); }
void note(Findings& to, const char* subject, std::string text, std::string remedy) {
    to.push_back({Verdict::note, subject, std::move(text), std::move(remedy)});
}
void wrong(Findings& to, const char* subject, std::string text, std::string remedy) {
    to.push_back({Verdict::wrong, subject, std::move(text), std::move(remedy)});
}
// Runs a check; if it found nothing, what is ok.
template <class Check>
void check(Findings& to, const char* subject, const std::string& good, Check run) {
    const size_t before = to.size();
    run();
    if (to.size() == before) ok(to, subject, good);
}

bool uses_rdma(const Case& facts) {
    return std::ranges::any_of(facts.survey.nodes, [](const NodeFacts& node) { return node.address.starts_with("verbs:"); });
}

bool uses_pointers(const Case& facts) {
    return uses_rdma(facts) ||
           std::ranges::any_of(facts.survey.nodes, [](const NodeFacts& node) { return node.address.starts_with("shm:"); });
}

// Does it need a registration in etcd to serve?
bool is_member(const NodeFacts& node) { return node.stats.number("serving").has_value(); }

// ---- the host -------------------------------------------------------------------------------------------------
void check_devices(const Case& facts, Findings& to) {
    constexpr const char* subject = "RDMA devices";
    const auto& devices = facts.machine.devices;
    if (devices.empty() && uses_rdma(facts))
        return wrong(to, subject, "none, but a node has an address of verbs", "install the driver of the device, or use tcp");
    if (devices.empty()) return ok(to, subject, "none; nodes over shm and tcp need none");
    std::string names;
    for (const Machine::Device& device : devices) names += (names.empty() ? "" : ", ") + device.name;
    check(to, subject, names + ", with active ports", [&] {
        if (!facts.machine.has_verbs_file)
            wrong(to, subject, "there is no /dev/infiniband/uverbs0", "load the module ib_uverbs; in a container, pass the device");
        for (const Machine::Device& device : devices)
            if (std::ranges::find(device.ports, "ACTIVE") == device.ports.end())
                wrong(to, subject, device.name + " has no active port", "see rdma link; set its network interface up");
    });
}

void check_queue_pairs(const Case& facts, Findings& to) {
    constexpr const char* subject = "queue pairs";
    if (!uses_rdma(facts)) return ok(to, subject, "none; no node has an address of verbs");
    check(to, subject, "no more than devices are known to cache", [&] {
        for (std::string& warning : queue_pair_warnings(facts.survey, facts.machine.devices))
            note(to, subject, std::move(warning),
                 "links_per_node, or fewer workers (-t), in each farcached; farbench capacity predicts the effect");
    });
}

// Only nodes do, and only for peers over verbs.
bool locks_memory(const Case& facts, const Patient& one) {
    return !one.is_proxy && std::ranges::any_of(facts.survey.nodes, [&](const NodeFacts& node) {
        return node.name == one.stats.text("node") && node.address.starts_with("verbs:"); });
}

void check_memlock(const Case& facts, Findings& to) {
    constexpr const char* subject = "locked memory";
    if (facts.machine.devices.empty()) return ok(to, subject, "not needed without RDMA");
    check(to, subject, "no limit is in the way", [&] {
        for (const Patient& one : facts.patients) {
            if (!locks_memory(facts, one) || !one.limits || !one.limits->locked_bytes) continue;
            const uint64_t limit = *one.limits->locked_bytes, memory = one.stats.count("limit_maxbytes");
            if (limit < memory)
                wrong(to, subject, one.socket + ": may lock " + human_bytes(limit) + ", and has " + human_bytes(memory) +
                      " of items",
                      "LimitMEMLOCK=infinity in its unit file, or ulimit -l unlimited");
        }
    });
}

void check_huge_pages(const Case& facts, Findings& to) {
    constexpr const char* subject = "huge pages";
    const Machine& machine = facts.machine;
    check(to, subject, "on request (-L), for private and shared memory", [&] {
        if (machine.huge_pages == "never" || machine.huge_pages.empty())
            note(to, subject, "the kernel gives none, so -L has no effect",
                 "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled");
        if (machine.huge_pages_shared == "never" || machine.huge_pages_shared == "deny" || machine.huge_pages_shared.empty())
            note(to, subject, "the kernel gives none to shared memory, so -L of farnode has no effect",
                 "echo advise >/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    });
}

void check_shared_memory(const Case& facts, Findings& to) {
    constexpr const char* subject = "/dev/shm";
    const Machine& machine = facts.machine;
    if (!machine.shared_bytes)
        return wrong(to, subject, "it is not mounted, so there is no pointer table", "mount -t tmpfs tmpfs /dev/shm");
    if (machine.tables.empty() && *machine.shared_free < table_bytes()) {
        const auto say = uses_pointers(facts) ? wrong : note;
        return say(to, subject, human_bytes(*machine.shared_free) + " are free; a pointer table takes " +
                   human_bytes(table_bytes()),
                   "mount -o remount,size=1G /dev/shm (docker: --shm-size), or fewer pointer_table.entries");
    }
    ok(to, subject, human_bytes(*machine.shared_free) + " of " + human_bytes(*machine.shared_bytes) + " are free");
}

void check_tables(const Case& facts, Findings& to) {
    constexpr const char* subject = "pointer tables";
    const size_t count = facts.machine.tables.size();
    const std::string belong = counted(count, "table belongs", "tables belong");
    check(to, subject, count == 0 ? "none yet" : belong + " to the user in its name", [&] {
        for (const Machine::Table& table : facts.machine.tables) {
            if (table.version == table_version() && (table.owner != table.named_user || (table.mode & 077) != 0))
                wrong(to, subject, table.path + " belongs to user " + std::to_string(table.owner) + ", or others may open it, so " +
                      "farcached of user " + std::to_string(table.named_user) + " refuses it", "rm " + table.path);
            else if (table.version < table_version())
                note(to, subject, table.path + " is of an older version", "rm " + table.path + " once no older farcached runs");
        }
        for (const Patient& one : facts.patients)
            if (one.is_proxy && !one.has_pointer_table && uses_rdma(facts))
                wrong(to, subject, one.socket + ": uses none, so each get of its RDMA nodes is a request",
                      "its log has the reason; see pointer_table.path");
    });
}

void check_kernel(const Case& facts, Findings& to) {
    constexpr const char* subject = "kernel settings";
    const Machine& machine = facts.machine;
    uint64_t backlog = facts.patients.empty() ? uint64_t(by_default().listen.backlog) : 0;
    bool uses_uring = false;
    for (const Patient& one : facts.patients) {
        backlog = std::max(backlog, one.settings.count("tcp_backlog"));
        uses_uring = uses_uring || one.settings.text("io") == "uring";
    }
    check(to, subject, "as needed", [&] {
        if (machine.somaxconn && *machine.somaxconn < backlog)
            wrong(to, subject, "net.core.somaxconn is " + std::to_string(*machine.somaxconn) + ", below the backlog of " +
                  std::to_string(backlog) + ": bursts of connections are dropped",
                  "sysctl -w net.core.somaxconn=" + std::to_string(backlog));
        if (machine.overcommit_memory == 2)
            note(to, subject, "vm.overcommit_memory is 2: the kernel may refuse memory below -m",
                 "sysctl -w vm.overcommit_memory=0, or a larger vm.overcommit_ratio");
        if (uses_uring && machine.io_uring_disabled.value_or(0) != 0)
            wrong(to, subject, "kernel.io_uring_disabled is " + std::to_string(*machine.io_uring_disabled) +
                  ", so io=uring cannot work",
                  "sysctl -w kernel.io_uring_disabled=0");
    });
}

// ---- the daemons ----------------------------------------------------------------------------------------------
void check_daemons(const Case& facts, Findings& to) {
    constexpr const char* subject = "daemons";
    for (const std::string& socket : facts.absent)
        note(to, subject, "no daemon has the socket " + socket + "; only this host is checked", "name one with --socket");
    for (const Failure& failure : facts.failures) wrong(to, subject, failure.text, "see farctl(1), FILES and OPTIONS");
    if (facts.patients.empty()) return;
    check(to, subject, counted(facts.patients.size(), "daemon answers", "daemons answer"), [&] {
        for (const Patient& one : facts.patients) {
            const std::string error = one.config.text("config_last_error"), result = one.config.text("config_last_result");
            if (!error.empty() && result != "ok") {
                const std::string what = result == "partly" ? "applied in part: " : "refused: ";
                wrong(to, subject, one.socket + ": its last reload was " + what + error, "correct the file, then farctl reload");
            }
            if (!one.limits && one.stats.number("pid"))  // without its stats, a failure has the reason
                note(to, subject, one.socket + ": its limits of files and locked memory cannot be seen from here",
                     "run farctl doctor as root, in the daemon's PID namespace or in one around it");
            const uint64_t clients = one.settings.count("maxconns");
            if (one.limits && one.limits->descriptors && *one.limits->descriptors < clients)
                wrong(to, subject, one.socket + ": may open " + std::to_string(*one.limits->descriptors) +
                      " files, fewer than its " +
                      std::to_string(clients) + " clients", "LimitNOFILE in its unit file, or ulimit -n");
        }
    });
}

void check_nodes(const Case& facts, Findings& to) {
    constexpr const char* subject = "nodes";
    if (facts.survey.nodes.empty()) return;
    check(to, subject, counted(facts.survey.nodes.size(), "node is", "nodes are") + " up", [&] {
        for (const NodeFacts& node : facts.survey.nodes) {
            const std::string state = node.state();
            if (state == "drained")
                note(to, subject, node.name + " is drained", "farctl undrain " + node.name);
            else if (state != "up")
                wrong(to, subject, node.name + " is " + state, "start it, or look at its log; see farctl status");
        }
    });
}

// Of a registration_trouble().
const char* remedy_of_registration(const NodeFacts& node) {
    const auto is_silent = node.stats.number("etcd_silent");
    if (is_silent == 1u)
        return "check etcd, and that the host of the node reaches it; or, if it has --discover-fence strict, restart it with on";
    if (is_silent == 0u) return "see its log: etcd refuses it, its record is gone, or another process has its name";
    return "see its log: this farnode is older and does not tell the two apart";
}

void check_discovery(const Case& facts, Findings& to) {
    constexpr const char* subject = "discovery";
    const bool has_source = std::ranges::any_of(facts.survey.proxies, [](const ProxyFacts& one) { return !one.discovery.empty(); });
    const bool registers = std::ranges::any_of(facts.survey.nodes, [](const NodeFacts& one) { return is_member(one); });
    if (!has_source && !registers) return;
    const char* good = registers ? "nodes are registered" : "each source answers";
    check(to, subject, has_source && registers ? "each source answers, and nodes are registered" : good, [&] {
        for (const ProxyFacts& proxy : facts.survey.proxies) {
            const std::string trouble = discovery_trouble(proxy);
            const char* remedy = conf::is_etcd_url(proxy.discovery.text("source"))
                ? "check etcd, and the endpoints, the prefix and the user of --discover; farcached retries by itself"
                : "check the DNS server, and the name of --discover; farcached retries by itself";
            if (!trouble.empty()) wrong(to, subject, trouble + ", without later joins and leaves", remedy);
        }
        for (const NodeFacts& node : facts.survey.nodes) {
            const std::string trouble = registration_trouble(node);
            if (!trouble.empty())
                wrong(to, subject, trouble + ": gets miss, changes fail", remedy_of_registration(node));
            else if (is_member(node) && node.stats.count("right_left_ms") == 0)
                wrong(to, subject,
                      node.name + ": etcd does not answer it, so its memory is not read one-sided: each get is a request",
                      "check etcd, and that the host of the node reaches it; the node retries by itself");
        }
    });
}

void check_leases(const Case& facts, Findings& to) {
    constexpr const char* subject = "leases";
    if (facts.survey.nodes.empty()) return;
    check(to, subject, "none is in the way", [&] {
        for (const NodeFacts& node : facts.survey.nodes) {
            const uint64_t memory = node.stats.count("limit_maxbytes"), pending = node.stats.count("reclaim_pending_bytes");
            if (node.stats.count("lease_stopped") != 0)
                wrong(to, subject, node.name + " grants none: a store found no memory",
                      "raise -m of the node, or lower --lease-ms-max");
            if (memory != 0 && double(pending) > double(memory) * dead_share())
                wrong(to, subject, node.name + " keeps " + human_bytes(pending) + " of " + human_bytes(memory) +
                      " for stale leases, of items that are gone", "lower --lease-ms-max of the node: they end by themselves");
        }
    });
}

void check_versions(const Case& facts, Findings& to) {
    constexpr const char* subject = "versions";
    if (facts.patients.empty()) return;
    check(to, subject, "all are " + facts.own_version, [&] {
        const auto differs = [&](const std::string& which, const std::string& version) {
            if (version != facts.own_version)
                wrong(to, subject, which + " is " + version + ", and farctl " + facts.own_version,
                      "restart it with the installed program");
        };
        for (const Patient& one : facts.patients) differs(one.socket, one.version);
        for (const NodeFacts& node : facts.survey.nodes) {
            if (node.name == embedded_name) continue;
            const bool has_patient = std::ranges::any_of(facts.patients, [&](const Patient& one) {
                return !one.is_proxy && one.stats.text("node") == node.name; });
            const std::string version = node.stats.text("farnode_version");
            if (!has_patient && !node.stats.empty()) differs("node " + node.name, version.empty() ? "an older version" : version);
            for (const Seen& one : node.seen)
                if (one.protocol_version != 0 && one.protocol_version < protocol::protocol_version)
                    wrong(to, subject, one.socket + " and node " + node.name + " speak version " +
                          std::to_string(one.protocol_version) + " of the protocol, not " +
                          std::to_string(protocol::protocol_version), "restart the older one with the installed program");
        }
    });
}

}  // namespace

Findings findings_of(const Case& facts) {
    Findings findings;
    for (auto* run : {check_devices, check_queue_pairs, check_memlock, check_huge_pages, check_shared_memory, check_tables,
                      check_kernel, check_daemons, check_nodes, check_discovery, check_leases, check_versions})
        run(facts, findings);
    return findings;
}

namespace {

Stats stats_or_none(Server& server, std::string_view group) {
    Or<Stats> found = server.stats(group);
    return std::holds_alternative<Stats>(found) ? std::get<Stats>(std::move(found)) : Stats();
}

}  // namespace

Case consult(std::vector<Server>& servers, bool is_named) {
    Case facts;
    facts.machine = read_machine("");
    facts.own_version = conf::farcached_version();
    std::vector<Server> there;
    for (Server& server : servers) {
        if (!is_named && access(server.path().c_str(), F_OK) != 0) {
            facts.absent.push_back(server.path());
            continue;
        }
        Or<Server::Kind> kind = server.kind();
        if (auto* failure = std::get_if<Failure>(&kind)) {
            facts.failures.push_back(std::move(*failure));
            continue;
        }
        const uint64_t listener = server.listener_pid();  // a request that fails closes the connection
        Patient one;
        one.socket = server.path();
        one.is_proxy = std::get<Server::Kind>(kind) == Server::Kind::farcached;
        one.version = server.version();
        one.stats = stats_or_none(server, "");
        one.config = stats_or_none(server, "config");
        if (one.is_proxy) {
            one.settings = stats_or_none(server, "settings");
            one.has_pointer_table = std::holds_alternative<Stats>(server.stats("pointers"));
        }
        const auto pid = pid_of_daemon("", one.stats.count("pid"), listener);
        if (pid) one.limits = limits_of_process("", *pid);
        facts.patients.push_back(std::move(one));
        there.push_back(std::move(server));
    }
    facts.survey = take_survey(there);
    for (Failure& failure : facts.survey.failures) facts.failures.push_back(std::move(failure));
    return facts;
}

bool is_any_wrong(const Findings& findings) {
    return std::ranges::any_of(findings, [](const Finding& one) { return one.verdict == Verdict::wrong; });
}

namespace {

constexpr std::string_view verdict_words[] = {"ok", "note", "WRONG"};

}  // namespace

std::string doctor_text(const Findings& findings, Look look) {
    constexpr Tone tones[] = {Tone::good, Tone::doubtful, Tone::bad};
    constexpr size_t subject_width = 17;
    std::string text;
    for (const Finding& one : findings) {
        const std::string_view word = verdict_words[size_t(one.verdict)];
        text += (look.colour ? painted(word, tones[size_t(one.verdict)]) : std::string(word)) + std::string(7 - word.size(), ' ');
        text += one.subject + std::string(subject_width - std::min(one.subject.size(), subject_width - 1), ' ');
        text += printable(one.text) + "\n";
        if (!one.remedy.empty()) text += "       remedy: " + printable(one.remedy) + "\n";
    }
    size_t wrong_count = size_t(std::ranges::count(findings, Verdict::wrong, &Finding::verdict));
    return text + (wrong_count == 0 ? "\nnothing is wrong\n" : "\n" + counted(wrong_count, "thing is", "things are") + " wrong\n");
}

Json json_of(const Findings& findings) {
    Json rows = Json::array();
    for (const Finding& one : findings)
        rows.push_back({{"verdict", one.verdict == Verdict::wrong ? "wrong" : std::string(verdict_words[size_t(one.verdict)])},
                        {"subject", one.subject},
                        {"text", one.text},
                        {"remedy", one.remedy.empty() ? Json(nullptr) : Json(one.remedy)}});
    return rows;
}

}  // namespace farcached::ctl
