// SPDX-License-Identifier: BSD-3-Clause
// HttpAccess: the protection of --http: the tokens of its clients (--http-token-file), and its TLS (--http-cert, --http-key).
//
// A1  load() changes nothing; a failed load leaves the former files in use. Connections keep the TLS that they began with.
// A2  The time of allows() depends on the number of tokens and on the length of what the client sent only.
//
// Owner: the HttpListener. Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "conf/program.h"
#include "conf/settings.h"

struct ssl_ctx_st;

namespace farcached::process {

// Pure: the text of such a file, and the value of an Authorization header. path: for the problem's sentence.
class HttpTokens {
  public:
    static constexpr size_t tokens_max = 8, bytes_min = 16, bytes_max = 256;

    HttpTokens() = default;  // no client is allowed
    static Result<HttpTokens> parse(const std::string& path, std::string_view text);

    // "Bearer TOKEN", or "Basic" with any user and the token as its password.
    bool allow(std::string_view authorization) const;

  private:
    std::vector<std::string> tokens_;  // padded to bytes_max with zeros
};

class HttpAccess {
  public:
    struct Loaded {
        HttpTokens tokens;
        std::shared_ptr<ssl_ctx_st> tls;  // nullptr: none
        std::string warning;              // of the certificate; empty: none
    };

    // Paths become absolute, because -d changes the folder.
    explicit HttpAccess(const conf::AdminSettings& settings);

    // Reads the files. The problem is a sentence with the file's name.
    Result<Loaded> load() const;
    void use(Loaded loaded);

    bool needs_token() const { return !token_path_.empty(); }
    // authorization: the header's value; nullptr: none.
    bool allows(const char* authorization) const;
    std::shared_ptr<ssl_ctx_st> tls() const;

  private:
    const std::string token_path_, chain_path_, key_path_;
    mutable std::mutex lock_;
    Loaded loaded_;  // under lock_
};

}  // namespace farcached::process
