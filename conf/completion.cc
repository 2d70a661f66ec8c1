// SPDX-License-Identifier: BSD-3-Clause
#include "conf/help.h"

#include <string_view>

namespace farcached::conf {

namespace {

// The first line of a help text without trailing punctuation, for a menu.
std::string first_line(std::string_view help) {
    std::string line(help.substr(0, help.find('\n')));
    while (!line.empty() && (line.back() == ':' || line.back() == ',' || line.back() == ' ')) line.pop_back();
    return line;
}

bool names_a_path(std::string_view argument) { return argument == "<path>" || argument == "<file>"; }

// "<none|atomic|report>": its words.
std::vector<std::string> words_of_argument(std::string_view argument) {
    std::vector<std::string> words;
    if (argument.find('|') == argument.npos || argument.size() < 2) return words;
    argument = argument.substr(1, argument.size() - 2);
    for (;;) {
        const size_t end = argument.find('|');
        words.emplace_back(argument.substr(0, end));
        if (end == argument.npos) return words;
        argument.remove_prefix(end + 1);
    }
}

std::vector<std::string> words_of_list(std::span<const Option> table) {
    std::vector<std::string> words;
    for (const Option& option : table) {
        if (option.where != Where::suboption) continue;
        words.push_back(std::string(option.name) + (option.argument.empty() ? "" : "="));
        if (option.negatable) words.push_back("no_" + std::string(option.name));
    }
    return words;
}

std::string joined(const std::vector<std::string>& words, const char* between) {
    std::string all;
    for (const std::string& word : words) all += (all.empty() ? "" : between) + word;
    return all;
}

// Quotes a word for zsh's _arguments: its delimiters, and the shell's apostrophe.
std::string zsh_text(std::string_view text) {
    std::string out;
    for (char c : text) {
        if (c == '\'') out += "'\\'";
        if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
        out += c;
    }
    return out;
}

std::string zsh_argument(const CompletedOption& option) {
    if (!option.takes) return "";
    std::string text = ":" + zsh_text(option.name.empty() ? "value" : option.name) + ":";
    if (option.is_path) return text + "_files";
    if (option.values.empty()) return text;
    if (option.list) {
        // A list word that takes a value is completed up to its "=".
        return text + "_sequence compadd -S \"\" - " + joined(option.values, " ");
    }
    return text + "(" + joined(option.values, " ") + ")";
}

// Completes the command, or what may follow it. bash splits --name=value at "=". The program's path is as typed, so a "~" in front
// is not expanded yet; where a path cannot be run, the program of PATH helps out.
std::string bash_commands(const CompletedProgram& program, const std::string& commands) {
    const std::string complete = "COMPREPLY=($(compgen -W \"" + commands + "\" -- \"$cur\"))\n";
    if (!program.prints_arguments) return "                " + complete;
    return "                local given=() word joins=\"\" command=\"\"\n"
           "                for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
           "                    if [[ ( $word == = || -n $joins ) && ${#given[@]} -gt 0 ]]; then\n"
           "                        given[${#given[@]}-1]+=$word\n"
           "                        [[ $word == = ]] && joins=1 || joins=\"\"\n"
           "                    else\n"
           "                        given+=(\"$word\")\n"
           "                        [[ $word == -* ]] || command=1\n"
           "                    fi\n"
           "                done\n"
           "                local program=${COMP_WORDS[0]}\n"
           "                [[ $program == \"~/\"* ]] && program=$HOME${program:1}\n"
           "                type -P -- \"$program\" >/dev/null || program=" + program.name + "\n"
           "                if [[ -n $command ]]; then\n"
           "                    COMPREPLY=($(compgen -W \"$(\"$program\" --print-arguments "
           "\"${given[@]}\" 2>/dev/null)\" -- \"$cur\"))\n"
           "                else\n"
           "                    " + complete +
           "                fi\n";
}

}  // namespace

CompletedProgram completed_program(std::span<const Option> table, const Program& program) {
    CompletedProgram completed{std::string(program.name), {}, {}};
    for (const Option& option : table) {
        if (option.where != Where::flag || option.section == Section::hidden) continue;
        CompletedOption one;
        one.flag = option.flag;
        one.name = option.name;
        one.takes = !option.argument.empty();
        one.is_path = names_a_path(option.argument);
        one.help = first_line(option.help);
        for (std::string_view choice : option.kind.choices) one.values.emplace_back(choice);
        if (one.values.empty()) one.values = words_of_argument(option.argument);
        if (option.action == Action::extended) {
            one.values = words_of_list(table);
            one.list = true;
        }
        completed.options.push_back(std::move(one));
    }
    return completed;
}

std::string bash_completion(const CompletedProgram& program) {
    std::string options, commands, cases, out;
    for (const CompletedOption& option : program.options) {
        std::string spelled;
        if (option.flag != 0) spelled = std::string{'-', option.flag};
        if (!option.name.empty()) spelled += (spelled.empty() ? "--" : "|--") + option.name;
        options += (options.empty() ? "" : " ") + (option.name.empty() ? spelled : "--" + option.name);
        if (!option.takes) continue;
        cases += "        " + spelled + ")\n";
        if (option.is_path) {
            cases += "            COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n";
        } else if (option.list) {
            cases += "            local done=\"\"\n            [[ $cur == *,* ]] && done=\"${cur%,*},\"\n";
            cases += "            COMPREPLY=($(compgen -P \"$done\" -W \"" + joined(option.values, " ") +
                     "\" -- \"${cur##*,}\")) ;;\n";
        } else {
            cases += "            COMPREPLY=($(compgen -W \"" + joined(option.values, " ") + "\" -- \"$cur\")) ;;\n";
        }
    }
    for (const CompletedOption& command : program.commands) commands += (commands.empty() ? "" : " ") + command.name;
    const std::string function = "_" + program.name;
    out += "# bash completion for " + program.name + "; made by " + program.name + " --print-completion-bash.\n";
    out += function + "() {\n    local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"\"\n    COMPREPLY=()\n";
    out += "    ((COMP_CWORD > 0)) && prev=\"${COMP_WORDS[COMP_CWORD - 1]}\"\n";
    // bash splits --name=value into three words.
    out += "    if [[ $cur == = ]]; then\n        cur=\"\"\n";
    out += "    elif [[ $prev == = ]] && ((COMP_CWORD > 1)); then\n        prev=\"${COMP_WORDS[COMP_CWORD - 2]}\"\n    fi\n";
    out += "    case \"$prev\" in\n" + cases;
    out += "        *)\n            if [[ $cur == -* ]]; then\n                COMPREPLY=($(compgen -W \"" + options +
           "\" -- \"$cur\"))\n";
    if (!commands.empty())
        out += "            else\n" + bash_commands(program, commands);
    out += "            fi ;;\n    esac\n}\ncomplete -o default -o nospace -F " + function + " " + program.name + "\n";
    return out;
}

std::string zsh_completion(const CompletedProgram& program) {
    std::string out = "#compdef " + program.name + "\n# Made by " + program.name + " --print-completion-zsh.\n";
    if (program.prints_arguments) out += "local context state line ret=1\ntypeset -A opt_args\n";
    out += "_arguments -s -S";
    for (const CompletedOption& option : program.options) {
        const std::string help = "[" + zsh_text(option.help) + "]", argument = zsh_argument(option);
        const std::string more = argument.empty() ? "" : "+";
        if (option.flag != 0) out += " \\\n  '*" + (std::string{'-', option.flag} + more) + help + argument + "'";
        const std::string equals = argument.empty() ? "" : "=";
        if (!option.name.empty()) out += " \\\n  '*--" + option.name + equals + help + argument + "'";
    }
    if (program.commands.empty()) return out + "\n";
    out += " \\\n  '1:command:((";
    for (const CompletedOption& command : program.commands)
        out += " " + command.name + "\\:\"" + zsh_text(command.help) + "\"";
    if (!program.prints_arguments) return out + "))' \\\n  '*:: :_default'\n";
    // The status tells zsh whether there are completions.
    return out + "))' \\\n  '*:argument:->arguments' && ret=0\n"
                 "[[ $state == arguments ]] && compadd -- "
                 "${(f)\"$(${~${(Q)words[1]}} --print-arguments ${words[2,CURRENT-1]} 2>/dev/null)\"} && ret=0\n"
                 "return ret\n";
}

}  // namespace farcached::conf
