// SPDX-License-Identifier: BSD-3-Clause
// MemberBook: the members that etcd lists, by its answers and the events of a watch, and the lists made of them.
//
// Pure, with the caller's clock (CLOCK_BOOTTIME). Owner: the source's thread.
// B1  The book shows what etcd has: a value that is no member is not in it, also if it replaced one that was.
// B2  If etcd's history is another one than before (a lower revision, or another cluster), it lost its data. Members that are
//     missing then stay for the longest ttl and hold_s: the nodes register again within that time.
// B3  An empty book makes no list: the last one stays.
// B4  Of members with one address, a list has the one that etcd lists and that changed last. The others stay in the book.
// B5  A list names those before it (Found::former), as far as the book knows all of them. They end at a new range, at a member that
//     the book skips, leaves out or holds, and at a node that has replaced another one, or was restarted.
// B6  A list says how many came before it (FormerLists::lists_before): one for each revision of etcd that changed a member. A new
//     range counts as two, because others may have been before it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conf/settings.h"
#include "daemon/discovery/etcd_messages.h"
#include "daemon/discovery/member.h"
#include "daemon/discovery/source.h"

namespace farcached::daemon {

class MemberBook {
  public:
    static constexpr uint32_t hold_s = 2, ttl_s_unknown = 10;
    static constexpr size_t former_max = 8;  // lists

    // nodes: the prefix of the keys. origin: as in NodeSpec.
    MemberBook(std::string nodes, MemberWays ways, std::string origin);

    // Sentences about members that were skipped.
    using Complaints = std::vector<std::string>;
    Complaints take(const EtcdRange& range, uint64_t now_ns);
    Complaints take(const EtcdWatched& watched);

    // The next list, if one is due.
    std::shared_ptr<const Found> next_list(uint64_t now_ns);
    // About members that the last next_list() left out, and the one before did not (B4).
    Complaints left_out();
    // When the next held member leaves; nothing: none does.
    std::optional<uint64_t> next_ns() const;
    // Of etcd, by its last answer; 0: nothing yet.
    int64_t revision() const { return revision_; }
    // No key of etcd changed after it, by its last answer.
    int64_t newest() const { return newest_; }
    // The revision of the last change of a key that is known here: of those that etcd has, and of deletions that a watch had, or a
    // range showed. It does not fall while etcd keeps its data.
    int64_t last_change() const { return last_change_; }
    // Of the list (Found::epoch): the book has all changes up to that revision of etcd.
    uint64_t epoch() const;
    // It has all up to this one.
    void is_complete(int64_t revision) { complete_ = std::max(complete_, revision); }
    // Of the keys that etcd has, by its last answer; those of skipped members, too.
    int64_t keys() const { return keys_; }
    uint64_t skipped() const { return skipped_; }
    bool is_empty() const { return members_.empty(); }

  private:
    struct Entry {
        Member member;
        conf::NodeSpec node;     // the member's
        int64_t mod_revision = 0;
        uint64_t leaves_ns = 0;  // 0: etcd has it
    };
    using Entries = std::map<std::string, Entry>;
    void put(const EtcdKey& at, Complaints& complaints);
    void hold_missing(const std::vector<std::string>& present, bool lost_history, uint64_t now_ns);
    std::string name_of(const std::string& key) const;
    // nullopt: members are left out or held, or the book is empty.
    using Nodes = std::vector<conf::NodeSpec>;
    std::optional<Nodes> whole_list() const;
    void count_list(int64_t revision);
    void note_change(std::optional<Nodes> before, const std::optional<Nodes>& after, int64_t revision);
    // The lists so far are not those before the next one (B5).
    void forget_former();
    std::vector<Member> choose();

    const std::string nodes_, origin_;
    const MemberWays ways_;
    Entries members_;
    std::set<std::string> left_out_;  // of the last list: names
    Complaints left_out_lines_;
    std::vector<Member> listed_;     // in the last list
    uint64_t listed_revision_ = 0;
    int64_t revision_ = 0, newest_ = 0, keys_ = 0, last_change_ = 0, listed_change_ = 0, complete_ = 0;
    std::vector<conf::FormerList> former_;  // the newest first; at most former_max
    bool has_forgotten_ = false;            // in this event
    std::shared_ptr<conf::FormerLists> told_former_;  // Found::former of the last list
    uint64_t cluster_ = 0;
    uint64_t skipped_ = 0;
    uint64_t lists_ = 0;            // FormerLists::lists_before of the next list
    int64_t counted_revision_ = 0;  // of the last one's change
};

}  // namespace farcached::daemon
