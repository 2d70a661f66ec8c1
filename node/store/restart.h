// SPDX-License-Identifier: BSD-3-Clause
// Restart: a node's items over a restart of its process (-e): before the node serves, it stores the items of the former run;
// when the node has stopped, it marks the file as complete.
//
// Owner: the program's main thread, which calls everything. It outlives the node.
//
// R1  An error in the file is logged once, and the node starts without the items, or without keeping any.
// R2  An item returns if it was live, whole and not hidden when the process ended (FormerRun::items()). Its value, flags, cas
//     unique, expiry and tokens are as before. Leases and slots are new.
// R3  The former file gives each page back to the system once its items are stored. So the two runs together need little more
//     memory than one. If the process ends before serve(), the items stored so far are lost.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <system_error>

#include "base/node_clock.h"
#include "node/memory/memory_file.h"
#include "node/store/node.h"

namespace farcached::node {

class Restart {
  public:
    // Called with whole sentences. warning: the operator has something to do, or lost something.
    using Tell = std::function<void(bool warning, const std::string& text)>;
    // Called every few seconds while items are stored, with a sentence on how far that is.
    using Progress = std::function<void(const std::string& text)>;
    // path: empty: no file. Throws std::runtime_error with a sentence while another process uses the file.
    Restart(const std::string& path, const RunClock& clock, Tell tell, Progress progress = {});

    MemoryFile* file() { return file_.get(); }  // for Config::file
    // Calls make(), which uses file(). If the file system has no room for the node, the second call of make() has no file.
    template <class Make>
    auto made(Make make) -> decltype(make()) {
        try {
            return make();
        } catch (const std::system_error& error) {
            if (file_ == nullptr) throw;
            go_without(error.what());
        }
        return make();
    }
    // DiskConfig::former_store: the disk keeps the values whose stubs return.
    uint64_t former_disk() const {
        const FormerRun* former = former_of(file_.get());
        return former != nullptr ? former->disk_store() : 0;
    }
    // Stores the former items in the new node, in that many threads. From here on, a kill of the process loses no items.
    // Returns when the caller must schedule a flush; 0: never.
    NodeSeconds carry_out(Node& node, uint32_t threads, NodeSeconds now);
    // No thread uses the node any more.
    void stop(NodeSeconds now);

    // Of carry_out().
    uint64_t items() const { return items_; }
    // Of the run whose items were stored; 0: none were.
    uint64_t former_incarnation() const { return former_incarnation_; }

  private:
    void go_without(const std::string& why);
    void store_items(Node& node, uint32_t threads, NodeSeconds now);
    // over: items without room.
    void tell_stored(const Stats& stats, const FormerRun::Lost& lost, uint64_t over, uint64_t ns);

    const Tell tell_;
    const Progress progress_;
    std::unique_ptr<MemoryFile> file_;
    uint64_t items_ = 0, former_incarnation_ = 0;
};

}  // namespace farcached::node
