// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/auth_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <variant>

#include "process/certificate.h"
#include "process/secret_file.h"

namespace farcached::daemon {

namespace {

Problem refused_keys(const std::string& path, const std::string& why) {
    return system_problem("--auth-key-file " + path + ": " + why);
}

}  // namespace

Result<std::shared_ptr<const protocol::AuthKeys>> read_auth_keys(const std::string& path) {
    if (const std::optional<std::string> why = protocol::auth_unavailable()) return refused_keys(path, *why);
    using enum process::SecretFile::Status;
    const process::SecretFile file(path.c_str(), auth_file_bytes_max, S_IRWXG | S_IRWXO);
    switch (file.status()) {
        case whole: break;
        case unreadable: return refused_keys(path, std::string("cannot read the keys: ") + std::strerror(errno));
        case irregular: return refused_keys(path, "it is no regular file");
        case exposed: return refused_keys(path, process::secret_file_exposed);
        case too_long: return refused_keys(path, "more than a megabyte of keys");
    }
    protocol::AuthKeys::Parsed parsed = protocol::AuthKeys::parse(file.text());
    if (const auto* problem = std::get_if<Problem>(&parsed)) return refused_keys(path, problem->text);
    return std::get<0>(std::move(parsed));
}

Result<fabric::PeerTls::Loaded> load_peer_tls(const fabric::PeerTls::Paths& paths) {
    Result<fabric::PeerTls::Loaded> loaded = fabric::PeerTls::load(paths);
    if (const auto* context = std::get_if<fabric::PeerTls::Loaded>(&loaded))
        process::warn_of_certificate(paths.certificate, context->get(), "peers");
    return loaded;
}

}  // namespace farcached::daemon
