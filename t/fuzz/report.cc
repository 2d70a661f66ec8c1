// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: reports to a node that has leased some items, in a proxy's container and in frames. An input is one or
// more reports: of items in the node, with something changed, or of any bytes. Checked: the service answers or ends the
// connection; only leases of correctly named items change; reports keep at most their proxy's share leased.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "node/store/impl.h"
#include "t/unit/service/service_fixture.h"

namespace {

using namespace service_fixture;

constexpr uint32_t items_count = 12, share_items = 4, value_bytes = 400;
constexpr uint64_t item_bytes = sizeof(layout::ItemHeader) + 2 + value_bytes;
constexpr NodeSeconds long_after = 200;  // no lease is left, and the whole share

void insist(bool good) {
    if (!good) std::abort();
}

node::Config small_node() {
    node::Config config = node_config(4, 1 << 16);
    config.seed = 1;
    config.lease.term_ms = 60'000;
    return config;
}

// Takes values off an input; reads zeros behind its end.
class Input {
  public:
    explicit Input(std::string_view bytes) : rest_(bytes) {}
    bool empty() const { return rest_.empty(); }
    template <class Number>
    Number take() {
        Number number{};
        const size_t size = std::min(sizeof number, rest_.size());
        if (size != 0) std::memcpy(&number, rest_.data(), size);
        rest_.remove_prefix(size);
        return number;
    }
    std::string take_bytes(size_t size) {
        const std::string bytes(rest_.substr(0, size));
        rest_.remove_prefix(bytes.size());
        return bytes;
    }

  private:
    std::string_view rest_;
};

class World {
  public:
    World() : served_(small_node()) {
        const double share = double(share_items * item_bytes) / double(served_.cache.leasable_bytes());
        served_.shared.limits.report_share = share;
        Proxy proxy(served_);
        for (uint32_t i = 0; i < items_count; i++) {
            const std::string key = {'k', char('a' + i)};
            proxy.ask(set_of(key, std::string(value_bytes, 'v')));
            proxy.ask(get_of(key));
            const auto grant = proxy.ask(get_of(key), wanting_grant()).reply.grant;
            insist(grant.has_value());
            items_.push_back(
                *item_access(hash_key(key, proxy.welcome.hash_seed), grant->offset, grant->region, grant->generation, 1));
        }
    }

    // As in a new node, except for the items' access counts.
    void begin() {
        reporter_.emplace(served_);
        clock_reads += long_after;
        insist(served_.cache.stats(clock_reads).leases.bytes == 0);
    }

    // False: the connection has ended.
    bool report(Input& input) {
        const uint8_t way = input.take<uint8_t>();
        clock_reads += way >> 5;
        const std::array<uint32_t, items_count> before = leases();
        const uint64_t sequence = reporter_->next_sequence++;
        std::string content = (way & 1) != 0 ? any_bytes(input) : some_records(input, sequence);
        size_t bytes = content.size();
        if ((way & 2) != 0) bytes = input.take<uint16_t>() % (fabric::container_bytes + 1);
        if (bytes == 0) return true;
        const uint64_t answered = served_.counters.reports.get();
        const bool in_frames = (way & 4) != 0;
        if (in_frames) {
            reporter_->give(content);
            if (!reporter_->service.close_wanted() && served_.counters.reports.get() == answered) return false;  // half a frame
        } else {
            reporter_->channel.write(content, bytes);
            content = reporter_->channel.container.substr(0, bytes);  // behind what was written: an earlier report's
            reporter_->turns();
        }
        const bool over = reporter_->service.close_wanted();
        const uint64_t answers = served_.counters.reports.get() - answered;
        if (in_frames && (way & 1) != 0)
            insist(over || answers != 0);  // any bytes may be a report and the beginning of another frame
        else
            insist(answers == (over ? 0 : 1));
        insist(reporter_->trouble.empty());
        look_at(before, content);
        return !over;
    }

  private:
    std::array<uint32_t, items_count> leases() {
        std::array<uint32_t, items_count> ends;
        node::Arena& arena = served_.cache.impl().arena;
        for (uint32_t i = 0; i < items_count; i++)
            ends[i] = arena.descriptor(arena.ref_at(items_[i].offset - served_.cache.view().header->arena_offset)).lease_end;
        return ends;
    }

    static std::string any_bytes(Input& input) { return input.take_bytes(input.take<uint16_t>() % (report_bytes_max + 1)); }

    std::string some_records(Input& input, uint64_t sequence) {
        std::string body;
        uint32_t count = 1 + input.take<uint8_t>() % 40;
        for (uint32_t i = 0; i < count; i++) {
            ItemAccess record = items_[input.take<uint8_t>() % items_count];
            const uint8_t what = input.take<uint8_t>();
            if ((what & 0x80) != 0) change(record, what & 7, input.take<uint32_t>());
            const AccessRecord put = record_of(record);
            body.append(reinterpret_cast<const char*>(&put), sizeof put);
        }
        std::string content(sizeof(FrameHeader), '\0');
        write_frame_header(content.data(), {uint32_t(body.size()), uint16_t(FrameKind::report), uint16_t(count), sequence});
        return content + body;
    }

    static void change(ItemAccess& record, uint32_t field, uint32_t by) {
        switch (field) {
            case 0: record.hash ^= by; break;
            case 1: record.generation_tag = uint16_t(record.generation_tag + by); break;
            case 2: record.offset += by & ~15U; break;
            case 3: record.region = by & access_region_max; break;
            case 4: record.count = by; break;
            case 5: record.offset = (uint64_t(by) << 32 | by) % (access_offset_max + 1) & ~UINT64_C(15); break;
            case 6: record.hash ^= uint64_t(by) << 32; break;
            default: record.offset ^= UINT64_C(16) << by % access_place_bits; break;
        }
    }

    // Does it hold a record with the item's key and place?
    static bool names(const std::string& content, const ItemAccess& item) {
        for (size_t at = sizeof(FrameHeader); at + sizeof(AccessRecord) <= content.size(); at += sizeof(AccessRecord)) {
            AccessRecord record;
            std::memcpy(&record, content.data() + at, sizeof record);
            const ItemAccess named = access_of(record);
            if (named.hash == item.hash && same_place(named, item)) return true;
        }
        return false;
    }

    void look_at(const std::array<uint32_t, items_count>& before, const std::string& content) {
        const std::array<uint32_t, items_count> after = leases();
        for (uint32_t i = 0; i < items_count; i++)
            if (after[i] != before[i]) insist(names(content, items_[i]));
        insist(served_.cache.stats(clock_reads).leases.bytes <= (2 * share_items + 1) * item_bytes);  // report_quota.h, U1
    }

    ServedNode served_;
    std::optional<Proxy> reporter_;
    std::vector<ItemAccess> items_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    with_containers = true;
    steady_step_ns = 0;
    static std::unique_ptr<World> world;  // to make one takes longer than most inputs
    if (world == nullptr || clock_reads > UINT32_MAX / 2) {
        world.reset();
        clock_reads = at_start;
        world = std::make_unique<World>();
    }
    world->begin();
    Input input({reinterpret_cast<const char*>(data), size});
    do {
    } while (world->report(input) && !input.empty());
    return 0;
}
