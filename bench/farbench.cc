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
#include "bench/compare/compare.h"
#include "bench/floor.h"
#include "bench/hitratio/hitratio_options.h"
#include "bench/load/load.h"
#include "bench/load/options.h"
#include "bench/reports/reports_options.h"
#include "bench/transport/transport_options.h"
#include "conf/completion.h"

namespace farcached::bench {

namespace {

int load_command(std::span<char* const> arguments) {
    LoadOptions options;
    std::string wrong = read_load_options(arguments, options);
    if (!wrong.empty()) {
        std::fprintf(stderr, "farbench load: %s\nTry farbench --help.\n", wrong.c_str());
        return exit_usage;
    }
    Results results = run_load(options);
    std::fputs(text_report(options, results).c_str(), stdout);
    if (!options.output.json_path.empty()) write_json(options.output.json_path, options, results);
    if (!options.output.csv_path.empty()) append_csv(options.output.csv_path, options, results);
    if (!options.output.histogram_path.empty()) write_histogram(options.output.histogram_path, results);
    return results.total.failures.total() == 0 && !interrupted ? exit_good : exit_failed;
}

struct Command {
    const char* name;
    const char* arguments;  // besides options; empty: none
    const char* help;
    std::vector<OptionText> options;
    int (*run)(std::span<char* const> arguments);
};

template <class Options>
std::vector<OptionText> texts(std::span<const OptionOf<Options>> table) {
    return {table.begin(), table.end()};
}

std::vector<Command> commands() {
    return {
        {"load", "", "Load on a memcached server, in a closed loop or at a rate: throughput, latency, hit ratio, server CPU.",
         texts(load_options()), load_command},
        {"compare", "",
         "farcached and its peers under the same load, one after the other in rounds: throughput, latency, server CPU of\n"
         "front and back, memory. Installed peers are included. Needs python3.",
         texts(compare_options()), compare_command},
        {"floor", "", "A server without storage: the lower bound of a server with epoll, recv() and send().",
         texts(floor_options()), floor_command},
        {"transport", "[ADDRESS]...",
         "Comparison of transports to a farnode: TCP, two-sided and one-sided RDMA, with and without metadata atomics.\n"
         "ADDRESS: tcp:HOST:PORT, verbs:HOST:PORT, shm:PATH; or --spawn.",
         texts(transport_options()), transport_command},
        {"hitratio", "",
         "Hit ratios of eviction and lease policies by workload and cache size: the node's own code in virtual time. Of all\n"
         "GETs, and of one-sided GETs.",
         texts(hitratio_options()), hitratio_command},
        {"reports", "[ADDRESS]...",
         "Cost of access reports to a farnode: written into its container, or sent in frames. ADDRESS: as of transport.",
         texts(reports_options()), reports_command},
    };
}

std::string title(const Command& command) {
    return *command.arguments == '\0' ? command.name : std::string(command.name) + " " + command.arguments;
}

std::string left_side(const OptionText& option) {
    std::string left = std::string("--") + option.name;
    if (option.value != nullptr) left += std::string(" ") + option.value;
    return left;
}

// Escapes text for roff: dashes are literal, and no line begins a request.
std::string roff(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        if (c == '-' || c == '\\') escaped += '\\';
        if ((c == '.' || c == '\'') && (escaped.empty() || escaped.back() == '\n')) escaped += "\\&";
        escaped += c;
    }
    return escaped;
}

// Prints the part of man/farbench.1.
int print_man() {
    for (const Command& command : commands()) {
        std::printf(".SS \"%s\"\n%s\n", roff(title(command)).c_str(), roff(command.help).c_str());
        for (const OptionText& option : command.options) {
            std::printf(".TP\n.B %s\n%s\n", roff(left_side(option)).c_str(), roff(option.help).c_str());
            if (option.standard != nullptr) std::printf("[%s]\n", roff(option.standard).c_str());
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
