// SPDX-License-Identifier: BSD-3-Clause
// DiskGets: a worker's gets whose values are on the embedded node's disk (node/store/away_gets.h). Their replies wait in the
// sessions' ReplyQueues.
//
// Owner: a Worker's thread, from its start to its end. The node and the ReplyPool outlive it.
#pragma once

#include <memory>

#include "daemon/engine/engine.h"
#include "daemon/engine/readiness.h"
#include "daemon/engine/reply_queue.h"
#include "node/store/away_gets.h"

namespace farcached::daemon {

class DiskGets {
  public:
    // Throws std::bad_alloc and std::system_error.
    DiskGets(node::Node& node, Waits& waits, ReplyPool& replies, Context& context)
        : context_(context),
          gets_(
              node,
              [&replies](const node::AwayGets::Done& done) {
                  if (done.reply.status == protocol::GetReply::Status::no_memory)
                      replies.unavailable(Ticket(done.asker), "no memory for a value from the disk");
                  else
                      replies.answer(Ticket(done.asker), done.reply, done.value, nullptr, Way::disk);
              },
              [&replies](uint64_t asker) { return replies.is_awaited(Ticket(asker)); }),
          ready_(waits.make_readiness([this] { ready(); })) {}
    DiskGets(const DiskGets&) = delete;
    DiskGets& operator=(const DiskGets&) = delete;

    ~DiskGets() { ready_->stop(); }

    void start() { ready_->await(gets_.fd(), /* writable= */ false); }
    // As AwayGets::get().
    void get(Ticket ticket, std::string_view key, const protocol::GetReply& reply, const node::Place& place) {
        context_.counters.get_extstore.add(1);
        gets_.get(uint64_t(ticket), key, reply, place);
    }

  private:
    void ready() {
        gets_.ready(context_.now);
        context_.counters.miss_from_extstore.set(gets_.lost());
        context_.counters.get_oom_extstore.set(gets_.refused());
    }

    Context& context_;
    node::AwayGets gets_;
    std::unique_ptr<Readiness> ready_;
};

}  // namespace farcached::daemon
