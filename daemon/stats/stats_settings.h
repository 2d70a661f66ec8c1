// SPDX-License-Identifier: BSD-3-Clause
// SettingsTable: the rows of `stats settings`, in order. Created from the configuration at the start, and updated by the
// commands that change a setting at run time.
//
// Settings in use elsewhere (the crawler's pace, the memory limit) have a copy here. memcached's settings without a use in this
// server exist only here. Any thread may call.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace farcached::daemon {

struct Setting {
    std::string name, value;
};

class SettingsTable {
  public:
    explicit SettingsTable(std::vector<Setting> settings) : settings_(std::move(settings)) {}

    // Changes a setting of the table; ignores an unknown name.
    void set(std::string_view name, std::string_view value) {
        std::lock_guard held(lock_);
        for (Setting& setting : settings_)
            if (setting.name == name) setting.value = value;
    }
    // Empty if there is no such setting.
    std::string get(std::string_view name) const {
        std::lock_guard held(lock_);
        for (const Setting& setting : settings_)
            if (setting.name == name) return setting.value;
        return {};
    }
    void each(FunctionRef<void(std::string_view name, std::string_view value)> visit) const {
        std::lock_guard held(lock_);
        for (const Setting& setting : settings_) visit(setting.name, setting.value);
    }

  private:
    mutable std::mutex lock_;
    std::vector<Setting> settings_;
};

}  // namespace farcached::daemon
