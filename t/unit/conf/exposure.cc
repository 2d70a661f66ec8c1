// SPDX-License-Identifier: BSD-3-Clause
// Which addresses other machines reach, and which of them are refused or named in a warning.
#include "conf/exposure.h"

#include <string>
#include <vector>

#include "conf/command_line.h"
#include "conf/option.h"
#include "t/lib/tap.h"

using namespace farcached::conf;

namespace {

CommandLine farnode(const std::vector<const char*>& words) {
    std::vector<const char*> argv = {"farnode", "--shm", "/a"};
    argv.insert(argv.end(), words.begin(), words.end());
    return parse_command_line(argv, node_option_table(), farnode_program());
}

CommandLine farcached_(const std::vector<const char*>& words) {
    std::vector<const char*> argv = {"farcached"};
    argv.insert(argv.end(), words.begin(), words.end());
    return parse_command_line(argv, option_table_with_nodes());
}

void hosts() {
    for (const char* host : {"127.0.0.1", "127.255.0.9", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "::ffff:7f00:1",
                             "::ffff:127.9.9.9", "localhost", "LocalHost", "localhost."})
        tap::ok(is_loopback_host(host), std::string(host) + " is of this machine");
    for (const char* host : {"", "*", "0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "126.255.255.255", "192.168.1.2", "127.1", "127",
                             "127.0.0.1.example", "fe80::1", "fd00::127", "::2", "::ffff:10.0.0.1", "::ffff:0.0.0.0", "::127.0.0.1",
                             "localhost.example", "local", "node-a", "localhost..", "[::1]", " 127.0.0.1", "::1%lo"})
        tap::ok(!is_loopback_host(host), "'" + std::string(host) + "' may be another's");
}

void nodes() {
    const std::string rest = " can be reached from other machines, and peers need no key there: set --auth-key-file FILE, "
                             "or --insecure if the network is trusted\n";
    for (const std::string option : {"--tcp", "--verbs"}) {
        for (const char* open : {"0.0.0.0:11300", "*:11300", "[::]:0", "10.0.0.1:11300", "node-a:11300", "[::ffff:10.0.0.1]:1"}) {
            const CommandLine line = farnode({option.c_str(), open});
            tap::is(line.err, option + " " + open + rest, option + " " + open);
            tap::is(line.exit_status.value_or(-1), exit_usage, "is refused as a mistake in use");
            tap::is(farnode({option.c_str(), open, "--insecure"}).err, "", "except with --insecure");
            tap::is(farnode({option.c_str(), open, "--print-limits"}).exit_status.value_or(-1), exit_usage, "also if only asked");
        }
        for (const char* local : {"127.0.0.1:11300", "localhost:0", "[::1]:0", "[::ffff:127.0.0.1]:1"})
            tap::is(farnode({option.c_str(), local}).err, "", option + " " + local);
    }
    tap::is(farnode({"--tcp", "10.0.0.1:1", "--verbs", "10.0.0.1:1"}).err,
            "--tcp 10.0.0.1:1" + rest + "--verbs 10.0.0.1:1" + rest, "each is named");
    const std::vector<const char*> tls = {"--tcp", "*:1", "--peer-cert", "a", "--peer-key", "b", "--peer-ca", "c"};
    tap::is(farnode(tls).err, "", "certificates of peers authenticate them over tcp");
    std::vector<const char*> both = tls;
    both.insert(both.end(), {"--verbs", "10.0.0.1:1"});
    tap::is(farnode(both).err, "--verbs 10.0.0.1:1" + rest, "and not over verbs");
    tap::ok(farnode({}).err.empty(), "a path is of this machine");
    tap::ok(!peers_authenticate(farnode({}).settings.node), "peers have no key");
}

void http() {
    const std::string rest = " can be reached from other machines, and its clients need no token there: set "
                             "--http-token-file FILE, or --insecure if the network is trusted\n";
    for (const bool node : {false, true}) {
        const auto parse = [&](const std::vector<const char*>& words) { return node ? farnode(words) : farcached_(words); };
        const std::string name = node ? "farnode: " : "farcached: ";
        for (const char* open : {"0.0.0.0:9150", "*:0", "[::]:9150", "cache.example:9150"}) {
            const CommandLine line = parse({"--http", open});
            tap::is(line.err, std::string("--http ") + open + rest, name + "--http " + open);
            tap::is(line.exit_status.value_or(-1), exit_usage, "is refused as a mistake in use");
            tap::is(parse({"--http", open, "--insecure"}).err, "", "except with --insecure");
        }
        for (const char* local : {"9150", "127.0.0.2:0", "localhost:1", "[::1]:0"})
            tap::is(parse({"--http", local}).err, "", name + "--http " + local);
    }
}

std::string warned(const std::vector<const char*>& words) {
    const Settings settings = farcached_(words).settings;
    const std::string warning = exposure_warning(settings, client_places(settings));
    return warning.substr(0, warning.find(" can be reached"));
}

void clients() {
    tap::is(warned({}), "tcp:*:11211", "all addresses, unless -l is given");
    tap::is(warned({"-l", "127.0.0.1"}), "", "an address of this machine");
    tap::is(warned({"-l", "127.0.0.1,[::1],localhost"}), "", "several");
    tap::is(warned({"-l", "127.0.0.1,10.0.0.1:5,[fd00::1]:6"}), "tcp:10.0.0.1:5 and 1 more", "the first of the others");
    tap::is(warned({"-l", "127.0.0.1", "-U", "1"}), "", "UDP of this machine");
    tap::is(warned({"-U", "1", "-p", "0"}), "udp:*:1", "UDP alone");
    tap::is(warned({"-s", "/a"}), "", "a Unix socket");
    tap::is(warned({"-p", "0"}), "", "no address");
    tap::is(warned({"--insecure"}), "", "a trusted network");
    tap::is(warned({"-Y", "/passwords"}), "", "passwords");
    for (const auto& [classes, may] : {std::pair{"", ""}, {"stats", ""}, {"read", "read all"}, {"write", "change and delete all"},
                                       {"read,admin", "read and delete all"}, {"read,write", "read, change and delete all"}}) {
        const std::string permissions = std::string("anonymous=") + classes;
        const Settings settings = farcached_({"--permissions", permissions.c_str()}).settings;
        const std::string warning = exposure_warning(settings, client_places(settings));
        const size_t at = warning.find("any of them can ");
        tap::is(at == warning.npos ? "" : warning.substr(at + 16, warning.find(" items") - at - 16), may,
                std::string("anonymous may: ") + classes);
    }
    tap::ok(exposure_warning(defaults(), client_places(defaults())).ends_with("; listen at 127.0.0.1 (-l), set -Y, -S, or -Z "
                                                                             "with ssl_verify_mode=2, or --insecure if the "
                                                                             "network is trusted"),
            "the ways out");
    Settings settings = defaults();
    settings.session.sasl = true;
    tap::is(exposure_warning(settings, client_places(settings)), "", "SASL");
    settings = defaults();
    settings.tls.enabled = true;
    tap::ok(!exposure_warning(settings, client_places(settings)).empty(), "TLS alone authenticates no client");
    settings.tls.verify_mode = 1;
    tap::ok(!exposure_warning(settings, client_places(settings)).empty(), "nor certificates that are optional");
    settings.tls.verify_mode = 2;
    tap::is(exposure_warning(settings, client_places(settings)), "", "certificates do");
    settings.listen.interfaces = "mtls:10.0.0.1,10.0.0.2,notls:10.0.0.3:7,btls:10.0.0.4";
    tap::ok(exposure_warning(settings, client_places(settings)).starts_with("tcp:10.0.0.3:7 and 1 more "),
            "not where none are needed");
    settings.tls.verify_mode = 0;
    settings.listen.interfaces = "mtls:10.0.0.1";
    tap::is(exposure_warning(settings, client_places(settings)), "", "a listener of its own demands");
}

}  // namespace

int main() {
    hosts();
    nodes();
    http();
    clients();
    return tap::done();
}
