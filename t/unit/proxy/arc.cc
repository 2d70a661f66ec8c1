// SPDX-License-Identifier: BSD-3-Clause
// The classifier of keys that are read one-sided, against a model of it: the pseudo code of FAST '03 over std::list,
// and picks computed from the history of all reports. After each access the lists are equal, element by element.
#include <algorithm>
#include <cmath>
#include <functional>
#include <list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "proxy/arc.h"
#include "proxy/unseen.h"
#include "t/lib/tap.h"

using namespace farcached;
using protocol::ItemAccess;
using proxy::Arc;

namespace {

// ---- the model ----------------------------------------------------------------------------------------

using Keys = std::list<uint64_t>;  // the most recently used first

class Model {
  public:
    explicit Model(uint64_t c) : c_(c) {}

    void access(const ItemAccess& item) {
        const uint64_t x = item.hash;
        if (in(t1, x) || in(t2, x)) {  // case I
            t1.remove(x);
            t2.remove(x);
            t2.push_front(x);
        } else if (in(b1, x)) {  // case II
            const uint64_t delta = b1.size() >= b2.size() ? 1 : b2.size() / b1.size();
            p = std::min(p + delta, c_);
            replace(x);
            b1.remove(x);
            t2.push_front(x);
        } else if (in(b2, x)) {  // case III
            const uint64_t delta = b2.size() >= b1.size() ? 1 : b1.size() / b2.size();
            p = p > delta ? p - delta : 0;
            replace(x);
            b2.remove(x);
            t2.push_front(x);
        } else {  // case IV
            unknown(x);
        }
        Known& known = items[x];
        if (known.item.offset != item.offset) {
            dropped += known.item.count;
            known = {item, {}};
        } else {
            const bool later = int16_t(uint16_t(item.generation_tag - known.item.generation_tag)) > 0;
            if (known.item.count == 0 || later) known.item.generation_tag = item.generation_tag;
            known.item.count += item.count;
        }
    }

    void forget(uint64_t x) {
        for (Keys* list : {&t1, &t2, &b1, &b2}) list->remove(x);
        lose(x);
    }

    // The reported keys: number of accesses and latest generation of each.
    using Told = std::map<uint64_t, std::pair<uint32_t, uint16_t>>;
    Told pick(size_t m) {
        pick_number++;
        std::vector<uint64_t> l1 = candidates(t1), l2 = candidates(t2);
        size_t of_l2 = std::min(l2.size(), (m + 1) / 2);
        const size_t of_l1 = std::min(l1.size(), m - of_l2);
        of_l2 = std::min(l2.size(), m - of_l1);
        l1.resize(of_l1);
        l2.resize(of_l2);
        Told told;
        for (const auto* from : {&l1, &l2})
            for (const uint64_t x : *from) {
                Known& known = items[x];
                told[x] = {known.item.count, known.item.generation_tag};
                known.item.count = 0;
                known.told_in.push_back(pick_number);
            }
        return told;
    }

    void drop_all() {
        while (!items.empty()) lose(items.begin()->first);
        *this = [this] {
            Model fresh(c_);
            fresh.dropped = dropped;
            return fresh;
        }();
    }

    bool resting(uint64_t x) const {
        const std::vector<uint64_t>& told = items.at(x).told_in;
        if (told.size() < 8 || pick_number - told.back() > 8) return false;
        size_t run = 1;
        while (run < told.size() && told[told.size() - run - 1] == told.back() - run) run++;
        return run == 8;
    }
    uint64_t untold() const {
        uint64_t sum = 0;
        for (const auto& [x, known] : items) sum += known.item.count;
        return sum;
    }

    Keys t1, t2, b1, b2;
    uint64_t p = 0;
    uint64_t dropped = 0;
    uint64_t pick_number = 0;

  private:
    struct Known {
        ItemAccess item{};
        std::vector<uint64_t> told_in;  // numbers of picks
    };

    static bool in(const Keys& list, uint64_t x) { return std::find(list.begin(), list.end(), x) != list.end(); }

    void unknown(uint64_t x) {
        const uint64_t l1 = t1.size() + b1.size(), l2 = t2.size() + b2.size();
        if (l1 == c_) {
            if (t1.size() < c_) {
                b1.pop_back();
                replace(x);
            } else {
                lose(t1.back());
                t1.pop_back();
            }
        } else if (l1 + l2 >= c_) {
            if (l1 + l2 == 2 * c_) b2.pop_back();
            replace(x);
        }
        t1.push_front(x);
    }

