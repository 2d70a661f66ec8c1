// SPDX-License-Identifier: BSD-3-Clause
// farctl's pure parts: its command line, its numbers and tables, its summaries of statistics, JSON, and rates.
#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ctl/command_line.h"
#include "ctl/format.h"
#include "ctl/server.h"
#include "ctl/show.h"
#include "ctl/survey.h"
#include "ctl/top.h"
#include "t/lib/tap.h"

namespace {

using namespace farcached::ctl;

CommandLine parse(std::vector<const char*> words, const char* standard_socket = nullptr) {
    words.insert(words.begin(), "farctl");
    return parse_command_line(words, standard_socket);
}

Stats stats(std::initializer_list<std::pair<const char*, const char*>> rows) {
    Stats made;
    for (const auto& [name, value] : rows) made.add(name, value);
    return made;
}

// -- The command line -------------------------------------------------------------------------------------

void test_command_line() {
    CommandLine line = parse({"status"});
    tap::ok(!line.exit_status && line.options.command == Command::status, "status");
    tap::is(line.options.sockets.at(0), "/run/farcached/admin.sock", "the socket by default");
    tap::ok(line.options.interval_ms == 2000 && line.options.timeout_ms == 5000, "the times by default");
    tap::is(parse({"status"}, "/x").options.sockets.at(0), "/x", "the socket of $FARCTL_SOCKET");
    tap::is(parse({"status"}, "").options.sockets.at(0), "/run/farcached/admin.sock", "empty, it is ignored");
    line = parse({"--socket", "/a", "stats", "--socket=/b", "n1", "leases", "--json", "--timeout=0.25"}, "/x");
    tap::ok(!line.exit_status && line.options.sockets == std::vector<std::string>{"/a", "/b"}, "two sockets");
    tap::ok(line.options.words == std::vector<std::string>{"n1", "leases"}, "the command's words");
    tap::ok(line.options.json && line.options.timeout_ms == 250, "options behind the command");
    tap::is(parse({"--help"}).exit_status.value_or(-1), 0, "--help ends well");
    for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{
             {"route", "--help"}, {"-h", "route"}, {"help", "route"}, {"route", "k", "--help"}})
        tap::ok(parse(words).exit_status == 0 && parse(words).out.starts_with("Usage: farctl [<option>]... route KEY\n"),
                std::string("a command's help: ") + words[0] + " " + words[1]);
    tap::ok(parse({"route", "-h"}).out.find("--plan") != std::string::npos &&
                parse({"route", "-h"}).out.find("--dry-run") == std::string::npos, "with its options, and no other's");
    tap::is(parse({"-h"}).out, parse({"--help"}).out, "-h");
    tap::is(parse({"help"}).out, parse({"--help"}).out, "help");
    tap::is(parse({"-V"}).out, parse({"--version"}).out, "-V");
    line = parse({"route", "--plan=/f"});
    tap::ok(!line.exit_status && line.options.plan == "/f" && line.options.words.empty(), "route --plan needs no key");
    tap::ok(parse({"delete-prefix", "a", "--dry-run"}).options.dry_run && parse({"status", "--wide"}).options.wide,
            "options of a command");
    tap::is(parse({"--version"}).out.substr(0, 7), "farctl ", "--version names the program");
    tap::ok(parse({"--print-man"}).out.starts_with(".SH COMMANDS\n"), "--print-man is roff");

