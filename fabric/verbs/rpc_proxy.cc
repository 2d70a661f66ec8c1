// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/rpc_proxy.h"

#include <algorithm>

namespace farcached::fabric {

// ---- READs of replies -------------------------------------------------------------------------------

std::unique_ptr<ReplyReads> ReplyReads::make(const VerbsDevice& device, const SlotPlace& far, uint32_t fixed_bytes) {
    std::unique_ptr<ReplyReads> made(new ReplyReads(far, fixed_bytes));
    made->registered_.reset(ibv_reg_mr(device.domain(), made->memory_.data(), far.bytes(), int(IBV_ACCESS_LOCAL_WRITE)));
    return made->registered_ == nullptr ? nullptr : std::move(made);
}

void ReplyReads::add(uint64_t message, uint32_t from, uint32_t bytes) {
    const uint64_t landing_at = reinterpret_cast<uint64_t>(landing(message)) + from;
    const uint64_t far = far_.address + message % far_.slots * far_.slot_bytes() + from;
    posting_.push_back({{landing_at, bytes, registered_->lkey}, far});
}

const std::vector<ReplyReads::One>& ReplyReads::due(uint64_t next, uint32_t count, uint64_t now_ns) {
    CHECK(landed_ == posting_.size());
    posting_.clear();
    landed_ = 0;
    if (next_ns() > now_ns || count == 0) return posting_;
    if (first_ != next) rest_bytes_ = 0;  // the other end sent it, too
    if (rest_bytes_ != 0) {
        add(next, readable_, rest_bytes_);
        readable_ += std::exchange(rest_bytes_, 0);
    } else {
        first_ = next;
        count_ = std::min<uint32_t>(count, far_.slots);
        readable_ = plan_.bytes();
        brought_ = 0;
        for (uint32_t i = 0; i < count_; i++) add(next + i, 0, readable_);
    }
    plan_.posted(now_ns);
    return posting_;
}

bool ReplyReads::look(SlotReader& reader, uint64_t now_ns) {
    if (!unjudged_) return false;
    const uint64_t next = reader.next();
    if (next - first_ < count_) {
        const MessageState state = reader.look(landing(next), readable_, now_ns);
        if (state == MessageState::whole) {
            brought_++;
            return true;
        }
        if (state == MessageState::longer) {
            rest_bytes_ = uint32_t(sizeof(SlotHead)) + reader.head().length - readable_;
            first_ = next;
            count_ = 1;
            unjudged_ = false;
            return false;
        }
    }
    unjudged_ = false;
    early_ += count_ - brought_;
    if (brought_ != 0) return false;
    demand_ = plan_.found_none(now_ns) || demand_;
    return false;
}

// ---- a proxy's end ----------------------------------------------------------------------------------

void RpcProxy::asked(uint64_t number, ReplyBy by, bool plain, uint64_t now_ns) {
    left_[number % slots_most] = {now_ns, choice_.now()};
    awake_.asked(uint32_t(number), now_ns, plain);
    if (by != ReplyBy::fetch) return;
    last_fetched_ = number;
    reads_->plan().asked(now_ns);
}

bool RpcProxy::look(SlotReader& reader, uint64_t now_ns) {
    const bool brought = reads_->look(reader, now_ns);
    if (reads_->take_demand()) demands_send_ = true;
    return brought;
}

void RpcProxy::took(const SlotHead& head, bool fetched, uint64_t last, uint64_t now_ns) {
    awake_.told(head.seen, head.awake_us, now_ns);
    const Left left = std::exchange(left_[head.seen % slots_most], {});
    if (left.at_ns != 0) choice_.measured(left.mode, now_ns - left.at_ns);
    if (fetched)
        reads_->plan().brought(head, now_ns, uint32_t(last) != head.seen, left.at_ns);
    else if (reads_ != nullptr)
        reads_->plan().sent(head, now_ns, left.at_ns);
}

uint64_t RpcProxy::next_read_ns(uint64_t seen) const {
    // Later requests let the node send (J1).
    const bool maybe = last_fetched_ != 0 && last_fetched_ >= seen;
    return maybe || reads_->reads_rest() ? reads_->next_ns() : never_ns;
}

}  // namespace farcached::fabric
