// SPDX-License-Identifier: BSD-3-Clause
// Inbox: what other threads want of a worker: to take connections, to change settings, to stop, to show that it runs.
//
// Owner: the worker. Any thread may call what stands above "the worker's thread".
// I1  Whatever was put in before a wake-up is in the mail that the worker takes after it.
// I2  A request to stop stays in the mail.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "base/peer_address.h"
#include "daemon/engine/readiness.h"
#include "daemon/session/session.h"
#include "daemon/stats/latency.h"
#include "process/supervisor.h"

namespace farcached::daemon {

// An accepted socket on its way to a worker.
struct NewConnection {
    int fd = -1;
    SessionProtocol protocol = SessionProtocol::any;
    PeerAddress address;
    bool admin = false;  // accepted on the --admin socket
    bool own = false;    // this process's own, in no counter
};

// Settings of a worker that a reload may change.
struct WorkerLive {
    uint32_t requests_per_event = 20;
    uint32_t idle_timeout_s = 0;
    LatencyOptions latency;
    uint32_t hot_keys_one_in = 0;  // sampling rate of gets and sets for stats hotkeys; 0: none
};

class Inbox {
  public:
    // By a reload: takes effect at the worker's next turn, with the current nodes; `done` is called there.
    struct Change {
        WorkerLive live;
        std::function<void()> done;
    };
    struct Mail {
        std::vector<NewConnection> connections;
        std::list<Change> changes;
        bool stop = false;
    };

    Inbox() : wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
        if (wake_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    }
    ~Inbox() {
        ready_.reset();
        ::close(wake_fd_);
    }
    // Throws std::bad_alloc.
    void give(NewConnection connection) {
        put([&] { mail_.connections.push_back(std::move(connection)); });
    }
    void change(std::list<Change>&& one) noexcept {
        put([&] { mail_.changes.splice(mail_.changes.end(), one); });
    }
    void stop() {
        put([&] { mail_.stop = true; });
    }
    void wake() {
        uint64_t one = 1;
        (void)!write(wake_fd_, &one, sizeof one);
    }
    // After a heartbeat request, the supervisor calls wake(): the loop answers.
    process::Heartbeat& heartbeat() { return heartbeat_; }

    // ---- the worker's thread; but listen() before it runs ------------------------------------------------
    // woken: calls take(). `waits` outlives this.
    void listen(Waits& waits, std::function<void()> woken) {
        ready_ = waits.make_readiness(std::move(woken));
        ready_->await(wake_fd_, /* writable= */ false);
    }
    Mail take() {
        uint64_t count = 0;
        (void)!read(wake_fd_, &count, sizeof count);
        heartbeat_.answer();
        Mail taken;
        std::lock_guard hold(lock_);
        std::swap(taken, mail_);
        mail_.stop = taken.stop;  // I2
        return taken;
    }
    // At the end of the thread: only it may use a ring.
    void shut() { ready_->stop(); }

  private:
    template <class Add>
    void put(Add add) {
        std::lock_guard hold(lock_);
        add();
        wake();
    }

    const int wake_fd_;
    std::unique_ptr<Readiness> ready_;
    process::Heartbeat heartbeat_;
    std::mutex lock_;
    Mail mail_;  // under lock_
};

}  // namespace farcached::daemon
