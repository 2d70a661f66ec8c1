// SPDX-License-Identifier: BSD-3-Clause
#include "conf/units.h"

#include <charconv>
#include <span>

namespace farcached::conf {

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
constexpr Word durations[] = {
    {"us", 1}, {"ms", 1000}, {"s", 1'000'000}, {"min", 60'000'000}, {"h", INT64_C(3'600'000'000)}};

struct UnitRow {
    std::string_view name;
    std::span<const Word> words;
    std::string_view listed, example;
    int64_t factor;
};

constexpr std::string_view size_words = "B, KB, MB, GB, TB";
constexpr std::string_view duration_words = "us, ms, s, min, h";

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

Measured measure(int64_t number, std::string_view word, Unit unit) {
    for (const Word& known : row_of(unit).words) {
        if (known.word != word) continue;
        Measured found{.known = true};
        int64_t smallest = 0;
        if (__builtin_mul_overflow(number, known.factor, &smallest)) return found;
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
