// SPDX-License-Identifier: BSD-3-Clause
// Two workers that share one link to a node (links_per_node = 1): the owner, and the borrower, whose requests travel in letters.
// Most tests run both in one thread, step by step; the last ones run each in its own.
#include <atomic>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "daemon/engine/courier.h"
#include "daemon/engine/mailroom.h"
#include "t/lib/refused_new.h"
#include "t/unit/daemon/links_fixture.h"

namespace {

// While `counts`, the allocation number `refused` of this thread fails, counted from 1; 0: none.
thread_local bool counts = false;
thread_local size_t allocations = 0, refused = 0;

}  // namespace

bool allocation_refused(size_t) { return counts && ++allocations == refused; }

namespace {

using namespace farcached;
using daemon::SubmitResult;
using links_test::PolledWaits;
using links_test::Server;

const std::string large(200'000, 'v');  // in pieces

// Allocations are counted in callbacks only, not in the test's poll().
class CountedWaits final : public daemon::Waits {
  public:
    std::unique_ptr<daemon::Readiness> make_readiness(std::function<void()> ready) override {
        return polled.make_readiness([ready = std::move(ready)] {
            counts = refused != 0;
            ready();
            counts = false;
        });
    }
    PolledWaits polled;
};

class Side {
  public:
    Side(daemon::Nodes& nodes, daemon::Mailroom& room, uint32_t number) : links(nodes, room, number, waits, pool) { links.start(); }

    void tick() {
        waits.polled.run();
        if (links.timer_at_ns() <= boottime_ns()) links.timer_due();
        counts = refused != 0;
        links.end_tick();
        counts = false;
        for (daemon::ReplyQueue* ready : pool.take_ready()) ready->emit(out_);
    }
    bool idle() const { return queue.empty() && other.empty(); }
    std::string answers() {
        const std::string all(out_.data(), out_.size());
        out_.clear(0);
        return all;
    }
    template <class Submit>
    SubmitResult submit(Submit&& submits, bool gets_value = false) {
        const daemon::NoRecord record;
        daemon::ReplySlot& slot = asking->open();
        counts = refused != 0;
        const SubmitResult asked = submits(asking->ticket_of(slot));
        counts = false;
        asking->park(slot, out_, asked == SubmitResult::crowded, gets_value, "", "", record, &write_answer);
        return asked;
    }
    SubmitResult set(std::string_view key, std::string_view value) {
        protocol::StoreOp op;
        op.key = {key, 0};
        op.value = value;
        return submit([&](daemon::Ticket ticket) { return links.ask(op, ticket); });
    }
    SubmitResult get(std::string_view key) {
        protocol::GetOp op;
        op.key = {key, 0};
        return submit([&](daemon::Ticket ticket) { return links.get(links.peers().choose(key), op, {true, true}, ticket); }, true);
    }
    SubmitResult flush() {
        return submit([&](daemon::Ticket ticket) { return links.ask(protocol::FlushOp(), ticket); });
    }
    SubmitResult stats() {
        return submit([&](daemon::Ticket ticket) { return links.ask(protocol::StatsOp(), "", ticket); });
    }

    CountedWaits waits;
    fixture::Talk talk;
    daemon::ReplyPool pool{talk.context};
    daemon::ReplyQueue queue{pool, -1}, other{pool, -1};  // two sessions'
    daemon::ReplyQueue* asking = &queue;
    daemon::Links links;

  private:
    static void write_answer(daemon::ReplySlot& slot, const daemon::ReplyTarget& to) {
        if (!slot.available()) return to.out.append("unavailable ");
        if (const auto* got = std::get_if<protocol::GetReply>(&slot.reply())) {
            if (got->status != protocol::GetReply::Status::hit) return to.out.append("miss ");
            const std::string_view value = slot.value();
            to.out.append(value.size() > 20 ? std::to_string(value.size()) : "=" + std::string(value));
            return to.out.append(" ");
        }
        const auto* stored = std::get_if<protocol::StoreReply>(&slot.reply());
        to.out.append(stored != nullptr && stored->status == protocol::StoreReply::Status::stored ? "stored " : "done ");
    }

    OutBuffer out_;
};

class Shared {
  public:
    explicit Shared(uint32_t timeout_ms = 10'000) {
        settings.links_per_node = 1;
        settings.node_timeout_ms = timeout_ms;
        settings.nodes = {links_test::Desk::spec_of("a", server)};
        conf::MemorySettings memory;
        memory.item_bytes_max = 4 << 20;
        memory.cas = true;
        nodes = std::get<std::unique_ptr<daemon::Nodes>>(daemon::Nodes::make(settings, memory, links_test::Desk::at_home));
        const uint32_t number = daemon::link_owner("a", 1, 2, 0);
        owner = std::make_unique<Side>(*nodes, room, number);
        borrower = std::make_unique<Side>(*nodes, room, 1 - number);
    }
    ~Shared() {
        end(borrower);
        end(owner);
    }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;

    static void end(std::unique_ptr<Side>& side) {
        if (side != nullptr) side->links.stop();
        side.reset();
    }
    void prepare() {
        nodes->use(std::get<std::shared_ptr<const daemon::NodeSet>>(nodes->prepare(settings, links_test::Desk::at_home)));
    }
    void tick() {
        poll(nullptr, 0, 1);
        if (!stands_still) server.serve();
        if (owner != nullptr) owner->tick();
        if (borrower != nullptr) borrower->tick();
    }
    template <class Is>
    bool until(Is is) {
        const uint64_t deadline_ns = boottime_ns() + UINT64_C(20'000'000'000);
        while (!is()) {
            if (boottime_ns() > deadline_ns) return false;
            tick();
        }
        return true;
    }
    bool until_up() {
        return until([&] { return nodes->all()[0].links_up == 1; });
    }
    // All answers of a side, once it has them.
    std::string answers(Side& side) {
        return until([&] { return side.idle(); }) ? side.answers() : "not all";
    }
    uint64_t borrowed() const {
        uint64_t requests = 0;
        nodes->each_link(nodes->all()[0].number, [&](const auto& link, const auto&) { requests += link.requests_borrowed.get(); });
        return requests;
    }

    conf::ProxySettings settings;
    Server server;
    bool stands_still = false;
    daemon::Mailroom room{2};
    std::unique_ptr<daemon::Nodes> nodes;
    std::unique_ptr<Side> owner, borrower;
};

void owners() {
    bool right = true;
    std::set<uint32_t> all;
    for (uint32_t workers = 1; workers <= 9; workers++)
        for (uint32_t links = 0; links <= workers + 1; links++)
            for (const std::string node : {"a", "b", "c", "node-17"}) {
                std::vector<uint32_t> users(workers);
                for (uint32_t worker = 0; worker < workers; worker++) {
                    const uint32_t owner = daemon::link_owner(node, links, workers, worker);
                    right = right && owner < workers && daemon::link_owner(node, links, workers, owner) == owner;
                    users[owner]++;
                    if (workers == 9 && links == 1) all.insert(owner);
                }
                const uint32_t wanted = links == 0 || links >= workers ? workers : links;
                uint32_t owning = 0, least = UINT32_MAX, most = 0;
                for (const uint32_t count : users) {
                    if (count == 0) continue;
                    owning++;
                    least = std::min(least, count);
                    most = std::max(most, count);
                }
                right = right && owning == wanted && most - least <= 1;
            }
    tap::ok(right, "so many workers own a link as are wanted, and the others are spread over them");
    tap::ok(all.size() > 1, "owners of different nodes differ");
}

void numbers() {
    daemon::Numbered<int> things;
    const uint64_t first = things.add(7), second = things.add(8);
    tap::is(things.take(first).value_or(0), 7, "a number names a thing");
    tap::ok(!things.take(first).has_value(), "once");
    const uint64_t third = things.add(9);
    tap::ok(third != first && !things.take(first).has_value(), "and not the next thing in its place");
    int sum = 0;
    things.each([&](uint64_t, int thing) { sum += thing; });
    tap::is(sum, 17, "all are found");
    tap::ok(things.take(second) == 8 && things.take(third) == 9 && things.under_way() == 0, "until they are taken");
}

void values() {
    Shared shared;
    tap::is(shared.borrower->set("early", "1"), SubmitResult::crowded, "before the node is up a borrower's client waits");
    tap::is(shared.answers(*shared.borrower), "stored ", "and is answered then");
    Side &owner = *shared.owner, &borrower = *shared.borrower;
    tap::is(shared.nodes->all()[0].links, 1u, "one link");
    tap::is(borrower.set("k", "1"), SubmitResult::later, "a set over another's link");
    tap::is(shared.answers(borrower), "stored ", "is answered");
    owner.get("k");
    tap::is(shared.answers(owner), "=1 ", "the owner gets it");
    owner.set("k", "2");
    shared.answers(owner);
    borrower.get("k");
    borrower.get("none");
    borrower.set("large", large);
    borrower.get("large");
    tap::is(shared.answers(borrower), "=2 miss stored 200000 ", "values of all sizes travel");
    borrower.stats();
    borrower.flush();
    borrower.get("k");
    tap::is(shared.answers(borrower), "done done miss ", "statistics and flushes, too");
    tap::is(shared.borrowed(), uint64_t(9), "each is counted");
    tap::is(shared.server.node.requests, shared.borrowed() + 2, "and executed once");
}

void order() {
    Shared shared;
    Side& borrower = *shared.borrower;
    shared.until_up();
    shared.stands_still = true;
    borrower.set("k", large);
    for (int i = 0; i < 100; i++) {
        borrower.set("k", std::to_string(i));
        borrower.get("k");
    }
    borrower.asking = &borrower.other;
    borrower.set("k2", "x");
    for (int i = 0; i < 20; i++) shared.tick();
    shared.stands_still = false;
    std::string wanted = "stored ";
    for (int i = 0; i < 100; i++) wanted += "stored =" + std::to_string(i) + " ";
    const std::string got = shared.answers(borrower);
    tap::ok(got == wanted + "stored " || got == "stored " + wanted, "a session's requests take effect in order");
}

void down() {
    Shared shared;
    Side& borrower = *shared.borrower;
    shared.until_up();
    shared.stands_still = true;
    borrower.set("k", "1");
    for (int i = 0; i < 5; i++) shared.tick();
    shared.server.hang_up();
    tap::is(shared.answers(borrower), "unavailable ", "a node goes down: its requests fail");
    tap::ok(shared.until([&] { return borrower.links.peers().choose("k") == nullptr; }), "and the borrower knows");
    borrower.get("k");
    tap::is(borrower.answers(), "", "which");
    tap::is(shared.answers(borrower), "unavailable ", "asks it no more");
    shared.stands_still = false;
    tap::ok(shared.until([&] { return borrower.links.peers().choose("k") != nullptr; }), "until it is back");
    borrower.set("k", "2");
    tap::is(shared.answers(borrower), "stored ", "and serves");
}

void crowded() {
    Shared shared;
    Side& borrower = *shared.borrower;
    shared.until_up();
    shared.stands_still = true;
    const uint32_t enough = daemon::BorrowedLink::requests_max + 10;
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < enough; i++) waiting += borrower.set("k" + std::to_string(i), "v") == SubmitResult::crowded;
    tap::is(waiting, 10u, "above so many requests a client waits");
    shared.stands_still = false;
    const std::string got = shared.answers(borrower);
    tap::ok(got.size() == enough * 7 && got.find("unav") == got.npos, "all are answered");
    shared.stands_still = true;
    size_t bytes = 0;
    while (bytes <= daemon::BorrowedLink::bytes_max && borrower.set("k", large) == SubmitResult::later) bytes += large.size();
    tap::ok(bytes + large.size() > daemon::BorrowedLink::bytes_max, "and above so many bytes");
    shared.stands_still = false;
    tap::ok(shared.answers(borrower).find("unav") == std::string::npos, "they are answered, too");
    tap::is(borrower.set("k", "v"), SubmitResult::later, "then none waits");
    shared.answers(borrower);
}

void late() {
    Shared shared(/* timeout_ms= */ 50);
    Side& borrower = *shared.borrower;
    shared.until_up();
    const uint64_t before = shared.server.node.requests;
    borrower.set("k", "1");
    borrower.links.end_tick();
    const uint64_t past_ns = boottime_ns() + 60'000'000;
    while (boottime_ns() < past_ns) std::this_thread::yield();
    tap::is(shared.answers(borrower), "unavailable ", "a letter that arrives after its deadline fails");
    tap::is(shared.server.node.requests, before, "and is not sent");
}

// The owner's thread does not run: it is not ticked.
void stuck() {
    Shared shared(/* timeout_ms= */ 50);
    shared.until_up();
    Side& borrower = *shared.borrower;
    std::unique_ptr<Side> owner = std::move(shared.owner);
    const uint64_t before = shared.server.node.requests;
    borrower.set("k", "1");
    borrower.get("k");
    tap::is(shared.answers(borrower), "unavailable unavailable ", "an owner that does not run: its borrowers' requests fail");
    const uint64_t past_ns = boottime_ns() + 60'000'000;
    while (boottime_ns() < past_ns) std::this_thread::yield();
    shared.owner = std::move(owner);
    for (int i = 0; i < 20; i++) shared.tick();
    tap::is(shared.server.node.requests, before, "they are not sent afterwards");
    borrower.set("k", "2");
    tap::is(shared.answers(borrower), "stored ", "when it runs again it serves");
    Shared other;
    other.until_up();
    other.stands_still = true;
    other.borrower->set("k", "1");
    for (const uint64_t until_ns = boottime_ns() + 40'000'000; boottime_ns() < until_ns;) other.tick();
    other.stands_still = false;
    tap::is(other.answers(*other.borrower), "stored ", "an owner that runs is waited for");
}

void stops() {
    Shared shared;
    shared.until_up();
    Side& borrower = *shared.borrower;
    shared.stands_still = true;
    borrower.set("k", "1");
    for (int i = 0; i < 5; i++) shared.tick();
    borrower.set("k", "2");
    borrower.links.end_tick();  // in the desk
    borrower.set("k", "3");     // in the outbox
    Shared::end(shared.owner);
    borrower.set("k", "4");
    tap::is(shared.answers(borrower), "unavailable unavailable unavailable unavailable ", "an owner that stops answers all");
    borrower.get("k");
    tap::is(shared.answers(borrower), "unavailable ", "and later ones");

    Shared again;
    again.until_up();
    again.stands_still = true;
    again.borrower->set("k", "1");
    again.tick();
    again.borrower->set("k", "2");
    again.borrower->links.end_tick();
    again.borrower->set("k", "3");
    again.borrower->stats();
    again.borrower->links.stop();
    for (daemon::ReplyQueue* ready : again.borrower->pool.take_ready()) ready->remind();
    again.borrower->tick();
    tap::is(again.borrower->answers(), "unavailable unavailable unavailable done ", "so does a borrower that stops");
    again.borrower.reset();
    again.stands_still = false;
    for (int i = 0; i < 20; i++) again.tick();
    again.owner->get("k");
    tap::is(again.answers(*again.owner), "=3 ", "the owner drops the answers, and goes on");
}

void reloads() {
    Shared shared;
    Side &owner = *shared.owner, &borrower = *shared.borrower;
    shared.until_up();
    shared.stands_still = true;
    borrower.set("k", "1");
    for (int i = 0; i < 5; i++) shared.tick();
    shared.settings.node_timeout_ms = 9000;
    shared.prepare();
    borrower.links.take();
    tap::is(borrower.set("k", "2"), SubmitResult::crowded, "a changed connection waits for the one before");
    for (int i = 0; i < 5; i++) shared.tick();
    owner.links.take();
    shared.settings.node_timeout_ms = 8000;
    shared.prepare();
    owner.links.take();
    borrower.links.take();
    borrower.set("k", "3");
    borrower.get("k");
    shared.stands_still = false;
    tap::is(shared.answers(borrower), "stored stored stored =3 ", "all is answered, in its order");
    tap::ok(shared.until_up() && shared.nodes->all()[0].links == 1, "one link");

    // The borrower is the first to know another node, and the last to ask one that left.
    Server other;
    shared.settings.nodes = {links_test::Desk::spec_of("a", other)};
    shared.prepare();
    borrower.links.take();
    borrower.set("k", "4");
    const bool answered = shared.until([&] {
        other.serve();
        return borrower.idle();
    });
    tap::ok(answered, "an owner takes the set with the node of a letter");
    tap::is(borrower.answers(), "stored ", "and asks it");
    shared.settings.nodes = {links_test::Desk::spec_of("a", shared.server)};
    shared.prepare();
    owner.links.take();
    for (int i = 0; i < 5; i++) owner.tick();
    borrower.get("k");
    shared.until([&] {
        other.serve();
        return borrower.idle();
    });
    tap::is(borrower.answers(), "=4 ", "a node that left is there for its borrowers");
    borrower.links.take();
    borrower.get("k");
    tap::is(shared.answers(borrower), "miss ", "until they have taken the set, too: a node that returns has no old item");
    tap::ok(shared.until([&] { return shared.nodes->all()[0].links_up == 1; }), "then it ends");
}

// The owner knew the node as down when it left. It returns, and the borrower is the first to know.
void node_returns() {
    Shared shared;
    Side &owner = *shared.owner, &borrower = *shared.borrower;
    shared.until_up();
    shared.stands_still = true;
    shared.server.hang_up();
    tap::ok(shared.until([&] { return borrower.links.peers().choose("k") == nullptr; }), "a node is down");
    const auto nodes = shared.settings.nodes;
    Server other;
    shared.settings.nodes = {links_test::Desk::spec_of("b", other)};
    shared.prepare();
    owner.links.take();
    shared.settings.nodes = nodes;
    shared.prepare();
    borrower.links.take();
    shared.stands_still = false;
    tap::ok(borrower.links.peers().choose("k") != nullptr,
            "after it left and returned a borrower does not rely on its former state");
    borrower.set("k", "1");
    tap::is(shared.answers(borrower), "stored ", "the owner connects for it");
}

// Each allocation of a request's way fails once.
void no_memory() {
    Shared shared;
    shared.until_up();
    Side &owner = *shared.owner, &borrower = *shared.borrower;
    borrower.set("key-that-is-not-short-at-all", "0");
    shared.answers(borrower);
    size_t failures = 0, wrong = 0, last = 0;
    for (size_t n = 1; n < 400 && wrong == 0; n++) {
        shared.until([&] { return owner.links.peers().choose("k") != nullptr && borrower.links.peers().choose("k") != nullptr; });
        allocations = 0;
        refused = n;
        for (int i = 0; i < 3; i++) {
            borrower.set("key-that-is-not-short-at-all", large.substr(0, 30 + n));
            borrower.get("key-that-is-not-short-at-all");
        }
        const std::string got = shared.answers(borrower);
        refused = 0;
        const size_t at = got.find("unavailable");
        if (got == "not all" || got.find("miss") != got.npos) wrong = n;
        if (at != got.npos) failures++, last = n;
        if (allocations < n) break;
    }
    tap::is(wrong, 0u, "without memory a request is unavailable, and the next ones are not wrong");
    tap::ok(failures > 5, "some were");
    tap::note("%zu of %zu", failures, last);
    borrower.get("key-that-is-not-short-at-all");
    tap::ok(shared.answers(borrower).find("un") == std::string::npos, "with memory all goes on");
}

// ---- two threads ------------------------------------------------------------------------------------------

struct Work {
    uint32_t sent = 0, answered = 0, unavailable = 0, wrong = 0;
};

// Sets and gets keys of its own, some at once, until it has sent enough.
class Client {
  public:
    Client(Side& side, std::string name) : side_(side), name_(std::move(name)) {}
    bool done(uint32_t enough) const { return work.sent >= enough && side_.idle(); }
    void step(uint32_t enough) {
        take(side_.answers());
        if (!side_.idle() || work.sent >= enough) return;
        for (int i = 0; i < 8; i++) {
            const std::string value = name_ + std::to_string(work.sent);
            side_.asking = i % 2 == 0 ? &side_.queue : &side_.other;
            const std::string key = name_ + std::to_string(i % 2);
            side_.set(key, value);
            side_.get(key);
            wanted_.insert("=" + value);
            work.sent += 2;
        }
    }
    Work work;

  private:
    void take(std::string answers) {
        for (size_t at = 0, end = 0; (end = answers.find(' ', at)) != answers.npos; at = end + 1) {
            const std::string word = answers.substr(at, end - at);
            work.answered++;
            if (word == "unavailable") work.unavailable++;
            if (word[0] == '=' && wanted_.erase(word) == 0) work.wrong++;
        }
    }

    Side& side_;
    const std::string name_;
    std::set<std::string> wanted_;
};

// waits: each serves the other until both are done; else the owner stops first. reloads: so many, during that.
void threads(bool waits, int reloads, const std::string& title) {
    constexpr uint32_t enough = 3000;
    Shared shared;
    shared.until_up();
    std::atomic<int> taken{0};
    std::atomic<bool> owner_done{false};
    Work works[2];
    const auto run = [&](std::unique_ptr<Side>& side, bool is_owner) {
        Client client(*side, is_owner ? "o" : "b");
        std::shared_ptr<const daemon::NodeSet> set = shared.nodes->set();
        const auto step = [&](uint32_t many) {
            if (is_owner) shared.server.serve();
            if (const auto newest = shared.nodes->set(); newest != set) {
                side->links.take();
                set = newest;
                taken++;
            }
            side->tick();
            client.step(many);
        };
        const uint32_t many = is_owner && !waits ? enough / 4 : enough;
        while (!client.done(many)) step(many);
        shared.room.sessions_ended();
        while (waits && !shared.room.all_ended()) step(0);
        side->links.stop();
        side->tick();
        client.step(0);
        works[is_owner] = client.work;
        if (is_owner) owner_done = true;
    };
    std::thread owner([&] { run(shared.owner, true); });
    std::thread borrower([&] { run(shared.borrower, false); });
    for (int i = 0; i < reloads; i++) {
        shared.settings.node_timeout_ms = 10'000 + uint32_t(i);
        const int before = taken;
        shared.prepare();
        while (taken < before + 1 && !owner_done) std::this_thread::yield();
    }
    owner.join();
    borrower.join();
    shared.owner.reset();
    shared.borrower.reset();
    const Work &o = works[1], &b = works[0];
    tap::ok(o.answered == o.sent && b.answered == b.sent, (title + ": every request is answered").c_str());
    tap::ok(o.wrong == 0 && b.wrong == 0, (title + ": with its session's last value").c_str());
    tap::ok(o.unavailable == 0 && (waits ? b.unavailable == 0 : b.unavailable != 0),
            (title + (waits ? ": none fails" : ": those of the borrower fail then")).c_str());
    tap::note("unavailable %u %u of %u %u", o.unavailable, b.unavailable, o.sent, b.sent);
}

}  // namespace

int main() {
    owners();
    numbers();
    values();
    order();
    down();
    crowded();
    late();
    stuck();
    stops();
    reloads();
    node_returns();
    no_memory();
    threads(/* waits= */ true, 0, "two threads");
    threads(/* waits= */ true, 20, "reloads");
    threads(/* waits= */ false, 0, "the owner stops");
    return tap::done();
}
