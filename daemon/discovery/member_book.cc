// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/member_book.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "base/limits.h"
#include "base/node_clock.h"
#include "conf/addresses.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t book_second_ns = 1'000'000'000;
constexpr size_t key_shown_bytes_max = 100;

std::string shown_key(std::string_view key) {
    std::string text(key.substr(0, key_shown_bytes_max));
    std::ranges::replace_if(text, [](char c) { return c <= ' ' || c > '~'; }, '?');
    return text;
}

}  // namespace

MemberBook::MemberBook(std::string nodes, MemberWays ways, std::string origin)
    : nodes_(std::move(nodes)), origin_(std::move(origin)), ways_(std::move(ways)) {}

// Empty: the key is not of a node.
std::string MemberBook::name_of(const std::string& key) const {
    return key.starts_with(nodes_) ? key.substr(nodes_.size()) : std::string();
}

// Of a key that has a value now.
void MemberBook::put(const EtcdKey& at, Complaints& complaints) {
    const std::string name = name_of(at.key);
    newest_ = std::max(newest_, at.mod_revision);
    last_change_ = std::max(last_change_, at.mod_revision);
    const auto skip = [&](const std::string& why) {
        members_.erase(name);
        forget_former();
        skipped_++;
        complaints.push_back("the member at " + shown_key(at.key) + " " + why);
    };
    if (at.too_long) return skip("has more than " + std::to_string(Member::bytes_max) + " bytes");
    Result<Member, std::string> parsed = parse_member(name, at.value);
    if (const auto* why = std::get_if<std::string>(&parsed)) return skip(*why);
    Member& member = std::get<Member>(parsed);
    auto spec = spec_of(member, ways_, origin_);
    if (const auto* why = std::get_if<std::string>(&spec)) return skip(*why);
    if (members_.size() >= limits::nodes_max && !members_.contains(name)) return skip("is one too many");
    const auto known = members_.find(name);
    if (known != members_.end() && known->second.member.incarnation != member.incarnation) forget_former();
    members_.insert_or_assign(name, Entry{std::move(member), std::get<conf::NodeSpec>(std::move(spec)), at.mod_revision, 0});
}

// present: sorted names.
void MemberBook::hold_missing(const std::vector<std::string>& present, bool lost_history, uint64_t now_ns) {
    uint64_t ttl_s = 0;
    for (const auto& [name, entry] : members_)
        ttl_s = std::max<uint64_t>(ttl_s, entry.member.ttl_s != 0 ? entry.member.ttl_s : ttl_s_unknown);
    for (auto at = members_.begin(); at != members_.end();) {
        Entry& entry = at->second;
        const bool missing = !std::ranges::binary_search(present, at->first);
        if (missing && lost_history && entry.leaves_ns == 0) entry.leaves_ns = now_ns + (ttl_s + hold_s) * book_second_ns;
        at = missing && entry.leaves_ns <= now_ns ? members_.erase(at) : std::next(at);
    }
}

MemberBook::Complaints MemberBook::take(const EtcdRange& range, uint64_t now_ns) {
    const bool lost_history = revision_ != 0 && (range.revision < revision_ || range.cluster != cluster_);
    revision_ = range.revision;
    cluster_ = range.cluster;
    complete_ = range.revision;
    newest_ = range.revision;
    forget_former();  // what came and went before it is not known
    lists_ += 2;
    keys_ = range.count;
    std::vector<std::string> present;
    for (const EtcdKey& at : range.keys) present.push_back(name_of(at.key));
    std::ranges::sort(present);
    const auto is_gone = [&](const auto& one) {
        return one.second.leaves_ns == 0 && !std::ranges::binary_search(present, one.first);
    };
    if (lost_history) last_change_ = 0;
    else if (std::ranges::any_of(members_, is_gone)) last_change_ = range.revision;
    hold_missing(present, lost_history, now_ns);
    Complaints complaints;
    for (const EtcdKey& at : range.keys) put(at, complaints);
    if (range.more) complaints.push_back("there are more than " + std::to_string(range.keys.size()) + " members");
    return complaints;
}

MemberBook::Complaints MemberBook::take(const EtcdWatched& watched) {
    Complaints complaints;
    std::optional<Nodes> list = whole_list();
    for (const EtcdEvent& event : watched.events) {
        has_forgotten_ = false;
        count_list(event.at.mod_revision);
        complete_ = std::max(complete_, event.at.mod_revision);
        if (!event.deleted) {
            keys_ += event.at.created ? 1 : 0;
            put(event.at, complaints);
        } else {
            keys_--;
            newest_ = std::max(newest_, event.at.mod_revision);
            last_change_ = std::max(last_change_, event.at.mod_revision);
            members_.erase(name_of(event.at.key));
        }
        std::optional<Nodes> next = whole_list();
        note_change(std::move(list), next, event.at.mod_revision);
        list = std::move(next);
    }
    revision_ = std::max(revision_, watched.revision);
    return complaints;
}

