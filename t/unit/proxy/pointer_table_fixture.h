// SPDX-License-Identifier: BSD-3-Clause
// Fixture of the tests of the pointer table: tables with separate names, and their bytes as another process sees them.
// Every field of a pointer follows from the key and one number, so that a mixture of two is detected.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "proxy/pointer_table.h"
#include "t/lib/tap.h"

namespace table_test {

using namespace farcached;
using proxy::EntryCopy;
using proxy::PointerTable;
using Found = PointerTable::Found;
using Put = PointerTable::Put;

constexpr uint64_t now = UINT64_C(1'000'000'000'000);
constexpr uint64_t second = UINT64_C(1'000'000'000);
constexpr uint64_t one_node = UINT64_C(0x1111222233334444);

// An unused name, freed at the end.
class Name {
  public:
    Name() {
        static int made = 0;
        text_ = "/farcached-test-" + std::to_string(getpid()) + "-" + std::to_string(made++);
    }
    ~Name() { shm_unlink(text_.c_str()); }
    Name(const Name&) = delete;
    Name& operator=(const Name&) = delete;

    const std::string& text() const { return text_; }
    std::string path() const { return "/dev/shm" + text_; }

  private:
    std::string text_;
};

inline proxy::TableOptions options(const Name& name, uint64_t entries = 64) {
    proxy::TableOptions with;
    with.name = name.text();
    with.entries = entries;
    with.host = {{0x0123456789abcdef, 0x1122334455667788}, 4026531834};
    with.seed = 0x5eed5eed5eed5eed;
    return with;
}

inline std::unique_ptr<PointerTable> open(const proxy::TableOptions& with) {
    PointerTable::Opened opened = PointerTable::open(with);
    if (auto* failure = std::get_if<proxy::TableFailure>(&opened)) tap::bail_out(failure->message);
    return std::move(std::get<std::unique_ptr<PointerTable>>(opened));
}
inline std::unique_ptr<PointerTable> open(const Name& name) { return open(options(name)); }

// The object as bytes, mapped once more.
class Raw {
  public:
    explicit Raw(const Name& name) : Raw(name.text()) {}
    explicit Raw(const std::string& name) {
        int fd = shm_open(name.c_str(), O_RDWR, 0);
        struct stat file;
        if (fd < 0 || fstat(fd, &file) != 0) tap::bail_out("shm_open " + name);
        bytes_ = size_t(file.st_size);
        at_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (at_ == MAP_FAILED) tap::bail_out("mmap " + name);
    }
    ~Raw() { munmap(at_, bytes_); }
    Raw(const Raw&) = delete;
    Raw& operator=(const Raw&) = delete;

    size_t size() const { return bytes_; }
    proxy::TableHeader& header() { return *static_cast<proxy::TableHeader*>(at_); }
    uint64_t* entry(uint64_t number) { return reinterpret_cast<uint64_t*>(byte(4096 + number * 64)); }
    unsigned char* byte(size_t n) { return static_cast<unsigned char*>(at_) + n; }

  private:
    void* at_;
    size_t bytes_;
};

constexpr uint64_t mix(uint64_t n) {  // the finalizer of splitmix64
    n += UINT64_C(0x9e3779b97f4a7c15);
    n = (n ^ n >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    n = (n ^ n >> 27) * UINT64_C(0x94d049bb133111eb);
    return n ^ n >> 31;
}

// The pointer that key and generation make. Two pointers share no field but the incarnation.
inline fabric::LeasedPtr derived(uint64_t key_hash, uint64_t generation) {
    const uint64_t n = mix(key_hash ^ mix(generation));
    fabric::LeasedPtr leased;
    leased.ptr.incarnation = one_node;
    leased.ptr.generation = generation;
    leased.ptr.offset = mix(n + 1) % (UINT64_C(1) << 40) * 16;
    leased.ptr.region = uint32_t(mix(n + 2) & 0xffff);
    leased.ptr.length = uint32_t(64 + mix(n + 3) % (1 << 30));
    leased.valid_until_ns = now + 1 + mix(n + 4) % (300 * second);
    return leased;
}

// Is it a pointer that was put for that key?
inline bool is_derived(uint64_t key_hash, const fabric::LeasedPtr& leased) {
    return leased == derived(key_hash, leased.ptr.generation);
}

// Keys of one set, all at home in the same entry of it, for a table of `entries`.
constexpr uint64_t key_of_set(uint64_t set, uint64_t n, uint64_t entries = 64) {
    return set + (n + 1) * (entries / proxy::set_ways);
}

}  // namespace table_test
