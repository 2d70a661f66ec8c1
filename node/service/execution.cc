// SPDX-License-Identifier: BSD-3-Clause
#include "node/service/execution.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <variant>

#include "base/broken.h"
#include "node/service/batch.h"
#include "node/service/request_effects.h"
#include "node/store/away_items.h"
#include "node/store/shared_keys.h"
#include "protocol/frame_writer.h"

namespace farcached::node {

using protocol::FrameError;
using protocol::FrameStep;
using protocol::NodeRequest;
using protocol::RequestOptions;
using protocol::RequestRefusal;

void Execution::clear() {
    sent_.clear();
    received_.clear();
    partial_flushes_.clear();
    waits_.clear();
    gets_away_.clear();
}

// ---- frames of requests -------------------------------------------------------------------------------

Execution::Verdict Execution::requests(protocol::Frame frame) {
    const auto bad = [](FrameError error) { return Verdict{ServiceEnd::bad_frame, error}; };
    if (halted()) {
        frame.body = frame.body.substr(frame.body.size() - halted_.bytes);
        frame.count = halted_.requests;
        halted_ = {};
    } else {
        if (const FrameError error = in_flight_.open(frame.sequence); error != FrameError::none) return bad(error);
        counters_.request_frames.add(1);
    }
    const NodeReading now = connection_.shared.clock();
    connection_.seat.used(now.seconds);
    connection_.shared.flushes.due(now.seconds);
    Batch batch(connection_, in_flight_, sent_, frame.sequence, now);
    protocol::RequestReader reader(frame, connection_.limits);
    FrameStep step = FrameStep::entry;
    bool goes_on = true;
    while (goes_on && step == FrameStep::entry) {
        step = ahead_.look(reader, node_.view());
        goes_on = execute_ahead(batch);
    }
    batch.replies.end();
    if (!goes_on) return batch.verdict;
    if (step == FrameStep::bad) return bad(reader.error());
    in_flight_.answered(frame.sequence);
    return {};
}

// Executes in order. False: the frame stays unfinished, because the connection ends or its replies must be sent first (E3).
bool Execution::execute_ahead(Batch& batch) {
    for (RequestsAhead::Request& next : ahead_.read()) {
        NodeRequest& request = next.request;
        SubleaseWaits::Change change;
        const bool allowed = connection_.may(request.op);
        if (!allowed) counters_.auth_refused_requests.add(1);
        const bool may_halt = allowed && batch.serves && !request.options.value_follows;
        if (!may_halt || !waits_.halt_for(request.op, change)) execute(batch, request);
        if (waits_.halts_frame()) {  // the request was not replied to
            halted_ = next.from;
            return false;
        }
        counters_.requests.add(1);
        if (batch.verdict.end != ServiceEnd::count) return false;
        if (next.left.requests == 0 || may_parse()) continue;
        halted_ = next.left;
        return false;
    }
    return true;
}

void Execution::execute(Batch& batch, NodeRequest& request) {
    if (request.options.value_follows) return announce(batch, request);
    const auto refused = [&](RequestRefusal why) {
        waits_.flush_over();
        batch.refuse(request.options.tag, why);
    };
    if (connection_.stopping) return refused(RequestRefusal::stopping);
    if (!connection_.may(request.op)) return refused(RequestRefusal::not_allowed);
    const bool needs_right = !std::holds_alternative<protocol::StatsOp>(request.op);
    if (needs_right && !batch.serves) return refused(batch.no_right());
    std::visit(
        [&](auto& op) {
            if constexpr (requires { op.key; }) {
                if (connection_.chosen_by_old_list(op.key.bytes, !changes_item(op))) return run_old(batch, request.options.tag, op);
                if (recorder_ != nullptr) recorder_->hand(op.key.bytes);
                broken::fail_if_named(op.key.bytes);
            }
            if constexpr (std::is_same_v<std::decay_t<decltype(op)>, protocol::FlushOp>) {
                if (connection_.chosen_by_old_list(op)) {
                    counters_.requests_old_list.add(1);
                    return refused(RequestRefusal::old_list);
                }
            }
            run(batch, request.options, op);
        },
        request.op);
}

// Of a key that has another home. The item was deleted here when the key moved, or hidden from this list. The items of a node that
// leaves are gone, too, but a proxy that keeps copies can ask the other node (Links::ask_copy_instead()).
template <class Op>
void Execution::run_old(Batch& batch, uint32_t tag, const Op& op) {
    counters_.requests_old_list.add(1);
    if constexpr (std::is_same_v<Op, protocol::GetOp>)
        if (!op.touch && !op.vivify) {
            const bool has_copy = connection_.keeps_copies && connection_.shared.list.is_leaving();
            if (has_copy) return batch.refuse(tag, RequestRefusal::stopping);
            return batch.replies.add(protocol::GetReply(), reply_to(tag));
        }
    batch.refuse(tag, RequestRefusal::old_list);
}

bool Execution::send_piece() {
    if (sent_.empty()) return false;
    if (const std::optional<uint64_t> whole = sent_.send_piece()) in_flight_.answered(*whole);
    return true;
}

// ---- operations ---------------------------------------------------------------------------------------

// Copies the value from the node's memory, under the partition's lock.
void Execution::run(Batch& batch, const RequestOptions& options, protocol::GetOp& op) {
    op.lease = batch.wants_lease(options) && batch.may_grant();
    if (connection_.role == protocol::AuthRole::reader) op.win_tokens = false;  // it may not refill the item
    Batch::Hit hit = Batch::hit_to(options.tag, options.want_grant);
    auto sink = [&](const protocol::ItemMeta& meta) -> char* {
        return options.no_value ? nullptr : batch.room_for(hit, meta.value_len);
    };
    if (op.moved_since.has_value()) {
        counters_.get_moved.add(1);
        const protocol::GetReply moved = node_.shared_keys().get_moved(op, batch.now, sink);
        if (moved.status == protocol::GetReply::Status::hit) counters_.get_moved_hits.add(1);
        return batch.reply(hit, moved);
    }
    Place away{};
    Place* const to_read = gets_away_.possible() ? &away : nullptr;
    const protocol::GetReply got = node_.get(op, batch.now, sink, /* lent= */ nullptr, to_read);
    const bool found = got.status == protocol::GetReply::Status::hit;
    if (got.status == protocol::GetReply::Status::miss && waits_.halt_for_miss(op.key)) return;
    counters_.cmd_get.add(1);
    (found ? counters_.get_hits : counters_.get_misses).add(1);
    if (away != Place{} && !options.no_value) {
        const bool want_grant = options.want_grant && !op.touch.has_value();  // the next touch would wait for its end
        return gets_away_.get({batch.sequence, options.tag}, want_grant, op.key.bytes, got, away);
    }
    if (found) {
        batch.grant(hit.with, got.grant, got.denied);
    }
    batch.reply(hit, got);
}

void Execution::value_came(const RequestId& id, bool want_grant, const AwayGets::Done& done) {
    late_replies_ = true;
    gets_away_.came();
    get_over(id, want_grant, done);
}

// The value of a get that was executed in an earlier step. The item has no lease (node/items/stub.h, T2), but its value may have.
void Execution::get_over(const RequestId& id, bool want_grant, const AwayGets::Done& done) {
    const protocol::GetReply& got = done.reply;
    const std::string_view value = done.value;
    if (got.status == protocol::GetReply::Status::miss && waits_.postpone_miss(id, done.key)) return;
    Batch batch(connection_, in_flight_, sent_, id.sequence, connection_.shared.clock());
    std::optional<protocol::Grant> granted;
    if (want_grant && batch.may_grant() && done.leased != nullptr && connection_.limits.version >= protocol::version_with_spilled)
        granted = node_.away().sublease(node_.key(done.key), done.place, *done.leased, connection_.shared.steady_ns(), batch.now);
    // The proxy reads it on another node, whose right is not this one's (S17).
    if (granted.has_value()) granted->term_ms = std::min(granted->term_ms, batch.right_ms.value_or(UINT32_MAX));
    Batch::Hit hit = Batch::hit_to(id.tag, want_grant, granted.has_value());
    switch (got.status) {
        case protocol::GetReply::Status::hit:
            batch.grant(hit.with, granted, granted.has_value() ? protocol::LeaseDenial::none : got.denied);
            if (char* const to = batch.room_for(hit, uint32_t(value.size()))) value.copy(to, value.size());
            [[fallthrough]];
        case protocol::GetReply::Status::miss: batch.reply(hit, got); break;
        case protocol::GetReply::Status::no_memory: batch.refuse(id.tag, RequestRefusal::no_memory); break;
    }
    if (got.status == protocol::GetReply::Status::miss) counters_.get_value_lost.add(1);
    batch.replies.end();
    in_flight_.answered(id.sequence);
}

void Execution::run(Batch& batch, const RequestOptions& options, protocol::StoreOp& op) {
    op.lease = batch.wants_lease(options) && batch.may_grant();
    store(batch, options.tag, op);
}

void Execution::store(Batch& batch, uint32_t tag, protocol::StoreOp op) {
    counters_.cmd_set.add(1);
    if (op.moved_since.has_value() && !connection_.shared.list.has_had_keys_since(batch.epoch)) op.moved_since = 0;  // E4
    const protocol::StoreReply reply = node_.store(op, batch.now);
    if (has_moved(batch, tag, op.key, reply.status == protocol::StoreReply::Status::stored)) return;
    batch.replies.add(reply, batch.reply_to(tag, reply));
}

void Execution::run(Batch& batch, const RequestOptions& options, protocol::DeleteOp& op) {
    counters_.cmd_delete.add(1);
    const protocol::DeleteReply reply = node_.remove(op, batch.now);
    if (!has_moved(batch, options.tag, op.key, /* wrote= */ false)) batch.replies.add(reply, reply_to(options.tag));
}

void Execution::run(Batch& batch, const RequestOptions& options, protocol::ArithOp& op) {
    op.lease = batch.wants_lease(options) && batch.may_grant();
    counters_.cmd_arith.add(1);
    const protocol::ArithReply reply = node_.arith(op, batch.now);
    using Status = protocol::ArithReply::Status;
    if (has_moved(batch, options.tag, op.key, reply.status == Status::ok || reply.status == Status::vivified)) return;
    batch.replies.add(reply, batch.reply_to(options.tag, reply));
}

void Execution::run(Batch& batch, const RequestOptions& options, protocol::ForgetOp& op) {
    counters_.cmd_forget.add(1);
    node_.forget(op.key, batch.now);
    batch.replies.add(protocol::DoneReply(), reply_to(options.tag));
}

void Execution::run(Batch& batch, const RequestOptions& options, protocol::FlushOp& op) {
    using Begun = PartialFlushes::Begun;
    const RequestId id{batch.sequence, options.tag};
    Begun begun = Begun::not_partly;
    if (!op.prefix.empty()) {
        counters_.cmd_delete_prefix.add(1);
        begun = partial_flushes_.by_prefix(id, op.prefix);
    } else if (!op.kept.empty()) {
        begun = partial_flushes_.all_but(id, op.kept, batch.now);
    }
    if (begun == Begun::not_partly) {
        counters_.cmd_flush.add(1);
        FlushSchedule& flushes = connection_.shared.flushes;
        op.at.has_value() ? flushes.schedule(*op.at, batch.now) : flushes.flush(batch.now);
    }
    waits_.flush_over();
    switch (begun) {
        case Begun::runs: batch.defer(); break;  // walk() replies
        case Begun::no_memory: batch.refuse(id.tag, RequestRefusal::no_memory); break;
        case Begun::done:
        case Begun::not_partly: batch.replies.add(protocol::DoneReply(), reply_to(id.tag)); break;
    }
}

void Execution::walk() {
    if (partial_flushes_.empty() || !may_send()) return;
    const NodeReading now = connection_.shared.clock();
    const std::optional<PartialFlushes::Over> over = partial_flushes_.go_on(now.seconds);
    if (!over.has_value()) return;
    Batch batch(connection_, in_flight_, sent_, over->id.sequence, now);
    if (over->no_memory)
        batch.refuse(over->id.tag, RequestRefusal::no_memory);
    else
        batch.replies.add(protocol::DoneReply(), reply_to(over->id.tag));
    batch.replies.end();
    in_flight_.answered(over->id.sequence);
}

void Execution::run(Batch& batch, const RequestOptions& options, protocol::StatsOp& op) {
    counters_.cmd_stats.add(1);
    std::string text;
    if (!connection_.shared.stats.append(op.group, batch.now, text))
        return batch.refuse(options.tag, RequestRefusal::stats_unknown);
    batch.reply_text(options.tag, text);
}

void Execution::sublease_ended() {
    late_replies_ = true;
    for (size_t left = waits_.ended(); left > 0; left--) {
        SubleaseWaits::Postponed postponed = waits_.take();
        if (postponed.is_miss) {
            get_over(postponed.id, /* want_grant= */ false, {0, protocol::GetReply(), {}, postponed.key});
            continue;
        }
        postponed.op.key = node_.key(postponed.key);
        postponed.op.value = postponed.value;
        value_over(postponed.id, {ReceivedValues::Ended::How::whole, {}, postponed.op, postponed.epoch});
    }
}

// ---- stores whose value follows -------------------------------------------------------------------------

void Execution::announce(Batch& batch, const NodeRequest& request) {
    using Announced = ReceivedValues::Announced;
    switch (received_.announce({batch.sequence, request.options.tag}, request, batch.wants_lease(request.options))) {
        case Announced::waits: batch.defer(); return;
        case Announced::too_many: batch.verdict.end = ServiceEnd::no_memory; return;
        case Announced::repeated: batch.verdict = {ServiceEnd::bad_frame, FrameError::request_repeated}; return;
        case Announced::over_budget: batch.verdict.end = ServiceEnd::over_budget; return;
    }
}

FrameError Execution::chunk(const protocol::Frame& frame) {
    return received_.chunk(frame, [this](const auto& id, const auto& ended) { value_over(id, ended); });
}

FrameError Execution::lent(const protocol::Frame& frame) {
    return received_.lent(frame, [this](const auto& id, const auto& ended) { value_over(id, ended); });
}

FrameError Execution::read_done(uint64_t token, fabric::ReadStatus status) {
    return received_.read_done(token, status, [this](const auto& id, const auto& ended) { value_over(id, ended); });
}

void Execution::value_over(const RequestId& id, const ReceivedValues::Ended& ended) {
    using How = ReceivedValues::Ended::How;
    const NodeReading now = connection_.shared.clock();
    connection_.shared.flushes.due(now.seconds);
    Batch batch(connection_, in_flight_, sent_, id.sequence, now);
    batch.epoch = ended.epoch;
    SubleaseWaits::Change change;
    protocol::StoreReply too_large;
    too_large.status = protocol::StoreReply::Status::too_large;
    switch (ended.how) {
        case How::abandoned: batch.refuse(id.tag, RequestRefusal::abandoned); break;
        case How::too_large: batch.replies.add(too_large, reply_to(id.tag)); break;
        case How::refused: batch.refuse(id.tag, ended.refusal); break;
        case How::whole:
            if (!batch.serves)
                batch.refuse(id.tag, batch.no_right());
            else if (connection_.shared.list.moved_away(ended.epoch, ended.op.key.bytes, /* reads= */ false))
                run_old(batch, id.tag, ended.op);
            else if (waits_.postpone(id, ended.op, ended.epoch, change))
                return batch.replies.end();
            else
                store(batch, id.tag, ended.op);
            break;
    }
    batch.replies.end();
    in_flight_.answered(id.sequence);
}

}  // namespace farcached::node
