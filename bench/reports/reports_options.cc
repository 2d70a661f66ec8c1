// SPDX-License-Identifier: BSD-3-Clause
#include "bench/reports/reports_options.h"

#include <algorithm>

#include "protocol/frame.h"

namespace farcached::bench {

namespace {

constexpr uint64_t reports_most = UINT64_C(1) << 32;
constexpr uint32_t report_bytes_least = sizeof(protocol::FrameHeader) + sizeof(protocol::AccessRecord);

using R = ReportsOptions;
using S = const std::string;

const char* to_text(std::string& to, S& text) {
    to = text;
    return text.empty() ? "is empty" : nullptr;
}

template <class One>
const char* keep(std::vector<One>& list, One one) {
    if (std::find(list.begin(), list.end(), one) != list.end()) return "has a word twice";
    list.push_back(one);
    return nullptr;
}

const char* to_ways(R& r, S& text) {
    r.ways.clear();
    return each_part(text, [&](std::string_view part) -> const char* {
        for (const ReportWay& way : report_ways)
            if (part == way.name) return keep(r.ways, &way);
        return "has a word other than tcp, shm-send, shm-write, verbs-send, verbs-write";
    });
}

const char* to_bytes(R& r, S& text) {
    r.bytes.clear();
    return each_part(text, [&](std::string_view part) {
        uint32_t one = 0;
        const char* wrong = to_number<uint32_t>(part, report_bytes_least, protocol::report_bytes_max, one);
        return wrong != nullptr ? wrong : keep(r.bytes, one);
    });
}

const char* to_start(R& r, S& text) {
    for (const Via via : {Via::shm, Via::tcp, Via::verbs}) {
        r.start.via = via;
        if (text == via_names[size_t(via)]) return nullptr;
    }
    return "is not one of shm, tcp, verbs";
}

const char* to_wait(R& r, S& text) {
    r.spin = text == "spin";
    return r.spin || text == "sleep" ? nullptr : "is not spin or sleep";
}

const OptionOf<R> table[] = {
    {{"spawn", "HOW", nullptr, "start a farnode for it: shm, tcp, or verbs (and tcp)"}, to_start},
    {{"verbs-address", "ADDR", nullptr, "with --spawn verbs: address of an RDMA device; default: the first one"},
     [](R& r, S& s) { return to_text(r.start.host, s); }},
    {{"farnode", "PATH", nullptr, "path of farnode; default: in farbench's folder, or on PATH"},
     [](R& r, S& s) { return to_text(r.start.program, s); }},
    {{"node-pid", "PID", nullptr, "process id of the node, for its CPU time"},
     [](R& r, S& s) { return to_number<int>(s, 1, 1 << 30, r.node_pid); }},
    {{"ways", "LIST", "tcp,shm-send,shm-write,verbs-send,verbs-write", "transports in this order: in frames, or in containers"},
     to_ways},
    {{"bytes", "LIST", "1024,2048,4096,8192", "lengths of reports"}, to_bytes},
    {{"reports", "N", "20000", "reports measured at each point, one after the other"},
     [](R& r, S& s) { return to_number<uint64_t>(s, 1, reports_most, r.reports); }},
    {{"warmup", "N", "1000", "reports before the measurement"},
     [](R& r, S& s) { return to_number<uint64_t>(s, 0, reports_most, r.warmup); }},
    {{"trials", "N", "3", "trials of each point"}, [](R& r, S& s) { return to_number<uint32_t>(s, 1, 1000, r.trials); }},
    {{"wait", "HOW", "sleep", "waiting for a reply: sleep in poll(), or spin"}, to_wait},
    {{"quick", nullptr, nullptr, "a short run: 500 reports, 50 before, one trial"},
     [](R& r, S&) -> const char* {
         r.reports = 500;
         r.warmup = 50;
         r.trials = 1;
         return nullptr;
     }},
    {{"csv", "FOLDER", nullptr, "folder for points.csv and a chart"}, [](R& r, S& s) { return to_text(r.csv_folder, s); }},
    {{"json", "FILE", nullptr, "also write the points as JSON"}, [](R& r, S& s) { return to_text(r.json_path, s); }},
    {{"chart-script", "FILE", nullptr, "path of reports_chart.py, if not installed"},
     [](R& r, S& s) { return to_text(r.chart_script, s); }},
};

}  // namespace

std::span<const OptionOf<ReportsOptions>> reports_options() { return table; }

std::string read_reports_options(std::span<char* const> arguments, ReportsOptions& options) {
    options.start.threads = 1;
    options.start.lease_ms = 4000;
    const std::string wrong = read_options(reports_options(), arguments, options, [&](const std::string& text) {
        return read_node_place(text, options.places.emplace_back());
    });
    if (!wrong.empty()) return wrong;
    if (options.start.via == Via::none && options.places.empty())
        return "no node given: use its addresses, as in tcp:10.0.0.1:11300 verbs:10.0.0.1:11301, or --spawn";
    if (options.start.via != Via::none && !options.places.empty()) return "either addresses or --spawn";
    return {};
}

}  // namespace farcached::bench
