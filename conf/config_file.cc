// SPDX-License-Identifier: BSD-3-Clause
#include "conf/config_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "base/nearest.h"
#include "conf/addresses.h"
#include "conf/kinds.h"
#include "conf/permissions.h"

namespace farcached::conf {

namespace {

constexpr size_t shown_bytes_max = 64;  // of a value quoted in a message

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

// Whether a number has a unit.
bool has_unit(std::string_view text) { return !text.empty() && (text.back() < '0' || text.back() > '9'); }

// A text with a NUL is refused: the rest would be lost.
std::optional<std::string> whole_text(const toml::node& value) {
    const auto* text = value.as_string();
    if (text == nullptr || text->get().find('\0') != std::string::npos) return {};
    return text->get();
}

// "a,b" for ["a", "b"]; elements with a comma are refused.
std::optional<std::string> joined_text(const toml::array& array) {
    std::string all;
    for (const toml::node& one : array) {
        const std::optional<std::string> text = whole_text(one);
        if (!text || text->empty() || text->find(',') != std::string::npos) return {};
        all += (all.empty() ? "" : ",") + *text;
    }
    return all;
}

// The value in command-line syntax, if it has the right type.
std::optional<std::string> text_of(const toml::node& value, const Kind& kind) {
    const Value wanted = kind.value;
    if (const auto* array = value.as_array(); array != nullptr && kind.several) return joined_text(*array);
    if (std::optional<std::string> text = whole_text(value)) {
        if (wanted == Value::text || wanted == Value::size) return text;
        if (wanted == Value::integer && kind.unit != Unit::none && has_unit(*text)) return text;
        return {};
    }
    if (const auto* whole = value.as_integer(); whole != nullptr) {
        const bool fits = wanted == Value::integer || wanted == Value::size || wanted == Value::real;
        if (fits) return std::to_string(whole->get());
    }
    if (const auto* real = value.as_floating_point(); real != nullptr && wanted == Value::real) {
        return shortest(real->get());
    }
    if (const auto* logical = value.as_boolean(); logical != nullptr && wanted == Value::boolean) {
        return logical->get() ? "yes" : "no";
    }
    return {};
}

// TOML files usually spell lease_ms, the command line lease-ms: in a file both are accepted.
bool same_name(std::string_view option, std::string_view key) {
    auto same = [](char a, char b) { return a == b || (a == '-' && b == '_') || (a == '_' && b == '-'); };
    return std::equal(option.begin(), option.end(), key.begin(), key.end(), same);
}

bool is_named(const Option& option, std::string_view key) {
    return same_name(key_of(option), key) || (!option.old_name.empty() && same_name(option.old_name, key));
}

// Of names that outlive the statement.
std::vector<std::string_view> views_of(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

std::string whole_line(Problem problem) {
    while (problem.text.ends_with('\n')) problem.text.pop_back();
    return std::move(problem.text);
}

class Reader {
  public:
    Reader(const std::string& name, std::span<const Option> table, Settings& settings, Origins* origins)
        : name_(name), table_(table), settings_(settings), origins_(origins) {}

    void read(std::string_view text);
    std::vector<std::string> errors();

  private:
    struct Error {
        toml::source_position at;
        std::string text;
    };

    // Control characters in quoted file content are replaced.
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

    std::vector<std::string> names_under(const std::string& prefix, bool all = true) const;
    std::string unknown_key(const std::string& prefix, std::string_view key) const;
    void read_table(const toml::table& table, const std::string& prefix);
    void read_entry(const toml::key& key, const toml::node& value, const std::string& prefix);
    void read_values();
    struct Said {
        const Option* option;
        const toml::node* value;
        std::string name;  // as the file spells the key
    };
    void read_value(const Said& said);
    void read_permissions(const Said& said);
    void read_nodes(const std::string& key, const toml::node& value);
    void read_node(const std::string& key, const toml::table& table);

    const std::string& name_;
    std::span<const Option> table_;
    Settings& settings_;
    Origins* origins_;  // nullptr: not asked for
    std::vector<Said> said_;  // the file's values, before they are applied
    std::vector<Error> errors_;
};

// Allowed names in the table of that prefix: under "pointer_table.", path and entries. all: include keys without effect.
std::vector<std::string> Reader::names_under(const std::string& prefix, bool all) const {
    const std::string start = file_spelling(prefix);
    std::vector<std::string> names;
    for (const Option& option : table_) {
        const std::string key = file_key(option);
        if (!is_key(option) || !key.starts_with(start)) continue;
        if (!all && option.section == Section::compat) continue;
        const std::string rest = key.substr(start.size()), name = rest.substr(0, rest.find('.'));
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
        if (!is_key(option) || !is_named(option, name)) continue;
        const auto same = [&](const Said& said) { return said.option == &option; };
        if (std::any_of(said_.begin(), said_.end(), same)) return complain(key.source(), name + ": given twice");
        said_.push_back({&option, &value, name});
        return;
    }
    for (const Option& option : table_) {
        if (option.kind.set == set_unavailable && is_named(option, name))
            return complain(key.source(), name + ": " + whole_line(refuse(option, "")));
    }
    const std::string inner = name + ".";
    if (const std::vector<std::string> names = names_under(inner); !names.empty()) {
        if (const toml::table* table = value.as_table()) return read_table(*table, inner);
        return complain_of(value, name, "a table of " + listed(views_of(names)));
    }
    complain(key.source(), unknown_key(prefix, key.str()));
}

// Of many keys it names only the nearest one; if none is near, those with an effect.
std::string Reader::unknown_key(const std::string& prefix, std::string_view key) const {
    constexpr size_t few = 32;
    const std::string where = prefix.empty() ? "key" : "key of " + prefix.substr(0, prefix.size() - 1);
    const std::vector<std::string> names = names_under(prefix);
    if (names.size() <= few) return unknown_word(where, key, views_of(names));
    const std::string_view shown = key.substr(0, shown_bytes_max);
    const std::string near(nearest(file_spelling(shown), views_of(names)));
    if (near.empty()) return unknown_word(where, shown, views_of(names_under(prefix, /* all= */ false)));
    return "unknown " + where + " '" + std::string(shown) + "', did you mean '" + near + "'?";
}

// In table order, not file order: an option may set other fields, too, which their own keys then override.
void Reader::read_values() {
    for (const Option& option : table_) {
        for (const Said& said : said_) {
            if (said.option != &option) continue;
            switch (option.kind.value) {
                case Value::tables: read_nodes(said.name, *said.value); break;
                case Value::permissions: read_permissions(said); break;
                default: read_value(said);
            }
        }
    }
}

void Reader::read_value(const Said& said) {
    const Option& option = *said.option;
    const toml::node& value = *said.value;
    const std::string& name = said.name;
    std::optional<std::string> text = text_of(value, option.kind);
    if (!text) return complain_of(value, name, allowed_text(option));
    std::string warnings;  // a warning counts as an error in a file
    Settings tried = settings_;
    const bool refused = option.kind.set(option, tried, text->c_str(), warnings).has_value();
    if (!refused && warnings.empty()) {
        settings_ = std::move(tried);
        if (origins_ != nullptr) (*origins_)[std::string(key_of(option))] = origin(value.source().begin) + ": " + name;
        return;
    }
    const bool worded = !option.kind.choices.empty() || option.kind.value == Value::integer || !option.allowed.empty();
    if (warnings.empty() && worded) return complain(value.source(), name + ": " + complaint(option, *text));
    complain_of(value, name, allowed_text(option));
}

void Reader::read_permissions(const Said& said) {
    const toml::table* const table = said.value->as_table();
    if (table == nullptr || table->empty()) {
        const std::string found = table == nullptr ? found_text(*said.value) : "a table without identities";
        return complain(said.value->source(), said.name + ": found " + found + "; allowed: " + allowed_text(*said.option));
    }
    for (auto&& [key, value] : *table) {
        const std::string identity(key.str()), name = said.name + "." + identity.substr(0, shown_bytes_max);
        const auto* const array = value.as_array();
        const std::optional<std::string> classes = array == nullptr ? std::nullopt : joined_text(*array);
        if (!classes) {
            complain_of(value, name, std::string(permission_classes_allowed));
            continue;
        }
        const std::string wrong = take_permission(identity, *classes, settings_.permissions);
        if (!wrong.empty()) complain(value.source(), name + ": " + wrong);
    }
    if (origins_ != nullptr) (*origins_)[std::string(key_of(*said.option))] = origin(said.value->source().begin) + ": " + said.name;
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
        std::optional<std::string> text = text_of(*value, Kind{.value = one.value});
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
        read_values();
    } catch (const toml::parse_error& error) {
        const std::string_view what = error.description();
        const bool too_large = what.find("not representable in 64 bits") != what.npos;
        complain(error.source(), (too_large ? "a number is out of range: " : "not valid TOML: ") + std::string(what));
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
                                          std::span<const Option> table, Settings& settings, Origins* origins) {
    Reader reader(name, table, settings, origins);
    reader.read(text);
    std::vector<std::string> lines = reader.errors();
    for (std::string& complaint : check_nodes(settings.proxy)) lines.push_back(std::move(complaint));
    return lines;
}

Result<std::string> read_whole_file(const std::string& path) {
    const auto fail = [&](const std::string& why) { return Problem{exit_usage, path + ": " + why}; };
    std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "re"));
    if (file == nullptr) return fail(std::string("cannot be opened: ") + std::strerror(errno));
    std::string text(config_bytes_max + 1, '\0');
    errno = 0;
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    if (std::ferror(file.get()) != 0) return fail(std::string("cannot be read: ") + std::strerror(errno));
    if (text.size() > config_bytes_max) return fail("is longer than " + std::to_string(config_bytes_max) + " bytes");
    return text;
}

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

// False: an unclosed quote.
bool split(std::string_view line, std::vector<std::string>& words) {
    std::string word;
    bool any = false;  // a word has begun; it may be ""
    char quote = 0;
    for (char c : line) {
        if (quote != 0) {
            if (c == quote) quote = 0;
            else word += c;
        } else if (c == '"' || c == '\'') {
            quote = c;
            any = true;
        } else if (is_blank(c)) {
            if (any) words.push_back(std::exchange(word, {}));
            any = false;
        } else {
            word += c;
            any = true;
        }
    }
    if (any) words.push_back(std::move(word));
    return quote == 0;
}

}  // namespace

std::vector<ConfLine> memcached_conf_lines(std::string_view text, const std::string& name, std::string& remarks) {
    std::vector<ConfLine> lines;
    for (size_t number = 1; !text.empty(); number++) {
        const size_t end = text.find('\n');
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(end == text.npos ? text.size() : end + 1);
        ConfLine said{number, {}};
        if (line.find('\0') != line.npos) {
            said.error = "the line contains a byte of value 0";
        } else if (!split(line.substr(0, line.find('#')), said.words)) {
            said.error = "a quote is not closed";
        } else if (said.words.empty()) {
            continue;
        } else if (const std::string& first = said.words.front(); first == "logfile") {
            remarks += "WARNING: " + name + ":" + std::to_string(number) +
                       ": logfile is ignored: messages go to stderr, or the journal\n";
            continue;
        } else if (first == "-d" || first == "-h" || first == "--daemon" || first == "--help") {
            continue;
        } else if (!first.starts_with('-')) {
            said.error = "found '" + first + "' instead of a flag such as -m 64";
        }
        lines.push_back(std::move(said));
    }
    return lines;
}

}  // namespace farcached::conf
