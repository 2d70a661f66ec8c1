// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/batch.h"

#include <cstring>

#include "base/check.h"

namespace farcached::node {

void Execution::Batch::reply_text(uint32_t tag, std::string_view text) {
    CHECK(text.size() <= protocol::stats_bytes_max);
    const bool follows = replies.must_follow(sizeof(protocol::ReplyHeader), text.size());
    SentValues::Value apart;
    if (follows) {
        apart = sent_.reserve(text.size());
        if (apart.bytes == nullptr) return refuse(tag, protocol::RequestRefusal::no_memory);
        std::memcpy(apart.bytes.get(), text.data(), text.size());
    }
    replies.add_stats(tag, text);
    if (follows) send_later(tag, std::move(apart));
}

void Execution::Batch::refuse(uint32_t tag, protocol::RequestRefusal why) {
    connection_.counters.requests_refused.add(1);
    replies.add(protocol::RefusedReply{why}, node::reply_to(tag));
}

// The text or value is already announced.
void Execution::Batch::send_later(uint32_t tag, SentValues::Value value) {
    in_flight_.defer(sequence);
    sent_.send({sequence, tag}, std::move(value));
}

}  // namespace farcached::node
