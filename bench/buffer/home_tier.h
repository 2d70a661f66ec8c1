// SPDX-License-Identifier: BSD-3-Clause
// HomeTier: the tier of this process: an embedded node whose memory is in a file (-e), and whose evicted values move to another
// file (ext_path). Both files keep their contents for the next HomeTier with the same names.
//
// Owner: one thread.
// H1  The destructor is a clean stop: all values return in the next run.
// H2  An item moves to the file whether it was read or not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/node_clock.h"
#include "bench/buffer/tiers.h"
#include "node/disk/disk_store.h"
#include "node/store/away_gets.h"
#include "node/store/node.h"
#include "node/store/restart.h"

namespace farcached::bench {

class HomeTier final : public Tier {
  public:
    struct Config {
        std::string files;           // path; the files have further letters behind it
        uint64_t memory_bytes = 0;   // whole pages of 64 KiB
        uint32_t recache_rate = 0;   // as ext_recache_rate
    };
    // Throws std::runtime_error.
    explicit HomeTier(const Config& config);
    ~HomeTier() override;

    From get(std::string_view key, std::string& value) override;
    void set(std::string_view key, std::string_view value) override;
    uint64_t statistic(std::string_view name) override;
    // The value is in the file, and written out, when it returns. No key finds it.
    void write_through(std::string_view key, std::string_view value);
    void write_buffers_out();
    // Moves all values to the file.
    void all_to_file();

  private:
    NodeSeconds now() const;
    void over(const protocol::GetReply& reply, std::string_view value);

    const uint64_t zero_ns_;  // when the node's clock read 0
    node::Restart restart_;
    std::unique_ptr<node::DiskStore> disk_;
    std::unique_ptr<node::Node> node_;
    std::unique_ptr<node::AwayGets> gets_;
    // Of the get under way.
    std::string* value_ = nullptr;
    bool done_ = false, hit_ = false;
};

}  // namespace farcached::bench
