// SPDX-License-Identifier: BSD-3-Clause
// Fixture of the tests of NodeLink: a clock that only they move, a link, a channel in memory and a node behind it.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "protocol/words.h"
#include "proxy/node_link.h"
#include "t/lib/tap.h"
#include "t/unit/proxy/in_place.h"
#include "t/unit/proxy/link_channel.h"
#include "t/unit/proxy/link_node.h"
#include "t/unit/proxy/pointer_table_fixture.h"

namespace link_test {

// ---- callers ---------------------------------------------------------------------------------------

// Records replies, by ticket.
class Sink final : public proxy::ReplySink {
  public:
    struct Told {
        int times = 0;
        bool failed = false;
        proxy::Failed why;
        protocol::ReplyOp op;
        std::string value;
        bool one_sided = false;
        bool owned = false;
    };
    void answered(proxy::Ticket asked, proxy::Answer& answer) override {
        const uint64_t ticket = uint64_t(asked);
        Told& told = by_ticket[ticket];
        told.times++;
        told.op = answer.op;
        told.value = answer.value;
        told.one_sided = answer.one_sided;
        told.owned = answer.owned != nullptr;
        if (then) then(ticket);
    }
    void failed(proxy::Ticket asked, const proxy::Failed& why) override {
        const uint64_t ticket = uint64_t(asked);
        Told& told = by_ticket[ticket];
        told.times++;
        told.failed = true;
        told.why = why;
        if (then) then(ticket);
    }
    bool has(uint64_t ticket) const { return by_ticket.count(ticket) != 0; }
    Told& operator[](uint64_t ticket) { return by_ticket[ticket]; }
    template <class Reply>
    const Reply& reply(uint64_t ticket) {
        const Reply* reply = std::get_if<Reply>(&by_ticket[ticket].op);
        static const Reply none{};
        return reply != nullptr ? *reply : none;
    }
    bool failed_as(uint64_t ticket, proxy::AskFailure why) {
        const Told& told = by_ticket[ticket];
        return told.times == 1 && told.failed && told.why.why == why;
    }

    std::map<uint64_t, Told> by_ticket;
    std::function<void(uint64_t)> then;
};

// ---- all of it --------------------------------------------------------------------------------------

inline proxy::LinkConfig link_config() {
    proxy::LinkConfig config;
    config.hello.name = "proxy";
    config.hello.host = "host";
    config.host_zero_ns = int64_t(start_ns - 100 * second);
    config.seed = 7;
    return config;
}

class World final : public proxy::LinkEvents {
  public:
    enum class Ways { none, without_table, all };
    World(const proxy::LinkConfig& config, bool one_sided)
        : World(config, one_sided ? Ways::all : Ways::none) {}
    explicit World(const proxy::LinkConfig& config = link_config(), Ways ways = Ways::all)
        : table_(ways == Ways::all ? table_test::open(table_test::options(name_, 1024)) : nullptr),
          landing_(1 << 22) {
        proxy::NodeLink::Dependencies deps{
            [this](fabric::ChannelEvents& events) { return make(events); }, [this] { return now_ns; }, *this, table_.get(),
            ways != Ways::none ? &landing_ : nullptr, &lending_, &shortcut};
        node.lent_memory = [this](uint64_t offset) { return lending_.data() + offset; };
        link = std::make_unique<proxy::NodeLink>(config, deps);
    }
    ~World() override {
        link->stop(now_ns);
        link.reset();
        if (landing_.lent_bytes() != 0) tap::ok(false, "all landing buffers came back");
        if (lending_.lent_bytes() != 0) tap::ok(false, "and all that was lent");
    }

