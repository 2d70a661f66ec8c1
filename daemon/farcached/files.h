// SPDX-License-Identifier: BSD-3-Clause
// Files: the files that farcached reads beside its options, and where the items' files are. Passwords (-Y), certificates and
// keys (-Z, --peer-cert), and the library of -S with its files. A reload reads all but the last again (NewFiles).
//
// Owner: main's thread, which calls everything here. Workers read `allowed`, `keys`, `sasl` and `peers`, which are safe for that.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "conf/program.h"
#include "conf/settings.h"
#include "daemon/commands/passwords.h"
#include "daemon/commands/sasl.h"
#include "daemon/session/tls.h"
#include "fabric/peer_tls.h"
#include "protocol/auth.h"

namespace farcached::daemon {

// A problem's text, as lines for a reload's errors.
std::vector<std::string> lines_of(const conf::Problem& problem);

// Paths are absolute, because -d changes the folder; empty: none.
struct Files {
    std::string folder;  // at the start
    std::string memory, disk, passwords;
    Passwords allowed;  // of `passwords`
    TlsKeys keys;
    std::string auth_keys;  // file of --auth-key-file
    std::unique_ptr<Sasl> sasl;  // nullptr: without -S
    fabric::PeerTls peers;
    fabric::PeerTls::Paths peer_paths;  // empty: without TLS

    // The key that this process proves to its nodes; nullptr: none. Before find_or_exit().
    std::shared_ptr<const protocol::AuthKey> node_key_or_exit(const conf::Settings& settings);
    // While the process may still have more rights than its final user. Exits with a sentence if a file cannot be used.
    void find_or_exit(const conf::Settings& settings);

    const Passwords* list() const { return passwords.empty() ? nullptr : &allowed; }
    Result<TlsKeys::Loaded> load_keys(conf::TlsSettings settings) const;
    Result<Passwords::Entries> read_passwords() const;
    bool has_peer_tls() const { return !peer_paths.certificate.empty(); }
};

// The files of one reload, from their load to their use. If they are never used, the former contents stay in use.
class NewFiles {
  public:
    explicit NewFiles(Files& files) : files_(files) {}

    // The files that do not depend on new options. Returns the errors, a line each; then the reload is refused.
    std::vector<std::string> load();
    // The key for the nodes, after load().
    const std::shared_ptr<const protocol::AuthKey>& node_key() const { return node_key_; }
    // Instead of load(), if only the list of nodes changes.
    void keep_node_key(std::shared_ptr<const protocol::AuthKey> key) { node_key_ = std::move(key); }
    // Certificate and key. With an error those in use stay, and their settings in `wanted`, too.
    std::vector<std::string> load_keys(const conf::Settings& running, const conf::Settings& next, conf::Settings& wanted);
    // No-op without loaded keys, and the second time.
    void use_keys();
    void use();  // all

  private:
    Files& files_;
    Passwords::Entries passwords_;
    fabric::PeerTls::Loaded peers_;  // nullptr: without TLS
    std::shared_ptr<const protocol::AuthKey> node_key_;
    std::unique_lock<std::mutex> hold_;
    std::optional<TlsKeys::Loaded> keys_;
};

}  // namespace farcached::daemon
