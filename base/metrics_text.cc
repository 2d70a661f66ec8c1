// SPDX-License-Identifier: BSD-3-Clause
#include "base/metrics_text.h"

#include <charconv>
#include <cstdlib>
#include <iterator>

#include "base/check.h"

namespace farcached {

namespace {

// Statistics with memcached's names, or short ones, and their names as metrics.
struct Renamed {
    std::string_view stat, metric;
};
constexpr Renamed renamed[] = {
    {"bytes", "item_bytes"},
    {"bytes_read", "received_bytes"},
    {"bytes_requested", "requested_bytes"},
    {"bytes_written", "sent_bytes"},
    {"curr_items", "items"},
    {"hash_buckets", "index_buckets"},
    {"hash_bytes", "index_bytes"},
    {"limit_maxbytes", "memory_limit_bytes"},
    {"link_bytes_received", "link_received_bytes"},
    {"link_bytes_sent", "link_sent_bytes"},
    {"slots_total", "slots"},
    {"total_items", "items_stored"},
};

struct Unit {
    std::string_view suffix, word;
    double per_second;
};
constexpr Unit units[] = {{"_us", "microseconds", 1e6}, {"_ms", "milliseconds", 1e3}, {"_s", "seconds", 1}};

std::string in_seconds(std::string_view help, const Unit& unit) {
    std::string text(help);
    const size_t at = text.find(unit.word);
    if (at != text.npos) text.replace(at, unit.word.size(), "seconds");
    return text;
}

std::string real_text(double value) {
    char digits[32];
    const auto end = std::to_chars(digits, std::end(digits), value);
    return std::string(digits, end.ptr);
}

void append_escaped(std::string& out, std::string_view text, bool quotes) {
    for (char c : text) {
        if (c == '\n') {
            out += "\\n";
            continue;
        }
        if (c == '\\' || (quotes && c == '"')) out += '\\';
        out += c;
    }
}

std::string_view kind_name(MetricsText::Kind kind) {
    constexpr std::string_view names[] = {"counter", "gauge", "histogram"};
    return names[size_t(kind)];
}

std::string_view trimmed(std::string_view text) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    return text;
}

// The quality of one part of an Accept header, "text/plain;version=0.0.4;q=0.5".
double quality(std::string_view part) {
    const size_t at = part.find("q=");
    if (at == part.npos) return 1;
    return std::strtod(std::string(part.substr(at + 2)).c_str(), nullptr);
}

constexpr std::string_view openmetrics_type = "application/openmetrics-text";

}  // namespace

MetricsText::Family& MetricsText::family(Kind kind, std::string_view name, std::string_view help) {
    std::string full = prefix_ + std::string(name);
    const auto [at, is_new] = by_name_.emplace(full, families_.size());
    if (!is_new) {
        CHECK(families_[at->second].kind == kind);
        return families_[at->second];
    }
    return families_.emplace_back(Family{std::move(full), std::string(help), kind, ""});
}

void MetricsText::sample(Family& family, std::string_view suffix, const Labels& labels, std::string_view value) {
    std::string& out = family.samples;
    out.append(family.name).append(suffix);
    char before = '{';
    for (const auto& [name, text] : labels) {
        (out += before).append(name).append("=\"");
        append_escaped(out, text, /* quotes= */ true);
        out += '"';
        before = ',';
    }
    if (!labels.empty()) out += '}';
    out.append(" ").append(value).append("\n");
}

void MetricsText::number(Kind kind, std::string_view name, std::string_view help, uint64_t value,
                         const Labels& labels) {
    sample(family(kind, name, help), kind == Kind::counter ? "_total" : "", labels, std::to_string(value));
}

void MetricsText::real(Kind kind, std::string_view name, std::string_view help, double value, const Labels& labels) {
    sample(family(kind, name, help), kind == Kind::counter ? "_total" : "", labels, real_text(value));
}

std::string_view MetricsText::conventional(std::string_view stat) {
    for (const Renamed& one : renamed)
        if (one.stat == stat) return one.metric;
    return stat;
}

void MetricsText::stat(Kind kind, std::string_view stat, std::string_view help, uint64_t value,
                       const Labels& labels) {
    stat = conventional(stat);
    for (const Unit& unit : units) {
        if (!stat.ends_with(unit.suffix)) continue;
        const std::string name = std::string(stat.substr(0, stat.size() - unit.suffix.size())) + "_seconds";
        return real(kind, name, in_seconds(help, unit), double(value) / unit.per_second, labels);
    }
    number(kind, stat, help, value, labels);
}

void MetricsText::grouped(std::span<const Group> groups, Kind kind, std::string_view name, std::string_view help, uint64_t value,
                          const Labels& labels, std::string_view front) {
    for (const Group& group : groups) {
        if (!name.starts_with(group.prefix)) continue;
        Labels with = labels;
        with.emplace_back(group.label, name.substr(group.prefix.size()));
        return number(kind, group.family, group.help, value, with);
    }
    stat(kind, std::string(front).append(name), help, value, labels);
    const std::string_view old_name = old_name_of(name);
    if (!old_name.empty()) stat(kind, std::string(front).append(old_name), old_name_help(name), value, labels);
}

void MetricsText::histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                            std::span<const uint64_t> counts, double sum, const Labels& labels) {
    CHECK(counts.size() == bounds.size() + 1);
    Family& to = family(Kind::histogram, name, help);
    uint64_t within = 0;
    Labels with_bound = labels;
    with_bound.emplace_back("le", "");
    for (size_t i = 0; i < counts.size(); i++) {
        within += counts[i];
        const std::string bound = i < bounds.size() ? real_text(bounds[i]) : "+Inf";
        with_bound.back().second = bound;
        sample(to, "_bucket", with_bound, std::to_string(within));
    }
    sample(to, "_sum", labels, real_text(sum));
    sample(to, "_count", labels, std::to_string(within));
}

std::string MetricsText::text(Format format) const {
    const bool open = format == Format::openmetrics;
    std::string out;
    for (const Family& family : families_) {
        const bool total = family.kind == Kind::counter && !open;
        const std::string name = family.name + (total ? "_total" : "");
        out.append("# HELP ").append(name).append(" ");
        append_escaped(out, family.help, /* quotes= */ open);
        out.append("\n# TYPE ").append(name).append(" ").append(kind_name(family.kind)).append("\n");
        out.append(family.samples);
    }
    if (open) out += "# EOF\n";
    return out;
}

MetricsText::Format MetricsText::negotiate(std::string_view accept) {
    double open = 0, plain = 0;
    while (!accept.empty()) {
        const size_t end = accept.find(',');
        const std::string_view part = trimmed(accept.substr(0, end));
        if (part.starts_with(openmetrics_type)) open = quality(part);
        if (part.starts_with("text/plain")) plain = quality(part);
        accept.remove_prefix(end == accept.npos ? accept.size() : end + 1);
    }
    return open > 0 && open >= plain ? Format::openmetrics : Format::prometheus;
}

std::string_view MetricsText::content_type(Format format) {
    return format == Format::openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                         : "text/plain; version=0.0.4; charset=utf-8";
}

}  // namespace farcached
