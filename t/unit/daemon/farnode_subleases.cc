// SPDX-License-Identifier: BSD-3-Clause
// The serving right of a farnode (S17) and its values on the node of --spill-to. Proxies READ them there by subleases, and that
// node's right is not this one's.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/node_clock.h"
#include "daemon/farnode/server.h"
#include "node/service/away_values.h"
#include "node/store/away_items.h"
#include "protocol/spilled.h"
#include "t/lib/tap.h"
#include "t/unit/node/far_peer.h"
#include "t/unit/service/service_fixture.h"

namespace {

using namespace far_peer;
using namespace service_fixture;

constexpr uint64_t ms = 1'000'000;

// A node with most values on its peer, and a proxy that reads by subleases.
struct Home : FarPeer {
    explicit Home(uint64_t right_ms) {
        store.came_up(77, 1 << 20);
        served.shared.right.limit();
        go_on(right_ms);
        for (int i = 0; i < 600; i++) {
            const std::string key = key_of(i), value = value_of(i);
            StoreOp op = set_of(key, value);
            op.key = served.cache.key(key);
            CHECK(served.cache.store(op, at_start).status == StoreReply::Status::stored);
            link();
        }
    }
    // Etcd has answered now.
    void go_on(uint64_t right_ms) {
        steady_ns = boottime_ns();
        lease = lease_of(steady_ns + 60'000 * ms);
        served.shared.right.set(steady_ns + right_ms * ms, steady_ns + 60'000 * ms);
    }
    // Of the next item whose value is there.
    std::string spilled() {
        for (;; next_++) {
            CHECK(next_ < 600);
            const std::string key = key_of(next_);
            GetOp op;
            op.key = served.cache.key(key);
            Place place{};
            (void)served.cache.get(op, at_start, [](const ItemMeta&) -> char* { return nullptr; }, nullptr, &place);
            if (place == Place{}) continue;
            next_++;
            return key;
        }
    }
    // The sublease that a get of the key earns, in milliseconds; 0: none.
    uint32_t term_ms(const std::string& key) {
        const RequestOptions options = wanting_grant();
        OutBuffer out;
        const uint64_t sequence = proxy.put(out, get_of(key), options);
        proxy.give(out);
        for (int round = 0; round < 3; round++) {
            link();
            away.ready(at_start);
            proxy.turns();
        }
        const Answer& answer = proxy.answers[{sequence, options.tag}];
        CHECK(is_hit(answer));
        CHECK(answer.value.size() > 3000);
        return answer.reply.grant.has_value() ? answer.reply.grant->term_ms : 0;
    }
    uint64_t end_ns(const std::string& key) {
        Place place{};
        return served.cache.away().sublease_end(served.cache.key(key), boottime_ns(), place);
    }

    ServedNode served{config_with(store)};
    AwayValues away{served.cache};
    Proxy proxy{served, /* greet= */ true, RegionAccess::mapped, &away};

  private:
    int next_ = 0;
};

void ends_with_the_right() {
    Home home(60'000);
    tap::is(home.term_ms(home.spilled()), spilled_term_ms_max, "a sublease lasts 200 ms");
    home.go_on(120);
    tap::is(home.term_ms(home.spilled()), 120u, "S17: it ends with the node's right");
    home.go_on(0);
    tap::is(home.term_ms(home.spilled()), 0u, "a node without a right grants no sublease");
    tap::is(home.proxy.trouble, "", "no frame is wrong");
}

// The right ends early, because the node is stopped: its items are dropped when end_steps() has returned.
void ends_with_the_steps() {
    Home home(60'000);
    NodeStats stats(home.served.cache, "n1", at_start);
    FarnodeServer::Options options;
    options.threads = 1;
    FarnodeServer server(home.served.cache, stats, home.served.facts, read_clock, options);
    server.start();
    const std::string key = home.spilled();
    home.go_on(60'000);
    tap::is(home.term_ms(key), spilled_term_ms_max, "a proxy has a sublease");
    server.end_steps();
    tap::is(home.end_ns(key), 0u, "S17: it ends before end_steps() returns");
    home.go_on(60'000);
    tap::is(home.term_ms(home.spilled()), spilled_term_ms_max, "afterwards they are granted again");
    server.stop(Goodbye::stopping, 0);
}

}  // namespace

int main() {
    ends_with_the_right();
    ends_with_the_steps();
    return tap::done();
}
