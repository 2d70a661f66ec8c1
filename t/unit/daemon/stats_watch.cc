// SPDX-License-Identifier: BSD-3-Clause
// The watch hub: lines in the words of memcached's logger, watchers that do not read, watchers that disconnect.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "t/unit/daemon/stats_fixture.h"

using farcached::daemon::WatchHub;
using farcached::daemon::WatchLimits;
using namespace farcached;

namespace {

constexpr uint32_t everything = daemon::watch_fetchers | daemon::watch_mutations |
                                daemon::watch_evictions | daemon::watch_deletions |
                                daemon::watch_connevents;

// A watcher's side of a connection.
class Listener {
  public:
    Listener() {
        int pair[2];
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        mine_ = pair[0];
        hubs = pair[1];
        fcntl(hubs, F_SETFL, O_NONBLOCK);
    }
    ~Listener() { hang_up(); }
    void hang_up() {
        if (mine_ != -1) close(mine_);
        mine_ = -1;
    }
    void say(std::string_view text) const { CHECK(write(mine_, text.data(), text.size()) > 0); }
    // The next line without its end; "(nothing)" after ten seconds or at the end of the stream.
    std::string line() {
        size_t end;
        while ((end = got_.find('\n')) == std::string::npos)
            if (!receive()) return "(nothing)";
        std::string found = got_.substr(0, end);
        got_.erase(0, end + 1);
        return found;
    }
    int hubs;

  private:
    bool receive() {
        char bytes[65536];
        pollfd one = {mine_, POLLIN, 0};
        if (poll(&one, 1, 10000) <= 0) return false;
        ssize_t n = read(mine_, bytes, sizeof bytes);
        if (n <= 0) return false;
        got_.append(bytes, size_t(n));
        return true;
    }
    int mine_;
    std::string got_;
};

struct Hub {
    WatchHub hub;
    std::atomic<int> closed{0};

