// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/http/shared_pages.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "base/host.h"
#include "base/node_clock.h"
#include "base/random_word.h"

namespace farcached::http {

using process::HttpAnswer;
using Kind = MetricsText::Kind;

HttpAnswer page() {
    char nonce[33];
    std::snprintf(nonce, sizeof nonce, "%016llx%016llx", static_cast<unsigned long long>(random_word()),
                  static_cast<unsigned long long>(random_word()));
    HttpAnswer answer;
    answer.type = "text/html; charset=utf-8";
    answer.body = status_page;
    constexpr std::string_view place = "@NONCE@";
    for (size_t at = answer.body.find(place); at != std::string::npos; at = answer.body.find(place, at))
        answer.body.replace(at, place.size(), nonce);
    const std::string own = std::string("'nonce-") + nonce + "'";
    answer.headers.emplace_back("Content-Security-Policy",
                                "default-src 'none'; script-src " + own + "; style-src " + own +
                                    "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                                    "frame-ancestors 'none'");
    answer.headers.emplace_back("Referrer-Policy", "no-referrer");
    return answer;
}

void add_identity(process::JsonText& out, const Identity& identity) {
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    out.add("program", identity.program);
    out.add("name", identity.name);
    out.add("version", identity.version);
    out.add("host", static_cast<const char*>(host));
    out.add("port", identity.port);
    out.add("pid", getpid());
}

void add_memory(process::JsonText& out, const node::Stats& stats, uint64_t evictions) {
    out.begin("memory", '{');
    out.add("items", stats.items);
    out.add("bytes", stats.bytes);
    out.add("memory_limit_bytes", stats.memory_limit_bytes);
    out.add("pages_used", stats.pages_used);
    out.add("pages_limit", stats.pages_limit);
    out.add("evictions", evictions);
    out.add("lease_bytes", stats.leases.bytes);
    out.add("reclaim_pending_bytes", stats.leases.dead_bytes);
    out.end('}');
}

uint16_t tcp_port(std::span<const process::BoundPort> ports) {
    for (const process::BoundPort& one : ports)
        if (std::string_view(one.transport) == "TCP") return one.port;
    return 0;
}

// ---- metrics of the process -------------------------------------------------------------------------

namespace {

struct CloseFolder {
    void operator()(DIR* folder) const { closedir(folder); }
};

std::optional<uint64_t> open_descriptors() {
    const std::unique_ptr<DIR, CloseFolder> folder(opendir("/proc/self/fd"));
    if (folder == nullptr) return std::nullopt;
    uint64_t open = 0;
    while (const dirent* entry = readdir(folder.get()))
        if (entry->d_name[0] != '.') open++;
    return open - 1;  // without the folder's
}

// Seconds since 1970. The kernel counts a process's start from its boot, whose time differs with each reading of two clocks.
std::optional<double> read_start_time() {
    const std::optional<ProcessLife> life = process_life(uint64_t(getpid()));
    if (!life.has_value()) return std::nullopt;
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    const double boot = double(now.tv_sec) + double(now.tv_nsec) / 1e9 - double(boottime_ns()) / 1e9;
    return boot + double(life->started) / double(sysconf(_SC_CLK_TCK));
}

double seconds(const timeval& time) { return double(time.tv_sec) + double(time.tv_usec) / 1e6; }

}  // namespace

double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void write_process_metrics(MetricsText& out) {
    const std::string own = out.use_prefix("process_");
    out.real(Kind::counter, "cpu_seconds", "user and system CPU time of the process, in seconds", cpu_seconds());
    uint64_t virtual_pages = 0, resident_pages = 0;
    if (std::ifstream("/proc/self/statm") >> virtual_pages >> resident_pages) {
        const auto page_bytes = uint64_t(sysconf(_SC_PAGESIZE));
        out.number(Kind::gauge, "resident_memory_bytes", "resident memory of the process, in bytes", resident_pages * page_bytes);
        out.number(Kind::gauge, "virtual_memory_bytes", "virtual memory of the process, in bytes", virtual_pages * page_bytes);
    }
    if (const std::optional<uint64_t> open = open_descriptors())
        out.number(Kind::gauge, "open_fds", "open file descriptors", *open);
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) out.number(Kind::gauge, "max_fds", "limit of open file descriptors", files.rlim_cur);
    static const std::optional<double> started = read_start_time();  // another value would look like a restart
    if (started)
        out.real(Kind::gauge, "start_time_seconds", "start of the process, in seconds since 1970", *started);
    out.use_prefix(own);
}

}  // namespace farcached::http
