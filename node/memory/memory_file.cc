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
#include <cstring>
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
    if (notes.magic != Notes::magic_word || notes.version != Notes::version_now) return "its notes are damaged";
    if (notes.state != Notes::State::serving && notes.state != Notes::State::stopped) return "it was never complete";
    const std::string_view boot(notes.boot_id, strnlen(notes.boot_id, sizeof notes.boot_id));
    if (notes.state == Notes::State::serving && (boot.empty() || boot != boot_id))
        return "the system went down while it was in use, so a part of it may be lost";
    for (const Notes::Prefix& prefix : notes.prefixes)
        if (prefix.order != 0 && (prefix.length == 0 || prefix.length > limits::key_bytes_max)) return "its notes are damaged";
    return {};
}

// What the former clock reads when the present one reads 0.
int64_t shift_of(const Notes& notes, const RunClock& now, std::string_view boot_id) {
    const std::string_view boot(notes.boot_id, strnlen(notes.boot_id, sizeof notes.boot_id));
    if (!boot.empty() && boot == boot_id) return now.boottime_s - notes.clock.boottime_s;
    return int64_t(notes.stopped_at) + std::max<int64_t>(0, now.unix_s - notes.stopped_unix_s);
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
    const int64_t shift_s = shift_of(*notes, now, boot_id);
    return std::unique_ptr<FormerRun>(new FormerRun(std::move(file), header, std::move(notes), shift_s));
}

uint64_t FormerRun::generation_ceiling() const { return largest(notes_->generation_ceilings); }
uint64_t FormerRun::cas_ceiling() const { return largest(notes_->cas_ceilings); }

