// SPDX-License-Identifier: BSD-3-Clause
#include "node/memory/memory_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "base/broken.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/node_clock.h"
#include "fabric/region.h"
#include "protocol/layout_hash.h"

namespace farcached::node {

namespace {

constexpr uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }
constexpr uint64_t system_page = 4096;

// Reads exactly that many bytes; false: they are not there, or the system refused.
bool read_at(const fabric::Descriptor& file, uint64_t at, void* to, uint64_t bytes) {
    auto* into = static_cast<char*>(to);
    while (bytes != 0) {
        const ssize_t got = pread(file.get(), into, std::min<uint64_t>(bytes, UINT64_C(1) << 30), off_t(at));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        into += got;
        at += uint64_t(got);
        bytes -= uint64_t(got);
    }
    return true;
}

std::string with_error(const std::string& text) { return text + ": " + std::strerror(errno); }

uint64_t pid_namespace() {
    struct stat facts {};
    return stat("/proc/self/ns/pid", &facts) == 0 ? facts.st_ino : 0;
}

// Calls `done` until it is true, for a limited time. False: it never was.
template <class Done>
bool wait_until(Done done) {
    constexpr int tries = 200, pause_us = 50'000;
    for (int i = 0; i < tries; i++) {
        if (done()) return true;
        usleep(pause_us);
    }
    return done();
}

// Does the process that wrote the notes still exist? A zombie has no descriptors and no queue pairs any more. In another
// namespace the one who started this process has waited for that one.
bool lives(const Notes& notes) {
    if (notes.pid == uint64_t(getpid()) || notes.pid_namespace != pid_namespace()) return false;
    const std::optional<ProcessLife> life = process_life(notes.pid);
    return life.has_value() && life->started == notes.pid_started && life->state != 'Z' && life->state != 'X';
}

template <class Numbers>
uint64_t largest(const Numbers& numbers) {
    return *std::max_element(std::begin(numbers), std::end(numbers));
}

}  // namespace

FilePlaces::FilePlaces(uint64_t region_bytes, uint64_t page_count)
    : descriptors(round_up(region_bytes, Mapping::huge_page_bytes)),
      notes(round_up(descriptors + page_count * layout::page_slots_max * sizeof(Descriptor), system_page)),
      end(notes + round_up(sizeof(Notes), system_page)) {}

// ---- the former run ---------------------------------------------------------------------------------

namespace {

bool same_boot(const BootId& a, const BootId& b) { return a == b && a != BootId{}; }

// Empty, or what is wrong with the header; afterwards its numbers can be used.
std::string_view wrong_header(const layout::RegionHeader& header, uint64_t file_bytes) {
    if (header.magic != layout::region_magic) return "it has no node's memory";
    if (header.version != layout::layout_version) return "it was written by another version of farcached";
    if (header.page_count > arena_pages_max) return "its header is damaged";
    if (header.region_bytes > file_bytes) return "its end is missing";
    if (const std::string_view wrong = fabric::header_wrong(header, header.region_bytes); !wrong.empty())
        return "its header is damaged";
    if (FilePlaces(header.region_bytes, header.page_count).end > file_bytes) return "its end is missing";
    for (const uint32_t bytes : header.class_bytes)
        if (bytes != 0 && (bytes < layout::slot_bytes_min || bytes > layout::page_bytes || bytes % layout::stride_bytes != 0))
            return "its header is damaged";
    return {};
}

std::string_view wrong_notes(const Notes& notes, const BootId& boot) {
    constexpr uint64_t ceiling_max = UINT64_C(1) << 61;
    constexpr int64_t seconds_max = INT64_C(1) << 40;
    const auto possible = [](int64_t seconds) { return seconds > -seconds_max && seconds < seconds_max; };
    if (notes.magic != Notes::magic_word) return "its notes are damaged";
    if (notes.version < Notes::version_lowest || notes.version > Notes::version_now)
        return "it was written by another version of farcached";
    if (notes.state != Notes::State::serving && notes.state != Notes::State::stopped) return "it was never complete";
    if (notes.state == Notes::State::serving && !same_boot(notes.boot, boot))
        return "the system went down while it was in use, so a part of it may be lost";
    if (largest(notes.generation_ceilings) > ceiling_max || largest(notes.cas_ceilings) > ceiling_max ||
        !possible(notes.zero_boottime_s) || !possible(notes.stopped_unix_s))
        return "its notes are damaged";
    for (const Notes::Prefix& prefix : notes.prefixes)
        if (prefix.order != 0 && prefix.length > limits::key_bytes_max) return "its notes are damaged";
    return {};
}

// The former clock's reading when the present one reads 0. If the wall clock was set back, no clock tells it, and every expiry
// counts as passed.
int64_t shift_of(const Notes& notes, const RunClock& now, const BootId& boot) {
    constexpr int64_t behind_all = INT64_C(1) << 33;
    if (same_boot(notes.boot, boot)) return now.boottime_s - notes.zero_boottime_s;
    if (now.unix_s < notes.stopped_unix_s) return behind_all;
    return int64_t(notes.stopped_at) + now.unix_s - notes.stopped_unix_s;
}

}  // namespace

