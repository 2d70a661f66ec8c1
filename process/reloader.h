// SPDX-License-Identifier: BSD-3-Clause
// Reloader: reloads a daemon's configuration. It reads the same command line and files again, checks all of it, and
// applies the settings that may change. Any error leaves everything unchanged, except those of `Read`.
//
// Owner: main; only its thread calls reload(). Any thread may read the result.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/node_clock.h"
#include "base/stat_row.h"
#include "conf/check_settings.h"
#include "conf/option.h"
#include "conf/program.h"
#include "conf/settings.h"

namespace farcached::process {

// The texts of `stats config`.
struct ConfigShown {
    std::string file, age, reloads, failures, result, error, changed, waiting;
};
inline constexpr StatRow<std::string ConfigShown::*> config_rows[] = {
    {"config_file", "the file of --config, or else of --memcached-conf; empty: none", &ConfigShown::file},
    {"config_age", "seconds since the settings in use were read", &ConfigShown::age},
    {"config_reloads", "reloads that succeeded", &ConfigShown::reloads},
    {"config_reload_failures", "reloads refused, without any change, or applied in part only", &ConfigShown::failures},
    {"config_last_result", "result of the last reload: ok, partly or failed; none: no reload yet", &ConfigShown::result},
    {"config_last_error", "errors of the last reload that was not ok: the first one, and the number of others",
     &ConfigShown::error},
    {"config_changed", "keys changed by the last successful reload", &ConfigShown::changed},
    {"config_needs_restart", "keys whose value in the file needs a restart", &ConfigShown::waiting},
};

class Reloader {
  public:
    // argv: main's. running: the settings parsed from it. Relative file names refer to the folder at construction.
    Reloader(std::span<const char* const> argv, std::vector<conf::Option> table, const conf::Program& program,
             conf::Settings running);
    Reloader(const Reloader&) = delete;
    Reloader& operator=(const Reloader&) = delete;

    // Changes the daemon from `running` to `next`. On failure returns the reasons, a line each, and changes nothing.
    using Apply = FunctionRef<std::vector<std::string>(const conf::Settings& running, const conf::Settings& next)>;
    // Reads what the new settings name; called for each reload, before `apply`. Returns the errors, a line each; then it has
    // reset the settings in `wanted` that keep their values, and the others are applied.
    using Read = FunctionRef<std::vector<std::string>(const conf::Settings& next, conf::Settings& wanted)>;
    // Logs the result. False: refused; or out of memory, with the changes possibly applied in part.
    bool reload(Apply apply) {
        return reload(apply, [](const conf::Settings&, conf::Settings&) { return std::vector<std::string>(); });
    }
    bool reload(Apply apply, Read read);
    // Instead of reload(), when another file that belongs to it is wrong: logs and counts a reload that failed.
    void refuse(const std::vector<std::string>& errors) { failed(errors); }
    // Instead of reload() or behind it, for a lack of memory beside it: logs and counts a reload that failed.
    void starved() noexcept;

    const conf::Settings& running() const { return running_; }  // for main's thread

    // The values of config_rows. Any thread.
    void each(FunctionRef<void(std::string_view name, std::string_view value)> visit) const;

  private:
    bool try_reload(Apply apply, Read read);
    void succeeded(conf::ReloadPlan plan, const std::vector<std::string>& errors);
    void failed(const std::vector<std::string>& errors);

    std::vector<std::string> words_;
    std::vector<conf::Option> table_;
    const conf::Program& program_;
    std::string folder_;
    conf::Settings running_;

    mutable std::mutex lock_;
    NodeSeconds read_at_;  // this and the rest are under lock_
    uint64_t reloads_ = 0, failures_ = 0;
    std::string file_, result_ = "none", error_, changed_, waiting_;
};

}  // namespace farcached::process
