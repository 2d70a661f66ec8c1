// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/restart.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/function_ref.h"
#include "fabric/local_read.h"
#include "node/store/impl.h"

namespace farcached::node {

namespace {

constexpr uint64_t progress_every_ns = 2'000'000'000;

// One thread's part of the work.
struct Stored {
    FormerRun::Lost lost;
    uint64_t items = 0;  // that return, if there is room for them
};

// All threads' pages, in their order.
struct FormerPages {
    const FormerRun& former;
    const std::vector<FormerRun::Extent> list;
    std::atomic<size_t> next{0};
};

// Unless it is too large now, or there is no room.
void store(Node::Impl& impl, const FormerRun::Item& item, const protocol::Key& key, NodeSeconds now, FormerRun::Lost& lost) {
    if ((item.format & layout::format_stub) != 0 && !impl.partitions.of(key.hash).stub_lives(item.value)) lost.on_disk++;
    if (layout::item_bytes(item.key.size(), item.value.size()) > impl.config.item_bytes_max) return;
    impl.with_memory(key.hash, now, [&](Partition& partition, Reservation& reserved, uint64_t& need_pages) {
        return partition.restore(item, key, now, reserved, need_pages);
    });
}

// told: called after each page, with the number of pages taken so far.
void store_pages(Node& node, FormerPages& pages, NodeSeconds now, Stored& done, FunctionRef<void(size_t)> told) try {
    FormerRun::Scratch scratch;
    std::vector<protocol::Key> keys;
    for (size_t next; (next = pages.next.fetch_add(1, std::memory_order_relaxed)) < pages.list.size();) {
        const std::span<const FormerRun::Item> items = pages.former.items(pages.list[next], now, scratch, done.lost);
        keys.clear();
        for (const FormerRun::Item& item : items) {
            keys.push_back(node.key(item.key));
            fabric::prefetch_bucket(node.view(), keys.back().hash);
        }
        for (size_t i = 0; i < items.size(); i++) store(node.impl(), items[i], keys[i], now, done.lost);
        done.items += items.size();
        pages.former.discard(pages.list[next], scratch);
        told(next + 1);
    }
} catch (const std::bad_alloc&) {
    done.lost.unreadable++;  // another thread takes the next page
}

std::string counted(uint64_t count, const char* one, const char* many) {
    return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string seconds_of(uint64_t ns) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f s", double(ns) / 1e9);
    return text;
}

}  // namespace

Restart::Restart(const std::string& path, const RunClock& clock, Tell tell, Progress progress)
    : tell_(std::move(tell)), progress_(std::move(progress)) {
    if (path.empty()) return;
    auto opened = MemoryFile::open(path, clock);
    if (const auto* refused = std::get_if<MemoryFile::Refused>(&opened)) {
        if (refused->in_use) throw std::runtime_error(refused->text);
        tell_(/* warning= */ true, refused->text);
        return;
    }
    file_ = std::get<0>(std::move(opened));
    if (!file_->cold().empty())
        tell_(/* warning= */ true, "no item of " + path + " returns: " + file_->cold() + "; starting empty");
}

NodeSeconds Restart::carry_out(Node& node, uint32_t threads, NodeSeconds now) {
    if (file_ == nullptr) return 0;
    NodeSeconds flush_at = 0;
    if (file_->former() != nullptr) {
        flush_at = file_->former()->flush_at();
        if (has_expired(flush_at, now)) {
            tell_(/* warning= */ false, "no item of " + file_->path() + " returns: the scheduled flush was due");
            flush_at = 0;
        } else {
            former_incarnation_ = file_->former()->incarnation();
            store_items(node, threads, now);
        }
    }
    if (flush_at != 0) node.announce_flush(flush_at);  // in the notes of this run, before they count
    if (const std::string refused = file_->serve(); !refused.empty()) tell_(/* warning= */ true, refused);
    return flush_at;
}

void Restart::go_without(const std::string& why) {
    const bool outdated = !file_->give_up_former();
    tell_(/* warning= */ true, "the items of this run will not be kept in " + file_->path() + ": " + why +
                                   (outdated ? "; delete that file, because its items are outdated" : ""));
    file_.reset();
}

void Restart::store_items(Node& node, uint32_t threads, NodeSeconds now) {
    const uint64_t begun_ns = boottime_ns();
    const FormerRun::Overview overview = file_->former()->overview();
    const uint64_t each = overview.items / node.impl().partitions.count();
    node.impl().partitions.each([&](Partition& partition) { partition.items().expect(each); });
    FormerPages pages{*file_->former(), overview.extents};
    std::vector<Stored> done(std::max(threads, 1u));
    std::vector<std::jthread> helpers;
    helpers.reserve(done.size());
    try {
        for (size_t i = 1; i < done.size(); i++)
            helpers.emplace_back([&, i] { store_pages(node, pages, now, done[i], [](size_t) {}); });
    } catch (const std::exception&) {  // no thread or no memory for it: with fewer it takes longer
    }
    uint64_t told_ns = begun_ns;
    store_pages(node, pages, now, done[0], [&](size_t taken) {
        const uint64_t at_ns = boottime_ns();
        if (!progress_ || at_ns - told_ns < progress_every_ns) return;
        told_ns = at_ns;
        progress_("storing the items of " + file_->path() + ": " + std::to_string(taken * 100 / pages.list.size()) + " %");
    });
    for (std::jthread& helper : helpers) helper.join();
    FormerRun::Lost lost;
    lost.unreadable = overview.unreadable;
    uint64_t returning = 0;
    for (const Stored& part : done) {
        returning += part.items;
        lost.expired += part.lost.expired;
        lost.unfinished += part.lost.unfinished;
        lost.unreadable += part.lost.unreadable;
        lost.on_disk += part.lost.on_disk;
    }
    const Stats stats = node.stats(now);
    items_ = stats.items;
    const uint64_t here = stats.items + lost.on_disk;
    tell_stored(stats, lost, returning - std::min(returning, here), boottime_ns() - begun_ns);
}

void Restart::tell_stored(const Stats& stats, const FormerRun::Lost& lost, uint64_t over, uint64_t ns) {
    std::string text = counted(stats.items, "item", "items") + " (" + std::to_string(stats.bytes >> 20) + " MB) of " +
                       file_->path() + (stats.items == 1 ? " is" : " are") + " back after " + seconds_of(ns);
    if (!file_->former()->stopped_cleanly()) text += "; the process before was killed";
    if (lost.expired != 0) text += "; " + counted(lost.expired, "item", "items") + " expired";
    if (lost.unfinished != 0) text += "; " + counted(lost.unfinished, "item", "items") + " being written then, or damaged, lost";
    if (lost.on_disk != 0) text += "; " + counted(lost.on_disk, "value", "values") + " of ext_path's file lost";
    if (over != 0) text += "; " + counted(over, "item has", "items have") + " no room with the present -m and -I";
    if (lost.unreadable != 0) text += "; " + counted(lost.unreadable, "page", "pages") + " cannot be read";
    tell_(lost.unreadable != 0, text);
}

void Restart::stop(NodeSeconds now) {
    if (file_ == nullptr) return;
    if (const std::string refused = file_->stop(now); !refused.empty()) tell_(/* warning= */ true, refused);
}

}  // namespace farcached::node
