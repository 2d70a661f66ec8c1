// SPDX-License-Identifier: BSD-3-Clause
// Parses the permissions of client identities, from [permissions] of a file and from --permissions NAME=CLASS[,CLASS]...; both
// become PermissionSettings.
// Threads: any; pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "conf/option.h"
#include "conf/settings.h"

namespace farcached::conf {

constexpr size_t identity_bytes_max = 255;
constexpr std::string_view permission_classes_allowed = "an array of read, write, admin, stats";

// classes: separated by commas; empty: none. Returns the error, a sentence without the identity; then nothing is stored.
std::string take_permission(std::string_view identity, std::string_view classes, PermissionSettings& to);

// "read,write".
std::string listed_classes(CommandClasses classes);

extern Set set_permission;
extern Show write_permissions;

constexpr Kind permissions_kind{.set = set_permission, .value = Value::permissions, .write = write_permissions,
                                .copy = [](const Settings& from, Settings& to) { to.permissions = from.permissions; }};

}  // namespace farcached::conf