NodeSeconds FormerRun::converted(NodeSeconds then) const {
    if (then == 0) return 0;
    return NodeSeconds(std::clamp<int64_t>(int64_t(then) - shift_s_, long_expired, UINT32_MAX));
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
    if (!live && !(broken::s7_restart_dead && guard.state() == layout::GuardState::dead)) {
        lost.unfinished += described;
        return false;
    }
    layout::ItemHeader header;
    std::memcpy(&header, words, sizeof header);
    const uint64_t bytes = layout::item_bytes(header.key_len, header.value_len);
    const uint64_t generation = guard.generation();
    if (header.key_len == 0 || header.key_len > limits::key_bytes_max || bytes > capacity ||
        header.check != layout::item_check(words, bytes, notes_->secret, generation, header_.arena_offset + offset) ||
        !(described || broken::s7_restart_dead)) {
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

std::span<const FormerRun::Item> FormerRun::items(uint64_t page, NodeSeconds now, Scratch& scratch, Lost& lost) const {
    layout::PageEntry entry{};
    scratch.items.clear();
    if (!read_entry(page, entry)) {
        lost.unreadable++;
        return {};
    }
    const bool run = entry.size_class == layout::large_class;
    const uint64_t slot_bytes = run ? uint64_t(entry.run_pages) * layout::page_bytes : header_.class_bytes[entry.size_class];
    if (slot_bytes == 0) return {};
    const uint32_t slots = run ? 1 : uint32_t(layout::page_bytes / slot_bytes);
    const uint64_t offset = page * layout::page_bytes, bytes = run ? slot_bytes : layout::page_bytes;
    scratch.page.resize(bytes / sizeof(uint64_t));
    if (!read_descriptors(page, slots, scratch.descriptors) ||
        !read_at(file_, header_.arena_offset + offset, scratch.page.data(), bytes)) {
        lost.unreadable++;
        return {};
    }
    for (uint32_t slot = 0; slot < slots; slot++) {
        Item item{};
        const uint64_t at = slot * slot_bytes;
        if (take(scratch.page.data() + at / sizeof(uint64_t), slot_bytes, offset + at, scratch.descriptors[slot], now, lost, item))
            scratch.items.push_back(item);
    }
    return scratch.items;
}

void FormerRun::discard(uint64_t page) const {
    layout::PageEntry entry{};
    if (!read_entry(page, entry)) return;
    const uint64_t pages = entry.size_class == layout::large_class ? entry.run_pages : 1;
    (void)fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    off_t(header_.arena_offset + page * layout::page_bytes), off_t(pages * layout::page_bytes));
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

struct Opened {
    fabric::Descriptor file;  // none: there is no file
    std::string refusal;      // or it must stay, and nothing is kept
};

Opened open_former(const std::string& path) {
    constexpr int tries = 8;
    for (int i = 0; i < tries; i++) {
        fabric::Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
        if (!file && errno == ENOENT) return {};
        if (!file) return {{}, with_error("cannot open it")};
        struct stat facts {};
        if (fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return {{}, "it is not a file"};
        const Held held = lock_file(file, path);
        if (held == Held::locked) return {std::move(file), {}};
        if (held == Held::refused) return {{}, "another process uses it"};
    }
    return {{}, "other processes keep replacing it"};
}

bool begins_like_ours(const fabric::Descriptor& file) {
    uint64_t magic = 0;
    struct stat facts {};
    if (fstat(file.get(), &facts) == 0 && facts.st_size == 0) return true;
    return read_at(file, 0, &magic, sizeof magic) && magic == layout::region_magic;
}

std::string not_kept(const std::string& path, const std::string& why) {
    return "the items of this run will not be kept in " + path + ": " + why;
}

}  // namespace

Result<std::unique_ptr<MemoryFile>> MemoryFile::open(const std::string& path, const RunClock& clock) {
    Opened former = open_former(path);
    if (!former.refusal.empty()) return system_problem(not_kept(path, former.refusal));
    const std::string damaged = path + ".damaged", fresh = path + ".new";
    const bool foreign = former.file && !begins_like_ours(former.file);
    if (foreign && rename(path.c_str(), damaged.c_str()) != 0)
        return system_problem(not_kept(path, with_error("it is not a node's memory, and cannot be renamed")));
    fabric::Descriptor file(::open(fresh.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return system_problem(not_kept(path, with_error("cannot create " + fresh)));
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return system_problem(not_kept(path, "another process uses " + fresh));
    if (fchmod(file.get(), 0600) != 0 || ftruncate(file.get(), 0) != 0)
        return system_problem(not_kept(path, with_error("cannot empty " + fresh)));
    std::unique_ptr<MemoryFile> made(new MemoryFile(path, std::move(file), clock));
    made->boot_id_ = read_boot_id();
    if (!former.file) return made;
    if (foreign) {
        made->cold_ = "it was not a node's memory, and is now " + damaged;
        return made;
    }
    auto read = FormerRun::read(std::move(former.file), clock, made->boot_id_);
    if (auto* problem = std::get_if<Problem>(&read))
        made->cold_ = problem->text;
    else
        made->former_ = std::get<0>(std::move(read));
    return made;
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
    mine.secret = secret;
}

std::string MemoryFile::serve() {
    notes().state = Notes::State::serving;
    if (rename((path_ + ".new").c_str(), path_.c_str()) != 0) return not_kept(path_, with_error("cannot rename " + path_ + ".new"));
    serving_ = true;
    former_.reset();
    return {};
}

std::string MemoryFile::stop(NodeSeconds now) {
    if (!serving_) return {};
    struct statfs system {};
    const bool in_memory = fstatfs(file_.get(), &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
    const auto write_out = [&] { return in_memory || fsync(file_.get()) == 0; };
    timespec at{};
    clock_gettime(CLOCK_REALTIME, &at);
    notes().stopped_at = now;
    notes().stopped_unix_s = at.tv_sec;
    if (write_out()) {
        __atomic_store_n(reinterpret_cast<uint32_t*>(&notes().state), uint32_t(Notes::State::stopped), __ATOMIC_RELEASE);
        if (write_out()) return {};
    }
    return with_error("cannot write " + path_ + " out; after a restart of the system its items are lost");
}

}  // namespace farcached::node