    explicit Hub(const WatchLimits& limits = {}) : hub(limits) { hub.start(); }
    bool adopt(Listener& listener, uint32_t flags) {
        bool taken = hub.adopt(listener.hubs, flags, [this] { closed++; });
        if (!taken) close(listener.hubs);
        return taken;
    }
};

// The rest behind `ts=<digits>.<6 digits> gid=<digits> `; the line itself if it does not begin so.
std::string tail(const std::string& line) {
    long long seconds = 0;
    unsigned microseconds = 0, number = 0;
    int dot = 0, fraction = 0, start = 0;
    std::sscanf(line.c_str(), "ts=%lld%n.%u%n gid=%u %n", &seconds, &dot, &microseconds, &fraction,
                &number, &start);
    return start != 0 && fraction - dot == 7 ? line.substr(size_t(start)) : line;
}

void formats() {
    Hub h;
    Listener l;
    tap::ok(!h.hub.wants(daemon::watch_fetchers), "without watchers nothing is wanted");
    tap::ok(h.adopt(l, everything), "a watcher");
    tap::is(l.line(), "OK\r", "gets OK");
    tap::ok(h.hub.wants(daemon::watch_fetchers), "now it is wanted");
    h.hub.item_get(std::string_view("a%\x01", 3), "not_found", 0, 28, 0);
    tap::is(tail(l.line()), "type=item_get key=a%25%01 status=not_found clsid=0 cfd=28 size=0", "item_get");
    h.hub.item_store("k", "stored", "set", 60, 3, 29, 100);
    tap::is(tail(l.line()), "type=item_store key=k status=stored cmd=set ttl=60 clsid=3 cfd=29 size=100",
            "item_store");
    h.hub.deleted("k", "md", 3, 100);
    tap::is(tail(l.line()), "type=deleted key=k cmd=md clsid=3 size=100", "deleted");
    farcached::protocol::ItemMeta meta;
    meta.value_len = 11;
    meta.size_class = 4;
    meta.last_access = 90;
    h.hub.evicted("e", meta, 100);
    tap::is(tail(l.line()), "type=eviction key=e fetch=no ttl=-1 la=10 clsid=4 size=11", "eviction");
    meta.exptime = 160;
    meta.fetched = true;
    h.hub.evicted("e", meta, 100);
    tap::is(tail(l.line()), "type=eviction key=e fetch=yes ttl=60 la=10 clsid=4 size=11",
            "eviction of a fetched item that would expire");
    h.hub.connection("type=conn_new rip=127.0.0.1 rport=4 transport=tcp cfd=30");
    tap::is(tail(l.line()), "type=conn_new rip=127.0.0.1 rport=4 transport=tcp cfd=30", "connection");
    h.hub.item_get(std::string(250, '#'), "found", 1, 9, 5);
    tap::is(tail(l.line()).find(" status="), 14 + 4 + 750u, "the longest key, encoded");
}

void numbers_and_flags() {
    Hub h;
    Listener fetchers, mutations;
    h.adopt(fetchers, daemon::watch_fetchers);
    h.adopt(mutations, daemon::watch_mutations | daemon::watch_deletions);
    fetchers.line();
    mutations.line();
    tap::ok(!h.hub.wants(daemon::watch_evictions), "only watched types are wanted");
    h.hub.item_get("a", "found", 1, 5, 1);
    h.hub.item_store("b", "stored", "add", 0, 1, 5, 1);
    h.hub.deleted("c", "delete", 1, 1);
    h.hub.item_get("d", "found", 1, 5, 1);
    std::string first = fetchers.line(), second = fetchers.line();
    tap::ok(first.find("gid=1 type=item_get key=a") != std::string::npos, "lines are numbered");
    tap::ok(second.find("gid=4 type=item_get key=d") != std::string::npos, "over all watchers");
    tap::ok(mutations.line().find("gid=2 type=item_store") != std::string::npos, "the other's first");
    tap::ok(mutations.line().find("gid=3 type=deleted") != std::string::npos, "and second");
    daemon::WatchNumbers n = h.hub.numbers();
    tap::is(n.written, 4u, "log_worker_written");
    tap::is(n.sent, 4u, "log_watcher_sent");
    tap::is(n.watchers, 2u, "log_watchers");
    tap::is(n.dropped + n.skipped, 0u, "nothing was lost");
}

void slow_watcher() {
    WatchLimits limits;
    limits.watcher_bytes_max = 4096;
    Hub h(limits);
    Listener slow, quick;
    h.adopt(slow, everything);
    h.adopt(quick, everything);
    quick.line();
    std::string key(200, 'k');
    int sent = 0;
    // Until the slow one's socket and buffer are full and it has lost some.
    bool all_came = true;
    for (; sent < 200000 && h.hub.numbers().skipped < 3; sent++) {
        h.hub.item_get(key, "found", 1, 5, 1);
        all_came = all_came && tail(quick.line()).starts_with("type=item_get key=kkk");
    }
    tap::ok(all_came, "a slow watcher costs a quick one nothing");
    tap::ok(h.hub.numbers().skipped >= 3, "a watcher that does not read loses lines");
    tap::is(slow.line(), "OK\r", "but not its connection");
    // The buffered lines are read first; once there is room, a line reports how many are missing.
    uint64_t whole = 0;
    std::string line;
    for (int i = 0; i < 400000; i++) {
        if (i % 50 == 0) h.hub.item_get(key, "found", 1, 5, 1);
        line = slow.line();
        if (line.starts_with("skipped=")) break;
        whole++;
    }
    tap::ok(line.starts_with("skipped="), "skipped= counts the missing lines");
    tap::ok(std::stoull(line.substr(8)) >= 3, "it counts the lost ones");
    tap::ok(tail(slow.line()).starts_with("type=item_get"), "and a line follows it");
}

void full_buffer() {
    WatchLimits limits;
    limits.pending_bytes_max = 300;
    Hub h(limits);
    Listener l;
    h.adopt(l, everything);
    l.line();
    h.hub.connection(std::string(1000, 'x'));
    tap::is(h.hub.numbers().dropped, 1u, "a line that finds no room is dropped and counted");
    h.hub.item_get("a", "found", 1, 5, 1);
    tap::ok(l.line().find("key=a") != std::string::npos, "the next one comes");
}

void goodbye() {
    Hub h;
    Listener l;
    h.adopt(l, everything);
    l.line();
    l.say("anything\r\n");
    h.hub.item_get("a", "found", 1, 5, 1);
    tap::ok(l.line().find("key=a") != std::string::npos, "bytes from a watcher are ignored");
    l.hang_up();
    tap::ok(fixture::until([&] { return h.closed == 1; }), "a watcher that hangs up is closed, and its owner notified");
    tap::ok(!h.hub.wants(daemon::watch_fetchers), "and nothing is wanted any more");
    tap::is(h.hub.numbers().watchers, 0u, "nor counted");
}

void too_many() {
    Hub h;
    std::vector<std::unique_ptr<Listener>> listeners;
    bool taken = true;
    for (size_t i = 0; i < WatchHub::watchers_max; i++) {
        listeners.push_back(std::make_unique<Listener>());
        taken = taken && h.adopt(*listeners.back(), everything);
    }
    tap::ok(taken, "20 watchers");
    Listener one_more;
    tap::ok(!h.adopt(one_more, everything), "the next is refused");
    listeners.pop_back();
    tap::ok(fixture::until([&] { return h.closed == 1; }), "one leaves");
    Listener another;
    tap::ok(h.adopt(another, everything), "and there is room again");
    h.hub.stop();
    tap::is(h.closed.load(), 21, "stop() closes all and notifies their owners");
    Listener late;
    tap::ok(!h.adopt(late, everything), "a stopped hub accepts no watcher");
}

void node_tells_of_evictions() {
    fixture::Rig rig;
    rig.node.observe(&rig.watch);
    rig.watch.start();
    Listener l;
    CHECK(rig.watch.adopt(l.hubs, daemon::watch_evictions, {}));
    l.line();
    std::string value(10000, 'v');
    for (int i = 0; i < 4000; i++) rig.store("evict" + std::to_string(i), value);
    std::string got = tail(l.line());
    tap::ok(got.starts_with("type=eviction key=evict"), "an eviction by the node: " + got);
    tap::ok(got.find(" fetch=no ttl=-1 la=0 clsid=") != std::string::npos, "with what is known of the item");
    tap::ok(got.ends_with(" size=10000"), "and its size");
    tap::ok(rig.stat("evictions") != "0", "stats: evictions");
    tap::is(rig.stat("log_watchers"), "1", "stats: log_watchers");
    rig.node.observe(nullptr);
}

void many_writers() {
    Hub h({64 << 10, 4 << 20});
    Listener l;
    h.adopt(l, everything);
    l.line();
    std::atomic<bool> stop{false};
    std::vector<std::thread> writers;
    for (int i = 0; i < 3; i++)
        writers.emplace_back([&] {
            while (!stop) h.hub.item_get("key", "found", 1, 5, 1);
        });
    bool good = true;
    for (int i = 0; i < 20000; i++) {
        std::string line = l.line();
        good = good && (line.starts_with("skipped=") ||
                        line.ends_with("type=item_get key=key status=found clsid=1 cfd=5 size=1"));
    }
    stop = true;
    for (std::thread& writer : writers) writer.join();
    tap::ok(good, "lines of several writers are whole");
}

}  // namespace

int main() {
    formats();
    numbers_and_flags();
    slow_watcher();
    full_buffer();
    goodbye();
    too_many();
    node_tells_of_evictions();
    many_writers();
    return tap::done();
}
