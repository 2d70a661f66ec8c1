// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/proxy_book.h"

#include "base/check.h"

namespace farcached::node {

ProxyBook::Entry::~Entry() {
    if (!entered_) return;
    std::lock_guard hold(book_.lock_);
    book_.by_copies_[copies_]--;
    if (!proxy_.has_value()) {
        book_.left_out_--;
        return;
    }
    Proxy& proxy = (*proxy_)->second;
    forget(proxy, epoch_);
    if (--proxy.connections == 0) book_.proxies_.erase(*proxy_);
}

bool ProxyBook::Entry::enter(const std::string& process, NodeSeconds now, uint32_t copies) {
    CHECK(!entered_);
    std::lock_guard hold(book_.lock_);
    for (uint32_t other = 1; other < book_.by_copies_.size(); other++)
        if (copies != 0 && other != copies && book_.by_copies_[other] != 0) return false;
    const auto found = book_.proxies_.find(process);
    if (found != book_.proxies_.end()) proxy_ = found;
    else if (book_.proxies_.size() < proxies_max) proxy_ = book_.proxies_.emplace(process, Proxy{.since = now}).first;
    entered_ = true;
    if (proxy_.has_value()) (*proxy_)->second.connections++;
    else book_.left_out_++;
    copies_ = copies;
    book_.by_copies_[copies]++;
    return true;
}

void ProxyBook::Entry::name(uint64_t epoch) {
    if (!proxy_.has_value() || epoch == epoch_) return;
    std::lock_guard hold(book_.lock_);
    Proxy& proxy = (*proxy_)->second;
    if (epoch != 0) proxy.named[epoch]++;
    forget(proxy, epoch_);
    epoch_ = epoch;
}

// Under lock_.
void ProxyBook::forget(Proxy& proxy, uint64_t epoch) noexcept {
    const auto named = proxy.named.find(epoch);
    if (named != proxy.named.end() && --named->second == 0) proxy.named.erase(named);
}

void ProxyBook::each(NodeSeconds now, FunctionRef<void(const std::string&, const ProxyShown&)> visit) const {
    std::lock_guard hold(lock_);
    for (const auto& [process, proxy] : proxies_) {
        ProxyShown shown{.connections = proxy.connections, .connected_s = seconds_since(proxy.since, now)};
        if (!proxy.named.empty()) {
            shown.epoch_lowest = proxy.named.begin()->first;
            shown.epoch_highest = proxy.named.rbegin()->first;
        }
        visit(process, shown);
    }
}

uint64_t ProxyBook::left_out() const {
    std::lock_guard hold(lock_);
    return left_out_;
}

}  // namespace farcached::node
