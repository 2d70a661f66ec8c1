// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farcached/http_pages.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <new>
#include <utility>

#include "conf/program.h"
#include "daemon/farcached/discovered.h"
#include "daemon/http/shared_pages.h"

namespace farcached::daemon {

using process::HttpAnswer;
using process::HttpRequest;

namespace {

// Above the default node timeout, below Prometheus's scrape timeout.
constexpr timeval nodes_deadline{2, 0};
struct FreeText {
    void operator()(char* text) const { std::free(text); }
};
constexpr size_t told_bytes_max = size_t(16) << 20;  // S10

constexpr std::chrono::milliseconds shortest_measure{500};

std::string nodes_words(const NodesView& nodes) {
    uint32_t up = 0, drained = 0;
    std::string down;
    const std::vector<NodeShown> all = nodes.all();
    for (const NodeShown& node : all) {
        if (node.state == NodeState::up) up++;
        if (node.state == NodeState::drained) drained++;
        if (node.state != NodeState::down || !down.empty()) continue;
        down = node.name + " is down";
        if (!node.down_reason.empty()) down += ": " + node.down_reason;
    }
    std::string words = std::to_string(up) + "/" + std::to_string(all.size()) + " nodes up";
    if (!down.empty()) words += " (" + down + ")";
    if (drained != 0) words += ", " + std::to_string(drained) + " drained";
    return words;
}

template <class Make>
void answer_if_memory(const process::HttpListener::Reply& reply, Make&& make) {
    HttpAnswer answer{503, {}, "no memory\n", {}};
    try {
        answer = make();
    } catch (const std::bad_alloc&) {
        (void)0;
    }
    reply(std::move(answer));
}

}  // namespace

void ServiceStatus::measure() {
    const auto now = std::chrono::steady_clock::now();
    if (now - since_ < shortest_measure) return;
    uint64_t requests = 0;
    for (uint32_t i = 0; i < server_.worker_count(); i++)
        requests += server_.worker_counters(i).requests.get();
    const double seconds = std::chrono::duration<double>(now - since_).count();
    if (since_ != std::chrono::steady_clock::time_point())
        per_second_ = uint64_t(std::llround(double(requests - requests_) / seconds));
    requests_ = requests;
    since_ = now;
}

std::string ServiceStatus::text() {
    measure();
    const uint64_t clients = server_.clients();
    std::string words = nodes_ == nullptr ? "" : nodes_words(*nodes_) + ", ";
    words += std::to_string(clients) + (clients == 1 ? " client, " : " clients, ");
    return words + std::to_string(per_second_) + " requests/s";
}

std::string ServiceStatus::started(std::string_view http) const {
    std::string places;
    server_.each_listener([&](const ConnectionInfo& one) { places += (places.empty() ? "" : ", ") + std::string(one.addr); });
    if (!http.empty()) places += (places.empty() ? "http:" : ", http:") + std::string(http);
    return "farcached " + std::string(conf::farcached_version()) + ", as memcached " + std::string(conf::memcached_version) +
           ": listening at " + (places.empty() ? "no address" : places) + "; " + std::to_string(server_.worker_count()) +
           (server_.worker_count() == 1 ? " worker; " : " workers; ") +
           (nodes_ == nullptr ? "items are in this process" : nodes_words(*nodes_));
}

void HttpPages::FreeStream::operator()(bufferevent* stream) const { bufferevent_free(stream); }

HttpPages::HttpPages(const Parts& parts) : parts_(parts), history_(parts.http.base(), [this] { return read_history(); }) {
    event_assign(&late_event_, parts_.http.base(), -1, 0, on_late, this);
}

HttpPages::~HttpPages() {
    waiting_.clear();
    event_del(&late_event_);
}

void HttpPages::answer(const HttpRequest& request, process::HttpListener::Reply reply) {
    if (request.path == "/metrics")
        return ask_nodes([this, reply, accept = request.accept](const std::string& told) {
            answer_if_memory(reply, [&] { return metrics(accept, told); });
        });
    if (request.path == "/status.json")
        return ask_nodes(
            [this, reply](const std::string& told) { answer_if_memory(reply, [&] { return status(told); }); });
    if (request.path == "/history.json")
        return answer_if_memory(reply, [&] { return HttpAnswer{200, "application/json", history_.json(), {}}; });
    if (request.path == "/") return reply(http::page());
    if (request.path == "/healthz") return reply({200, {}, "ok\n", {}});
    if (request.path == "/readyz") return reply(ready());
    reply({404, {}, "available: / /status.json /history.json /metrics /healthz /readyz\n", {}});
}

// ---- answers ----------------------------------------------------------------------------------------

// The reason, or empty.
std::string HttpPages::not_ready() const {
    if (stopping_) return "stopping";
    const NodesView* nodes = parts_.server.nodes();
    if (nodes == nullptr) return {};
    std::string reasons;
    for (const NodeShown& shown : nodes->all()) {
        if (shown.state == NodeState::up) return {};
        reasons += "; " + shown.name + " is " + std::string(node_state_name(shown.state));
        if (shown.state == NodeState::down && !shown.down_reason.empty()) reasons += ": " + shown.down_reason;
    }
    return "no node is available" + reasons;
}

HttpAnswer HttpPages::ready() const {
    const std::string reason = not_ready();
    return {reason.empty() ? 200 : 503, {}, (reason.empty() ? "ready" : reason) + "\n", {}};
}

MetricsSource HttpPages::source_of(const Sample& sample, const std::vector<NodeNumbers>& told) const {
    MetricsSource source{sample, parts_.server.nodes(), told, parts_.version};
    if (parts_.discovered != nullptr) source.discovery = parts_.discovered->state();
    return source;
}

HttpAnswer HttpPages::metrics(const std::string& accept, const std::string& told) const {
    const Sample sample = take_sample(parts_.embedded, parts_.server, parts_.watch);
    const std::vector<NodeNumbers> nodes = read_numbers(told);
    MetricsText text("farcached_");
    write_metrics(text, source_of(sample, nodes));
    text.number(MetricsText::Kind::gauge, "ready", "1: clients are served, as in /readyz", not_ready().empty() ? 1 : 0);
    text.number(MetricsText::Kind::counter, "http_unauthorized", "requests to --http that had no valid token and were refused",
                parts_.http.unauthorized());
    const MetricsText::Format format = MetricsText::negotiate(accept);
    return {200, MetricsText::content_type(format), text.text(format), {{"Vary", "Accept"}}};
}

HttpAnswer HttpPages::status(const std::string& told) const {
    Sample sample = take_sample(parts_.embedded, parts_.server, parts_.watch);
    const std::vector<NodeNumbers> nodes = read_numbers(told);
    const http::Identity identity{"farcached", {}, parts_.version, http::tcp_port(parts_.server.ports())};
    return {200, "application/json", status_json(source_of(sample, nodes), identity, not_ready()), {}};
}

// P2: reads counters, and takes the short lock of the set of nodes. Unlike a Sample it does not visit the embedded node.
http::HistoryReading HttpPages::read_history() {
    http::HistoryReading reading;
    LatencyTotals latency;
    const Server& server = parts_.server;
    for (uint32_t worker = 0; worker < server.worker_count(); worker++) {
        const WorkerCounters& counters = server.worker_counters(worker);
        reading.requests += counters.requests.get();
        reading.gets += counters.get_cmds.get();
        for (const ClassCounters& one : counters.classes) reading.hits += one.get_hits.get();
        if (const LatencyCounters* measured = server.latency_counters(worker)) latency.add(*measured);
    }
    if (const NodesView* nodes = server.nodes()) {
        const auto add = [&](const proxy::LinkCounters& link, const proxy::LocalGetCounters&) {
            const uint64_t one_sided = link.get_onesided.get() + link.get_index.get();
            reading.gets_one_sided += one_sided;
            reading.gets_through_links += one_sided + link.get_twosided.get();
        };
        for (const NodeShown& node : nodes->all()) nodes->each_link(node.number, add);
        nodes->each_past_link(add);
    }
    LatencyTotals recent = latency;
    recent.subtract(std::exchange(latency_before_, latency));
    LatencyTotals::One all;
    for (const auto& way : recent.of)
        for (const LatencyTotals::One& verb : way)
            for (size_t i = 0; i < all.counts.size(); i++) all.counts[i] += verb.counts[i];
    if (all.count() != 0) reading.p99_us = all.quantile_us(0.99);
    return reading;
}

// ---- asking nodes -----------------------------------------------------------------------------------

void HttpPages::ask_nodes(Told then) {
    if (parts_.server.nodes() == nullptr || stopping_) return then("");
    waiting_.push_back(std::move(then));
    if (waiting_.size() > 1) return;
    told_.clear();
    text_.clear();
    answering_ = 0;
    bool asks = false;
    with_memory([&] { asks = (stream_ != nullptr || open_stream()) && write_requests(); });
    if (!asks) return finish();
    event_add(&late_event_, &nodes_deadline);
}

// False: no nodes.
bool HttpPages::write_requests() {
    asked_.clear();
    std::string lines;
    for (const NodeShown& node : parts_.server.nodes()->all()) {
        lines += "stats node " + node.name + " all\r\n";
        asked_.push_back(node.name);
    }
    return !asked_.empty() && bufferevent_write(stream_.get(), lines.data(), lines.size()) == 0;
}

// If memory runs out, all waiting requests get the answers so far.
template <class Do>
void HttpPages::with_memory(Do&& body) noexcept {
    try {
        body();
    } catch (const std::bad_alloc&) {
        stream_.reset();
        finish();
    }
}

bool HttpPages::open_stream() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return false;
    stream_.reset(bufferevent_socket_new(parts_.http.base(), ends[0], BEV_OPT_CLOSE_ON_FREE));
    if (stream_ == nullptr) {
        close(ends[0]);
        close(ends[1]);
        return false;
    }
    bufferevent_setcb(stream_.get(), on_read, nullptr, on_end, this);
    bufferevent_enable(stream_.get(), EV_READ | EV_WRITE);
    parts_.server.serve_own(ends[1]);
    return true;
}

