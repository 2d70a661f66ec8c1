// SPDX-License-Identifier: BSD-3-Clause
// Discovered: the nodes that a source lists (--discover), and which of its lists is in use.
//
// Owner: main, which makes it in the final process. Any thread may call state(), in_use(), list_in_use() and each();
// main's thread alone the rest.
// D1  A list that cannot be used is refused, and the one before stays in use. It is tried again, until it can be used or a newer
//     one is there.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "conf/settings.h"
#include "daemon/discovery/shown.h"
#include "daemon/discovery/source.h"
#include "process/log.h"
#include "process/process.h"
#include "process/service_manager.h"

namespace farcached::daemon {

class Discovered {
  public:
    // Starts the source; throws std::system_error. Exits if --discover cannot be used.
    explicit Discovered(const conf::Settings& settings);
    Discovered(const Discovered&) = delete;
    Discovered& operator=(const Discovered&) = delete;

    // Waits for a list that can be used, up to discover_timeout; then exits. prepare: gets these settings with a list; empty: the
    // list is in use now; otherwise the reasons why it cannot be. False: a signal ends the program.
    using Prepare = FunctionRef<std::vector<std::string>(const conf::Settings& with_list)>;
    bool wait_for_list(process::Signals& signals, const process::ServiceManager& manager, const conf::Settings& settings,
                       Prepare prepare);

    // The newest list; nullptr: it is in use.
    std::shared_ptr<const Found> newer() const;
    // These settings with the nodes of the list. With etcd no farcached diverts keys by itself: the list decides.
    static conf::Settings with(conf::Settings settings, const Found& found);
    // The same, of the list in use; unchanged before the first.
    conf::Settings with_list(conf::Settings settings) const {
        return used_ == nullptr ? settings : with(std::move(settings), *used_);
    }

    // The list is in use now. Logs the difference.
    void use(std::shared_ptr<const Found> found);
    // It cannot be used. Counts and logs the reasons.
    void refuse(const Found& found, const std::vector<std::string>& reasons);

    SourceState state() const { return source_->state(); }
    void ask_soon(uint64_t epoch) { source_->ask_soon(epoch); }
    // nullptr: none yet.
    std::shared_ptr<const Found> list_in_use() const;
    ListInUse in_use() const;
    // The values of discovery_rows.
    void each(FunctionRef<void(std::string_view name, std::string_view value)> visit) const;

  private:
    bool try_first(const conf::Settings& settings, Prepare prepare);

    const std::string name_;
    const uint32_t timeout_s_;
    process::LimitedLines lines_;
    std::unique_ptr<Source> source_;
    mutable std::mutex lock_;
    std::shared_ptr<const Found> used_;  // nullptr: none yet; main's thread writes it under lock_
    ListInUse in_use_;                   // under lock_
};

}  // namespace farcached::daemon
