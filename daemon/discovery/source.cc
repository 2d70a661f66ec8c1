// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/source.h"

#include <utility>
#include <variant>

#include "conf/discover.h"
#include "conf/program.h"
#include "daemon/discovery/etcd_source.h"
#ifdef FARCACHED_CARES
#include "daemon/discovery/dns_source.h"
#endif

namespace farcached::daemon {

Result<std::unique_ptr<Source>> make_source(const conf::ProxySettings& settings, std::function<void()> changed) {
    auto parsed = conf::parse_discover(settings.discovery.source);
    if (const auto* why = std::get_if<std::string>(&parsed)) return Problem{conf::exit_usage, "--discover: " + *why + "\n"};
    if (std::get<conf::DiscoverPlace>(parsed).kind == conf::DiscoverKind::etcd)
        return make_etcd_source(settings, std::move(changed));
#ifdef FARCACHED_CARES
    return std::make_unique<DnsSource>(settings, std::get<conf::DiscoverPlace>(std::move(parsed)), std::move(changed));
#else
    (void)changed;
    return Problem{conf::exit_usage, std::string(conf::discover_without_cares)};
#endif
}

}  // namespace farcached::daemon
