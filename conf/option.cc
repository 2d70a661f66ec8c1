// SPDX-License-Identifier: BSD-3-Clause
#include "conf/option.h"

#include <algorithm>
#include <charconv>
#include <span>

#include "base/check.h"
#include "base/nearest.h"
#include "conf/kinds.h"

namespace farcached::conf {

std::string spelled(const Option& option) {
    if (option.where == Where::suboption) return "-o " + std::string(option.name);
    if (option.flag == 0) return "--" + std::string(option.name);
    std::string text{'-', option.flag};
    return option.name.empty() ? text : text + ", --" + std::string(option.name);
}

std::string_view key_of(const Option& option) { return option.key.empty() ? option.name : option.key; }

std::string file_spelling(std::string_view key) {
    std::string spelled(key);
    std::replace(spelled.begin(), spelled.end(), '-', '_');
    return spelled;
}

bool is_key(const Option& option) {
    return option.in_file && option.where != Where::stat && option.kind.value != Value::none && !key_of(option).empty();
}

std::string written(const Option& option, const Settings& settings) {
    Show* write = option.kind.write != nullptr ? option.kind.write : option.kind.show;
    CHECK(write != nullptr);
    return write(option, settings);
}

bool is_live(const Option& option) { return option.live || option.section == Section::compat; }

void copy_value(const Option& option, const Settings& from, Settings& to) {
    CHECK(is_live(option));
    if (option.section == Section::compat) {
        to.compat = from.compat;
        return;
    }
    CHECK(option.kind.copy != nullptr);
    option.kind.copy(from, to);
}

namespace {

std::string bounds(const Option& option) { return fixed(option.kind.min, 0) + " to " + fixed(option.kind.max, 0); }

// For a number: "number from 1 to 9".
std::string range(const Option& option) {
    return (option.kind.power_of_two ? "power of two from " : "number from ") + bounds(option);
}

}  // namespace

std::string allowed_text(const Option& option) {
    if (!option.allowed.empty()) return std::string(option.allowed);
    if (!option.kind.choices.empty()) return "one of " + listed(option.kind.choices);
    if (option.kind.value == Value::boolean) return "true or false";
    if (option.kind.value == Value::integer) {
        const Unit unit = option.kind.unit;
        if (unit == Unit::none) return "a " + range(option);
        return "a " + range(option) + " (" + std::string(name_of(unit)) + "), or one with its unit as a text, like \"" +
               std::string(example_of(unit)) + "\" (" + std::string(words_of(unit)) + ")";
    }
    if (option.kind.value == Value::real) return "a " + range(option) + ", without the ends";
    return "text";
}

namespace {

bool is_out_of_range(NumberFault fault) { return fault == NumberFault::too_small || fault == NumberFault::too_large; }

NumberFault fault_of(const Option& option, std::string_view value) {
    const Value type = option.kind.value;
    if (type != Value::integer && type != Value::size) return NumberFault::none;
    return read_number(option, std::string(value)).fault;
}

}  // namespace

std::string complaint(const Option& option, std::string_view value) {
    constexpr size_t value_bytes_max = 64;
    if (!option.kind.choices.empty()) return unknown_word("word", value, option.kind.choices);
    std::string found = "'" + std::string(value.substr(0, value_bytes_max)) + "'";
    if (option.allowed.empty()) {
        if (!is_out_of_range(fault_of(option, value))) return found + " is not a " + range(option);
        const std::string_view unit = name_of(option.kind.unit);
        return found + " is out of range: " + bounds(option) + (unit.empty() ? "" : " ") + std::string(unit);
    }
    return "found " + found + "; allowed: " + std::string(option.allowed);
}

Problem refuse(const Option& option, std::string_view value) {
    if (option.refuses_low && fault_of(option, value) == NumberFault::too_large)
        return {option.exit_status, spelled(option) + ": " + complaint(option, value) + "\n"};
    if (option.refusal.empty() || (option.refuses_range && fault_of(option, value) == NumberFault::no_number)) {
        return {option.exit_status, "could not parse argument to " + std::string(option.name) + ": " +
                                        complaint(option, value) + "\n"};
    }
    std::string text(option.refusal);
    if (size_t at = text.find("{}"); at != std::string::npos) text.replace(at, 2, value);
    return {option.exit_status, std::move(text)};
}

// ---- `stats settings` ---------------------------------------------------------------------------------------
namespace {

void nodes_stats(const Settings& settings,
                 FunctionRef<void(std::string_view name, std::string_view value)> visit) {
    std::string names;
    for (const NodeSpec& node : settings.proxy.nodes) names += (names.empty() ? "" : ",") + node.name;
    visit("nodes", names);
    for (const Option& option : proxy_option_table()) {
        if (!option.in_file || option.kind.show == nullptr) continue;
        std::string value = option.kind.show(option, settings);
        if (value.empty()) value = "NULL";
        visit(option.name, value);
        if (!option.old_name.empty()) visit(option.old_name, value);
    }
}

}  // namespace

void settings_stats(const Settings& settings,
                    FunctionRef<void(std::string_view name, std::string_view value)> visit) {
    for (const Option& option : option_table()) {
        if (option.stat.empty()) continue;
        Show* show = option.stat_show != nullptr ? option.stat_show : option.kind.show;
        CHECK(show != nullptr);
        visit(option.stat, show(option, settings));
    }
    if (settings.proxy.has_nodes()) nodes_stats(settings, visit);
}

// ---- units --------------------------------------------------------------------------------------------------
namespace {

struct Word {
    std::string_view word;
    int64_t factor;
};

// Smallest first; factors count the first word of each kind.
constexpr Word sizes[] = {{"B", 1},
                          {"KB", INT64_C(1) << 10},
                          {"MB", INT64_C(1) << 20},
                          {"GB", INT64_C(1) << 30},
                          {"TB", INT64_C(1) << 40}};
constexpr Word durations[] = {{"us", 1},           {"ms", 1000},
                              {"s", 1'000'000},    {"m", 60'000'000},
                              {"min", 60'000'000}, {"h", INT64_C(3'600'000'000)},
                              {"d", INT64_C(86'400'000'000)}};

struct UnitRow {
    std::string_view name;
    std::span<const Word> words;
    std::string_view listed, example;
    int64_t factor;
};

constexpr std::string_view size_words = "B, KB, MB, GB, TB";
constexpr std::string_view duration_words = "us, ms, s, m, h, d";

constexpr UnitRow rows[] = {
    {"", {}, "", "", 1},
    {"bytes", sizes, size_words, "1MB", 1},
    {"kilobytes", sizes, size_words, "256KB", INT64_C(1) << 10},
    {"megabytes", sizes, size_words, "64MB", INT64_C(1) << 20},
    {"microseconds", durations, duration_words, "100us", 1},
    {"milliseconds", durations, duration_words, "10s", 1000},
    {"seconds", durations, duration_words, "10s", 1'000'000},
};
static_assert(std::size(rows) == size_t(Unit::seconds) + 1);

const UnitRow& row_of(Unit unit) { return rows[size_t(unit)]; }

}  // namespace

std::string_view name_of(Unit unit) { return row_of(unit).name; }
std::string_view words_of(Unit unit) { return row_of(unit).listed; }
std::string_view example_of(Unit unit) { return row_of(unit).example; }

namespace {

char upper(char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; }

bool is_word(std::span<const Word> words, std::string_view known, std::string_view given) {
    if (words.data() != sizes) return known == given;
    const std::string_view letter = known.substr(0, 1);
    const auto same = [](char a, char b) { return a == upper(b); };
    return std::equal(known.begin(), known.end(), given.begin(), given.end(), same) ||
           std::equal(letter.begin(), letter.end(), given.begin(), given.end(), same);
}

}  // namespace

Measured measure(int64_t number, std::string_view word, Unit unit) {
    for (const Word& known : row_of(unit).words) {
        if (!is_word(row_of(unit).words, known.word, word)) continue;
        Measured found{.known = true};
        int64_t smallest = 0;
        if (__builtin_mul_overflow(number, known.factor, &smallest)) return found;
        found.fits = true;
        found.whole = smallest % row_of(unit).factor == 0;
        found.value = smallest / row_of(unit).factor;
        return found;
    }
    return {};
}

std::string with_unit(int64_t number, Unit unit) {
    const UnitRow& row = row_of(unit);
    int64_t smallest = 0;
    if (row.words.empty() || number <= 0 || __builtin_mul_overflow(number, row.factor, &smallest))
        return std::to_string(number);
    const Word* best = &row.words.front();
    for (const Word& word : row.words.first(row.words.data() == durations ? 3 : row.words.size()))
        if (smallest % word.factor == 0) best = &word;
    return std::to_string(smallest / best->factor) + std::string(best->word);
}

namespace {

// Removes a number from the front. False: no number, or it is too large.
bool take_number(std::string_view& text, uint32_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number > cpu_number_max) return false;
    text.remove_prefix(size_t(end - text.data()));
    return true;
}

}  // namespace

std::vector<uint32_t> cpus_of(std::string_view list) {
    std::vector<uint32_t> cpus;
    while (true) {
        uint32_t first = 0;
        if (!take_number(list, first)) return {};
        uint32_t last = first;
        if (list.starts_with('-')) {
            list.remove_prefix(1);
            if (!take_number(list, last) || last < first) return {};
        }
        for (uint32_t cpu = first; cpu <= last; cpu++) cpus.push_back(cpu);
        if (list.empty()) return cpus;
        if (list.front() != ',') return {};
        list.remove_prefix(1);
    }
}

}  // namespace farcached::conf
