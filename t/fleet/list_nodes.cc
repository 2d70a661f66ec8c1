// SPDX-License-Identifier: BSD-3-Clause
// Prints the lists of a source of --discover, for scripts: list_nodes SOURCE [CA [USER PASSWORD_FILE]]
//
// Each list: "list REVISION NAME=ADDRESS/WEIGHT/ZONE/INCARNATION/VERSION ...". Each line on stdin is answered with the state:
// "state up|down ANSWERS FAILURES CHANGES LAST_ERROR". Ends with stdin.
#include <cstdio>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <variant>

#include "conf/addresses.h"
#include "conf/option.h"
#include "daemon/discovery/source.h"
#include "process/process.h"

using namespace farcached;

namespace {

std::mutex lock;  // of stdout

void print(const std::string& line) {
    std::lock_guard hold(lock);
    std::puts(line.c_str());
    std::fflush(stdout);
}

std::string words_of(const daemon::Found& list) {
    std::string line = "list " + std::to_string(list.revision);
    for (const daemon::FoundNode& one : list.nodes)
        line += " " + one.node.name + "=" + conf::address_of(one.node) + "/" + std::to_string(one.node.weight) + "/" + one.zone +
                "/" + std::to_string(one.incarnation) + "/" + one.version;
    return line;
}

}  // namespace

int main(int argc, char** argv) {
    process::outlive_readers();
    conf::ProxySettings settings = conf::defaults().proxy;
    settings.discovery.source = argc > 1 ? argv[1] : "";
    settings.discovery.ca = argc > 2 ? argv[2] : "";
    settings.discovery.user = argc > 3 ? argv[3] : "";
    settings.discovery.password_file = argc > 4 ? argv[4] : "";
    daemon::Source* made = nullptr;
    std::mutex until_made;
    until_made.lock();
    auto source = daemon::make_source(settings, [&] {
        std::lock_guard hold(until_made);
        print(words_of(*made->latest()));
    });
    if (const auto* problem = std::get_if<Problem>(&source)) {
        print("problem " + problem->text);
        return problem->exit_status;
    }
    made = std::get<std::unique_ptr<daemon::Source>>(source).get();
    until_made.unlock();
    for (std::string line; std::getline(std::cin, line);) {
        const daemon::SourceState state = made->state();
        print("state " + std::string(state.up ? "up" : "down") + " " + std::to_string(state.answers) + " " +
              std::to_string(state.failures) + " " + std::to_string(state.changes) + " " + state.last_error);
    }
    return 0;
}
