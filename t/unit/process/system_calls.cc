// SPDX-License-Identifier: BSD-3-Clause
// The filter of system calls: which calls a thread started before it and one started after it may still make, and which
// neither may. A process cannot remove its filter. So all checks run in one process, and the filter with rdma and that
// without take two.
#include <fcntl.h>
#include <linux/openat2.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/sanitizers.h"
#include "process/log.h"
#include "process/system_calls.h"
#include "t/lib/tap.h"

using namespace farcached;

namespace {

constexpr bool sanitized = has_asan || has_tsan;

constexpr long rdma_request = 0xc0181b01;  // RDMA_VERBS_IOCTL

struct Try {
    const char* what;
    int want;  // errno, 0: it is done
    std::function<long()> call;
};

long none(long result) { return result; }

std::vector<Try> forbidden() {
    static char shell[] = "/bin/true";
    static char* const words[] = {shell, nullptr};
    return {
        {"execve", EPERM, [] { return none(execve(shell, words, environ)); }},
        {"execveat", EPERM, [] { return syscall(SYS_execveat, AT_FDCWD, shell, words, environ, 0); }},
        {"fork", EPERM, [] { return none(fork()); }},
        {"vfork by clone", EPERM, [] { return syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0); }},
        {"clone3", ENOSYS, [] { return syscall(SYS_clone3, nullptr, 0); }},
        {"ptrace of the parent", EPERM, [] { return none(ptrace(PTRACE_SEIZE, getppid(), 0, 0)); }},
        {"memory of the parent", EPERM, [] {
             char byte = 0;
             iovec here{&byte, 1}, there{&byte, 1};
             return none(process_vm_readv(getppid(), &here, 1, &there, 1, 0));
         }},
        {"a signal to the parent", EPERM, [] { return none(kill(getppid(), 0)); }},
        {"a packet socket", EPERM, [] { return none(socket(AF_PACKET, SOCK_RAW, 0)); }},
        {"memory that is written and executed", EPERM, [] {
             void* at = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
             return at == MAP_FAILED ? -1L : 0L;
         }},
        {"memory that becomes executable", EPERM, [] {
             void* at = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
             return none(mprotect(at, 4096, PROT_READ | PROT_EXEC));
         }},
        {"io_uring", EPERM, [] { return syscall(SYS_io_uring_setup, 0, nullptr); }},
        {"another root", EPERM, [] { return none(chroot("/")); }},
        {"another user", EPERM, [] { return none(setuid(getuid())); }},
        {"limits of the parent", EPERM, [] {
             rlimit limit{};
             return none(prlimit(getppid(), RLIMIT_NOFILE, nullptr, &limit));
         }},
        {"a filter of its own", EPERM, [] { return syscall(SYS_seccomp, 1, 0, nullptr); }},
        {"becoming dumpable", EPERM, [] { return none(prctl(PR_SET_DUMPABLE, 1)); }},
        {"the terminal's input", EPERM, [] { return none(ioctl(0, TIOCSTI, "x")); }},
    };
}

std::vector<Try> allowed() {
    return {
        {"a thread", 0, [] {
             std::thread([] { prctl(PR_SET_NAME, "later"); }).join();
             return 0L;
         }},
        {"a signal to itself", 0, [] { return none(kill(getpid(), 0)); }},
        {"a TCP socket", 0, [] { return none(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }},
        {"openat2", 0, [] {
             open_how how{};
             how.flags = O_PATH | O_CLOEXEC;
             const long file = syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof how);
             return file < 0 && errno == ENOSYS ? 0 : file;  // before Linux 5.6
         }},
        {"memory", 0, [] { return mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1L : 0L; }},
        {"code of a library", 0, [] {
             const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
             return mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED ? -1L : 0L;
         }},
        // Y3: effects that the filter does not prevent.
        {"code from a file that was written", 0, [] {
             const int file = memfd_create("code", MFD_CLOEXEC);
             if (file < 0 || write(file, "\xc3", 1) != 1) return -1L;
             return mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED ? -1L : 0L;
         }},
        {"its own memory as a file", 0, [] { return none(open("/proc/self/mem", O_RDWR | O_CLOEXEC)); }},
        {"memory to be shared", 0, [] { return none(memfd_create("shared", MFD_CLOEXEC)); }},
        {"its limits", 0, [] {
             rlimit limit{};
             return none(getrlimit(RLIMIT_NOFILE, &limit));
         }},
        {"a name of an interface", 0, [] { return if_nametoindex("lo") == 0 ? -1L : 0L; }},
        {"a name looked up", 0, [] {
             addrinfo* found = nullptr;
             if (getaddrinfo("localhost", "11211", nullptr, &found) != 0) return -1L;
             freeaddrinfo(found);
             return 0L;
         }},
    };
}

