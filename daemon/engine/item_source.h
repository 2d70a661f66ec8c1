// SPDX-License-Identifier: BSD-3-Clause
// ItemSource: where WarmUp finds items that are missing here: a memcached (MemcachedSource), or the former owner of a key
// (FormerSource).
//
// Owner: a Worker; its thread alone.
// I1  Each fetch and each change is answered exactly once, perhaps within the call. After stop() nothing is.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/engine/source_link.h"
#include "protocol/op.h"

namespace farcached::daemon {

class ItemSource {
  public:
    struct Item {
        std::string_view value;  // ends with the call
        uint32_t flags = 0;
        int64_t ttl_s = -1;      // from the fetch on; -1: never expires
        uint64_t cas = 0;        // the source's unique, if it is to be kept
        bool key_binary = false;
    };
    class Sink {
      public:
        // ok: the source has executed it. item: what a fetch found; nullptr: nothing that can move.
        virtual void source_answered(uint64_t number, bool ok, const Item* item) noexcept = 0;

      protected:
        ~Sink() = default;
    };
    enum class Change : uint8_t { remove, flush };

    virtual ~ItemSource() = default;
    ItemSource(const ItemSource&) = delete;
    ItemSource& operator=(const ItemSource&) = delete;

    // Before the first call of another member. It outlives this.
    void answer_to(Sink& sink) { sink_ = &sink; }
    // May it have an item of that key? The empty key: of any, for a flush.
    virtual bool may_have(std::string_view key) = 0;
    // True: the key's mark is to be taken first, and a mutation deletes the item there first (WarmUp, U1). False: the node decides
    // about the request that complete() makes.
    virtual bool takes_marks() const = 0;
    // number: of the caller. Throws std::bad_alloc, with no effect.
    virtual void fetch(std::string_view key, uint64_t number) = 0;
    virtual void change(Change what, std::string_view key, uint64_t number) = 0;
    // Without marks: completes the request that stores an item here. False: it cannot be stored.
    virtual bool complete(protocol::StoreOp& op) = 0;

    virtual void end_tick() {}
    virtual uint64_t timer_at_ns() const { return UINT64_MAX; }
    virtual void timer_due() {}
    virtual void stop() = 0;

  protected:
    ItemSource() = default;
    Sink* sink_ = nullptr;
};

// MemcachedSource: the memcached of warm_from, over two connections: changes do not wait behind large values.
class MemcachedSource final : public ItemSource, private SourceLink::Sink {
  public:
    // Both outlive this.
    MemcachedSource(WarmSource& source, Waits& waits)
        : gets_(source, waits, *this, /* rests= */ true), changes_(source, waits, *this, /* rests= */ false) {}

    bool may_have(std::string_view) override { return true; }
    bool takes_marks() const override { return true; }
    void fetch(std::string_view key, uint64_t number) override;
    void change(Change what, std::string_view key, uint64_t number) override;
    bool complete(protocol::StoreOp&) override { return false; }
    void end_tick() override;
    uint64_t timer_at_ns() const override;
    void timer_due() override;
    void stop() override;

  private:
    void source_answered(uint64_t number, bool ok, const protocol::SourceReply& reply) noexcept override;

    SourceLink gets_, changes_;
};

}  // namespace farcached::daemon
