// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/item_source.h"

#include <algorithm>

namespace farcached::daemon {

void MemcachedSource::fetch(std::string_view key, uint64_t number) { gets_.ask(SourceLink::Kind::get, key, number); }

void MemcachedSource::change(Change what, std::string_view key, uint64_t number) {
    changes_.ask(what == Change::flush ? SourceLink::Kind::flush : SourceLink::Kind::remove, key, number);
}

void MemcachedSource::source_answered(uint64_t number, bool ok, const protocol::SourceReply& reply) noexcept {
    if (!ok || reply.status != protocol::SourceReply::Status::item) return sink_->source_answered(number, ok, nullptr);
    const Item item{reply.value, reply.flags, reply.ttl_s};
    sink_->source_answered(number, ok, &item);
}

void MemcachedSource::end_tick() {
    gets_.end_tick();
    changes_.end_tick();
}

uint64_t MemcachedSource::timer_at_ns() const { return std::min(gets_.timer_at_ns(), changes_.timer_at_ns()); }

void MemcachedSource::timer_due() {
    gets_.timer_due();
    changes_.timer_due();
}

void MemcachedSource::stop() {
    gets_.stop();
    changes_.stop();
}

}  // namespace farcached::daemon
