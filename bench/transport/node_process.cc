// SPDX-License-Identifier: BSD-3-Clause
#include "bench/transport/node_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <rdma/rdma_cma.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <variant>

#include "fabric/shm/shm_channel.h"
#include "fabric/socket.h"
#include "fabric/tcp_channel.h"

namespace farcached::bench {

namespace {

constexpr int start_ms_max = 60'000;  // farnode locks its memory for a device, which may be emulated
constexpr int end_ms_max = 10'000;
constexpr int look_every_ms = 5;
constexpr const char* memory_megabytes = "64";

[[noreturn]] void fail(const std::string& what, int error) {
    throw std::runtime_error(what + ": " + std::strerror(error));
}

void pause_ms(int ms) {
    const timespec t{0, long(ms) * 1'000'000};
    nanosleep(&t, nullptr);
}

std::string beside_this_program(const char* name) {
    std::error_code none;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", none);
    const std::string path = (self.parent_path() / name).string();
    return !none && access(path.c_str(), X_OK) == 0 ? path : name;
}

std::string address_of(const NodeToStart& start) {
    if (start.via != Via::verbs) return "127.0.0.1";
    return start.host.empty() ? rdma_address() : start.host;
}

}  // namespace

NodeProcess::NodeProcess(const NodeToStart& start, const std::vector<std::string>& arguments) {
    std::string folder = (std::filesystem::temp_directory_path() / "farbench-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) fail("cannot make " + folder, errno);
    folder_ = folder;
    try {
        run(start, arguments);
        wait_for_ports();
    } catch (...) {
        end();
        throw;
    }
}

NodeProcess::~NodeProcess() { end(); }

void NodeProcess::run(const NodeToStart& start, std::vector<std::string> arguments) {
    const std::string host = address_of(start);
    const std::string program = start.program.empty() ? beside_this_program("farnode") : start.program;
    std::vector<std::string> words = {program, "-m", memory_megabytes, "-t", std::to_string(start.threads),
                                      "--lease-ms", std::to_string(start.lease_ms), "--tcp", "127.0.0.1:0"};
    if (geteuid() == 0) words.insert(words.end(), {"-u", "root"});
    if (start.via == Via::verbs) words.insert(words.end(), {"--insecure", "--verbs", host + ":0"});
    if (start.via == Via::shm) words.insert(words.end(), {"--shm", folder_ + "/node.sock"});
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    if (start.via == Via::verbs) places_.push_back({Via::verbs, host, 0});
    if (start.via == Via::shm) places_.push_back({Via::shm, folder_ + "/node.sock", 0});
    places_.push_back({Via::tcp, "127.0.0.1", 0});
    const std::string port_file = folder_ + "/ports";
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) fail("cannot make a process", errno);
    if (pid_ > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    if (getppid() != parent) _exit(1);
    setenv("FARNODE_PORT_FILENAME", port_file.c_str(), 1);
    execvp(argv[0], argv.data());
    const std::string text = "farbench: cannot run " + program + ": " + std::strerror(errno) + "\n";
    (void)!write(STDERR_FILENO, text.data(), text.size());
    _exit(1);
}

void NodeProcess::wait_for_ports() {
    for (int ms = 0; ms < start_ms_max; ms += look_every_ms) {
        int status = 0;
        if (waitpid(pid_, &status, WNOHANG) == pid_) {
            pid_ = -1;
            throw std::runtime_error("farnode did not start; see its output above");
        }
        std::ifstream file(folder_ + "/ports");  // the file appears complete
        size_t known = 0;
        for (std::string line; std::getline(file, line);) {
            for (NodePlace& place : places_) {
                const char* name = place.via == Via::tcp ? "TCP " : "VERBS ";
                if (!line.starts_with(name)) continue;
                place.port = uint16_t(std::stoul(line.substr(line.rfind(' ') + 1)));
                known++;
            }
        }
        if (known > 0) return;
        pause_ms(look_every_ms);
    }
    throw std::runtime_error("farnode did not start in time");
}

void NodeProcess::end() {
    if (pid_ > 0) {
        kill(pid_, SIGTERM);
        int status = 0;
        for (int ms = 0; waitpid(pid_, &status, WNOHANG) == 0; ms += look_every_ms) {
            if (ms >= end_ms_max) kill(pid_, SIGKILL);
            pause_ms(look_every_ms);
        }
        pid_ = -1;
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

std::string rdma_address() {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) fail("getifaddrs", errno);
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, freeifaddrs);
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
        if ((one->ifa_flags & IFF_LOOPBACK) != 0) continue;
        rdma_cm_id* id = nullptr;
        if (rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) != 0) break;
        const bool bound = rdma_bind_addr(id, one->ifa_addr) == 0 && id->verbs != nullptr;
        rdma_destroy_id(id);
        if (!bound) continue;
        char text[INET_ADDRSTRLEN] = "";
        inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text, sizeof text);
        return text;
    }
    throw std::runtime_error("no address of this host belongs to an RDMA device: set --verbs-address, or see rdma link");
}

namespace {

fabric::VerbsConfig verbs_config(bool spin) {
    fabric::VerbsConfig config;
    if (spin) config.sleeps = false;
    return config;
}

}  // namespace

Reach::Reach(const NodePlace& to, bool spin) : place_(to), devices_(verbs_config(spin)) {
    if (place_.via == Via::shm) return;
    auto found = fabric::look_up(place_.host, place_.port);
    if (auto* why = std::get_if<std::string>(&found))
        throw std::runtime_error("the host " + place_.host + " is not known: " + *why);
    addresses_ = std::get<std::vector<fabric::SocketAddress>>(std::move(found));
}

Result<std::unique_ptr<fabric::Channel>> Reach::connect(const fabric::VerbsMemories& memories, fabric::ChannelEvents& events,
                                                        size_t turn, const fabric::RpcWish& rpc) {
    if (place_.via == Via::shm) return fabric::connect_shm(place_.host, regions_, events);
    const fabric::SocketAddress& to = addresses_[turn % addresses_.size()];
    if (place_.via == Via::verbs) return fabric::connect_verbs(to, devices_, memories, events, rpc);
    return fabric::connect_tcp(to, events);
}

const NodePlace* TestedNode::over(Via via) const {
    const auto found = std::find_if(places.begin(), places.end(), [&](const NodePlace& place) { return place.via == via; });
    return found == places.end() ? nullptr : &*found;
}

TestedNode tested_node(const NodeProcess* started, const std::vector<NodePlace>& places, int pid) {
    TestedNode node{started != nullptr ? started->places() : places, {}, started != nullptr};
    if (started != nullptr) node.pid = started->pid();
    if (pid != 0) node.pid = pid;
    return node;
}

}  // namespace farcached::bench