Result<std::unique_ptr<FormerRun>> FormerRun::read(fabric::Descriptor file, const RunClock& now, const BootId& boot) {
    struct stat facts {};
    layout::RegionHeader header{};
    if (fstat(file.get(), &facts) != 0) return system_problem(with_error("it cannot be read"));
    if (facts.st_size == 0) return system_problem("it is empty");
    if (!read_at(file, 0, &header, sizeof header)) return system_problem("it has no node's memory");
    if (const std::string_view wrong = wrong_header(header, uint64_t(facts.st_size)); !wrong.empty())
        return system_problem(std::string(wrong));
    auto notes = std::make_unique<Notes>();
    if (!read_at(file, FilePlaces(header.region_bytes, header.page_count).notes, notes.get(), sizeof *notes))
        return system_problem(with_error("its notes cannot be read"));
    if (const std::string_view wrong = wrong_notes(*notes, boot); !wrong.empty()) return system_problem(std::string(wrong));
    const int64_t shift_s = shift_of(*notes, now, boot);
    std::unique_ptr<FormerRun> former(new FormerRun(std::move(file), header, std::move(notes), shift_s));
    if (!former->take_over(now, boot)) return system_problem(with_error("it cannot be written"));
    return former;
}

FormerRun::FormerRun(fabric::Descriptor file, const layout::RegionHeader& header, std::unique_ptr<Notes> notes, int64_t shift_s)
    : file_(std::move(file)),
      header_(header),
      notes_(std::move(notes)),
      places_(header.region_bytes, header.page_count),
      shift_s_(shift_s),
      generation_ceiling_(largest(notes_->generation_ceilings)) {
    for (const uint64_t floor : notes_->flush_floors) hidden_below_ = std::max(hidden_below_, floor);
    for (const Notes::Prefix& prefix : notes_->prefixes) {
        if (prefix.order == 0) continue;
        prefixes_.push_back(&prefix);
        for (const uint64_t floor : prefix.floors) hidden_below_ = std::max(hidden_below_, floor);
    }
}

template <class Value>
bool FormerRun::write_note(size_t at, const Value& value) const {
    return pwrite(file_.get(), &value, sizeof value, off_t(places_.notes + at)) == ssize_t(sizeof value);
}

// From here on the file counts in this boot only (F3), so its clock is on that of this boot.
bool FormerRun::take_over(const RunClock& now, const BootId& boot) {
    const int64_t zero_s = now.boottime_s - shift_s_;
    if (!write_note(offsetof(Notes, zero_boottime_s), zero_s) || !write_note(offsetof(Notes, boot), boot) ||
        !write_note(offsetof(Notes, state), Notes::State::serving))
        return false;
    if (fdatasync(file_.get()) != 0) return false;
    const uint64_t pages_end = header_.pages_offset + header_.page_count * sizeof(layout::PageEntry);
    punch(round_up(pages_end, system_page), header_.arena_offset);  // the index is made anew
    return true;
}

