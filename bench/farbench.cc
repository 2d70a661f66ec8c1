// SPDX-License-Identifier: BSD-3-Clause
// farbench: the measuring tool: its commands and their dispatch.
// Owner: main; one thread.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "bench/command.h"
#include "conf/help.h"
#include "conf/program.h"

namespace farcached::bench {

namespace {

std::vector<Command> commands() {
    return {load_command(),     compare_command(), floor_command(), transport_command(),
            hitratio_command(), reports_command(), rnic_command(),  capacity_command(),
            buffer_command()};
}

std::string title(const Command& command) {
    return *command.arguments == '\0' ? command.name : std::string(command.name) + " " + command.arguments;
}

std::string left_side(const OptionText& option) {
    std::string left = std::string("--") + option.name;
    if (option.value != nullptr) left += std::string(" ") + option.value;
    return left;
}

// Prints the part of man/farbench.1.
int print_man() {
    for (const Command& command : commands()) {
        std::printf(".SS \"%s\"\n%s\n", conf::roff(title(command)).c_str(), conf::roff(command.help).c_str());
        for (const OptionText& option : command.options) {
            std::printf(".TP\n.B %s\n%s\n", conf::roff(left_side(option)).c_str(), conf::roff(option.help).c_str());
            if (option.standard != nullptr) std::printf("[%s]\n", conf::roff(option.standard).c_str());
        }
    }
    return std::fflush(stdout) == 0 ? exit_good : exit_failed;
}

conf::CompletedOption completed(const char* name, std::string_view help) {
    conf::CompletedOption word;
    word.name = name;
    word.help = help;
    return word;
}

// The options of all commands together: shell completion does not separate them by command.
conf::CompletedProgram completed_program() {
    conf::CompletedProgram program{"farbench",
                                   {completed("help", "print the options"), completed("version", "print the version")},
                                   {completed("help", "print the options of a command")}};
    for (const Command& command : commands()) {
        const std::string_view help = command.help;
        program.commands.push_back(completed(command.name, help.substr(0, help.find_first_of(":\n"))));
        for (const OptionText& text : command.options) {
            const auto is_known = [&](const conf::CompletedOption& known) { return known.name == text.name; };
            if (std::any_of(program.options.begin(), program.options.end(), is_known)) continue;
            conf::CompletedOption& option = program.options.emplace_back(completed(text.name, text.help));
            option.takes = text.value != nullptr;
            option.is_path = option.takes && (std::strcmp(text.value, "FILE") == 0 || std::strcmp(text.value, "PATH") == 0);
        }
    }
    return program;
}

int print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    return std::fflush(stdout) == 0 ? exit_good : exit_failed;
}

constexpr size_t help_width = 100;
constexpr size_t option_help_width = 71;  // beside the column of conf::append_help_row

// Breaks the text between words, into lines of at most `width`.
std::string wrapped(const std::string& text, size_t width) {
    std::istringstream words(text);
    std::string out;
    size_t column = 0;
    for (std::string word; words >> word;) {
        const bool fits = column + 1 + word.size() <= width;
        if (column > 0) out += fits ? ' ' : '\n';
        column = (column > 0 && fits ? column + 1 : 0) + word.size();
        out += word;
    }
    return out;
}

std::string help_of(const Command& command) {
    std::string out = "Usage: farbench " + title(command) + " [OPTION]...\n" + wrapped(command.help, help_width) + "\n\n";
    for (const OptionText& option : command.options) {
        std::string help = option.help;
        if (option.standard != nullptr) help += std::string(" [") + option.standard + "]";
        conf::append_help_row(left_side(option), wrapped(help, option_help_width), out);
    }
    return out + "\n";
}

constexpr const char* help_end = "In brackets: the default. Options may also be written as --name=value.\n";

std::string help_of_all() {
    std::string out = "Usage: farbench COMMAND [OPTION]...\n       farbench help [COMMAND]\n       farbench --version\n\n";
    for (const Command& command : commands()) out += help_of(command);
    return out + help_end;
}

bool asks_for_help(std::string_view argument) { return argument == "--help" || argument == "-h"; }

int run(std::span<char* const> arguments) {
    if (arguments.empty()) {
        std::fprintf(stderr, "farbench: no command given.\nTry farbench --help.\n");
        return exit_usage;
    }
    const std::string_view first = arguments[0];
    bool help = first == "help" || asks_for_help(first);
    if (help && arguments.size() == 1) return print(help_of_all());
    const std::string_view name = help ? arguments[1] : first;
    for (const Command& command : commands()) {
        if (name != command.name) continue;
        help = help || std::any_of(arguments.begin() + 1, arguments.end(), asks_for_help);
        return help ? print(help_of(command) + help_end) : command.run(arguments.subspan(1));
    }
    if (name == "--version" || name == "-V") return print("farbench " + std::string(conf::farcached_version()) + "\n");
    if (name == "--print-man") return print_man();
    if (name == "--print-completion-bash") return print(conf::bash_completion(completed_program()));
    if (name == "--print-completion-zsh") return print(conf::zsh_completion(completed_program()));
    std::fprintf(stderr, "farbench: unknown command \"%s\".\nTry farbench --help.\n", std::string(name).c_str());
    return exit_usage;
}

}  // namespace

}  // namespace farcached::bench

int main(int argc, char** argv) {
    try {
        return farcached::bench::run(
            std::span<char* const>(argv, size_t(argc)).subspan(argc > 0 ? 1 : 0));
    } catch (const std::exception& e) {
        std::fprintf(stderr, "farbench: %s\n", e.what());
        return 1;
    }
}
