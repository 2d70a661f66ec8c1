// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farnode/http.h"

#include "base/metrics_text.h"
#include "conf/version.h"
#include "process/log.h"

namespace farcached::node {

void FarnodeHttp::answer(const process::HttpRequest& request, const process::HttpListener::Reply& reply) const {
    const bool stopping = stopping_;
    if (request.path == "/metrics") {
        MetricsText text("farnode_");
        text.number(MetricsText::Kind::gauge, "build_info", "1; its version is a label", 1,
                    {{"version", conf::farcached_version()}});
        text.number(MetricsText::Kind::gauge, "ready", "1: proxies are served, as in /readyz", stopping ? 0 : 1);
        text.number(MetricsText::Kind::counter, "log_lines_lost", "lines for stderr that were lost",
                    process::log_lines_lost());
        stats_.append_metrics(clock_().seconds, text);
        const MetricsText::Format format = MetricsText::negotiate(request.accept);
        return reply({200, MetricsText::content_type(format), text.text(format), {{"Vary", "Accept"}}});
    }
    if (request.path == "/healthz") return reply({200, {}, "ok\n", {}});
    if (request.path == "/readyz") return reply({stopping ? 503 : 200, {}, stopping ? "stopping\n" : "ready\n", {}});
    reply({404, {}, "available: /metrics /healthz /readyz\n", {}});
}

}  // namespace farcached::node
