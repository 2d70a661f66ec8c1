// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/pointer_table.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "base/check.h"
#include "base/host.h"
#include "base/limits.h"
#include "fabric/socket.h"

namespace farcached::proxy {

// ---- entries ----------------------------------------------------------------------------------------

namespace {

constexpr uint32_t fillers_tried_max = 256;

// A lock of one byte by the open file, independent of threads; only the kernel releases it.
struct flock lock_of(uint16_t filler) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = off_t(table_attached_offset + filler);
    lock.l_len = 1;
    return lock;
}

}  // namespace

PointerTable::PointerTable(int fd, void* mapping, uint64_t entries, uint64_t seed, bool created)
    : fd_(fd), mapping_(mapping), entries_(entries), seed_(seed), created_(created),
      boards_(static_cast<char*>(mapping) + table_boards_offset(entries), entries, seed) {
    // 0 means no process. The number of a live process is skipped. After fillers_tried_max attempts a process shares
    // the last number; at worst, two reporters result. If the kernel grants no such locks, all processes count as dead,
    // and the reporter changes often.
    for (uint32_t tried = 0; tried < fillers_tried_max; tried++) {
        const uint64_t before = __atomic_fetch_add(&header()->fillers, 1, __ATOMIC_RELAXED);
        filler_ = uint16_t(1 + before % 0xffff);
        struct flock lock = lock_of(filler_);
        if (fcntl(fd_, F_OFD_SETLK, &lock) == 0) break;
    }
}

PointerTable::~PointerTable() {
    munmap(mapping_, table_bytes(entries_));
    close(fd_);
}

