// SPDX-License-Identifier: BSD-3-Clause
#include "conf/help.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "conf/addresses.h"
#include "conf/kinds.h"
#include "conf/permissions.h"

namespace farcached::conf {

namespace {

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (char c : text) {
        if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
            out += escape;
            continue;
        }
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + "\"";
}

std::string number_text(const std::string& text, Unit unit) {
    const std::string with = with_unit(std::strtoll(text.c_str(), nullptr, 10), unit);
    return with == text || unit == Unit::none ? text : quoted(with);
}

std::string array_text(std::string_view list) {
    std::string out = "[";
    while (!list.empty()) {
        const size_t end = list.find(',');
        if (end != 0) out += (out.size() > 1 ? ", " : "") + quoted(list.substr(0, end));
        list.remove_prefix(end == list.npos ? list.size() : end + 1);
    }
    return out + "]";
}

// The value in file syntax, from a text in the syntax of `set`.
std::string file_value(const Option& option, const std::string& text) {
    switch (option.kind.value) {
        case Value::boolean: return text == "yes" ? "true" : "false";
        case Value::integer:
        case Value::size: return number_text(text, option.kind.unit);
        case Value::real: return text.find_first_of(".e") == text.npos ? text + ".0" : text;
        default: break;
    }
    if (option.kind.several && text.find(',') != text.npos) return array_text(text);
    return quoted(text);
}

std::vector<const Option*> keys_of(Section section, std::span<const Option> table) {
    std::vector<const Option*> keys;
    for (const Option* option : rows_of(section, table))
        if (is_key(*option)) keys.push_back(option);
    return keys;
}

const Option* list_of_nodes(std::span<const Option> table) {
    for (const Option& option : table)
        if (is_key(option) && option.kind.value == Value::tables) return &option;
    return nullptr;
}

std::string title_in_file(Section section) {
    switch (section) {
        case Section::nodes: return "Nodes";
        case Section::extended: return "More";
        case Section::compat: return "For compatibility with memcached, without effect";
        default: return std::string(title(section));
    }
}

// Calls visit(option) for each key except the list of nodes, under its section's title.
template <class Visit, class Begin>
void each_key(std::span<const Option> table, Begin begin, Visit visit) {
    for (size_t i = 0; i < sections_count; i++) {
        bool begun = false;
        for (const Option* option : keys_of(Section(i), table)) {
            if (option->kind.value == Value::tables) continue;
            if (!begun) begin(Section(i));
            begun = true;
            visit(*option);
        }
    }
}

std::string node_text(const std::string& key, const NodeSpec& node) {
    std::string out = "\n[[" + key + "]]\nname = " + quoted(node.name) + "\naddress = " + quoted(address_of(node)) + "\n";
    if (node.weight != 1) out += "weight = " + std::to_string(node.weight) + "\n";
    if (!node.hash_as.empty()) out += "hash_as = " + quoted(node.hash_as) + "\n";
    return out;
}

std::string permissions_text(const std::string& key, const PermissionSettings& permissions) {
    std::string out = "\n[" + key + "]\n";
    for (const auto& [identity, classes] : permissions.classes_of)
        out += quoted(identity) + " = " + array_text(listed_classes(classes)) + "\n";
    return out;
}

std::string remark(std::string_view text) {
    std::string out;
    for (;;) {
        const size_t end = text.find('\n');
        out += "# " + std::string(text.substr(0, end)) + "\n";
        if (end == text.npos) return out;
        text.remove_prefix(end + 1);
    }
}

// Roff text, wrapped at the usual source width.
std::string filled(const std::string& text) {
    constexpr size_t width = 78;
    std::string out, line;
    const auto end_line = [&] {
        out += (line.starts_with('.') || line.starts_with('\'') ? "\\&" : "") + line + "\n";
        line.clear();
    };
    const std::string escaped = roff(text);
    for (size_t at = 0; at < escaped.size();) {
        const size_t end = std::min(escaped.find_first_of(" \n", at), escaped.size());
        if (!line.empty() && line.size() + 1 + (end - at) > width) end_line();
        if (end > at) line += (line.empty() ? "" : " ") + escaped.substr(at, end - at);
        at = end + 1;
    }
    if (!line.empty()) end_line();
    return out;
}

// Allowed values of a key, and whether a change needs a restart.
std::string key_facts(const Option& option) {
    std::string facts = "Allowed: " + allowed_text(option) + ".";
    return facts + (is_live(option) ? "\nChanged by a reload." : "\nChanged by a restart.");
}

// Required keys without a default.
bool is_needed(const Option& option) { return key_of(option) == "shm"; }

// Sample values, in comments, for keys without a default.
std::string sample_value(const Option& option) {
    if (option.kind.value == Value::integer) return "1";
    const std::string_view name = key_of(option);
    if (name == "shm") return quoted("/run/farnode/a.sock");
    if (name == "admin") return quoted("/run/farcached/admin.sock");
    if (name == "unix-socket") return quoted("/run/farcached/clients.sock");
    if (name == "pidfile") return quoted("/run/farcached/a.pid");
    if (name == "http") return quoted("127.0.0.1:9150");
    if (name == "http-health") return quoted("0.0.0.0:9152");
    if (name == "http-token-file") return quoted("/etc/farcached/http-tokens");
    if (name == "http-cert") return quoted("/etc/farcached/http.pem");
    if (name == "http-key") return quoted("/etc/farcached/http.key");
    if (name == "http-names") return quoted("cache.example.org");
    if (name == "advertise") return quoted(option.argument == "<list>" ? "tcp:10.0.0.1:11300" : "cache-1.example.org:11211");
    if (name == "discover") return quoted("etcd://10.0.0.5:2379/farcached");
    if (name == "replica-prefixes") return "[\"user:\", \"session:\"]";
    if (name == "cluster-members") return "[\"cache-1.example.org:11211\", \"cache-2.example.org:11211\"]";
    if (name == "user") return quoted("nobody");
    if (name == "listen") return "[\"127.0.0.1\", \"[::1]:11212\"]";
    if (name == "tcp" || name == "verbs") return quoted("10.0.0.1:11300");
    if (name == "ext_path") return quoted("/var/lib/farcached/values:64G");
    if (name == "hash_tag") return quoted("{}");
    if (name == "prefix-delimiter") return quoted(":");
    return quoted(name == "name" ? "a" : "...");
}

// The keys that a sample begins with, in this order.
constexpr std::string_view usual_keys[] = {"name", "listen", "port", "shm", "tcp", "verbs", "memory-limit", "node"};

bool is_usual(const Option& option) {
    return std::find(std::begin(usual_keys), std::end(usual_keys), key_of(option)) != std::end(usual_keys);
}

// Comments that are a list of nodes without their #. A table [[node]] would end the keys before it.
std::string sample_nodes(const Option& option) {
    std::string out = "\n# nodes that store the items; without any, this process stores them.\n";
    for (const NodeKey& one : node_keys())
        out += remark(std::string(one.name) + ": " + std::string(one.help) + ".\nAllowed: " + std::string(one.allowed) + ".");
    return out + remark("Changed by a reload.\n" + file_key(option) +
                        " = [\n"
                        "    {name = \"a\", address = \"shm:/run/farnode/a.sock\"},\n"
                        "    {name = \"b\", address = \"tcp:10.0.0.1:11300\", weight = 2, hash_as = \"10.0.0.1:11211\"},\n"
                        "]");
}

// As a value in one line: a table [permissions] would end the keys before it.
std::string sample_permissions(const Option& option) {
    return "\n" + remark(option.help) + remark(key_facts(option)) + "# " + file_key(option) +
           " = {alice = [\"read\", \"write\"], anonymous = [], \"*\" = [\"read\"]}\n";
}

std::string sample_key(const Option& option, const Settings& settings) {
    if (option.kind.value == Value::tables) return sample_nodes(option);
    if (option.kind.value == Value::permissions) return sample_permissions(option);
    const std::string value = written(option, settings), key = file_key(option);
    const bool effective = option.section != Section::compat;
    std::string out = (effective ? "\n" : "") + remark(option.help);
    if (effective) out += remark(key_facts(option));
    if (value.empty()) return out + (is_needed(option) ? "" : "# ") + key + " = " + sample_value(option) + "\n";
    return out + key + " = " + file_value(option, value) + "\n";
}

}  // namespace