    const std::pair<std::vector<const char*>, const char*> refused[] = {
        {{}, "no command given; commands: status, members, top,"},
        {{"statsu"}, "unknown command 'statsu', did you mean 'stats'? Allowed: status, members, top,"},
        {{"drain"}, "usage: farctl drain NODE"},
        {{"reload", "a"}, "usage: farctl reload"},
        {{"drain", "a", "b"}, "usage: farctl drain NODE"},
        {{"status", "a"}, "usage: farctl status"},
        {{"stats", "a", "b", "c"}, "usage: farctl stats [NODE] [GROUP]"},
        {{"stats", "a b"}, "contain no blanks"},
        {{"drain", ""}, "contain no blanks"},
        {{"drain", "a\nquit"}, "contain no blanks"},
        {{"--socket=", "status"}, "--socket: '' is not the path of a Unix socket"},
        {{"status", "--interval=0"}, "--interval: '0' is not a number of seconds from 0.1 to 3600"},
        {{"status", "--interval=nan"}, "is not a number of seconds"},
        {{"status", "--timeout=2s"}, "is not a number of seconds"},
        {{"--nosuch", "status"}, "unknown option --nosuch"},
        {{"status", "--socket"}, "--socket needs a value"},
        {{"status", "-x"}, "unknown option -x"},
        {{"status", "--dry-run"}, "--dry-run is an option of delete-prefix"},
        {{"route", "k", "--plan=/f"}, "usage: farctl route --plan=<file>"},
        {{"help", "route", "k"}, "usage: farctl help [COMMAND]"},
        {{"help", "rout"}, "unknown command 'rout', did you mean 'route'?"},
        {{"slowlog", "1", "2"}, "usage: farctl slowlog [N]"},
    };
    for (const auto& [words, sentence] : refused) {
        line = parse(words);
        tap::is(line.exit_status.value_or(-1), 64, std::string("refused: ") + sentence);
        tap::ok(line.err.find(sentence) != std::string::npos, "  in these words: " + line.err);
    }
}

// Options of one command, without that command: for farctl itself, for its console, and in a line of the console.
void test_options_without_command() {
    const std::vector<std::string> general = option_names({});
    std::vector<std::string> tested;
    for (const std::string_view name : command_names()) {
        const std::string command(name);
        for (std::string option : option_names(parse({command.c_str(), "--print-arguments"}).options.command)) {
            if (std::ranges::find(general, option) != general.end()) continue;
            const std::string sentence = "farctl: " + option + " is an option of " + command + "; see farctl --help\n";
            tested.push_back(option);
            if (parse({option.c_str()}).err.find("needs a value") != std::string::npos) option += "=1";
            const char* const words[] = {"farctl", option.c_str()};
            const std::string typed[] = {option};
            const CommandLine lines[] = {parse({option.c_str()}), parse_command_line(words, nullptr, WithoutCommand::is_console),
                                         parse_console_line(typed, parse({"status"}).options)};
            for (const CommandLine& line : lines) {
                tap::is(line.exit_status.value_or(-1), 64, "without a command: " + option);
                tap::is(line.err, sentence, "  in these words");
            }
        }
    }
    tap::ok(tested == std::vector<std::string>{"--wide", "--interval", "--once", "--plan", "--dry-run"}, "each such option");
    const char* const words[] = {"farctl", "--timeout=1"};
    const CommandLine console = parse_command_line(words, nullptr, WithoutCommand::is_console);
    tap::ok(!console.exit_status && !console.has_command && console.options.timeout_ms == 1000, "others hold in the console");
}

// -- Numbers and tables -----------------------------------------------------------------------------------

