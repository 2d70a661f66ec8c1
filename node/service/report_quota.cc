// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/report_quota.h"

#include <algorithm>

#include "node/store/node.h"

namespace farcached::node {

ReportQuota::Share report_share_of(const Node& node, double share) {
    const LeaseConfig lease = node.lease_config();
    const LeaseTerms terms(node.config().policy, lease);
    return {uint64_t(double(node.leasable_bytes()) * share), lease_kept_s(terms.longest_ms(), lease.grace_ms)};
}

uint64_t ReportQuota::left(NodeSeconds now) {
    std::lock_guard hold(lock_);
    earn(now);
    return left_;
}

bool ReportQuota::is_full(NodeSeconds now) {
    std::lock_guard hold(lock_);
    earn(now);
    return left_ == full();
}

void ReportQuota::change(const Share& share) {
    std::lock_guard hold(lock_);
    share_ = share;
    left_ = std::min(left_, full());
}

void ReportQuota::earn(NodeSeconds now) {
    if (now > earned_at_) {
        const uint64_t seconds = std::min<uint64_t>(now - earned_at_, share_.longest_s);
        left_ = std::min(full(), left_ + seconds * share_.bytes);
        earned_at_ = now;
    }
}

void ReportQuota::spend(uint64_t byte_s) {
    std::lock_guard hold(lock_);
    left_ -= std::min(left_, byte_s);
}

std::shared_ptr<ReportQuota> ReportQuotas::of(const std::string& proxy, const ReportQuota::Share& share,
                                              NodeSeconds now) {
    std::lock_guard hold(lock_);
    const auto found = quotas_.find(proxy);
    if (found != quotas_.end()) {
        found->second->change(share);
        return found->second;
    }
    const bool many = quotas_.size() >= unused_max;
    std::erase_if(quotas_, [&](const auto& entry) {
        return entry.second.use_count() == 1 && (many || entry.second->is_full(now));
    });
    return quotas_[proxy] = std::make_shared<ReportQuota>(share, now);
}

void ReportQuotas::change(const ReportQuota::Share& share) {
    std::lock_guard hold(lock_);
    for (auto& [proxy, quota] : quotas_) quota->change(share);
}

}  // namespace farcached::node
