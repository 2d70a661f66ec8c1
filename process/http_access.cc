// SPDX-License-Identifier: BSD-3-Clause
#include "process/http_access.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <variant>

#include "base/secret.h"
#include "process/certificate.h"
#include "process/log.h"
#include "process/secret_file.h"

#ifdef FARCACHED_OPENSSL
#include <openssl/ssl.h>
#endif

namespace farcached::process {

namespace {

constexpr size_t file_bytes_max = 64 << 10;

Problem token_problem(const std::string& path, const std::string& why) {
    return {conf::exit_system, "--http-token-file " + path + ": " + why + "\n"};
}

std::string absolute_path(const std::string& path) { return path.empty() ? path : std::filesystem::absolute(path).string(); }

Refusal check(const SecretFile& file, const std::string& path) {
    using enum SecretFile::Status;
    switch (file.status()) {
        case whole: return {};
        case unreadable: return token_problem(path, std::string("cannot be read: ") + std::strerror(errno));
        case irregular: return token_problem(path, "is no regular file");
        case exposed:
            return token_problem(path, "every user of this host may open it, so the tokens are no secret; run chmod o-rwx on it");
        case too_long: break;
    }
    return token_problem(path, "is longer than 64 KiB");
}

bool is_token_byte(char c) { return c > ' ' && c < '\x7f'; }

// Removes "Bearer" and the spaces behind it, in any case.
bool take_scheme(std::string_view& text, std::string_view scheme) {
    if (text.size() <= scheme.size() || strncasecmp(text.data(), scheme.data(), scheme.size()) != 0) return false;
    const size_t rest = text.find_first_not_of(' ', scheme.size());
    if (text[scheme.size()] != ' ' || rest == text.npos) return false;
    text.remove_prefix(rest);
    return true;
}

}  // namespace

Result<HttpTokens> HttpTokens::parse(const std::string& path, std::string_view text) {
    HttpTokens tokens;
    for (size_t number = 1; !text.empty(); number++) {
        const size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end == text.npos ? text.size() : end + 1);
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.empty() || line.starts_with('#')) continue;
        if (line.size() < bytes_min || line.size() > bytes_max || !std::ranges::all_of(line, is_token_byte))
            return token_problem(path, "line " + std::to_string(number) +
                                           " is no token of 16 to 256 printable characters without spaces");
        tokens.tokens_.emplace_back(line).resize(bytes_max);
    }
    if (tokens.tokens_.empty()) return token_problem(path, "has no token, so no client could be served");
    if (tokens.tokens_.size() > tokens_max) return token_problem(path, "has more than 8 tokens");
    return tokens;
}

bool HttpTokens::allow(std::string_view authorization) const {
    std::string given;
    if (take_scheme(authorization, "Bearer")) {
        given = authorization;
    } else if (take_scheme(authorization, "Basic")) {
        std::string pair;
        if (!decode_base64(authorization, [&pair](unsigned char byte) { pair += char(byte); })) return false;
        const size_t colon = pair.find(':');
        if (colon == pair.npos) return false;
        given = pair.substr(colon + 1);
    }
    if (given.size() < bytes_min || given.size() > bytes_max || !std::ranges::all_of(given, is_token_byte)) return false;
    given.resize(bytes_max);
    int found = 0;
    for (const std::string& token : tokens_) found |= int(same_secret(token, given));
    return found != 0;
}

HttpAccess::HttpAccess(const conf::AdminSettings& settings)
    : token_path_(absolute_path(settings.http_token_file)),
      chain_path_(absolute_path(settings.http_cert)),
      key_path_(absolute_path(settings.http_key.empty() ? settings.http_cert : settings.http_key)) {}

Result<HttpAccess::Loaded> HttpAccess::load() const {
    Loaded loaded;
    if (!token_path_.empty()) {
        const SecretFile file(token_path_.c_str(), file_bytes_max, S_IRWXO);
        if (Refusal refusal = check(file, token_path_)) return std::move(*refusal);
        Result<HttpTokens> tokens = HttpTokens::parse(token_path_, file.text());
        if (auto* problem = std::get_if<Problem>(&tokens)) return std::move(*problem);
        loaded.tokens = std::get<HttpTokens>(std::move(tokens));
    }
#ifdef FARCACHED_OPENSSL
    if (!chain_path_.empty()) {
        loaded.tls = {SSL_CTX_new(TLS_server_method()), &SSL_CTX_free};
        Result<Certificate> certificate = use_certificate(loaded.tls.get(), chain_path_, key_path_, SSL_FILETYPE_PEM);
        if (const auto* problem = std::get_if<Problem>(&certificate))
            return Problem{problem->exit_status, "--http-cert: " + problem->text};
        loaded.warning = std::get<Certificate>(certificate).warning;
        SSL_CTX_set_min_proto_version(loaded.tls.get(), TLS1_2_VERSION);
        SSL_CTX_set_options(loaded.tls.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
        SSL_CTX_set_session_cache_mode(loaded.tls.get(), SSL_SESS_CACHE_OFF);
        SSL_CTX_set_num_tickets(loaded.tls.get(), 0);
        SSL_CTX_set_mode(loaded.tls.get(), SSL_MODE_RELEASE_BUFFERS);
    }
#endif
    return loaded;
}

void HttpAccess::use(Loaded loaded) {
    if (!loaded.warning.empty()) say(Level::warning, loaded.warning);
    std::lock_guard hold(lock_);
    loaded_ = std::move(loaded);
}

bool HttpAccess::allows(const char* authorization) const {
    if (authorization == nullptr) return false;
    std::lock_guard hold(lock_);
    return loaded_.tokens.allow(authorization);
}

std::shared_ptr<ssl_ctx_st> HttpAccess::tls() const {
    std::lock_guard hold(lock_);
    return loaded_.tls;
}

}  // namespace farcached::process
