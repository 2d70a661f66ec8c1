// SPDX-License-Identifier: BSD-3-Clause
// The share of GETs answered one-sided, and the reasons of the others: every counter of a failed read has exactly one
// reason.
#include <array>
#include <set>
#include <string>

#include "protocol/op.h"
#include "proxy/link_counters.h"
#include "proxy/onesided_share.h"
#include "t/lib/tap.h"

using namespace farcached;

namespace {

using Counts = proxy::LinkCounts;

uint64_t sum_of_reasons(const Counts& c) {
    uint64_t sum = 0;
    proxy::each_onesided_reason(c, [&](std::string_view, std::string_view, uint64_t count) { sum += count; });
    return sum;
}

uint64_t count_of(const Counts& c, std::string_view reason) {
    uint64_t found = UINT64_MAX;
    const auto look = [&](std::string_view name, std::string_view, uint64_t count) {
        if (name == reason) found = count;
    };
    proxy::each_onesided_reason(c, look);
    proxy::each_pointer_denial(c, look);
    return found;
}

void test_share() {
    Counts c;
    tap::is(proxy::onesided_share(c), 0.0, "no GETs: no share");
    c.get_twosided = 10;
    tap::is(proxy::onesided_share(c), 0.0, "all of them went to their node");
    c.get_onesided = 25;
    c.get_index = 5;
    tap::is(proxy::onesided_share(c), 0.75, "reads by pointer and by index are one-sided");
    tap::is(proxy::gets_through_links(c), 40u, "of all GETs through links");
    c.get_twosided = 0;
    tap::is(proxy::onesided_share(c), 1.0, "all of them");
}

// Each counter is raised by itself: it makes up one reason, or none.
void test_reasons() {
    std::set<std::string> without;
    bool once = true;
    for (const auto& row : Counts::rows()) {
        Counts c;
        row.of(c) = 3;
        const uint64_t sum = sum_of_reasons(c);
        once = once && (sum == 0 || sum == 3);
        if (sum == 0) without.insert(std::string(row.name));
    }
    tap::ok(once, "no counter makes up two reasons");
    for (const char* name : {"pointer_misses", "pointer_expired", "pointer_bypassed", "read_invalid_generation",
                             "read_invalid_dead", "read_invalid_key", "read_invalid_length", "read_invalid_grown",
                             "read_invalid_crc", "read_invalid_lease", "read_invalid_expired", "read_invalid_flushed",
                             "read_tokens", "read_failed", "read_unposted", "index_not_found"})
        tap::ok(!without.contains(name), std::string(name) + " has a reason");
    // read_late: its GET had failed before. pointer_stale: the sum of two others.
    for (const char* name : {"get_onesided", "get_twosided", "pointer_hits", "pointer_stale", "read_late", "lease_denied"})
        tap::ok(without.contains(name), std::string(name) + " is no reason");
    std::set<std::string> names;
    size_t rows = 0;
    const auto note = [&](std::string_view name, std::string_view help, uint64_t) {
        names.insert(std::string(name));
        rows += help.empty() ? 0 : 1;
    };
    proxy::each_onesided_reason(Counts(), note);
    proxy::each_pointer_denial(Counts(), note);
    tap::is(names.size(), rows, "names differ, and each has a help text");
    Counts c;
    c.pointer_expired = 2;
    c.read_invalid_lease = 3;
    tap::is(count_of(c, "lease_over"), 5u, "leases that ended before the read or after it");
}

void test_denials() {
    using protocol::LeaseDenial;
    Counts c;
    for (size_t i = 0; i < c.lease_denied_by.size(); i++) c.lease_denied_by[i] = 100 + i;
    bool right = true;
    size_t rows = 0;
    proxy::each_pointer_denial(c, [&](std::string_view name, std::string_view, uint64_t count) {
        rows++;
        right = right && count == 100 + rows && name == "denied_" + std::string(protocol::lease_denial_name(LeaseDenial(rows)));
    });
    tap::ok(right, "each denial has the count of its row");
    tap::is(rows, size_t(LeaseDenial::count) - 1, "all but `none`");
    tap::is(sum_of_reasons(c), 0u, "denials are no further reasons");
    tap::is(count_of(c, "denied_dead"), 100u + uint64_t(LeaseDenial::dead_), "by name");
}

}  // namespace

int main() {
    test_share();
    test_reasons();
    test_denials();
    return tap::done();
}