    void replace(uint64_t x) {
        if (t1.size() + t2.size() < c_) return;  // only after forget()
        const bool first = !t1.empty() && (t1.size() > p || (in(b2, x) && t1.size() == p));
        Keys& from = first ? t1 : t2;
        const uint64_t y = from.back();
        from.pop_back();
        (first ? b1 : b2).push_front(y);
        lose(y);
    }

    void lose(uint64_t x) {
        auto at = items.find(x);
        if (at == items.end()) return;
        dropped += at->second.item.count;
        items.erase(at);
    }

    std::vector<uint64_t> candidates(const Keys& list) const {
        std::vector<uint64_t> found;
        for (const uint64_t x : list)
            if (items.at(x).item.count != 0 && !resting(x)) found.push_back(x);
        return found;
    }

    uint64_t c_;
    std::map<uint64_t, Known> items;  // of t1 and t2
};

// ---- both, side by side -------------------------------------------------------------------------------

Keys listed(const Arc& arc, Arc::List list) {
    Keys keys;
    arc.each(list, [&](uint64_t key_hash) { keys.push_back(key_hash); });
    return keys;
}

struct Both {
    explicit Both(uint32_t c) : arc(c), model(c) {}

    void access(uint64_t key, uint64_t place = 1, uint32_t count = 1, uint16_t tag = 1) {
        const ItemAccess item{hash_key(std::to_string(key), 5), 64 * key + 16 * place, count, 0, tag};
        dropped += arc.access(item);
        model.access(item);
        noted += count;
        compare();
    }
    void forget(uint64_t key) {
        const uint64_t x = hash_key(std::to_string(key), 5);
        dropped += arc.forget(x);
        model.forget(x);
        compare();
    }
    void drop_all() {
        dropped += arc.drop_all();
        model.drop_all();
        compare();
    }
    void pick(uint32_t m) {
        Model::Told told;
        const uint64_t before = arc.steps();
        const uint32_t picked = arc.pick(m, [&](const ItemAccess& item) {
            told[item.hash] = {item.count, item.generation_tag};
            sent += item.count;
        });
        if (arc.steps() - before > arc.size(Arc::List::t1) + arc.size(Arc::List::t2)) different++;
        if (told != model.pick(m) || told.size() != picked) different++;
        picks += picked != 0;
        for (const auto& one : told) times_told[one.first]++;
        compare();
    }
    void compare() {
        if (listed(arc, Arc::List::t1) != model.t1 || listed(arc, Arc::List::t2) != model.t2) different++;
        if (listed(arc, Arc::List::b1) != model.b1 || listed(arc, Arc::List::b2) != model.b2) different++;
        if (arc.target() != model.p || dropped != model.dropped) different++;
        if (compared++ % 61 == 0) {
            arc.check();
            if (noted != sent + dropped + model.untold()) different++;
        }
    }

