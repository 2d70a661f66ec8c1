// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: the file of a store of values on a disk (node/disk/disk_store.h), damaged between two runs. An input is a list of
// changes to a good file: a word anywhere, or in a header; a part of one segment copied over another; a shorter file. In each case
// a read returns the record that was put at that place, or nothing.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "t/unit/node/disk_fixture.h"

namespace {

using namespace farcached;
using namespace farcached::node;
using namespace farcached::node::disk_tests;

constexpr uint64_t segment = 64 * kib, segments = 4, file_bytes = disk_block_bytes + segments * segment;
constexpr uint64_t records = 100, records_later = 10;

void insist(bool good) {
    if (!good) std::abort();
}

// Where a record lies, and its number.
using Stored = std::pair<Place, uint64_t>;

class Good {
  public:
    Good() {
        const Folder folder;  // libFuzzer ends without destructors, so the file loses its name
        config = small(folder, false, segments);
        config.bytes = segments * segment;
        config.threads = 1;
        config.depth = 256;
        {
            const auto store = open(config);
            for (uint64_t i = 0; i < records; i++) stored.emplace_back(put_surely(*store, i), i);
            insist(store->flush());
            config.former_store = store->id();
        }
        fd_ = ::open(config.path.c_str(), O_RDWR | O_CLOEXEC);
        whole_.resize(file_bytes);
        config.path = "/proc/self/fd/" + std::to_string(fd_);
        insist(pread(fd_, whole_.data(), file_bytes, 0) == ssize_t(file_bytes));
    }
    void write(uint64_t at, const void* bytes, size_t count) {
        insist(at + count <= file_bytes && pwrite(fd_, bytes, count, off_t(at)) == ssize_t(count));
    }
    void copy(uint64_t from, uint64_t to, size_t count) {
        count = std::min({count, size_t(file_bytes - from), size_t(file_bytes - to)});
        write(to, whole_.data() + from, count);
    }
    void cut(uint64_t bytes) { insist(ftruncate(fd_, off_t(bytes)) == 0); }
    void put_back() { write(0, whole_.data(), file_bytes); }

    DiskConfig config;
    std::vector<Stored> stored;

  private:
    int fd_ = -1;
    std::string whole_;
};

Good& good() {
    static Good file;
    return file;
}

struct Change {
    uint8_t kind, a, b, c;
    uint32_t at;
    uint64_t word;
};
static_assert(sizeof(Change) == 16);

void apply(const Change& change) {
    const uint64_t at = change.at % (file_bytes / 8) * 8;
    const uint64_t header = disk_block_bytes + change.a % segments * segment;
    switch (change.kind % 6) {
    case 0: return good().write(at, &change.word, sizeof change.word);
    case 1: return good().write(change.a % 5 * 8, &change.word, sizeof change.word);
    case 2: return good().write(header + change.b % 4 * 8, &change.word, sizeof change.word);
    case 3: return good().copy(header + change.at % segment, disk_block_bytes + change.b % segments * segment + change.at % segment,
                               change.word % segment);
    case 4: return good().copy(at, change.word % (file_bytes / 8) * 8, 64 << change.c % 10);
    case 5: return good().cut(change.at % file_bytes);
    }
}

void read_and_judge(DiskStore& store, const std::vector<Stored>& places, const std::vector<Stored>& known, bool all) {
    DiskReads reads(store);
    uint64_t found = 0;
    for (size_t i = 0; i < places.size(); i++) insist(reads.get(places[i].first, i));
    while (reads.under_way() != 0)
        wait_and_take(reads, [&](uint64_t i, const DiskRecord* record) {
            if (record == nullptr) return;
            found++;
            const auto put_there = std::ranges::find(known, places[i].first, &Stored::first);
            insist(put_there != known.end() && is_record(*record, put_there->second));
        });
    insist(!all || found == places.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    good();
    std::vector<Stored> places = good().stored, known = good().stored;
    const bool changes = size >= sizeof(Change);
    for (; size >= sizeof(Change) && places.size() < 200; data += sizeof(Change), size -= sizeof(Change)) {
        Change change;
        std::memcpy(&change, data, sizeof change);
        apply(change);
        const Place& base = known[change.a % records].first;  // and a place where no record begins
        places.push_back({{base.segment + change.b % 8, base.offset + change.c, uint32_t(change.word % (20 * kib))}, 0});
    }
    auto opened = DiskStore::open(good().config);
    insist(changes || opened.index() == 0);
    if (opened.index() == 0) {
        DiskStore& store = *std::get<0>(opened);
        read_and_judge(store, places, known, !changes);
        for (uint64_t i = 0; i < records_later; i++)
            if (const auto place = put(store, records + i)) known.push_back({*place, records + i});
        places.insert(places.end(), known.begin() + records, known.end());
        read_and_judge(store, places, known, false);
    }
    opened = Problem{};
    good().put_back();
    return 0;
}
