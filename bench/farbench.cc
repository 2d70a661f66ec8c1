// SPDX-License-Identifier: BSD-3-Clause
// farbench: the measuring tool: its commands and their dispatch.
// Owner: main; one thread.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/command.h"
#include "conf/help.h"

namespace farcached::bench {

namespace {

std::vector<Command> commands() {
    return {load_command(), compare_command(), floor_command(), transport_command(), hitratio_command(), reports_command()};
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

// The options of all commands together: shell completion does not separate them by command.
conf::CompletedProgram completed() {
    conf::CompletedProgram program{"farbench", {}, {}};
    for (const Command& command : commands()) {
        const std::string_view help = command.help;
        conf::CompletedOption& word = program.commands.emplace_back();
        word.name = command.name;
        word.help = help.substr(0, help.find_first_of(":\n"));
        for (const OptionText& text : command.options) {
            const auto is_known = [&](const conf::CompletedOption& known) { return known.name == text.name; };
            if (std::any_of(program.options.begin(), program.options.end(), is_known)) continue;
            conf::CompletedOption& option = program.options.emplace_back();
            option.name = text.name;
            option.takes = text.value != nullptr;
            option.is_path = option.takes && (std::strcmp(text.value, "FILE") == 0 || std::strcmp(text.value, "PATH") == 0);
            option.help = text.help;
        }
    }
    return program;
}

int print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    return std::fflush(stdout) == 0 ? exit_good : exit_failed;
}

int print_help() {
    std::printf("Usage: farbench COMMAND [OPTION]...\n");
    for (const Command& command : commands()) {
        std::printf("\nfarbench %s\n%s\n\n", title(command).c_str(), command.help);
        for (const OptionText& option : command.options) {
            std::printf("  %-26s %s", left_side(option).c_str(), option.help);
            if (option.standard != nullptr) std::printf(" [%s]", option.standard);
            std::printf("\n");
        }
    }
    std::printf(
        "\nIn brackets: the default. Options may also be written as --name=value.\n");
    return exit_good;
}

int run(std::span<char* const> arguments) {
    const char* name = arguments.empty() ? "" : arguments[0];
    for (const Command& command : commands())
        if (std::strcmp(name, command.name) == 0) {
            for (const char* argument : arguments)
                if (std::strcmp(argument, "--help") == 0) return print_help();
            return command.run(arguments.subspan(1));
        }
    if (std::strcmp(name, "--print-man") == 0) return print_man();
    if (std::strcmp(name, "--print-completion-bash") == 0) return print(conf::bash_completion(completed()));
    if (std::strcmp(name, "--print-completion-zsh") == 0) return print(conf::zsh_completion(completed()));
    for (const char* help : {"--help", "-h", "help"})
        if (std::strcmp(name, help) == 0) return print_help();
    if (arguments.empty())
        std::fprintf(stderr, "farbench: no command given.\nTry farbench --help.\n");
    else
        std::fprintf(stderr, "farbench: unknown command \"%s\".\nTry farbench --help.\n", name);
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
