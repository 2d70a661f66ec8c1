// SPDX-License-Identifier: BSD-3-Clause
// The status page, daemon/stats/status_page.html at build time. @NONCE@ in it stands for a word that differs in each answer.
#pragma once

#include <string_view>

namespace farcached::daemon {

extern const std::string_view status_page;

}  // namespace farcached::daemon
