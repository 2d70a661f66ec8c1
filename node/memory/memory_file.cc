// SPDX-License-Identifier: BSD-3-Clause
#include "node/memory/memory_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>

#include "base/broken.h"
#include "base/check.h"
#include "base/limits.h"
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

// The kernel's name of this boot; empty: unknown.
std::string read_boot_id() {
    const fabric::Descriptor file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
    char text[sizeof Notes::boot_id] = {};
    const ssize_t bytes = file ? ::read(file.get(), text, sizeof text - 1) : -1;
    std::string id(text, bytes > 0 ? size_t(bytes) : 0);
    while (id.ends_with('\n')) id.pop_back();
    return id;
}

std::string with_error(const std::string& text) { return text + ": " + std::strerror(errno); }

// Opens /proc/PID/stat or a like file; its text.
std::string text_of(const std::string& path) {
    const fabric::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    char text[1024];
    const ssize_t bytes = file ? ::read(file.get(), text, sizeof text) : -1;
    return std::string(text, bytes > 0 ? size_t(bytes) : 0);
}

struct Life {
    char state = 'X';  // X: there is no such process
    uint64_t started = 0;
};

Life life_of(uint64_t pid) {
    constexpr int fields_before_start = 19;  // behind the state, which follows the name in brackets
    const std::string text = text_of("/proc/" + std::to_string(pid) + "/stat");
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos || name_end + 2 >= text.size()) return {};
    Life life{text[name_end + 2]};
    size_t at = name_end + 2;
    for (int i = 0; i < fields_before_start && at != std::string::npos; i++) at = text.find(' ', at + 1);
    if (at != std::string::npos) life.started = std::strtoull(text.c_str() + at, nullptr, 10);
    return life;
}

uint64_t pid_namespace() {
    struct stat facts {};
    return stat("/proc/self/ns/pid", &facts) == 0 ? facts.st_ino : 0;
}

// Does the process that wrote the notes still exist? A zombie has no descriptors and no queue pairs any more. In another
// namespace the one who started this process has waited for that one.
bool lives(const Notes& notes) {
    if (notes.pid == uint64_t(getpid()) || notes.pid_namespace != pid_namespace()) return false;
    const Life life = life_of(notes.pid);
    return life.started == notes.pid_started && life.state != 'Z' && life.state != 'X';
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

std::string_view wrong_notes(const Notes& notes, std::string_view boot_id) {
    constexpr uint64_t ceiling_max = UINT64_C(1) << 61;
    constexpr int64_t seconds_max = INT64_C(1) << 40;
    const auto possible = [](int64_t seconds) { return seconds > -seconds_max && seconds < seconds_max; };
    if (notes.magic != Notes::magic_word || notes.version != Notes::version_now) return "its notes are damaged";
    if (notes.state != Notes::State::serving && notes.state != Notes::State::stopped) return "it was never complete";
    const std::string_view boot(notes.boot_id, strnlen(notes.boot_id, sizeof notes.boot_id));
    if (notes.state == Notes::State::serving && (boot.empty() || boot != boot_id))
        return "the system went down while it was in use, so a part of it may be lost";
    if (largest(notes.generation_ceilings) > ceiling_max || largest(notes.cas_ceilings) > ceiling_max ||
        !possible(notes.clock.boottime_s) || !possible(notes.clock.unix_s) || !possible(notes.stopped_unix_s))
        return "its notes are damaged";
    for (const Notes::Prefix& prefix : notes.prefixes)
        if (prefix.order != 0 && (prefix.length == 0 || prefix.length > limits::key_bytes_max)) return "its notes are damaged";
    return {};
}

// What the former clock reads when the present one reads 0. None: the wall clock was set back, so nobody knows.
std::optional<int64_t> shift_of(const Notes& notes, const RunClock& now, std::string_view boot_id) {
    const std::string_view boot(notes.boot_id, strnlen(notes.boot_id, sizeof notes.boot_id));
    if (!boot.empty() && boot == boot_id) return now.boottime_s - notes.clock.boottime_s;
    if (now.unix_s < notes.stopped_unix_s) return std::nullopt;
    return int64_t(notes.stopped_at) + now.unix_s - notes.stopped_unix_s;
}

}  // namespace

Result<std::unique_ptr<FormerRun>> FormerRun::read(fabric::Descriptor file, const RunClock& now, std::string_view boot_id) {
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
    if (const std::string_view wrong = wrong_notes(*notes, boot_id); !wrong.empty()) return system_problem(std::string(wrong));
    const std::optional<int64_t> shift_s = shift_of(*notes, now, boot_id);
    std::unique_ptr<FormerRun> former(new FormerRun(std::move(file), header, std::move(notes), shift_s));
    if (!former->take_over(boot_id)) return system_problem(with_error("it cannot be written"));
    return former;
}

