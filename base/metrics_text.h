// SPDX-License-Identifier: BSD-3-Clause
// MetricsText: numbers in the text formats that Prometheus scrapes: its own (version 0.0.4) and OpenMetrics 1.0.
//
// A family is a name with a help text and one kind; its samples differ by labels. Both formats require that each family is
// printed with all of its samples; families keep the order of their first calls.
//
// Owner: the caller, for one page. One thread.
// T1  Callers pass names without the program's prefix and without `_total`. The first call for a family sets its help text.
// T2  stat() takes a statistic's own name and converts it to Prometheus' conventions: base units, also in the help text, and the
//     unit last.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/stat_row.h"

namespace farcached {

class MetricsText {
  public:
    enum class Kind : uint8_t { counter, gauge, histogram };
    enum class Format : uint8_t { prometheus, openmetrics };
    static constexpr Kind kind_of(StatKind kind) { return kind == StatKind::counter ? Kind::counter : Kind::gauge; }
    using Label = std::pair<std::string_view, std::string_view>;
    using Labels = std::vector<Label>;  // names are valid; values are any text

    // "farcached_"
    explicit MetricsText(std::string prefix) : prefix_(std::move(prefix)) {}
    // For the families that follow; returns the last one.
    std::string use_prefix(std::string prefix) { return std::exchange(prefix_, std::move(prefix)); }

    void number(Kind kind, std::string_view name, std::string_view help, uint64_t value, const Labels& labels = {});
    void real(Kind kind, std::string_view name, std::string_view help, double value, const Labels& labels = {});
    void stat(Kind kind, std::string_view stat, std::string_view help, uint64_t value, const Labels& labels = {});
    // Statistics whose names begin alike form one family, with the rest of the name as a label.
    struct Group {
        std::string_view prefix, family, label, help;
    };
    // A statistic by its group, or else by its own name behind `front`, and by its old one.
    void grouped(std::span<const Group> groups, Kind kind, std::string_view stat, std::string_view help, uint64_t value,
                 const Labels& labels = {}, std::string_view front = {});
    // counts[i]: of values up to bounds[i] and above the previous bound; the last is of values above all bounds.
    void histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                   std::span<const uint64_t> counts, double sum, const Labels& labels);

    // A statistic's name by the conventions, with its unit unchanged.
    static std::string_view conventional(std::string_view stat);

    std::string text(Format format) const;

    // The format that a request's Accept header prefers; by default Prometheus' own.
    static Format negotiate(std::string_view accept);
    static std::string_view content_type(Format format);

  private:
    struct Family {
        std::string name, help;
        Kind kind;
        std::string samples;
    };
    Family& family(Kind kind, std::string_view name, std::string_view help);
    void sample(Family& family, std::string_view suffix, const Labels& labels, std::string_view value);

    std::string prefix_;
    std::vector<Family> families_;
    std::map<std::string, size_t> by_name_;  // with its prefix
};

}  // namespace farcached
