// SPDX-License-Identifier: BSD-3-Clause
// GET GETQ GETK GETKQ, TOUCH, GAT GATQ GATK GATKQ.
//
// Header and value are written directly into the output, and committed only if the read is a hit.
#include <algorithm>
#include <cstring>

#include "daemon/commands/binary_engine.h"
#include "daemon/commands/cluster_list.h"

namespace farcached::daemon::binary {

namespace {

using protocol::BinaryParse;
using protocol::BinaryReply;
using protocol::BinaryRequest;
using protocol::BinaryStatus;
using protocol::BinaryVerb;
using protocol::Miss;

constexpr size_t flags_bytes = 4;  // the extras of a hit

// A hit under construction behind the end of `out`. Not committed before finish().
class HitReply {
  public:
    HitReply(OutBuffer& out, const BinaryRequest& request) : out_(out), request_(request) {}

    // Meta: fabric::ReadMeta or protocol::ItemMeta. Returns the value's destination, if the reply has one. lent: without room
    // for the value.
    template <class Meta>
    char* begin(const Meta& meta, bool lent = false) {
        const bool with_value = request_.verb != BinaryVerb::touch;
        BinaryReply reply = reply_to(request_);
        reply.cas = meta.cas;
        reply.extras_bytes = flags_bytes;
        reply.key_bytes = request_.with_key ? uint16_t(request_.key.size()) : 0;
        reply.value_bytes = with_value ? meta.value_len : 0;
        bytes_ = protocol::binary_header_bytes + flags_bytes + reply.key_bytes + (lent ? 0 : reply.value_bytes);
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

// Quiet requests have no reply to a miss; others get "Not found", or the key if requested.
void answer_miss(OutBuffer& out, const BinaryRequest& request) {
    if (request.quiet) return;
    if (!request.with_key) return answer_error(out, request, BinaryStatus::not_found);
    BinaryReply reply = reply_to(request);
    reply.status = BinaryStatus::not_found;
    answer(out, reply, request.key, "");
}

class GetCompletion {
  public:
    GetCompletion(const ReplyTarget& to, std::string_view, const BinaryRequest& request, std::string_view)
        : to_(to), request_(request), hit_(to.out, request) {}
    bool wants_value() const { return request_.verb != BinaryVerb::touch; }
    template <class ItemSeen>
    bool sends(const ItemSeen&) const {
        return true;
    }
    template <class ItemSeen>
    char* value_at(const ItemSeen& meta) {
        return hit_.begin(meta);
    }
    void value_lent(const protocol::ItemMeta& meta, BorrowedBytes&& value) {
        hit_.begin(meta, /* lent= */ true);
        hit_.finish();
        to_.out.append(std::move(value));
        lent_ = true;
    }
    void refused() { answer_error(to_.out, request_, BinaryStatus::no_memory); }
    void done(const protocol::GetReply& reply) {
        if (reply.status != protocol::GetReply::Status::hit) return miss(reply.why);
        hit();
    }
    void hit() {
        if (!lent_) hit_.finish();
        ClassCounters& counters = class_counters(to_.context, hit_.size_class());
        (touching() ? counters.touch_hits : counters.get_hits).add(1);
        note_get(to_.context, to_.fd, request_.key, Miss::none, hit_.size_class(), hit_.value_len());
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
        count_miss(to_.context, why);
        answer_miss(to_.out, request_);
        note_get(to_.context, to_.fd, request_.key, why, hit_.size_class(), hit_.value_len());
    }

    ReplyTarget to_;
    const BinaryRequest& request_;
    HitReply hit_;
    bool lent_ = false;  // and written
};

void write_list(Call& call, const BinaryRequest& request, const ClusterList& list) {
    protocol::ItemMeta meta;
    meta.cas = list->version;
    meta.value_len = uint32_t(list->text.size());
    HitReply reply(call.out, request);
    std::memcpy(reply.begin(meta), list->text.data(), list->text.size());
    reply.finish();
}

// True: the key stood for the list of the cluster, a hit without a size class.
bool answer_list(Call& call, const BinaryRequest& request) {
    const ClusterList list = cluster_list_at(call.context, request.key);
    if (list == nullptr) [[likely]] return false;
    write_list(call, request, list);
    class_counters(call.context, 0).get_hits.add(1);
    note_get(call.context, call.session.fd, request.key, Miss::none, 0, uint32_t(list->text.size()));
    return true;
}

void run_one(Call& call, const BinaryRequest& request, const protocol::Key& key) {
    if (request.verb == BinaryVerb::get) {
        if (answer_list(call, request)) return;
        ask_plain_get<GetCompletion>(call, key, /* tokens_matter= */ false, request);
        return;
    }
    protocol::GetOp op;
    op.key = key;
    op.touch = call.context.seconds(request.exptime);
    ask_get<GetCompletion>(call, op, request);
}

// The gets of one pipeline, prefetched together before the first is read.
struct Window {
    static constexpr uint32_t size_max = proxy::LocalGet::prefetch_window;
    struct Entry {
        BinaryRequest request;
        size_t bytes;
        protocol::Key key;
    };
    Entry entries[size_max];
    uint32_t size = 0;

    void add(const Context& context, const BinaryParse& parse) {
        entries[size++] = {parse.request, parse.head_bytes, context.router.key(parse.request.key)};
    }
    void fetch(const Context& context) const {
        protocol::Key keys[size_max];
        for (uint32_t i = 0; i < size; i++) keys[i] = entries[i].key;
        context.router.expect({keys, size});
    }
};

// Adds the gets that follow directly. Other or incomplete requests are left to the loop.
void look_ahead(Window& window, const Context& context, std::string_view input, uint32_t most) {
    while (window.size < most && !input.empty()) {
        const BinaryParse next = protocol::parse_binary(input);
        if (next.status != BinaryParse::Status::request) return;
        if (next.request.verb != BinaryVerb::get) return;
        window.add(context, next);
        input.remove_prefix(next.head_bytes);
    }
}

}  // namespace

void run_gets(Call& call, const BinaryParse& first, uint32_t most) {
    Context& context = call.context;
    // A single request needs no window.
    if (call.input.size() == first.head_bytes) {
        run_one(call, first.request, context.router.key(first.request.key));
        call.consume(first.head_bytes);
        context.counters.get_cmds.add(1);
        call.progress.requests++;
        return;
    }
    Window window;
    window.add(context, first);
    look_ahead(window, context, call.input.substr(first.head_bytes), std::min(most, Window::size_max));
    if (window.size > 1) window.fetch(context);
    uint32_t done = 0;
    do {
        const Window::Entry& entry = window.entries[done++];
        run_one(call, entry.request, entry.key);
        call.consume(entry.bytes);
    } while (done < window.size && !call.no_room());
    context.counters.get_cmds.add(done);
    call.progress.requests += done;
}

void run_config_get(Call& call, const BinaryRequest& request) {
    const ClusterList list = cluster_list(call.context);
    if (list == nullptr) return answer_error(call.out, request, BinaryStatus::unknown_command);
    if (request.key != cluster_name) return answer_error(call.out, request, BinaryStatus::not_found);
    call.context.counters.cmd_config_get.add(1);
    write_list(call, request, list);
}

void run_touch(Call& call, const BinaryRequest& request) {
    call.context.counters.cmd_touch.add(1);
    run_one(call, request, call.context.router.key(request.key));
}

}  // namespace farcached::daemon::binary
