// SPDX-License-Identifier: BSD-3-Clause
// HttpServers: the listeners of --http and --http-health, and what a reload changes of them.
//
// Owner: main, for all of it, from one thread. The handler runs in the threads of both listeners: of --http-health for /healthz
// and /readyz only, whose answers must not depend on the thread.
#pragma once

#include <event2/event.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "conf/settings.h"
#include "process/http_listener.h"

namespace farcached::process {

class HttpServers {
  public:
    // Listens; writes the ports to the file $FARCACHED_HTTP_PORT_FILENAME, and warns of tokens that are readable on their way.
    // Exits with the reason on failure.
    explicit HttpServers(const conf::AdminSettings& settings);

    bool listen() const { return pages_ != nullptr || health_ != nullptr; }
    // Only if they listen: the loop in whose thread the pages are made (HttpListener::base()).
    event_base* base();
    // "127.0.0.1:9150", of --http; empty: none.
    std::string place() const;
    uint64_t unauthorized() const { return pages_ == nullptr ? 0 : pages_->unauthorized(); }

    void start(const HttpListener::Handler& handler);
    void stop();

    // Tokens and certificate of one reload, from their load to their use. If they are never used, the former ones stay.
    class NewFiles {
      public:
        explicit NewFiles(HttpServers& servers) : servers_(servers) {}
        // Returns the error as a line; empty: none.
        std::vector<std::string> load();
        void use();

      private:
        HttpServers& servers_;
        HttpAccess::Loaded loaded_;
    };

  private:
    HttpAccess* access() { return pages_ == nullptr ? nullptr : pages_->access(); }

    std::string host_;
    std::unique_ptr<HttpListener> pages_, health_;
};

}  // namespace farcached::process
