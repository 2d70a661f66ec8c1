// SPDX-License-Identifier: BSD-3-Clause
// DnsSource: nodes found by DNS (dns+, dnssrv+). A thread looks the name up whenever the smallest TTL of the last answers ends, and
// with dnssrv+ the hosts of the SRV records, too.
//
// Owner and threads: as of each Source (daemon/discovery/source.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "conf/discover.h"
#include "daemon/discovery/answers.h"
#include "daemon/discovery/board.h"
#include "daemon/discovery/dns_client.h"
#include "daemon/discovery/source.h"

namespace farcached::daemon {

class DnsSource final : public Source {
  public:
    // Starts the thread; throws std::system_error.
    DnsSource(const conf::ProxySettings& settings, conf::DiscoverPlace place, std::function<void()> changed);
    ~DnsSource() override;

    std::shared_ptr<const Found> latest() const override { return board_.latest(); }
    SourceState state() const override { return board_.state(); }

  private:
    void run();
    // Returns the pause before the next one, in seconds.
    uint32_t look_up();
    uint32_t look_up_hosts(std::vector<FoundNode> nodes, std::optional<uint32_t> ttl_s);
    uint32_t fail(const std::string& why);
    uint32_t answer(std::vector<FoundNode> nodes, std::optional<uint32_t> ttl_s);

    const conf::DiscoverPlace place_;
    const NodeTraits traits_;
    SourceBoard board_;
    DnsClient client_;
    uint32_t failures_ = 0;  // in a row
    std::thread thread_;     // the last: it uses the others
};

}  // namespace farcached::daemon
