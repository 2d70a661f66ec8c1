// SPDX-License-Identifier: BSD-3-Clause
#include "node/disk/disk_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/random_word.h"
#include "base/recorder.h"
#include "node/disk/read_ways.h"

namespace farcached::node {

namespace {

// The first segment of a store has a random number from the lower bound on; none is above the upper one.
constexpr uint64_t first_number_min = UINT64_C(1) << 61, number_end = UINT64_C(1) << 63;
// At least so many numbers were not given out by the run before (K5). A store has enough of them for a million restarts.
constexpr uint64_t numbers_skipped = UINT64_C(1) << 42;
constexpr int64_t complaint_pause_s = 60;

constexpr uint64_t round_to_blocks(uint64_t n) { return (n + disk_block_bytes - 1) / disk_block_bytes * disk_block_bytes; }

// Empty, or what is wrong.
const char* wrong_in(const DiskConfig& config) {
    if (config.segment_bytes < DiskConfig::segment_bytes_min || config.segment_bytes > DiskConfig::segment_bytes_max ||
        config.segment_bytes % disk_block_bytes != 0)
        return "a segment has 64 KiB to 2 GiB, in multiples of 4 KiB";
    if (config.buffer_bytes < disk_block_bytes || config.buffer_bytes > config.segment_bytes ||
        config.buffer_bytes % disk_block_bytes != 0)
        return "a write buffer has 4 KiB up to a segment's size, in multiples of 4 KiB";
    const uint64_t segments = config.bytes / config.segment_bytes;
    if (segments < DiskConfig::segments_min || segments > DiskConfig::segments_max)
        return "the size has room for 2 to 1048576 segments";
    if (config.buffers < 2 || config.buffers > DiskConfig::buffers_max) return "2 to 64 write buffers are needed";
    if (config.threads == 0 || config.threads > DiskConfig::threads_max) return "1 to 64 threads are needed";
    if (config.depth == 0 || config.depth > DiskConfig::depth_max) return "1 to 4096 reads can be under way";
    return nullptr;
}

void compose(char* record, uint64_t id, const Place& place, std::string_view key, std::string_view value, uint64_t tag) {
    RecordHeader header{0, tag, uint32_t(value.size()), uint32_t(key.size())};
    std::memcpy(record, &header, sizeof header);
    char* const bytes = record + sizeof header;
    if (!key.empty()) std::memcpy(bytes, key.data(), key.size());
    if (!value.empty()) std::memcpy(bytes + key.size(), value.data(), value.size());
    header.check = record_check(id, place, record);
    std::memcpy(record, &header, sizeof header);
}

}  // namespace

// ---- start and end --------------------------------------------------------------------------------------

Result<std::unique_ptr<DiskStore>> DiskStore::open(const DiskConfig& config) {
    if (const char* wrong = wrong_in(config); wrong != nullptr)
        return Problem{EX_USAGE, "disk store " + config.path + ": " + wrong};
    auto file = DiskFile::open(config);
    if (auto* const problem = std::get_if<Problem>(&file)) return std::move(*problem);
    std::unique_ptr<DiskStore> store(new DiskStore(config, std::move(std::get<0>(file))));
    store->restore();
    if (config.io_uring) {
        std::string refusal;
        store->ring_works_ = make_ring_way(store->file_->fd(), -1, 1, refusal) != nullptr;
        if (!store->ring_works_ && config.say)
            config.say("disk store " + config.path + ": no io_uring (" + refusal + "); threads read instead");
    }
    store->writer_ = std::thread([one = store.get()] { one->write_buffers(); });
    return store;
}

DiskStore::DiskStore(const DiskConfig& config, std::unique_ptr<DiskFile> file)
    : config_(config),
      file_(std::move(file)),
      count_(file_->segments()),
      segments_(new Segment[count_]),
      buffers_(config.buffers) {
    for (Buffer& buffer : buffers_) buffer.memory.reset(new char[config.buffer_bytes]);
    waiting_.reserve(buffers_.size());
    for (uint32_t i = 0; i < count_; i++) segments_[i].at = free_.insert(free_.end(), i);
    last_number_ = first_number_min + random_word() % first_number_min;
}

void DiskStore::restore() {
    if (!kept()) return;
    std::vector<uint64_t> numbers;
    for (uint32_t i = 0; i < count_; i++) {
        const uint64_t number = file_->number_at(i);
        if (number >= first_number_min && number < number_end - 2 * numbers_skipped) numbers.push_back(number);
    }
    std::ranges::sort(numbers);
    for (const uint64_t number : numbers) {
        Segment& segment = segment_of(number);
        segment.number.store(number, std::memory_order_relaxed);
        segment.in_file.store(uint32_t(config_.segment_bytes), std::memory_order_relaxed);
        segment.filled = uint32_t(config_.segment_bytes);
        full_.splice(full_.end(), free_, segment.at);
        last_number_ = number + numbers_skipped;
    }
}

DiskStore::~DiskStore() {
    CHECK(reads_.under_way.load() == 0);
    if (writer_.joinable()) {
        {
            std::lock_guard held(lock_);
            stopping_ = true;
        }
        work_.notify_all();
        writer_.join();
    }
}

uint64_t DiskStore::record_bytes_max() const {
    return config_.buffer_bytes - sizeof(SegmentHeader) - sizeof(RecordHeader);
}

// ---- records --------------------------------------------------------------------------------------------

std::optional<Place> DiskStore::put(std::string_view key, std::string_view value, uint64_t tag) {
    Place place{};
    Buffer* buffer = nullptr;
    {
        std::lock_guard held(lock_);
        if (key.size() > record_bytes_max() || value.size() > record_bytes_max() - key.size()) {
            numbers_.dropped_too_large++;
            return std::nullopt;
        }
        buffer = reserve(sizeof(RecordHeader) + key.size() + value.size(), place);
        if (buffer == nullptr) return std::nullopt;
    }
    compose(buffer->memory.get() + (place.offset - buffer->start), id(), place, key, value, tag);
    std::lock_guard held(lock_);
    if (--buffer->puts == 0 && buffer != open_) work_.notify_one();
    return place;
}

DiskStore::Buffer* DiskStore::reserve(uint64_t bytes, Place& place) {
    if (paused()) {
        numbers_.dropped_by_fault++;
        return nullptr;
    }
    if (open_ != nullptr && open_->room - open_->filled < bytes) close_buffer();
    if (open_ == nullptr && !open_buffer(bytes)) {
        numbers_.dropped_no_buffer++;
        return nullptr;
    }
    place = {open_->segment, open_->start + open_->filled, uint32_t(bytes)};
    open_->filled += uint32_t(bytes);
    open_->records++;
    open_->puts++;
    Segment& segment = segment_of(open_->segment);
    segment.filled = open_->start + open_->filled;
    segment.records++;
    segment.bytes += bytes;
    numbers_.objects_written++;
    numbers_.objects_used++;
    numbers_.bytes_used += bytes;
    return open_;
}

bool DiskStore::paused() {
    if (paused_until_ == Clock::time_point{}) return false;
    if (Clock::now() < paused_until_) return true;
    paused_until_ = {};
    return false;
}

void DiskStore::close_buffer() {
    const auto padded = uint32_t(round_to_blocks(open_->filled));
    std::memset(open_->memory.get() + open_->filled, 0, padded - open_->filled);
    open_->filled = padded;
    segment_of(open_->segment).filled = open_->start + padded;
    waiting_.push_back(open_);
    closed_count_++;
    if (open_->puts == 0) work_.notify_one();
    open_ = nullptr;
}

bool DiskStore::open_buffer(uint64_t bytes) {
    const auto found = std::ranges::find(buffers_, uint64_t{0}, &Buffer::segment);
    if (found == buffers_.end()) return false;
    if (open_segment_.empty() || config_.segment_bytes - segments_[open_segment_.front()].filled < bytes) open_segment();
    Segment& segment = segments_[open_segment_.front()];
    found->segment = segment.number.load(std::memory_order_relaxed);
    found->start = segment.filled;
    found->room = uint32_t(std::min<uint64_t>(config_.buffer_bytes, config_.segment_bytes - segment.filled));
    found->filled = found->records = 0;
    found->written = false;
    open_ = &*found;
    if (segment.filled == 0) {
        const SegmentHeader header = segment_header(id(), found->segment);
        std::memcpy(found->memory.get(), &header, sizeof header);
        found->filled = sizeof header;
    }
    return true;
}

void DiskStore::open_segment() {
    if (!open_segment_.empty()) {
        Segment& former = segments_[open_segment_.front()];
        full_.splice(full_.end(), open_segment_, former.at);
        if (former.records == 0) drop(former);
    }
    if (free_.empty()) drop(segments_[full_.front()]);
    const uint32_t index = free_.front();
    Segment& segment = segments_[index];
    open_segment_.splice(open_segment_.end(), free_, segment.at);
    last_number_++;
    last_number_ += (index + count_ - last_number_ % count_) % count_;
    segment.filled = 0;
    segment.in_file.store(0, std::memory_order_relaxed);
    segment.number.store(last_number_, std::memory_order_release);
    numbers_.page_allocs++;
}

// A full segment becomes free.
void DiskStore::drop(Segment& segment) {
    if (segment.records == 0) {
        numbers_.page_reclaims++;
    } else {
        numbers_.page_evictions++;
        numbers_.objects_evicted += segment.records;
        numbers_.bytes_evicted += segment.bytes;
        numbers_.objects_used -= segment.records;
        numbers_.bytes_used -= segment.bytes;
    }
    segment.records = 0;
    segment.bytes = 0;
    segment.number.store(0, std::memory_order_release);
    free_.splice(free_.end(), full_, segment.at);
}

void DiskStore::forget(const Place& place) {
    std::lock_guard held(lock_);
    if (!alive(place)) return;
    Segment& segment = segment_of(place.segment);
    if (segment.records == 0 || segment.bytes < place.bytes) return;
    segment.records--;
    segment.bytes -= place.bytes;
    numbers_.objects_used--;
    numbers_.bytes_used -= place.bytes;
    const bool is_open = !open_segment_.empty() && &segment == &segments_[open_segment_.front()];
    if (segment.records == 0 && !is_open) drop(segment);
}

bool DiskStore::adopt(const Place& place) {
    std::lock_guard held(lock_);
    if (!alive(place) || place.bytes > config_.buffer_bytes || place.offset > config_.segment_bytes - place.bytes) return false;
    Segment& segment = segment_of(place.segment);
    segment.records++;
    segment.bytes += place.bytes;
    numbers_.objects_used++;
    numbers_.bytes_used += place.bytes;
    return true;
}

// ---- the writer -----------------------------------------------------------------------------------------

void DiskStore::write_buffers() {
    Recorder recorder("disk writer");
    const Recorder::Running running(recorder);
    std::unique_lock held(lock_);
    for (;;) {
        work_.wait(held, [this] { return stopping_ || (!waiting_.empty() && waiting_.front()->puts == 0); });
        if (stopping_) return;
        Buffer& buffer = *waiting_.front();
        held.unlock();
        const int error = write_out(buffer);
        held.lock();
        waiting_.erase(waiting_.begin());
        Segment& segment = segment_of(buffer.segment);
        if (segment.number.load(std::memory_order_relaxed) == buffer.segment)
            segment.in_file.store(buffer.start + buffer.filled, std::memory_order_release);
        if (error != 0) {
            numbers_.write_errors++;
            numbers_.dropped_by_fault += buffer.records;
            paused_until_ = Clock::now() + pause_after_error;
        } else {
            numbers_.bytes_written += buffer.filled;
        }
        written_count_++;
        buffer.written = true;
        free_if_done(buffer);
        written_.notify_all();
    }
}

int DiskStore::write_out(const Buffer& buffer) const {
    const int error = file_->write(buffer.memory.get(), buffer.filled, {buffer.segment, buffer.start, 0});
    if (error != 0) complain(next_write_complaint_s_, "a write failed, so evicted items are lost", error);
    return error;
}

void DiskStore::free_if_done(Buffer& buffer) {
    if (buffer.written && buffer.reads == 0) buffer.segment = 0;
}

bool DiskStore::flush() {
    uint64_t errors = 0;
    {
        std::unique_lock held(lock_);
        if (open_ != nullptr) close_buffer();
        errors = numbers_.write_errors;
        written_.wait(held, [this, all = closed_count_] { return written_count_ >= all; });
        errors = numbers_.write_errors - errors;
    }
    if (fsync(file_->fd()) == 0) return errors == 0;
    complain(next_write_complaint_s_, "a write failed, so evicted items are lost", errno);
    return false;
}

// At most one such sentence a minute. Without memory there is none.
void DiskStore::complain(std::atomic<int64_t>& next, const char* what, int error) const {
    using std::chrono::duration_cast, std::chrono::seconds;
    const int64_t now_s = duration_cast<seconds>(Clock::now().time_since_epoch()).count();
    int64_t due_s = next.load(std::memory_order_relaxed);
    if (!config_.say || now_s < due_s || !next.compare_exchange_strong(due_s, now_s + complaint_pause_s)) return;
    try {
        config_.say("disk store " + config_.path + ": " + what + ": " + std::strerror(error) + "; check the disk");
    } catch (const std::bad_alloc&) {
    }
}

// ---- reads ----------------------------------------------------------------------------------------------

DiskStore::Found DiskStore::find(const Place& place, char* to) {
    if (place.bytes < sizeof(RecordHeader) || place.offset > config_.segment_bytes - place.bytes || !alive(place))
        return Found::gone;
    const uint64_t end = uint64_t{place.offset} + place.bytes;
    if (segment_of(place.segment).in_file.load(std::memory_order_acquire) >= end) return Found::in_file;
    Buffer* buffer = nullptr;
    {
        std::lock_guard held(lock_);
        if (!alive(place)) return Found::gone;
        for (Buffer& one : buffers_)
            if (one.segment == place.segment && place.offset >= one.start && end <= one.start + one.filled) buffer = &one;
        if (buffer == nullptr) return Found::in_file;
        buffer->reads++;
    }
    std::memcpy(to, buffer->memory.get() + (place.offset - buffer->start), place.bytes);
    std::lock_guard held(lock_);
    buffer->reads--;
    free_if_done(*buffer);
    return Found::copied;
}

void DiskStore::read_failed(int error) {
    reads_.errors.fetch_add(1, std::memory_order_relaxed);
    complain(next_read_complaint_s_, "a read failed, so its key misses", error);
}

DiskReaders& DiskStore::readers() {
    std::lock_guard held(lock_);
    if (readers_ == nullptr) readers_ = std::make_unique<DiskReaders>(file_->fd(), config_.threads);
    return *readers_;
}

void DiskStore::each_segment(FunctionRef<void(uint32_t place, uint64_t number, uint64_t bytes)> visit) const {
    for (uint32_t i = 0; i < count_; i++) {
        uint64_t number, bytes;
        {
            std::lock_guard hold(lock_);
            number = segments_[i].number.load(std::memory_order_relaxed);
            bytes = segments_[i].bytes;
        }
        visit(i, number, bytes);
    }
}

DiskStatistics DiskStore::statistics() const {
    const auto of = [](const std::atomic<uint64_t>& number) { return number.load(std::memory_order_relaxed); };
    std::lock_guard held(lock_);
    DiskStatistics now = numbers_;
    now.page_count = count_;
    now.pages_free = free_.size();
    now.pages_used = count_ - free_.size();
    now.limit_maxbytes = count_ * config_.segment_bytes;
    uint64_t filled = full_.size() * config_.segment_bytes;
    if (!open_segment_.empty()) filled += segments_[open_segment_.front()].filled;
    now.bytes_fragmented = filled - std::min(filled, now.bytes_used);
    now.buffers_waiting = waiting_.size();
    now.objects_read = of(reads_.objects);
    now.bytes_read = of(reads_.bytes);
    now.read_errors = of(reads_.errors);
    now.reads_refused = of(reads_.refused);
    now.reads_from_buffers = of(reads_.from_buffers);
    now.records_gone = of(reads_.gone);
    now.records_bad = of(reads_.bad);
    now.io_queue = of(reads_.under_way);
    return now;
}

}  // namespace farcached::node
