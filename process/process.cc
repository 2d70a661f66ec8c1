// SPDX-License-Identifier: BSD-3-Clause
#include "process/process.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "process/log.h"

namespace farcached::process {

namespace {

std::string error_text() { return std::strerror(errno); }

void complain(const std::string& line) { say(Level::warning, line); }

}  // namespace

void outlive_readers() {
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);  // a file at its size limit is like a full disk
}

// -- Limits ---------------------------------------------------------------------------------------------

Refusal raise_core_limit() {
    rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_CORE, &unlimited) == 0) return {};
    rlimit limit{};
    if (getrlimit(RLIMIT_CORE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur != 0) return {};
    }
    return Problem{conf::exit_system, "failed to ensure corefile creation\n"};
}

Refusal raise_file_limit(uint64_t connections, uint64_t others) {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return Problem{conf::exit_system, "failed to getrlimit number of files\n"};
    }
    rlim_t wanted = connections + others;
    if (limit.rlim_cur >= wanted) return {};
    rlimit raised{wanted, std::max(limit.rlim_max, wanted)};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) return {};
    // The hard limit cannot be raised: use all of it.
    if (limit.rlim_max >= connections) {
        raised = {std::min(limit.rlim_max, wanted), limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0) return {};
    }
    return Problem{conf::exit_system,
                   "failed to set rlimit for open files. Try starting as root or requesting smaller "
                   "maxconns value.\n"};
}

// -- User --------------------------------------------------------------------------------------------

Result<Identity> find_identity(const std::string& user) {
    Identity identity;
    if (getuid() != 0 && geteuid() != 0) {
        if (const passwd* own = getpwuid(geteuid()); own != nullptr && !user.empty() && user != own->pw_name)
            complain("-u " + user + ": not started as root, so this process stays " + own->pw_name +
                     "; in a unit, set User=\n");
        return identity;
    }
    if (user.empty()) return Problem{conf::exit_usage, "must add '-u root' to start as root\n"};
    const passwd* entry = getpwnam(user.c_str());
    if (entry == nullptr) {
        return Problem{conf::exit_no_user, "can't find the user " + user + " to switch to\n"};
    }
    identity.user = user;
    identity.uid = entry->pw_uid;
    identity.gid = entry->pw_gid;
    identity.change = true;
    return identity;
}

namespace {

void give_away(const std::string& path, const Identity& identity) {
    if (!identity.change) return;
    if (lchown(path.c_str(), identity.uid, identity.gid) == 0) return;
    complain("failed to give " + path + " to " + identity.user + ": " + error_text() + "; its owner stays root, so " +
             identity.user + " may be unable to connect: grant CAP_CHOWN, or start as " + identity.user + "\n");
}

}  // namespace

int bind_unix(int fd, const sockaddr_un& address, mode_t mode, const Identity& owner) {
    const mode_t before = umask(mode_t(~mode & 0777));
    const int bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    const int error = errno;
    umask(before);
    if (bound == 0) give_away(address.sun_path, owner);
    errno = error;
    return bound;
}

Refusal drop_privileges(const Identity& identity, bool core_dumps) {
    if (!identity.change) return {};
    // EPERM: in a container with few privileges.
    if (setgroups(0, nullptr) < 0 && errno != EPERM) {
        return Problem{conf::exit_system, "failed to drop supplementary groups: " + error_text() + "\n"};
    }
    if (setgid(identity.gid) < 0 || setuid(identity.uid) < 0) {
        return Problem{conf::exit_system,
                       "failed to assume identity of user " + identity.user + ": " + error_text() + "\n"};
    }
    // A change of user disables core dumps.
    if (core_dumps) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    return {};
}

// -- Background --------------------------------------------------------------------------------------

bool may_leave(bool asked, const ServiceManager& manager) {
    if (!asked || !manager.waits_for_this()) return asked;
    say(Level::notice, "-d is ignored: the service manager requires a foreground process");
    return false;
}

