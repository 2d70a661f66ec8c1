// SPDX-License-Identifier: BSD-3-Clause
// Machine: what `farctl doctor` reads of this host, from files of /proc, /sys and /dev. It judges nothing.
// Owner: main; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace farcached::ctl {

struct Machine {
    struct Device {
        std::string name;
        std::vector<std::string> ports;  // states: "ACTIVE", "DOWN"
        std::string type = {};           // "MT4119"; empty: unknown
    };
    struct Table {                       // a pointer table
        std::string path;
        uint64_t version = 0, named_user = 0, owner = 0;  // version and user are those in its name
        uint32_t mode = 0;
    };
    std::vector<Device> devices;         // RDMA
    bool has_verbs_file = false;         // /dev/infiniband/uverbs*
    std::optional<uint64_t> shared_bytes, shared_free;  // of /dev/shm; none: not mounted
    std::vector<Table> tables;
    // The word in brackets: "never". Empty: the kernel has none.
    std::string huge_pages, huge_pages_shared;
    std::optional<uint64_t> somaxconn, overcommit_memory, io_uring_disabled;
};

// root: "", or the folder of a copy, for tests.
Machine read_machine(const std::string& root);

// A daemon's pid as seen from here, for its files in /proc. `told` is in the daemon's own PID namespace. `listener`, as seen here,
// made the daemon's socket listen: the daemon, or a service manager that passed the socket. 0: not visible. None: nor is the
// daemon.
std::optional<uint64_t> pid_of_daemon(const std::string& root, uint64_t told, uint64_t listener);

// Of a process on this host. None: not here, or no permission.
struct ProcessLimits {
    std::optional<uint64_t> locked_bytes, descriptors;  // none: unlimited
};
std::optional<ProcessLimits> limits_of_process(const std::string& root, uint64_t pid);

}  // namespace farcached::ctl
