// SPDX-License-Identifier: BSD-3-Clause
#include "conf/permissions.h"

#include <algorithm>

#include "base/nearest.h"

namespace farcached::conf {

namespace {

bool is_unprintable(char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }

std::string wrong_identity(std::string_view identity) {
    if (identity.empty()) return "an identity is empty";
    if (identity.size() > identity_bytes_max)
        return "an identity is longer than " + std::to_string(identity_bytes_max) + " bytes";
    return std::any_of(identity.begin(), identity.end(), is_unprintable) ? "an identity has a control character" : "";
}

}  // namespace

CommandClasses PermissionSettings::of(std::string_view identity) const {
    if (classes_of.empty()) return all_command_classes;
    auto at = classes_of.find(identity);
    if (at == classes_of.end()) at = classes_of.find(other_identities);
    return at == classes_of.end() ? no_command_classes : at->second;
}

std::string take_permission(std::string_view identity, std::string_view classes, PermissionSettings& to) {
    if (std::string wrong = wrong_identity(identity); !wrong.empty()) return wrong;
    if (to.classes_of.contains(identity)) return "given twice";
    CommandClasses taken = no_command_classes;
    while (!classes.empty()) {
        const std::string_view word = classes.substr(0, classes.find(','));
        classes.remove_prefix(std::min(word.size() + 1, classes.size()));
        const auto* const at = std::find(command_class_names.begin(), command_class_names.end(), word);
        constexpr size_t shown_bytes_max = 64;
        if (at == command_class_names.end()) return unknown_word("class", word.substr(0, shown_bytes_max), command_class_names);
        const CommandClasses bit = bit_of(CommandClass(at - command_class_names.begin()));
        if ((taken & bit) != 0) return "class '" + std::string(word) + "' given twice";
        taken |= bit;
    }
    to.classes_of.emplace(identity, taken);
    return {};
}

std::string listed_classes(CommandClasses classes) {
    std::string text;
    for (size_t i = 0; i < command_class_names.size(); i++)
        if ((classes & bit_of(CommandClass(i))) != 0) text += (text.empty() ? "" : ",") + std::string(command_class_names[i]);
    return text;
}

// An identity may have a =, a class has none.
Refusal set_permission(const Option& option, Settings& settings, const char* text, std::string&) {
    const std::string_view given = text;
    const size_t equals = given.rfind('=');
    if (equals == given.npos) return Problem{exit_usage, spelled(option) + " " + std::string(given) + ": no = behind the name\n"};
    const std::string wrong = take_permission(given.substr(0, equals), given.substr(equals + 1), settings.permissions);
    if (wrong.empty()) return {};
    return Problem{exit_usage, spelled(option) + " " + std::string(given.substr(0, equals)) + ": " + wrong + "\n"};
}

// In the syntax of --permissions, one per line.
std::string write_permissions(const Option&, const Settings& settings) {
    std::string lines;
    for (const auto& [identity, classes] : settings.permissions.classes_of)
        lines += identity + "=" + listed_classes(classes) + "\n";
    return lines;
}

}  // namespace farcached::conf
