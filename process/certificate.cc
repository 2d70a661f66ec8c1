// SPDX-License-Identifier: BSD-3-Clause
#include "process/certificate.h"

#ifdef FARCACHED_OPENSSL

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstdint>
#include <ctime>

#include "base/check.h"
#include "conf/program.h"
#include "process/log.h"

namespace farcached::process {

namespace {

int64_t unix_time_of(const ASN1_TIME* time) {
    tm broken_down{};
    return ASN1_TIME_to_tm(time, &broken_down) == 1 ? int64_t(timegm(&broken_down)) : INT64_MAX;
}

std::string date_of(const ASN1_TIME* time) {
    tm broken_down{};
    char text[40] = "?";
    if (ASN1_TIME_to_tm(time, &broken_down) == 1) strftime(text, sizeof text, "%FT%TZ", &broken_down);
    return text;
}

// A refusal would keep the other options of a reload out of use, and a daemon that ended from starting again.
std::string validity_warning(const std::string& path, const X509* certificate, const std::string& who) {
    const int64_t now = int64_t(time(nullptr));
    const ASN1_TIME* const begin = X509_get0_notBefore(certificate);
    const ASN1_TIME* const end = X509_get0_notAfter(certificate);
    std::string what;
    if (unix_time_of(end) < now)
        what = ": the certificate expired at " + date_of(end);
    else if (const int64_t begins = unix_time_of(begin); begins > now && begins != INT64_MAX)
        what = ": the certificate is not valid before " + date_of(begin);
    if (what.empty()) return what;
    return path + what + "; " + who + " refuse it; replace the file, then reload";
}

// Instead of a question at the terminal.
int no_password(char*, int, int, void*) { return -1; }

}  // namespace

void warn_of_certificate(const std::string& path, SSL_CTX* context, const std::string& who) {
    const std::string warning = validity_warning(path, SSL_CTX_get0_certificate(context), who);
    if (!warning.empty()) say(Level::warning, warning);
}

std::string tls_library_error() {
    char text[256] = "unknown error";
    if (const unsigned long error = ERR_get_error(); error != 0) ERR_error_string_n(error, text, sizeof text);
    ERR_clear_error();
    return text;
}

Problem tls_problem(const std::string& what) { return tls_problem(what, tls_library_error()); }
Problem tls_problem(const std::string& what, const std::string& why) { return {conf::exit_usage, what + ": " + why + "\n"}; }

Result<Certificate> use_certificate(SSL_CTX* context, const std::string& chain, const std::string& key, int key_format) {
    if (context == nullptr) return tls_problem("Error making the TLS context");
    SSL_CTX_set_default_passwd_cb(context, no_password);
    if (SSL_CTX_use_certificate_chain_file(context, chain.c_str()) != 1)
        return tls_problem("Error loading the certificate chain: " + chain + " ");
    if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), key_format) != 1)
        return tls_problem("Error loading the key: " + key + " ");
    if (SSL_CTX_check_private_key(context) != 1) return tls_problem("Error validating the certificate");
    const X509* certificate = SSL_CTX_get0_certificate(context);
    CHECK(certificate != nullptr);
    return Certificate{unix_time_of(X509_get0_notAfter(certificate)), validity_warning(chain, certificate, "clients")};
}

}  // namespace farcached::process

#endif
