// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/reply_gatherer.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"

namespace farcached::daemon {

namespace {

// False: no memory.
bool keep_text(std::string& kept, std::string_view text) {
    try {
        kept = text;
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

}  // namespace

// One request: the reply of each node.
struct ReplyGatherer::Gather {
    class Part final : public proxy::ReplySink {
      public:
        explicit Part(ReplyGatherer& gatherer) : gatherer_(gatherer) {}
        void answered(Ticket ticket, proxy::Answer& answer) override {
            ok = keep_text(text, answer.value);
            gatherer_.one_ended(ticket);
        }
        void failed(Ticket ticket, const proxy::Failed& failed) override {
            is_old = failed.refusal == protocol::RequestRefusal::old_list;
            if (is_old) gatherer_.shared_.nodes.list_is_old();
            gatherer_.one_ended(ticket);
        }

        std::shared_ptr<OneNode> node;
        bool ok = false, is_old = false;
        std::string text;

      private:
        ReplyGatherer& gatherer_;
    };
    bool stats;
    uint32_t unanswered;
    std::vector<Part> parts;
};

ReplyGatherer::ReplyGatherer(LinkShared& shared) : shared_(shared) {}

ReplyGatherer::~ReplyGatherer() = default;

template <class Op>
SubmitResult ReplyGatherer::gather(Op op, Peers peers, const proxy::AskOptions& options, bool stats) {
    std::vector<Gather::Part> parts(peers.size(), Gather::Part(*this));
    // One unanswered: this call.
    const auto [at, is_new] = gathers_.emplace(options.ticket, Gather{stats, /* unanswered= */ 1, std::move(parts)});
    CHECK(is_new);
    Gather& gather = at->second;
    bool crowded = false;
    for (size_t i = 0; i < peers.size(); i++) {
        LinkPeer& peer = *peers[i];
        gather.parts[i].node = peer.shared_node();
        if (!peer.reachable()) continue;
        gather.unanswered++;
        crowded |= peer.ask(op, options, gather.parts[i]) == SubmitResult::crowded;
    }
    one_ended(options.ticket);
    return crowded ? SubmitResult::crowded : SubmitResult::later;
}

template SubmitResult ReplyGatherer::gather(protocol::FlushOp, Peers, const proxy::AskOptions&, bool);
template SubmitResult ReplyGatherer::gather(protocol::CopiesOp, Peers, const proxy::AskOptions&, bool);

SubmitResult ReplyGatherer::ask_stats(const protocol::StatsOp& op, std::string_view name, Peers peers,
                                      const proxy::AskOptions& options) {
    if (name.empty()) return gather(op, peers, options, /* stats= */ true);
    for (size_t i = 0; i < peers.size(); i++)
        if (peers[i]->node().name == name) return gather(op, peers.subspan(i, 1), options, /* stats= */ true);
    shared_.pool.answer(options.ticket, protocol::StatsReply());
    return SubmitResult::later;
}

void ReplyGatherer::one_ended(Ticket ticket) {
    const auto at = gathers_.find(ticket);
    CHECK(at != gathers_.end());
    if (--at->second.unanswered != 0) return;
    const auto taken = gathers_.extract(at);  // keeps the part that called
    const Gather& done = taken.mapped();
    if (done.stats) return answer_stats(ticket, done);
    if (std::ranges::any_of(done.parts, &Gather::Part::is_old)) return shared_.pool.unavailable(ticket, list_is_old);
    if (!std::ranges::all_of(done.parts, &Gather::Part::ok)) return shared_.pool.unavailable(ticket);
    shared_.pool.answer(ticket, protocol::DoneReply());
}

void ReplyGatherer::answer_stats(Ticket ticket, const Gather& done) {
    try {
        std::string shown;
        for (const Gather::Part& part : done.parts) {
            shown += part.node->name + " " + (part.ok ? std::to_string(part.text.size()) : "-") + "\n";
            shown += part.text;
        }
        shared_.pool.answer(ticket, protocol::StatsReply(), shown);
    } catch (const std::bad_alloc&) {
        shared_.pool.unavailable(ticket);
    }
}

}  // namespace farcached::daemon