std::string config_text(std::span<const Option> table, const Program& program, const Settings& settings) {
    std::string out = "# Effective settings of " + std::string(program.name) + ", in the syntax of --config.\n";
    each_key(
        table, [&](Section section) { out += "\n# " + title_in_file(section) + "\n"; },
        [&](const Option& option) {
            const std::string value = written(option, settings), key = file_key(option);
            if (option.kind.value == Value::permissions && !value.empty()) return;  // a table, below
            out += value.empty() ? "# " + key + " is not given\n" : key + " = " + file_value(option, value) + "\n";
        });
    for (const Option& option : table)
        if (option.kind.value == Value::permissions && !written(option, settings).empty())
            out += permissions_text(file_key(option), settings.permissions);
    const Option* list = list_of_nodes(table);
    if (list == nullptr) return out;
    for (const NodeSpec& node : settings.proxy.nodes) out += node_text(std::string(key_of(*list)), node);
    return out;
}

std::string config_sample(std::span<const Option> table, const Program& program) {
    const Settings settings = defaults(table);
    const std::string name(program.name);
    std::string out = "# SPDX-License-Identifier: BSD-3-Clause\n# A file for " + name + " --config, checked by " + name +
                      " --check-config. It contains the defaults;\n"
                      "# keys without a default are comments with an example. The command line overrides this file. Sizes and\n"
                      "# durations are numbers, or texts with a unit: \"64MB\", \"4g\", \"10s\", \"5m\". Keys may have - instead\n"
                      "# of _.\n";
    out += "\n# ---- Usual settings ----\n";
    for (std::string_view key : usual_keys) {
        for (const Option& option : table)
            if (is_key(option) && key_of(option) == key) out += sample_key(option, settings);
    }
    each_key(
        table, [&](Section section) { out += "\n# ---- " + title_in_file(section) + " ----\n"; },
        [&](const Option& option) {
            if (!is_usual(option)) out += sample_key(option, settings);
        });
    return out;
}

std::string config_man(std::span<const Option> table) {
    const Settings settings = defaults(table);
    std::string out;
    each_key(
        table, [&](Section section) { out += ".SS \"" + roff(title_in_file(section)) + "\"\n"; },
        [&](const Option& option) {
            const std::string value = written(option, settings);
            out += ".TP\n.B " + roff(file_key(option)) + "\n" + filled(std::string(option.help) + ".");
            out += filled(key_facts(option));
            if (!value.empty()) out += filled("Default: " + file_value(option, value) + ".");
        });
    const Option* list = list_of_nodes(table);
    if (list == nullptr) return out;
    out += ".SS \"[[" + roff(key_of(*list)) + "]]\"\nOne table per node; a reload adds and removes nodes.\n";
    for (const NodeKey& one : node_keys())
        out += ".TP\n.B " + roff(one.name) + "\n" + filled(std::string(one.help) + ".") +
               filled("Allowed: " + std::string(one.allowed) + (one.required ? ". Required." : "."));
    return out;
}

}  // namespace farcached::conf