    Arc arc;
    Model model;
    uint64_t noted = 0, sent = 0, dropped = 0;
    uint64_t compared = 0, different = 0, picks = 0;
    std::map<uint64_t, int> times_told;
};

// ---- sequences ----------------------------------------------------------------------------------------

using Random = std::mt19937_64;
using Next = std::function<uint64_t(Random&)>;

Next uniform(uint64_t keys) {
    return [keys](Random& random) { return random() % keys; };
}

Next zipf(uint64_t keys) {
    std::vector<double> upto;
    double sum = 0;
    for (uint64_t k = 1; k <= keys; k++) upto.push_back(sum += std::pow(double(k), -0.99));
    return [upto, sum](Random& random) {
        const double at = std::uniform_real_distribution<>(0, sum)(random);
        return uint64_t(std::lower_bound(upto.begin(), upto.end(), at) - upto.begin());
    };
}

// A loop over slightly more keys than fit.
Next scan(uint64_t keys) {
    return [keys, at = uint64_t(0)](Random&) mutable { return at++ % keys; };
}

// A few hot keys among keys that occur once.
Next polluted(uint64_t hot) {
    return [hot, once = UINT64_C(1) << 40](Random& random) mutable {
        return random() % 3 == 0 ? random() % hot : once++;
    };
}

// The largest moves of the target: scans of c keys, each read again just after it has become a ghost, and sets of keys
// that are read twice and left.
Next adversarial(uint64_t c) {
    return [c, n = uint64_t(0)](Random& random) mutable {
        const uint64_t phase = n / (4 * c) % 4, at = n % (4 * c);
        n++;
        switch (phase) {
            case 0: return at % (c + 1);
            case 1: return 1'000'000 + at / 2 % (c + 1);
            case 2: return at % 2 == 0 ? at % (2 * c) : 1'000'000 + random() % (2 * c);
            default: return 2'000'000 + at % (c + c / 2 + 1);
        }
    };
}

void run(const std::string& title, uint32_t c, Next next, int accesses, bool interfered) {
    Random random(c * 977 + uint64_t(accesses));
    Both both(c);
    uint64_t ghosts = 0;
    uint32_t target_most = 0;
    for (int i = 0; i < accesses; i++) {
        const uint64_t key = next(random);
        both.access(key, interfered ? 1 + random() % 64 / 63 : 1, 1 + uint32_t(random() % 8 / 7), uint16_t(random() >> 40));
        if (interfered && random() % 16 == 0) both.forget(next(random));
        if (interfered && random() % 20'000 == 0) both.drop_all();
        if (random() % (2 * c) == 0) both.pick(uint32_t(1 + random() % (c + 1)));
        ghosts += both.arc.size(Arc::List::b1) + both.arc.size(Arc::List::b2) != 0;
        target_most = std::max(target_most, both.arc.target());
    }
    both.arc.check();
    tap::is(both.different, 0u, title + ", capacity " + std::to_string(c) + ": the same as the model");
    tap::ok(both.picks > 0, "picks were made");
    tap::note("%d accesses, %zu ended in t2, target up to %u, ghosts after %llu", accesses, both.model.t2.size(),
              target_most, static_cast<unsigned long long>(ghosts));
}

void sequences() {
    for (const uint32_t c : {1u, 2u, 3u, 7u, 40u}) {
        for (const bool interfered : {false, true}) {
            const std::string more = interfered ? ", keys forgotten and moved" : "";
            run("random" + more, c, uniform(3 * c), 12'000, interfered);
            run("zipf" + more, c, zipf(20 * c), 12'000, interfered);
            run("scan" + more, c, scan(c + 1 + c / 3), 6'000, interfered);
            run("hot and once" + more, c, polluted(c / 2 + 1), 10'000, interfered);
            run("adversarial" + more, c, adversarial(c), 10'000, interfered);
        }
    }
    run("zipf", 200, zipf(5000), 20'000, false);
}

// ---- what it is for -----------------------------------------------------------------------------------

std::vector<ItemAccess> picked(Arc& arc, uint32_t m) {
    std::vector<ItemAccess> told;
    arc.pick(m, [&](const ItemAccess& item) { told.push_back(item); });
    return told;
}

ItemAccess item(uint64_t hash, uint64_t place = 1, uint32_t count = 1, uint16_t tag = 1) {
    return {hash, 64 * hash + 16 * place, count, 0, tag};
}

// A key overwritten in place keeps its state; the latest generation is reported.
void overwritten() {
    Arc arc(16);
    std::string told;
    for (uint16_t report = 0; report < 20; report++) {
        arc.access(item(1, 1, 1, uint16_t(65'530 + report)));
        const std::vector<ItemAccess> now = picked(arc, 4);
        told += now.empty() ? '-' : now[0].count == 1 ? '1' : now[0].count == 9 ? '9' : '?';
    }
    tap::is(told, "11111111--------9111", "other generations in the same place rest as one");
    Arc mixed(16);
    for (const int tag : {3, 5, 4}) mixed.access(item(1, 1, 1, uint16_t(tag)));
    mixed.access(item(2, 1, 1, 65'535));
    mixed.access(item(2, 1, 1, 2));
    std::map<uint64_t, ItemAccess> of;
    for (const ItemAccess& one : picked(mixed, 4)) of[one.hash] = one;
    tap::ok(of.at(1).count == 3 && of.at(1).generation_tag == 5,
            "accesses to several generations are reported together, of the latest");
    tap::ok(of.at(2).count == 2 && of.at(2).generation_tag == 2, "by serial arithmetic");
    mixed.access(item(1, 1, 1, 6));
    mixed.take_back(of.at(1));
    const std::vector<ItemAccess> again = picked(mixed, 4);
    tap::ok(again.size() == 1 && again[0].count == 4 && again[0].generation_tag == 6, "also what is taken back");
    mixed.access(item(1, 1, 1, 4));
    tap::ok(picked(mixed, 4).at(0).generation_tag == 4, "accesses reported before no longer count");
}

// A key whose lease would end does not rest.
void urgent() {
    Arc arc(16);
    bool ends = false;
    std::string told;
    for (int report = 0; report < 24; report++) {
        for (const uint64_t hash : {1, 2}) arc.access(item(hash));
        ends = report % 3 == 2;
        std::string now = "-";
        const auto tell = [&](const ItemAccess& one) { now = now == "-" ? std::to_string(one.hash) : "+"; };
        arc.pick(4, tell, /* again= */ false, [&](const ItemAccess& one) { return one.hash == 1 && ends; });
        told += now;
    }
    tap::is(told.substr(0, 8), "++++++++", "two items are reported");
    tap::is(told.substr(8, 8), "1--1--1-", "then they rest, except an item while it is urgent");
    tap::ok(told[16] == '2' && told[17] == '+', "this one rests on, while the other is reported again");
}

void resting() {
    Arc arc(16);
    std::string told;
    for (int report = 0; report < 30; report++) {
        arc.access(item(1));
        const std::vector<ItemAccess> now = picked(arc, 4);
        told += now.empty() ? '-' : now[0].count == 1 ? '1' : now[0].count == 9 ? '9' : '?';
    }
    tap::is(told, "11111111--------91111111------", "after 8 reports in a row an item rests for 8, and nothing of it is lost");
    tap::is(arc.untold(), 1u, "and its last access stays to be reported");

    Arc again(16);
    for (int report = 0; report < 8; report++) {
        again.access(item(1));
        picked(again, 4);
    }
    again.access(item(1));
    tap::is(picked(again, 4).size(), 0u, "another that rests");
    tap::is(again.access(item(1, 2)), 1u, "moves: unreported accesses to the old place are dropped");
    tap::is(picked(again, 4).size(), 1u, "and the new place is reported at once");
    again.forget(1);
    again.access(item(1, 2));
    tap::is(picked(again, 4).size(), 1u, "so is what was forgotten and came back");

    Arc breaks(16);
    size_t reports = 0;
    for (int report = 0; report < 40; report++) {
        if (report % 8 != 7) breaks.access(item(1));
        reports += picked(breaks, 4).size();
    }
    tap::is(reports, 35u, "an item that misses a report begins again, and never rests");
}

// A pick that was not sent is repeated, as if it had not been picked.
void taken_back() {
    Arc arc(4);
    for (uint64_t hash = 1; hash <= 3; hash++) arc.access(item(hash, 1, 5));
    std::vector<ItemAccess> told = picked(arc, 4);
    arc.access(item(2));
    for (const ItemAccess& record : told) tap::is(arc.take_back(record), 0u, "taken back");
    arc.check();
    told = picked(arc, 4);
    uint64_t sum = 0;
    for (const ItemAccess& record : told) sum += record.count;
    tap::ok(told.size() == 3 && sum == 16, "it is reported again, with the accesses since");
    arc.access(item(1, 2));
    tap::is(arc.take_back(item(1, 1, 5)), 5u, "not of an item that went elsewhere");
    arc.forget(3);
    tap::is(arc.take_back(item(3, 1, 5)), 5u, "nor of one that was forgotten");
    for (uint64_t hash = 10; hash < 14; hash++) arc.access(item(hash));
    tap::is(arc.take_back(item(10, 1, 7)), 7u, "nor of a ghost");
    tap::is(arc.take_back(item(99, 1, 7)), 7u, "nor of what is not even that");
    arc.check();

    Arc vain(4);
    std::string in_vain;
    for (int report = 0; report < 20; report++) {
        vain.access(item(1));
        const std::vector<ItemAccess> now = picked(vain, 4);
        in_vain += now.empty() ? '-' : '+';
        if (!now.empty()) vain.take_back(now[0]);
    }
    tap::is(in_vain, std::string(20, '+'), "picks in vain are none in a row");
}

// One pick in several pieces.
void again() {
    Arc arc(8);
    std::string told;
    for (int report = 0; report < 20; report++) {
        for (uint64_t hash = 1; hash <= 3; hash++) arc.access(item(hash));
        size_t items = picked(arc, 2).size();
        arc.access(item(3));
        items += arc.pick(4, [](const ItemAccess&) {}, /* again= */ true);
        told += char('0' + items);
    }
    arc.check();
    tap::is(told.substr(0, 8), "44444443", "the second piece has the rest and the accesses since, unless they rest");
    tap::is(told.substr(8, 8), "00000000", "pieces count as one pick: all rest after eight");
}

void halves() {
    Arc arc(64);
    for (uint64_t key = 1; key <= 20; key++) arc.access(item(key));
    for (uint64_t key = 11; key <= 20; key++) arc.access(item(key));
    std::string order;
    for (const ItemAccess& one : picked(arc, 5)) order += std::to_string(one.hash) + " ";
    tap::is(order, "20 10 19 9 18 ", "the most recent of either list in turns");
    order.clear();
    arc.access(item(20));
    for (const ItemAccess& one : picked(arc, 20)) order += std::to_string(one.hash) + " ";
    tap::is(order, "20 8 17 7 16 6 15 5 14 4 13 3 12 2 11 1 ", "then items accessed again, and those without room before");
    tap::is(arc.untold(), 0u, "nothing is left to report");
    tap::is(picked(arc, 20).size(), 0u, "then no item");
    arc.access(item(30));
    arc.access(item(31));
    tap::is(picked(arc, 2).size(), 2u, "what one list lacks the other fills");
    tap::is(picked(arc, 0).size(), 0u, "none of none");

    Arc full(1);
    full.access(item(1, 1, UINT32_MAX));
    tap::is(full.access(item(1, 1, 5)), 5u, "a count does not wrap around");
    tap::is(full.access(item(2)), UINT32_MAX, "an item that leaves takes its count along");
    tap::is(full.drop_all(), 1u, "and so do all at the end");
    full.check();
}

// A scan of many keys does not evict keys that were read more than once.
void scanned() {
    Arc arc(100);
    for (int round = 0; round < 3; round++)
        for (uint64_t key = 0; key < 50; key++) arc.access(item(key));
    for (uint64_t key = 1000; key < 101'000; key++) arc.access(item(key));
    std::set<uint64_t> often;
    arc.each(Arc::List::t2, [&](uint64_t key_hash) { often.insert(key_hash); });
    tap::is(often.size(), 50u, "after a scan t2 is what it was");
    tap::ok(*often.rbegin() == 49, "key by key");
}

// ---- steps --------------------------------------------------------------------------------------------

struct Steps {
    double mean;
    uint64_t most;
};

Steps steps(uint32_t c, Next next, uint64_t accesses) {
    Random random(c);
    Arc arc(c);
    uint64_t most = 0;
    for (uint64_t i = 0; i < accesses; i++) {
        const uint64_t before = arc.steps();
        arc.access(item(hash_key(std::to_string(next(random)), 5)));
        if (random() % 16 == 0) arc.forget(hash_key(std::to_string(next(random)), 5));
        most = std::max(most, arc.steps() - before);
    }
    arc.check();
    return {double(arc.steps()) / double(accesses), most};
}

void bounded() {
    struct Sequence {
        const char* title;
        Next (*make)(uint64_t);
    };
    const Sequence sequences[] = {{"random", uniform}, {"scan", scan}, {"hot and once", polluted}, {"adversarial", adversarial}};
    for (const auto& [title, make] : sequences) {
        for (const uint32_t c : {16u, 1024u, 65'536u}) {
            const Steps seen = steps(c, make(c + c / 3), std::max<uint64_t>(100'000, 5 * c));
            tap::ok(seen.mean < 4, std::string(title) + ": few steps for an access, however many keys");
            tap::ok(seen.most <= 32, "and never many");
            tap::note("capacity %u: %.2f on average, at most %llu", c, seen.mean,
                      static_cast<unsigned long long>(seen.most));
        }
    }
}

void frames() {
    for (const uint32_t longest : {protocol::frame_bytes_lowest, 5000u, 8192u, protocol::frame_bytes_default}) {
        const uint32_t fit = proxy::AccessFrames::records_in(8192, longest);
        size_t bytes[2];
        for (const uint32_t more : {0u, 1u}) {
            OutBuffer out;
            proxy::AccessFrames to(out, longest);
            for (uint32_t i = 0; i < fit + more; i++) to.add(item(i + 1));
            to.end();
            bytes[more] = out.size();
        }
        tap::ok(bytes[0] <= 8192 && bytes[1] > 8192, "as many records as fit into 8 KiB of frames");
        tap::note("frames of %u: %u records", longest, fit);
    }
}

}  // namespace

int main() {
    sequences();
    resting();
    overwritten();
    urgent();
    taken_back();
    again();
    halves();
    scanned();
    bounded();
    frames();
    return tap::done();
}
