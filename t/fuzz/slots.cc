// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: messages in slots (fabric/verbs/verbs_slots.h) as a peer may leave them. An input is a sequence of words
// that the peer stores in the slots of an end, whole messages among them, and of looks by that end. Each message
// that the reader takes matches its check, has the next number and lies within its slot. The ledger of sent messages
// accepts no impossible number. The input's first byte chooses where the numbers begin: some lower halves wrap soon. Plans of
// READs and wakes always have a next time while they need one (H1, H2).
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "fabric/verbs/rpc_timing.h"
#include "fabric/verbs/verbs_slots.h"

namespace {

using namespace farcached;
using namespace farcached::fabric;

constexpr uint32_t slots = 4, slot_words = 16, slot_bytes = slot_words * 8, head_bytes = sizeof(SlotHead);

void insist(bool good) {
    if (!good) std::abort();
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

  private:
    std::string_view rest_;
};

struct End {
    std::vector<uint64_t> memory = std::vector<uint64_t>(slots * slot_words);
    SlotReader in;
    OutMessages out;
    FetchPlan plan{slot_bytes, 0};
    NodeAwake awake;
    LookWindow window{200};
    uint64_t now_ns = 1'000'000;
    uint32_t last_plain = 0;

    explicit End(uint64_t before) : in(before), out(before) {
        in.use_slots(slot_bytes);
        out.use_slots(slots);
    }
    uint64_t* slot(uint64_t number) { return memory.data() + number % slots * slot_words; }

    // A message with a good check, otherwise as the input says.
    void message(Input& input) {
        SlotHead head;
        uint64_t number = in.next() + uint64_t(input.take<int8_t>());
        head.seen = uint32_t(out.seen()) + uint32_t(input.take<int8_t>());
        head.awake_us = input.take<uint32_t>();
        head.service_us = input.take<uint32_t>();
        head.flags = input.take<uint8_t>();
        if ((head.flags & 0x80) != 0) number -= UINT64_C(1) << 32;  // of a turn before
        const std::string bytes(input.take<uint8_t>() % (slot_bytes - sizeof head + 1), 'm');
        std::vector<char> made(slot_bytes);
        compose_message(made.data(), number, head, bytes, {});
        publish_message(slot(number), made.data(), uint32_t(sizeof head + bytes.size()));
    }
    void took(const SlotHead& head, bool fetched) {
        const uint64_t seen = out.seen(), ahead = uint32_t(head.seen - uint32_t(seen));
        const bool possible = out.saw(head.seen);
        insist(possible == (ahead <= out.last() - seen));
        insist(out.seen() == (possible ? seen + ahead : seen));
        window.took_request(now_ns);
        const bool armed = awake.wake_ns() != never_ns;
        awake.told(head.seen, head.awake_us, now_ns);
        insist(!armed || int32_t(last_plain - head.seen) <= 0 || awake.wake_ns() != never_ns);  // H2
        if (fetched)
            plan.brought(head, now_ns, uint32_t(out.last()) != head.seen);
        else
            plan.sent(head, now_ns);
    }
    void look(uint32_t readable) {
        const uint64_t wanted = in.next(), since_ns = in.incomplete_since_ns();
        const MessageState state = in.look(slot(wanted), readable, now_ns);
        const bool begins = state == MessageState::incomplete && since_ns == 0;
        insist(in.incomplete_since_ns() == (state == MessageState::whole ? 0 : begins ? now_ns : since_ns));
        if (state != MessageState::whole) return;
        const SlotHead head = in.head();
        insist(head.sequence == uint32_t(wanted));
        insist(head.length <= readable - sizeof head);
        const std::string_view bytes = in.copied();
        std::string whole(sizeof head + bytes.size(), '\0');
        std::memcpy(whole.data(), &head, sizeof head);
        std::memcpy(whole.data() + sizeof head, bytes.data(), bytes.size());
        insist(message_check(whole.data(), head.length, wanted) == head.check);
        in.take_copy(0);
        insist(in.next() == wanted + 1 && in.incomplete_since_ns() == 0);
        insist(in.rest() == bytes);
        in.consume(in.rest().size());
        took(head, /* fetched= */ false);
    }
    void ask(bool plain) {
        if (out.last() - out.seen() >= 32) return;
        plan.due(true, now_ns);
        const uint32_t number = uint32_t(out.next());
        const bool free = out.slot_free();
        if (free)
            out.left_in_slot();
        else
            out.left_in_send();
        awake.asked(number, now_ns, plain && free);
        if (plain && free) last_plain = number;
        insist(!plain || !free || awake.wake_ns() != never_ns);  // H2
        plan.asked(now_ns);
        insist(plan.under_way() || plan.next_ns() != never_ns);  // H1
    }
    void read(bool found, Input& input) {
        if (plan.under_way()) {
            plan.landed(now_ns);
            if (found) {
                SlotHead head;
                head.length = input.take<uint16_t>();
                head.service_us = input.take<uint32_t>();
                plan.brought(head, now_ns, true);
            } else {
                (void)plan.found_none(now_ns);
            }
            return;
        }
        if (plan.next_ns() == never_ns) return;
        now_ns = std::max(now_ns, plan.next_ns());
        plan.posted(now_ns);
        insist(plan.bytes() >= sizeof(SlotHead) && plan.bytes() <= slot_bytes);
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input({reinterpret_cast<const char*>(data), size});
    constexpr uint64_t wraps = UINT64_C(1) << 32, befores[] = {0, wraps - 2, wraps - 9, 2 * wraps - 4, (wraps << 30) - 6};
    End end(befores[input.take<uint8_t>() % std::size(befores)]);
    while (!input.empty()) {
        end.now_ns += input.take<uint16_t>();
        switch (input.take<uint8_t>() % 8) {
            case 0: end.memory[input.take<uint8_t>() % end.memory.size()] = input.take<uint64_t>(); break;
            case 1: end.message(input); break;
            case 2: end.look(slot_bytes); break;
            case 3: end.look(head_bytes + input.take<uint8_t>() % (slot_bytes - head_bytes + 1)); break;
            case 4: end.ask(input.take<uint8_t>() % 2 != 0); break;
            case 5: end.read(input.take<uint8_t>() % 2 != 0, input); break;
            case 6: {
                SlotPlace place;
                place.address = input.take<uint64_t>();
                place.slots = input.take<uint16_t>();
                place.slot_64s = input.take<uint16_t>();
                if (possible(place)) insist(place.address + place.bytes() >= place.address);
                break;
            }
            case 7: end.plan.due(input.take<uint8_t>() % 2 != 0, end.now_ns); break;
        }
    }
    return 0;
}
