// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/spilled_gets.h"

#include "base/broken.h"
#include "base/hash.h"
#include "fabric/remote_ptr.h"
#include "protocol/spilled.h"
#include "proxy/requests.h"

namespace farcached::proxy {

uint64_t lease_end(uint32_t term_ms, uint64_t sent_ns, uint64_t received_ns) {
    constexpr uint64_t ms_ns = 1'000'000;
    const uint64_t term_ns = term_ms * ms_ns;
    const uint64_t from = broken::s3_count_from_reply ? received_ns : sent_ns;
    return from + term_ns - term_ns / uint64_t(clock_rate_error) - 1;
}

void SpilledGets::greeted(const protocol::Welcome& welcome) {
    incarnation_ = welcome.incarnation;
    other_ = 0;
}

uint64_t SpilledGets::table_key(uint64_t key_hash) const { return hash_bytes(&key_hash, sizeof key_hash, incarnation_); }

// The place is checked before each READ, by the link that knows the other node's regions. The present pointer of the key gives
// way, even one to a later generation: generations of two partitions have no order.
void SpilledGets::keep(const protocol::Grant& grant, const Earned& earned) {
    fabric::LeasedPtr leased;
    leased.ptr.incarnation = grant.incarnation;
    leased.ptr.offset = grant.offset;
    leased.ptr.generation = grant.generation;
    leased.ptr.region = grant.region;
    leased.ptr.length = grant.length;
    const bool of_this_item = grant.length == protocol::spilled_item_bytes(earned.key_len, earned.value_len);
    const bool foreign = grant.incarnation != incarnation_;
    if (!of_this_item || !foreign || grant.term_ms > protocol::spilled_term_ms_max || !fabric::well_formed(leased.ptr)) {
        parts_.counters.lease_unusable.add(1);
        return;
    }
    parts_.counters.lease_granted.add(1);
    parts_.counters.lease_granted_spilled.add(1);
    other_ = grant.incarnation;
    leased.valid_until_ns = lease_end(grant.term_ms, earned.frame_sent_ns, earned.received_ns);
    parts_.table->forget(earned.key_hash, incarnation_);
    parts_.table->forget(table_key(earned.key_hash), other_);
    parts_.table->put(table_key(earned.key_hash), leased, earned.received_ns);
}

bool SpilledGets::begin(const protocol::GetOp& op, const AskOptions& options, ReplySink& sink, uint64_t now_ns) {
    if (other_ == 0) return false;
    const PointerTable::Lookup found = parts_.table->find(table_key(op.key.hash), other_, now_ns);
    if (found.found != PointerTable::Found::hit) return false;
    Requests* const other = parts_.events.find_node(other_);
    if (other == nullptr) return false;
    const std::optional<Ticket> ticket = parts_.reads.next_elsewhere();
    if (!ticket.has_value()) return false;
    AskOptions with = options;
    with.ticket = *ticket;
    const std::optional<Elsewhere> at = other->read_for_home(op, with, *this, {found.leased, &parts_.counters});
    if (!at.has_value()) return false;
    parts_.counters.pointer_hits.add(1);
    if (found.shared) parts_.counters.pointer_shared_hits.add(1);
    parts_.reads.open_elsewhere(op, options, sink, *at);
    return true;
}

void SpilledGets::answered(Ticket ticket, Answer& answer) { parts_.reads.end_elsewhere(ticket, &answer); }

void SpilledGets::failed(Ticket ticket, const Failed&) {
    const Read& read = parts_.reads.elsewhere(ticket);
    parts_.table->drop(table_key(read.op.key.hash), std::get<Elsewhere>(read.way).ptr);
    parts_.reads.end_elsewhere(ticket, nullptr);
}

}  // namespace farcached::proxy
