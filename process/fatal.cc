// SPDX-License-Identifier: BSD-3-Clause
#include "process/fatal.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "process/log.h"

namespace farcached::process {

void fatal(const Problem& problem) {
    say(Level::error, problem.text);
    std::exit(problem.exit_status);
}

void fatal(const std::string& sentence) { fatal(Problem{conf::exit_system, sentence + "\n"}); }

void or_fatal(const Refusal& refusal) {
    if (refusal) fatal(*refusal);
}

conf::Settings settings_or_exit(conf::CommandLine line) {
    std::fputs(line.err.c_str(), stderr);
    std::fputs(line.out.c_str(), stdout);
    if (line.exit_status) std::exit(*line.exit_status);
    return std::move(line.settings);
}

namespace {

// Exits without unwinding, and without waiting for threads.
[[noreturn]] void fatal_at_start() {
    try {
        if (std::current_exception() != nullptr) throw;
    } catch (const std::bad_alloc&) {
        say(Level::error, "failed to start: out of memory; lower the memory limit, or raise the memory limit of the process");
        std::_Exit(conf::exit_system);
    } catch (const std::system_error& error) {
        say(Level::error, std::string("failed to start: ") + error.what());
        std::_Exit(conf::exit_system);
    } catch (...) {
    }
    std::abort();
}

// Every expected allocation failure refuses its operation; other failures end the process here.
[[noreturn]] void end_running() {
    try {
        if (std::current_exception() != nullptr) throw;
    } catch (const std::bad_alloc&) {
        say(Level::error, "out of memory in an operation that cannot fail: the process ends");
        std::abort();
    } catch (...) {
    }
    __gnu_cxx::__verbose_terminate_handler();  // prints the exception and aborts
    std::abort();
}

}  // namespace

StartGuard::StartGuard() { std::set_terminate(fatal_at_start); }

Refusal StartGuard::room_for(uint32_t threads) {
    constexpr size_t others = 8;  // threads that accept, watch, crawl, ...
    constexpr size_t bytes_each = size_t(16) << 20;
    const size_t bytes = (threads + others) * bytes_each;
    void* const room = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room != MAP_FAILED) {
        munmap(room, bytes);
        return {};
    }
    return Problem{conf::exit_system, "failed to start " + std::to_string(threads) +
                                                " threads: no address space for them (" + std::to_string(bytes >> 20) +
                                                " megabytes); raise the limit on it (LimitAS), or lower the memory limit\n"};
}

void StartGuard::over() {
    std::set_terminate(end_running);
}

}  // namespace farcached::process
