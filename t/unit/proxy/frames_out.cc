// SPDX-License-Identifier: BSD-3-Clause
// The frames of one connection that await answers: which is the oldest. They allocate memory once, for any order of a
// node's answers.
#include <vector>

#include "proxy/link_frames.h"
#include "t/lib/refused_new.h"
#include "t/lib/tap.h"

namespace {

bool no_memory = false;

}  // namespace

bool allocation_refused(size_t) { return no_memory; }

namespace {

using namespace farcached;

constexpr uint32_t credits = 4;

struct Frames {
    proxy::FramesOut out{65536, credits};
    OutBuffer sent;

    // A frame of one request: the frame's number.
    uint32_t ask() {
        protocol::GetOp op;
        op.key = {"k", 1};
        proxy::FramesOut::Place place;
        if (!out.add(op, protocol::RequestOptions(), place)) return UINT32_MAX;
        out.send(sent, 1);
        sent.clear(65536);
        return place.frame;
    }
};

void oldest() {
    Frames frames;
    tap::is(frames.out.oldest_sequence(), 1u, "before the first frame, it is the oldest");
    std::vector<uint32_t> numbers;
    for (uint32_t i = 0; i < credits; i++) numbers.push_back(frames.ask());
    tap::is(frames.ask(), UINT32_MAX, "there are no more frames than credits");
    frames.out.answered(numbers[2]);
    frames.out.answered(numbers[1]);
    tap::is(frames.out.oldest_sequence(), 1u, "answers to later ones do not make it younger");
    frames.out.answered(numbers[0]);
    tap::is(frames.out.oldest_sequence(), 4u, "the next one is what is not answered yet");
    frames.out.answered(numbers[3]);
    tap::is(frames.out.oldest_sequence(), 5u, "or has not been asked");
}

void one_never_answered() {
    Frames frames;
    frames.ask();
    frames.out.answered(frames.ask());
    no_memory = true;
    bool threw = false;
    try {
        for (int i = 0; i < 100'000; i++) frames.out.answered(frames.ask());
    } catch (const std::bad_alloc&) {
        threw = true;
    }
    no_memory = false;
    tap::ok(!threw, "a frame that is never answered makes what is remembered of later ones no more");
    tap::is(frames.out.frames_unanswered(), 1u, "all but that are answered");
    tap::is(frames.out.oldest_sequence(), 1u, "and that is the oldest");
}

}  // namespace

int main() {
    oldest();
    one_never_answered();
    return tap::done();
}