// From here on the file counts in this boot only: F3.
bool FormerRun::take_over(std::string_view boot_id) {
    Notes::State state = Notes::State::serving;
    char boot[sizeof Notes::boot_id] = {};
    boot_id.copy(boot, sizeof boot - 1);
    const auto write = [&](const void* bytes, size_t size, size_t at) {
        return pwrite(file_.get(), bytes, size, off_t(places_.notes + at)) == ssize_t(size);
    };
    if (!write(boot, sizeof boot, offsetof(Notes, boot_id)) || !write(&state, sizeof state, offsetof(Notes, state))) return false;
    if (fdatasync(file_.get()) != 0) return false;
    const uint64_t pages_end = header_.pages_offset + header_.page_count * sizeof(layout::PageEntry);
    punch(round_up(pages_end, system_page), header_.arena_offset);  // the index is made anew
    return true;
}

bool FormerRun::invalidate() {
    const Notes::State state = Notes::State::filling;
    return pwrite(file_.get(), &state, sizeof state, off_t(places_.notes + offsetof(Notes, state))) == ssize_t(sizeof state);
}

uint64_t FormerRun::generation_ceiling() const { return largest(notes_->generation_ceilings); }
uint64_t FormerRun::cas_ceiling() const { return largest(notes_->cas_ceilings); }

NodeSeconds FormerRun::converted(NodeSeconds then) const {
    if (then == 0) return 0;
    return NodeSeconds(std::clamp<int64_t>(int64_t(then) - shift_s_, long_expired, UINT32_MAX));
}

void FormerRun::punch(uint64_t from, uint64_t to) const {
    if (from < to) (void)fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(from), off_t(to - from));
}

bool FormerRun::read_entry(uint64_t page, layout::PageEntry& entry) const {
    if (!read_at(file_, header_.pages_offset + page * sizeof entry, &entry, sizeof entry)) return false;
    if (entry.size_class != layout::large_class) return entry.size_class < 64;
    return entry.run_pages <= header_.page_count - page;
}

bool FormerRun::read_descriptors(uint64_t page, uint32_t slots, std::vector<Descriptor>& to) const {
    to.resize(slots);
    const uint64_t number = uint64_t(make_ref(page, 0));
    return read_at(file_, places_.descriptors + number * sizeof(Descriptor), to.data(), slots * sizeof(Descriptor));
}

FormerRun::Overview FormerRun::overview() const {
    struct Seen {
        uint64_t order;
        uint32_t page;
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
        const uint32_t bytes = header_.class_bytes[entry.size_class];
        if (run ? entry.run_pages == 0 || entry.run_pages > header_.page_count - page : bytes == 0) continue;
        if (!read_descriptors(page, run ? 1 : layout::page_bytes / bytes, descriptors)) {
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
        seen.push_back({run ? UINT32_MAX - entry.run_pages : (UINT64_C(1) << 32) + last_access, uint32_t(page)});
    }
    std::stable_sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) { return a.order < b.order; });
    for (const Seen& one : seen) all.pages.push_back(one.page);
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
    if (!live && !(broken::s7_restart_dead && guard.state() == layout::GuardState::dead)) {
        lost.unfinished++;
        return false;
    }
    layout::ItemHeader header;
    std::memcpy(&header, words, sizeof header);
    const uint64_t bytes = layout::item_bytes(header.key_len, header.value_len);
    const uint64_t generation = guard.generation();
    if (header.key_len == 0 || header.key_len > limits::key_bytes_max || bytes > capacity || generation > generation_ceiling() ||
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
    if (has_expired(item.exptime, now) || (!knows_time_ && item.exptime != never_expires)) {
        lost.expired++;
        return false;
    }
    return true;
}

std::span<const FormerRun::Item> FormerRun::items(uint64_t page, NodeSeconds now, Scratch& scratch, Lost& lost) const {
    layout::PageEntry entry{};
    scratch.items.clear();
    scratch.pages = 1;
    if (!read_entry(page, entry)) {
        lost.unreadable++;
        return {};
    }
    const bool run = entry.size_class == layout::large_class;
    uint64_t slot_bytes = header_.class_bytes[entry.size_class];
    if (run ? entry.run_pages == 0 : slot_bytes == 0) return {};
    const uint64_t offset = page * layout::page_bytes;
    scratch.page.resize(layout::page_bytes / sizeof(uint64_t));
    if (!read_descriptors(page, run ? 1 : uint32_t(layout::page_bytes / slot_bytes), scratch.descriptors) ||
        !read_at(file_, header_.arena_offset + offset, scratch.page.data(), layout::page_bytes) ||
        (run && !read_run(page, entry.run_pages, scratch))) {
        lost.unreadable++;
        return {};
    }
    if (run) slot_bytes = scratch.page.size() * sizeof(uint64_t);
    const uint32_t slots = uint32_t(scratch.descriptors.size());
    for (uint32_t slot = 0; slot < slots; slot++) {
        Item item{};
        const uint64_t at = slot * slot_bytes;
        if (take(scratch.page.data() + at / sizeof(uint64_t), slot_bytes, offset + at, scratch.descriptors[slot], now, lost, item))
            scratch.items.push_back(item);
    }
    return scratch.items;
}

