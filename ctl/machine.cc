// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/machine.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include "ctl/server.h"

namespace farcached::ctl {

namespace {

// Without the end of its line. Empty: it cannot be read.
std::string text_of_file(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    std::string all = text.str();
    while (all.ends_with('\n')) all.pop_back();
    return all;
}

std::optional<uint64_t> number_in(const std::string& path) { return parse_number(text_of_file(path)); }

// Names in a folder, sorted.
std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code failed;
    for (auto at = std::filesystem::directory_iterator(folder, failed); !failed && at != std::filesystem::directory_iterator();
         at.increment(failed))
        names.push_back(at->path().filename().string());
    std::ranges::sort(names);
    return names;
}

// "always [advise] never": advise.
std::string chosen_word(const std::string& text) {
    const size_t open = text.find('['), close = text.find(']');
    return open < close && close != text.npos ? text.substr(open + 1, close - open - 1) : "";
}

std::vector<Machine::Device> rdma_devices(const std::string& root) {
    const std::string folder = root + "/sys/class/infiniband/";
    std::vector<Machine::Device> devices;
    for (const std::string& name : names_in(folder)) {
        Machine::Device& device = devices.emplace_back(Machine::Device{name, {}, text_of_file(folder + name + "/hca_type")});
        for (const std::string& port : names_in(folder + name + "/ports")) {
            const std::string state = text_of_file(folder + name + "/ports/" + port + "/state");  // "4: ACTIVE"
            device.ports.push_back(state.substr(std::min(state.find(": "), state.size())));
            device.ports.back().erase(0, 2);
        }
    }
    return devices;
}

// farcached-VERSION-USER, the default name.
std::vector<Machine::Table> pointer_tables(const std::string& root) {
    constexpr std::string_view beginning = "farcached-";
    std::vector<Machine::Table> tables;
    for (const std::string& name : names_in(root + "/dev/shm")) {
        if (!name.starts_with(beginning)) continue;
        const std::string_view rest = std::string_view(name).substr(beginning.size());
        const size_t dash = std::min(rest.find('-'), rest.size());
        const auto version = parse_number(rest.substr(0, dash)), user = parse_number(rest.substr(std::min(dash + 1, rest.size())));
        struct stat file {};
        const std::string path = root + "/dev/shm/" + name;
        if (!version || !user || lstat(path.c_str(), &file) != 0) continue;
        tables.push_back({path, *version, *user, file.st_uid, uint32_t(file.st_mode & 07777)});
    }
    return tables;
}

std::string process_folder(const std::string& root, uint64_t pid) { return root + "/proc/" + std::to_string(pid) + "/"; }

// The pid of a process in its own namespace. "NSpid:  4711  7": 7.
std::optional<uint64_t> innermost_pid(const std::string& root, uint64_t pid) {
    constexpr std::string_view name = "\nNSpid:";
    const std::string status = text_of_file(process_folder(root, pid) + "status");
    const size_t at = status.find(name);
    if (at == status.npos) return {};
    std::istringstream line(status.substr(at + name.size(), status.find('\n', at + 1) - at - name.size()));
    std::optional<uint64_t> last;
    for (std::string word; line >> word;) last = parse_number(word);
    return last;
}

// The kernel shows a process's program only to users that may trace the process, and its name to all.
bool is_daemon(const std::string& root, uint64_t pid) {
    std::error_code failed;
    std::string program = std::filesystem::read_symlink(process_folder(root, pid) + "exe", failed).filename().string();
    if (failed) program = text_of_file(process_folder(root, pid) + "comm");
    return program.starts_with("farcached") || program.starts_with("farnode");
}

// "Max locked memory         8388608              8388608              bytes": the first number. None: unlimited.
std::optional<uint64_t> soft_limit(const std::string& limits, std::string_view name) {
    const size_t at = limits.find(name);
    if (at == limits.npos) return {};
    std::istringstream rest(limits.substr(at + name.size()));
    std::string word;
    rest >> word;
    return parse_number(word);
}

}  // namespace

Machine read_machine(const std::string& root) {
    Machine machine;
    machine.devices = rdma_devices(root);
    for (const std::string& name : names_in(root + "/dev/infiniband")) machine.has_verbs_file |= name.starts_with("uverbs");
    struct statvfs shared {};
    if (statvfs((root + "/dev/shm").c_str(), &shared) == 0) {
        machine.shared_bytes = uint64_t(shared.f_blocks) * shared.f_frsize;
        machine.shared_free = uint64_t(shared.f_bavail) * shared.f_frsize;
    }
    machine.tables = pointer_tables(root);
    machine.huge_pages = chosen_word(text_of_file(root + "/sys/kernel/mm/transparent_hugepage/enabled"));
    machine.huge_pages_shared = chosen_word(text_of_file(root + "/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
    machine.somaxconn = number_in(root + "/proc/sys/net/core/somaxconn");
    machine.overcommit_memory = number_in(root + "/proc/sys/vm/overcommit_memory");
    machine.io_uring_disabled = number_in(root + "/proc/sys/kernel/io_uring_disabled");
    return machine;
}

std::optional<uint64_t> pid_of_daemon(const std::string& root, uint64_t told, uint64_t listener) {
    if (listener == 0) return {};
    if (listener == told || innermost_pid(root, listener) == told) return listener;
    if (is_daemon(root, told)) return told;
    return {};
}

std::optional<ProcessLimits> limits_of_process(const std::string& root, uint64_t pid) {
    const std::string limits = text_of_file(process_folder(root, pid) + "limits");
    if (limits.empty()) return {};
    return ProcessLimits{soft_limit(limits, "Max locked memory"), soft_limit(limits, "Max open files")};
}

}  // namespace farcached::ctl