void test_format() {
    const std::pair<uint64_t, const char*> sizes[] = {
        {0, "0"}, {1023, "1023"}, {1024, "1K"}, {1536, "1.5K"}, {10'240, "10K"}, {102'350, "100K"},
        {64 << 20, "64M"}, {uint64_t(5) << 30, "5G"}, {UINT64_MAX, "16E"}};
    for (const auto& [bytes, text] : sizes) tap::is(human_bytes(bytes), text, std::string("bytes: ") + text);
    const std::pair<double, const char*> counts[] = {
        {0, "0"}, {-1, "0"}, {7.25, "7.2"}, {99.97, "100"}, {999, "999"}, {1234, "1234"}, {12'345, "12.3k"},
        {4'500'000, "4.5M"}};
    for (const auto& [count, text] : counts) tap::is(human_count(count), text, std::string("count: ") + text);
    const std::pair<uint64_t, const char*> times[] = {
        {0, "0s"}, {59, "59s"}, {60, "1m00s"}, {3599, "59m59s"}, {18'420, "5h07m"}, {86'400 * 12 + 10'800, "12d03h"}};
    for (const auto& [seconds, text] : times) tap::is(duration(seconds), text, std::string("time: ") + text);
    tap::is(percent(1, 0), "-", "of nothing");
    tap::is(percent(2, 3), "66.7%", "of something");
    tap::is(printable("a\x1b[2J\tb\xc3\xa9"), "a?[2J?b??", "control characters do not reach a terminal");

    TextTable table({"NAME", ">COUNT", "LAST"});
    tap::ok(table.empty() && table.lines().size() == 1, "a table of a head");
    table.add({"a", "1", ""});
    table.add({"longer\n", "12345678", "x"});
    const std::vector<std::string> lines = table.lines();
    tap::is(lines.at(0), "NAME        COUNT  LAST", "columns are as wide as what is in them");
    tap::is(lines.at(1), "a               1", "and aligned");
    tap::is(lines.at(2), "longer?  12345678  x", "and printable");
}

void test_stats() {
    const Stats some = stats({{"a", "12"}, {"b", "x"}, {"zeros", "007"}, {"big", "18446744073709551616"}, {"none", ""}});
    tap::is(some.count("a"), 12u, "a number");
    tap::ok(!some.number("b") && !some.number("zeros") && !some.number("big") && !some.number("none"), "no numbers");
    tap::ok(!some.number("c") && some.find("c") == nullptr && some.text("c").empty(), "a missing statistic");
    const auto nodes = split_by_node(stats({{"a:state", "up"}, {"b:state", "down"}, {"a:address", "tcp:[::1]:1"},
                                            {"stray", "1"}, {"b:down_reason", "the node ended the connection"}}));
    tap::is(nodes.size(), 2u, "two nodes");
    tap::is(nodes.at(0).second.text("address"), "tcp:[::1]:1", "of the first");
    tap::is(nodes.at(1).second.text("down_reason"), "the node ended the connection", "and of the second");
}

// -- What is shown ----------------------------------------------------------------------------------------

Survey two_nodes() {
    Survey survey;
    NodeFacts a;
    a.name = "a";
    a.address = "shm:/run/a.sock";
    a.incarnation = "0000000000000012";
    a.key = "proxy key k";
    a.seen = {{"/p", "up", "", 4, 4}, {"/q", "down", "it was silent", 4, 0}};
    a.hits_unseen = 60;
    a.stats = stats({{"uptime", "100"}, {"bytes", "1024"}, {"limit_maxbytes", "67108864"}, {"curr_items", "3"},
                     {"cmd_get", "40"}, {"get_hits", "20"}, {"accesses", "10"}, {"cmd_set", "5"}, {"evictions", "1"},
                     {"lease_bytes", "512"}, {"incarnation", "1234567812345678"}});
    NodeFacts b;
    b.name = "b";
    b.seen = {{"/p", "drained", "", 4, 4}, {"/q", "drained", "", 4, 4}};
    survey.nodes = {a, b};
    ProxyFacts p;
    p.socket = "/p";
    p.general = stats({{"pid", "7"}, {"uptime", "100"}, {"curr_connections", "2"}, {"cmd_get", "100"}, {"get_hits", "80"},
                       {"cmd_set", "5"}, {"farcached_version", "1"}});
    p.proxy = stats({{"get_local", "10"}, {"get_onesided", "50"}, {"get_index", "0"}, {"get_twosided", "40"}});
    survey.proxies = {p};
    return survey;
}

void test_show() {
    const Survey survey = two_nodes();
    tap::is(survey.nodes[0].state(), "mixed", "proxies that differ");
    tap::is(survey.nodes[1].state(), "drained", "and that do not");
    tap::is(survey.nodes[0].gets(), 100u, "gets are those that it saw and those that it did not");
    tap::is(status_text(survey),
            "NODE  STATE    ADDRESS             MEMORY  ITEMS   HITS  UPTIME\n"
            "a     mixed    shm:/run/a.sock  1K of 64M      3  80.0%   1m40s\n"
            "b     drained                           -      -      -       -\n"
            "\n"
            "PROXY  PID  UPTIME  CLIENTS  GETS   HITS  LOCAL  ONE-SIDED  INDEX  TWO-SIDED\n"
            "/p       7   1m40s        2   100  80.0%  10.0%      50.0%   0.0%      40.0%\n"
            "\n"
            "a: down for /q, 0 of 4 connections up; last down: it was silent\n"
            "b: drained for /p, 4 of 4 connections up\n"
            "b: drained for /q, 4 of 4 connections up\n",
            "status");
    tap::is(status_text({}), "", "no statistics, no text");
    tap::is(status_text({}, {}, {"too many", "queue pairs"}), "too many\nqueue pairs\n", "warnings are lines");
    const std::string wide = status_text(survey, {.wide = true}), coloured = status_text(survey, {.colour = true});
    tap::ok(wide.find("UPTIME  INCARNATION       KEY\n") != std::string::npos &&
                wide.find("1m40s  0000000000000012  proxy key k\n") != std::string::npos,
            "--wide: incarnations and keys");
    tap::ok(coloured.starts_with("\x1b[1mNODE  STATE    ADDRESS ") &&
                coloured.find("a     \x1b[33mmixed\x1b[0m    shm:/run/a.sock  1K of 64M") != std::string::npos,
            "in colours the columns stand where they stood");
    tap::ok(painted("x", tone_of_state("up")) == "\x1b[32mx\x1b[0m" && painted("x", tone_of_state("down")) == "\x1b[31mx\x1b[0m",
            "up is green, down red");
    tap::is(hot_keys_text({1, {{"get_local", "hot", 90, 3}, {"get_local", "even", 4, 4}, {"get_local", "cold", 4, 5}}}),
            "WAY        REQUESTS  TOO HIGH BY  KEY\n"
            "get_local        90            3  hot\n"
            "get_local         4            4  even\n",
            "hot keys: without those that may have had no request");
    tap::is(hot_keys_text({1, {{"get_local", "cold", 4, 5}}}), "no key is requested much more often than others\n", "or none");
    tap::is(hot_keys_text({1, {}}), "no requests yet\n", "or no requests");
    tap::is(stats_text(stats({{"a", "1"}, {"longer", "2\x1b"}})), "a       1\nlonger  2?\n", "stats");
    tap::is(pointers_text(stats({{"entries", "100"}, {"valid", "30"}, {"lease_left_le_1000", "10"},
                                 {"lease_left_le_4000", "30"}}),
                          stats({{"pointer_hits", "5"}, {"get_local", "1"}})),
            "entries       100\nvalid         30 (30.0%)\npointer_hits  5\n\n"
            "LEASE LEFT  POINTERS\n"
            "to 1000 ms        10  ##############\n"
            "to 4000 ms        20  ###########################\n",
            "pointers");
    tap::is(leases_text({{"a", stats({{"lease_term_ms", "4000"}, {"lease_granted", "7"}, {"lease_denied_young", "2"},
                                      {"lease_denied_short", "1"}, {"lease_bytes", "2048"}})}}),
            "NODE     TERM  GRANTED  RENEWED  DENIED  YOUNG  DEAD  NO ROOM  SHORT  MOVED  DRAINING  LEASED  PENDING\n"
            "a     4000 ms        7        -       3      2     -        -      1      -         -      2K        -\n",
            "leases");
}

// The source of the list of nodes, and a node without a registration.
void test_membership() {
    Survey survey;
    ProxyFacts& proxy = survey.proxies.emplace_back();
    proxy.socket = "/p";
    const auto shown = [](const char* state, const char* age_s, const char* error, const char* nodes) {
        return stats({{"source", "etcd://e:2379/far"}, {"state", state}, {"nodes_in_use", nodes}, {"answer_age_s", age_s},
                      {"last_error", error}});
    };
    const auto remark = [&] {
        const std::string text = status_text(survey);
        const size_t tables_end = text.rfind("\n\n");
        return tables_end == text.npos ? "" : text.substr(tables_end + 2);
    };
    tap::is(remark(), "", "status without a source of the list");
    tap::ok(json_of(survey)["proxies"][0]["discovery"].is_null(), "which is null");
    proxy.discovery = shown("up", "1", "e: no answer in time", "3");
    tap::is(remark(), "", "a source that answers again");
    tap::ok(json_of(survey)["proxies"][0]["discovery"]["state"] == "up", "as JSON");
    proxy.discovery = shown("down", "72", "e: no\nanswer", "3");
    tap::is(remark(), "/p: discovery is down: no list of nodes from etcd://e:2379/far for 1m12s (e: no?answer); "
                      "the last list, of 3 nodes, stays in use\n", "one that is down: since when, why, and the consequence");
    tap::ok(json_of(survey)["proxies"][0]["discovery"]["answer_age_s"] == 72, "as JSON");
    proxy.discovery = shown("down", "", "", "1");
    tap::is(remark(), "/p: discovery is down: no list of nodes from etcd://e:2379/far; the last list, of 1 node, stays in use\n",
            "what is not known is left out");
    proxy.discovery = {};
    proxy.proxy = stats({{"replica_search_left", "0"}, {"replica_missing", "0"}});
    tap::is(remark(), "", "all items have their copies");
    proxy.proxy = stats({{"replica_search_left", "2"}, {"replica_missing", "1"}});
    tap::is(remark(), "/p: copies may be missing: 2 nodes left to search, 1 key without a copy; until then no second node should "
                      "end, which could lose items\n", "some may be missing: what is left, and the consequence");
    proxy.proxy = {};
    NodeFacts& node = survey.nodes.emplace_back();
    node.name = "a";
    node.stats = stats({{"serving", "1"}, {"right_left_ms", "0"}});
    tap::ok(status_text(survey).find("registered") == std::string::npos, "a node that serves");
    node.stats = stats({{"serving", "0"}, {"etcd_silent", "0"}});
    tap::is(remark(), "a: it is not registered in etcd, and refuses requests for keys\n", "one that does not");
    node.stats = stats({{"serving", "0"}, {"etcd_silent", "1"}});
    tap::is(remark(), "a: etcd does not answer it, so it refuses requests for keys\n", "because etcd is silent");
    node.stats = stats({{"serving", "0"}});
    tap::is(remark(), "a: it is not registered in etcd, or etcd does not answer it, and it refuses requests for keys\n",
            "through a proxy, or of an older version: one of the two");
}

void test_onesided() {
    const Stats before = stats({{"get_onesided", "10"}, {"get_index", "0"}, {"get_twosided", "10"}, {"get_reason_no_pointer", "10"},
                                {"get_onesided_share", "0.500"}, {"lease_granted", "40"}, {"lease_denied", "500"}});
    const Stats now = stats({{"get_onesided", "80"}, {"get_index", "10"}, {"get_twosided", "30"}, {"get_reason_no_pointer", "15"},
                             {"get_reason_dead", "14"}, {"get_reason_order", "0"}, {"get_reason_denied_dead", "300"},
                             {"get_onesided_share", "0.750"}, {"lease_granted", "139"}, {"lease_denied", "800"},
                             {"lease_unusable", "1"}});
    const OneSidedFacts facts = onesided_of(now);
    tap::is(facts.grantable, 940u, "replies that could bring a pointer, also to stores");
    tap::ok(facts.onesided == 90 && facts.all == 120, "GETs one-sided, and all through connections to nodes");
    tap::ok(facts.reasons.size() == 2 && facts.reasons[0].first == "no_pointer" && facts.reasons[1].second == 14,
            "reasons that occurred, the most frequent first");
    tap::ok(facts.denials.size() == 1 && facts.denials[0].first == "denied_dead", "denials apart");
    tap::is(onesided_of(stats({{"get_local", "5"}})).all, 0u, "a proxy without nodes has none");
    Survey early = two_nodes(), late = two_nodes();
    early.proxies[0].proxy = before;
    late.proxies[0].proxy = now;
    const std::vector<std::string> lines = top_lines(late, &early, 2, {}, "12:00:00");
    tap::is(lines.at(lines.size() - 2), "PROXY  ONE-SIDED  OTHER GETS, BY REASON        POINTERS DENIED", "top has a table");
    tap::is(lines.back(), "/p         80.0%  dead 14.0%, no_pointer 5.0%  denied_dead 75.0%", "by what grew since the look before");
    const Json json = top_json(late, &early, 2, {}, "12:00:00")["proxies"][0];
    tap::ok(json["one_sided_share"] == 0.8 && json["not_one_sided"]["dead"] == 14, "and in JSON");
    tap::ok(json["pointer_denials"]["denied_dead"] == 300 && json["pointer_replies"] == 400, "denials, too");
}

void test_json() {
    const Json status = json_of(two_nodes());
    tap::is(status["nodes"][0]["hit_ratio"].get<double>(), 0.8, "JSON: a ratio");
    tap::ok(status["nodes"][1]["items"].is_null() && status["nodes"][1]["hit_ratio"].is_null(), "missing values are null");
    tap::ok(status["nodes"][0]["stats"]["incarnation"].is_string(), "an incarnation of digits is no number");
    tap::is(status["proxies"][0]["answered"]["get_onesided"].get<uint64_t>(), 50u, "ways of answering");
    tap::is(dump(json_of(stats({{"a\"b", "\x1b\xff"}})), true), "{\"a\\\"b\":\"\\u001b\xef\xbf\xbd\"}\n",
            "what is no text is made one");
}

// -- top --------------------------------------------------------------------------------------------------

void test_rates() {
    const Survey before = two_nodes();
    Survey now = two_nodes();
    now.nodes[0].stats = stats({{"uptime", "102"}, {"cmd_get", "60"}, {"get_hits", "30"}, {"cmd_set", "15"},
                                {"evictions", "0"}, {"bytes", "2048"}});
    now.nodes[0].hits_unseen = 140;
    std::vector<TopNode> nodes = top_nodes(now, &before, 2);
    tap::is(nodes.at(0).gets_s, 50.0, "gets per second: 20 seen and 80 not, in two");
    tap::is(nodes[0].sets_s, 5.0, "sets per second");
    tap::is(nodes[0].evictions_s, 0.0, "a counter that fell has restarted");
    tap::is(nodes[0].hit_ratio.value_or(-1), 0.9, "the hit ratio of the gets in between");
    tap::ok(!nodes.at(1).known && !nodes[1].hit_ratio, "no values for a node without statistics");
    tap::is(top_nodes(before, nullptr, 0).at(0).gets_s, 1.0, "without an earlier sample, since the start");
    now.nodes[0].incarnation = "0000000000000013";
    tap::is(top_nodes(now, &before, 2).at(0).sets_s, 15 / 102.0, "a new run of a node is since its start");
    tap::is(top_nodes(before, &before, 2).at(0).gets_s, 0.0, "nothing happened");
}

void test_sorting() {
    std::vector<TopNode> nodes(3);
    nodes[0].name = "c", nodes[0].memory = 1;
    nodes[1].name = "a", nodes[1].memory = 3;
    nodes[2].name = "b", nodes[2].memory = 3;
    auto order = [&](TopView view) {
        sort_nodes(nodes, view);
        return nodes[0].name + nodes[1].name + nodes[2].name;
    };
    tap::is(order({TopColumn::name, false}), "abc", "by name");
    tap::is(order({TopColumn::memory, false}), "abc", "the largest first, equals by name");
    tap::is(order({TopColumn::memory, true}), "cba", "reversed");
    TopView view;
    tap::ok(press('m', view) == TopKey::again && view.sort == TopColumn::memory, "m: by memory");
    tap::ok(press('r', view) == TopKey::again && view.reverse, "r: reversed");
    tap::ok(press('x', view) == TopKey::nothing && press('q', view) == TopKey::quit, "q ends it, others do nothing");

    const Survey survey = two_nodes();
    const std::vector<std::string> lines = top_lines(survey, &survey, 2, view, "12:00:00");
    tap::is(lines.at(0), "farctl top  12:00:00  2 nodes, 1 proxy, the last 2.0 s, by memory, reversed", "the head");
    tap::is(lines.at(3).substr(0, 12), "NODE  STATE ", "the table's");
    tap::is(lines.at(4).substr(0, 2), "b ", "sorted");
    const Json json = top_json(survey, nullptr, 0, {}, "12:00:00");
    tap::ok(json["seconds"].is_null() && json["nodes"][0]["gets_per_s"] == 1.0, "as JSON");
}

}  // namespace

int main() {
    test_command_line();
    test_options_without_command();
    test_format();
    test_stats();
    test_show();
    test_membership();
    test_onesided();
    test_json();
    test_rates();
    test_sorting();
    return tap::done();
}
