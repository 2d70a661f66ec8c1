// SPDX-License-Identifier: BSD-3-Clause
// The process's own setup: limits, user id, background, locked memory, signals, pid and port files. Messages and exit
// statuses are memcached's.
//
// Owner: main, before other threads start.
#pragma once

#include <sys/types.h>
#include <sys/un.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "conf/program.h"
#include "process/service_manager.h"

namespace farcached::process {

// Before the first output: keeps the process alive when a reader of stderr goes away. Threads started later inherit it.
void outlive_readers();

// -- Limits ---------------------------------------------------------------------------------------------

Refusal raise_core_limit();

// Raises the limit for `connections` and, if the system allows it, for `others` too.
Refusal raise_file_limit(uint64_t connections, uint64_t others);

// -- User --------------------------------------------------------------------------------------------

// The user to run as; unchanged unless started as root.
struct Identity {
    std::string user;
    uid_t uid = 0;
    gid_t gid = 0;
    bool change = false;
};

// -u is required for root. Any other user stays unchanged; if -u differs, a warning is logged. Privileges are kept
// until drop_privileges().
Result<Identity> find_identity(const std::string& user);

// Binds a Unix socket; its file has that mode and owner before anyone can connect. -1 and errno if the address is unavailable.
int bind_unix(int fd, const sockaddr_un& address, mode_t mode, const Identity& owner);

// Afterwards the process may dump core only if `core_dumps`.
Refusal drop_privileges(const Identity& identity, bool core_dumps);

// -- Background --------------------------------------------------------------------------------------

// May the process go to the background, if `asked`? Not if a service manager waits for it; then a notice is logged.
bool may_leave(bool asked, const ServiceManager& manager);

// Returns in a child without a terminal; the parent exits with 0. Call before any thread starts.
Refusal go_to_background(bool keep_folder, bool keep_output);

// Background mode with a readiness signal: the parent waits until the child serves, so that startup errors appear where
// the program was started.
class Background {
  public:
    // Returns in a child without a terminal. The parent exits with 0 when the child is ready(), or with its exit
    // status. Call before any thread starts.
    Refusal start();
    // No effect without start().
    void ready(bool keep_output);

  private:
    int tell_ = -1;  // write end; the parent reads the other end
};

// Returns a warning, or an empty string. Call in the final process: a child does not inherit locks.
std::string lock_memory();

// -- Files ----------------------------------------------------------------------------------------------

// Keeps the process id in a file for its lifetime.
class PidFile {
  public:
    // An empty path: no file. Failures are logged and otherwise ignored, as in memcached.
    explicit PidFile(std::string path);
    ~PidFile();  // removes the file if it still holds this process's id
    PidFile(const PidFile&) = delete;
    PidFile& operator=(const PidFile&) = delete;

  private:
    std::string path_;
};

struct BoundPort {
    bool ipv6 = false;
    uint16_t port = 0;
    const char* transport = "TCP";  // as the port file names it
};

// $MEMCACHED_PORT_FILENAME: lines such as "TCP INET: 40041"; the file appears complete. No effect without path.
void write_port_file(const char* path, std::span<const BoundPort> ports);

// -- Signals --------------------------------------------------------------------------------------------

// From its construction, and in threads started later, blocks the program's signals until wait_for_the_end() takes
// them; SIGPIPE is ignored.
class Signals {
  public:
    Signals();
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;

    // Waits for a signal that ends the program. True: gracefully; the log has a line. Calls reload() for each signal
    // that requests one.
    bool wait_for_the_end(FunctionRef<void()> reload) {
        return wait_for_the_end(reload, [] { return true; });
    }
    // The same, and calls work() for ask_to_work(), and again a second later for as long as it returns false.
    bool wait_for_the_end(FunctionRef<void()> reload, FunctionRef<bool()> work);
    // Before: waits until is_over(), which it calls each second, and for ask_to_work(). A request of a reload stays for later.
    // False: a signal that ends the program.
    bool wait_until(FunctionRef<bool()> is_over);

    // Makes wait_for_the_end() return in its thread; any thread may call.
    static void ask_to_stop(bool graceful);
    // Requests a reload() in the same way.
    static void ask_to_reload();
    // Requests a work().
    static void ask_to_work();

  private:
    sigset_t awaited_;
};

// -- The CPUs that threads run on (any thread) -----------------------------------------------------------

// Refuses CPUs that this process may not use. `option`: names the option in the message.
Refusal check_cpus(std::string_view option, std::span<const uint32_t> cpus);

// Pins the calling thread, and the threads that it starts, to that CPU. If the process lost the CPU since check_cpus(),
// a warning is logged and the thread runs unpinned.
void pin_this_thread(uint32_t cpu);

}  // namespace farcached::process
