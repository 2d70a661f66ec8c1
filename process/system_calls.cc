// SPDX-License-Identifier: BSD-3-Clause
#include "process/system_calls.h"

#ifdef FARCACHED_LIBSECCOMP
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>

#include "process/log.h"
#endif

namespace farcached::process {

#ifdef FARCACHED_LIBSECCOMP

namespace {

constexpr unsigned api_with_tsync = 2;  // seccomp_api_get(3)
#if defined(__s390__)
constexpr unsigned clone_flags_at = 1;
#else
constexpr unsigned clone_flags_at = 0;
#endif
constexpr uint64_t rdma_requests = 0x1b00;  // RDMA_IOCTL_MAGIC, of <rdma/rdma_user_ioctl_cmds.h>

// Allowed with any arguments. Filter skips names that the architecture or the library does not know.
constexpr const char* always[] = {
    // sockets, also those of name lookups
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recv", "recvfrom",
    "recvmmsg", "recvmsg", "send", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown", "socketpair",
    // events
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd", "eventfd2", "pipe",
    "pipe2", "poll", "ppoll", "ppoll_time64", "pselect6", "pselect6_time64", "select", "_newselect", "timerfd_create",
    "timerfd_gettime", "timerfd_settime", "timerfd_settime64",
    // files: a reload reads its file, libraries load name services, shared memory is made
    "access", "chdir", "close", "close_range", "dup", "dup2", "dup3", "faccessat", "faccessat2", "fchmod", "fcntl", "fcntl64",
    "flock", "fstat", "fstat64", "fstatat64", "fstatfs", "fstatfs64", "fsync", "ftruncate", "ftruncate64", "getcwd", "getdents",
    "getdents64", "linkat", "lseek", "_llseek", "lstat", "lstat64", "memfd_create", "newfstatat", "open", "openat", "openat2",
    "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readlink", "readlinkat", "readv", "rename",
    "renameat", "renameat2", "stat", "stat64", "statfs", "statfs64", "statx", "umask", "unlink", "unlinkat", "write", "writev",
    // memory
    "brk", "fallocate", "get_mempolicy", "madvise", "mbind", "mincore", "mlock", "mlock2", "mremap", "msync", "munlock",
    "munmap",
    // threads, signals, exits
    "exit", "exit_group", "futex", "futex_time64", "get_robust_list", "gettid", "restart_syscall", "rseq", "rt_sigaction",
    "rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_sigtimedwait_time64",
    "sched_getaffinity", "sched_setaffinity", "sched_yield", "set_robust_list", "sigaltstack", "sigreturn",
    // clocks, process and system data
    "clock_getres", "clock_getres_time64", "clock_gettime", "clock_gettime64", "clock_nanosleep", "clock_nanosleep_time64",
    "getcpu", "getegid", "getegid32", "geteuid", "geteuid32", "getgid", "getgid32", "getpid", "getppid", "getrandom",
    "getrlimit", "getrusage", "gettimeofday", "getuid", "getuid32", "nanosleep", "sysinfo", "time", "times", "ugetrlimit",
    "uname",
};

constexpr const char* with_ring[] = {"io_uring_enter", "io_uring_register", "io_uring_setup"};

// The library waits for a device's file.
constexpr const char* with_rdma[] = {"inotify_add_watch", "inotify_init1", "inotify_rm_watch"};

constexpr uint32_t refused = SCMP_ACT_ERRNO(EPERM);

// A filter under construction. It keeps its first error and ignores later calls.
class Filter {
  public:
    // logs: the kernel's audit log names each refused call.
    Filter(uint32_t otherwise, bool logs) : context_(seccomp_init(otherwise)) {
        if (context_ == nullptr) error_ = ENOMEM;
        set(SCMP_FLTATR_CTL_TSYNC, 1);
        set(SCMP_FLTATR_CTL_NNP, 1);
        set(SCMP_FLTATR_ACT_BADARCH, refused);
        if (error_ != 0) return;
        if (logs) (void)seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_LOG, 1);  // Linux 4.14 or later
        (void)seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);        // a binary tree
    }

    void allow(const char* name, std::initializer_list<scmp_arg_cmp> if_all = {}) { answer(SCMP_ACT_ALLOW, name, if_all); }
    void answer(uint32_t action, const char* name, std::initializer_list<scmp_arg_cmp> if_all = {}) {
        const int number = seccomp_syscall_resolve_name(name);
        if (number < 0 || error_ != 0) return;
        error_ = -seccomp_rule_add_array(context_.get(), action, number, unsigned(if_all.size()), if_all.begin());
        if (error_ == 0 && action == SCMP_ACT_ALLOW && number != last_) calls_++;
        last_ = number;
    }

