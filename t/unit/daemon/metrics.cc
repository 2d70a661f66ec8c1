// SPDX-License-Identifier: BSD-3-Clause
// Metrics: the text formats, the readings of the clock that bound each measurement, and the list of slow requests.
// Every counter of `stats` is in the text, with its own value.
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics_text.h"
#include "daemon/stats/latency.h"
#include "daemon/stats/metrics.h"
#include "t/unit/daemon/stats_nodes_fixture.h"

using namespace farcached;
using Kind = MetricsText::Kind;
using Format = MetricsText::Format;

namespace {

constexpr uint64_t us = 1000;

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// -- The formats ------------------------------------------------------------------------------------------

void test_formats() {
    MetricsText text("x_");
    text.number(Kind::counter, "reads", "reads of \"a\\b\"\nand c", 3, {{"node", "a\"\\\n"}});
    text.number(Kind::gauge, "size_bytes", "size", UINT64_MAX);
    text.number(Kind::counter, "reads", "ignored", 4, {{"node", "b"}, {"way", "c"}});
    text.stat(Kind::counter, "report_us", "microseconds of it", 1'500'000);
    text.stat(Kind::counter, "bytes_read", "bytes", 9);
    tap::is(text.text(Format::prometheus),
            std::string("# HELP x_reads_total reads of \"a\\\\b\"\\nand c\n# TYPE x_reads_total counter\n"
                        "x_reads_total{node=\"a\\\"\\\\\\n\"} 3\nx_reads_total{node=\"b\",way=\"c\"} 4\n"
                        "# HELP x_size_bytes size\n# TYPE x_size_bytes gauge\nx_size_bytes 18446744073709551615\n"
                        "# HELP x_report_seconds_total seconds of it\n# TYPE x_report_seconds_total counter\n"
                        "x_report_seconds_total 1.5\n"
                        "# HELP x_received_bytes_total bytes\n# TYPE x_received_bytes_total counter\n"
                        "x_received_bytes_total 9\n"),
            "families together, labels and help escaped, base units");
    const std::string open = text.text(Format::openmetrics);
    tap::ok(open.starts_with("# HELP x_reads reads of \\\"a\\\\b\\\"\\nand c\n# TYPE x_reads counter\nx_reads_total{"),
            "OpenMetrics names the family without _total, and escapes quotes");
    tap::ok(open.ends_with("x_received_bytes_total 9\n# EOF\n"), "and has an end");
    MetricsText histogram("x_");
    const double bounds[] = {0.001, 0.5};
    const uint64_t counts[] = {2, 0, 1};
    histogram.histogram("wait_seconds", "waits", bounds, counts, 7.25, {{"op", "get"}});
    tap::is(histogram.text(Format::prometheus),
            std::string("# HELP x_wait_seconds waits\n# TYPE x_wait_seconds histogram\n"
                        "x_wait_seconds_bucket{op=\"get\",le=\"0.001\"} 2\nx_wait_seconds_bucket{op=\"get\",le=\"0.5\"} 2\n"
                        "x_wait_seconds_bucket{op=\"get\",le=\"+Inf\"} 3\nx_wait_seconds_sum{op=\"get\"} 7.25\n"
                        "x_wait_seconds_count{op=\"get\"} 3\n"),
            "buckets add up");
}

void test_negotiation() {
    struct Case {
        std::string_view accept;
        Format format;
    };
    const Case cases[] = {
        {"", Format::prometheus},
        {"*/*", Format::prometheus},
        {"text/html,*/*;q=0.8", Format::prometheus},
        {"application/openmetrics-text", Format::openmetrics},
        {"application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", Format::openmetrics},
        {"text/plain;q=0.5, application/openmetrics-text;version=1.0.0;q=0.4", Format::prometheus},
        {"application/openmetrics-text;q=0", Format::prometheus},
        {",,;q=,application/openmetrics-text;q=nonsense", Format::prometheus},
    };
    for (const Case& one : cases)
        tap::ok(MetricsText::negotiate(one.accept) == one.format, std::string("Accept: ") + std::string(one.accept));
}

// -- Latencies ----------------------------------------------------------------------------------------------

class WatchedSlow final : public daemon::WatchLog {
  public:
    std::vector<std::string> lines;
    WatchedSlow() { wanted_ = daemon::watch_proxyreqs; }
    void item_get(std::string_view, std::string_view, uint8_t, int, uint32_t) override {}
    void item_store(std::string_view, std::string_view, std::string_view, int64_t, uint8_t, int, uint32_t) override {}
    void deleted(std::string_view, std::string_view, uint8_t, uint32_t) override {}
    void eviction(std::string_view, const protocol::ItemMeta&, int64_t, NodeSeconds) override {}
    void connection(std::string_view) override {}
    void slow(std::string_view line) override { lines.emplace_back(line); }
};

struct Measured {
    daemon::WorkerCounters counters;
    WatchedSlow watch;
    daemon::Latencies latencies;