bool FormerRun::invalidate() { return write_note(offsetof(Notes, state), Notes::State::filling); }

uint64_t FormerRun::cas_ceiling() const { return largest(notes_->cas_ceilings); }

NodeSeconds FormerRun::converted(NodeSeconds then) const {
    if (then == 0) return 0;
    return NodeSeconds(std::clamp<int64_t>(int64_t(then) - shift_s_, long_expired, UINT32_MAX));
}

void FormerRun::punch(uint64_t from, uint64_t to) const {
    if (from < to) (void)fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(from), off_t(to - from));
}

bool FormerRun::read_descriptors(const Extent& of, std::vector<Descriptor>& to) const {
    to.resize(of.slots());
    const uint64_t number = uint64_t(make_ref(of.first, 0));
    return read_at(file_, places_.descriptors + number * sizeof(Descriptor), to.data(), to.size() * sizeof(Descriptor));
}

FormerRun::Overview FormerRun::overview() const {
    struct Seen {
        uint64_t order;
        Extent extent;
    };
    Overview all;
    std::vector<Seen> seen;
    std::vector<layout::PageEntry> entries(header_.page_count);
    if (!read_at(file_, header_.pages_offset, entries.data(), entries.size() * sizeof(layout::PageEntry))) {
        all.unreadable = header_.page_count;
        return all;
    }
    std::vector<Descriptor> descriptors;
    for (uint64_t page = 0; page < header_.page_count; page++) {
        const layout::PageEntry& entry = entries[page];
        if (entry.size_class == 0 || entry.size_class >= 64) continue;
        const bool run = entry.size_class == layout::large_class;
        const Extent extent{uint32_t(page), run ? 0 : header_.class_bytes[entry.size_class], run ? entry.run_pages : 1};
        if (run ? extent.pages == 0 || extent.pages > header_.page_count - page : extent.slot_bytes == 0) continue;
        if (!read_descriptors(extent, descriptors)) {
            all.unreadable++;
            continue;
        }
        uint64_t live = 0, last_access = 0;
        for (const Descriptor& item : descriptors) {
            if (item.state != SlotState::live) continue;
            live++;
            last_access = std::max<uint64_t>(last_access, item.last_access);
        }
        if (live == 0 && !broken::s7_restart_dead) continue;
        all.items += live;
        seen.push_back({run ? UINT32_MAX - extent.pages : (UINT64_C(1) << 32) + last_access, extent});
    }
    std::stable_sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) { return a.order < b.order; });
    for (const Seen& one : seen) all.extents.push_back(one.extent);
    return all;
}

bool FormerRun::hidden(std::string_view key, uint64_t generation) const {
    if (generation >= hidden_below_) return false;
    const uint32_t partition =
        layout::partition_of(hash_key(key, header_.hash_seed), header_.partition_count_log2);
    if (generation < notes_->flush_floors[partition]) return true;
    return std::ranges::any_of(prefixes_, [&](const Notes::Prefix* prefix) {
        return generation < prefix->floors[partition] && key.starts_with(std::string_view(prefix->bytes, prefix->length));
    });
}

