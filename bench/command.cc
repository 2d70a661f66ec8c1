// SPDX-License-Identifier: BSD-3-Clause
#include "bench/command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdarg>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <system_error>

namespace farcached::bench {

namespace fs = std::filesystem;

void catch_interrupts() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted.store(true); };
    action.sa_flags = int(SA_RESETHAND);
    for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

void write_file(const std::string& path, const std::string& text, std::ios::openmode mode) {
    std::ofstream file(path, mode);
    file << text;
    file.close();
    if (!file) throw std::runtime_error("cannot write " + path);
}

std::string form(const char* format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

std::string shown(const Number& number, const char* format) {
    return number.has_value() ? form(format, *number) : std::string("-");
}

std::string csv_number(const Number& number) { return number.has_value() ? form("%.9g", *number) : std::string(); }

Number mean_of(const std::vector<double>& known) {
    if (known.empty()) return {};
    return std::accumulate(known.begin(), known.end(), 0.0) / double(known.size());
}

Number deviation_of(const std::vector<double>& known) {
    if (known.size() < 2) return {};
    const double mean = *mean_of(known);
    double squares = 0;
    for (const double number : known) squares += (number - mean) * (number - mean);
    return std::sqrt(squares / double(known.size() - 1));
}

int refuse_arguments(const char* command, const std::string& wrong) {
    std::fprintf(stderr, "farbench %s: %s\nTry farbench %s --help.\n", command, wrong.c_str(), command);
    return exit_usage;
}

std::string find_script(const std::string& command, const std::string& script) {
    std::error_code none;
    const fs::path folder = fs::read_symlink("/proc/self/exe", none).parent_path();
    for (const fs::path& place : {folder / "../share/farcached", folder / "bench" / command})
        if (fs::exists(place / script, none)) return (place / script).string();
    return {};
}

void draw_charts(const std::string& command, const std::string& folder, std::string script) {
    if (script.empty()) script = command + "_chart.py";
    const std::string path = find_script(command, script);
    if (path.empty()) {
        std::fprintf(stderr, "farbench %s: no charts; draw them by bench/%s/%s %s\n", command.c_str(), command.c_str(),
                     script.c_str(), folder.c_str());
        return;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        execlp("python3", "python3", path.c_str(), folder.c_str(), static_cast<char*>(nullptr));
        _exit(127);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        std::fprintf(stderr, "farbench %s: no charts; see the output of python3 above\n", command.c_str());
}

}  // namespace farcached::bench
