// SPDX-License-Identifier: BSD-3-Clause
#include "conf/help.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "conf/option.h"
#include "conf/program.h"

namespace farcached::conf {

std::string_view farcached_version() { return PACKAGE_VERSION; }

namespace {

constexpr size_t help_column = 29;
constexpr size_t help_width = 60;

// "-p, --port=<num>", "-D <char>", "slab_automove[=<0|1|2>]", "[no_]lru_crawler".
std::string usage_of(const Option& option) {
    std::string argument(option.argument);
    if (option.where == Where::suboption) {
        std::string text = (option.negatable ? "[no_]" : "") + std::string(option.name);
        if (argument.empty()) return text;
        return text + (option.argument_optional ? "[=" + argument + "]" : "=" + argument);
    }
    std::string text;
    if (option.flag != 0) text = std::string{'-', option.flag};
    if (option.name.empty()) return argument.empty() ? text : text + " " + argument;
    text += (text.empty() ? "--" : ", --") + std::string(option.name);
    return argument.empty() ? text : text + "=" + argument;
}

// Whether help shows the default: the option takes an argument and has a default.
bool has_default(const Option& option) {
    return !option.argument.empty() && !option.initial.empty() && option.kind.set != nullptr &&
           option.refusal.find("not implemented") == std::string_view::npos;
}

std::string help_of(const Option& option) {
    std::string text(option.help);
    if (!has_default(option)) return text;
    std::string initial = "(default: " + std::string(option.initial) + ")";
    size_t last_line = text.size() - (text.rfind('\n') + 1);
    return text + (last_line + 1 + initial.size() > help_width ? "\n" : " ") + initial;
}

}  // namespace

void append_help_row(const std::string& usage, std::string_view help, std::string& out) {
    std::string line = "  " + usage;
    for (;;) {
        if (line.size() >= help_column) {
            out += line + "\n";
            line.clear();
        }
        line.resize(help_column, ' ');
        const size_t end = help.find('\n');
        out += line.append(help.substr(0, end)) + "\n";
        line.clear();
        if (end == help.npos) return;
        help.remove_prefix(end + 1);
    }
}

// Flags before suboptions; flags by letter, lower case first; suboptions in table order.
std::vector<const Option*> rows_of(Section section, std::span<const Option> table) {
    std::vector<const Option*> rows;
    for (const Option& option : table) {
        if (option.section == section && option.where != Where::stat) rows.push_back(&option);
    }
    auto rank = [](const Option* option) {
        if (option->where == Where::suboption) return 1000;
        if (option->flag == 0) return 999;
        return std::tolower(option->flag) * 2 + (std::isupper(option->flag) ? 1 : 0);
    };
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const Option* a, const Option* b) { return rank(a) < rank(b); });
    return rows;
}

std::string roff(std::string_view text) {
    std::string out;
    bool line_start = true;
    for (char c : text) {
        if (c == '-') {
            out += "\\-";
        } else if (c == '\\') {
            out += "\\e";
        } else {
            if (line_start && (c == '.' || c == '\'')) out += "\\&";
            out += c;
        }
        line_start = c == '\n';
    }
    return out;
}

std::string help_text(std::span<const Option> table, const Program& program) {
    std::string out = program.version();
    out += "Usage: " + std::string(program.name) + " [option]...\n";
    for (size_t i = 0; i < sections_count; i++) {
        Section section = Section(i);
        std::vector<const Option*> rows = rows_of(section, table);
        if (section == Section::hidden || rows.empty()) continue;
        out += "\n" + std::string(title(section)) + ":\n";
        for (const Option* option : rows) append_help_row(usage_of(*option), help_of(*option), out);
    }
    return out;
}

std::string options_man(std::span<const Option> table) {
    std::string out;
    for (size_t i = 0; i < sections_count; i++) {
        Section section = Section(i);
        std::vector<const Option*> rows = rows_of(section, table);
        if (section == Section::hidden || rows.empty()) continue;
        out += ".SS \"" + roff(title(section)) + "\"\n";
        for (const Option* option : rows) {
            out += ".TP\n.B " + roff(usage_of(*option)) + "\n" + roff(help_of(*option)) + "\n";
        }
    }
    return out;
}

std::string version_text() { return "memcached " + std::string(memcached_version) + "\n"; }

std::string full_version_text() {
#ifdef FARCACHED_LIBURING
    constexpr std::string_view uring = "liburing " FARCACHED_LIBURING;
#else
    constexpr std::string_view uring = "without liburing";
#endif
#ifdef FARCACHED_LIBSECCOMP
    constexpr std::string_view seccomp = "libseccomp " FARCACHED_LIBSECCOMP;
#else
    constexpr std::string_view seccomp = "without libseccomp";
#endif
#ifdef FARCACHED_OPENSSL
    constexpr std::string_view tls = "OpenSSL " FARCACHED_OPENSSL;
#else
    constexpr std::string_view tls = "without OpenSSL";
#endif
#ifdef FARCACHED_LIBSASL2
    constexpr std::string_view sasl = "libsasl2 " FARCACHED_LIBSASL2;
#else
    constexpr std::string_view sasl = "without libsasl2";
#endif
#ifdef FARCACHED_LIBCURL
    constexpr std::string_view curl = "libcurl " FARCACHED_LIBCURL;
#else
    constexpr std::string_view curl = "without libcurl";
#endif
#ifdef FARCACHED_CARES
    constexpr std::string_view cares = "c-ares " FARCACHED_CARES;
#else
    constexpr std::string_view cares = "without c-ares";
#endif
    return version_text() + "farcached " + std::string(farcached_version()) + "\n" + std::string(uring) + "\n" +
           std::string(seccomp) + "\n" + std::string(tls) + "\n" + std::string(sasl) + "\n" + std::string(curl) + "\n" +
           std::string(cares) + "\n";
}

std::string license_text() {
    return version_text() +
           "\n"
           "BSD 3-Clause License\n"
           "\n"
           "Copyright (c) 2026, the farcached authors\n"
           "All rights reserved.\n"
           "\n"
           "Redistribution and use in source and binary forms, with or without\n"
           "modification, are permitted provided that the following conditions are met:\n"
           "\n"
           "1. Redistributions of source code must retain the above copyright notice, this\n"
           "   list of conditions and the following disclaimer.\n"
           "\n"
           "2. Redistributions in binary form must reproduce the above copyright notice,\n"
           "   this list of conditions and the following disclaimer in the documentation\n"
           "   and/or other materials provided with the distribution.\n"
           "\n"
           "3. Neither the name of the copyright holder nor the names of its contributors\n"
           "   may be used to endorse or promote products derived from this software\n"
           "   without specific prior written permission.\n"
           "\n"
           "THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS \"AS IS\"\n"
           "AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE\n"
           "IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE\n"
           "DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE\n"
           "FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL\n"
           "DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR\n"
           "SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER\n"
           "CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY,\n"
           "OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE\n"
           "OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.\n"
           "\n"
           "It uses libevent (BSD-3-Clause), xxHash (BSD-2-Clause) and jemalloc (BSD-2-Clause).\n";
}

}  // namespace farcached::conf
