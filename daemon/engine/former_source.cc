// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/former_source.h"

#include "daemon/engine/links.h"

namespace farcached::daemon {

struct FormerSource::Record {
    FormerSource* source;
    uint64_t number;
    NodeSeconds began;
};

bool FormerSource::may_have(std::string_view key) {
    Links& links = context_.router.links();
    return links.former().open() && links.former_of(key) != nullptr;
}

void FormerSource::fetch(std::string_view key, uint64_t number) {
    Links& links = context_.router.links();
    LinkPeer* const peer = links.former_of(key);
    if (peer == nullptr) return sink_->source_answered(number, /* ok= */ true, nullptr);
    protocol::GetOp op;
    op.key = {key, 0};
    op.take = true;
    const Ticket ticket = replies_.open_own(/* session= */ 0, Record{this, number, context_.now}, &FormerSource::answered);
    links.take_from(*peer, op, ticket);
}

void FormerSource::answered(ReplySlot& slot, const ReplyTarget&) {
    const Record record = slot.record<Record>();
    record.source->answer(record, slot);
}

void FormerSource::answer(const Record& record, ReplySlot& slot) {
    if (stopped_) return;
    if (!slot.available()) return sink_->source_answered(record.number, /* ok= */ false, nullptr);
    const auto& reply = std::get<protocol::GetReply>(slot.reply());
    if (reply.status != protocol::GetReply::Status::hit) return sink_->source_answered(record.number, /* ok= */ true, nullptr);
    Item item{slot.value(), reply.meta.flags, -1, reply.meta.cas, reply.meta.key_binary};
    if (reply.meta.exptime != never_expires) item.ttl_s = seconds_since(record.began, reply.meta.exptime);
    sink_->source_answered(record.number, /* ok= */ true, &item);
}

bool FormerSource::complete(protocol::StoreOp& op) {
    FormerOwner& former = context_.router.links().former();
    if (!former.open()) return false;
    op.mode = protocol::StoreOp::Mode::add;
    op.arrival = true;
    op.cas_compare = former.change();
    return true;
}

}  // namespace farcached::daemon
