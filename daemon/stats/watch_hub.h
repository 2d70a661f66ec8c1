// SPDX-License-Identifier: BSD-3-Clause
// WatchHub: takes log lines from workers and other writers, and sends them to the connections that sent `watch`.
//
// Writers append a formatted line to one bounded buffer, under a lock held for a copy. The hub's thread takes the buffer, adds
// time and number, and writes to the watchers' sockets.
//
// Owner: main. Threads: any may write, adopt and read numbers; main starts and stops it.
//
// W1  A writer never waits for a watcher: when the buffer is full, or there is no memory, the line is dropped and counted.
// W2  A watcher that does not read loses lines, never its connection: they are counted, and `skipped=n` precedes its next line.
// W3  A watcher gets only lines written after it was adopted.
// W4  Only the hub's thread uses watchers_ and their sockets. pending_, arriving_ and the membership of watchers_ are under
//     lock_: adopt() reads their flags.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/node_clock.h"
#include "node/store/node.h"
#include "protocol/op.h"

namespace farcached::proxy {
enum class LinkDown : uint8_t;
}

namespace farcached::daemon {

// WatchLog: the lines of `watch`. Engines, sessions and the node's observer write lines while there are watchers; the hub
// (daemon/stats/watch_hub.cc) numbers and distributes them.
// A watcher's subscriptions; a line belongs to one.
enum WatchFlag : uint32_t {
    watch_fetchers = 1,
    watch_mutations = 2,
    watch_evictions = 4,
    watch_deletions = 8,
    watch_connevents = 16,
    watch_proxyreqs = 64,  // slow requests (slow_log_ms)
    watch_proxyevents = 128,  // changes of nodes and failed requests: NodePlace, below
    watch_refusals = 256,  // requests that their clients may not make: refusal_line(), below
    watch_silent = 32,  // accepted, never written: this daemon has no such events
};

class WatchLog {
  public:
    virtual ~WatchLog() = default;
    // One relaxed load: the only cost without watchers.
    bool wants(WatchFlag flag) const { return (wanted_.load(std::memory_order_relaxed) & flag) != 0; }

    // Call only when wants(); the arguments are copied. Formats: memcached's logger, as in its doc and t/watcher.t, e.g.
    // `type=item_get key=%s status=%s clsid=%u cfd=%d size=%u`.
    virtual void item_get(std::string_view key, std::string_view status, uint8_t size_class, int fd,
                          uint32_t value_len) = 0;
    virtual void item_store(std::string_view key, std::string_view status, std::string_view cmd,
                            int64_t ttl, uint8_t size_class, int fd, uint32_t value_len) = 0;
    virtual void deleted(std::string_view key, std::string_view cmd, uint8_t size_class, uint32_t value_len) = 0;
    virtual void eviction(std::string_view key, const protocol::ItemMeta& meta, int64_t ttl,
                          NodeSeconds now) = 0;
    virtual void connection(std::string_view line_tail) = 0;  // "type=conn_new rip=..." etc.
    virtual void slow([[maybe_unused]] std::string_view line_tail) {}  // daemon/stats/latency.h, SlowRequest::line()
    virtual void proxy_event([[maybe_unused]] std::string_view line_tail) {}  // backend_connected_line() etc.
    virtual void refusal([[maybe_unused]] std::string_view line_tail) {}  // refusal_line()

  protected:
    std::atomic<uint32_t> wanted_{0};
};

struct WatchLimits {
    size_t pending_bytes_max = 64 << 10;   // worker_logbuf_size of all workers: not taken by the hub
    size_t watcher_bytes_max = 256 << 10;  // watcher_logbuf_size: lines not taken by one watcher
};

struct WatchNumbers {
    uint64_t dropped = 0, written = 0;   // lines by writers
    uint64_t skipped = 0, sent = 0;      // lines to watchers
    uint64_t watchers = 0;               // gauge
};

class WatchHub final : public WatchLog, public node::Observer {
  public:
    static constexpr size_t watchers_max = 20;
    // The reply to a connection that adopt() refused.
    static constexpr std::string_view too_many =
        "WATCHER_TOO_MANY log watcher limit reached\r\n";

    explicit WatchHub(const WatchLimits& limits);
    ~WatchHub();  // stops
    WatchHub(const WatchHub&) = delete;
    WatchHub& operator=(const WatchHub&) = delete;

    // Once each, in this order, from one thread. start() throws std::system_error; stop() follows the last writer's last line.
    void start();
    void stop();

