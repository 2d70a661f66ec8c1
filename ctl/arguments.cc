// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/arguments.h"

#include <algorithm>
#include <string_view>

#include "ctl/survey.h"

namespace farcached::ctl {

namespace {

std::vector<std::string> nodes_of(std::vector<Server>& servers) {
    std::vector<std::string> all;
    for (Server& server : servers) {
        Or<std::vector<std::string>> names = names_of_nodes(server);
        if (auto* found = std::get_if<std::vector<std::string>>(&names)) all.insert(all.end(), found->begin(), found->end());
    }
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

std::vector<std::string> groups_of(std::vector<Server>& servers, const std::string& node) {
    std::vector<std::string> names;
    const auto add = [&](const Or<Stats>& groups) {
        if (const auto* found = std::get_if<Stats>(&groups))
            for (const auto& [name, help] : *found) names.push_back(name);
    };
    if (node != "-")
        add(stats_of_node(servers, node, "groups"));
    else if (!servers.empty())
        add(servers.front().stats("groups"));
    return names;
}

std::vector<std::string> words_of(std::vector<Server>& servers, const Options& options) {
    std::vector<std::string> words;
    switch (argument_of(options.command, options.words.size())) {
        case Argument::none: return {};
        case Argument::node: return nodes_of(servers);
        case Argument::node_or_self:
            words = nodes_of(servers);
            words.emplace_back("-");
            return words;
        case Argument::group: return groups_of(servers, options.words[0]);
        case Argument::command:
            for (std::string_view name : command_names()) words.emplace_back(name);
            return words;
        case Argument::reset: return {"reset"};
    }
    return {};
}

// A shell may expand what it completes, so a daemon's words must be harmless there.
bool is_harmless(std::string_view word) {
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return word.find_first_not_of(allowed) == word.npos;
}

}  // namespace

std::vector<std::string> arguments_of(std::vector<Server>& servers, const Options& options) {
    std::vector<std::string> words = words_of(servers, options);
    std::erase_if(words, [](const std::string& word) { return !is_harmless(word); });
    return words;
}

}  // namespace farcached::ctl
