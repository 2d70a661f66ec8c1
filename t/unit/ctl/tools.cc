// SPDX-License-Identifier: BSD-3-Clause
// farctl's pure parts beside the tables of ctl.cc: slow requests, deletes by prefix, plans of node lists, the members of a fleet,
// what doctor finds, and the console's words.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ctl/console.h"
#include "ctl/doctor.h"
#include "ctl/machine.h"
#include "ctl/members.h"
#include "ctl/plan.h"
#include "ctl/prefix.h"
#include "ctl/slow_log.h"
#include "protocol/frame_layout.h"
#include "t/lib/tap.h"

namespace {

using namespace farcached::ctl;

Stats stats(std::initializer_list<std::pair<const char*, const char*>> rows) {
    Stats made;
    for (const auto& [name, value] : rows) made.add(name, value);
    return made;
}

// ---- slow requests ------------------------------------------------------------------------------------------

void test_slow_log() {
    const std::pair<const char*, const char*> batches[] = {
        {"get%20key", "key"},
        {"get%20%20a%20b", "a"},
        {"gat%2060%20key%20other", "key"},
        {"mg%20key%20v", "key"},
        {"set%20a%2525%200%200%205", "a%2525"},
        {"version", ""},
        {"", ""},
        {"%80%00%00%03%00%00%00%00%00%00%00%03%00%00%00%00%00%00%00%00%00%00%00%00key", "key"},
        {"%80%01%00%03%08%00%00%00%00%00%00%0B%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00%00k%20y", "k%20y"},
        {"%80%01%00%FF%08", ""},
    };
    for (const auto& [batch, key] : batches) tap::is(key_of_batch(batch), key, std::string("the key of ") + batch);
    const Stats told = stats({
        {"slow:0", "ago_ms=65000 took_us=1500 queue_us=0 answer_us=0 reply_us=0 op=get path=local node=- requests=3 worker=0 cfd=9 "
                   "key=get%20key%20other"},
        {"slow:1", "ago_ms=10 took_us=21000 queue_us=100 answer_us=20000 reply_us=900 op=set path=twosided node=a requests=1 "
                   "worker=1 cfd=8 key=k%20y"},
    });
    tap::is(slow_log_text(slow_requests_of(told, 32)),
            "  AGO     TOOK  OP   PATH       QUEUE   ANSWER   REPLY  NODE  REQUESTS  KEY\n"
            "   0s  21.0 ms  set  twosided  0.1 ms  20.0 ms  0.9 ms  a            1  k%20y\n"
            "1m05s   1.5 ms  get  local          -        -       -  -            3  key\n",
            "slowlog: newest first, aligned, the key only");
    tap::is(slow_requests_of(told, 1).size(), 1u, "at most so many");
    tap::is(slow_requests_of(told, 1)[0].node, "a", "the newest");
    const Stats local = stats({{"slow:0", "ago_ms=0 took_us=1500 queue_us=0 answer_us=0 reply_us=0 op=get path=local node=- "
                                          "requests=1 worker=0 cfd=9 key=get%20key"}});
    tap::is(slow_log_text(slow_requests_of(local, 32)),
            "AGO    TOOK  OP   PATH   REQUESTS  KEY\n"
            " 0s  1.5 ms  get  local         1  key\n",
            "without nodes there are no columns about them");
    tap::is(slow_log_text({}), "no slow requests\n", "or none");
    const Json rows = json_of(slow_requests_of(told, 32));
    tap::ok(rows[0]["answer_us"] == 20000 && rows[1]["answer_us"].is_null() && rows[1]["node"].is_null() && rows[1]["key"] == "key",
            "JSON: what does not apply is null");
}

// ---- deletes by prefix --------------------------------------------------------------------------------------

void test_prefix() {
    const PrefixTold before = prefix_told_of(stats({{"a:state", "complete"}, {"a:order", "7"}, {"a:items", "99"},
                                                    {"b:state", "unknown"}, {"b:order", "0"}}));
    const PrefixTold now = prefix_told_of(stats({{"a:state", "complete"}, {"a:order", "8"}, {"a:items", "1000"},
                                                 {"b:state", "complete"}, {"b:order", "3"}, {"b:items", "111"}}));
    tap::is(prefix_text(prefix_result_of(now, &before), "x", false), "deleted 1111 items beginning with \"x\" on 2 of 2 nodes",
            "a delete by prefix");
    PrefixResult both = prefix_result_of(now, &before);
    both.has_copies = true;
    tap::is(prefix_text(both, "x", false), "deleted 1111 items, copies included, beginning with \"x\" on 2 of 2 nodes",
            "with replicas=2");
    const PrefixTold partly = prefix_told_of(stats({{"a:state", "complete"}, {"a:order", "7"}, {"a:items", "99"},
                                                    {"b:state", "complete"}, {"b:order", "3"}, {"b:items", "1"},
                                                        {"c:state", "unavailable"}}));
    tap::is(prefix_text(prefix_result_of(partly, &before), "x", false), "deleted 1 item beginning with \"x\" on 1 of 3 nodes",
            "an older delete of the prefix is not this one");
    const PrefixTold flushed = prefix_told_of(stats({{"a:state", "complete"}, {"a:order", "8"}, {"b:state", "unknown"}}));
    tap::is(prefix_text(prefix_result_of(flushed, &before), "x", false),
            "deleted all items beginning with \"x\" on 1 of 2 nodes; their number is not known", "a flush came in between");
    tap::is(prefix_text(prefix_result_of(now, nullptr), "x", true),
            "1111 items beginning with \"x\" on 2 of 2 nodes; nothing is deleted",
            "a count");
    const PrefixTold one = prefix_told_of(stats({{"a:state", "complete"}, {"a:items", "1"}, {"b:state", "running"}}));
    tap::is(prefix_text(prefix_result_of(one, nullptr), "x", true),
            "1 item beginning with \"x\" on 1 of 2 nodes; nothing is deleted",
            "of one item");
    PrefixResult early = prefix_result_of(prefix_told_of(stats({{"a:state", "running"}, {"a:order", "8"}})), &before);
    early.nodes_running = 1;
    tap::is(prefix_text(early, "x", false),
            "deleted all items beginning with \"x\" on 1 of 1 node; their number is not known yet: "
            "readers no longer see them, and their memory is still being freed on 1 node",
            "a node that has not finished");
}

void test_prefix_progress() {
    PrefixProgress progress;
    const auto look = [&](const char* state, const char* done, const char* walked = "0") {
        const Stats rows = stats({{"a:state", state}, {"a:order", "8"}, {"a:pages_done", done}, {"a:pages", "100"},
                                  {"a:pages_walked", walked}});
        return progress.look(prefix_told_of(rows), nullptr);
    };
    tap::ok(look("running", "50").running == 1 && !look("running", "50").advanced, "a node that stands still");
    tap::ok(look("running", "60").advanced && look("running", "60").pages == 100, "one that makes progress");
    bool sweeps_count = true;
    for (const char* walked : {"70", "80", "90", "100", "110", "120"})
        sweeps_count = look("running", "60", walked).advanced && sweeps_count;
    tap::ok(sweeps_count, "a count that stands still during sweeps");
    tap::ok(look("busy", "10").advanced, "one that walks again, as for another count");
    int walks = 2;  // the node walks over its pages, again and again
    while (walks < 20 && look("busy", "90").advanced && look("busy", "10").advanced) walks++;
    tap::is(walks, 5, "a few walks count, so the wait ends");
    tap::ok(look("complete", "0").running == 0, "a node that has finished");
}

// ---- plans --------------------------------------------------------------------------------------------------

void test_plan() {
    const std::string path = std::filesystem::temp_directory_path() / ("farctl-plan-" + std::to_string(getpid()) + ".toml");
    const auto plan_of = [&](const char* text) {
        std::ofstream(path) << text;
        return plan_of_file(path);
    };
    constexpr const char* three = "[[node]]\nname = \"a\"\naddress = \"tcp:127.0.0.1:1\"\n"
                                  "[[node]]\nname = \"b\"\naddress = \"shm:/b\"\n"
                                  "[[node]]\nname = \"c\"\naddress = \"tcp:[::1]:3\"\n";
    const auto plan = plan_of(three);
    const auto* good = std::get_if<NodePlan>(&plan);
    tap::is(good == nullptr ? std::get<Failure>(plan).text : "", "", "a node list");
    if (good != nullptr) {
        tap::ok(good->addresses == std::vector<std::string>{"tcp:127.0.0.1:1", "shm:/b", "tcp:[::1]:3"},
                "its addresses as in status");
        bool agrees = true;
        for (int i = 0; i < 1000; i++) {
            const std::string key = "key" + std::to_string(i);
            agrees = agrees && good->node_of(key) == good->names[good->where->node_of(key, 7)];
        }
        tap::ok(agrees, "placed as by farcached");
    }
    const auto none = plan_of("");
    tap::is(std::get<NodePlan>(none).node_of("k"), "(embedded)", "without nodes farcached has the items");
    const auto bad = plan_of("nodes = 3\n"), chance = plan_of((std::string("distribution = \"random\"\n") + three).c_str());
    tap::ok(std::holds_alternative<Failure>(bad) && std::get<Failure>(bad).text.find(path) != std::string::npos,
            "a file that farcached refuses");
    tap::ok(std::holds_alternative<Failure>(chance), "by chance no key has a node");
    std::filesystem::remove(path);
    tap::ok(std::holds_alternative<Failure>(plan_of_file(path)), "no file");

    PlanResult result;
    result.nodes = {{"a", 1000, 100, false, {{"b", 10}, {"c", 40}}}, {"b", 10, 10, true, {}}};
    tap::is(plan_text(result),
            "NODE  ITEMS  SAMPLED  KEYS  SHARE  TO\n"
            "a      1000      100   500  50.0%  b 10.0%, c 40.0%\n"
            "b        10       10     0   0.0%  -\n"
            "\n500 of 1010 keys in use would move, 49.5%; "
            "a sample of 110 keys, so within 9.1 percentage points in 95 of 100 cases\n",
            "what moves, and how sure that is");
    result.nodes = {{"a", 4, 4, true, {{"b", 1}}}};
    result.moved_addresses = {"a: tcp:x:1, now tcp:y:1"};
    tap::is(plan_text(result),
            "NODE  ITEMS  SAMPLED  KEYS  SHARE  TO\na         4        4     1  25.0%  b 25.0%\n"
            "\n1 of 4 keys in use would move, 25.0%; all 4 keys were looked at\n"
            "another address for node a: tcp:x:1, now tcp:y:1: if that is another process, its keys move, too\n",
            "a small cache is looked at whole");
    result.nodes[0].items = 6;
    tap::ok(plan_text(result).find("2 of 6 keys in use would move, 25.0%; 4 of 6 keys were looked at\n") != std::string::npos,
            "but for keys that no node names and old copies");
    tap::ok(json_of(result)["moving_share"] == 0.25 && json_of(result)["sampled"] == 4, "as JSON");
    tap::ok(plan_text({}).find("0 of 0 keys in use would move; there are none\n") != std::string::npos, "an empty cache");
    result.nodes.push_back({"b", 7, 0, false, {}});
    tap::ok(plan_text(result).find("an unknown number of 13 keys in use would move; no key was sampled of b: run this again\n") !=
            std::string::npos, "a node of which no key was sampled");
    tap::ok(json_of(result)["moving"].is_null() && json_of(result)["moving_share"].is_null(), "as JSON");
    result.nodes = {{"a", 1000, 10, false, {}}};
    tap::ok(plan_text(result).find("within 18.2 percentage points") != std::string::npos, "no key moves: that is not certain");
}

// ---- members ------------------------------------------------------------------------------------------------

Survey of_fleet() {
    Survey survey;
    NodeFacts& a = survey.nodes.emplace_back();
    a.name = "a";
    a.address = "tcp:10.0.0.2:11300";
    a.stats = stats({{"uptime", "60"}, {"farnode_version", "1.9"}, {"list_epoch", "20"}});
    NodeFacts& b = survey.nodes.emplace_back();
    b.name = "b";
    b.address = "tcp:10.0.0.3:11300";
    b.seen.push_back({"/run/p", "down", "", 1, 0, 0});
    survey.nodes.emplace_back().name = embedded_name;
    return survey;
}

void test_members() {
    setenv("TZ", "UTC", 1);
    const Stats list = stats({{"epoch", "20"}, {"a:zone", "east"}, {"b:zone", "west"}, {"b:version", "1.8"},
                              {"farcached_1", "h|10.0.0.1|11211"}});
    const Stats at_a = stats({{"proxies_left_out", "0"},
                              {"farcached@h:7:connections", "2"}, {"farcached@h:7:epoch_lowest", "10"},
                              {"farcached@h:7:epoch_highest", "20"}, {"farcached@h:7:connected_s", "50"},
                              {"farcached@h:8:epoch_lowest", "10"}, {"farcached@h:8:epoch_highest", "12"},
                              {"old:connections", "1"}, {"old:epoch_lowest", "0"}, {"old:epoch_highest", "0"}});
    const Stats at_b = stats({{"farcached@h:8:epoch_lowest", "12"}, {"farcached@h:8:epoch_highest", "12"},
                              {"farcached@h:8:connected_s", "59"}});
    const Members members = members_of(of_fleet(), {list, list}, {{"a", at_a}, {"b", at_b}});
    tap::is(members_text(members, 86'460),
            "NODE  ADDRESS             ZONE  VERSION  STATE  SINCE                EPOCH\n"
            "a     tcp:10.0.0.2:11300  east  1.9      up     1970-01-02 00:00:00     20\n"
            "b     tcp:10.0.0.3:11300  west  1.8      down   -                        -\n"
            "\n"
            "PROXY      HOST  PID  NODES  SINCE                EPOCH\n"
            "farcached  h       7      1  1970-01-02 00:00:10  10..20\n"
            "farcached  h       8      2  1970-01-02 00:00:01  10..12 behind\n"
            "old        -       -      1  1970-01-02 00:01:00  -\n"
            "\n"
            "FOR CLIENTS\n"
            "h|10.0.0.1|11211\n",
            "members: nodes, proxies by process, and farcached for clients");
    const Json json = json_of(members, {{"b: broken"}});
    tap::ok(json["proxies"][1]["nodes"] == Json({"a", "b"}) && json["proxies"][1]["behind"] == true &&
                json["proxies"][2]["epoch_highest"].is_null() && json["nodes"][1]["epoch"].is_null() &&
                json["errors"][0] == "b: broken", "as JSON");
}

// ---- doctor -------------------------------------------------------------------------------------------------

Machine healthy_machine() {
    Machine machine;
    machine.devices = {{"mlx5_0", {"ACTIVE"}, "MT4119"}};
    machine.has_verbs_file = true;
    machine.shared_bytes = machine.shared_free = UINT64_C(1) << 30;
    machine.tables = {{"/dev/shm/farcached-3-7", 3, 7, 7, 0600}};
    machine.huge_pages = "madvise";
    machine.huge_pages_shared = "advise";
    machine.somaxconn = 4096;
    machine.overcommit_memory = 0;
    return machine;
}

Case healthy() {
    Case facts;
    facts.machine = healthy_machine();
    facts.own_version = "1.0";
    Patient proxy;
    proxy.socket = "/p";
    proxy.is_proxy = proxy.has_pointer_table = true;
    proxy.version = "1.0";
    proxy.stats = stats({{"pid", "7"}, {"limit_maxbytes", "67108864"}});
    proxy.settings = stats({{"tcp_backlog", "1024"}, {"maxconns", "1024"}, {"io", "libevent"}});
    proxy.limits = ProcessLimits{{}, 4096};
    facts.patients = {proxy};
    NodeFacts node;
    node.name = "a";
    node.address = "verbs:10.0.0.1:1";
    node.seen = {{"/p", "up", "", 4, 4, farcached::protocol::protocol_version}};
    node.stats = stats({{"limit_maxbytes", "67108864"}, {"farnode_version", "1.0"}, {"reclaim_pending_bytes", "1000"}});
    facts.survey.nodes = {node};
    return facts;
}

// The node a, that may lock too little.
Patient node_patient() {
    Patient node;
    node.socket = "/n";
    node.version = "1.0";
    node.stats = stats({{"node", "a"}, {"limit_maxbytes", "67108864"}});
    node.limits = ProcessLimits{65536, 4096};
    return node;
}

// The texts of what is not ok.
std::string trouble(const Case& facts) {
    std::string text;
    for (const Finding& one : findings_of(facts))
        if (one.verdict != Verdict::ok)
            text += (one.verdict == Verdict::wrong ? "wrong " : "note ") + one.subject + ": " + one.text +
                (one.remedy.empty() ? " NO REMEDY" : "") + "\n";
    return text;
}

void test_doctor() {
    tap::is(trouble(healthy()), "", "nothing is wrong");
    tap::ok(!is_any_wrong(findings_of(healthy())) && findings_of(healthy()).size() == 11, "each check has a line");
    using Change = void (*)(Case&);
    const std::pair<Change, const char*> cases[] = {
        {[](Case& c) { c.machine.devices.clear(); }, "wrong RDMA devices: none, but a node has an address of verbs\n"},
        {[](Case& c) { c.machine.devices[0].ports = {"DOWN"}; }, "wrong RDMA devices: mlx5_0 has no active port\n"},
        {[](Case& c) { c.machine.has_verbs_file = false; }, "wrong RDMA devices: there is no /dev/infiniband/uverbs0\n"},
        {[](Case& c) { c.patients[0].limits->locked_bytes = 65536; }, ""},
        {[](Case& c) { c.patients.push_back(node_patient()); },
         "wrong locked memory: /n: may lock 64K, and has 64M of items\n"},
        {[](Case& c) { c.patients.push_back(node_patient()), c.survey.nodes[0].address = "tcp:10.0.0.1:1"; }, ""},
        {[](Case& c) { c.machine.huge_pages = "never"; }, "note huge pages: the kernel gives none, so -L has no effect\n"},
        {[](Case& c) { c.machine.huge_pages_shared = "never"; },
         "note huge pages: the kernel gives none to shared memory, so -L of farnode has no effect\n"},
        {[](Case& c) { c.machine.shared_bytes.reset(); }, "wrong /dev/shm: it is not mounted, so there is no pointer table\n"},
        {[](Case& c) { c.machine.tables.clear(), c.machine.shared_free = 1 << 20; },
         "wrong /dev/shm: 1M are free; a pointer table takes 67.0M\n"},
        {[](Case& c) { c.machine.tables.clear(), c.machine.shared_free = 1 << 20, c.survey.nodes[0].address = "tcp:10.0.0.1:1"; },
         "note /dev/shm: 1M are free; a pointer table takes 67.0M\n"},
        {[](Case& c) { c.machine.tables[0].owner = 0; },
         "wrong pointer tables: /dev/shm/farcached-3-7 belongs to user 0, or others may open it, "
         "so farcached of user 7 refuses it\n"},
        {[](Case& c) { c.machine.tables[0].version = 2; }, "note pointer tables: /dev/shm/farcached-3-7 is of an older version\n"},
        {[](Case& c) { c.patients[0].has_pointer_table = false; },
         "wrong pointer tables: /p: uses none, so each get of its RDMA nodes is a request\n"},
        {[](Case& c) { c.machine.somaxconn = 128; },
         "wrong kernel settings: net.core.somaxconn is 128, below the backlog of 1024: bursts of connections are dropped\n"},
        {[](Case& c) { c.machine.overcommit_memory = 2; },
         "note kernel settings: vm.overcommit_memory is 2: the kernel may refuse memory below -m\n"},
        {[](Case& c) { c.machine.io_uring_disabled = 2; }, ""},
        {[](Case& c) { c.machine.io_uring_disabled = 2, c.patients[0].settings = stats({{"io", "uring"}}); },
         "wrong kernel settings: kernel.io_uring_disabled is 2, so io=uring cannot work\n"},
        {[](Case& c) { c.absent = {"/x"}; }, "note daemons: no daemon has the socket /x; only this host is checked\n"},
        {[](Case& c) { c.failures = {{"/x: no reply", false}}; }, "wrong daemons: /x: no reply\n"},
        {[](Case& c) { c.patients[0].config = stats({{"config_last_error", "bad"}}); },
         "wrong daemons: /p: its last reload was refused: bad\n"},
        {[](Case& c) { c.patients[0].config = stats({{"config_last_error", "bad"}, {"config_last_result", "partly"}}); },
         "wrong daemons: /p: its last reload was applied in part: bad\n"},
        {[](Case& c) { c.patients[0].config = stats({{"config_last_error", "bad"}, {"config_last_result", "ok"}}); }, ""},
        {[](Case& c) { c.patients[0].limits.reset(); },
         "note daemons: /p: its limits of files and locked memory cannot be seen from here\n"},
        {[](Case& c) { c.patients[0].limits.reset(), c.patients[0].stats = {}; }, ""},
        {[](Case& c) { c.patients[0].limits->descriptors = 256; },
         "wrong daemons: /p: may open 256 files, fewer than its 1024 clients\n"},
        {[](Case& c) { c.survey.nodes[0].seen[0].state = "drained"; }, "note nodes: a is drained\n"},
        {[](Case& c) { c.survey.nodes[0].seen[0].state = "down"; }, "wrong nodes: a is down\n"},
        {[](Case& c) { c.survey.nodes[0].stats.add("lease_stopped", "1"); },
         "wrong leases: a grants none: a store found no memory\n"},
        {[](Case& c) { c.survey.nodes[0].stats = stats({{"limit_maxbytes", "67108864"}, {"farnode_version", "1.0"},
                                                        {"reclaim_pending_bytes", "6710886"}}); },
         "wrong leases: a keeps 6.4M of 64M for stale leases, of items that are gone\n"},
        {[](Case& c) { c.patients[0].version = "0.9"; }, "wrong versions: /p is 0.9, and farctl 1.0\n"},
        {[](Case& c) { c.survey.nodes[0].stats = stats({{"pid", "1"}}); },
         "wrong versions: node a is an older version, and farctl 1.0\n"},
        {[](Case& c) { c.survey.nodes[0].seen[0].protocol_version = 3; },
         "wrong versions: /p and node a speak version 3 of the protocol, not 13\n"},
    };
    for (const auto& [change, expected] : cases) {
        Case facts = healthy();
        change(facts);
        tap::is(trouble(facts), expected, std::string("doctor: ") + expected);
    }
    Case alone;
    alone.machine = healthy_machine();
    alone.machine.devices.clear();
    tap::is(trouble(alone), "", "without a daemon the host is checked");
}

// The source of the list of nodes, and registrations.
void test_discovery() {
    const auto of = [](const char* source, const char* state, const char* serving, const char* right_ms) {
        Case facts = healthy();
        facts.survey.proxies.emplace_back().socket = "/p";
        if (*source != '\0')
            facts.survey.proxies[0].discovery = stats({{"source", source}, {"state", state}, {"nodes_in_use", "2"},
                                                       {"answer_age_s", "9"}, {"last_error", "no answer in time"}});
        if (*serving != '\0') facts.survey.nodes[0].stats.add("serving", serving);
        if (*right_ms != '\0') facts.survey.nodes[0].stats.add("right_left_ms", right_ms);
        return facts;
    };
    const auto found = [](const Case& facts) {
        for (const Finding& one : findings_of(facts))
            if (one.subject == "discovery") return one;
        return Finding{Verdict::ok, "none", ""};
    };
    constexpr const char *etcd = "etcd://e:2379/far", *dns = "dns+nodes.test:11300";
    tap::is(found(of("", "", "", "")).subject, "none", "without --discover there is no finding");
    tap::is(found(of(dns, "up", "", "")).text, "each source answers", "a source that answers");
    tap::is(found(of(etcd, "up", "1", "1500")).text, "each source answers, and nodes are registered", "and a registered node");
    tap::is(found(of("", "", "1", "1500")).text, "nodes are registered", "a registered node alone");
    for (const char* source : {etcd, dns}) {
        const Case facts = of(source, "down", "1", "1500");
        tap::is(trouble(facts), std::string("wrong discovery: /p: discovery is down: no list of nodes from ") + source +
                " for 9s (no answer in time); the last list, of 2 nodes, stays in use, without later joins and leaves\n",
                "a source that is down");
        tap::ok(found(facts).remedy.starts_with(source == etcd ? "check etcd, " : "check the DNS server, "), "and its remedy");
    }
    struct Refusing {
        const char *etcd_silent, *text, *remedy;
    };
    constexpr Refusing refusing[] = {
        {"0", "it is not registered in etcd, and refuses requests for keys", "see its log: etcd refuses it, "},
        {"1", "etcd does not answer it, so it refuses requests for keys", "check etcd, "},
        {"", "it is not registered in etcd, or etcd does not answer it, and it refuses requests for keys",
         "see its log: this farnode is older"},
    };
    for (const Refusing& one : refusing) {
        Case facts = of("", "", "0", "0");
        if (*one.etcd_silent != '\0') facts.survey.nodes[0].stats.add("etcd_silent", one.etcd_silent);
        tap::is(trouble(facts), std::string("wrong discovery: a: ") + one.text + ": gets miss, changes fail\n",
                "a node that refuses requests");
        tap::ok(found(facts).remedy.starts_with(one.remedy), "and its remedy");
    }
    tap::is(trouble(of(etcd, "up", "1", "0")),
            "wrong discovery: a: etcd does not answer it, so its memory is not read one-sided: each get is a request\n",
            "a node whose right has ended");
}

// With more queue pairs than its device's contexts.
void test_queue_pairs() {
    const auto warning = [](uint64_t links, uint64_t connections, const char* type, const char* address) {
        Case facts = healthy();
        NodeFacts& node = facts.survey.nodes[0];
        node.address = address;
        node.seen[0].links_up = links;
        node.stats.add("connections_opened", std::to_string(connections + 1000));
        node.stats.add("connections_over", "1000");
        facts.machine.devices[0].type = type;
        return trouble(facts);
    };
    constexpr const char *rdma = "verbs:10.0.0.1:1", *tcp = "tcp:10.0.0.1:1", *end =
        "; a ConnectX-5 caches at most 2048 contexts, so READs get slower\n";
    tap::is(warning(2048, 2048, "MT4119", rdma), "", "as many queue pairs as contexts");
    tap::is(warning(2049, 1, "MT4119", rdma),
            std::string("note queue pairs: the proxies of this host have 2049 queue pairs") + end, "more");
    tap::is(warning(1, 8000, "MT4119", rdma),
            std::string("note queue pairs: node a has 8000 connections, over RDMA a queue pair each") + end, "more at a node");
    tap::is(warning(9000, 9000, "MT4129", rdma), "", "a device with more contexts");
    tap::is(warning(9000, 9000, "", rdma), "", "an unknown device");
    tap::is(warning(9000, 9000, "MT4119", tcp), "", "links over tcp");
}

void test_findings() {
    const std::vector<Finding> two = {{Verdict::ok, "nodes", "1 node is up"}, {Verdict::wrong, "leases", "bad", "do it"}};
    tap::is(doctor_text(two),
            "ok     nodes            1 node is up\n"
            "WRONG  leases           bad\n       remedy: do it\n\n1 thing is wrong\n",
            "as text");
    tap::ok(json_of(two)[0]["remedy"].is_null() && json_of(two)[1]["verdict"] == "wrong", "as JSON");
}

// A copy of the files that describe a host.
void test_machine() {
    const std::filesystem::path root = std::filesystem::temp_directory_path() / ("farctl-machine-" + std::to_string(getpid()));
    const auto write = [&](const std::string& name, const char* text) {
        std::filesystem::create_directories((root / name).parent_path());
        std::ofstream(root / name) << text;
    };
    tap::ok(read_machine(root).devices.empty() && read_machine(root).huge_pages.empty(), "an unknown host");
    write("sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE\n");
    write("sys/class/infiniband/rxe0/hca_type", "MT4119\n");
    write("dev/infiniband/uverbs0", "");
    write("dev/shm/farcached-3-65000", "");
    write("dev/shm/farcached-other", "");
    write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    write("proc/sys/net/core/somaxconn", "128\n");
    write("proc/7/limits", "Limit                     Soft Limit           Hard Limit           Units\n"
                           "Max open files            1024                 4096                 files\n"
                           "Max locked memory         unlimited            unlimited            bytes\n");
    const Machine machine = read_machine(root);
    tap::ok(machine.devices.size() == 1 && machine.devices[0].ports == std::vector<std::string>{"ACTIVE"} && machine.has_verbs_file,
            "its devices");
    tap::is(machine.devices[0].type, "MT4119", "their type");
    tap::ok(machine.tables.size() == 1 && machine.tables[0].named_user == 65000 && machine.tables[0].owner == getuid(),
            "its tables");
    tap::ok(machine.huge_pages == "madvise" && machine.huge_pages_shared.empty() && machine.somaxconn == 128u, "its kernel");
    const auto limits = limits_of_process(root, 7);
    tap::ok(limits && limits->descriptors == 1024u && !limits->locked_bytes, "limits of a process");
    tap::ok(!limits_of_process(root, 8), "of none");
    write("proc/70/status", "Name:\tx\nNSpid:\t70\t7\nNSsid:\t70\t8\n");
    write("proc/1/status", "Name:\tsystemd\nNSpid:\t1\n");
    for (const auto& [pid, program] : {std::pair{"9", "/usr/bin/farcached (deleted)"}, std::pair{"10", "/usr/bin/other"}}) {
        std::filesystem::create_directories(root / "proc" / pid);
        std::filesystem::create_symlink(program, root / "proc" / pid / "exe");
    }
    tap::ok(pid_of_daemon(root, 7, 7) == 7u, "the pid of a daemon in this PID namespace");
    tap::ok(pid_of_daemon(root, 7, 70) == 70u, "of one in a namespace within");
    tap::ok(!pid_of_daemon(root, 7, 0), "of one that is not visible");
    tap::ok(pid_of_daemon(root, 9, 1) == 9u, "of one whose socket systemd made");
    tap::ok(!pid_of_daemon(root, 10, 1), "another process has that pid here");
    write("proc/11/comm", "farnode\n");
    write("proc/12/comm", "other\n");
    tap::ok(pid_of_daemon(root, 11, 1) == 11u, "of one whose program may not be read");
    tap::ok(!pid_of_daemon(root, 12, 1), "but not of another process");
    std::filesystem::remove_all(root);
}

// ---- the console --------------------------------------------------------------------------------------------

void test_console() {
    using Words = std::vector<std::string>;
    const std::pair<const char*, Words> lines[] = {
        {"", {}},
        {"  ", {}},
        {"status", {"status"}},
        {" stats  -\titems ", {"stats", "-", "items"}},
        {"route \"a b\"", {"route", "a b"}},
        {"route a\\ b", {"route", "a b"}},
        {"route ''", {"route", ""}},
        {"route a'\\'b", {"route", "a\\b"}},
        {"route \"a\\\"b\"", {"route", "a\"b"}},
        {"route a\\", {"route", "a\\"}},
    };
    for (const auto& [line, words] : lines) tap::ok(words_of_line(line) == words, std::string("the words of: ") + line);
    tap::ok(!words_of_line("route \"a") && !words_of_line("'"), "an open quote");
    tap::is(history_path("/state", "/home/x"), "/state/farctl_history", "the history is below $XDG_STATE_HOME");
    tap::is(history_path(nullptr, "/home/x"), "/home/x/.local/state/farctl_history", "or below the home");
    tap::is(history_path("relative", "/home/x"), "/home/x/.local/state/farctl_history", "a relative one does not count");
    tap::is(history_path("", nullptr), "", "or nowhere");
}

}  // namespace

int main() {
    test_slow_log();
    test_prefix();
    test_prefix_progress();
    test_plan();
    test_members();
    test_doctor();
    test_discovery();
    test_queue_pairs();
    test_findings();
    test_machine();
    test_console();
    return tap::done();
}
