// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/mapped_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fabric/region.h"

namespace farcached::fabric {

bool MappedRegion::alive() const { return owned_by(*view_.header, owner_, incarnation_); }

MappedRegion::~MappedRegion() {
    if (base_ != nullptr) munmap(const_cast<char*>(base_), bytes_);
}

// Checks a copy, since the other process may change the region at any time (M1).
Refusal MappedRegion::map(int fd) {
    void* at = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (at == MAP_FAILED) return system_problem("mmap: cannot map the region: " + std::string(std::strerror(errno)));
    base_ = static_cast<const char*>(at);
    layout::RegionHeader header;
    static_assert(sizeof header % 8 == 0);
    words::copy_out(reinterpret_cast<char*>(&header), reinterpret_cast<const uint64_t*>(base_), 0,
                    sizeof header, [] {});
    if (const std::string_view wrong = header_wrong(header, bytes_); !wrong.empty()) return system_problem(std::string(wrong));
    const uint32_t partitions = UINT32_C(1) << header.partition_count_log2;
    const auto* table = reinterpret_cast<const layout::PartitionEntry*>(base_ + header.partitions_offset);
    for (uint32_t i = 0; i < partitions; i++) {
        layout::PartitionEntry entry;
        static_assert(sizeof entry % 8 == 0);
        words::copy_out(reinterpret_cast<char*>(&entry),
                        reinterpret_cast<const uint64_t*>(&table[i]), 0, sizeof entry, [] {});
        IndexShape shape;
        if (!index_shape(entry, bytes_, shape)) return system_problem("the region's partition table points outside the region");
        shapes_.push_back(shape);
    }
    if (!names_living_owner(header.owner)) return system_problem("the region has no living owner");
    owner_ = header.owner;
    incarnation_ = header.incarnation;
    view_ = view_at(base_, header, shapes_.data());
    return {};
}

namespace {

// A file of a node (-e) cannot be sealed. Only its owner can shorten it, so it must be this process's user, or root.
bool only_we_change(const struct stat& file) {
    if (!S_ISREG(file.st_mode) || (file.st_mode & (S_IWGRP | S_IWOTH)) != 0) return false;
    return file.st_uid == geteuid() || file.st_uid == 0;
}

}  // namespace

Result<std::shared_ptr<const MappedRegion>> MappedRegions::map(const Descriptor& fd, uint64_t bytes, uint64_t incarnation) {
    struct stat file {};
    constexpr int sealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
    const int seals = fcntl(fd.get(), F_GET_SEALS);
    const int flags = fcntl(fd.get(), F_GETFL);
    if (fstat(fd.get(), &file) != 0 || flags < 0 || (flags & O_ACCMODE) != O_RDONLY)
        return system_problem("the region's descriptor is not for reading only");
    const bool is_sealed = seals >= 0 && (seals & sealed) == sealed;
    if (!is_sealed && !only_we_change(file))
        return system_problem("the region is neither sealed memory nor a file of this user");
    const bool fits = is_sealed ? uint64_t(file.st_size) == bytes : uint64_t(file.st_size) >= bytes;
    if (!fits || bytes < sizeof(layout::RegionHeader) || bytes % 8 != 0)
        return system_problem("the region's size differs from the announced one");

    std::lock_guard hold(lock_);
    std::erase_if(mapped_, [](const auto& entry) { return entry.second.expired(); });
    auto& known = mapped_[{uint64_t(file.st_dev), uint64_t(file.st_ino)}];
    std::shared_ptr<const MappedRegion> region = known.lock();
    if (region == nullptr) {
        const std::shared_ptr<MappedRegion> made(new MappedRegion(bytes));
        if (const Refusal wrong = made->map(fd.get())) return *wrong;
        known = region = made;
    }
    if (region->incarnation() != incarnation) return system_problem("the region is of another incarnation");
    return region;
}

}  // namespace farcached::fabric