std::optional<MemberBook::Nodes> MemberBook::whole_list() const {
    Nodes nodes;
    std::set<std::string> addresses;
    for (const auto& [name, entry] : members_) {
        if (entry.leaves_ns != 0 || !addresses.insert(conf::address_of(entry.node)).second) return std::nullopt;
        nodes.push_back(entry.node);
    }
    return nodes.empty() ? std::nullopt : std::optional(std::move(nodes));
}

// A transaction's changes have one revision.
void MemberBook::count_list(int64_t revision) {
    if (revision != counted_revision_) lists_++;
    counted_revision_ = revision;
}

void MemberBook::note_change(std::optional<Nodes> before, const std::optional<Nodes>& after, int64_t revision) {
    if (!before.has_value() || !after.has_value() || has_forgotten_) return forget_former();
    const auto same = [](const conf::NodeSpec& one, const conf::NodeSpec& other) {
        return one.name == other.name && one.weight == other.weight && conf::address_of(one) == conf::address_of(other);
    };
    const bool is_half = !former_.empty() && former_.front().ended == uint64_t(revision);  // nobody has used that list
    if (is_half || std::ranges::equal(*before, *after, same)) return;
    former_.insert(former_.begin(), {uint64_t(revision), boottime_ns(), *std::move(before)});
    if (former_.size() > former_max) former_.pop_back();
}

void MemberBook::forget_former() {
    has_forgotten_ = true;
    if (told_former_ != nullptr) told_former_->over.store(true, std::memory_order_release);
    former_.clear();
}

// While members are held (B2), revisions of before and after mix.
uint64_t MemberBook::epoch() const {
    const bool mixed = std::ranges::any_of(members_, [](const auto& one) { return one.second.leaves_ns != 0; });
    return mixed ? 0 : uint64_t(complete_);
}

std::optional<uint64_t> MemberBook::next_ns() const {
    std::optional<uint64_t> first;
    for (const auto& [name, entry] : members_)
        if (entry.leaves_ns != 0) first = std::min(first.value_or(UINT64_MAX), entry.leaves_ns);
    return first;
}

// B4. Sorted by name.
std::vector<Member> MemberBook::choose() {
    const auto is_better = [](const Entry& one, const Entry& other) {
        const bool held = one.leaves_ns != 0, other_held = other.leaves_ns != 0;
        return held != other_held ? other_held : one.mod_revision > other.mod_revision;
    };
    std::map<std::string, Entries::const_iterator> at_address;
    std::map<std::string, std::string> replaced;  // name -> why
    for (auto entry = members_.cbegin(); entry != members_.cend(); ++entry) {
        const std::string address = conf::address_of(entry->second.node);
        const auto [at, is_first] = at_address.emplace(address, entry);
        if (is_first) continue;
        auto better = at->second, worse = entry;
        if (is_better(worse->second, better->second)) std::swap(better, worse);
        at->second = better;
        replaced[worse->first] = "has the address " + address + " of " + better->first + ", which registered later";
    }
    std::vector<Member> members;
    for (const auto& [name, entry] : members_)
        if (!replaced.contains(name)) members.push_back(entry.member);
    std::set<std::string> names;
    for (const auto& [name, why] : replaced) {
        names.insert(name);
        if (left_out_.contains(name)) continue;
        skipped_++;
        left_out_lines_.push_back("the member at " + shown_key(nodes_ + name) + " " + why);
    }
    left_out_ = std::move(names);
    return members;
}

MemberBook::Complaints MemberBook::left_out() { return std::exchange(left_out_lines_, {}); }

std::shared_ptr<const Found> MemberBook::next_list(uint64_t now_ns) {
    const auto leaves = [&](const auto& one) { return one.second.leaves_ns != 0 && one.second.leaves_ns <= now_ns; };
    if (std::erase_if(members_, leaves) != 0) {
        forget_former();
        lists_++;
    }
    if (members_.empty()) return nullptr;  // B3
    std::vector<Member> members = choose();
    if (members == listed_ && last_change_ <= listed_change_) return nullptr;
    listed_change_ = last_change_;
    auto list = std::make_shared<Found>();
    for (const Member& member : members)
        list->nodes.push_back({members_.at(member.name).node, member.zone, member.incarnation, member.version});
    told_former_ = std::make_shared<conf::FormerLists>(former_, lists_);
    list->former = told_former_;
    listed_revision_ = std::max(uint64_t(revision_), listed_revision_ + 1);
    list->revision = listed_revision_;
    listed_ = std::move(members);
    return list;
}

}  // namespace farcached::daemon
