// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/greeting.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/broken.h"
#include "protocol/layout.h"

namespace farcached::node {

using protocol::Frame;
using protocol::FrameError;
using protocol::Refusal;

namespace {

// All of a welcome except the clock. `access`: how this connection's proxy may read the region.
protocol::Welcome welcome_facts(const Node& node, const NodeFacts& facts, protocol::RegionAccess access) {
    const Config& config = node.config();
    const layout::RegionHeader& header = *node.view().header;
    protocol::Welcome welcome;
    welcome.name = facts.name;
    welcome.incarnation = header.incarnation;
    // A proxy without read access probes no index, keeps no pointers and verifies no check. It still hashes keys.
    const bool reads = access != protocol::RegionAccess::none;
    welcome.hash_seed = reads ? header.hash_seed : node.seed_of_peers();
    if (reads) welcome.check_secret = node.check_secret();
    welcome.started_unix = facts.started_unix;
    welcome.item_bytes_max = config.item_bytes_max;
    welcome.frame_bytes_max = facts.frame_bytes_max;
    welcome.credits = facts.credits;
    if (config.lease.enabled) {
        const LeaseConfig lease = node.lease_config();
        const LeaseTerms terms(config.policy, lease);
        welcome.term_ms_min = std::min(lease_term_ms_min, terms.shortest_ms());
        welcome.term_ms_max = terms.longest_ms();
        welcome.grace_ms = lease.grace_ms;
    }
    welcome.regions = {{0, header.region_bytes, access}};
    return welcome;
}

}  // namespace

Greeting::Greeting(Connection& connection)
    : connection_(connection), entry_(connection.shared.proxies), authentication_(connection.shared.keys) {}

Greeting::Outcome Greeting::hello(const Frame& frame) {
    if (FrameError error = protocol::parse_hello(frame, hello_); error != FrameError::none) return error;
    peer_ = hello_.name;
    if (!hello_.host.empty()) peer_ += "@" + hello_.host + ":" + std::to_string(hello_.pid);
    ServiceShared& shared = connection_.shared;
    auto answer = protocol::check(hello_, welcome_facts(shared.node, shared.facts, connection_.access));
    if (const auto* why = std::get_if<protocol::Refuse>(&answer)) return refuse(*why);
    const std::string node = "node " + shared.facts.name;
    if (ignores_right(std::get<protocol::Welcome>(answer).version))
        return refuse({Refusal::protocol_mismatch,
                       node + " is a member of a fleet, and its memory is for proxies of protocol version " +
                           std::to_string(protocol::version_with_right) + " or later; proxy " + hello_.name + " speaks " +
                           std::to_string(hello_.speaks.protocol) + "; update it, or run the farnode with --discover-fence off "
                           "until then"});
    if (authentication_.demanded() && !broken::s16_welcome_unproved)
        return demand_proof(frame, std::get<protocol::Welcome>(answer));
    if (hello_.nonce.has_value())
        return fail_authentication(connection_.counters.auth_failed_no_key,
                                   node + " has no keys, and proxy " + hello_.name + " demands authentication: set "
                                       "--auth-key-file of the farnode, or remove auth_key_file of the farcached");
    return welcome();
}

// Such a proxy would read without a right. Refused, it greets as a version that reads nothing (H5).
bool Greeting::ignores_right(uint32_t version) const {
    const bool reads = connection_.access != protocol::RegionAccess::none && protocol::reads_one_sided(version);
    return reads && version < protocol::version_with_right && connection_.shared.right.is_limited();
}

// A proxy that cannot prove anything is refused.
Greeting::Outcome Greeting::demand_proof(const Frame& frame, const protocol::Welcome& agreed) {
    const std::string node = "node " + connection_.shared.facts.name;
    if (agreed.version < protocol::version_with_auth) {
        return fail_authentication(connection_.counters.auth_failed_version,
                                   node + " demands authentication, and proxy " + hello_.name + " of protocol version " +
                                       std::to_string(agreed.version) + " cannot prove a key: update it");
    }
    if (!hello_.nonce.has_value()) {
        return fail_authentication(connection_.counters.auth_failed_no_key, node + " demands authentication, and proxy " +
                                                                                hello_.name + " has no key: set its auth_key_file");
    }
    authentication_.challenge(frame, connection_.channel->out());
    return ProofFollows();
}

Greeting::Outcome Greeting::proof(const Frame& frame) {
    using Proof = Authentication::Outcome;
    ServiceCounters& counters = connection_.counters;
    FrameError error = FrameError::none;
    const std::string text = "node " + connection_.shared.facts.name + " does not accept the key that proxy " + hello_.name +
                             " names: its file has no key of this name, or another key or role for it";
    switch (authentication_.take(frame, error)) {
        case Proof::bad: return error;
        case Proof::key_unknown: return fail_authentication(counters.auth_failed_unknown, text);
        case Proof::proof_wrong: return fail_authentication(counters.auth_failed_proof, text);
        case Proof::role_wrong: return fail_authentication(counters.auth_failed_role, text);
        case Proof::proved: break;
    }
    connection_.role = key()->role();
    counters.authentications.add(1);
    return welcome();
}

Greeting::Outcome Greeting::fail_authentication(Counter& why, std::string text) {
    why.add(1);
    connection_.counters.refusals[size_t(Refusal::authentication)].add(1);
    protocol::append_refuse(connection_.channel->out(), {Refusal::authentication, text});
    return End{ServiceEnd::authentication, std::move(text)};
}

// After its greeting, and after its proof if one is demanded.
Greeting::Outcome Greeting::welcome() {
    ServiceShared& shared = connection_.shared;
    const NodeFacts& facts = shared.facts;
    if (connection_.role == protocol::AuthRole::operating) connection_.access = protocol::RegionAccess::none;
    auto answer = protocol::check(hello_, welcome_facts(shared.node, facts, connection_.access));
    protocol::Welcome& welcome = std::get<protocol::Welcome>(answer);
    if (connection_.stopping) return refuse({Refusal::stopping, "node " + facts.name + " stops"});
    const uint32_t copies = connection_.role == protocol::AuthRole::reader ? 0 : hello_.copies;  // it changes nothing
    if (copies >= 2 && !shared.right.is_limited())
        return refuse({Refusal::copies, "proxy " + hello_.name + " keeps each item on " + std::to_string(copies) +
                                            " of the nodes, and node " + facts.name +
                                            " has no serving right: its copies could be old; register it in etcd, with "
                                            "--discover-fence on or strict"});
    connection_.keeps_copies = hello_.copies >= 2;
    if (!entry_.enter(peer_, shared.clock().seconds, copies))
        return refuse({Refusal::copies, "proxy " + hello_.name + " keeps each item on " + std::to_string(hello_.copies) +
                                            " of the nodes, and another one that node " + facts.name +
                                            " serves does not: their copies would be old; set the same replicas in all farcached"});
    if (!connection_.seat.sit(shared.clock().seconds, facts.connections_max)) {
        return refuse({Refusal::full, "node " + facts.name + " has the " +
                                          std::to_string(facts.connections_max) +
                                          " connections that it may have"});
    }
    welcome.now = connection_.told(shared.clock(), welcome.version);
    if (!protocol::reads_one_sided(welcome.version)) {
        connection_.access = protocol::RegionAccess::none;
        welcome.hash_seed = shared.node.seed_of_peers();
        two_sided_ = true;
        connection_.counters.connections_two_sided.add(1);
    }
    if (std::optional<std::string> problem = send(welcome)) return End{ServiceEnd::no_memory, std::move(*problem)};
    hello_ = {};
    connection_.limits = protocol::agreed_limits(welcome, protocol::Sender::proxy);
    return std::move(welcome);
}

// Returns why the connection ends; nullopt: it goes on.
std::optional<std::string> Greeting::send(const protocol::Welcome& welcome) {
    const auto prove = [this](const protocol::Welcome& shown, std::string_view grant) -> std::optional<std::string> {
        if (authentication_.welcome(connection_.channel->out(), shown, grant)) return std::nullopt;
        return "no proof was computed";
    };
    if (key() == nullptr) {
        protocol::append_welcome(connection_.channel->out(), welcome);
        return std::nullopt;
    }
    if (key()->role() == protocol::AuthRole::operating) {
        protocol::Welcome without_items = welcome;
        protocol::make_two_sided(without_items);
        without_items.hash_seed = 0;
        return prove(without_items, {});
    }
    const Result<std::string> grant = connection_.channel->grant();
    if (const auto* problem = std::get_if<Problem>(&grant)) return problem->text;
    return prove(welcome, std::get<std::string>(grant));
}

FrameError Greeting::grant(const Frame& frame) {
    if (key() == nullptr || !connection_.may_report() || std::exchange(grant_taken_, true)) return FrameError::kind_unexpected;
    return connection_.channel->take_grant(frame.body).has_value() ? FrameError::facts_invalid : FrameError::none;
}

Greeting::Outcome Greeting::refuse(const protocol::Refuse& why) {
    connection_.counters.refusals[size_t(why.reason)].add(1);
    protocol::append_refuse(connection_.channel->out(), why);
    return End{ServiceEnd::refused, why.text};
}

}  // namespace farcached::node
