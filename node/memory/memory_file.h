// SPDX-License-Identifier: BSD-3-Clause
// MemoryFile: the file in which a node's memory outlives its process (-e), and FormerRun: the file of the run before.
//
//   file   | region (protocol/layout.h) | descriptors (node/memory/descriptor.h) | Notes |
//
// Owner: the program, in the thread that starts and stops the node. Both outlive the node that uses them. FormerRun's const
// functions may be called by several threads.
//
// F1  A run stores nothing in a file of an earlier run. It makes PATH.new, stores the items of PATH there (node/store/restart.h),
//     and renames PATH.new to PATH before it serves. So memory that a peer of the former run still reads never holds another key
//     (S2). The former process has ended before, and with it its queue pairs.
// F2  What a reply promises is in the file before the reply: items and guards in the region, all else in the notes. After SIGKILL
//     the file has every store that the process executed, in their order.
// F3  Another boot may have lost a part of the file. So its items return only after a clean stop, which wrote the file out, and
//     only to the first run after that.
// F4  The file is untrusted input (S10). FormerRun checks each number before it uses it, and each item by its keyed check.
// F5  A file that is not the node's is never replaced: it is renamed to PATH.damaged. The node's is a file that only this user
//     can write, under one name.
// F6  A run that serves without the items of PATH makes sure that no later run finds them: they are outdated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/host.h"
#include "base/mapping.h"
#include "base/node_clock.h"
#include "base/result.h"
#include "fabric/socket.h"
#include "node/memory/arena.h"
#include "node/memory/descriptor.h"
#include "protocol/layout.h"

namespace farcached::node {

// When the node's clock read 0, in one run.
struct RunClock {
    int64_t boottime_s = 0;  // on CLOCK_BOOTTIME; negative: before the host's start
    int64_t unix_s = 0;
};

// The part of the items' state that is not in the region. Words that change while the node serves are written by atomics.
struct alignas(64) Notes {
    static constexpr uint64_t magic_word = UINT64_C(0x736465746f6e6366);  // "fcnoteds" in memory order
    // Since 2 items may be stubs, since 3 their keys may have moved to other nodes (item_moved).
    static constexpr uint32_t version_now = 3, version_lowest = 2;
    static constexpr size_t prefixes_max = 1024;
    enum class State : uint32_t { filling = 0, serving = 1, stopped = 2 };

    struct Prefix {
        uint64_t order;  // of the delete; 0: unused
        uint8_t length;
        char bytes[255];
        uint64_t floors[layout::partitions_max];  // matching items of a lower generation are deleted
    };

    uint64_t magic;
    uint32_t version;
    State state;
    BootId boot;  // zeros: unknown
    int64_t zero_boottime_s;  // CLOCK_BOOTTIME when the node's clock read 0
    uint64_t pid, pid_started, pid_namespace;  // of the process: number, start time in /proc/PID/stat, /proc/self/ns/pid
    uint32_t stopped_at;   // NodeSeconds of a clean stop
    uint32_t flush_at;     // NodeSeconds of a scheduled flush; 0: none
    int64_t stopped_unix_s;
    uint64_t secret;       // of the items' checks
    uint64_t disk_store;   // DiskStore::id() of the values of stubs; 0: none
    uint64_t flush_floors[layout::partitions_max];  // items of a lower generation are flushed
    uint64_t generation_ceilings[layout::partitions_max];  // no generation of the run is above its partition's
    uint64_t cas_ceilings[layout::partitions_max];         // nor is any cas unique
    Prefix prefixes[prefixes_max];
};

// Ceiling: a number in the notes that no number issued by the run exceeds. It rises in steps, so that most numbers cost a
// comparison. Without a file it is the largest number. Owner: a partition, under its lock.
class Ceiling {
  public:
    // first: issued by earlier runs, at most.
    void keep_in(uint64_t* word, uint64_t step, uint64_t first) {
        word_ = word;
        step_ = step;
        raise(first);
    }
    // Called before `number` is used.
    void cover(uint64_t number) {
        if (number >= reached_) [[unlikely]] raise(number);
    }

    bool kept() const { return word_ != nullptr; }

  private:
    void raise(uint64_t number) {
        if (word_ == nullptr) return;
        reached_ = number + step_;
        __atomic_store_n(word_, reached_, __ATOMIC_RELEASE);
    }

    uint64_t* word_ = nullptr;  // nullptr: no file
    uint64_t step_ = 0;
    uint64_t reached_ = UINT64_MAX;
};

// Where the parts of the file begin, in bytes; derived from the region's header.
struct FilePlaces {
    uint64_t descriptors, notes, end;
    FilePlaces(uint64_t region_bytes, uint64_t page_count);
};

class FormerRun {
  public:
    // A problem is the reason for a cold start, as a part of a sentence.
    static Result<std::unique_ptr<FormerRun>> read(fabric::Descriptor file, const RunClock& now, const BootId& boot);

