// SPDX-License-Identifier: BSD-3-Clause
// The files by which proxies and nodes know each other: keys (--auth-key-file, protocol/auth.h) and certificates (--peer-cert).
//
// Owner: none. Threads: any.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "fabric/peer_tls.h"
#include "protocol/auth.h"

namespace farcached::daemon {

constexpr size_t auth_file_bytes_max = 1 << 20;

// Reads the file. A problem is a sentence with its path: no regular file, others than its owner may read it, a wrong line, or
// a program without OpenSSL. The copy of the text is wiped.
Result<std::shared_ptr<const protocol::AuthKeys>> read_auth_keys(const std::string& path);

// PeerTls::load(). Logs that the certificate has expired.
Result<fabric::PeerTls::Loaded> load_peer_tls(const fabric::PeerTls::Paths& paths);

}  // namespace farcached::daemon
