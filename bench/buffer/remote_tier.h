// SPDX-License-Identifier: BSD-3-Clause
// RemoteTier: the tier of a farnode that is started for it, with a file for its memory (-e) and one for its values (ext_path). Its
// requests go through a link, one at a time, two-sided: of a value on the disk there is nothing to READ.
//
// Owner: one thread.
// R1  restart() is a clean stop and a start with the same files.
// R2  An interrupt ends each call with std::runtime_error.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/buffer/tiers.h"
#include "bench/transport/client_link.h"
#include "bench/transport/node_process.h"
#include "bench/transport/transport.h"
#include "proxy/ask.h"

namespace farcached::bench {

class RemoteTier final : public Tier, private proxy::ReplySink {
  public:
    struct Config {
        NodeToStart start;
        std::string files;  // as of HomeTier
        std::vector<std::string> arguments;  // of farnode, further ones
        bool spin = false;
    };
    // Throws std::runtime_error.
    explicit RemoteTier(const Config& config);
    ~RemoteTier() override;

    From get(std::string_view key, std::string& value) override;
    void set(std::string_view key, std::string_view value) override;
    uint64_t statistic(std::string_view name) override;
    void restart();
    // Ends the connection and makes another one.
    void connect();

  private:
    // proxy::ReplySink
    void answered(proxy::Ticket ticket, proxy::Answer& answer) override;
    void failed(proxy::Ticket ticket, const proxy::Failed& failed) override;

    void start();
    template <class Ask>
    void exchange(Ask&& ask);

    const Config config_;
    fabric::RpcWish rpc_{RpcMode::send};
    std::unique_ptr<NodeProcess> node_;
    std::unique_ptr<Reach> reach_;
    std::unique_ptr<ClientLink> link_;
    // Of the request under way.
    std::string* value_ = nullptr;
    bool done_ = false, hit_ = false;
    std::string error_;
};

}  // namespace farcached::bench
