// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: an operator's node definitions, as a TOML file and as --node. Checked: errors are single lines that name
// the file. Accepted settings are within their bounds and read back the same. Their nodes can be placed or are refused
// with a message.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/limits.h"
#include "conf/addresses.h"
#include "conf/config_file.h"
#include "conf/option.h"
#include "proxy/placement.h"

namespace {

using namespace farcached;
using namespace farcached::conf;

void insist(bool good) {
    if (!good) std::abort();
}

const std::vector<Option>& table() {
    static const std::vector<Option> rows = option_table_with_nodes();
    return rows;
}

void check_node(const NodeSpec& node) {
    insist(!node.name.empty() && node.name.size() <= limits::node_name_bytes_max);
    insist(node.weight >= 1 && node.weight <= limits::node_weight_max);
    insist(node.channel == NodeChannel::shm ? !node.path.empty() : !node.host.empty() && node.port != 0);
    // A value with a comma has no form on the command line.
    if (node.path.find(',') != std::string::npos || node.hash_as.find(',') != std::string::npos) return;
    std::string words = node.name + "=" + address_of(node) + ",weight=" + std::to_string(node.weight);
    if (!node.hash_as.empty()) words += ",hash_as=" + node.hash_as;
    std::variant<NodeSpec, Complaints> again = parse_node(words);
    const auto* spec = std::get_if<NodeSpec>(&again);
    insist(spec != nullptr);
    insist(spec->name == node.name && address_of(*spec) == address_of(node));
    insist(spec->weight == node.weight && spec->hash_as == node.hash_as);
}

void check_placement(const ProxySettings& settings) {
    std::vector<proxy::PlacementNode> nodes;
    for (const NodeSpec& node : settings.nodes) nodes.push_back({node.name, node.hash_as, node.weight});
    auto made = proxy::Placement::make(nodes, {settings.distribution, settings.hash, settings.hash_tag});
    if (auto* errors = std::get_if<proxy::Placement::Errors>(&made)) {
        insist(!errors->empty());
        return;
    }
    const proxy::Placement& placement = *std::get<std::shared_ptr<const proxy::Placement>>(made);
    uint32_t spot = placement.spot_of("user:{7}:name", 7);
    insist(placement.walk(spot, 0) == placement.node_at(spot));
    insist(placement.walk(spot, placement.size() - 1) < placement.size());
}

void check_file(std::string_view text) {
    Settings settings = defaults(table());
    const std::vector<std::string> errors = read_config_text(text, "f", table(), settings);
    for (const std::string& error : errors) {
        insist(error.starts_with("f:") || error.find(" nodes; allowed: ") != std::string::npos);
        insist(error.find('\n') == std::string::npos);
    }
    for (const NodeSpec& node : settings.proxy.nodes) check_node(node);
    if (errors.empty()) check_placement(settings.proxy);
}

void check_words(std::string_view text) {
    std::variant<NodeSpec, Complaints> parsed = parse_node(text);
    if (auto* spec = std::get_if<NodeSpec>(&parsed)) return check_node(*spec);
    insist(!std::get<Complaints>(parsed).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::string_view text(reinterpret_cast<const char*>(data), size);
    check_file(text);
    check_words(text);
    return 0;
}