namespace {

void leave_terminal_output() {
    int nothing = open("/dev/null", O_RDWR);
    if (nothing < 0) return;
    for (int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, standard);
    if (nothing > STDERR_FILENO) close(nothing);
}

Problem no_background() {
    return {conf::exit_illegal, "failed to daemon() in order to daemonize: " + error_text() + "\n"};
}

// One byte: the child is ready. End of file: the child ended; exit with its status.
[[noreturn]] void exit_as(pid_t child, int told) {
    char byte = 0;
    ssize_t got = 0;
    do got = read(told, &byte, 1);
    while (got < 0 && errno == EINTR);
    if (got == 1) _exit(conf::exit_ok);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
    say(Level::error, "the process ended by signal " + std::to_string(WTERMSIG(status)));
    _exit(conf::exit_system);
}

}  // namespace

Refusal Background::start() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return no_background();
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) return no_background();
    if (child > 0) {
        close(ends[1]);
        exit_as(child, ends[0]);
    }
    close(ends[0]);
    tell_ = ends[1];
    if (setsid() < 0) return no_background();
    return {};
}

void Background::ready(bool keep_output) {
    if (tell_ < 0) return;
    if (chdir("/") != 0) complain("chdir: " + error_text() + "\n");
    if (!keep_output) leave_terminal_output();
    (void)!write(tell_, "", 1);
    close(std::exchange(tell_, -1));
}

Refusal go_to_background(bool keep_folder, bool keep_output) {
    std::fflush(nullptr);
    pid_t child = fork();
    if (child < 0) return no_background();
    if (child > 0) _exit(conf::exit_ok);
    if (setsid() < 0) return no_background();
    if (!keep_folder && chdir("/") != 0) complain("chdir: " + error_text() + "\n");
    if (!keep_output) leave_terminal_output();
    return {};
}

std::string lock_memory() {
    // MCL_ONFAULT: reserved address space (the arena's room to grow, stacks) takes no memory.
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0) return {};
    return "warning: -k invalid, mlockall() failed: " + error_text();
}

// -- Files ----------------------------------------------------------------------------------------------

namespace {

// The process id that a file holds.
std::optional<pid_t> pid_in(const std::string& path) {
    FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) return {};
    char line[32];
    bool read = std::fgets(line, sizeof line, file) != nullptr;
    std::fclose(file);
    if (!read) return {};
    char* end = nullptr;
    long pid = std::strtol(line, &end, 10);
    if (end == line || pid <= 0) return {};
    return pid_t(pid);
}

// Readers never see a partial file: writes `beside`, then renames it. False: errno has the reason and `what` the failed
// step.
bool write_whole(const std::string& path, const std::string& beside, const std::string& text,
                 const char*& what) {
    what = "open";
    FILE* file = std::fopen(beside.c_str(), "we");
    if (file == nullptr) return false;
    what = "write";
    bool written = std::fputs(text.c_str(), file) >= 0;
    if (std::fclose(file) != 0) written = false;
    if (written) {
        what = "rename";
        if (std::rename(beside.c_str(), path.c_str()) == 0) return true;
    }
    int saved = errno;
    unlink(beside.c_str());
    errno = saved;
    return false;
}

}  // namespace

PidFile::PidFile(std::string path) : path_(std::move(path)) {
    if (path_.empty()) return;
    if (std::optional<pid_t> other = pid_in(path_); other && kill(*other, 0) == 0) {
        complain("WARNING: The pid file contained the following (running) pid: " +
                 std::to_string(*other) + "\n");
    }
    const char* what = nullptr;
    if (write_whole(path_, path_ + ".tmp", std::to_string(getpid()) + "\n", what)) return;
    complain("Could not " + std::string(what) + " the pid file " + path_ +
             (std::strcmp(what, "open") == 0 ? ".tmp for writing: " : ": ") + error_text() + "\n");
    path_.clear();
}

