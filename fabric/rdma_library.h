// SPDX-License-Identifier: BSD-3-Clause
// RDMA's libraries, loaded on first use: most processes use none, and the libraries with their dependencies take a megabyte.
// This unit defines every function of librdmacm and libibverbs that we call; each calls the library's. RDMA starts with an
// event channel: without a library rdma_create_event_channel() fails, and no other call has an object. Any thread.
#pragma once

#include <string>

namespace farcached::fabric {

// Loads them. Returns the cause if they are missing, else an empty string.
const std::string& rdma_libraries_missing();

}  // namespace farcached::fabric
