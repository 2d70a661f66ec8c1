// SPDX-License-Identifier: BSD-3-Clause
#include "bench/chart.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

namespace farcached::bench {

namespace fs = std::filesystem;

std::string find_script(const char* script) {
    std::error_code none;
    const fs::path folder = fs::read_symlink("/proc/self/exe", none).parent_path();
    for (const char* place : {"../share/farcached", "bench/compare", "bench/hitratio", "bench/reports", "bench/transport"}) {
        const fs::path path = folder / place / script;
        if (fs::exists(path, none)) return path.string();
    }
    return {};
}

void draw_charts(const char* command, const char* script, const std::string& given, const std::string& folder) {
    const std::string path = given.empty() ? find_script(script) : given;
    if (path.empty()) {
        std::fprintf(stderr, "farbench %s: no charts; draw them by bench/%s/%s %s\n", command, command, script, folder.c_str());
        return;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        execlp("python3", "python3", path.c_str(), folder.c_str(), static_cast<char*>(nullptr));
        _exit(127);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        std::fprintf(stderr, "farbench %s: no charts; see the output of python3 above\n", command);
}

}  // namespace farcached::bench