// A thread that started before the filter, and runs one piece of work.
class Early {
  public:
    // Runs it once, and returns when it is done.
    void go(std::function<void()> work) {
        {
            const std::lock_guard hold(lock_);
            work_ = std::move(work);
        }
        told_.notify_one();
        thread_.join();
    }

  private:
    std::mutex lock_;
    std::condition_variable told_;
    std::function<void()> work_;
    std::thread thread_{[this] {
        std::unique_lock hold(lock_);
        told_.wait(hold, [this] { return bool(work_); });
        work_();
    }};
};

void check(const std::string& who, const std::vector<Try>& tries) {
    for (const Try& one : tries) {
        errno = 0;
        const long result = one.call();
        const int got = result < 0 ? errno : 0;
        tap::ok(got == one.want && (got != 0) == (result < 0),
                who + ": " + one.what + (one.want == 0 ? " is had" : " is refused") + ", errno " + std::to_string(got));
    }
}

std::string status_of(const char* name) {
    FILE* file = std::fopen("/proc/thread-self/status", "re");
    char line[256];
    std::string found;
    while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr)
        if (std::string(line).starts_with(name)) found = std::string(line).substr(std::string(name).size());
    if (file != nullptr) std::fclose(file);
    while (!found.empty() && found.back() == '\n') found.pop_back();
    while (!found.empty() && (found.front() == '\t' || found.front() == ':')) found.erase(0, 1);
    return found;
}

void check_marks(const std::string& who) {
    tap::ok(status_of("Seccomp:") == "2", who + " has a filter");
    tap::ok(status_of("NoNewPrivs:") == "1", who + " gets no privileges");
}

// Whether is_so() holds in a child.
bool in_child(const std::function<bool()>& is_so) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) _exit(is_so() ? 0 : 1);
    int status = -1;
    waitpid(child, &status, 0);
    return status == 0;
}

// The filters of the uses, each in a process that then ends.
void check_uses() {
    process::set_log(process::Level::error, LogFormat::text);
    tap::ok(process::system_calls_cover({.ring = true, .rdma = true}), "before there is a filter nothing is lost");
    const auto with = [](process::SystemCallUse use, const std::function<bool()>& is_so) {
        return in_child([&] { return !process::limit_system_calls(use) && is_so(); });
    };
    tap::ok(with({.ring = true}, [] { return syscall(SYS_io_uring_setup, 0, nullptr) < 0 && errno != EPERM; }),
            "with the use of io_uring its calls are allowed");
    tap::ok(with({.rdma = true}, [] { return ioctl(-1, rdma_request, 0) < 0 && errno == EBADF; }),
            "with the use of RDMA the requests to its devices are allowed");
    tap::ok(with({}, [] { return ioctl(-1, rdma_request, 0) < 0 && errno == EPERM; }), "and not without");
    tap::ok(with({.rdma = true}, [] {
                return process::system_calls_cover({.rdma = true}) && !process::system_calls_cover({.ring = true});
            }), "the filter covers the wanted use and no other");
}

}  // namespace

int main() {
    if (sanitized || process::check_system_calls()) {
        tap::skip(1, "this build or this kernel has no filters of system calls, or a sanitizer makes calls of its own");
        return tap::done();
    }
    check_uses();
    Early early;
    tap::ok(!process::limit_system_calls({}), "the filter is set");
    check_marks("the thread that set it");
    check("the thread that set it", allowed());
    check("the thread that set it", forbidden());
    std::thread([] {
        check_marks("a later thread");
        check("a later thread", forbidden());
    }).join();
    early.go([] {
        check_marks("a thread of before");
        check("a thread of before", forbidden());
        check("a thread of before", allowed());
    });
    return tap::done();
}
