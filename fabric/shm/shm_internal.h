// SPDX-License-Identifier: BSD-3-Clause
// ShmChannel: both sides of a connection over shared memory; made by connect_shm() and ShmListener.
//
// Owner and threads: as of any channel (fabric/channel.h).
//
// K1  Until start(), the poller holds the socket alone; from then on also the eventfd that wakes this side.
// K2  armed_ is the sleep word that this side has published, with armed_bit, and 0 while it is awake. Between two calls of
//     its owner it is armed, or its own eventfd is set (T2).
// K3  It reads shared memory only through reader_, writer_, reports_ and the other side's sleep word. Any sleep word and any
//     container bytes are valid; the length of a report is range-checked.
#pragma once

#include <sys/un.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/shm/shm_channel.h"
#include "fabric/shm/shm_greeting.h"
#include "fabric/shm/shm_ring.h"
#include "fabric/stream_channel.h"

namespace farcached::fabric {

struct ShmListener::Offer {
    std::string name;  // "shm:PATH"
    std::string path;
    Descriptor region;  // for reading only; none: no region
    uint64_t region_bytes = 0, incarnation = 0;
    ShmOptions options;

    // Can a proxy with this layout map the region?
    bool fits(const ShmHello& hello) const;
};

class ShmChannel final : public StreamChannel {
  public:
    enum class Side : uint8_t { node, proxy };
    ShmChannel(Side side, Descriptor socket, Descriptor poller, std::string name,
               ChannelEvents& events, const ShmOptions& options);

    void connect(const sockaddr_un& to, MappedRegions& regions);
    void accepted(std::shared_ptr<const ShmListener::Offer> offer) { offer_ = std::move(offer); }

    bool linger() override;
    const RegionView* mapped_region(uint32_t region) const override;
    bool owner_alive() const override;
    bool can_read() const override { return region_ != nullptr; }
    bool post_read(const ReadRequest& request) override;
    bool has_container() const override { return reports_.has_value(); }
    void copy_container(char* to, size_t bytes) const override;
    bool post_report(std::string_view bytes) override;
    Result<std::string> grant() override;
    Refusal take_grant(std::string_view bytes) override;
    const ShmCounters& wake_ups() const { return wake_ups_; }

  private:
    static constexpr uint32_t armed_bit = 1U << 31;
    struct DoneRead {
        uint64_t token;
        ReadStatus status;
    };

    void advance() override;
    void woken() override;
    size_t pull(char* to, size_t room) override;
    size_t push(std::string_view bytes) override;
    void look_for_end() override;
    bool watch(const Interest& interest) override;
    void hang_up() override;
    void tell_reads() override;
    void tell_written() override;

    void hail();
    bool hail_again(uint32_t version);
    void welcome_proxy();
    void meet_node();
    void take_granted();
    void refuse(ShmRefusal reason, ChannelEnd why, const std::string& text);
    void start(Descriptor wake_me, Descriptor wake_peer);
    void end_for_gone_peer();
    void wake_peer(uint32_t reason);
    void kick();
    bool anything_for(uint32_t reasons);
    void stay_awake();

    const Side side_;
    const ShmOptions options_;
    Descriptor socket_, wake_me_, wake_peer_;
    sockaddr_un to_{};                // of a proxy's side: the node's address
    uint32_t version_ = shm_version_spoken();  // of the greeting
    std::shared_ptr<const ShmListener::Offer> offer_;  // of a node's side
    MappedRegions* regions_ = nullptr;                 // of a proxy's
    std::shared_ptr<const MappedRegion> region_;       // of a proxy's
    // Of an end that withholds. A node's: the proxy may map the region, and has not got it yet. A proxy's: the record that came.
    bool may_grant_ = false;
    std::optional<ShmGrant> granted_;
    Descriptor granted_region_;
    std::unique_ptr<LinkMemory> link_;
    std::optional<RingReader> reader_;
    std::optional<RingWriter> writer_;
    std::optional<ShmReports> reports_;  // none: no containers
    uint32_t* sleeps_ = nullptr;
    uint32_t* peer_sleeps_ = nullptr;
    uint32_t armed_ = 0;
    Spins spins_;
    bool lingered_ = false;  // linger() caused the next ready(): no wake-up to consume
    bool peer_gone_ = false;
    std::vector<DoneRead> reads_;
    ShmCounters wake_ups_;
};

// No descriptor: errno has the cause.
Descriptor shm_socket();

}  // namespace farcached::fabric