// Whether the slot has an item that returns. The words are a copy.
bool FormerRun::take(const uint64_t* words, uint64_t capacity, uint64_t offset, const Descriptor& descriptor, NodeSeconds now,
                     Lost& lost, Item& item) const {
    const layout::Guard guard{words[0]};
    const bool live = guard.state() == layout::GuardState::live;
    const bool described = descriptor.state == SlotState::live;
    if (!described && !broken::s7_restart_dead) return false;  // what the bytes show is of an earlier use of the page
    if (described && (descriptor.flags & item_moved) != 0) return false;  // another node has its key
    if (!live && !(broken::s7_restart_dead && guard.state() == layout::GuardState::dead)) {
        lost.unfinished++;
        return false;
    }
    layout::ItemHeader header;
    std::memcpy(&header, words, sizeof header);
    const uint64_t bytes = layout::item_bytes(header.key_len, header.value_len);
    const uint64_t generation = guard.generation();
    if (header.key_len == 0 || header.key_len > limits::key_bytes_max || bytes > capacity || generation > generation_ceiling_ ||
        header.check != layout::item_check(words, bytes, notes_->secret, generation, header_.arena_offset + offset)) {
        lost.unfinished++;
        return false;
    }
    const char* const key = reinterpret_cast<const char*>(words) + sizeof header;
    item.key = {key, header.key_len};
    item.value = {key + header.key_len, header.value_len};
    item.generation = generation;
    item.cas = header.cas;
    item.flags = header.flags;
    item.format = header.format;
    item.exptime = converted(descriptor.exptime);
    item.last_access = converted(descriptor.last_access);
    item.access_count = descriptor.access_count;
    item.descriptor_flags = descriptor.flags;
    if (hidden(item.key, generation)) return false;
    if (has_expired(item.exptime, now)) {
        lost.expired++;
        return false;
    }
    return true;
}

std::span<const FormerRun::Item> FormerRun::items(const Extent& from, NodeSeconds now, Scratch& scratch, Lost& lost) const {
    const bool run = from.slot_bytes == 0;
    const uint64_t offset = from.first * uint64_t(layout::page_bytes);
    scratch.items.clear();
    scratch.page.resize(layout::page_bytes / sizeof(uint64_t));
    if (!read_descriptors(from, scratch.descriptors) ||
        !read_at(file_, header_.arena_offset + offset, scratch.page.data(), layout::page_bytes) ||
        (run && !read_run(from, scratch))) {
        lost.unreadable++;
        return {};
    }
    const uint64_t slot_bytes = run ? scratch.page.size() * sizeof(uint64_t) : from.slot_bytes;
    for (uint32_t slot = 0; slot < from.slots(); slot++) {
        Item item{};
        const uint64_t at = slot * slot_bytes;
        if (take(scratch.page.data() + at / sizeof(uint64_t), slot_bytes, offset + at, scratch.descriptors[slot], now, lost, item))
            scratch.items.push_back(item);
    }
    return scratch.items;
}

// Of a run whose first page was read: the other pages that its item fills. An impossible length leaves the first one.
bool FormerRun::read_run(const Extent& run, Scratch& scratch) const {
    layout::ItemHeader item;
    std::memcpy(&item, scratch.page.data(), sizeof item);
    const uint64_t bytes = round_up(layout::item_bytes(item.key_len, item.value_len), layout::page_bytes);
    if (scratch.descriptors[0].state != SlotState::live || bytes > uint64_t(run.pages) * layout::page_bytes) return true;
    struct stat facts {};
    const uint64_t at = header_.arena_offset + run.first * uint64_t(layout::page_bytes);
    if (fstat(file_.get(), &facts) != 0 || at + bytes > uint64_t(facts.st_size)) return false;
    scratch.page.resize(bytes / sizeof(uint64_t));
    auto* const rest = reinterpret_cast<char*>(scratch.page.data()) + layout::page_bytes;
    return read_at(file_, at + layout::page_bytes, rest, bytes - layout::page_bytes);
}

void FormerRun::discard(const Extent& extent, const Scratch& scratch) const {
    constexpr uint64_t each = layout::page_slots_max * sizeof(Descriptor);
    static_assert(each % system_page == 0);
    const uint64_t first = extent.first, end = first + scratch.page.size() * sizeof(uint64_t) / layout::page_bytes;
    punch(header_.arena_offset + first * layout::page_bytes, header_.arena_offset + end * layout::page_bytes);
    punch(places_.descriptors + first * each, places_.descriptors + end * each);
}

