// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_rights.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace farcached::fabric {

namespace {

Refusal name_region(VerbsQueue& queue, const VerbsOffer& offer, VerbsNames& names) {
    const RegionView& view = offer.region->view();
    const VerbsMemory memory{view.base, view.region_bytes};
    VerbsReach& reach = queue.reach();
    Refusal no = offer.withholds ? reach.lend(queue.device(), memory)
                                 : reach.use(queue.device(), memory, VerbsAccess::remote_read);
    if (no) return no;
    names.incarnation = view.header->incarnation;
    names.region_address = reinterpret_cast<uint64_t>(view.base);
    names.region_bytes = view.region_bytes;
    names.region_key = reach.lent_key();
    if (offer.counters == nullptr || !queue.device().atomics()) return {};
    no = reach.use(queue.device(), {offer.counters, offer.counters_bytes}, VerbsAccess::counters);
    if (no) return no;
    names.counters_address = reinterpret_cast<uint64_t>(offer.counters);
    names.counters_bytes = offer.counters_bytes;
    names.counters_from = view.header->arena_offset;
    names.counters_key = reach.own(VerbsAccess::counters)->rkey;
    return {};
}

}  // namespace

Result<VerbsNames> name_offer(VerbsQueue& queue, const VerbsOffer& offer, bool layout_fits) {
    VerbsNames names{};
    queue.reports().use(queue.device());
    if (const OwnContainer* own = queue.reports().own()) names.container = own->where();
    queue.rpc().offer(queue.device());
    names.requests = queue.rpc().requests();
    names.replies = queue.rpc().replies();
    if (offer.region == nullptr || !layout_fits) return names;
    if (Refusal no = name_region(queue, offer, names)) return *std::move(no);
    return names;
}

// ---- the agreement ------------------------------------------------------------------------------------

Refusal VerbsAgreement::prepare(VerbsQueue& queue) const {
    VerbsReach& reach = queue.reach();
    Refusal no = reach.use(queue.device(), memories_.landing, VerbsAccess::landing);
    if (!no && !withholds_) no = reach.use(queue.device(), memories_.lent, VerbsAccess::remote_read);
    if (!no && !withholds_) queue.reports().use(queue.device());
    return no;
}

Refusal VerbsAgreement::answered(VerbsQueue& queue, const VerbsWelcome& welcome) {
    if (withholds_) {
        queue.await_permission();
        return {};
    }
    use_region(queue, welcome.names, same_layout(welcome.head));
    if (welcome.names.container.bytes != 0) queue.reports().met(welcome.names.container);
    use_node(queue, welcome.names);
    return queue.allow();
}

// Makes this end's memory for the other end, and names it.
Refusal VerbsAgreement::name_own(VerbsQueue& queue, VerbsNames& names) const {
    if (offer_.has_value()) {
        auto named = name_offer(queue, *offer_, layout_fits_);
        if (auto* no = std::get_if<Problem>(&named)) return std::move(*no);
        names = std::get<0>(named);
        if (offer_->landing.bytes > 0)
            names.fetch_bytes_max = uint32_t(std::min<uint64_t>(offer_->landing.bytes, fetch_bytes_most));
        return {};
    }
    queue.reports().use(queue.device());
    if (const OwnContainer* own = queue.reports().own()) names.container = own->where();
    if (Refusal no = queue.reach().lend(queue.device(), memories_.lent)) return no;
    if (queue.reach().lends()) {
        names.region_address = reinterpret_cast<uint64_t>(memories_.lent.data);
        names.region_bytes = memories_.lent.bytes;
        names.region_key = queue.reach().lent_key();
    }
    return {};
}

Result<std::string> VerbsAgreement::grant(VerbsQueue* queue) {
    if (!withholds_) return std::string();
    if (queue == nullptr || granted_) return system_problem(name_ + ": nothing to grant");
    const bool node = offer_.has_value();
    VerbsGrant grant{};
    grant.head = verbs_head(node ? verbs_node_grant_magic : verbs_proxy_grant_magic, sizeof grant);
    if (Refusal no = name_own(*queue, grant.names)) return *std::move(no);
    if (Refusal no = queue->allow()) return *std::move(no);
    granted_ = true;
    if (!node && taken_) use_node(*queue, far_names_);
    return std::string(reinterpret_cast<const char*>(&grant), sizeof grant);
}

Refusal VerbsAgreement::take_grant(VerbsQueue* queue, std::string_view bytes) {
    if (!withholds_) return bytes.empty() ? Refusal() : system_problem("its grant was not expected");
    if (queue == nullptr || taken_) return system_problem("its grant came at a wrong time");
    const bool node = offer_.has_value();
    auto parsed = parse_verbs_grant(bytes, node ? verbs_proxy_grant_magic : verbs_node_grant_magic);
    if (auto* no = std::get_if<Problem>(&parsed)) return std::move(*no);
    const VerbsGrant& grant = std::get<0>(parsed);
    far_names_ = grant.names;
    if (!node) {
        use_region(*queue, far_names_, same_layout(grant.head));
        if (granted_) use_node(*queue, far_names_);
    } else if (offer_->landing.bytes > 0 && far_names_.region_bytes > 0) {
        if (Refusal no = queue->reach().use(queue->device(), offer_->landing, VerbsAccess::landing)) return no;
        queue->reach().met({far_names_.region_address, far_names_.region_bytes, far_names_.region_key}, {});
        fetch_bytes_ = far_names_.region_bytes;
    }
    if (far_names_.container.bytes != 0) queue->reports().agreed(far_names_.container);
    queue->permitted();
    taken_ = true;
    return {};
}

// A proxy: its READs and FETCH_AND_ADDs reach this memory from now on.
void VerbsAgreement::use_region(VerbsQueue& queue, const VerbsNames& names, bool layout_fits) {
    if (!layout_fits || queue.reach().own(VerbsAccess::landing) == nullptr) return;
    incarnation_ = names.incarnation;
    region_bytes_ = names.region_bytes;
    VerbsFarCounters counters;
    if (queue.device().atomics())
        counters = {names.counters_address, names.counters_bytes, names.counters_from, names.counters_key};
    queue.reach().met({names.region_address, names.region_bytes, names.region_key}, counters);
}

// A proxy: both ends have their rights, so the node may READ lent memory, and messages may travel in slots (M2).
void VerbsAgreement::use_node(VerbsQueue& queue, const VerbsNames& names) {
    if (queue.reach().lends()) lends_ = std::min<uint64_t>(names.fetch_bytes_max, memories_.lent.bytes);
    queue.rpc().met(queue.device(), wish_, names.requests, names.replies);
    if (withholds_) {
        queue.bind_slots();
        queue.rpc().heard();
    }
    if (wish_.mode != RpcMode::send && wish_.mode != RpcMode::automatic && queue.rpc().proxy() == nullptr)
        devices_.log_once(name_ + ": no slots for rpc = " + std::string(rpc_mode_name(wish_.mode)) +
                          " (--rpc of farnode, or memory here); requests travel by SEND");
}

}  // namespace farcached::fabric
