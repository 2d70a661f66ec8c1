// SPDX-License-Identifier: BSD-3-Clause
// farnode's options: on the command line, in a file, both; refusals and their messages; the sample file.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "conf/command_line.h"
#include "conf/config_file.h"
#include "conf/help.h"
#include "conf/option.h"
#include "t/lib/tap.h"

using namespace farcached;
using namespace farcached::conf;

namespace {

CommandLine parse(const std::vector<std::string>& words) {
    std::vector<const char*> argv = {"farnode"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    return parse_command_line(argv, node_option_table(), farnode_program());
}

void defaults_and_flags() {
    const CommandLine least = parse({"--shm", "/run/a.sock"});
    const Settings& s = least.settings;
    tap::ok(!least.exit_status && least.err.empty(), "a path to listen at is all it needs");
    tap::is(s.node.shm_path, "/run/a.sock", "--shm");
    tap::ok(s.node.tcp_host.empty() && s.node.name.empty(), "no more is set");
    tap::is(s.memory.bytes_max, uint64_t(64) << 20, "64 megabytes");
    tap::is(s.memory.item_bytes_max, uint64_t(1) << 20, "items up to one");
    tap::is(s.session.threads, 4u, "four threads");
    tap::ok(s.node.lease && s.node.lease_ms == 4000, "leases of four seconds");
    tap::ok(s.node.policy == PolicyKind::s3fifo, "--policy s3fifo");
    const Settings p = parse({"--shm", "/a", "--policy", "pdla", "--lease-ms-min", "2000", "--lease-ms-max=9000"}).settings;
    tap::ok(p.node.policy == PolicyKind::pdla && p.node.lease_ms_min == 2000 && p.node.lease_ms_max == 9000,
            "another policy, and between what its leases are");

    const CommandLine all = parse({"--name", "n-1.x_y", "-m", "128", "-t", "2", "--tcp", "[::1]:0", "-I", "2m",
                                   "--lease-ms=8000", "--no-lease", "--access_tracking=atomic", "-c", "7", "-L", "-M",
                                   "--dead-share=7",
                                   "--report-share=50", "-d", "-P", "/tmp/p", "-u", "nobody", "-vv", "--greeting-timeout-ms=200"});
    const Settings& a = all.settings;
    tap::is(all.err, "", "all of them are taken");
    tap::is(a.node.name, "n-1.x_y", "--name");
    tap::is(a.memory.bytes_max, uint64_t(128) << 20, "-m");
    tap::is(a.session.threads, 2u, "-t");
    tap::is(a.node.tcp_host + " " + std::to_string(a.node.tcp_port), "::1 0", "--tcp");
    tap::is(a.memory.item_bytes_max, uint64_t(2) << 20, "-I");
    tap::ok(a.node.lease_ms == 8000 && !a.node.lease, "--lease-ms and --no-lease");
    tap::ok(a.node.lease_ms_min == 8000 && a.node.lease_ms_max == 8000, "one term for all");
    const Settings b = parse({"--shm", "/a", "--lease-ms", "1000", "--lease-ms-max=9000"}).settings;
    tap::ok(b.node.lease_ms_min == 1000 && b.node.lease_ms_max == 9000, "unless it is followed by another");
    tap::ok(s.node.access_tracking == AccessTracking::none && a.node.access_tracking == AccessTracking::atomic,
            "--access_tracking");
    tap::ok(s.node.dead_share_percent == 6 && a.node.dead_share_percent == 7, "--dead-share");
    tap::ok(s.node.report_share_percent == 25 && a.node.report_share_percent == 50, "--report-share");
    tap::is(parse({"--tcp", "127.0.0.1:1", "--access_tracking=report"}).settings.node.access_tracking, AccessTracking::report,
            "--access_tracking report");
    tap::is(parse({"--tcp", "127.0.0.1:1", "--access-tracking=report"}).settings.node.access_tracking, AccessTracking::report,
            "--access-tracking, its old name");
    tap::is(a.session.connections_max, 7u, "-c");
    tap::ok(s.node.greeting_timeout_ms == 10'000 && a.node.greeting_timeout_ms == 200, "--greeting-timeout-ms");
    tap::ok(s.memory.evict && !a.memory.evict, "-M");
    tap::ok(a.memory.huge_pages && a.process.daemonize, "-L and -d");
    tap::is(a.process.pid_file + " " + a.process.user, "/tmp/p nobody", "-P and -u");
    tap::is(a.process.verbosity, 2u, "-vv");
    const DiskSettings d = parse({"--tcp", "[::1]:1", "-e", "/e", "--ext_path=/f:64G", "--ext_page_size=32", "--ext_wbuf_size=8",
                                  "--ext_threads=2", "--ext_io_depth=64", "--ext_item_size=1k", "--ext_item_age=2m",
                                  "--ext_recache_rate=0", "--no_ext_drop_unread"}).settings.disk;
    tap::ok(d.path == "/f" && d.bytes == UINT64_C(64) << 30 && d.page_bytes == 32u << 20 && d.write_buffer_bytes == 8u << 20,
            "--ext_path, and the sizes of its writes");
    tap::ok(d.threads == 2 && d.io_depth == 64 && d.item_bytes_min == 1024 && d.item_age_s == 120 && d.recache_rate == 0,
            "numbers of the disk tier");
    tap::ok(s.disk.path.empty() && s.disk.drop_unread && !d.drop_unread, "--no_ext_drop_unread");
    tap::ok(parse({"--shm", "/a", "--no_ext_drop_unread", "--ext_drop_unread"}).settings.disk.drop_unread, "--ext_drop_unread");
    const CommandLine rdma = parse({"--verbs", "10.0.0.1:7", "--insecure"});
    tap::is(rdma.err + rdma.settings.node.verbs_host + " " + std::to_string(rdma.settings.node.verbs_port),
            "10.0.0.1 7", "--verbs");
    tap::is(parse({"--tcp", "*:11300", "--insecure"}).settings.node.tcp_host, "*", "all addresses");
    tap::is(parse({"-V"}).out.substr(0, 8), "farnode ", "-V names the program");
}

void refusals() {
    const std::string tcp = "--tcp", shm = "--shm";
    struct Row {
        std::vector<std::string> words;
        std::string err;
    };
    const std::vector<Row> rows = {
        {{}, "No address to listen on: give --shm <path>, --tcp <addr>:<port>, --verbs <addr>:<port>, or several.\n"},
        {{"--name", "two words"},
         "could not parse argument to name: found 'two words'; allowed: 1 to 63 letters, digits, and any of . _ -\n"},
        {{tcp, "localhost"}, "--tcp localhost: needs a host and a port, as in 10.0.0.1:11300; found 'localhost'\n"},
        {{tcp, "::1"}, "--tcp ::1: an IPv6 address needs brackets, as in [::1]:11300; found '::1'\n"},
        {{tcp, "h:99999"}, "--tcp h:99999: '99999' is not a port; allowed: 0 to 65535\n"},
        {{tcp, ":1"}, "--tcp :1: '' is not a host\n"},
        {{shm, ""},
         "could not parse argument to shm: found ''; allowed: the path of a Unix socket, 1 to 107 printable "
         "bytes\n"},
        {{"-m", "0"}, "could not parse argument to memory-limit: '0' is out of range: 1 to 262144 megabytes\n"},
        {{"-t", "65"}, "could not parse argument to threads: '65' is out of range: 1 to 64\n"},
        {{"-I", "1"},
         "could not parse argument to max-item-size: found '1'; allowed: a number of bytes, or one with its unit, from "
         "1k to 1024m\n"},
        {{shm, "/a", "-I", "40m"}, "Cannot set item size limit higher than 1/2 of memory max.\n"},
        {{"--access_tracking", "all"},
         "could not parse argument to access_tracking: unknown word 'all'. Allowed: none, atomic, report\n"},
        {{"--policy", "strict_lru"},
         "could not parse argument to policy: unknown word 'strict_lru'. Allowed: clock, lru, approx_lru, pdla, mq, "
         "fixed_lease, original, s3fifo, pdla_paper\n"},
        {{shm, "/a", "--lease-ms-min", "8", "--lease-ms-max", "7"}, "--lease-ms-max is less than --lease-ms-min.\n"},
        {{"--lease-ms", "0"}, "could not parse argument to lease-ms: '0' is out of range: 1 to 256000 milliseconds\n"},
        {{shm, "/a", "--ext_path", "/f"},
         "ext_path '/f' has no size; give a file and its size, as in ext_path=/d/file:64G (M, G, T or P)\n"},
        {{shm, "/a", "--ext_path=/f:1G", "-e", "/f"},
         "-e and ext_path name the same file, /f, and each would overwrite the other's data; give two files\n"},
        {{shm, "/a", "--admin", "/a"}, "--admin and --shm name the same path: /a\n"},
        {{"-c", "0"}, "could not parse argument to conn-limit: '0' is out of range: 1 to 1048576\n"},
        {{"--config", "/nonexistent/f"}, "/nonexistent/f: cannot be opened: No such file or directory\n"},
    };
    for (const Row& row : rows) {
        const CommandLine line = parse(row.words);
        tap::is(line.err, row.err, "refused: " + (row.words.empty() ? "nothing" : row.words.back()));
        tap::is(line.exit_status.value_or(-1), exit_usage, "as a mistake in use");
    }
}

std::string file_errors(std::string_view text, Settings& settings) {
    settings = defaults(node_option_table());
    std::string lines;
    for (const std::string& line : read_config_text(text, "f", node_option_table(), settings)) lines += line + "\n";
    return lines;
}

void files() {
    Settings s;
    tap::is(file_errors("tcp = \"localhost:0\"\nno-lease = true\nmax-item-size = \"4k\"\nthreads = 1\ndaemon = true\n", s),
            "", "a file");
    tap::ok(s.node.tcp_host == "localhost" && !s.node.lease && s.memory.item_bytes_max == 4096 &&
                s.session.threads == 1 && s.process.daemonize,
            "sets its value");
    tap::is(file_errors("no-lease = false\ndisable-evictions = true\n", s), "", "a no, and a yes");
    tap::ok(s.node.lease && !s.memory.evict, "are what they are");
    tap::is(file_errors("lease_ms = 8000\nmemory_limit = 32\n", s), "", "names with _ between words");
    tap::ok(s.node.lease_ms == 8000 && s.memory.bytes_max == 32u << 20, "are those with -");
    tap::is(file_errors("lease-ms = 8000\nlease_ms = 4000\n", s), "f:2:1: lease_ms: given twice\n",
            "and not another option");
    tap::is(file_errors("threads = 0\ncolour = 1\nlease-ms = \"4\"\ntcp = \"x\"\n", s),
            "f:1:11: threads: '0' is out of range: 1 to 64\n"
            "f:2:1: unknown key 'colour'. Allowed: name, shm, shm_group, tcp, verbs, discover, advertise, weight, zone, "
            "member_ttl, discover_fence, discover_ca, discover_user, discover_password_file, conn_limit, auth_key_file, "
            "greeting_timeout_ms, admin, http, http_names, peer_cert, peer_key, peer_ca, http_token_file, http_cert, http_key, "
            "http_health, insecure, memory_limit, "
            "disable_evictions, max_item_size, memory_file, ext_path, ext_page_size, ext_wbuf_size, ext_threads, "
            "ext_io_depth, ext_item_size, ext_item_age, ext_recache_rate, ext_drop_unread, spill_to, spill_share, "
            "enable_largepages, policy, lease_ms, lease_ms_min, "
            "lease_ms_max, no_lease, dead_share, access_tracking, rpc, rfp_slots, rfp_awake_us, report_share, "
            "threads, daemon, user, "
            "pidfile, verbose, log_level, log_format, crash_request, drop_privileges\n"
            "f:3:12: lease-ms: found the text '4'; allowed: a number from 1 to 256000 (milliseconds), or one with its "
            "unit as a text, like \"10s\" (us, ms, s, m, h, d)\n"
            "f:4:7: tcp: found 'x'; allowed: ADDR:PORT, with brackets around an IPv6 address; port 0 to 65535\n",
            "all errors of one file are reported at once");
}

void sample() {
    const char* top = std::getenv("abs_top_srcdir");
    if (top == nullptr) return tap::skip(1, "the sample file is found by abs_top_srcdir, which make check sets");
    std::ifstream file(std::string(top) + "/conf/farnode.toml");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    Settings settings;
    tap::is(file_errors(text, settings), "", "the sample file loads");
    const Settings without = defaults(node_option_table());
    for (const Option& option : node_option_table()) {
        if (!is_key(option)) continue;
        std::string key(option.name);
        std::ranges::replace(key, '-', '_');
        tap::ok(text.find(key + " = ") != std::string::npos, "it names " + std::string(option.name));
        if (option.initial.empty()) continue;
        tap::is(option.kind.show(option, settings), option.kind.show(option, without),
                "as it is without the file: " + std::string(option.name));
    }
}

void texts() {
    const std::string help = help_text(node_option_table(), farnode_program());
    tap::ok(help.starts_with("farnode ") && help.find("\nUsage: farnode [option]...\n") != std::string::npos,
            "the help is farnode's");
    for (const Option& option : node_option_table()) {
        if (option.section == Section::hidden) continue;
        tap::ok(!option.help.empty() && help.find(option.name) != std::string::npos,
                "it has " + std::string(option.name));
    }
}

}  // namespace

int main() {
    defaults_and_flags();
    refusals();
    files();
    sample();
    texts();
    return tap::done();
}
