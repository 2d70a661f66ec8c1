// SPDX-License-Identifier: BSD-3-Clause
#include "conf/config_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/nearest.h"
#include "conf/nodes.h"

namespace farcached::conf {

namespace {

constexpr size_t shown_bytes_max = 64;  // of a value repeated in a message

// "the text 'x'", "a table".
std::string found_text(const toml::node& value) {
    if (const auto* text = value.as_string()) {
        return "the text '" + text->get().substr(0, shown_bytes_max) + "'";
    }
    if (const auto* whole = value.as_integer()) return std::to_string(whole->get());
    if (const auto* logical = value.as_boolean()) return logical->get() ? "true" : "false";
    if (value.is_floating_point()) return "a number with a point";
    if (value.is_array()) return "an array";
    if (value.is_table()) return "a table";
    return "a date or time";
}

// The value as the command line would write it, if it is of that type.
std::optional<std::string> text_of(const toml::node& value, Value wanted) {
    if (const auto* text = value.as_string(); text != nullptr && wanted == Value::text) {
        // What follows a NUL would be lost.
        if (text->get().find('\0') != std::string::npos) return {};
        return text->get();
    }
    if (const auto* whole = value.as_integer(); whole != nullptr && wanted == Value::integer) {
        return std::to_string(whole->get());
    }
    if (const auto* logical = value.as_boolean(); logical != nullptr && wanted == Value::boolean) {
        return logical->get() ? "yes" : "no";
    }
    return {};
}

// TOML's writers are used to lease_ms, the command line's to lease-ms: in a file they are one name.
bool same_name(std::string_view option, std::string_view key) {
    auto same = [](char a, char b) { return a == b || (a == '-' && b == '_') || (a == '_' && b == '-'); };
    return std::equal(option.begin(), option.end(), key.begin(), key.end(), same);
}

class Reader {
  public:
    Reader(const std::string& name, std::span<const Option> table, Settings& settings)
        : name_(name), table_(table), settings_(settings) {}

    void read(std::string_view text);
    std::vector<std::string> errors();

  private:
    struct Error {
        toml::source_position at;
        std::string text;
    };

    // What the file said is repeated without what would break the line.
    void complain(const toml::source_region& at, std::string text) {
        for (char& c : text) {
            if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
        }
        errors_.push_back({at.begin, std::move(text)});
    }
    void complain_of(const toml::node& value, const std::string& key, const std::string& allowed) {
        complain(value.source(), key + ": found " + found_text(value) + "; allowed: " + allowed);
    }
    std::string origin(const toml::source_position& at) const {
        return name_ + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
    }

    std::vector<std::string_view> names_under(const std::string& prefix) const;
    void read_table(const toml::table& table, const std::string& prefix);
    void read_entry(const toml::key& key, const toml::node& value, const std::string& prefix);
    void read_value(const Option& option, const toml::node& value);
    void read_nodes(const std::string& key, const toml::node& value);
    void read_node(const std::string& key, const toml::table& table);

