// SPDX-License-Identifier: BSD-3-Clause
// SourceBoard: what a source has found and how its look-ups went. The source's thread writes, any thread reads.
//
// Owner: the source. Short locks only.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/discovery/source.h"
#include "process/log.h"

namespace farcached::daemon {

class SourceBoard {
  public:
    enum class Lines : uint8_t { logged, none };  // none: another source logs the failures of the same server
    // changed: as in make_source().
    SourceBoard(std::string source, std::function<void()> changed, Lines lines = Lines::logged)
        : source_(std::move(source)), changed_(std::move(changed)), logs_(lines == Lines::logged) {}
    SourceBoard(const SourceBoard&) = delete;
    SourceBoard& operator=(const SourceBoard&) = delete;

    // A look-up succeeded with this list, which is sorted by name and not empty. revision: of the source; nullopt: one more than
    // the last if the list differs. epoch: as in Found. is_new: it differs from the last one, or a node was gone in
    // between. former: as in Found.
    void answered(std::vector<FoundNode> nodes, std::optional<uint64_t> revision = std::nullopt,
                  std::optional<uint64_t> epoch = std::nullopt, bool is_new = false,
                  std::shared_ptr<const conf::FormerLists> former = nullptr);
    // Of the newest list.
    void set_epoch(uint64_t epoch);
    // A look-up failed, or found no node; why: a sentence without a full stop. Logs it (Lines), with a limit.
    void failed(const std::string& why);

    std::shared_ptr<const Found> latest() const;
    SourceState state() const;

  private:
    const std::string source_;
    const std::function<void()> changed_;
    const bool logs_;
    process::LimitedLines lines_;
    mutable std::mutex lock_;
    std::shared_ptr<const Found> latest_;  // this and the rest are under lock_
    std::shared_ptr<std::atomic<uint64_t>> epoch_;  // latest_->epoch
    bool up_ = false;
    std::string last_error_;
    uint64_t changes_ = 0, answers_ = 0, failures_ = 0;
    uint64_t answered_ns_ = 0;  // CLOCK_BOOTTIME; 0: never
};

}  // namespace farcached::daemon
