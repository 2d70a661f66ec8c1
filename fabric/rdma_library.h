// SPDX-License-Identifier: BSD-3-Clause
// RDMA's libraries, which are loaded when something is first asked of them: most processes never do, and they and what they need
// take a megabyte. All of librdmacm's and libibverbs' functions that we call are defined here, and call those of the library.
// Whoever begins with RDMA creates an event channel, so that is what fails if there is no library; all else needs objects of it.
#pragma once

#include <string>

namespace farcached::fabric {

// Why there are none; empty: they are there. Loads them.
const std::string& rdma_libraries_missing();

}  // namespace farcached::fabric
