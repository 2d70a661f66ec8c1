// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: the file of a former run (node/memory/memory_file.h), damaged in any words. An input is a list of changes to a good
// file: a word somewhere in a part of it, or an item whose header is changed and whose check is made to match. Whatever is read, an
// item lies within the bytes that were read, and has a possible key.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "node/memory/memory_file.h"
#include "node/store/node.h"
#include "node/store/prefix_deletes.h"
#include "node/store/restart.h"
#include "protocol/layout_hash.h"

namespace {

using namespace farcached;
using namespace farcached::node;

constexpr RunClock clock_of_all{1000, 2'000'000'000};
constexpr NodeSeconds now = 1000;
constexpr uint64_t pages_used = 56;
constexpr BootId boot{1, 2};
constexpr size_t small_items = 400;

void insist(bool good) {
    if (!good) std::abort();
}

// A good file, whose words change during an input and are put back after it. FormerRun::read() writes the notes and discards the
// index: where a changed header may have led it elsewhere, all is put back.
class Good {
  public:
    Good() {
        char name[] = "/dev/shm/farcached-fuzz-XXXXXX";  // each input syncs it
        insist(mkdtemp(name) != nullptr);
        const std::string path = std::string(name) + "/items";
        {
            Restart restart(path, clock_of_all, [](bool, const std::string&) {});
            Config config;
            config.file = restart.file();
            config.memory_bytes = 4 << 20;
            config.grows = false;
            config.partitions = 2;
            config.seed = 3;
            Node node(config);
            (void)restart.carry_out(node, 1, now);
            for (size_t i = 0; i < small_items; i++) store(node, "key-" + std::to_string(i), std::string(i * 7 % 3000, 'v'));
            store(node, "large", std::string(150'000, 'l'));
            insist(node.prefixes().remove("none:", now));
            restart.stop(now);
        }
        file_ = fabric::Descriptor(open(path.c_str(), O_RDWR | O_CLOEXEC));
        std::filesystem::remove_all(name);
        insist(bool(file_));
        insist(pread(file_.get(), &header_, sizeof header_, 0) == ssize_t(sizeof header_));
        insist(pread(file_.get(), &secret_, sizeof secret_, off_t(places().notes + offsetof(Notes, secret))) == sizeof secret_);
        whole_.resize(places().end);
        insist(pread(file_.get(), whole_.data(), whole_.size(), 0) == ssize_t(whole_.size()));
    }

    FilePlaces places() const { return FilePlaces(header_.region_bytes, header_.page_count); }
    const layout::RegionHeader& header() const { return header_; }
    fabric::Descriptor file() const { return fabric::Descriptor(dup(file_.get())); }

    void change(uint64_t at, uint64_t to) {
        undo_.push_back(at);
        insist(pwrite(file_.get(), &to, sizeof to, off_t(at)) == sizeof to);
    }
    // Makes the item's check match its header and bytes, as far as these lie in the file.
    void seal(uint64_t offset) {
        const uint64_t at = header_.arena_offset + offset;
        std::vector<uint64_t> words(layout::page_bytes / 8);
        insist(pread(file_.get(), words.data(), layout::page_bytes, off_t(at)) > 0);
        layout::ItemHeader item;
        std::memcpy(&item, words.data(), sizeof item);
        const uint64_t bytes = layout::item_bytes(item.key_len, item.value_len);
        if (bytes > layout::page_bytes) return;
        change(at + 8, layout::item_check(words.data(), bytes, secret_, layout::Guard{item.guard}.generation(), at));
    }
    // was_read: FormerRun::read() accepted it.
    void put_back(bool was_read) {
        bool header_changed = false;
        for (; !undo_.empty(); undo_.pop_back()) {
            header_changed |= undo_.back() < sizeof header_;
            put_back(undo_.back(), sizeof(uint64_t));
        }
        put_back(places().notes, offsetof(Notes, flush_floors));
        if (header_changed && was_read) put_back(0, whole_.size());
    }

  private:
    static void store(Node& node, const std::string& key, const std::string& value) {
        protocol::StoreOp op;
        op.key = node.key(key);
        op.value = value;
        insist(node.store(op, now).status == protocol::StoreReply::Status::stored);
    }

    void put_back(uint64_t at, size_t bytes) {
        insist(pwrite(file_.get(), whole_.data() + at, bytes, off_t(at)) == ssize_t(bytes));
    }

    fabric::Descriptor file_;
    std::string whole_;  // as it is at first
    layout::RegionHeader header_{};
    uint64_t secret_ = 0;
    std::vector<uint64_t> undo_;  // places
};

Good& good() {
    static Good file;
    return file;
}

struct Change {
    uint8_t part, kind;
    uint16_t high;
    uint32_t low;
    uint64_t word;
};
static_assert(sizeof(Change) == 16);

void apply(const Change& change) {
    Good& file = good();
    const FilePlaces places = file.places();
    const std::array<std::pair<uint64_t, uint64_t>, 5> parts{{
        {0, sizeof(layout::RegionHeader)},
        {file.header().pages_offset, file.header().page_count * sizeof(layout::PageEntry)},
        {file.header().arena_offset, pages_used * layout::page_bytes},
        {places.descriptors, pages_used * layout::page_slots_max * sizeof(Descriptor)},
        {places.notes, sizeof(Notes)},
    }};
    const auto& [begin, bytes] = parts[change.part % parts.size()];
    const uint64_t number = uint64_t(change.high) << 32 | change.low;
    if (change.kind % 2 == 0) return file.change(begin + number % (bytes / 8) * 8, change.word);
    const uint64_t slot = number % (pages_used * layout::page_slots_max) * layout::slot_bytes_min;
    file.change(file.header().arena_offset + slot + change.kind / 2 % 5 * 8, change.word);
    file.seal(slot);
}

// The number of items; none: the file was refused.
std::optional<size_t> read_all() {
    auto read = FormerRun::read(good().file(), clock_of_all, boot);
    if (std::holds_alternative<Problem>(read)) return std::nullopt;
    const FormerRun& former = *std::get<0>(read);
    FormerRun::Scratch scratch;
    FormerRun::Lost lost;
    const FormerRun::Overview overview = former.overview();
    size_t count = 0;
    insist(overview.extents.size() <= good().header().page_count);
    for (const FormerRun::Extent& extent : overview.extents) {
        for (const FormerRun::Item& item : former.items(extent, now, scratch, lost)) {
            const char* const begin = reinterpret_cast<const char*>(scratch.page.data());
            const char* const end = begin + scratch.page.size() * sizeof(uint64_t);
            insist(!item.key.empty() && item.key.size() <= limits::key_bytes_max);
            insist(item.key.data() > begin && item.value.data() == item.key.data() + item.key.size());
            insist(item.value.data() + item.value.size() <= end);
            count++;
        }
    }
    return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const bool changes = size >= sizeof(Change);
    for (; size >= sizeof(Change); data += sizeof(Change), size -= sizeof(Change)) {
        Change change;
        std::memcpy(&change, data, sizeof change);
        apply(change);
    }
    const std::optional<size_t> items = read_all();
    insist(changes || items == small_items + 1);
    good().put_back(items.has_value());
    return 0;
}
