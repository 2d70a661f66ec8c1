// SPDX-License-Identifier: BSD-3-Clause
// What the program asks of the system for itself: limits, another user, the background, locked memory, signals,
// and the files that say where it is. Messages and exit statuses are memcached's.
//
// Owner: main, from the one thread there is until the server starts.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/function_ref.h"
#include "conf/exit_status.h"
#include "process/service_manager.h"

namespace farcached::process {

// Before anything is written: who reads stderr may go away, and that is not the end of this process. Any thread started later
// is bound by it.
void outlive_readers();

// -- Limits ---------------------------------------------------------------------------------------------

conf::Refusal raise_core_limit();

// Room for so many connections and, if the system allows it, for `others` too.
conf::Refusal raise_file_limit(uint64_t connections, uint64_t others);

// -- Who it is ------------------------------------------------------------------------------------------

// Whom to become; nobody else if not started as root.
struct Identity {
    std::string user;
    uid_t uid = 0;
    gid_t gid = 0;
    bool change = false;
};

// Root has to say -u; anybody else stays who they are, and is told on stderr if -u is another. Privileges are kept until
// drop_privileges().
std::variant<Identity, conf::Problem> find_identity(const std::string& user);

// Gives a file made before to who will use it.
void give_away(const std::string& path, const Identity& identity);

// Afterwards the process is allowed to dump core only if `core_dumps`.
conf::Refusal drop_privileges(const Identity& identity, bool core_dumps);

// -- Where it runs --------------------------------------------------------------------------------------

// May the process go to the background, as was `asked`? Not when a service manager waits for it: then stderr is told.
bool may_leave(bool asked, const ServiceManager& manager);

// Returns in a child without a terminal; the parent exits with 0. Call before any thread starts.
conf::Refusal go_to_background(bool keep_folder, bool keep_output);

// The background for a program that says when it serves: until then its parent waits, and what it complains of is
// seen where it was started.
class Background {
  public:
    // Returns in a child without a terminal. The parent exits with 0 when the child is ready(), or with its exit
    // status. Call before any thread starts.
    conf::Refusal start();
    // Does nothing if not started.
    void ready(bool keep_output);

  private:
    int tell_ = -1;  // the parent reads its other end
};

// A warning, or empty. Call in the process that shall be locked: locks are not inherited.
std::string lock_memory();

// -- Files ----------------------------------------------------------------------------------------------

// Holds the process id while it lives.
class PidFile {
  public:
    // An empty path: no file. Failures are told on stderr and otherwise ignored, as memcached does.
    explicit PidFile(std::string path);
    ~PidFile();  // removes the file if it is still this process's
    PidFile(const PidFile&) = delete;
    PidFile& operator=(const PidFile&) = delete;

  private:
    std::string path_;
};

struct BoundPort {
    bool ipv6 = false;
    uint16_t port = 0;
    const char* transport = "TCP";  // as the file names it
};

// $MEMCACHED_PORT_FILENAME: "TCP INET: 40041" and so on, complete as soon as it is there. No-op without path.
void write_port_file(const char* path, std::span<const BoundPort> ports);

// -- Signals --------------------------------------------------------------------------------------------

// From its construction, threads started later included, the signals that mean something to the program
// are kept for who waits for them; SIGPIPE is ignored.
class Signals {
  public:
    Signals();
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;

    // Waits for one that ends the program. True: gracefully, as the log was told. For each that asks for it meanwhile
    // reload() is called. A second after it began to wait, what only the start needed is let go (process/resident.h).
    bool wait_for_the_end(FunctionRef<void()> reload);

    // Makes wait_for_the_end() return in whichever thread it waits; any thread may.
    static void ask_to_stop(bool graceful);
    // The same for reload().
    static void ask_to_reload();

  private:
    sigset_t awaited_;
};

}  // namespace farcached::process
