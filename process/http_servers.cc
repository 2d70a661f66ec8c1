// SPDX-License-Identifier: BSD-3-Clause
#include "process/http_servers.h"

#include <cstdlib>
#include <utility>
#include <variant>

#include "conf/addresses.h"
#include "conf/exposure.h"
#include "process/fatal.h"
#include "process/log.h"
#include "process/process.h"

namespace farcached::process {

HttpServers::HttpServers(const conf::AdminSettings& settings) : host_(settings.http_host) {
    std::vector<BoundPort> bound;
    if (!settings.http_host.empty()) {
        auto access = std::make_unique<HttpAccess>(settings);
        access->use(or_fatal(access->load()));
        HttpListener::Options options;
        options.names = own_host_names(settings.http_host, settings.http_names);
        options.access = std::move(access);
        pages_ = or_fatal(HttpListener::listen("--http", settings.http_host, settings.http_port, std::move(options)));
        bound.push_back({pages_->ipv6(), pages_->port()});
    }
    if (!settings.health_host.empty()) {
        HttpListener::Options options;
        options.any_host = true;
        options.thread = "http-health";
        health_ = or_fatal(HttpListener::listen("--http-health", settings.health_host, settings.health_port, std::move(options)));
        bound.push_back({health_->ipv6(), health_->port(), "HEALTH"});
    }
    write_port_file(std::getenv("FARCACHED_HTTP_PORT_FILENAME"), bound);
    if (conf::tokens_are_readable(settings))
        say(Level::warning, "--http " + place() + ": tokens cross the network in the clear, and any machine on their path can use "
                            "them; set --http-cert FILE, or trust the network");
}

std::string HttpServers::place() const { return pages_ == nullptr ? "" : conf::host_and_port(host_, pages_->port()); }

event_base* HttpServers::base() {
    event_base* const of_health = health_ == nullptr ? nullptr : health_->base();
    return pages_ == nullptr ? of_health : pages_->base();
}

void HttpServers::start(const HttpListener::Handler& handler) {
    if (pages_ != nullptr) pages_->start(handler);
    if (health_ == nullptr) return;
    health_->start([handler](const HttpRequest& request, const HttpListener::Reply& reply) {
        if (request.path == "/healthz" || request.path == "/readyz") return handler(request, reply);
        reply({404, {}, "available: /healthz /readyz\n", {}});
    });
}

void HttpServers::stop() {
    if (pages_ != nullptr) pages_->stop();
    if (health_ != nullptr) health_->stop();
}

std::vector<std::string> HttpServers::NewFiles::load() {
    const HttpAccess* access = servers_.access();
    if (access == nullptr) return {};
    Result<HttpAccess::Loaded> loaded = access->load();
    if (const auto* problem = std::get_if<Problem>(&loaded)) return {problem->text.substr(0, problem->text.find('\n'))};
    loaded_ = std::get<HttpAccess::Loaded>(std::move(loaded));
    return {};
}

void HttpServers::NewFiles::use() {
    if (HttpAccess* access = servers_.access()) access->use(std::move(loaded_));
}

}  // namespace farcached::process
