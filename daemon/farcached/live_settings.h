// SPDX-License-Identifier: BSD-3-Clause
// Applies the options that a reload may change (rows marked `live`) to the running farcached.
#pragma once

#include <string>
#include <vector>

#include "conf/settings.h"
#include "daemon/farcached/admin.h"
#include "daemon/engine/engine.h"
#include "daemon/stats/embedded.h"
#include "daemon/remote/nodes.h"
#include "daemon/farcached/server.h"

namespace farcached::daemon {

// All outlive the calls.
struct Running {
    Embedded* embedded;  // nullptr in front of nodes
    Nodes* nodes;  // nullptr with an embedded node
    Server& server;
    EngineOptions& engine;
    AdminImpl& admin;
};

// At the start and at reloads: the limit of open files, and the use of verbs by any node.
conf::Refusal raise_limits(const conf::Settings& settings);
bool uses_rdma(const conf::ProxySettings& settings);
WorkerLive worker_options(const conf::Settings& settings);
AdminOptions admin_options(const conf::Settings& settings);

// From main's thread. Returns the errors, a line each; then nothing is changed. Applies only options that differ: values set by
// commands stay until their option changes. Waits, for a bounded time, until all workers have applied them.
std::vector<std::string> change(const Running& running, const conf::Settings& from, const conf::Settings& to);

}  // namespace farcached::daemon
