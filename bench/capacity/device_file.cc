// SPDX-License-Identifier: BSD-3-Clause
#include "bench/capacity/device_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace farcached::bench {

namespace {

constexpr DeviceFigureRow rows[] = {
#define X(key, least, help) {#key, least, help},
    DEVICE_FIGURES(X)
#undef X
};
constexpr std::string_view words_of_figure[] = {"value", "source", "assumed", "low", "high"};

// "cx5.toml:3:8: "
std::string place(const std::string& name, const toml::node& node) {
    return name + ":" + std::to_string(node.source().begin.line) + ":" + std::to_string(node.source().begin.column) + ": ";
}

std::optional<double> number_at(const toml::table& section, std::string_view word) {
    const std::optional<double> number = section[word].value<double>();
    return number.has_value() && std::isfinite(*number) ? number : std::nullopt;
}

// Returns what is wrong, or an empty string.
std::string read_figure(const toml::table& section, const DeviceFigureRow& row, SourcedFigure& figure) {
    for (const auto& [key, value] : section)
        if (std::find(std::begin(words_of_figure), std::end(words_of_figure), key.str()) == std::end(words_of_figure))
            return "unknown key " + std::string(key.str()) + "; known are value, source, assumed, low and high";
    const std::optional<double> value = number_at(section, "value");
    if (!value.has_value()) return "no number as value";
    figure.value = figure.low = figure.high = *value;
    figure.source = section["source"].value_or(std::string());
    if (figure.source.empty()) return "no source; give where the figure is from, or why it is assumed";
    figure.assumed = section["assumed"].value_or(false);
    if (figure.assumed) {
        const std::optional<double> low = number_at(section, "low"), high = number_at(section, "high");
        if (!low.has_value() || !high.has_value()) return "an assumed figure needs low and high";
        figure.low = *low;
        figure.high = *high;
    } else if (section.contains("low") || section.contains("high")) {
        return "low and high are only for assumed = true";
    }
    if (figure.low > figure.value || figure.value > figure.high) return "the value is not between low and high";
    return figure.low < row.least ? "too small" : std::string();
}

}  // namespace

std::span<const DeviceFigureRow> device_figure_rows() { return rows; }

std::string read_device_file(const std::string& name, std::string_view text, DeviceFile& device) {
    toml::table file;
    try {
        file = toml::parse(text, name);
    } catch (const toml::parse_error& error) {
        return name + ":" + std::to_string(error.source().begin.line) + ":" + std::to_string(error.source().begin.column) +
               ": " + std::string(error.description());
    }
    device.name = name;
    device.title = file["title"].value_or(name);
    for (const auto& [key, value] : file) {
        if (key.str() == "title") continue;
        const std::string_view named = key.str();  // clang 14 captures no structured binding
        const auto row = std::find_if(std::begin(rows), std::end(rows), [&](const auto& one) { return named == one.key; });
        if (row == std::end(rows)) return place(name, value) + "unknown key " + std::string(key.str());
        if (!value.is_table()) return place(name, value) + std::string(key.str()) + " is no table with value and source";
        const std::string wrong = read_figure(*value.as_table(), *row, device.figures[size_t(row - rows)]);
        if (!wrong.empty()) return place(name, value) + std::string(key.str()) + ": " + wrong;
    }
    for (const DeviceFigureRow& row : rows)
        if (!file.contains(row.key))
            return name + ": no table [" + row.key + "]; farbench capacity --print-device cx5 prints an example";
    return {};
}

}  // namespace farcached::bench