PidFile::~PidFile() {
    if (path_.empty() || pid_in(path_) != getpid()) return;
    if (unlink(path_.c_str()) == 0) return;
    complain("Could not remove the pid file " + path_ + ": " + error_text() + "\n");
}

void write_port_file(const char* path, std::span<const BoundPort> ports) {
    if (path == nullptr || *path == '\0' || ports.empty()) return;
    std::string text;
    for (const BoundPort& bound : ports) {
        text += std::string(bound.transport) + (bound.ipv6 ? " INET6: " : " INET: ") + std::to_string(bound.port) + "\n";
    }
    const char* what = nullptr;
    std::string beside = std::string(path) + ".lck";
    if (write_whole(path, beside, text, what)) return;
    complain("Failed to " + std::string(what) + " \"" + beside + "\": " + error_text() + "\n");
}

// -- Signals --------------------------------------------------------------------------------------------

namespace {

constexpr timespec one_second{1, 0};

// Of ask_to_work(); no constant.
int work_signal() { return SIGRTMIN; }

bool ends(int number) { return number == SIGTERM || number == SIGINT || number == SIGUSR1; }

}  // namespace

Signals::Signals() {
    outlive_readers();
    sigemptyset(&awaited_);
    for (int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP, work_signal()}) sigaddset(&awaited_, number);
    CHECK(pthread_sigmask(SIG_BLOCK, &awaited_, nullptr) == 0);
}

bool Signals::wait_for_the_end(FunctionRef<void()> reload, FunctionRef<bool()> work) {
    for (bool done = true;;) {
        const int number = done ? sigwaitinfo(&awaited_, nullptr) : sigtimedwait(&awaited_, nullptr, &one_second);
        if (number == SIGUSR1) say(Level::notice, "Gracefully stopping");
        if (ends(number)) return number == SIGUSR1;
        if (number == SIGHUP) {
            reload();
        } else if (number == work_signal() || (number < 0 && errno == EAGAIN)) {
            done = work();
        } else {
            CHECK(number < 0);
            CHECK(errno == EINTR);
        }
    }
}

bool Signals::wait_until(FunctionRef<bool()> is_over) {
    sigset_t some = awaited_;
    sigdelset(&some, SIGHUP);
    while (!is_over()) {
        const int number = sigtimedwait(&some, nullptr, &one_second);
        if (number == SIGUSR1) say(Level::notice, "Gracefully stopping");
        if (ends(number)) return false;
    }
    return true;
}

void Signals::ask_to_stop(bool graceful) { kill(getpid(), graceful ? SIGUSR1 : SIGTERM); }
void Signals::ask_to_reload() { kill(getpid(), SIGHUP); }
void Signals::ask_to_work() { kill(getpid(), work_signal()); }

namespace {

// "0-3,8"
std::string list_of(const cpu_set_t& cpus) {
    std::string list;
    for (int first = 0; first < CPU_SETSIZE; first++) {
        if (!CPU_ISSET(first, &cpus)) continue;
        int last = first;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &cpus)) last++;
        if (!list.empty()) list += ',';
        list += std::to_string(first);
        if (last != first) list += '-' + std::to_string(last);
        first = last;
    }
    return list;
}

}  // namespace

Refusal check_cpus(std::string_view option, std::span<const uint32_t> cpus) {
    cpu_set_t usable;
    if (cpus.empty() || sched_getaffinity(0, sizeof usable, &usable) != 0) return {};
    const auto refused = std::ranges::find_if(cpus, [&](uint32_t cpu) { return !CPU_ISSET(cpu, &usable); });
    if (refused == cpus.end()) return {};
    return Problem{conf::exit_usage, "ERROR: " + std::string(option) + ": CPU " + std::to_string(*refused) +
                                               " is not among the CPUs that this process may use (" + list_of(usable) + ").\n"};
}

void pin_this_thread(uint32_t cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0) return;
    say(Level::warning, "cannot bind a worker to CPU " + std::to_string(cpu) + ": " + std::generic_category().message(errno));
}

}  // namespace farcached::process
