// SPDX-License-Identifier: BSD-3-Clause
#include "bench/buffer/measure.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/node_clock.h"
#include "bench/buffer/buffer_manager.h"
#include "bench/buffer/home_tier.h"
#include "bench/buffer/remote_tier.h"
#include "bench/command.h"
#include "bench/data.h"

namespace farcached::bench {

namespace {

constexpr uint64_t files_memory_bytes = 2 << 20;   // of either node for Figures 11 and 12
constexpr uint64_t pages_memory_bytes = 128 << 10;  // at home for Figure 14: less than its pages take
constexpr uint32_t fill_step = 250, fill_max = 100'000;
constexpr uint64_t wait_ns_max = UINT64_C(60'000'000'000);
constexpr uint32_t wait_step_us = 5'000;
constexpr double order_slack = 1.5;  // values leave memory in about the order of their sets

void stop_if_interrupted() {
    if (interrupted.load(std::memory_order_relaxed)) throw std::runtime_error("interrupted");
}

class ScratchFolder {
  public:
    explicit ScratchFolder(const std::string& in) {
        path_ = (in.empty() ? std::filesystem::temp_directory_path() : std::filesystem::path(in)) / "farbench-XXXXXX";
        if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_ + ": " + std::strerror(errno));
    }
    ~ScratchFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;

    std::string file(const char* name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

template <class Work>
double us_of(Work&& work) {
    const uint64_t begun_ns = boottime_ns();
    work();
    return double(boottime_ns() - begun_ns) / 1e3;
}

template <class Done>
void wait_until(Done done) {
    const uint64_t until_ns = boottime_ns() + wait_ns_max;
    while (!done()) {
        stop_if_interrupted();
        if (boottime_ns() > until_ns) throw std::runtime_error("the values do not move to the file");
        usleep(wait_step_us);
    }
}

// The values of the keys of one node: verified, and different for each key.
class NumberedValues {
  public:
    std::string key(uint32_t number) const { return "value-" + std::to_string(number); }
    const std::string& value(uint32_t number) {
        values_.fill(bytes_.data(), page_bytes, number, 1);
        return bytes_;
    }
    void verify(const std::string& value, uint32_t number) const {
        if (value.size() != page_bytes || !values_.good(value, number))
            throw std::runtime_error("a value differs from the stored one");
    }
    uint32_t next() { return next_++; }
    uint32_t count() const { return next_; }

  private:
    Values values_{page_bytes, page_bytes, /* verified= */ true};
    std::string bytes_ = std::string(page_bytes, '\0');
    uint32_t next_ = 0;
};

// Sets new keys until the first `calls` values are in the file. A node drops values while all write buffers wait for the disk, so
// this waits for it, too.
void fill(Tier& tier, NumberedValues& values, uint32_t calls) {
    const double wanted = order_slack * calls * page_bytes;
    do {
        for (uint32_t i = 0; i < fill_step; i++) {
            const uint32_t number = values.next();
            tier.set(values.key(number), values.value(number));
        }
        wait_until([&] { return tier.statistic("extstore_buffers_waiting") == 0; });
        if (values.count() > fill_max) throw std::runtime_error("the values do not move to the file");
    } while (double(tier.statistic("extstore_bytes_written")) < wanted);
}

CallSeries series(uint32_t figure, const char* operation, const char* place, Via via, const char* how) {
    CallSeries made;
    made.figure = figure;
    made.operation = operation;
    made.place = place;
    made.via = via;
    made.how = how;
    return made;
}

template <class Get>
void read_calls(CallSeries& to, const NumberedValues& values, uint32_t calls, Get get) {
    std::string value;
    for (uint32_t i = 0; i < calls; i++) {
        stop_if_interrupted();
        const std::string key = values.key(i);
        From from = From::nowhere;
        to.calls.push_back({i + 1, us_of([&] { from = get(key, value); })});
        if (from == From::nowhere) throw std::runtime_error("a value is neither in memory nor in the file");
        values.verify(value, i);
        to.in_file += from == From::file;
    }
}

template <class Write>
void write_calls(CallSeries& to, NumberedValues& values, uint32_t calls, Write write) {
    for (uint32_t i = 0; i < calls; i++) {
        stop_if_interrupted();
        const uint32_t number = values.next();
        const std::string key = values.key(number);
        const std::string& value = values.value(number);
        to.calls.push_back({i + 1, us_of([&] { write(key, value); })});
    }
}

RemoteTier::Config remote_config(const BufferOptions& options, Via via, std::string files, std::vector<std::string> arguments) {
    RemoteTier::Config config{options.start, std::move(files), std::move(arguments), options.spin};
    config.start.via = via;
    return config;
}

}  // namespace

std::vector<CallSeries> measure_home_files(const BufferOptions& options) {
    const ScratchFolder folder(options.folder);
    HomeTier home({folder.file("home"), files_memory_bytes, /* recache_rate= */ 0});
    NumberedValues values;
    fill(home, values, options.calls);
    CallSeries read = series(11, "FReadF", "local", Via::none, "get, embedded node");
    read_calls(read, values, options.calls, [&](const auto& key, auto& value) { return home.get(key, value); });
    CallSeries set = series(12, "FPrintF", "local", Via::none, "set, embedded node");
    const uint64_t moved_before = home.statistic("extstore_objects_written");
    write_calls(set, values, options.calls, [&](const auto& key, const auto& value) { home.set(key, value); });
    set.in_file = home.statistic("extstore_objects_written") - moved_before;
    CallSeries flushed = series(12, "FPrintF", "local", Via::none, "put and flush, disk store");
    home.write_buffers_out();
    write_calls(flushed, values, options.calls, [&](const auto& key, const auto& value) { home.write_through(key, value); });
    flushed.in_file = flushed.calls.size();
    return {read, flushed, set};
}

std::vector<CallSeries> measure_remote_files(const BufferOptions& options, Via via) {
    const ScratchFolder folder(options.folder);
    RemoteTier remote(remote_config(options, via, folder.file("remote"),
                                    {"-m", std::to_string(files_memory_bytes >> 20), "--ext_recache_rate=0"}));
    NumberedValues values;
    fill(remote, values, options.calls);
    const auto from_file = [&] {
        return remote.statistic("extstore_objects_read") - remote.statistic("extstore_reads_from_buffers");
    };
    const auto to_file = [&] { return remote.statistic("extstore_objects_written"); };
    std::vector<CallSeries> made;
    for (const bool connects : {false, true}) {
        CallSeries& read = made.emplace_back(
            series(11, "FReadF", "remote", via, connects ? "get, a new link for each" : "get through a link"));
        const uint64_t read_before = from_file();
        read_calls(read, values, options.calls, [&](const auto& key, auto& value) {
            if (connects) remote.connect();
            return remote.get(key, value);
        });
        read.in_file = from_file() - read_before;
    }
    for (const bool connects : {false, true}) {
        CallSeries& set = made.emplace_back(
            series(12, "FPrintF", "remote", via, connects ? "set, a new link for each" : "set through a link"));
        const uint64_t moved_before = to_file();
        write_calls(set, values, options.calls, [&](const auto& key, const auto& value) {
            if (connects) remote.connect();
            remote.set(key, value);
        });
        set.in_file = to_file() - moved_before;
    }
    return made;
}

namespace {

// The series of Figure 14, by operation and place.
class PageSeries {
  public:
    explicit PageSeries(Via via) : via_(via) {}

    void add(const char* operation, const char* place, const Call& call, bool in_file) {
        const auto is_it = [&](const CallSeries& one) { return one.operation == operation && one.place == place; };
        auto found = std::find_if(all_.begin(), all_.end(), is_it);
        if (found == all_.end()) found = all_.insert(found, series(14, operation, place, via_, ""));
        found->calls.push_back(call);
        found->in_file += in_file;
    }
    std::vector<CallSeries> take() { return std::move(all_); }

  private:
    const Via via_;
    std::vector<CallSeries> all_;
};

const char* place_of(PageId page, From from) {
    const bool is_new = from == From::nowhere;
    if (!page.at_home()) return is_new ? "remote, new" : "remote, from the node's file";
    return is_new ? "home, new" : from == From::file ? "home, from its file" : "home, from memory";
}

const char* unfixed_place(PageId page, bool restarted) {
    if (page.at_home()) return restarted ? "home, after the restart" : "home, before the restart";
    return restarted ? "remote, after the restart" : "remote, before the restart";
}

// Fixes and unfixes all pages in order, and changes them.
void fix_all(Tier& home, Tier& remote, bool restarted, PageSeries& to) {
    const Values values(page_bytes, page_bytes, /* verified= */ true);
    BufferManager manager(home, remote);
    uint32_t number = restarted ? PageId::segments * PageId::numbers : 0;
    for (uint32_t segment = 0; segment < PageId::segments; segment++) {
        for (uint32_t i = 0; i < PageId::numbers; i++) {
            stop_if_interrupted();
            const PageId page{segment, i};
            number++;
            BufferManager::Frame* frame = nullptr;
            const double fixed_us = us_of([&] { frame = &manager.fix(page); });
            if ((frame->from != From::nowhere) != restarted) throw std::runtime_error("a page did not return after the restart");
            if (restarted && !values.good(frame->bytes, page.place()))
                throw std::runtime_error("a value differs from the stored one");
            to.add("fix", place_of(page, frame->from), {number, fixed_us}, frame->from == From::file);
            values.fill(frame->bytes.data(), page_bytes, page.place(), number);
            const double unfixed_us = us_of([&] { manager.unfix(page, /* dirty= */ true); });
            to.add("unfix", unfixed_place(page, restarted), {number, unfixed_us}, false);
        }
    }
}

}  // namespace

std::vector<CallSeries> measure_pages(const BufferOptions& options, Via via) {
    constexpr uint64_t remote_pages = PageId::segments * PageId::numbers / 2;
    const ScratchFolder folder(options.folder);
    const HomeTier::Config of_home{folder.file("home"), pages_memory_bytes, /* recache_rate= */ 1};
    auto home = std::make_unique<HomeTier>(of_home);
    RemoteTier remote(remote_config(options, via, folder.file("remote"),
                                    {"-m", "1", "--ext_recache_rate=1", "--ext_item_age=0"}));
    PageSeries pages(via);
    fix_all(*home, remote, /* restarted= */ false, pages);
    home->all_to_file();
    home.reset();
    wait_until([&] { return remote.statistic("extstore_objects_used") >= remote_pages; });  // its crawler moves them
    remote.restart();
    home = std::make_unique<HomeTier>(of_home);
    const uint64_t read_before = remote.statistic("extstore_objects_read");
    fix_all(*home, remote, /* restarted= */ true, pages);
    const uint64_t read_there = remote.statistic("extstore_objects_read") - read_before;
    std::vector<CallSeries> made = pages.take();
    for (CallSeries& one : made)
        if (one.place == "remote, from the node's file") one.in_file = read_there;
    return made;
}

}  // namespace farcached::bench
