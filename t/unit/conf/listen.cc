// SPDX-License-Identifier: BSD-3-Clause
// -l, -p and -B as addresses to listen on.
#include <string>
#include <variant>
#include <vector>

#include "conf/addresses.h"
#include "t/lib/tap.h"

using namespace farcached::conf;

namespace {

ListenSettings settings_of(std::string interfaces, int32_t port = 11211,
                           Protocol protocol = Protocol::any) {
    ListenSettings settings;
    settings.port = port;
    settings.interfaces = std::move(interfaces);
    settings.protocol = protocol;
    return settings;
}

// "host port protocol tag" for each, with semicolons; or the problem.
std::string shown(const ListenSettings& settings, bool tls = false) {
    auto result = listen_addresses(settings, tls);
    if (auto* problem = std::get_if<Problem>(&result)) {
        return std::to_string(problem->exit_status) + " " + problem->text;
    }
    std::string text;
    for (const ListenAddress& address : std::get<std::vector<ListenAddress>>(result)) {
        if (!text.empty()) text += "; ";
        text += address.host.empty() ? "all" : address.host;
        text += " " + std::to_string(address.port);
        if (address.protocol == Protocol::text) text += " text";
        if (address.protocol == Protocol::binary) text += " binary";
        constexpr std::string_view modes[] = {"", " tls", " unverified", " verified"};
        text += modes[size_t(address.tls)];
        if (!address.tag.empty()) text += " tag " + address.tag;
    }
    return text;
}

struct Case {
    const char* interfaces;
    const char* shown;
};

const Case good[] = {
    {"", "all 11211"},
    {"*", "all 11211"},
    {"*:5", "all 5"},
    {"127.0.0.1", "127.0.0.1 11211"},
    {"127.0.0.1:5", "127.0.0.1 5"},
    {"127.0.0.1:0", "127.0.0.1 0"},
    {"localhost:65535", "localhost 65535"},
    {"127.0.0.1,127.0.0.2:6", "127.0.0.1 11211; 127.0.0.2 6"},
    {"127.0.0.1;127.0.0.2,,", "127.0.0.1 11211; 127.0.0.2 11211"},
    {"[::1]", "::1 11211"},
    {"[::1]:7", "::1 7"},
    {"::1", "::1 11211"},
    {"fe80::1:2", "fe80::1:2 11211"},
    {"proto[ascii]:127.0.0.1", "127.0.0.1 11211 text"},
    {"proto[binary]:[::1]:9", "::1 9 binary"},
    {"tag[b]:127.0.0.1", "127.0.0.1 11211 tag b"},
    {"proto[binary]:tag[foo]:127.0.0.1:8", "127.0.0.1 8 binary tag foo"},
};

// With -Z.
const Case good_tls[] = {
    {"127.0.0.1", "127.0.0.1 11211 tls"},
    {"", "all 11211 tls"},
    {"notls:127.0.0.1:5", "127.0.0.1 5"},
    {"btls:[::1],mtls:*:6", "::1 11211 unverified; all 6 verified"},
    {"tag[foo]:proto[ascii]:notls:127.0.0.1:8", "127.0.0.1 8 text tag foo"},
    {"mtls:proto[binary]:tag[foo]:127.0.0.1:8", "127.0.0.1 8 binary verified tag foo"},
};

const Case bad[] = {
    {"127.0.0.1:x", "Invalid port number: \"x\""},
    {"127.0.0.1:", "Invalid port number: \"\""},
    {"127.0.0.1:65536", "Invalid port number: \"65536\""},
    {"127.0.0.1:-1", "Invalid port number: \"-1\""},
    {"127.0.0.1,127.0.0.2:1x", "Invalid port number: \"1x\""},
    {"[::1", "Invalid IPV6 address: \"[::1\""},
    {"[::1]5", "Invalid IPV6 address: \"[::1]5\""},
    {"proto[foo]:127.0.0.1", "Invalid protocol: \"proto[foo]:127.0.0.1\" (proto[ascii]: or proto[binary]:)"},
    {"proto[ascii", "Invalid protocol: \"proto[ascii\" (proto[ascii]: or proto[binary]:)"},
    {"tag[a", "Invalid tag: \"tag[a\""},
    {",", "No address to listen on"},
    {"notls:127.0.0.1", "'notls' option is valid only when SSL is enabled"},
    {"proto[ascii]:btls:127.0.0.1", "'btls' option is valid only when SSL is enabled"},
    {"mtls:127.0.0.1", "'mtls' option is valid only when SSL is enabled"},
};

const Case bad_tls[] = {
    {"mtls:notls:127.0.0.1", "Second TLS prefix: \"notls:127.0.0.1\" (one of notls:, btls: and mtls:)"},
    {"notls:proto[ascii]:mtls:*", "Second TLS prefix: \"mtls:*\" (one of notls:, btls: and mtls:)"},
    {"btls:btls:[::1]:5", "Second TLS prefix: \"btls:[::1]:5\" (one of notls:, btls: and mtls:)"},
};

std::string refusal_of(const Case& one) {
    return std::string("71 ") + one.shown + "\nfailed to listen on one of interface(s) " + one.interfaces + ": Invalid argument\n";
}

}  // namespace

int main() {
    for (const Case& one : good) tap::is(shown(settings_of(one.interfaces)), one.shown, one.interfaces);
    for (const Case& one : good_tls)
        tap::is(shown(settings_of(one.interfaces), /* tls= */ true), one.shown, std::string("-Z ") + one.interfaces);
    for (const Case& one : bad) tap::is(shown(settings_of(one.interfaces)), refusal_of(one), one.interfaces);
    for (const Case& one : bad_tls)
        tap::is(shown(settings_of(one.interfaces), /* tls= */ true), refusal_of(one), std::string("-Z ") + one.interfaces);
    tap::is(shown(settings_of("127.0.0.1", -1)), "127.0.0.1 0", "-p -1: the kernel chooses");
    tap::is(shown(settings_of("127.0.0.1:5", 0)), "", "-p 0: none");
    tap::is(shown(settings_of("a,proto[ascii]:b", 1, Protocol::binary)), "a 1 binary; b 1 text",
            "-B is for those that say nothing else");
    ListenSettings unix_only = settings_of("127.0.0.1");
    unix_only.unix_path = "/x";
    tap::is(shown(unix_only), "", "-s: none");
    return tap::done();
}
