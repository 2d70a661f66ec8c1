// SPDX-License-Identifier: BSD-3-Clause
// EtcdSource: the list of nodes that are registered in etcd (--discover etcd://), or of the farcached there.
//
//   range -> a list -> watch from the next revision -> a list for each change
//
// Owner: main. Threads: its own; latest(), state() and ask_soon() may be called by any.
// H1  However a watch ends (a lost connection, history that etcd has compacted, an unreadable line), the next step is a range: no
//     change is lost.
// H2  While etcd is away, or answers nothing usable, the last list stays. A question every few seconds shows that etcd still has
//     a leader, and that the watch has reported all changes, deletions too. The next one comes sooner if a node refused a request
//     because of its older list, or named a newer epoch.
// H3  Times are of CLOCK_BOOTTIME: a step of the wall clock changes nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/recorder.h"
#include "conf/settings.h"
#include "daemon/discovery/board.h"
#include "daemon/discovery/etcd_client.h"
#include "daemon/discovery/member_book.h"
#include "daemon/discovery/source.h"
#include "process/log.h"

namespace farcached::daemon {

class EtcdSource final : public Source {
  public:
    static constexpr uint32_t question_ms = 3000, soon_ms = 100;

    // The thread calls it for each list, and when the list's last change in etcd has another revision (MemberBook::last_change).
    using Listed = std::function<void(const std::vector<FoundNode>& found, int64_t last_change)>;

    // Starts the thread; throws std::system_error. changed: as of make_source(). origin: as in NodeSpec.
    EtcdSource(const EtcdAccess& access, const MemberWays& ways, const std::string& origin, std::function<void()> changed);
    // Of the members whose keys have this prefix, for a process that is one of them. It logs no failure: another source of this
    // process, or its registration, does.
    EtcdSource(const EtcdAccess& access, const std::string& keys, const MemberWays& ways, const std::string& origin, Listed listed);
    ~EtcdSource() override;

    std::shared_ptr<const Found> latest() const override { return board_.latest(); }
    SourceState state() const override;
    void ask_soon(uint64_t epoch) override;

  private:
    void run();
    // One range and the watch that follows, until that ends. False: interrupted.
    bool follow();
    bool take_range();
    enum class Next : uint8_t { go_on, range, wait, stop };
    Next watch();
    Next take_line(const std::string& line);
    Next question(bool& behind);
    uint64_t question_at_ns() const;
    void publish();
    void confirm();
    void failed(const std::string& why);
    void complain(const MemberBook::Complaints& complaints);
    uint32_t wait_ms() const;

    EtcdClient client_;
    const Listed told_;          // empty: of nodes
    int64_t told_change_ = 0;    // to told_
    const std::string keys_;     // their prefix
    SourceBoard board_;
    MemberBook book_;            // the thread's, as the next ones
    std::shared_ptr<const Found> listed_;
    uint32_t failures_in_row_ = 0;
    uint64_t asked_ns_ = 0;      // the last question
    process::LimitedLines member_lines_;
    std::atomic<uint64_t> skipped_{0};
    std::atomic<bool> asks_soon_{false};
    Recorder recorder_{"discovery"};
    std::thread thread_;
};

// Of --discover etcd://; as make_source().
Result<std::unique_ptr<Source>> make_etcd_source(const conf::ProxySettings& settings, std::function<void()> changed);

}  // namespace farcached::daemon
