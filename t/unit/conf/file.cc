// SPDX-License-Identifier: BSD-3-Clause
// The tables of options in files: every key at its minimum, its maximum, beyond each, of a wrong type and with a wrong unit.
// Written settings are read back the same; units; the result of a reload; /etc/memcached.conf.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "conf/addresses.h"
#include "conf/check_settings.h"
#include "conf/command_line.h"
#include "conf/config_file.h"
#include "conf/help.h"
#include "conf/option.h"
#include "t/lib/tap.h"

using namespace farcached;
using namespace farcached::conf;

namespace {

struct Daemon {
    std::string name;
    std::vector<Option> table;
    const Program& program;
    std::vector<const char*> least;  // words without which it does not start
};

std::vector<Daemon> daemons() {
    const std::span<const Option> of_node = node_option_table();
    return {{"farcached", option_table_with_nodes(), farcached_program(), {}},
            {"farnode", {of_node.begin(), of_node.end()}, farnode_program(), {"--shm", "/a"}}};
}

struct Read {
    Settings settings;
    std::string errors;
};

Read read(const Daemon& daemon, std::string_view text) {
    Read read{defaults(daemon.table), {}};
    for (const std::string& line : read_config_text(text, "f", daemon.table, read.settings)) read.errors += line + "\n";
    return read;
}

CommandLine parse(const Daemon& daemon, std::vector<std::string> words) {
    std::vector<const char*> argv = {daemon.name.c_str()};
    for (const char* word : daemon.least) argv.push_back(word);
    for (const std::string& word : words) argv.push_back(word.c_str());
    return parse_command_line(argv, daemon.table, daemon.program);
}

// A temporary file; the destructor removes it.
struct TemporaryFile {
    explicit TemporaryFile(std::string_view text) {
        char name[] = "/tmp/farcached-test-XXXXXX";
        const int fd = mkstemp(name);
        path = name;
        if (fd < 0 || write(fd, text.data(), text.size()) != ssize_t(text.size())) std::abort();
        close(fd);
    }
    ~TemporaryFile() { unlink(path.c_str()); }
    std::string path;
};

std::string line_of(const Option& option, const std::string& value) {
    return std::string(key_of(option)) + " = " + value + "\n";
}

// ---- every key ------------------------------------------------------------------------------------------

void accepts(const Daemon& daemon, const Option& option, const std::string& value, const std::string& want) {
    const Read got = read(daemon, line_of(option, value));
    tap::is(got.errors, "", daemon.name + ": " + line_of(option, value));
    if (got.errors.empty()) tap::is(written(option, got.settings), want, "is written back the same");
}

// The error names the place, the key, and the allowed values; no setting changes.
void refuses(const Daemon& daemon, const Option& option, const std::string& value) {
    const Read got = read(daemon, line_of(option, value));
    const std::string start = "f:1:" + std::to_string(key_of(option).size() + 4) + ": " + std::string(key_of(option)) + ": ";
    tap::ok(got.errors.starts_with(start), daemon.name + " refuses " + line_of(option, value));
    if (!got.errors.starts_with(start)) tap::note("said: %s", got.errors.c_str());
    bool says = false;
    for (const char* words : {"llowed: ", " is not ", " is out of range: "}) says |= got.errors.find(words) != std::string::npos;
    tap::ok(says, "and the error lists what is allowed");
    tap::is(written(option, got.settings), written(option, defaults(daemon.table)), "and keeps what held");
}

std::string whole(double number) { return std::to_string(int64_t(number)); }

void sweep_number(const Daemon& daemon, const Option& option) {
    const Kind& kind = option.kind;
    const double beyond_max = kind.power_of_two ? kind.max * 2 : kind.max + 1;
    accepts(daemon, option, whole(kind.min), whole(kind.min));
    accepts(daemon, option, whole(kind.max), whole(kind.max));
    if (option.initial != whole(kind.min - 1)) refuses(daemon, option, whole(kind.min - 1));
    refuses(daemon, option, whole(beyond_max));
    if (kind.power_of_two) refuses(daemon, option, whole(kind.min + 1));
    for (const char* wrong : {"true", "1.5", "[1]", "{ a = 1 }", "\"\"", "\"many\"", "1979-05-27", "9223372036854775807"})
        refuses(daemon, option, wrong);
    refuses(daemon, option, "\"" + whole(kind.max) + "\"");  // a text without a unit
    if (kind.unit == Unit::none) return refuses(daemon, option, "\"1s\"");
    const bool is_size = words_of(kind.unit) == words_of(Unit::bytes);
    refuses(daemon, option, is_size ? "\"1ms\"" : "\"1MB\"");
    refuses(daemon, option, "\"1 parsec\"");
    refuses(daemon, option, is_size ? "\"1mib\"" : "\"1S\"");
    const std::string large = "\"" + with_unit(int64_t(kind.max), kind.unit) + "\"";
    if (large.find_first_not_of("\"0123456789") != large.npos) accepts(daemon, option, large, whole(kind.max));
}

void sweep_size(const Daemon& daemon, const Option& option) {
    accepts(daemon, option, "1024", "1024");
    accepts(daemon, option, "\"1k\"", "1024");
    accepts(daemon, option, "\"1KB\"", "1024");
    accepts(daemon, option, "\"1024m\"", "1073741824");
    accepts(daemon, option, "\"1GB\"", "1073741824");
    for (const char* wrong : {"1023", "1073741825", "\"1023\"", "\"2GB\"", "\"1s\"", "true", "1.5", "-1", "[]", "\"\""})
        refuses(daemon, option, wrong);
}

void sweep_real(const Daemon& daemon, const Option& option) {
    const double middle = std::fmin(option.kind.min + 0.5, (option.kind.min + option.kind.max) / 2);
    char text[64];
    std::snprintf(text, sizeof text, "%g", middle);
    const Read got = read(daemon, line_of(option, text));
    tap::is(got.errors, "", daemon.name + ": " + line_of(option, text));
    for (double end : {option.kind.min, option.kind.max}) {
        std::snprintf(text, sizeof text, "%.1f", end);
        refuses(daemon, option, text);
        refuses(daemon, option, whole(end));
    }
    for (const char* wrong : {"nan", "inf", "true", "\"0.5\"", "[0.5]"}) refuses(daemon, option, wrong);
}

void sweep_text(const Daemon& daemon, const Option& option) {
    for (const char* wrong : {"1", "true", "1.5", "{ a = 1 }", "1979-05-27", "\"a\\u0000b\""}) refuses(daemon, option, wrong);
    if (!option.kind.several) refuses(daemon, option, "[\"a\"]");
    for (std::string_view choice : option.kind.choices)
        accepts(daemon, option, "\"" + std::string(choice) + "\"", std::string(choice));
    if (!option.kind.choices.empty() || !option.allowed.empty()) refuses(daemon, option, "\"\"");
    if (!option.kind.choices.empty()) refuses(daemon, option, "\"no such word\"");
}

void sweep_permissions(const Daemon& daemon, const Option& option) {
    for (const char* wrong : {"1", "\"a\"", "true", "[]", "{}"}) refuses(daemon, option, wrong);
    accepts(daemon, option, "{b = [\"write\", \"read\"], \"*\" = [], \"CN=x, O=y\" = [\"stats\", \"admin\"]}",
            "*=\nCN=x, O=y=admin,stats\nb=read,write\n");
    const std::string longest(255, 'i'), any = "an array of read, write, admin, stats";
    accepts(daemon, option, "{" + longest + " = []}", longest + "=\n");
    const struct {
        std::string value, complaint;
    } wrong[] = {{"{a = [\"reed\"]}", ".a: unknown class 'reed', did you mean 'read'? Allowed: read, write, admin, stats"},
                 {"{a = [\"read\", \"read\"]}", ".a: class 'read' given twice"},
                 {"{a = \"read\"}", ".a: found the text 'read'; allowed: " + any},
                 {"{a = [1]}", ".a: found an array; allowed: " + any},
                 {"{a = {b = 1}}", ".a: found a table; allowed: " + any},
                 {"{a = [\"read,write\"]}", ".a: found an array; allowed: " + any},
                 {"{\"\" = []}", ".: an identity is empty"},
                 {"{\"a\\nb\" = []}", ".a?b: an identity has a control character"},
                 {"{" + longest + "i = []}", "." + longest.substr(0, 64) + ": an identity is longer than 255 bytes"}};
    for (const auto& one : wrong) {
        const std::string errors = read(daemon, line_of(option, one.value)).errors;
        tap::ok(errors.starts_with("f:1:") && errors.ends_with(": permissions" + one.complaint + "\n"), "refused: " + one.value);
        tap::note("%s", errors.c_str());
    }
}

void sweep_key(const Daemon& daemon, const Option& option) {
    switch (option.kind.value) {
        case Value::integer: return sweep_number(daemon, option);
        case Value::size: return sweep_size(daemon, option);
        case Value::real: return sweep_real(daemon, option);
        case Value::text: return sweep_text(daemon, option);
        case Value::boolean:
            accepts(daemon, option, "true", "yes");
            accepts(daemon, option, "false", "no");
            for (const char* wrong : {"1", "\"yes\"", "\"true\"", "[true]", "1.0"}) refuses(daemon, option, wrong);
            return;
        case Value::tables:
            for (const char* wrong : {"1", "\"a\"", "true"}) refuses(daemon, option, wrong);
            return;
        case Value::permissions: return sweep_permissions(daemon, option);
        case Value::none: break;
    }
    tap::ok(false, daemon.name + ": a key without a value");
}

void test_every_key() {
    for (const Daemon& daemon : daemons()) {
        size_t keys = 0;
        for (const Option& option : daemon.table) {
            if (!is_key(option)) continue;
            keys++;
            sweep_key(daemon, option);
            if (!is_live(option) || option.section == Section::compat) continue;
            tap::ok(option.kind.copy != nullptr, std::string(key_of(option)) + " can be copied by a reload");
        }
        tap::ok(keys > 20, daemon.name + " has keys");
    }
}

// ---- what is written is read back -------------------------------------------------------------------------

// Another value than the default, as a file has it; empty: none is known.
std::string other_value(const Option& option) {
    const Kind& kind = option.kind;
    if (kind.value == Value::boolean) return option.initial == "yes" ? "false" : "true";
    if (kind.value == Value::size) return "\"2k\"";
    if (kind.value == Value::integer)
        return whole(option.initial == whole(kind.max) ? kind.min : kind.max);
    if (kind.value == Value::real) return kind.max > 2 ? "1.75" : "0.25";
    const std::string_view key = key_of(option);
    if (key == "distribution") return "\"ketama_weighted\"";
    if (!kind.choices.empty()) {
        const std::string_view last = kind.choices.back();
        return "\"" + std::string(last == option.initial ? kind.choices.front() : last) + "\"";
    }
    if (key == "unix-mask") return "\"640\"";
    if (key == "protocol") return "\"ascii\"";
    if (key == "hash_algorithm") return "\"xxh3\"";
    if (key == "hash_tag") return "\"<>\"";
    if (key == "pointer_table.path") return "\"/other\"";
    if (key == "listen") return "[\"127.0.0.1\", \"[::1]:5\"]";
    if (key == "tcp" || key == "verbs" || key == "http" || key == "http-health") return "\"[::1]:7\"";
    if (key == "http-names") return "\"a.example,b\"";
    if (key == "advertise") return option.argument == "<list>" ? "\"tcp:h:7\"" : "\"a.example:11212\"";
    if (key == "cluster-members" || key == "replica-prefixes") return "[\"a.example:11211\", \"[::1]:5\"]";
    if (key == "prefix-delimiter") return "\"|\"";
    if (key == "worker-cpus") return "\"0-3,8\"";
    if (key == "name" || key == "zone") return "\"n\"";
    if (key == "discover") return "\"etcd://h:7/far\"";
    if (key == "discover_dns_server" || key == "warm_from") return "\"[::1]:53\"";
    if (key == "spill-to") return "\"b=tcp:10.0.0.2:11300\"";
    if (key == "ext_path") return "\"/a \\\"b\\\\: c:3G\"";
    return kind.value == Value::text ? "\"/a \\\"b\\\\ c\"" : "";
}

std::string all_written(const Daemon& daemon, const Settings& settings) {
    std::string text;
    for (const Option& option : daemon.table)
        if (is_key(option)) text += std::string(key_of(option)) + "=" + written(option, settings) + "\n";
    return text;
}

void test_round_trip() {
    for (const Daemon& daemon : daemons()) {
        std::string all;
        for (const Option& option : daemon.table) {
            if (!is_key(option) || option.kind.value == Value::tables || option.kind.value == Value::permissions) continue;
            const std::string value = other_value(option);
            const Read one = read(daemon, line_of(option, value));
            tap::is(one.errors, "", daemon.name + ": " + line_of(option, value));
            tap::ok(written(option, one.settings) != written(option, defaults(daemon.table)), "is not the default");
            if (key_of(option) == "udp-port" || key_of(option) == "discover") continue;  // they exclude others
            all += line_of(option, value);
        }
        if (daemon.name == "farcached")
            all += "[permissions]\n\"*\" = []\n\"a b\" = [\"read\", \"stats\"]\n"
                   "[[node]]\nname = \"a\"\naddress = \"shm:/x y\"\n[[node]]\nname = \"b\"\naddress = \"tcp:[::1]:5\"\n"
                   "weight = 3\nhash_as = \"h:1\"\n";
        for (const std::string& text : {std::string(), all}) {
            const Read first = read(daemon, text);
            const std::string printed = config_text(daemon.table, daemon.program, first.settings);
            const Read again = read(daemon, printed);
            const std::string given = text.empty() ? "" : ", all of it given";
            tap::is(again.errors, "", daemon.name + ": what is printed is read" + given);
            tap::is(all_written(daemon, again.settings), all_written(daemon, first.settings), "with the same settings");
            tap::is(config_text(daemon.table, daemon.program, again.settings), printed, "printed again, too");
        }
    }
}

void test_printed() {
    const Daemon daemon = daemons()[0];
    const CommandLine line = parse(daemon, {"-m", "100", "-o", "idle_timeout=600", "--node", "a=shm:/x", "--print-config"});
    tap::is(line.exit_status.value_or(-1), 0, "--print-config ends");
    tap::ok(line.out.find("\nmemory_limit = \"100MB\"\n") != std::string::npos, "with units");
    tap::ok(line.out.find("\nidle_timeout = \"600s\"\n") != std::string::npos, "of time, too");
    tap::ok(line.out.find("\nlisten_backlog = 1024\n") != std::string::npos, "defaults, too");
    tap::ok(line.out.find("\n[[node]]\nname = \"a\"\naddress = \"shm:/x\"\n") != std::string::npos, "and nodes");
    tap::ok(line.out.find("\n# user is not given\n") != std::string::npos, "what is not given is a remark");
    const TemporaryFile file("memory-limit = \"96MB\"\nlisten = [\"127.0.0.1\", \"127.0.0.2:5\"]\nverbose = 2\nthreads = 3\n");
    const Settings s = parse(daemon, {"--config", file.path, "-t", "2"}).settings;
    tap::is(s.memory.bytes_max, uint64_t(96) << 20, "a file may say what the command line can");
    tap::is(s.listen.interfaces, "127.0.0.1,127.0.0.2:5", "several addresses");
    tap::ok(s.process.verbosity == 2 && s.session.threads == 2, "the command line overrides the file");
    tap::is(parse(daemon, {"--config", file.path, "-l", "::1"}).settings.listen.interfaces, "::1",
            "with an address instead of the file's");
    const char* relative[] = {"farcached", "--config", file.path.c_str() + 5};  // without "/tmp/"
    const CommandLine in_folder = parse_command_line(relative, daemon.table, daemon.program, "/tmp");
    tap::is(in_folder.err + std::to_string(in_folder.settings.session.threads), "3", "a file in another folder");
}

void test_checked() {
    const Daemon daemon = daemons()[0];
    const TemporaryFile good("threads = 2\n");
    const CommandLine fine = parse(daemon, {"--check-config", good.path});
    tap::is(fine.exit_status.value_or(-1), 0, "--check-config of what is right");
    tap::is(fine.out, good.path + ": no errors\n", "is reported as such");
    const TemporaryFile bad("thread = 2\nmemory-limit = \"64 parsecs\"\nmax-item-size = \"1GB\"\nhot_lru_pct = 79\n"
                            "listen = \"h:x\"\n"
                            "[[node]]\nname = \"a\"\naddress = \"tcp:h\"\n");
    const CommandLine line = parse(daemon, {"--check-config", bad.path});
    tap::is(line.exit_status.value_or(-1), exit_usage, "and of what is wrong");
    tap::is(line.err,
            bad.path + ":1:1: unknown key 'thread', did you mean 'threads'?\n" +
            bad.path + ":2:16: memory-limit: found the text '64 parsecs'; allowed: a number from 0 to 1073741824 "
            "(megabytes), or one with its unit as a text, like \"64MB\" (B, KB, MB, GB, TB)\n" +
            bad.path + ":8:11: node.address: tcp: needs a host and a port, as in tcp:10.0.0.1:11300; found 'h'\n" +
            bad.path + ":3:17: max-item-size: Cannot set item size limit higher than 1/2 of memory max.\n" +
            bad.path + ":4:15: hot_lru_pct: hot_lru_pct + warm_lru_pct cannot be more than 80% combined\n" +
            bad.path + ":5:10: listen: Invalid port number: \"x\"\n"
            "failed to listen on one of interface(s) h:x: Invalid argument\n",
            "reports all errors at once");
}

// An error between options names the place of the one that a file gives.
void test_conflicts() {
    const Daemon daemon = daemons()[0];
    const TemporaryFile item("threads = 2\nmax_item_size = \"40MB\"\n"), memory("memory_limit = 1\n"), flags("-m 9\n\n-I 5m\n");
    const std::string sentence = "Cannot set item size limit higher than 1/2 of memory max.\n";
    tap::is(parse(daemon, {"--config", item.path}).err, item.path + ":2:17: max_item_size: " + sentence,
            "the key, as the file spells it");
    tap::is(parse(daemon, {"--config", memory.path}).err, memory.path + ":1:16: memory_limit: " + sentence, "the other one");
    tap::is(parse(daemon, {"--config", item.path, "-I", "41m"}).err, sentence, "the command line overrides the file");
    tap::is(parse(daemon, {"--memcached-conf", flags.path}).err, flags.path + ":3: " + sentence, "a file of flags");
    tap::is(read(daemon, "max-item-siz = 1").errors, "f:1:1: unknown key 'max-item-siz', did you mean 'max_item_size'?\n",
            "the nearest key");
    tap::is(read(daemon, "[pointer-table]\nentries = 128\n").errors, "", "a table's name may have - too");
    const std::string got = read(daemon, "proxy-config = \"/x\"").errors;
    tap::ok(got.starts_with("f:1:1: ") && got.ends_with("is not implemented.\n"), "refused as its flag");
    const TemporaryFile automatic("enable_sasl = true\nprotocol = \"auto\"\n"), ascii("enable_sasl = true\nprotocol = \"ascii\"\n");
#ifdef FARCACHED_LIBSASL2
    tap::is(parse(daemon, {"--config", automatic.path}).err, "", "in a file, auto is the default, with SASL, too");
    tap::is(parse(daemon, {"--config", ascii.path}).err,
            ascii.path + ":2:12: protocol: ERROR: You cannot allow the ASCII protocol while using SASL.\n", "ascii is refused");
#else
    for (const std::string& path : {automatic.path, ascii.path})
        tap::ok(parse(daemon, {"--config", path}).err.ends_with("This server is not built with SASL support.\n"),
                "SASL is refused");
#endif
}

// Files and the command line each give one ext_path, and the latter overrides.
void test_one_disk() {
    for (const Daemon& daemon : daemons()) {
        const bool proxy = daemon.name == "farcached";
        const auto path = [&](const char* value) {
            return proxy ? std::vector<std::string>{"-o", std::string("ext_path=") + value}
                         : std::vector<std::string>{std::string("--ext_path=") + value};
        };
        const std::string twice = "ext_path is given twice, but one file is supported; give one, on a volume of all disks\n";
        const TemporaryFile toml("ext_path = \"/t:1G\"\n"), bad("ext_path = \"/t:1\"\n"), small("ext_path = \"/t:8M\"\n");
        std::vector<std::string> words = path("/w:2G");
        words.insert(words.end(), {"--config", toml.path});
        tap::is(parse(daemon, words).settings.disk.path, "/w", daemon.name + ": the command line overrides the file's ext_path");
        const std::vector<std::string> second = path("/v:2G");
        words.insert(words.end(), second.begin(), second.end());
        tap::is(parse(daemon, words).err, twice, "it gives no two");
        words = {"--config", toml.path};
        const Settings s = parse(daemon, words).settings;
        tap::ok(s.disk.path == "/t" && s.disk.bytes == UINT64_C(1) << 30, "the file's");
        words.back() = bad.path;
        tap::is(parse(daemon, words).err,
                bad.path + ":1:12: ext_path: found '/t:1'; allowed: FILE:SIZE, where SIZE is a whole number with M, G, T or P, "
                           "as in /d/file:64G\n",
                "a size without a unit");
        words.back() = small.path;
        tap::ok(parse(daemon, words).err.starts_with(small.path + ":1:12: ext_path: ext_path: 8M is less than two pages"),
                "a file that is too small");
        if (!proxy) continue;
        const TemporaryFile flags("-m 96\n-o ext_path=/f:1G\n"), flags_twice("-o ext_path=/f:1G\n-o ext_path=/g:1G\n");
        tap::is(parse(daemon, {"--memcached-conf", flags.path}).settings.disk.path, "/f", "a file of flags");
        tap::is(parse(daemon, {"--memcached-conf", flags.path, "--config", toml.path}).settings.disk.path, "/t",
                "is overridden by the other file");
        tap::is(parse(daemon, {"--memcached-conf", flags.path, "-o", "ext_path=/w:1G"}).settings.disk.path, "/w",
                "and by the command line");
        tap::is(parse(daemon, {"--memcached-conf", flags_twice.path}).err, flags_twice.path + ":2: " + twice, "and gives no two");
        tap::is(parse(daemon, {"-o", "ext_path=/f:1G", "--node", "a=shm:/x"}).err,
                "ext_path: values are in the nodes; give it to each farnode instead\n", "not with nodes");
    }
}

// ---- units ------------------------------------------------------------------------------------------------

void test_units() {
    const Daemon daemon = daemons()[0];
    auto memory = [&](const char* text) { return parse(daemon, {"-m", text}).settings.memory.bytes_max >> 20; };
    tap::is(memory("64MB"), uint64_t(64), "-m 64MB");
    tap::is(memory("2GB"), uint64_t(2048), "-m 2GB");
    tap::is(memory("65536KB"), uint64_t(64), "-m 65536KB");
    for (const char* word : {"4gb", "4GB", "4Gb", "4g", "4G", "4096m", "4096mb", "4194304k", "4 gb"})
        tap::is(memory(word), uint64_t(4096), std::string("-m ") + word);
    tap::is(memory("1t"), uint64_t(1) << 20, "-m 1t");
    for (const char* word : {"60000ms", "60s", "1m", "1min"})
        tap::is(parse(daemon, {"-o", std::string("idle_timeout=") + word}).settings.session.idle_timeout_s, 60u, word);
    tap::is(parse(daemon, {"-o", "idle_timeout=2h"}).settings.session.idle_timeout_s, 7200u, "two hours");
    tap::is(parse(daemon, {"-o", "idle_timeout=3d"}).settings.session.idle_timeout_s, 259200u, "three days");
    tap::is(read(daemon, "memory-limit = \"4gb\"\nidle_timeout = \"5m\"\nmax-item-size = \"2M\"\n").errors, "",
            "the same in a file");
    tap::is(read(daemon, "node_timeout_ms = 9999999999999").errors,
            "f:1:19: node_timeout_ms: '9999999999999' is out of range: 1 to 60000 milliseconds\n", "a number that is too large");
    tap::ok(read(daemon, "threads = 99999999999999999999").errors.find(": a number is out of range: ") == 6,
            "as is one that TOML cannot have");
    tap::is(parse(daemon, {"-m", "64MB"}).err, "", "without a warning");
    tap::is(parse(daemon, {"-m", "1500KB"}).exit_status.value_or(-1), 64, "a part of a megabyte is none");
    tap::is(parse(daemon, {"-m", "64k"}).err, "Invalid memory limit: 64k (-m takes megabytes)\n", "nor are few kilobytes");
    tap::ok(read(daemon, "slab_growth_factor = \"1.5x\"\n").errors.find("slab_growth_factor") != std::string::npos,
            "a file takes no number with a rest");
    tap::is(parse(daemon, {"-m", "99999999999999TB"}).exit_status.value_or(-1), 64, "nor is what cannot be counted");
    tap::is(parse(daemon, {"-o", "idle_timeout=2min"}).settings.session.idle_timeout_s, 120u, "two minutes");
    tap::is(parse(daemon, {"-o", "idle_timeout=1500ms"}).exit_status.value_or(-1), 1, "one and a half seconds are none");
    tap::is(parse(daemon, {"-o", "node_timeout_ms=2s"}).settings.proxy.node_timeout_ms, 2000u, "seconds of milliseconds");
    tap::is(with_unit(65536, Unit::kilobytes), "64MB", "the largest that fits");
    tap::is(with_unit(1500, Unit::milliseconds), "1500ms", "is whole");
    tap::is(with_unit(0, Unit::seconds), "0", "nothing has no unit");
    tap::is(with_unit(90, Unit::seconds), "90s", "seconds stay seconds");
}

// ---- reload -----------------------------------------------------------------------------------------------

std::string listed_keys(const std::vector<std::string>& keys) {
    std::string text;
    for (const std::string& key : keys) text += (text.empty() ? "" : " ") + key;
    return text;
}

ReloadPlan plan(const Daemon& daemon, std::string_view before, std::string_view after) {
    const Read running = read(daemon, before), wanted = read(daemon, after);
    tap::is(running.errors + wanted.errors, "", "two files");
    return plan_reload(daemon.table, daemon.program, running.settings, wanted.settings);
}

void test_reload() {
    const Daemon daemon = daemons()[0];
    const std::string node_a = "[[node]]\nname = \"a\"\naddress = \"shm:/x\"\n";
    const std::string node_b = "[[node]]\nname = \"b\"\naddress = \"shm:/y\"\n";
    ReloadPlan got = plan(daemon, "conn-limit = 7\nthreads = 2\n", "conn-limit = 8\nthreads = 3\nidle_timeout = 5\n");
    tap::is(listed_keys(got.errors), "", "a reload");
    tap::is(listed_keys(got.changed), "conn_limit idle_timeout", "changes what can change");
    tap::is(listed_keys(got.waiting), "threads", "and names what cannot");
    tap::ok(got.settings.session.connections_max == 8 && got.settings.session.idle_timeout_s == 5, "to the file's value");
    tap::is(got.settings.session.threads, 2u, "or keeps it");
    got = plan(daemon, node_a, node_b + node_a);
    tap::is(listed_keys(got.changed), "node", "a node more");
    tap::is(got.settings.proxy.nodes.size(), 2u, "is there");
    got = plan(daemon, node_a, node_a + "weight = 2\n");
    tap::is(listed_keys(got.changed), "node", "another weight");
    got = plan(daemon, "", node_a);
    tap::is(listed_keys(got.waiting), "node", "the first node waits");
    got = plan(daemon, node_a, "");
    tap::is(listed_keys(got.waiting), "node", "as does it that none is left");
    got = plan(daemon, node_a, node_a);
    tap::is(listed_keys(got.changed) + listed_keys(got.waiting), "", "the same changes nothing");
    got = plan(daemon, "[permissions]\na = [\"read\"]\n", "[permissions]\nb = []\n");
    tap::is(listed_keys(got.changed), "permissions", "permissions");
    tap::ok(got.settings.permissions.classes_of.size() == 1 && got.settings.permissions.classes_of.contains("b"), "are replaced");
    got = plan(daemon, "[permissions]\na = []\n", "");
    tap::ok(got.settings.permissions.classes_of.empty(), "or gone");
    got = plan(daemon, "", "hot_lru_pct = 10\nnapi-ids = 2\n");
    tap::is(listed_keys(got.changed), "hot_lru_pct napi_ids", "what is only shown");
    got = plan(daemon, "napi-ids = 2\nhash_tag = \"<>\"\n", "");
    tap::is(listed_keys(got.changed), "napi_ids hash_tag", "what is no longer given");
    tap::is(got.settings.proxy.hash_tag, "", "is not there");
    got = plan(daemon, "",
               "ext_path = \"/f:1G\"\next_page_size = 32\next_wbuf_size = 8\next_threads = 2\next_io_depth = 2\next_item_size = 1\n"
               "ext_item_age = 2\next_recache_rate = 3\next_drop_unread = false\n");
    tap::is(listed_keys(got.changed), "ext_item_size ext_item_age ext_recache_rate ext_drop_unread", "what moves to disk");
    tap::is(listed_keys(got.waiting), "ext_path ext_page_size ext_threads ext_io_depth ext_wbuf_size", "not the file");
    tap::ok(got.settings.disk.item_bytes_min == 1 && got.settings.disk.recache_rate == 3 && !got.settings.disk.drop_unread &&
                got.settings.disk.path.empty(),
            "as the settings have it");
    got = plan(daemon, "memory-limit = 8\nmax-item-size = \"4m\"\n", "memory-limit = 4\nmax-item-size = \"1m\"\n");
    tap::is(listed_keys(got.errors),
            "Cannot set item size limit higher than 1/2 of memory max. (some keys keep their values until a restart)",
            "what cannot be together until a restart is refused");
}

// ---- /etc/memcached.conf ------------------------------------------------------------------------------------

constexpr std::string_view debians =
    "# memcached default config file\n# 2003 - Jay Bonci\n\n# Run memcached as a daemon.\n-d\n\n"
    "# Log memcached's output to /var/log/memcached\nlogfile /var/log/memcached.log\n\n# Be verbose\n# -v\n\n"
    "-m 96   # a limit\n-p 11212\n-u memcache\n-l 127.0.0.1\n-l ::1\n# -c 1024\n-P /var/run/memcached/memcached.pid\n"
    "-o modern,idle_timeout=9\n--max-item-size=2m\n-s \"/run/a b\"\n\t -vv\r\n";

void test_memcached_conf() {
    const Daemon daemon = daemons()[0];
    const TemporaryFile file(debians);
    const CommandLine line = parse(daemon, {"--memcached-conf", file.path, "-p", "5"});
    const Settings& s = line.settings;
    tap::is(line.exit_status.value_or(0), 0, "Debian's file is taken");
    tap::is(line.err, "WARNING: " + file.path + ":8: logfile is ignored: messages go to stderr, or the journal\n",
            "with a word about its log");
    tap::is(s.memory.bytes_max, uint64_t(96) << 20, "-m");
    tap::is(s.listen.interfaces, "127.0.0.1,::1", "-l twice");
    tap::is(s.listen.port, 5, "the command line overrides it");
    tap::ok(s.process.user == "memcache" && s.process.pid_file == "/var/run/memcached/memcached.pid", "-u and -P");
    tap::ok(s.session.idle_timeout_s == 9 && s.memory.item_bytes_max == 2 << 20, "-o and a long flag");
    tap::is(s.listen.unix_path, "/run/a b", "what is in quotes is one word");
    tap::ok(!s.process.daemonize, "-d in the file does not daemonize");
    tap::is(s.process.verbosity, 2u, "-vv, with a tab before and a CR behind");
    const TemporaryFile toml("memory-limit = 80\nport = 6\n");
    const Settings both = parse(daemon, {"--config", toml.path, "--memcached-conf", file.path}).settings;
    tap::ok(both.memory.bytes_max == uint64_t(80) << 20 && both.listen.port == 6, "the TOML file overrides it, too");
    const TemporaryFile bad("-m x\n--conn-limt=5\n-p\nfoo\n-c 5 6\n-s \"a\n-V\n-o idle_timeout\n");
    const std::string at = bad.path + ":";
    const CommandLine wrong = parse(daemon, {"--memcached-conf", bad.path});
    tap::is(wrong.exit_status.value_or(-1), exit_usage, "a bad one ends the program");
    tap::is(wrong.err,
            at + "1: Invalid memory limit: x (-m takes megabytes)\n" +
            at + "2: unknown option --conn-limt, or its value is missing; did you mean --conn-limit?\n" +
            at + "3: unknown option -p, or its value is missing\n" +
            at + "4: found 'foo' instead of a flag such as -m 64\n" +
            at + "5: '6' is not an option\n" +
            at + "6: a quote is not closed\n" +
            at + "7: -V, --version is not allowed in a file\n" +
            at + "8: Missing idle_timeout argument\n",
            "all errors are reported, with their lines");
    tap::is(parse(daemon, {"--memcached-conf", "/nonexistent/f"}).err,
            "/nonexistent/f: cannot be opened: No such file or directory\n", "and where there is none");
}

// ---- texts ------------------------------------------------------------------------------------------------

// A sample begins with what is usually set, and ends with what has no effect. Its list of nodes is one without its #.
void test_samples() {
    for (const Daemon& daemon : daemons()) {
        const std::string sample = config_sample(daemon.table, daemon.program);
        size_t at = 0;
        const bool proxy = daemon.name == "farcached";
        const std::vector<const char*> first = {"# listen = ", "port = ", "memory_limit = ", "# node = [", "# ---- Network"};
        const std::vector<const char*> first_of_node = {"# name = ", "shm = ", "# tcp = ", "memory_limit = ", "# ---- Network"};
        for (const char* key : proxy ? first : first_of_node) {
            const size_t found = sample.find(std::string("\n") + key);
            tap::ok(found != sample.npos && found >= at, daemon.name + "'s sample goes on with " + key);
            at = found;
        }
        size_t effects = 0;
        for (const Option& option : daemon.table) effects += is_key(option) && option.section == Section::compat;
        const size_t end = sample.find("\n# ---- For compatibility with memcached, without effect ----\n");
        tap::is(end != sample.npos, effects != 0, "keys without effect come last");
        if (end != sample.npos) tap::ok(sample.find("# ----", end + 8) == sample.npos, "after them is nothing else");
        if (!proxy) continue;
        std::string nodes = sample.substr(sample.find("# node = ["));
        nodes.resize(nodes.find("\n# ]") + 5);
        for (size_t mark = nodes.find("# "); mark != nodes.npos; mark = nodes.find("\n# ")) nodes.erase(mark + (mark != 0), 2);
        const Read got = read(daemon, nodes);
        tap::is(got.errors + std::to_string(got.settings.proxy.nodes.size()), "2", "the list of nodes is one");
    }
}

void test_texts() {
    for (const Daemon& daemon : daemons()) {
        const std::string sample = config_sample(daemon.table, daemon.program), man = config_man(daemon.table);
        const Read of_sample = read(daemon, sample);
        tap::is(of_sample.errors, "", daemon.name + "'s sample loads");
        Read defaulted{defaults(daemon.table), {}};
        defaulted.settings.node.shm_path = of_sample.settings.node.shm_path;  // which a farnode needs
        tap::is(all_written(daemon, of_sample.settings), all_written(daemon, defaulted.settings), "and has the defaults");
        const std::string bash = bash_completion(completed_program(daemon.table, daemon.program));
        const std::string zsh = zsh_completion(completed_program(daemon.table, daemon.program));
        for (const Option& option : daemon.table) {
            std::string name(key_of(option));
            for (char& c : name) c = c == '-' ? '_' : c;
            if (is_key(option) && option.kind.value != Value::tables) {
                const bool set = sample.find("\n" + name + " = ") != std::string::npos;
                const bool shown = sample.find("\n# " + name + " = ") != std::string::npos;
                tap::ok(set || shown, "it has " + name);
                tap::ok(man.find("\n.B " + name + "\n") != std::string::npos, "the man page has it");
            }
            if (option.section == Section::hidden || option.name.empty()) continue;
            const std::string typed = (option.where == Where::flag ? "--" : "") + std::string(option.name);
            tap::ok(bash.find(typed) != std::string::npos && zsh.find(typed) != std::string::npos,
                    "shells complete " + typed);
        }
    }
}

}  // namespace

int main() {
    test_every_key();
    test_round_trip();
    test_printed();
    test_checked();
    test_conflicts();
    test_one_disk();
    test_units();
    test_reload();
    test_memcached_conf();
    test_samples();
    test_texts();
    return tap::done();
}
