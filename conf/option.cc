// SPDX-License-Identifier: BSD-3-Clause
#include "conf/option.h"

#include "conf/kinds.h"

namespace farcached::conf {

std::string spelled(const Option& option) {
    if (option.where == Where::suboption) return "-o " + std::string(option.name);
    if (option.flag == 0) return "--" + std::string(option.name);
    std::string text{'-', option.flag};
    return option.name.empty() ? text : text + ", --" + std::string(option.name);
}

Problem refuse(const Option& option, std::string_view value) {
    if (option.refusal.empty()) {
        return {option.exit_status, "could not parse argument to " + std::string(option.name) + ": '" +
                                        std::string(value) + "' is no number from " +
                                        fixed(option.kind.min, 0) + " to " + fixed(option.kind.max, 0) +
                                        "\n"};
    }
    std::string text(option.refusal);
    if (size_t at = text.find("{}"); at != std::string::npos) text.replace(at, 2, value);
    return {option.exit_status, std::move(text)};
}

}  // namespace farcached::conf
