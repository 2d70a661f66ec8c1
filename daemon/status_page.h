// SPDX-License-Identifier: BSD-3-Clause
// The status page, daemon/status_page.html as the build found it. @NONCE@ in it stands for a word that is another in each answer.
#pragma once

#include <string_view>

namespace farcached::daemon {

extern const std::string_view status_page;

}  // namespace farcached::daemon