    // Takes ownership of a non-blocking socket whose earlier replies have all been sent, and sends OK on it. The hub closes it
    // at the end, then calls `closed` once, from its own thread or from stop(). False: too many watchers, or the hub does not
    // run. The socket then stays the caller's, as after std::bad_alloc. seal: appends to `sealed` what is sent instead of `plain`
    // (TLS); called by adopt(), then by the hub's thread alone. False: it failed, and the watch ends. std::bad_alloc: nothing is
    // sealed yet. An empty function: all is sent as it is.
    using Seal = std::function<bool(std::string_view plain, std::string& sealed)>;
    bool adopt(int fd, uint32_t flags, std::function<void()> closed, Seal seal = {});

    WatchNumbers numbers() const;

    void item_get(std::string_view key, std::string_view status, uint8_t size_class, int fd,
                  uint32_t value_len) override;
    void item_store(std::string_view key, std::string_view status, std::string_view cmd, int64_t ttl,
                    uint8_t size_class, int fd, uint32_t value_len) override;
    void deleted(std::string_view key, std::string_view cmd, uint8_t size_class, uint32_t value_len) override;
    void eviction(std::string_view key, const protocol::ItemMeta& meta, int64_t ttl,
                  NodeSeconds now) override;
    void connection(std::string_view line_tail) override;
    void slow(std::string_view line_tail) override;
    void proxy_event(std::string_view line_tail) override;
    void refusal(std::string_view line_tail) override;

    void evicted(std::string_view key, const protocol::ItemMeta& meta, NodeSeconds now) noexcept override;

  private:
    struct Watcher {
        int fd = -1;
        uint32_t flags = 0;
        uint64_t from_number = 0;      // W3
        std::function<void()> closed;
        Seal seal;
        std::string out;               // not yet sent, nor sealed
        std::string sealed;            // not yet sent
        uint64_t skipped = 0;
        bool dead = false;
    };

    void write(WatchFlag flag, std::string_view tail) noexcept;
    // The same; fill(OutBuffer&) appends the tail.
    template <class Fill>
    void write_line(WatchFlag flag, Fill&& fill) noexcept;
    void wake();

    // The hub's thread.
    void run();
    void wait_for_work();
    void deliver(std::string_view lines);
    void offer(Watcher& watcher, std::string_view head, std::string_view text);
    static void seal(Watcher& watcher);
    static void flush(Watcher& watcher);
    static void read_and_discard(Watcher& watcher);
    void remove_dead();
    uint32_t flags_of_all() const;   // under lock_

    const WatchLimits limits_;
    int wake_fd_ = -1;
    std::thread thread_;

    std::mutex lock_;
    std::string pending_;            // records: Record, then its text
    std::vector<Watcher> arriving_;
    uint64_t next_number_ = 1;
    size_t watcher_count_ = 0;       // arriving_ and watchers_
    bool running_ = false;

    std::vector<Watcher> watchers_;

    std::atomic<uint64_t> dropped_{0}, written_{0}, skipped_{0}, sent_{0}, watching_{0};
};

// The lines of `watch proxyevents`, behind time and number, worded as by memcached's built-in proxy where it has them:
//
//   type=proxy_backend error=disconnected name=10.0.0.1 port=11300 label=a depth=3 rbuf= cause=channel_ended text=...
//   type=proxy_backend error=markedbad name=10.0.0.1 port=11300 label=a retry=1
//   type=proxy_conf status=done
// and ours:
//   type=proxy_backend event=connected name=10.0.0.1 port=11300 label=a links_up=4
//   type=proxy_request error=timed_out label=a key=k cfd=31
//   type=proxy_read error=generation name=10.0.0.1 port=11300 label=a way=pointer key=k
//
// Pure. Callers check WatchLog::wants(watch_proxyevents) first.

// A node's place as configured.
struct NodePlace {
    std::string_view label;  // its name
    std::string_view host;   // shm: the path of its socket
    uint16_t port = 0;       // shm: 0
};

// A worker's connection. lost: requests under way at its end. text: the reason.
std::string backend_connected_line(const NodePlace& place, uint32_t links_up);
std::string backend_error_line(const NodePlace& place, proxy::LinkDown why, bool was_up, uint32_t lost, std::string_view text);
// A node's state for all workers. retry_s: until the next attempt.
std::string backend_bad_line(const NodePlace& place, uint64_t retry_s);
std::string backend_good_line(const NodePlace& place);
// By the operator.
std::string backend_drained_line(const NodePlace& place, bool on);
// A failure that a client got. label: empty: no node was available.
std::string request_failed_line(std::string_view why, std::string_view label, std::string_view key, int fd);
std::string read_failed_line(const NodePlace& place, std::string_view why, bool by_index, std::string_view key);
std::string reload_line(std::string_view status);  // start, done, failed

// A line of `watch refusals`, behind time and number: a client of that identity needs the class for the command.
//   type=refused identity=alice class=write command=set client=127.0.0.1:40950 cfd=31
std::string refusal_line(std::string_view identity, std::string_view class_name, std::string_view command, std::string_view client,
                         int fd);

}  // namespace farcached::daemon
