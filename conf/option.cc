// SPDX-License-Identifier: BSD-3-Clause
#include "conf/option.h"

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

// For a number: "number from 1 to 9".
std::string range(const Option& option) {
    std::string what = option.kind.power_of_two ? "power of two" : "number";
    return what + " from " + fixed(option.kind.min, 0) + " to " + fixed(option.kind.max, 0);
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

std::string complaint(const Option& option, std::string_view value) {
    constexpr size_t value_bytes_max = 64;
    if (!option.kind.choices.empty()) return unknown_word("word", value, option.kind.choices);
    std::string found = "'" + std::string(value.substr(0, value_bytes_max)) + "'";
    if (option.allowed.empty()) return found + " is not a " + range(option);
    return "found " + found + "; allowed: " + std::string(option.allowed);
}

Problem refuse(const Option& option, std::string_view value) {
    if (option.refusal.empty()) {
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
    if (!settings.proxy.nodes.empty()) nodes_stats(settings, visit);
}

}  // namespace farcached::conf
