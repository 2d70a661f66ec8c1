// SPDX-License-Identifier: BSD-3-Clause
// Prints the man page's description of statistics, from the tables that declare them. Runs during the build.
#include <cstdio>
#include <string_view>

#include "daemon/own_stats.h"
#include "daemon/session_end.h"
#include "daemon/worker_counters.h"
#include "proxy/local_get.h"

namespace {

void heading(const char* text) { std::printf(".SS \"%s\"\n", text); }

void row(std::string_view name, std::string_view help) {
    std::printf(".TP\n.B %.*s\n", int(name.size()), name.data());
    for (char c : help) {
        if (c == '-' || c == '\\') std::putchar('\\');
        std::putchar(c);
    }
    std::putchar('\n');
}

}  // namespace

int main() {
#define X(name, help, ...) row(#name, help);
    heading("stats proxy: hits without a lock");
    LOCAL_GET_COUNTERS(X)
    heading("stats proxy: sessions and memory");
    OWN_STATS(X)
    heading("stats proxy: why connections ended");
#define X_END(name, text, help) row("close_" #name, help);
    SESSION_ENDS(X_END)
#undef X_END
    heading("stats: what workers count");
    WORKER_COUNTERS(X)
    heading("stats slabs: per size class");
    CLASS_COUNTERS(X)
#undef X
    return std::fflush(stdout) == 0 && !std::ferror(stdout) ? 0 : 1;
}