    // Starts and greets.
    void start() {
        link->start(now_ns);
        pump();
    }
    void advance(uint64_t ns) {
        now_ns += ns;
        link->tick(now_ns);
    }
    // Runs all events that need no time to pass.
    void pump(bool complete_reads = true) {
        for (int round = 0; round < 200; round++) {
            const size_t before = progress();
            while (link->flush(now_ns)) {}
            if (wire && wire->alive) node.serve(*wire, now_ns);
            if (complete_reads && wire && wire->alive) complete_all();
            link->ready(now_ns);
            while (link->flush(now_ns)) {}
            if (progress() == before) return;
        }
    }
    // Carries out the posted reads now, and completes them.
    void complete_all() {
        while (!wire->posted.empty()) complete(0);
    }
    void complete(size_t which, fabric::ReadStatus status = fabric::ReadStatus::done) {
        carry_out(wire->posted[which]);
        wire->completed.push_back({wire->posted[which].token, status});
        wire->posted.erase(wire->posted.begin() + long(which));
    }
    void carry_out(const fabric::ReadRequest& request) {
        const uint64_t region = node.cache->view().header->region_bytes;
        if (fabric::inside(request.ptr, region))
            std::memcpy(request.landing, node.cache->view().base + request.ptr.offset, request.ptr.length);
    }

    proxy::AskOptions options(uint64_t ticket, uint64_t within_ns = second) const {
        proxy::AskOptions with;
        with.ticket = proxy::Ticket(ticket);
        with.deadline_ns = now_ns + within_ns;
        return with;
    }
    static protocol::GetOp get_op(std::string_view key) {
        protocol::GetOp op;
        op.key = {key, 0};
        op.lease = true;
        return op;
    }
    static protocol::StoreOp set_op(std::string_view key, std::string_view value) {
        protocol::StoreOp op;
        op.key = {key, 0};
        op.value = value;
        op.lease = true;
        return op;
    }
    proxy::AskResult get(uint64_t ticket, std::string_view key, uint64_t within_ns = second) {
        proxy::AskOptions with = options(ticket, within_ns);
        with.session = session;
        with.one_sided = true;
        return link->requests().get(get_op(key), with, sink, now_ns);
    }
    proxy::AskResult set(uint64_t ticket, std::string_view key, std::string_view value,
                         uint64_t within_ns = second) {
        proxy::AskOptions with = options(ticket, within_ns);
        with.session = session;
        if (link->up() && link->requests().value_follows(set_op(key, value)))
            with.value = std::make_shared<std::string>(value);
        protocol::StoreOp op = set_op(key, value);
        if (with.value) op.value = *std::static_pointer_cast<const std::string>(with.value);
        return link->requests().ask(op, with, sink);
    }
    // A get that the node has and does not answer.
    void get_unanswered(uint64_t ticket, std::string_view key) {
        node.hold = true;
        get(ticket, key);
        link->flush(now_ns);
    }
    // The link receives these frames, as if from the node.
    void hear(OutBuffer& said) {
        wire->to_proxy.append(said.data(), said.size());
        said.clear(0);
        link->ready(now_ns);
    }
    void hear_goodbye(protocol::Goodbye reason, std::string_view text) {
        OutBuffer out;
        protocol::append_goodbye(out, reason, text);
        hear(out);
    }
    // Gets the value under a key; empty: a miss.
    std::string fetch(std::string_view key) {
        const uint64_t ticket = tickets++;
        get(ticket, key);
        pump();
        return sink[ticket].value;
    }
    bool store(std::string_view key, std::string_view value) {
        const uint64_t ticket = tickets++;
        set(ticket, key, value);
        pump();
        return !sink[ticket].failed &&
               sink.reply<protocol::StoreReply>(ticket).status == protocol::StoreReply::Status::stored;
    }
    // Stores and touches it until this side holds a pointer.
    void hold_pointer(std::string_view key, std::string_view value) {
        store(key, value);
        fetch(key);
    }
    // ---- the item behind the key's pointer ----
    in_place::Place place(std::string_view key) { return {node.cache->check_secret(), pointer(key)->ptr.offset}; }
    uint64_t* slot(std::string_view key) {
        return const_cast<uint64_t*>(
            reinterpret_cast<const uint64_t*>(node.cache->view().base + pointer(key)->ptr.offset));
    }
    // Another item of the key in the same slot: the stores by which a node writes it, to be carried out.
    in_place::Stores write_in_place(std::string_view key, std::string_view value, uint32_t exptime = never_expires) {
        layout::ItemHeader header;
        std::memcpy(&header, slot(key), sizeof header);
        const in_place::Item item{std::string(key), std::string(value), header.cas + 1, header.flags, exptime};
        const uint64_t generation = layout::Guard{header.guard}.generation();
        in_place::Stores stores;
        in_place::die(stores, generation);
        in_place::come_to_life(stores, in_place::words_of(item, generation + layout::partitions_max, place(key)));
        return stores;
    }
    static void carry_out(const in_place::Stores& stores, uint64_t* slot) {
        for (const in_place::Store& store : stores) words::store_relaxed(slot + store.word, store.value);
    }
    const proxy::LinkCounters& counters() const { return link->counters(); }
    uint64_t hash(std::string_view key) const { return hash_key(key, node.cache->view().hash_seed); }
    std::optional<fabric::LeasedPtr> pointer(std::string_view key) {
        const auto found = table_->find(hash(key), node.incarnation, now_ns);
        if (found.found != proxy::PointerTable::Found::hit) return std::nullopt;
        return found.leased;
    }
    proxy::PointerTable& table() { return *table_; }
    const table_test::Name& table_name() const { return name_; }
    fabric::BufferPool& landing() { return landing_; }
    fabric::BufferPool& lending() { return lending_; }