    explicit Measured(uint64_t slow_ns = 0, bool embedded = true)
        : latencies({true, slow_ns}, counters, watch, /* worker= */ 3, embedded) {}
    daemon::LatencyTotals totals() const {
        daemon::LatencyTotals sum;
        sum.add(latencies.counters());
        return sum;
    }
    const daemon::LatencyTotals::One of(daemon::Way way, daemon::Verb verb) const {
        return totals().of[size_t(way)][size_t(verb)];
    }
};

void test_buckets() {
    daemon::LatencyHistogram one;
    const uint64_t edges[] = {0, 1, 1000, 1001, 2000, 2001, 4000, 4001, 8'388'608'000, 8'388'608'001, UINT64_MAX / 2};
    const size_t wanted[] = {0, 0, 0, 1, 1, 2, 2, 3, 23, 24, 24};
    bool right = true;
    for (size_t i = 0; i < std::size(edges); i++) {
        const uint64_t before = one.counts[wanted[i]].get();
        one.add(edges[i], 1);
        right = right && one.counts[wanted[i]].get() == before + 1;
    }
    tap::ok(right, "a latency is counted up to the bound that it does not exceed");
    daemon::LatencyTotals::One sum;
    tap::is(sum.quantile_us(0.5), 0u, "nothing has no median");
    sum.counts[5] = 100;  // above 16 us, up to 32
    tap::ok(sum.quantile_us(0.5) == 24 && sum.quantile_us(1) == 32, "within a bucket it is interpolated");
    sum.counts[24] = 100;
    tap::is(sum.quantile_us(0.99), uint64_t(1) << 23, "above the last bound nothing more is known");
}

void test_at_once() {
    using daemon::Verb;
    using daemon::Way;
    Measured m;
    m.latencies.reading(100 * us);
    m.counters.get_cmds.add(5);
    m.latencies.at_once(Verb::set);
    m.latencies.reading(110 * us);
    tap::ok(m.of(Way::local, Verb::get).count() == 5 && m.of(Way::local, Verb::get).sum_ns == 50 * us,
            "what was executed between two readings took the time between");
    tap::is(m.of(Way::local, Verb::set).count(), 1u, "stores, too");
    m.latencies.reading(500 * us);
    m.latencies.end_tick();
    tap::is(m.totals().of[0][0].count(), 5u, "and nothing is counted twice, or without a request");
    m.counters.get_cmds.add(1);
    m.latencies.end_tick();
    tap::is(m.of(Way::local, Verb::get).count(), 6u, "a tick's end reads the clock for what waits");
    Measured behind(0, /* embedded= */ false);
    behind.latencies.reading(1 * us);
    behind.counters.get_cmds.add(5);
    behind.latencies.at_once(Verb::get);
    behind.latencies.reading(2 * us);
    tap::is(behind.of(Way::local, Verb::get).count(), 1u, "with nodes, gets that are asked of them are not over at once");
}

void test_later() {
    using daemon::Verb;
    using daemon::Way;
    Measured m(1000 * us, false);
    m.latencies.reading(5000 * us);
    m.latencies.answered({Verb::get, Way::one_sided, true, 4990 * us, 0, 0});
    m.latencies.answered({Verb::set, Way::two_sided, true, 4000 * us, 0, 0});
    m.latencies.answered({Verb::get, Way::two_sided, /* available= */ false, 4000 * us, 0, 0});
    m.latencies.answered({Verb::other, Way::two_sided, true, 4000 * us, 0, 0});
    tap::is(m.of(Way::one_sided, Verb::get).sum_ns, 10 * us, "from receipt to the reading before the reply");
    tap::is(m.of(Way::two_sided, Verb::set).count(), 1u, "by way and verb");
    tap::is(m.of(Way::two_sided, Verb::get).count(), 0u, "not a request without an answer");
    const daemon::Latencies::Later slow{Verb::get, Way::two_sided, true, 1000 * us, 1500 * us, 4500 * us};
    tap::ok(m.latencies.is_slow(slow) && !m.latencies.is_slow({Verb::get, Way::one_sided, true, 4990 * us, 0, 0}),
            "slow is what took so long");
    m.latencies.keep_slow(slow, 7, "n", "a b%\r\n");
    tap::is(m.watch.lines.at(0),
            std::string("took_us=4000 queue_us=500 answer_us=3000 reply_us=500 op=get path=two_sided node=n requests=1 "
                        "worker=3 cfd=7 key=a%20b%25%0D%0A"),
            "where its time went, on one line");
    for (size_t i = 0; i < 2 * daemon::Latencies::slow_kept; i++)
        m.latencies.keep_slow(slow, int(i), "n", "k");
    size_t kept = 0;
    int last = 0;
    m.latencies.each_slow([&](const daemon::SlowRequest& one) {
        kept++;
        last = one.fd;
    });
    tap::ok(kept == daemon::Latencies::slow_kept && last == int(2 * kept) - 1, "the latest are kept, and no more");
}

void test_slow_batch() {
    Measured m(100 * us);
    m.latencies.reading(1000 * us);
    m.latencies.begin_batch(4, "get first\r\nget second\r\n");
    m.counters.get_cmds.add(2);
    m.counters.requests.add(2);
    m.latencies.reading(1200 * us);
    tap::ok(m.watch.lines.size() == 1 && has(m.watch.lines[0], "took_us=200 ") && has(m.watch.lines[0], " requests=2 ") &&
                m.watch.lines[0].ends_with(" cfd=4 key=get%20first"),
            "a slow batch is one line, with how it begins");
    m.latencies.begin_batch(4, "get third\r\n");
    m.counters.requests.add(1);
    m.latencies.reading(1250 * us);
    tap::is(m.watch.lines.size(), 1u, "a fast one is none");
}

// -- All counters -------------------------------------------------------------------------------------------

// Gives each counter a different value, and expects each in the text.
class Values {
  public:
    uint64_t next() {
        if (++last_ % 10 == 0) last_++;  // seconds are printed without a zero at the end
        wanted_.push_back(last_);
        return last_;
    }
    void expect_in(const std::string& text, const char* name) const {
        std::string missing;
        for (uint64_t value : wanted_) {
            const std::string number = std::to_string(value);
            const std::string seconds = number.substr(0, 1) + "." + number.substr(1);  // of one that is counted in microseconds
            if (!has(text, " " + number + "\n") && !has(text, " " + seconds + "\n")) missing += " " + std::to_string(value - first);
        }
        tap::is(missing, std::string(), name);
    }

