// SPDX-License-Identifier: BSD-3-Clause
// What a reload may change of a farcached that runs: the options whose rows are `live`, taken to where they are used.
#pragma once

#include <string>
#include <vector>

#include "conf/settings.h"
#include "daemon/admin.h"
#include "daemon/engine.h"
#include "daemon/nodes.h"
#include "daemon/server.h"
#include "node/crawler.h"
#include "node/node.h"

namespace farcached::daemon {

// All outlive the calls.
struct Running {
    node::Node& node;
    Nodes* nodes;  // nullptr: the embedded one is all there is
    Server& server;
    node::Crawler& crawler;
    EngineOptions& engine;
    AdminImpl& admin;
};

// Of both: how many files the process may have open.
conf::Refusal raise_limits(const conf::Settings& settings);
WorkerLive worker_options(const conf::Settings& settings);
AdminOptions admin_options(const conf::Settings& settings);

// From main's thread. Says what is wrong, a line each, and has changed nothing then. What differs is changed, and nothing
// else: what an operator set by a command stays as long as the configuration says what it did. Waits, but not for
// ever, until all workers go by it.
std::vector<std::string> change(const Running& running, const conf::Settings& from, const conf::Settings& to);

}  // namespace farcached::daemon
