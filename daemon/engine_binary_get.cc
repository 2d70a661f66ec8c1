// SPDX-License-Identifier: BSD-3-Clause
// GET GETQ GETK GETKQ, TOUCH, GAT GATQ GATK GATKQ.
//
// A get is first tried without a lock; header and value go straight into the output, and are committed only
// if the read proves a hit. Everything else is asked again under the lock.
#include <cstring>

#include "daemon/engine_binary.h"

namespace farcached::daemon::binary {

namespace {

using protocol::BinaryParse;
using protocol::BinaryReply;
using protocol::BinaryRequest;
using protocol::BinaryStatus;
using protocol::BinaryVerb;
using protocol::Miss;

constexpr size_t flags_bytes = 4;  // the extras of a hit

// A hit being written behind the end of `out`. Nothing of it counts until finish().
class HitReply {
  public:
    HitReply(OutBuffer& out, const BinaryRequest& request) : out_(out), request_(request) {}

    // Meta: fabric::ReadMeta or protocol::ItemMeta. Returns where the value goes, if it is part of the reply.
    template <class Meta>
    char* begin(const Meta& meta) {
        const bool with_value = request_.verb != BinaryVerb::touch;
        BinaryReply reply = reply_to(request_);
        reply.cas = meta.cas;
        reply.extras_bytes = flags_bytes;
        reply.key_bytes = request_.with_key ? uint16_t(request_.key.size()) : 0;
        reply.value_bytes = with_value ? meta.value_len : 0;
        bytes_ = protocol::binary_header_bytes + flags_bytes + reply.key_bytes + reply.value_bytes;
        char* at = protocol::write_binary_header(out_.reserve(bytes_), reply);
        at = protocol::write_big_endian(at, meta.flags);
        std::memcpy(at, request_.key.data(), reply.key_bytes);
        size_class_ = meta.size_class;
        value_len_ = meta.value_len;
        return with_value ? at + reply.key_bytes : nullptr;
    }
    void finish() { out_.commit(bytes_); }
    uint8_t size_class() const { return size_class_; }
    uint32_t value_len() const { return value_len_; }

  private:
    OutBuffer& out_;
    const BinaryRequest& request_;
    size_t bytes_ = 0;
    uint8_t size_class_ = 0;
    uint32_t value_len_ = 0;
};

// Call only if gets_are_told().
[[gnu::noinline]] void tell_get(Context& context, int fd, const BinaryRequest& request, Miss why, const HitReply& reply) {
    if (context.options.detail_enabled) context.admin.detail_get(request.key, why == Miss::none);
    watch_get(context, fd, request.key, why, reply.size_class(), reply.value_len());
}

// A miss is silent when it may be; the others say "Not found", or the key if that was asked for.
void answer_miss(OutBuffer& out, const BinaryRequest& request) {
    if (request.quiet) return;
    if (!request.with_key) return answer_error(out, request, BinaryStatus::not_found);
    BinaryReply reply = reply_to(request);
    reply.status = BinaryStatus::not_found;
    answer(out, reply, request.key, "");
}

// get, touch and gat under the lock, or elsewhere.
class GetHalf {
  public:
    GetHalf(const Answering& to, std::string_view, const BinaryRequest& request, std::string_view)
        : to_(to), request_(request), hit_(to.out, request) {}
    bool wants_value() const { return request_.verb != BinaryVerb::touch; }
    char* value_at(const protocol::ItemMeta& meta) { return hit_.begin(meta); }
    void done(const protocol::GetReply& reply) {
        if (reply.status != protocol::GetReply::Status::hit) return miss(reply.why);
        hit_.finish();
        ClassCounters& counters = class_counters(to_.context, hit_.size_class());
        (touching() ? counters.touch_hits : counters.get_hits).add(1);
        if (gets_are_told(to_.context)) [[unlikely]]
            tell_get(to_.context, to_.fd, request_, Miss::none, hit_);
    }
    void unavailable() {
        if (request_.verb == BinaryVerb::touch) return answer_unavailable(to_, request_);
        to_.context.counters.get_unavailable.add(1);
        if (!to_.context.options.unavailable_is_error) return miss(Miss::absent);
        answer_error(to_.out, request_, BinaryStatus::temporary_failure);
    }