  private:
    static constexpr uint64_t first = 7'000'000;
    uint64_t last_ = first;
    std::vector<uint64_t> wanted_;
};

void fill_link(proxy::LinkCounters& link, Values& values) {
    for (const auto& row : proxy::LinkCells<Counter>::rows()) row.of(link).set(values.next());
    for (const auto& row : fabric::ChannelCounters::rows()) row.of(link.channel).set(values.next());
    for (size_t i = 1; i < link.lease_denied_by.size(); i++) link.lease_denied_by[i].set(values.next());
    for (Counter& counter : link.downs) counter.set(values.next());
    for (Counter& counter : link.channel_ends) counter.set(values.next());
    for (Counter& counter : link.frame_errors) counter.set(values.next());
}

void fill_local(proxy::LocalGetCounters& local, Values& values) {
    for (const auto& row : proxy::LocalGetCounters::rows()) row.of(local).set(values.next());
}

std::string metrics_of(fixture::Rig& rig, const std::vector<daemon::NodeNumbers>& told) {
    const daemon::Sample sample = daemon::take_sample(&rig.embedded, rig.server, rig.watch);
    const daemon::MetricsSource source{sample, rig.server.behind, told, "1.2.3"};
    const std::string status = daemon::status_json(source, {"farcached", "", "1.2.3", 11211}, "");
    tap::ok(status.starts_with("{\"program\":\"farcached\",\"name\":\"\",\"version\":\"1.2.3\",\"host\":\"") &&
                has(status, "\"port\":11211,\"pid\":") && has(status, "\"ready\":true"),
            "the page's numbers");
    tap::ok(!has(status, "\"discovery\""), "without a source of the list of nodes");
    daemon::MetricsSource down = source;
    down.discovery = daemon::SourceState{.source = "dns+nodes.test:1", .last_error = "no answer", .answer_age_s = 7};
    tap::ok(has(daemon::status_json(down, {"farcached", "", "1.2.3", 11211}, ""),
                R"("discovery":{"source":"dns+nodes.test:1","up":false,"answer_age_s":7,"last_error":"no answer"})"),
            "and with one that is down");
    MetricsText text("farcached_");
    daemon::write_metrics(text, source);
    return text.text(Format::prometheus);
}

void test_embedded_counters() {
    fixture::Rig rig;
    Values values;
    daemon::WorkerCounters& worker = rig.server.workers[0];
    for (const auto& row : daemon::WorkerCounters::rows()) row.of(worker).set(values.next());
    for (const auto& row : daemon::ClassCounters::rows()) row.of(worker.classes[1]).set(values.next());
    fill_local(rig.server.locals[0], values);
    rig.server.fixed.total_connections = values.next();
    rig.server.fixed.rejected_connections = values.next();
    rig.server.fixed.listen_disabled_num = values.next();
    rig.server.fixed.curr_connections = values.next();
    rig.server.fixed.connection_structures = values.next();
    rig.server.fixed.response_count = values.next();
    rig.server.fixed.read_buf_count = values.next();
    rig.server.fixed.reserved_fds = values.next();
    rig.server.client_quit = values.next();
    rig.store("key", "value");
    const std::string text = metrics_of(rig, {});
    values.expect_in(text, "every counter of an embedded node's farcached is there");
    for (const char* part : {"farcached_node_items{node=\"embedded\"} 1\n", "\nprocess_open_fds ",
                             "\nprocess_resident_memory_bytes ", "# TYPE process_cpu_seconds_total counter\n",
                             "farcached_build_info{version=\"1.2.3\"} 1\n",
                             "farcached_connections_closed_total{reason=\"client_quit\"}",
                             "farcached_class_pages{node=\"embedded\",class=\""})
        tap::ok(has(text, part), part);
}

void test_nodes_counters() {
    fixture::Rig rig;
    fixture::FakeNodes nodes;
    nodes.add("a", 1);
    nodes.add("b\"c", 2);
    nodes.nodes[1].shown.links_shm = 1;
    rig.server.behind = &nodes;
    Values values;
    fill_link(nodes.nodes[0].links[0], values);
    fill_link(nodes.nodes[1].links[1], values);
    fill_local(nodes.nodes[0].locals[0], values);
    fixture::Teller teller("a", fixture::Teller::config());
    teller.store("key", "value");
    const std::string told = teller.tells("all") + "b\"c -\n";
    const std::vector<daemon::NodeNumbers> numbers = daemon::read_numbers(told);
    const std::string text = metrics_of(rig, numbers);
    values.expect_in(text, "every counter of connections to nodes is there");
    for (const char* part : {"farcached_node_items{node=\"a\"} 1\n", "farcached_node_told{node=\"a\"} 1\n",
                             "farcached_node_told{node=\"b\\\"c\"} 0\n", "farcached_node_links_shm{node=\"b\\\"c\"} 1\n",
                             "farcached_node_lease_denied_total{node=\"a\",reason=\"young\"}",
                             "farcached_reads_invalid_total{node=\"a\",reason=\"crc\"}",
                             "farcached_gets_not_one_sided_total{node=\"a\",reason=\"grown\"}",
                             "farcached_link_lease_denied_total{node=\"a\",reason=\"sparse\"}",
                             "farcached_request_duration_seconds_count{op=\"get\",path=\"index\"} 0\n"})
        tap::ok(has(text, part), part);
    tap::ok(!has(text, "op=\"set\",path=\"one_sided\""), "no store is one-sided");
    tap::ok(!has(text, "farcached_node_links_shm{node=\"a\"}"), "a node without a socket here has no connections over it");
    MetricsText own("farnode_");
    teller.stats.append_metrics(100, own);
    const std::string farnode = own.text(Format::openmetrics);
    for (const char* part : {"farnode_items 1\n", "farnode_info{node=\"a\",policy=\"",
                             "farnode_lease_denied_total{reason=\"young\"} 0\n",
                             "farnode_connections_ended_total{reason=\"bad_frame\"} 0\n", "farnode_class_slots{class=\""})
        tap::ok(has(farnode, part), part);
}

}  // namespace

int main() {
    test_formats();
    test_negotiation();
    test_buckets();
    test_at_once();
    test_later();
    test_slow_batch();
    test_embedded_counters();
    test_nodes_counters();
    return tap::done();
}
