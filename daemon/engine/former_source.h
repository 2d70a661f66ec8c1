// SPDX-License-Identifier: BSD-3-Clause
// FormerSource: the former owners of keys, as WarmUp's source of items (daemon/engine/former_owner.h).
//
// Owner: a WarmUp; the worker's thread alone.
#pragma once

#include "daemon/engine/engine.h"
#include "daemon/engine/item_source.h"
#include "daemon/engine/reply_queue.h"

namespace farcached::daemon {

class FormerSource final : public ItemSource {
  public:
    // Both outlive this.
    FormerSource(ReplyPool& replies, Context& context) : replies_(replies), context_(context) {}

    bool may_have(std::string_view key) override;
    bool takes_marks() const override { return false; }
    void fetch(std::string_view key, uint64_t number) override;
    // Never called: without marks mutations need no word of the source.
    void change(Change, std::string_view, uint64_t) override {}
    bool complete(protocol::StoreOp& op) override;
    void stop() override { stopped_ = true; }

  private:
    struct Record;
    static void answered(ReplySlot& slot, const ReplyTarget& to);
    void answer(const Record& record, ReplySlot& slot);

    ReplyPool& replies_;
    Context& context_;
    bool stopped_ = false;
};

}  // namespace farcached::daemon