// Of a run whose first page was read: the pages that its item fills. An impossible length leaves the first one.
bool FormerRun::read_run(uint64_t page, uint64_t run_pages, Scratch& scratch) const {
    layout::ItemHeader item;
    std::memcpy(&item, scratch.page.data(), sizeof item);
    const uint64_t pages = round_up(layout::item_bytes(item.key_len, item.value_len), layout::page_bytes) / layout::page_bytes;
    if (scratch.descriptors[0].state != SlotState::live || pages > run_pages) return true;
    const uint64_t bytes = pages * layout::page_bytes;
    struct stat facts {};
    const uint64_t at = header_.arena_offset + page * layout::page_bytes;
    if (fstat(file_.get(), &facts) != 0 || at + bytes > uint64_t(facts.st_size)) return false;
    scratch.page.resize(bytes / sizeof(uint64_t));
    scratch.pages = pages;
    return read_at(file_, at, scratch.page.data(), bytes);
}

void FormerRun::discard(uint64_t page, uint64_t pages) const {
    constexpr uint64_t each = layout::page_slots_max * sizeof(Descriptor);
    static_assert(each % system_page == 0);
    punch(header_.arena_offset + page * layout::page_bytes, header_.arena_offset + (page + pages) * layout::page_bytes);
    punch(places_.descriptors + page * each, places_.descriptors + (page + pages) * each);
}

// ---- the file of this run ---------------------------------------------------------------------------

namespace {

enum class Held : uint8_t { locked, gone, refused };

// Locks the file at `path`, and waits for a process that ends. gone: another file is there now.
Held lock_file(const fabric::Descriptor& file, const std::string& path) {
    constexpr int tries = 100, pause_us = 50'000;
    for (int i = 0; flock(file.get(), LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK || i == tries) return Held::refused;
        usleep(pause_us);
    }
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

bool wait_for_end(const FormerRun& former) {
    constexpr int tries = 200, pause_us = 50'000;
    for (int i = 0; former.process_lives(); i++) {
        if (i == tries) return false;
        usleep(pause_us);
    }
    return true;
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
    made->boot_id_ = read_boot_id();
    made->cold_ = std::move(cold);
    if (!former.file) return made;
    auto read = FormerRun::read(std::move(former.file), clock, made->boot_id_);
    if (auto* problem = std::get_if<Problem>(&read)) {
        made->cold_ = problem->text;
        return made;
    }
    made->former_ = std::get<0>(std::move(read));
    if (!wait_for_end(*made->former_)) return refused(true, "its former process does not end");
    return made;
}

bool MemoryFile::give_up_former() {
    if (former_ == nullptr) return true;
    const bool invalid = former_->invalidate(), gone = unlink(path_.c_str()) == 0;
    former_.reset();
    return invalid || gone;
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
    boot_id_.copy(mine.boot_id, sizeof mine.boot_id - 1);
    mine.clock = clock_;
    mine.pid = uint64_t(getpid());
    mine.pid_started = life_of(mine.pid).started;
    mine.pid_namespace = pid_namespace();
    mine.secret = secret;
}

std::string MemoryFile::serve() {
    notes().state = Notes::State::serving;
    if (rename((path_ + ".new").c_str(), path_.c_str()) != 0) {
        const std::string why = with_error("cannot rename " + path_ + ".new");
        if (!give_up_former()) (void)unlink(path_.c_str());
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
    timespec at{};
    clock_gettime(CLOCK_REALTIME, &at);
    notes().stopped_at = now;
    notes().stopped_unix_s = at.tv_sec;
    if (write_out() && write_folder_out()) {
        __atomic_store_n(reinterpret_cast<uint32_t*>(&notes().state), uint32_t(Notes::State::stopped), __ATOMIC_RELEASE);
        if (write_out()) return {};
    }
    return with_error("cannot write " + path_ + " out; after a restart of the system its items are lost");
}

}  // namespace farcached::node