// ---- the file of this run ---------------------------------------------------------------------------

namespace {

enum class Held : uint8_t { locked, gone, refused };

// Locks the file at `path`, and waits for a process that ends. gone: another file is there now.
Held lock_file(const fabric::Descriptor& file, const std::string& path) {
    bool locked_it = false;
    const auto ended = [&] {
        locked_it = flock(file.get(), LOCK_EX | LOCK_NB) == 0;
        return locked_it || errno != EWOULDBLOCK;
    };
    if (!wait_until(ended) || !locked_it) return Held::refused;
    struct stat locked {}, there {};
    if (fstat(file.get(), &locked) != 0 || lstat(path.c_str(), &there) != 0) return Held::gone;
    return locked.st_dev == there.st_dev && locked.st_ino == there.st_ino ? Held::locked : Held::gone;
}

// Only this user can change it, and it has one name: another user's file in a public folder is not the node's (S10).
bool is_own(const struct stat& facts) {
    return S_ISREG(facts.st_mode) && facts.st_uid == geteuid() && facts.st_nlink == 1 && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

struct Opened {
    fabric::Descriptor file;  // none: there is no file, or not one that can be used
    bool in_use = false;      // by another process
    std::string refusal;      // it must stay, and nothing is kept
};

Opened open_former(const std::string& path) {
    constexpr int tries = 8;
    for (int i = 0; i < tries; i++) {
        fabric::Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
        if (!file && errno == ENOENT) return {};
        if (!file) return {{}, false, with_error("cannot open it")};
        const Held held = lock_file(file, path);
        if (held == Held::locked) return {std::move(file), false, {}};
        if (held == Held::refused) return {{}, true, "another process uses it"};
    }
    return {{}, true, "other processes keep replacing it"};
}

bool begins_like_ours(const fabric::Descriptor& file) {
    uint64_t magic = 0;
    struct stat facts {};
    if (fstat(file.get(), &facts) != 0 || !is_own(facts)) return false;
    return facts.st_size == 0 || (read_at(file, 0, &magic, sizeof magic) && magic == layout::region_magic);
}

// Renames a foreign file to the first free of PATH.damaged, PATH.damaged-2, ... Empty: the system refused.
std::string set_aside(const std::string& path) {
    constexpr int names = 100;
    for (int i = 1; i < names; i++) {
        const std::string to = path + ".damaged" + (i == 1 ? "" : "-" + std::to_string(i));
        if (renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return to;
        if (errno != EEXIST) return {};
    }
    return {};
}

// A new file that no other process has open. A former one of that name is of a start that was killed.
Result<fabric::Descriptor, MemoryFile::Refused> create(const std::string& path) {
    constexpr int tries = 8;
    for (int i = 0; i < tries; i++) {
        fabric::Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        if (file && lock_file(file, path) == Held::locked) return file;
        if (file) continue;  // another start has removed it
        if (errno != EEXIST) return MemoryFile::Refused{false, with_error("cannot create " + path)};
        const fabric::Descriptor old(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
        if (!old || !begins_like_ours(old)) return MemoryFile::Refused{false, path + " is not a node's memory"};
        if (flock(old.get(), LOCK_EX | LOCK_NB) != 0) return MemoryFile::Refused{true, "another process uses " + path};
        (void)unlink(path.c_str());
    }
    return MemoryFile::Refused{true, "other processes keep replacing " + path};
}

std::string not_kept(const std::string& path, const std::string& why) {
    return "the items of this run will not be kept in " + path + ": " + why;
}

}  // namespace

bool FormerRun::process_lives() const { return lives(*notes_); }

Result<std::unique_ptr<MemoryFile>, MemoryFile::Refused> MemoryFile::open(const std::string& path, const RunClock& clock) {
    const auto refused = [&](bool in_use, const std::string& why) {
        return Refused{in_use, in_use ? path + ": " + why : not_kept(path, why)};
    };
    Opened former = open_former(path);
    if (!former.refusal.empty())
        return refused(former.in_use, former.refusal + (former.in_use ? "" : "; if it has items of this cache, delete it"));
    std::string cold;
    if (former.file && !begins_like_ours(former.file)) {
        const std::string to = set_aside(path);
        if (to.empty()) return refused(false, with_error("it is not a node's memory of this user, and cannot be renamed"));
        cold = "it was not a node's memory of this user, and is now " + to;
        former.file.reset();
    }
    auto fresh = create(path + ".new");
    if (const auto* refusal = std::get_if<Refused>(&fresh)) {
        if (!refusal->in_use && former.file && unlink(path.c_str()) != 0)
            return refused(true, refusal->text + ", and its outdated items cannot be removed");
        return refused(refusal->in_use, refusal->text);
    }
    std::unique_ptr<MemoryFile> made(new MemoryFile(path, std::get<0>(std::move(fresh)), clock));
    struct statfs system {};
    made->in_memory_ = fstatfs(made->fd(), &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
    const auto boot = read_boot_id();
    if (const auto* id = std::get_if<BootId>(&boot)) made->boot_ = *id;
    made->cold_ = std::move(cold);
    if (!former.file) return made;
    auto read = FormerRun::read(std::move(former.file), clock, made->boot_);
    if (auto* problem = std::get_if<Problem>(&read)) {
        made->cold_ = problem->text;
        return made;
    }
    made->former_ = std::get<0>(std::move(read));
    if (!wait_until([&] { return !made->former_->process_lives(); })) return refused(true, "its former process does not end");
    return made;
}

bool MemoryFile::give_up_former() {
    const bool gone = unlink(path_.c_str()) == 0 || errno == ENOENT || (former_ != nullptr && former_->invalidate());
    former_.reset();
    return gone;
}

MemoryFile::~MemoryFile() {
    if (!serving_) (void)unlink((path_ + ".new").c_str());
}

void MemoryFile::lay_out(uint64_t region_bytes, uint64_t page_count, uint64_t secret) {
    const FilePlaces places(region_bytes, page_count);
    notes_ = std::make_unique<Mapping>(Mapping::FilePart{file_.get(), off_t(places.notes)}, places.end - places.notes, false);
    if (!populate(notes_->data(), notes_->size())) throw std::system_error(ENOSPC, std::generic_category(), "notes of a file");
    Notes& mine = notes();
    mine.magic = Notes::magic_word;
    mine.version = Notes::version_now;
    mine.boot = boot_;
    mine.zero_boottime_s = clock_.boottime_s;
    mine.pid = uint64_t(getpid());
    if (const auto life = process_life(mine.pid)) mine.pid_started = life->started;
    mine.pid_namespace = pid_namespace();
    mine.secret = secret;
}

std::string MemoryFile::serve() {
    notes().state = Notes::State::serving;
    if (rename((path_ + ".new").c_str(), path_.c_str()) != 0) {
        const std::string why = with_error("cannot rename " + path_ + ".new");
        (void)give_up_former();
        return not_kept(path_, why);
    }
    serving_ = true;
    former_.reset();
    return {};
}

std::string MemoryFile::stop(NodeSeconds now) {
    if (!serving_) return {};
    const auto write_out = [&] { return in_memory_ || fsync(file_.get()) == 0; };
    const auto write_folder_out = [&] {
        const size_t slash = path_.rfind('/');
        const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
        const fabric::Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        return in_memory_ || (opened && fsync(opened.get()) == 0);
    };
    notes().stopped_at = now;
    notes().stopped_unix_s = int64_t(realtime_us() / 1'000'000);
    if (write_out() && write_folder_out()) {
        __atomic_store_n(reinterpret_cast<uint32_t*>(&notes().state), uint32_t(Notes::State::stopped), __ATOMIC_RELEASE);
        if (write_out()) return {};
    }
    return with_error("cannot write " + path_ + " out; after a restart of the system its items are lost");
}

}  // namespace farcached::node
