// SPDX-License-Identifier: BSD-3-Clause
// The options of each part of farcached, made from the settings of the command line and the files.
//
// Main's thread. What a function refuses at the start ends the program with a message.
#pragma once

#include <cstdint>

#include "conf/program.h"
#include "conf/settings.h"
#include "daemon/engine/engine.h"
#include "daemon/farcached/admin.h"
#include "daemon/farcached/server.h"
#include "daemon/stats/watch_hub.h"
#include "node/disk/disk_store.h"
#include "node/store/crawler.h"
#include "node/store/node.h"

namespace farcached::daemon {

// At the start and at reloads: the limit of open files, and the use of verbs by any node.
conf::Refusal raise_limits(const conf::Settings& settings);
bool uses_rdma(const conf::ProxySettings& settings);

// These may change at a reload.
WorkerLive worker_options(const conf::Settings& settings);
AdminOptions admin_options(const conf::Settings& settings);

ServerOptions server_options(const conf::Settings& settings);
// Sockets passed by the service manager replace those of the options.
void take_passed_sockets(ServerOptions& options);
// Logs a warning if clients from elsewhere need no password. Once, at the start, when the server listens.
void warn_of_open_places(const conf::Settings& settings, const ServerOptions& options, const Server& server);
// Logs a warning if ssl_kernel_tls has no effect here. When the server has started, and at a reload that sets it.
void warn_of_kernel_tls(const conf::Settings& settings, const Server& server);

// file: of -e; nullptr: memory ends with the process.
node::Config node_config(const conf::MemorySettings& memory, uint32_t threads, node::MemoryFile* file);
node::DiskConfig disk_config(const conf::DiskSettings& disk);
node::SpillRules spill_rules(const conf::DiskSettings& disk);
node::CrawlerOptions crawler_options(const conf::CrawlerSettings& crawler);

// Both may be nullptr.
EngineOptions engine_options(const conf::Settings& settings, const Passwords* passwords, const Sasl* sasl);
WatchLimits watch_limits(const conf::AdminSettings& admin, uint32_t threads);

}  // namespace farcached::daemon