    // proxy::LinkEvents
    void watch(int) override { watching++; }
    void unwatch(int) override { watching--; }
    void came_up() override { ups++; }
    void went_down(proxy::LinkDown why, const std::string& text) noexcept override {
        downs.push_back({why, text});
    }
    void shortcut_failed(const std::string& text) noexcept override { failed_shortcuts.push_back(text); }
    void knows_newer_list(uint64_t epoch) override { newer_lists.push_back(epoch); }
    void room() override { rooms++; }
    proxy::Requests* find_node(uint64_t incarnation) override { return find ? find(incarnation) : nullptr; }
    void elsewhere_ended() noexcept override { elsewhere_ends++; }

    uint64_t now_ns = start_ns;
    FakeNode node;
    std::shared_ptr<Wire> wire;  // of the latest connection
    std::function<void(Wire&)> prepare;  // each new wire
    bool no_channel = false;
    bool has_shortcut = false;
    proxy::Shortcut shortcut;
    std::vector<std::string> failed_shortcuts;
    std::vector<uint64_t> newer_lists;  // epochs
    Sink sink;
    uint64_t tickets = 1'000'000;
    uint64_t session = 0;  // that get() and set() are of
    int watching = 0, ups = 0, rooms = 0, connections = 0, elsewhere_ends = 0;
    std::function<proxy::Requests*(uint64_t incarnation)> find;  // another link
    std::vector<std::pair<proxy::LinkDown, std::string>> downs;

  private:
    table_test::Name name_;
    std::unique_ptr<proxy::PointerTable> table_;
    fabric::BufferPool landing_;
    fabric::BufferPool lending_{size_t(1) << 19};

  public:
    std::unique_ptr<proxy::NodeLink> link;

  private:
    Result<std::unique_ptr<fabric::Channel>> make(fabric::ChannelEvents& events) {
        shortcut.taken = has_shortcut && !shortcut.failed;
        if (no_channel) return system_problem("no more descriptors");
        connections++;
        wire = std::make_shared<Wire>();
        wire->region_bytes = node.cache->view().header->region_bytes;
        if (prepare) prepare(*wire);
        node.forget_connection();
        return std::make_unique<MemoryChannel>(wire, events);
    }
    size_t progress() const {
        size_t sum = node.requests + node.frames + sink.by_ticket.size() + size_t(ups) + downs.size() + size_t(connections);
        for (const auto& [ticket, told] : sink.by_ticket) sum += size_t(told.times);
        if (wire) sum += wire->to_node.size() * 3 + wire->to_proxy.size() * 5 + wire->posts + wire->connected;
        if (wire) sum += size_t(INT64_MAX - wire->events_left) * 7;
        if (wire) sum += wire->node_written.size() * 11 + wire->proxy_written.size() * 13;
        return sum;
    }
};

}  // namespace link_test
