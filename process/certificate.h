// SPDX-License-Identifier: BSD-3-Clause
// Loads a server's certificate chain and key from files into a context of OpenSSL. Without OpenSSL nothing is done.
//
// Owner: none. Any thread; OpenSSL's errors are the thread's.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

struct ssl_ctx_st;

namespace farcached::process {

#ifdef FARCACHED_OPENSSL

// Logs that the context's certificate, read from that file, has expired or is not valid yet. who: refuses it.
void warn_of_certificate(const std::string& path, ssl_ctx_st* context, const std::string& who);

// The oldest error of this thread, in OpenSSL's words; the others are discarded.
std::string tls_library_error();

// Exit status of a usage error. Without `why`: tls_library_error().
Problem tls_problem(const std::string& what);
Problem tls_problem(const std::string& what, const std::string& why);

struct Certificate {
    int64_t expires_unix = 0;
    std::string warning;  // the certificate is expired, or not valid yet; empty: neither
};

// key_format: SSL_FILETYPE_PEM or SSL_FILETYPE_ASN1. nullptr as context: no memory. A key with a password is refused.
Result<Certificate> use_certificate(ssl_ctx_st* context, const std::string& chain, const std::string& key, int key_format);

#else

inline void warn_of_certificate(const std::string&, ssl_ctx_st*, const std::string&) {}

#endif

}  // namespace farcached::process
