// SPDX-License-Identifier: BSD-3-Clause
// Certificates for tests of TLS between peers: an authority, and what it issues. Files are in a folder of the test.
#pragma once

#ifdef FARCACHED_OPENSSL

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

#include "base/check.h"
#include "fabric/peer_tls.h"

namespace farcached::fabric {

class Authority {
  public:
    Authority(std::string folder, const std::string& name) : folder_(std::move(folder)), name_(name), key_(EVP_EC_gen("P-256")) {
        CHECK(key_ != nullptr);
        own_.reset(make(name, key_.get(), "CA:TRUE", NID_basic_constraints));
        write(name + ".pem", own_.get());
    }

    // Of a peer at that place, as in "IP:127.0.0.1" or "DNS:a.example". Trusts this authority.
    PeerTls::Paths issue(const std::string& name, const std::string& place) const {
        const std::unique_ptr<EVP_PKEY, FreeKey> key(EVP_EC_gen("P-256"));
        const std::unique_ptr<X509, FreeCertificate> made(make(name, key.get(), place, NID_subject_alt_name));
        write(name + ".pem", made.get());
        FILE* const file = std::fopen((folder_ + "/" + name + ".key").c_str(), "w");
        CHECK(file != nullptr);
        CHECK(PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
        CHECK(std::fclose(file) == 0);
        return {folder_ + "/" + name + ".pem", folder_ + "/" + name + ".key", folder_ + "/" + name_ + ".pem"};
    }

  private:
    struct FreeKey {
        void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    };
    struct FreeCertificate {
        void operator()(X509* certificate) const { X509_free(certificate); }
    };

    X509* make(const std::string& name, EVP_PKEY* key, const std::string& extension, int kind) const {
        constexpr long day_s = 86'400;
        X509* const made = X509_new();
        CHECK(made != nullptr);
        X509_set_version(made, X509_VERSION_3);
        ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial_);
        X509_gmtime_adj(X509_getm_notBefore(made), -day_s);
        X509_gmtime_adj(X509_getm_notAfter(made), day_s);
        X509_set_pubkey(made, key);
        X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC,
                                   reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
        X509_set_issuer_name(made, X509_get_subject_name(own_ != nullptr ? own_.get() : made));
        X509_EXTENSION* const added = X509V3_EXT_conf_nid(nullptr, nullptr, kind, extension.c_str());
        CHECK(added != nullptr);
        CHECK(X509_add_ext(made, added, -1) == 1);
        X509_EXTENSION_free(added);
        CHECK(X509_sign(made, key_.get(), EVP_sha256()) != 0);
        return made;
    }
    void write(const std::string& name, X509* certificate) const {
        FILE* const file = std::fopen((folder_ + "/" + name).c_str(), "w");
        CHECK(file != nullptr);
        CHECK(PEM_write_X509(file, certificate) == 1);
        CHECK(std::fclose(file) == 0);
    }

    std::string folder_, name_;
    std::unique_ptr<EVP_PKEY, FreeKey> key_;
    std::unique_ptr<X509, FreeCertificate> own_;
    mutable long serial_ = 0;
};

}  // namespace farcached::fabric

#endif
