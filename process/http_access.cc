// SPDX-License-Identifier: BSD-3-Clause
#include "process/http_access.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>
#include <variant>

#include "process/certificate.h"
#include "process/log.h"

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

class File {
  public:
    explicit File(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
    ~File() {
        if (fd_ >= 0) close(fd_);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    int fd() const { return fd_; }

  private:
    const int fd_;
};

Result<std::string> read_secret(const std::string& path) {
    const auto failed = [&] { return token_problem(path, std::string("cannot be read: ") + std::strerror(errno)); };
    const File file(path);
    struct stat about {};
    if (file.fd() < 0 || fstat(file.fd(), &about) != 0) return failed();
    if (!S_ISREG(about.st_mode)) return token_problem(path, "is no regular file");
    if ((about.st_mode & S_IRWXO) != 0)
        return token_problem(path, "every user of this host may open it, so the tokens are no secret; run chmod o-rwx on it");
    std::string text(file_bytes_max + 1, '\0');
    size_t size = 0;
    while (size < text.size()) {
        const ssize_t got = read(file.fd(), text.data() + size, text.size() - size);
        if (got < 0) return failed();
        if (got == 0) break;
        size += size_t(got);
    }
    if (size > file_bytes_max) return token_problem(path, "is longer than 64 KiB");
    text.resize(size);
    return text;
}

bool is_token_byte(char c) { return c > ' ' && c < '\x7f'; }

// Both have bytes_max bytes. All are compared, so the time tells nothing of the token; volatile, because a compiler may end
// another loop at the first difference.
bool same(std::string_view a, std::string_view b) {
    volatile unsigned difference = 0;
    for (size_t i = 0; i < HttpTokens::bytes_max; i++) difference = difference | unsigned(uint8_t(a[i]) ^ uint8_t(b[i]));
    return difference == 0;
}

// Of RFC 4648, with or without its padding.
std::optional<std::string> decode_base64(std::string_view text) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    while (text.ends_with('=')) text.remove_suffix(1);
    std::string bytes;
    uint32_t bits = 0, count = 0;
    for (const char c : text) {
        const size_t digit = digits.find(c);
        if (digit == digits.npos) return std::nullopt;
        bits = bits << 6 | uint32_t(digit);
        count += 6;
        if (count < 8) continue;
        count -= 8;
        bytes += char(bits >> count & 0xff);
    }
    return bytes;
}

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
        const std::optional<std::string> pair = decode_base64(authorization);
        const size_t colon = pair ? pair->find(':') : std::string::npos;
        if (colon == std::string::npos) return false;
        given = pair->substr(colon + 1);
    }
    if (given.size() < bytes_min || given.size() > bytes_max || !std::ranges::all_of(given, is_token_byte)) return false;
    given.resize(bytes_max);
    int found = 0;
    for (const std::string& token : tokens_) found |= int(same(token, given));
    return found != 0;
}

HttpAccess::HttpAccess(const conf::AdminSettings& settings)
    : token_path_(absolute_path(settings.http_token_file)),
      chain_path_(absolute_path(settings.http_cert)),
      key_path_(absolute_path(settings.http_key.empty() ? settings.http_cert : settings.http_key)) {}

Result<HttpAccess::Loaded> HttpAccess::load() const {
    Loaded loaded;
    if (!token_path_.empty()) {
        Result<std::string> text = read_secret(token_path_);
        if (auto* problem = std::get_if<Problem>(&text)) return std::move(*problem);
        Result<HttpTokens> tokens = HttpTokens::parse(token_path_, std::get<std::string>(text));
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
