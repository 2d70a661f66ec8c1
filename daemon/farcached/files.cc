// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farcached/files.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <variant>

#include "daemon/remote/auth_file.h"
#include "process/fatal.h"
#include "process/log.h"

namespace farcached::daemon {

using process::or_fatal;

namespace {

// The key that this process proves to nodes.
Result<std::shared_ptr<const protocol::AuthKey>> read_node_key(const std::string& path) {
    if (path.empty()) return nullptr;
    auto read = read_auth_keys(path);
    if (auto* problem = std::get_if<Problem>(&read)) return std::move(*problem);
    std::shared_ptr<const protocol::AuthKey> key = std::get<0>(read)->of_proxy();
    if (key == nullptr) return system_problem("--auth-key-file " + path + ": it has no key of role proxy or reader");
    if (key->role() == protocol::AuthRole::reader)
        process::say(process::Level::warning, "--auth-key-file " + path + ": it has no key of role proxy: with that of a reader, "
                                                  "nodes answer GETs and refuse everything else");
    return key;
}

// A node found by --discover has the channel of discover_channel.
bool uses_tcp(const conf::ProxySettings& settings) {
    if (!settings.discovery.source.empty()) return settings.discovery.channel == conf::NodeChannel::tcp;
    return std::ranges::any_of(settings.nodes, [](const auto& node) { return node.channel == conf::NodeChannel::tcp; });
}

void warn_of_peer_tls(const conf::ProxySettings& settings) {
    if (!settings.has_nodes())
        process::say(process::Level::warning, "--peer-cert has no effect without nodes (--node)");
    else if (!uses_tcp(settings))
        process::say(process::Level::warning, "--peer-cert has no effect: links over shm and RDMA are not encrypted, and no node "
                                              "has an address of tcp; use tcp, or remove peer_cert");
}

std::string absolute(const std::string& path) { return path.empty() ? path : std::filesystem::absolute(path).string(); }

}  // namespace

std::vector<std::string> lines_of(const conf::Problem& problem) {
    std::string text = problem.text;
    while (text.ends_with('\n')) text.pop_back();
    return {text};
}

std::shared_ptr<const protocol::AuthKey> Files::node_key_or_exit(const conf::Settings& settings) {
    if (settings.proxy.auth_key_file.empty()) return nullptr;
    if (!settings.proxy.has_nodes()) {
        process::say(process::Level::warning, "--auth-key-file has no effect without nodes (--node)");
        return nullptr;
    }
    auth_keys = absolute(settings.proxy.auth_key_file);
    return or_fatal(read_node_key(auth_keys));
}

void Files::find_or_exit(const conf::Settings& settings) {
    folder = absolute(".");
    if (settings.tls.enabled) keys.use(or_fatal(load_keys(settings.tls)));
    if (settings.session.sasl) sasl = or_fatal(Sasl::start());
    disk = absolute(settings.disk.path);
    if (!settings.proxy.has_nodes())
        memory = absolute(settings.memory.file);
    else if (!settings.memory.file.empty())
        process::say(process::Level::warning, "-e has no effect: the nodes keep the items. Use -e of farnode");
    const conf::PeerTlsSettings& tls = settings.peer_tls;
    peer_paths = {absolute(tls.certificate_path), absolute(tls.key_path), absolute(tls.issuers_path)};
    if (has_peer_tls()) warn_of_peer_tls(settings.proxy);
    if (has_peer_tls()) peers.use(or_fatal(load_peer_tls(peer_paths)));
    passwords = absolute(settings.session.auth_file);
    allowed.use(or_fatal(read_passwords()));
}

Result<TlsKeys::Loaded> Files::load_keys(conf::TlsSettings settings) const {
    for (std::string* path : {&settings.chain_path, &settings.key_path, &settings.ca_path})
        if (!path->empty()) *path = (std::filesystem::path(folder) / *path).string();
    return TlsKeys::load(settings);
}

Result<Passwords::Entries> Files::read_passwords() const {
    return passwords.empty() ? Passwords::Entries() : Passwords::read(passwords);
}

std::vector<std::string> NewFiles::load() {
    Result<Passwords::Entries> read = files_.read_passwords();
    if (const auto* problem = std::get_if<Problem>(&read)) return lines_of(*problem);
    passwords_ = std::get<0>(std::move(read));
    auto key = read_node_key(files_.auth_keys);
    if (const auto* problem = std::get_if<Problem>(&key))
        return {lines_of(*problem).front() + "; the former keys stay in use"};
    node_key_ = std::get<0>(std::move(key));
    if (!files_.has_peer_tls()) return {};
    Result<fabric::PeerTls::Loaded> peers = load_peer_tls(files_.peer_paths);
    if (const auto* problem = std::get_if<Problem>(&peers)) return lines_of(*problem);
    peers_ = std::get<0>(std::move(peers));
    return {};
}

std::vector<std::string> NewFiles::load_keys(const conf::Settings& running, const conf::Settings& next,
                                             conf::Settings& wanted) {
    if (!next.tls.enabled) return {};
    hold_ = files_.keys.hold_loads();
    Result<TlsKeys::Loaded> loaded = files_.load_keys(next.tls);
    if (auto* keys = std::get_if<TlsKeys::Loaded>(&loaded)) {
        keys_ = std::move(*keys);
        return {};
    }
    hold_.unlock();
    const conf::TlsSettings unread = std::exchange(wanted.tls, running.tls);
    wanted.tls.enabled = unread.enabled;
    wanted.tls.handshake_timeout_s = unread.handshake_timeout_s;
    return {lines_of(std::get<Problem>(loaded)).front() + "; the former certificate, key and rules stay in use"};
}

void NewFiles::use_keys() {
    if (!keys_.has_value()) return;
    files_.keys.use(*std::exchange(keys_, std::nullopt));
    hold_.unlock();
}

void NewFiles::use() {
    files_.allowed.use(std::move(passwords_));
    if (peers_ != nullptr) files_.peers.use(std::move(peers_));
    use_keys();
}

}  // namespace farcached::daemon
