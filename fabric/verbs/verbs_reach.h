// SPDX-License-Identifier: BSD-3-Clause
// VerbsReach: the memory of both sides that the READs and FETCH_AND_ADDs of one connection name. OwnContainer: this end's
// container (fabric/channel.h, C7), in separate memory that is registered for this connection alone. VerbsReports: the
// containers of both ends, and the last report in this end's.
//
// Owner and thread: those of a VerbsQueue, or of a VerbsListener, which keeps only this side's memory registered.
// R1  A work request names only memory of both sides that lies within what is registered: it is checked here.
// R2  Memory of this side is released when its owner leaves or ends; VerbsDevice keeps it while other queues use it (D2).
// B1  Where the device has memory windows of type 2, no memory is registered for WRITEs of others: only the window bound to
//     the queue pair admits them, and it ends with the connection. Elsewhere the memory is registered under its own key.
// B2  A window admits no WRITE before its binding is carried out, which is posted ahead of this end's first SEND. The other
//     end writes only after a message from here has arrived.
// B3  A window is destroyed before its queue pair: soft-RoCE's queue pair waits for that. Destroying it takes its rights back
//     at once. No collected work request binds it then: the caller has posted them.
// B4  An end that withholds (fabric/channel.h, S16) lends its region or lent memory by lend(). Where the device has windows,
//     this memory is registered without a right of others, and only a window bound to the queue pair admits READs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/mapping.h"
#include "fabric/verbs/verbs_device.h"
#include "fabric/verbs/verbs_greeting.h"
#include "protocol/layout.h"

namespace farcached::fabric {

// The remote memory of READs; 0 bytes: none.
struct VerbsFarMemory {
    uint64_t address = 0, bytes = 0;
    uint32_t key = 0;
};

// The counters of reads. The first one belongs to the item `from` bytes after the start of the remote memory.
struct VerbsFarCounters {
    uint64_t address = 0, bytes = 0, from = 0;
    uint32_t key = 0;
};

// A window of type 2, which one work request binds to a queue pair.
class VerbsWindow {
  public:
    bool make(const VerbsDevice& device);  // false: the device has none, or none left
    bool there() const { return window_ != nullptr; }
    uint32_t key() const { return key_; }
    void bind(ibv_send_wr& work, ibv_mr* memory, uint64_t address, uint64_t bytes, unsigned access) const;
    void drop() { window_.reset(); }

  private:
    MemoryWindow window_;
    uint32_t key_ = 0;
};

class VerbsReach {
  public:
    // One memory of each access; it outlives the queue, or its leave() (S12). Others may READ it until the queue's end: it stays
    // pinned. No-op without bytes.
    Refusal use(VerbsDevice& device, const VerbsMemory& memory, VerbsAccess access) {
        if (memory.bytes == 0) return {};
        if (access == VerbsAccess::counters && !device.atomics())
            return system_problem(std::string(device.name()) + " has no atomics");
        auto registered = device.registered(memory, access);
        if (auto* problem = std::get_if<Problem>(&registered)) return std::move(*problem);
        own_[size_t(access)] = std::get<0>(std::move(registered));
        return {};
    }
    // nullptr: none.
    const ibv_mr* own(VerbsAccess access) const {
        const auto& memory = own_[size_t(access)];
        return memory == nullptr ? nullptr : memory->get();
    }
    // The same for memory that the other end READs, through a window where the device has them (B4). Refused: no window is left.
    Refusal lend(VerbsDevice& device, const VerbsMemory& memory);
    // May the other end READ some memory, and the key for it?
    bool lends() const;
    uint32_t lent_key() const;
    bool windowed() const { return window_.there(); }
    void bind(ibv_send_wr& work) const;  // B2; only if windowed()
    void drop_window() { window_.drop(); }
    void release() {
        window_.drop();
        own_ = {};
    }

    void met(const VerbsFarMemory& far, const VerbsFarCounters& counters) {
        far_ = far;
        counters_ = counters;
    }
    bool counts_reads() const { return counters_.bytes > 0; }