bool PointerTable::attached(uint16_t filler) const {
    if (filler == filler_) return true;
    struct flock lock = lock_of(filler);
    return fcntl(fd_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

// An entry whose lease ended is not merged: its slot may have belonged to another key since.
fabric::LeasedPtr PointerTable::merged(const EntryCopy& copy, const fabric::LeasedPtr& told, uint64_t now_ns) const {
    if (entry_state(copy, seed_) != EntryState::whole) return told;
    if (copy[word_valid_until] <= now_ns) return told;
    return fabric::merged(unpack_entry(copy), told);
}

uint64_t PointerTable::worth(const EntryCopy& copy, uint64_t now_ns) const {
    enum : uint64_t { free_entry, expired_entry, torn_entry, live_entries };
    switch (entry_state(copy, seed_)) {
        case EntryState::free: return free_entry;
        case EntryState::torn: return torn_entry;  // a process may be about to complete it
        case EntryState::whole: break;
    }
    if (copy[word_valid_until] <= now_ns) return expired_entry;
    return std::max<uint64_t>(copy[word_valid_until], live_entries);
}

// The key's pointer to that slot, for any generation.
std::optional<fabric::LeasedPtr> PointerTable::pointer_to(uint64_t key_hash, const Place& item) const {
    const SetPlace set = set_of(key_hash, entries_);
    NoPause unwatched;
    for (uint32_t n = 0; n < set_ways; n++) {
        const EntryCopy copy = load_entry(at(set.way(n)), unwatched);
        if (copy[word_key_hash] != key_hash) continue;
        if (copy[word_incarnation] != item.incarnation) continue;
        if (entry_state(copy, seed_) != EntryState::whole) continue;
        const fabric::LeasedPtr leased = unpack_entry(copy);
        if (leased.ptr.offset == item.offset && leased.ptr.region == item.region) return leased;
    }
    return std::nullopt;
}

bool PointerTable::extend(uint64_t key_hash, const Place& item, uint64_t valid_until_ns, uint64_t now_ns) {
    std::optional<fabric::LeasedPtr> leased = pointer_to(key_hash, item);
    if (!leased.has_value()) return false;
    leased->valid_until_ns = valid_until_ns;
    return put(key_hash, *leased, now_ns) == Put::stored;
}

uint64_t PointerTable::valid_until_ns(uint64_t key_hash, const Place& item) const {
    const std::optional<fabric::LeasedPtr> leased = pointer_to(key_hash, item);
    return leased.has_value() ? leased->valid_until_ns : 0;
}

bool PointerTable::drop(uint64_t key_hash, const fabric::RemotePtr& ptr) {
    return drop_if(key_hash, ptr.incarnation, &ptr);
}

bool PointerTable::forget(uint64_t key_hash, uint64_t incarnation) {
    return drop_if(key_hash, incarnation, nullptr);
}

bool PointerTable::drop_if(uint64_t key_hash, uint64_t incarnation, const fabric::RemotePtr* only) {
    const SetPlace set = set_of(key_hash, entries_);
    bool dropped = false;
    NoPause unwatched;
    for (uint32_t n = 0; n < set_ways; n++) {  // all: two processes may have put it at once
        uint64_t* entry = at(set.way(n));
        const EntryCopy copy = load_entry(entry, unwatched);
        if (copy[word_key_hash] != key_hash) continue;
        if (copy[word_incarnation] != incarnation) continue;
        if (entry_state(copy, seed_) != EntryState::whole) continue;
        const fabric::RemotePtr held = unpack_entry(copy).ptr;
        if (only != nullptr && (!same_place(held, *only) || held.generation != only->generation)) continue;
        // Exchanged, not stored, so that an entry written in between survives.
        uint64_t check = copy[word_check];
        if (__atomic_compare_exchange_n(entry + word_check, &check, 0, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            dropped = true;
    }
    return dropped;
}

namespace {

PointerTable::Record record_of(const EntryCopy& copy) {
    return {copy[word_key_hash], unpack_entry(copy), filler_of(copy), copy[word_accesses]};
}

}  // namespace

void PointerTable::walk(uint64_t first, uint64_t count, Visit visit) const {
    CHECK(first <= entries_);
    CHECK(count <= entries_ - first);
    NoPause unwatched;
    for (uint64_t number = first; number < first + count; number++) {
        if (words::load_relaxed(at(number) + word_check) == 0) continue;
        const EntryCopy copy = load_entry(at(number), unwatched);
        if (entry_state(copy, seed_) == EntryState::whole) visit(record_of(copy));
    }
}

void PointerTable::add_occupancy(uint64_t first, uint64_t count, uint64_t now_ns,
                                 Occupancy& sum) const {
    CHECK(first <= entries_);
    CHECK(count <= entries_ - first);
    NoPause unwatched;
    sum.entries += count;
    for (uint64_t number = first; number < first + count; number++) {
        const EntryCopy copy = load_entry(at(number), unwatched);
        const EntryState state = entry_state(copy, seed_);
        if (state == EntryState::free) sum.free++;
        if (state == EntryState::torn) sum.torn++;
        if (state != EntryState::whole) continue;
        sum.accesses += copy[word_accesses];
        if (copy[word_valid_until] <= now_ns) {
            sum.expired++;
            continue;
        }
        sum.live++;
        sum.own += filler_of(copy) == filler_;
        const uint64_t left_s = (copy[word_valid_until] - now_ns) / UINT64_C(1'000'000'000);
        const auto* bound =
            std::upper_bound(lease_left_bounds_s.begin(), lease_left_bounds_s.end(), left_s);
        sum.lease_left[size_t(bound - lease_left_bounds_s.begin())]++;
    }
}

// ---- opening ----------------------------------------------------------------------------------------

// Attaches to a pointer table, or makes it. The object /N is the file /dev/shm/N, as with shm_open() on Linux. It is
// opened by path, since a new table starts as a file without a name (O_TMPFILE) and gets its name when it is complete.
// So a name always leads to a whole table. Of two processes that make one at once, one wins and the other attaches; a
// process that dies half way leaves nothing.

namespace {

constexpr const char* shm_folder = "/dev/shm";
constexpr size_t name_bytes_max = 255;  // with the slash; NAME_MAX of every file system
constexpr mode_t mode_wanted = 0600;
constexpr uint32_t attempts_max = 16;

using Failure = std::optional<TableFailure>;  // empty: success

std::string path_of(const TableOptions& options) { return shm_folder + options.name; }

TableFailure refused(TableRefusal reason, const std::string& path, const std::string& why) {
    return {reason, "pointer table " + path + ": " + why};
}

TableFailure system_failed(const std::string& path, const std::string& call, int error,
                           const std::string& advice) {
    return refused(TableRefusal::system, path,
                   call + ": " + std::generic_category().message(error) + "; " + advice);
}

std::string remove_it(const std::string& path) {
    return "; stop the farcached that use it and remove " + path +
           ", or choose another pointer_table.path";
}

Failure check_options(const TableOptions& options) {
    const std::string& name = options.name;
    bool good = name.size() > 1 && name.size() <= name_bytes_max && name[0] == '/' &&
                name.find('/', 1) == std::string::npos && name.find('\0') == std::string::npos &&
                name != "/." && name != "/..";
    if (!good)
        return TableFailure{TableRefusal::bad_name,
                            "pointer table \"" + name + "\": its name must be a slash and a file name of at most"
                            " 254 bytes without another, such as /farcached; set pointer_table.path"};
    if (!std::has_single_bit(options.entries) || options.entries < limits::pointer_table_entries_min ||
        options.entries > limits::pointer_table_entries_max)
        return refused(TableRefusal::bad_entries, path_of(options),
                       std::to_string(options.entries) + " entries: must be a power of two from " +
                           std::to_string(limits::pointer_table_entries_min) + " to " +
                           std::to_string(limits::pointer_table_entries_max) + "; set pointer_table.entries");
    return {};
}

// Is the file a regular file of ours, with mode 0600?
Failure check_file(const struct stat& file, const TableOptions& options) {
    const std::string path = path_of(options);
    if (!S_ISREG(file.st_mode))
        return refused(TableRefusal::not_a_table, path, "is no regular file" + remove_it(path));
    if (file.st_uid != options.owner)
        return refused(TableRefusal::wrong_owner, path,
                       "belongs to user id " + std::to_string(file.st_uid) + ", not to " +
                           std::to_string(options.owner) +
                           "; a table is for the processes of one user: choose another"
                           " pointer_table.path, or have its owner remove it");
    const mode_t mode = file.st_mode & 07777;
    char octal[8];
    std::snprintf(octal, sizeof octal, "%04o", unsigned(mode));
    if (mode != mode_wanted)
        return refused(TableRefusal::wrong_mode, path,
                       std::string("has mode ") + octal + ", not 0600: other users may have written it" +
                           remove_it(path));
    if (uint64_t(file.st_size) < table_entries_offset)
        return refused(
            TableRefusal::too_small, path,
            "has " + std::to_string(file.st_size) + " bytes, less than a header" + remove_it(path));
    return {};
}

// Is the layout ours, and do its times use our clock?
Failure check_header(const TableHeader& header, uint64_t file_bytes, const TableOptions& options) {
    const std::string path = path_of(options);
    auto refuse = [&](TableRefusal reason, const std::string& why) {
        return Failure(refused(reason, path, why + remove_it(path)));
    };
    if (header.magic != table_magic)
        return refuse(TableRefusal::not_a_table, "is not a pointer table");
    if (header.version != table_version)
        return refuse(TableRefusal::other_layout,
                      "has layout version " + std::to_string(header.version) +
                          ", this farcached has " + std::to_string(table_version));
    if (header.header_bytes != sizeof(TableHeader) || header.layout_hash != table_layout_hash())
        return refuse(
            TableRefusal::other_layout,
            "has layout version " + std::to_string(header.version) +
                " as this farcached, but its sizes or places differ: another build made it");
    if (header.check != header_check(header))
        return refuse(TableRefusal::corrupt, "the check of its header does not match");
    if (!std::has_single_bit(header.entries) || header.entries < limits::pointer_table_entries_min ||
        header.entries > limits::pointer_table_entries_max)
        return refuse(TableRefusal::corrupt, "cannot have " + std::to_string(header.entries) +
                                                 " entries, as its header says");
    if (file_bytes < table_bytes(header.entries))
        return refuse(TableRefusal::too_small, "has " + std::to_string(file_bytes) +
                                                   " bytes, its " + std::to_string(header.entries) +
                                                   " entries need " +
                                                   std::to_string(table_bytes(header.entries)));
    if (std::memcmp(header.boot_id, options.host.boot_id, sizeof header.boot_id) != 0)
        return refuse(TableRefusal::other_boot,
                      "was made before this host's last boot");
    if (header.clock_id != options.host.clock_id)
        return refuse(TableRefusal::other_clock,
                      "was made in another time namespace, with another clock");
    return {};
}

std::variant<void*, TableFailure> map(int fd, uint64_t entries, const std::string& path) {
    void* mapping = mmap(nullptr, table_bytes(entries), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapping != MAP_FAILED) return mapping;
    return system_failed(path, "mmap of " + std::to_string(table_bytes(entries) >> 10) + " KiB",
                         errno, "raise the limit of address space (ulimit -v)");
}

struct Mapped {
    int fd;
    void* mapping;
    uint64_t entries;
    uint64_t seed;
    bool created;
};
struct Absent {};     // no file has that name
struct Overtaken {};  // ... and now one has
using Attempt = std::variant<Mapped, TableFailure, Absent, Overtaken>;

// A file that cannot be opened: its owner and mode explain the refusal, if it exists.
Attempt not_opened(int error, const TableOptions& options) {
    const std::string path = path_of(options);
    if (error == ENOENT) return Absent{};
    struct stat file;
    if (error == EACCES || error == ELOOP || error == EISDIR)
        if (lstat(path.c_str(), &file) == 0)
            if (Failure failure = check_file(file, options)) return *failure;
    return system_failed(path, "open", error, "choose another pointer_table.path");
}

Attempt attach(const TableOptions& options) {
    const std::string path = path_of(options);
    // Nonblocking, since opening a FIFO would wait.
    fabric::Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file) return not_opened(errno, options);
    struct stat status;
    if (fstat(file.get(), &status) != 0)
        return system_failed(path, "fstat", errno, "choose another pointer_table.path");
    if (Failure failure = check_file(status, options)) return *failure;
    // Read, not mapped, until checked; a copy cannot change after the check.
    TableHeader header;
    ssize_t got = pread(file.get(), &header, sizeof header, 0);
    if (got < 0) return system_failed(path, "pread", errno, "choose another pointer_table.path");
    if (got != ssize_t(sizeof header))
        return refused(TableRefusal::too_small, path, "ends within its header" + remove_it(path));
    if (Failure failure = check_header(header, uint64_t(status.st_size), options)) return *failure;
    auto mapped = map(file.get(), header.entries, path);
    if (TableFailure* failure = std::get_if<TableFailure>(&mapped)) return *failure;
    return Mapped{file.release(), std::get<void*>(mapped), header.entries, header.seed, false};
}

void write_header(void* mapping, const TableOptions& options) {
    TableHeader header{};
    header.magic = table_magic;
    header.version = table_version;
    header.header_bytes = sizeof(TableHeader);
    header.layout_hash = table_layout_hash();
    std::memcpy(header.boot_id, options.host.boot_id, sizeof header.boot_id);
    header.clock_id = options.host.clock_id;
    header.seed = options.seed;
    header.entries = options.entries;
    header.check = header_check(header);
    std::memcpy(mapping, &header, sizeof header);
}

// Sets mode and memory of a file without a name. posix_fallocate, not ftruncate: missing memory would cause a SIGBUS at
// a later store.
Failure prepare(int fd, const TableOptions& options) {
    const std::string path = path_of(options);
    if (fchmod(fd, mode_wanted) != 0)  // whatever the umask
        return system_failed(path, "fchmod", errno, "see what is mounted at /dev/shm");
    const uint64_t bytes = table_bytes(options.entries);
    int error;
    do {
        error = posix_fallocate(fd, 0, off_t(bytes));
    } while (error == EINTR);
    if (error == 0) return {};
    return system_failed(path, "posix_fallocate of " + std::to_string(bytes >> 10) + " KiB", error,
                         "give /dev/shm more room or lower pointer_table.entries (67 bytes each)");
}

Attempt create(const TableOptions& options, FunctionRef<void(TableStep)> steps) {
    const std::string path = path_of(options);
    fabric::Descriptor file(::open(shm_folder, O_TMPFILE | O_RDWR | O_CLOEXEC, mode_wanted));
    if (!file)
        return system_failed(path, "open of a nameless file in /dev/shm", errno,
                             "/dev/shm must be a tmpfs that this user may write to");
    steps(TableStep::file_made);
    if (Failure failure = prepare(file.get(), options)) return *failure;
    steps(TableStep::sized);
    auto mapped = map(file.get(), options.entries, path);
    if (TableFailure* failure = std::get_if<TableFailure>(&mapped)) return *failure;
    void* mapping = std::get<void*>(mapped);
    write_header(mapping, options);
    steps(TableStep::header_written);
    const std::string nameless = "/proc/self/fd/" + std::to_string(file.get());
    if (linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0) {
        const int error = errno;
        munmap(mapping, table_bytes(options.entries));
        if (error == EEXIST) {
            steps(TableStep::overtaken);
            return Overtaken{};
        }
        return system_failed(path, "linkat from " + nameless, error, "/proc must be mounted");
    }
    steps(TableStep::named);
    return Mapped{file.release(), mapping, options.entries, options.seed, true};
}

}  // namespace

std::string table_name(std::string configured, uid_t user) {
    constexpr std::string_view specifier = "%U";
    const std::string id = std::to_string(user);
    for (size_t at = configured.find(specifier); at != configured.npos; at = configured.find(specifier, at + id.size()))
        configured.replace(at, specifier.size(), id);
    return configured;
}

std::variant<TableHost, TableFailure> TableHost::of_this_process() {
    const auto boot = read_boot_id();
    if (const auto* problem = std::get_if<Problem>(&boot)) return TableFailure{TableRefusal::system, problem->text};
    TableHost host;
    std::ranges::copy(std::get<0>(boot), host.boot_id);
    struct stat clock;  // absent before Linux 5.6, which has one clock only
    if (stat("/proc/self/ns/time", &clock) == 0) host.clock_id = clock.st_ino;
    return host;
}

PointerTable::Opened PointerTable::open(const TableOptions& options) {
    return open(options, [](TableStep) {});
}

PointerTable::Opened PointerTable::open(const TableOptions& options,
                                        FunctionRef<void(TableStep)> steps) {
    CHECK(options.seed != 0);
    if (Failure failure = check_options(options)) return std::move(*failure);
    for (uint32_t attempt = 0; attempt < attempts_max; attempt++) {
        Attempt result = attach(options);
        if (std::holds_alternative<Absent>(result)) result = create(options, steps);
        if (TableFailure* failure = std::get_if<TableFailure>(&result)) return std::move(*failure);
        if (Mapped* mapped = std::get_if<Mapped>(&result))
            return std::unique_ptr<PointerTable>(
                new PointerTable(mapped->fd, mapped->mapping, mapped->entries, mapped->seed, mapped->created));
    }
    return refused(
        TableRefusal::unsettled, path_of(options),
        "was removed each time that it was found; find the process that removes it, and start again");
}

}  // namespace farcached::proxy