    // errno of the first failure, or 0.
    int load() {
        if (error_ == 0) error_ = -seccomp_load(context_.get());
        return error_;
    }
    uint32_t calls() const { return calls_; }

  private:
    struct Release {
        void operator()(void* context) const { seccomp_release(context); }
    };

    void set(scmp_filter_attr attribute, uint32_t value) {
        if (error_ == 0) error_ = -seccomp_attr_set(context_.get(), attribute, value);
    }

    std::unique_ptr<void, Release> context_;
    int error_ = 0;
    int last_ = -1;
    uint32_t calls_ = 0;
};

constexpr scmp_arg_cmp masked(unsigned at, uint64_t mask, uint64_t value) { return {at, SCMP_CMP_MASKED_EQ, mask, value}; }
// For an int: the kernel ignores the register's upper half.
constexpr scmp_arg_cmp equal(unsigned at, uint64_t value) { return masked(at, UINT32_MAX, value); }

// Y3.
void allow_by_arguments(Filter& filter) {
    filter.allow("clone", {masked(clone_flags_at, CLONE_THREAD | CLONE_VM, CLONE_THREAD | CLONE_VM)});
    filter.allow("clone3");  // forbid_clone3() answers it
    for (const char* call : {"mmap", "mmap2"}) {
        filter.allow(call, {masked(2, PROT_EXEC, 0)});
        filter.allow(call, {masked(2, PROT_EXEC | PROT_WRITE, PROT_EXEC)});  // a library, as a name service or RDMA's
    }
    filter.allow("mprotect", {masked(2, PROT_EXEC, 0)});
    for (const char* call : {"kill", "tgkill"}) filter.allow(call, {equal(0, uint64_t(getpid()))});
    for (uint64_t family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}) filter.allow("socket", {equal(0, family)});
    for (uint64_t what : {PR_SET_NAME, PR_GET_NAME}) filter.allow("prctl", {equal(0, what)});
    for (uint64_t whose : {uint64_t(0), uint64_t(getpid())}) filter.allow("prlimit64", {equal(0, whose)});
    filter.allow("setrlimit");
    for (uint64_t request : {uint64_t(TCGETS), uint64_t(FIONREAD), uint64_t(SIOCGIFINDEX), uint64_t(SIOCGIFNAME)})
        filter.allow("ioctl", {equal(1, request)});
}

// Without a filter all uses are covered.
std::atomic<bool> lost_ring{false}, lost_rdma{false};

// Every new thread tries clone3, so its refusals must not fill the audit log.
int forbid_clone3() {
    Filter filter(SCMP_ACT_ALLOW, /* logs= */ false);
    filter.answer(SCMP_ACT_ERRNO(ENOSYS), "clone3");
    return filter.load();
}

}  // namespace

Refusal check_system_calls() {
    if (seccomp_api_get() >= api_with_tsync) return {};
    return Problem{conf::exit_system,
                   "drop_privileges: no seccomp filter (with TSYNC) in the kernel or the sandbox, so every "
                   "call would stay allowed; allow seccomp(2), or leave the option out\n"};
}

Refusal limit_system_calls(SystemCallUse use) {
    Filter filter(refused, /* logs= */ true);
    for (const char* call : always) filter.allow(call);
    allow_by_arguments(filter);
    if (use.ring)
        for (const char* call : with_ring) filter.allow(call);
    if (use.rdma) {
        for (const char* call : with_rdma) filter.allow(call);
        filter.allow("ioctl", {masked(1, 0xff00, rdma_requests)});
    }
    int error = forbid_clone3();
    if (error == 0) error = filter.load();
    if (error != 0)
        return Problem{conf::exit_system, "drop_privileges: the kernel refused the seccomp filter (" +
                                              std::string(std::strerror(error)) +
                                              "), so every call would stay allowed; allow seccomp(2), or leave the option out\n"};
    lost_ring = !use.ring;
    lost_rdma = !use.rdma;
    say(Level::notice, "drop_privileges: " + std::to_string(filter.calls()) +
                           " system calls are allowed; any other fails with EPERM, and the kernel's audit log names it");
    return {};
}

bool system_calls_cover(SystemCallUse use) { return !(use.ring && lost_ring) && !(use.rdma && lost_rdma); }

#else  // libseccomp is missing

Refusal check_system_calls() {
    return Problem{conf::exit_system,
                   "drop_privileges: this program was built without libseccomp, so every system call would stay allowed; "
                   "build it with libseccomp, or leave the option out\n"};
}

Refusal limit_system_calls(SystemCallUse) { return check_system_calls(); }

bool system_calls_cover(SystemCallUse) { return true; }

#endif

}  // namespace farcached::process
