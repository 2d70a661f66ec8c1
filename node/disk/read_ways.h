// SPDX-License-Identifier: BSD-3-Clause
// ReadWay: how the reads of a DiskReads are executed: RingWay by an io_uring, ThreadWay by the threads of DiskReaders. Private to
// node/disk/.
//
// Owner: the DiskReads, whose thread alone calls it. DiskReaders belongs to the DiskStore.
// W1  After start() the read is the way's until collect() or finish() returns it.
// W2  The event is signalled after each completion.
// W3  A short read is continued. It fails only at the end of the file.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "node/disk/disk_store.h"

namespace farcached::node {

class ThreadWay;

struct DiskRead {
    enum class State : uint8_t { gone, copied, read };

    Place place{};
    uint64_t cookie = 0;  // as in DiskReads::get()
    std::unique_ptr<char[]> bytes;
    State state = State::read;
    uint64_t from = 0;  // in the file
    uint32_t got = 0;   // bytes
    int error = 0;
    ThreadWay* way = nullptr;
    DiskRead* next = nullptr;
};

class ReadWay {
  public:
    virtual ~ReadWay() = default;
    // False: refused; the read is the caller's.
    virtual bool start(DiskRead& read) = 0;
    virtual void collect(FunctionRef<void(DiskRead&)> complete) = 0;
    // Waits for all reads, and drops them.
    virtual void finish() = 0;
};

// nullptr: `refusal` has the reason.
std::unique_ptr<ReadWay> make_ring_way(int file, int event, uint32_t depth, std::string& refusal);

class DiskReaders {
  public:
    DiskReaders(int file, uint32_t threads);
    ~DiskReaders();  // no read is under way
    DiskReaders(const DiskReaders&) = delete;
    DiskReaders& operator=(const DiskReaders&) = delete;

    void add(DiskRead& read);

  private:
    void run();
    void stop();

    const int file_;
    std::mutex lock_;
    std::condition_variable work_;
    bool stopping_ = false;
    DiskRead* first_ = nullptr;
    DiskRead** end_ = &first_;
    std::vector<std::thread> threads_;
};

class ThreadWay final : public ReadWay {
  public:
    ThreadWay(DiskReaders& readers, int event) : readers_(readers), event_(event) {}

    bool start(DiskRead& read) override;
    void collect(FunctionRef<void(DiskRead&)> complete) override;
    void finish() override;
    void done(DiskRead& read);  // by a reader

  private:
    DiskReaders& readers_;
    const int event_;
    std::mutex lock_;
    std::condition_variable all_done_;
    uint32_t under_way_ = 0;
    DiskRead* done_ = nullptr;  // last one first
};

}  // namespace farcached::node