    uint64_t hash_seed() const { return header_.hash_seed; }
    uint64_t incarnation() const { return header_.incarnation; }
    uint64_t generation_ceiling() const { return generation_ceiling_; }  // of all partitions
    uint64_t cas_ceiling() const;
    bool process_lives() const;
    // Of the disk with the values of its stubs; 0: it had none.
    uint64_t disk_store() const { return notes_->disk_store; }
    bool stopped_cleanly() const { return notes_->state == Notes::State::stopped; }
    // On the present run's clock. long_expired: due already; 0: none is scheduled.
    NodeSeconds flush_at() const { return converted(notes_->flush_at); }

    // A page of slots, or a run of pages.
    struct Extent {
        uint32_t first;       // page
        uint32_t slot_bytes;  // 0: a run
        uint32_t pages;
        uint32_t slots() const { return slot_bytes == 0 ? 1 : layout::page_bytes / slot_bytes; }
    };
    // The pages with items: runs of large items first, then those with the items that were accessed least recently.
    struct Overview {
        std::vector<Extent> extents;
        uint64_t items = 0;
        uint64_t unreadable = 0;  // pages, as in Lost
    };
    Overview overview() const;

    // Times are on the present run's clock.
    struct Item {
        std::string_view key, value;
        uint64_t generation, cas;
        uint32_t flags;
        NodeSeconds exptime, last_access;
        uint16_t format, access_count;
        uint8_t descriptor_flags;
    };
    struct Lost {
        uint64_t expired = 0;
        uint64_t unfinished = 0;  // being written when the process ended, or damaged
        uint64_t unreadable = 0;  // pages
        uint64_t on_disk = 0;     // stubs whose value is not on the present disk
    };
    struct Scratch {  // of one thread
        std::vector<uint64_t> page;
        std::vector<Descriptor> descriptors;
        std::vector<Item> items;
    };
    // The items there, which no flush and no delete by prefix has hidden. Of a run, the pages of its item are read. Valid until
    // the next call with this scratch.
    std::span<const Item> items(const Extent& from, NodeSeconds now, Scratch& scratch, Lost& lost) const;
    // Gives the memory of the pages that were read last, and of their descriptors, back to the system. read() did that with the
    // index.
    void discard(const Extent& extent, const Scratch& scratch) const;
    // No later run takes the items. False: the system refused.
    bool invalidate();

  private:
    FormerRun(fabric::Descriptor file, const layout::RegionHeader& header, std::unique_ptr<Notes> notes, int64_t shift_s);
    bool take_over(const RunClock& now, const BootId& boot);
    template <class Value>
    bool write_note(size_t at, const Value& value) const;
    void punch(uint64_t from, uint64_t to) const;
    bool read_run(const Extent& run, Scratch& scratch) const;
    bool read_descriptors(const Extent& of, std::vector<Descriptor>& to) const;
    NodeSeconds converted(NodeSeconds then) const;
    bool hidden(std::string_view key, uint64_t generation) const;
    bool take(const uint64_t* words, uint64_t capacity, uint64_t offset, const Descriptor& descriptor, NodeSeconds now,
              Lost& lost, Item& item) const;

    fabric::Descriptor file_;
    const layout::RegionHeader header_;
    const std::unique_ptr<Notes> notes_;
    std::vector<const Notes::Prefix*> prefixes_;  // those in use
    uint64_t hidden_below_ = 0;  // no item of this generation or a later one is hidden
    const FilePlaces places_;
    const int64_t shift_s_;  // what the former clock read when the present one read 0
    const uint64_t generation_ceiling_;
};

class MemoryFile {
  public:
    struct Refused {
        bool in_use;       // the start must fail; else the node can serve without a file
        std::string text;  // a sentence
    };
    // Waits a few seconds for a process that still uses the file.
    static Result<std::unique_ptr<MemoryFile>, Refused> open(const std::string& path, const RunClock& clock);
    ~MemoryFile();
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;

    const std::string& path() const { return path_; }
    // nullptr: nothing returns; cold() has the reason, or is empty if there was no file.
    const FormerRun* former() const { return former_.get(); }
    // Removes the file at PATH, or marks it, so that no later run takes its items. False: the system refused both.
    bool give_up_former();
    const std::string& cold() const { return cold_; }

    // For the node: the file of this run.
    int fd() const { return file_.get(); }
    // Maps the notes behind a region of that size. Throws std::system_error.
    void lay_out(uint64_t region_bytes, uint64_t page_count, uint64_t secret);
    Notes& notes() { return *reinterpret_cast<Notes*>(notes_->data()); }

    // The items of the former run are stored: from now on PATH is this run's file. Empty, or a sentence: nothing is kept.
    std::string serve();
    // No thread uses the node any more. Writes the file out, unless it is in memory. Empty, or a sentence.
    std::string stop(NodeSeconds now);

  private:
    MemoryFile(std::string path, fabric::Descriptor file, const RunClock& clock)
        : path_(std::move(path)), file_(std::move(file)), clock_(clock) {}

    const std::string path_;
    fabric::Descriptor file_;
    const RunClock clock_;
    bool in_memory_ = false;  // its file system is
    BootId boot_{};
    std::unique_ptr<FormerRun> former_;
    std::string cold_;
    std::unique_ptr<Mapping> notes_;
    bool serving_ = false;
};

// nullptr: there is no file, or none of a former run.
inline const FormerRun* former_of(const MemoryFile* file) { return file == nullptr ? nullptr : file->former(); }

}  // namespace farcached::node
