// SPDX-License-Identifier: BSD-3-Clause
#include "conf/etcd_url.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

#include "conf/addresses.h"
#include "conf/comma_list.h"
#include "conf/program.h"

namespace farcached::conf {

namespace {

constexpr std::string_view plain_scheme = "etcd://", tls_scheme = "etcds://";
constexpr std::string_view url_form = "etcd://HOST:PORT[,HOST:PORT]/PREFIX, or etcds:// with TLS";

Problem wrong_url(std::string text) { return {exit_usage, std::move(text)}; }

bool is_prefix_character(char c) { return c > ' ' && c < 0x7f; }

// A problem: of one endpoint.
Refusal add_endpoint(std::string_view text, EtcdUrl& url) {
    std::string host;
    uint16_t port = 0;
    if (text.find('@') != text.npos)
        return wrong_url("no user and no password belong into it; give discover_user and discover_password_file");
    if (Refusal refused = parse_host_and_port(text, "", 1, host, port)) return refused;
    url.endpoints.push_back((url.tls ? "https://" : "http://") + host_and_port(host, port));
    return {};
}

}  // namespace

std::string EtcdUrl::describe() const {
    if (endpoints.empty()) return {};
    const size_t others = endpoints.size() - 1;
    return endpoints.front() + (others == 0 ? "" : " and " + std::to_string(others) + " more");
}

bool is_etcd_url(std::string_view text) { return text.starts_with(plain_scheme) || text.starts_with(tls_scheme); }

Result<EtcdUrl> parse_etcd_url(std::string_view text) {
    if (!is_etcd_url(text)) return wrong_url("allowed: " + std::string(url_form));
    EtcdUrl url;
    url.tls = text.starts_with(tls_scheme);
    text.remove_prefix(url.tls ? tls_scheme.size() : plain_scheme.size());
    const size_t slash = text.find('/');
    if (slash == text.npos) return wrong_url("a prefix of keys must follow the addresses: " + std::string(url_form));
    std::string_view rest = text.substr(0, slash);
    for (bool more = true; more;) {
        if (Refusal refused = add_endpoint(take_listed(rest, more), url)) return std::move(*refused);
        if (url.endpoints.size() > EtcdUrl::endpoints_max)
            return wrong_url("at most " + std::to_string(EtcdUrl::endpoints_max) + " addresses are allowed");
    }
    url.prefix = text.substr(slash);
    while (url.prefix.ends_with('/')) url.prefix.pop_back();
    if (url.prefix.empty()) return wrong_url("a prefix of keys must follow the addresses: " + std::string(url_form));
    if (url.prefix.size() > EtcdUrl::prefix_bytes_max || !std::ranges::all_of(url.prefix, is_prefix_character))
        return wrong_url("the prefix has at most " + std::to_string(EtcdUrl::prefix_bytes_max) +
                         " printable characters without spaces");
    return url;
}

Refusal check_etcd(std::string_view text) {
    Result<EtcdUrl> parsed = parse_etcd_url(text);
    if (auto* const problem = std::get_if<Problem>(&parsed)) return std::move(*problem);
#ifndef FARCACHED_LIBCURL
    return wrong_url("this program was built without libcurl, so it cannot ask etcd; build it with libcurl "
                     "(configure --with-libcurl=yes)");
#else
    return {};
#endif
}

}  // namespace farcached::conf
