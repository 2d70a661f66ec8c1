// SPDX-License-Identifier: BSD-3-Clause
// Whether the kernel can encrypt what a TCP socket sends (ssl_kernel_tls).
//
// Owner: none; any thread.
#pragma once

#include <string>

namespace farcached::process {

// Empty: it can. Else the cause, as a part of a sentence. Loads the kernel's module if the process may.
std::string kernel_tls_missing();

}  // namespace farcached::process
