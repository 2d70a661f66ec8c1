// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/remote/node_addresses.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "conf/addresses.h"

namespace farcached::daemon {

namespace {

uint64_t address_id(std::string_view address) { return hash_bytes(address.data(), address.size(), /* seed= */ 0) | 1; }

bool has_address(const FoundAddresses& found, uint64_t id) {
    return std::ranges::any_of(found.texts, [id](const std::string& text) { return address_id(text) == id; });
}

}  // namespace

SharedFound found_of(const conf::NodeSpec& spec) {
    if (spec.addresses.empty()) return nullptr;
    return std::make_shared<const FoundAddresses>(FoundAddresses{
        conf::addresses_of(spec), conf::address_of(spec), HostAddresses::of_literals(spec.addresses, spec.port)});
}

Result<fabric::SocketAddress> NodeAddresses::next(const Fences& fences, const Fence& fence, uint32_t worker, size_t& turn,
                                                  uint64_t now_ns) {
    std::lock_guard hold(lock_);
    const std::vector<std::string>& texts = found_->texts;
    const NodeHome::Address home = fences.home_address(fence);
    const auto at = std::ranges::find(texts, home.at, &address_id);
    // Home's host may be gone before other workers know: every other attempt goes elsewhere.
    const bool stays = now_ns < at_home_until_ns_[worker] || (home.is_up && last_tried_[worker] != home.at);
    const size_t place = stays && at != texts.end() ? size_t(at - texts.begin()) : turn++ % texts.size();
    last_tried_[worker] = tried_at_[worker] = address_id(texts[place]);
    return found_->host->at(place);
}

// The address may have gone since the attempt began. Then the connection belongs to a former set, and its worker takes the next one
// before it attends.
void NodeAddresses::connected(Fences& fences, Fence& fence, uint32_t worker) noexcept {
    std::lock_guard hold(lock_);
    const uint64_t at = tried_at_[worker];
    const bool is_listed = has_address(*found_, at);
    fences.met(fence, worker, is_listed ? at : NodeHome::gone_address);
    if (is_listed) is_up_.set(worker);
}

void NodeAddresses::ended(uint32_t worker, uint64_t now_ns) noexcept {
    std::lock_guard hold(lock_);
    tried_at_[worker] = 0;
    if (is_up_.test(worker)) at_home_until_ns_[worker] = now_ns + at_home_ns;
    is_up_.reset(worker);
}

// An attempt under way may lead to an address that has gone. An attempt that failed does not count.
void NodeAddresses::replace(SharedFound found, Fences& fences, Fence& fence) noexcept {
    std::lock_guard hold(lock_);
    const auto has = [&](uint64_t id) { return has_address(*found, id); };
    if (std::ranges::any_of(tried_at_, [&](uint64_t id) { return id != 0 && !has(id); })) {
        tried_at_.fill(0);
        fences.renew(fence);
    }
    fences.readdress(fence, has);
    std::swap(found_, found);  // the former one is freed last
}

SharedFound NodeAddresses::found() const {
    std::lock_guard hold(lock_);
    return found_;
}

}  // namespace farcached::daemon