    // Where a READ of so many bytes lands (R1).
    ibv_sge landing(uint64_t* at, uint32_t bytes) const {
        const ibv_mr& registered = *own(VerbsAccess::landing);
        const char* to = reinterpret_cast<const char*>(at);
        const char* begin = static_cast<const char*>(registered.addr);
        CHECK(to >= begin);
        CHECK(to + bytes <= begin + registered.length);
        return {reinterpret_cast<uint64_t>(at), bytes, registered.lkey};
    }
    void aim_read(ibv_send_wr& work, uint32_t bytes, uint64_t far_offset) const {
        CHECK(bytes <= far_.bytes);
        CHECK(far_offset <= far_.bytes - bytes);
        work.wr.rdma.remote_addr = far_.address + far_offset;
        work.wr.rdma.rkey = far_.key;
    }
    // Has the item there a counter?
    bool counts_at(uint64_t far_offset) const {
        return far_offset >= counters_.from && counter_at(far_offset) < counters_.bytes / layout::counter_bytes;
    }
    void aim_count(ibv_send_wr& work, uint64_t far_offset) const {
        work.wr.atomic.remote_addr = counters_.address + counter_at(far_offset) * layout::counter_bytes;
        work.wr.atomic.rkey = counters_.key;
        work.wr.atomic.compare_add = 1;
    }

  private:
    uint64_t counter_at(uint64_t far_offset) const { return layout::counter_of(far_offset - counters_.from); }

    std::array<std::shared_ptr<MemoryRegion>, size_t(VerbsAccess::count)> own_;  // by VerbsAccess
    VerbsWindow window_;  // over the `windowed` one, and released before it
    VerbsFarMemory far_;
    VerbsFarCounters counters_;
};

// Memory that is registered for one connection, for one right of the other end (B1). Its owner destroys the window, or all of
// it, before the queue pair (B3).
class ConnectionMemory {
  public:
    // access: IBV_ACCESS_REMOTE_WRITE or IBV_ACCESS_REMOTE_READ. nullptr: the device has no room for it.
    static std::unique_ptr<ConnectionMemory> make(const VerbsDevice& device, size_t bytes, unsigned access);

    char* data() const { return memory_.data(); }
    uint64_t address() const { return reinterpret_cast<uint64_t>(memory_.data()); }
    uint32_t key() const;  // for the other end
    bool windowed() const { return window_.there(); }
    void bind(ibv_send_wr& work) const;  // B2; only if windowed()
    void drop_window() { window_.drop(); }

  private:
    ConnectionMemory(size_t bytes, unsigned access)
        : bytes_(bytes), access_(access), memory_(Mapping::Kind::private_memory, bytes, /* huge_pages= */ false) {}
    const size_t bytes_;
    const unsigned access_;
    Mapping memory_;
    MemoryRegion registered_;
    VerbsWindow window_;
};

class OwnContainer {
  public:
    // nullptr: the device has no room for one.
    static std::unique_ptr<OwnContainer> make(const VerbsDevice& device);

    VerbsContainer where() const;
    ConnectionMemory& memory() const { return *memory_; }
    // Copies out its first bytes.
    void copy(char* to, size_t bytes) const;
    // The other end's container, from its first WRITE; nothing: no such WRITE, or an impossible place.
    std::optional<VerbsContainer> other() const;

  private:
    explicit OwnContainer(std::unique_ptr<ConnectionMemory> memory) : memory_(std::move(memory)) {}
    std::unique_ptr<ConnectionMemory> memory_;
};

class VerbsReports {
  public:
    // Gives this end a container, if the device has room for it.
    void use(const VerbsDevice& device) { own_ = OwnContainer::make(device); }
    const OwnContainer* own() const { return own_.get(); }
    // The other end's container, if its greeting names it; then this end's first WRITE names its own. Otherwise the other
    // end's first WRITE names it (VerbsContainer).
    void met(const VerbsContainer& there) { far_ = there; }
    // The same, where both ends' grants name the containers.
    void agreed(const VerbsContainer& there) {
        far_ = there;
        told_ = heard_ = true;
    }
    // A message has arrived: the other end's window is bound (B2).
    void heard() { heard_ = true; }
    // Where reports go; nothing: nowhere, or not yet.
    const std::optional<VerbsContainer>& far() {
        static constexpr std::optional<VerbsContainer> nowhere;
        if (own_ == nullptr || !heard_) return nowhere;
        if (!far_.has_value()) {
            far_ = own_->other();
            told_ = far_.has_value();  // by this end's greeting
        }
        return far_;
    }
    // Is this end's container to be named before the next report?
    bool must_tell() const { return !told_; }
    void told() { told_ = true; }

    void arrived(uint32_t bytes) { written_ = bytes; }
    // The bytes of the last report not taken yet; 0: none.
    uint32_t written() const { return written_; }
    uint32_t take_written() { return std::exchange(written_, 0); }

  private:
    std::unique_ptr<OwnContainer> own_;  // B3
    std::optional<VerbsContainer> far_;
    bool told_ = false;
    bool heard_ = false;
    uint32_t written_ = 0;
};

}  // namespace farcached::fabric