  private:
    bool touching() const { return request_.verb != BinaryVerb::get; }
    void miss(Miss why) {
        WorkerCounters& counters = to_.context.counters;
        (touching() ? counters.touch_misses : counters.get_misses).add(1);
        if (why == Miss::expired) counters.get_expired.add(1);
        if (why == Miss::flushed) counters.get_flushed.add(1);
        answer_miss(to_.out, request_);
        if (gets_are_told(to_.context)) [[unlikely]]
            tell_get(to_.context, to_.fd, request_, why, hit_);
    }

    Answering to_;
    const BinaryRequest& request_;
    HitReply hit_;
};

void run_locked(Call& call, const BinaryRequest& request, const protocol::Key& key) {
    const bool touching = request.verb != BinaryVerb::get;
    protocol::GetOp op;
    op.key = key;
    if (touching) op.touch = call.context.seconds(request.exptime);
    if (touching) call.context.record_accesses();
    ask_get<GetHalf>(call, op, /* plain= */ !touching, request);
}

void run_get(Call& call, const BinaryRequest& request, const protocol::Key& key) {
    Context& context = call.context;
    if (context.backend != nullptr) [[unlikely]]
        return run_locked(call, request, key);
    note_local(context, key.bytes);
    if (context.local.accesses_full()) [[unlikely]]
        context.record_accesses();
    HitReply hit(call.out, request);
    auto sink = [&](const fabric::ReadMeta& meta) { return hit.begin(meta); };
    fabric::Outcome outcome = context.local.read(key.bytes, key.hash, context.now,
                                                 /* tokens_matter= */ false,
                                                 /* count_access= */ true, sink);
    if (outcome != fabric::Outcome::hit) return run_locked(call, request, key);
    hit.finish();
    class_counters(context, hit.size_class()).get_hits.add(1);
    if (gets_are_told(context)) [[unlikely]]
        tell_get(context, call.session.fd, request, Miss::none, hit);
}

// The gets of one pipeline, so that the memory of all is on its way before the first is read.
struct Window {
    static constexpr uint32_t size_max = proxy::LocalGet::prefetch_window;
    struct Entry {
        BinaryRequest request;
        size_t bytes;
        protocol::Key key;
    };
    Entry entries[size_max];
    uint32_t size = 0;

    void add(const proxy::LocalGet& local, const BinaryParse& parse) {
        const std::string_view key = parse.request.key;
        entries[size++] = {parse.request, parse.head_bytes, {key, local.hash(key)}};
    }
    void fetch(const proxy::LocalGet& local) const {
        for (uint32_t i = 0; i < size; i++) local.prefetch_bucket(entries[i].key.hash);
        for (uint32_t i = 0; i < size; i++) local.prefetch_item(entries[i].key.hash);
    }
};

// The gets that follow at once. What else follows, or is not whole, is left to the loop.
void look_ahead(Window& window, const proxy::LocalGet& local, std::string_view input,
                uint32_t most) {
    while (window.size < most && !input.empty()) {
        const BinaryParse next = protocol::parse_binary(input);
        if (next.status != BinaryParse::Status::request) return;
        if (next.request.verb != BinaryVerb::get) return;
        window.add(local, next);
        input.remove_prefix(next.head_bytes);
    }
}

}  // namespace

void run_gets(Call& call, const BinaryParse& first, uint32_t most) {
    Context& context = call.context;
    // One request, one reply, or nothing to fetch: no window to set up.
    if (call.input.size() == first.head_bytes || context.backend != nullptr) {
        run_get(call, first.request, context.key(first.request.key));
        call.consume(first.head_bytes);
        context.counters.get_cmds.add(1);
        call.progress.requests++;
        return;
    }
    Window window;
    window.add(context.local, first);
    look_ahead(window, context.local, call.input.substr(first.head_bytes),
               most < Window::size_max ? most : Window::size_max);
    if (window.size > 1) window.fetch(context.local);
    uint32_t done = 0;
    do {
        const Window::Entry& entry = window.entries[done++];
        run_get(call, entry.request, entry.key);
        call.consume(entry.bytes);
    } while (done < window.size && call.out.size() < out_bytes_soft_max);
    context.counters.get_cmds.add(done);
    call.progress.requests += done;
}

void run_touch(Call& call, const BinaryRequest& request) {
    call.context.counters.cmd_touch.add(1);
    run_locked(call, request, call.context.key(request.key));
}

}  // namespace farcached::daemon::binary