void HttpPages::on_read(bufferevent*, void* argument) {
    HttpPages& pages = *static_cast<HttpPages*>(argument);
    pages.with_memory([&] { pages.take_lines(); });
}

// The session ended: idle timeout, or the server stops.
void HttpPages::on_end(bufferevent*, short, void* argument) {
    HttpPages& pages = *static_cast<HttpPages*>(argument);
    pages.stream_.reset();
    pages.finish();
}

void HttpPages::on_late(evutil_socket_t, short, void* argument) {
    HttpPages& pages = *static_cast<HttpPages*>(argument);
    pages.stream_.reset();  // later answers are dropped
    pages.finish();
}

void HttpPages::take_lines() {
    evbuffer* input = bufferevent_get_input(stream_.get());
    while (!waiting_.empty()) {
        size_t size = 0;
        const std::unique_ptr<char, FreeText> line(evbuffer_readln(input, &size, EVBUFFER_EOL_CRLF));
        if (line == nullptr) break;
        take_line({line.get(), size});
    }
    if (told_.size() + text_.size() <= told_bytes_max) return;
    stream_.reset();
    finish();
}

// "STAT name value" until END, or one line with an error.
void HttpPages::take_line(std::string_view line) {
    constexpr std::string_view stat = "STAT ";
    if (line.starts_with(stat))
        text_.append(line.substr(stat.size())).append("\n");
    else
        end_node(line == "END");
}

void HttpPages::end_node(bool answered) {
    told_ += asked_[answering_] + " " + (answered ? std::to_string(text_.size()) : "-") + "\n";
    if (answered) told_ += text_;
    text_.clear();
    if (++answering_ == asked_.size()) finish();
}

void HttpPages::finish() {
    event_del(&late_event_);
    const std::vector<Told> waiting = std::exchange(waiting_, {});
    for (const Told& then : waiting) then(told_);
}

}  // namespace farcached::daemon