    const std::string& name_;
    std::span<const Option> table_;
    Settings& settings_;
    std::vector<const Option*> read_;  // what the file has said so far
    std::vector<Error> errors_;
};

// What may stand in the table of that prefix: of "pointer_table." path and entries.
std::vector<std::string_view> Reader::names_under(const std::string& prefix) const {
    std::vector<std::string_view> names;
    for (const Option& option : table_) {
        if (!option.in_file || !option.name.starts_with(prefix)) continue;
        std::string_view rest = option.name.substr(prefix.size());
        std::string_view name = rest.substr(0, rest.find('.'));
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    return names;
}

void Reader::read_table(const toml::table& table, const std::string& prefix) {
    for (auto&& [key, value] : table) read_entry(key, value, prefix);
}

void Reader::read_entry(const toml::key& key, const toml::node& value, const std::string& prefix) {
    const std::string name = prefix + std::string(key.str());
    for (const Option& option : table_) {
        if (!option.in_file || !same_name(option.name, name)) continue;
        if (std::find(read_.begin(), read_.end(), &option) != read_.end())
            return complain(key.source(), name + ": is there twice");
        read_.push_back(&option);
        option.kind.value == Value::tables ? read_nodes(name, value) : read_value(option, value);
        return;
    }
    const std::string inner = name + ".";
    if (std::vector<std::string_view> names = names_under(inner); !names.empty()) {
        if (const toml::table* table = value.as_table()) return read_table(*table, inner);
        return complain_of(value, name, "a table of " + listed(names));
    }
    std::string where = prefix.empty() ? "key" : "key of " + prefix.substr(0, prefix.size() - 1);
    complain(key.source(), unknown_word(where, key.str(), names_under(prefix)));
}

void Reader::read_value(const Option& option, const toml::node& value) {
    const std::string name(option.name);
    std::optional<std::string> text = text_of(value, option.kind.value);
    if (!text) return complain_of(value, name, allowed_text(option));
    std::string warnings;
    if (!option.kind.set(option, settings_, text->c_str(), warnings)) return;
    complain(value.source(), name + ": " + complaint(option, *text));
}

void Reader::read_nodes(const std::string& key, const toml::node& value) {
    const toml::array* tables = value.as_array();
    const std::string allowed = "a table [[" + key + "]] for each";
    if (tables == nullptr) return complain_of(value, key, allowed);
    for (const toml::node& one : *tables) {
        if (const toml::table* table = one.as_table()) {
            read_node(key, *table);
        } else {
            complain_of(one, key, allowed);
        }
    }
}

void Reader::read_node(const std::string& key, const toml::table& table) {
    NodeSpec spec;
    spec.origin = origin(table.source().begin);
    const size_t errors_before = errors_.size();
    const std::vector<std::string_view> names = node_key_names();
    for (auto&& [name, value] : table) {
        if (std::find(names.begin(), names.end(), name.str()) == names.end()) {
            complain(name.source(), unknown_word("key of " + key, name.str(), names));
        }
    }
    for (const NodeKey& one : node_keys()) {
        const std::string full = key + "." + std::string(one.name);
        const toml::node* value = table.get(one.name);
        if (value == nullptr) {
            if (!one.required) continue;
            complain(table.source(), full + ": missing; allowed: " + std::string(one.allowed));
            continue;
        }
        std::optional<std::string> text = text_of(*value, one.value);
        if (!text) {
            complain_of(*value, full, std::string(one.allowed));
            continue;
        }
        Complaints complaints;
        take_node_key(one, *text, spec, complaints);
        for (const std::string& complaint : complaints) complain(value->source(), key + "." + complaint);
    }
    if (errors_.size() == errors_before) settings_.proxy.nodes.push_back(std::move(spec));
}

void Reader::read(std::string_view text) {
    try {
        const toml::table table = toml::parse(text);
        read_table(table, "");
    } catch (const toml::parse_error& error) {
        complain(error.source(), "this is no TOML: " + std::string(error.description()));
    }
}

std::vector<std::string> Reader::errors() {
    std::stable_sort(errors_.begin(), errors_.end(), [](const Error& a, const Error& b) {
        return a.at.line != b.at.line ? a.at.line < b.at.line : a.at.column < b.at.column;
    });
    std::vector<std::string> lines;
    for (const Error& error : errors_) lines.push_back(origin(error.at) + ": " + error.text);
    return lines;
}

struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

std::vector<std::string> read_config_text(std::string_view text, const std::string& name,
                                          std::span<const Option> table, Settings& settings) {
    Reader reader(name, table, settings);
    reader.read(text);
    std::vector<std::string> lines = reader.errors();
    for (std::string& complaint : check_nodes(settings.proxy)) lines.push_back(std::move(complaint));
    return lines;
}

std::vector<std::string> read_config_file(const std::string& path, std::span<const Option> table,
                                          Settings& settings) {
    std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "re"));
    if (file == nullptr) return {path + ": cannot be opened: " + std::strerror(errno)};
    std::string text(config_bytes_max + 1, '\0');
    errno = 0;
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    if (std::ferror(file.get()) != 0) return {path + ": cannot be read: " + std::strerror(errno)};
    if (text.size() > config_bytes_max) {
        return {path + ": is longer than " + std::to_string(config_bytes_max) + " bytes"};
    }
    return read_config_text(text, path, table, settings);
}

}  // namespace farcached::conf
