// SPDX-License-Identifier: BSD-3-Clause
// Frames of many requests on few keys. A node parses and prefetches several requests before it executes the first. They
// take effect in order, also where the node leaves a frame in the middle or a later request is bad.
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "t/lib/tap.h"
#include "t/unit/service/service_fixture.h"

using namespace service_fixture;

namespace {

using Model = std::map<std::string, std::string>;

// One request and the reply that the model gives, in words.
struct Step {
    RequestOp op;
    std::string key, value, want;
};

std::string word(bool yes, const char* what) { return (yes ? "" : "not ") + std::string(what); }

void expect(Step& step, Model& model) {
    const auto found = model.find(step.key);
    const bool there = found != model.end();
    if (std::holds_alternative<GetOp>(step.op)) {
        step.want = there ? "hit " + found->second : "miss";
    } else if (const auto* store = std::get_if<StoreOp>(&step.op)) {
        using Mode = StoreOp::Mode;
        const bool done = store->mode == Mode::set || there == (store->mode == Mode::append);
        step.want = word(done, "stored");
        if (!done) return;
        model[step.key] = store->mode == Mode::append ? found->second + step.value : step.value;
    } else if (std::holds_alternative<DeleteOp>(step.op)) {
        step.want = word(there, "deleted");
        model.erase(step.key);
    } else if (std::holds_alternative<FlushOp>(step.op)) {
        step.want = "done";
        model.clear();
    } else {
        step.want = "done";
        model.erase(step.key);
    }
}

Step draw(std::mt19937& random, Model& model) {
    Step step;
    step.key = "key" + std::to_string(random() % 4);
    step.value = "v" + std::to_string(random() % 1000);
    switch (random() % 16) {
        case 0: step.op = ForgetOp(); break;
        case 1: step.op = FlushOp(); break;
        case 2: case 3: case 4: step.op = DeleteOp(); break;
        case 5: case 6: case 7: step.op = StoreOp(); break;
        case 8: step.op.emplace<StoreOp>().mode = StoreOp::Mode::append; break;
        case 9: step.op.emplace<StoreOp>().mode = StoreOp::Mode::add; break;
        default: step.op = GetOp();
    }
    expect(step, model);
    return step;
}

void add(FrameWriter& writer, Step& step, uint32_t tag) {
    RequestOptions options;
    options.tag = tag;
    std::visit(
        [&](auto& op) {
            if constexpr (requires { op.key; }) op.key.bytes = step.key;
            if constexpr (std::is_same_v<std::decay_t<decltype(op)>, StoreOp>) op.value = step.value;
            CHECK(writer.add(op, options));
        },
        step.op);
}

std::string got(const Answer& answer) {
    const ReplyOp& reply = answer.reply.op;
    if (is_hit(answer)) return "hit " + answer.value;
    if (std::holds_alternative<GetReply>(reply)) return "miss";
    if (std::holds_alternative<StoreReply>(reply)) return word(is_stored(answer), "stored");
    if (const auto* remove = std::get_if<DeleteReply>(&reply))
        return word(remove->status == DeleteReply::Status::deleted, "deleted");
    return std::holds_alternative<DoneReply>(reply) ? "done" : "?";
}

// A frame of `count` requests; how many replies differ from the model's.
size_t one_frame(Proxy& proxy, std::mt19937& random, Model& model, uint32_t count, size_t drip) {
    OutBuffer out;
    const uint64_t sequence = proxy.next_sequence++;
    FrameWriter writer(out, proxy.welcome.frame_bytes_max);
    writer.begin(FrameKind::requests, sequence);
    std::vector<std::string> want;
    for (uint32_t i = 0; i < count; i++) {
        Step step = draw(random, model);
        add(writer, step, i);
        want.push_back(step.want);
    }
    writer.end();
    if (drip == 0) {
        proxy.give(out);
    } else {
        proxy.channel.feed({out.data(), out.size()});
        proxy.drip(drip);
    }
    size_t wrong = proxy.answers.size() == count ? 0 : 1;
    for (uint32_t i = 0; i < count; i++) {
        const std::string what = got(proxy.answers[{sequence, i}]);
        if (what == want[i]) continue;
        if (wrong++ < 3) tap::note("request %u of %u: got %s want %s", i, count, what.c_str(), want[i].c_str());
    }
    proxy.answers.clear();
    return wrong;
}

// SET k, GET k, DELETE k, GET k, and the same again, in one frame.
void one_key() {
    ServedNode served;
    Proxy proxy(served);
    OutBuffer out;
    constexpr uint32_t rounds = 30;
    FrameWriter writer(out, proxy.welcome.frame_bytes_max);
    writer.begin(FrameKind::requests, 100);
    RequestOptions options;
    for (uint32_t i = 0; i < rounds; i++) {
        const std::string value = "value" + std::to_string(i);
        DeleteOp remove;
        remove.key = {"k", 0};
        options.tag = i * 4;
        CHECK(writer.add(set_of("k", value), options));
        options.tag++;
        CHECK(writer.add(get_of("k"), options));
        options.tag++;
        CHECK(writer.add(remove, options));
        options.tag++;
        CHECK(writer.add(get_of("k"), options));
    }
    writer.end();
    proxy.give(out);
    bool good = proxy.answers.size() == rounds * 4 && proxy.trouble.empty();
    for (uint32_t i = 0; i < rounds; i++) {
        good = good && got(proxy.answers[{100, i * 4}]) == "stored";
        good = good && got(proxy.answers[{100, i * 4 + 1}]) == "hit value" + std::to_string(i);
        good = good && got(proxy.answers[{100, i * 4 + 2}]) == "deleted";
        good = good && got(proxy.answers[{100, i * 4 + 3}]) == "miss";
    }
    tap::ok(good, "set, get, delete and get of one key, many times in a frame, take effect in order");
}

void frames_of_all_sizes(size_t out_bytes_mark, size_t drip, const std::string& name) {
    ServedNode served;
    served.shared.limits.out_bytes_mark = out_bytes_mark;
    Proxy proxy(served);
    std::mt19937 random(uint32_t(out_bytes_mark) + 5);
    Model model;
    size_t wrong = 0;
    for (uint32_t round = 0; round < 10; round++)
        for (uint32_t count = 1; count <= 40; count++) wrong += one_frame(proxy, random, model, count, drip);
    tap::is(wrong, size_t(0), name + ": every request of a frame sees what those before it did");
    tap::is(proxy.trouble, "", name + ": all is answered once");
    tap::ok(drip == 0 || served.counters.stalls.get() > 100, name + ": frames are left and gone on with");
}

// The requests before a bad one are executed and answered, also if they were parsed together.
void bad_in_the_middle() {
    bool good = true;
    for (uint32_t before = 0; before < 20; before++) {
        ServedNode served;
        Proxy proxy(served);
        OutBuffer out;
        FrameWriter writer(out, proxy.welcome.frame_bytes_max);
        writer.begin(FrameKind::requests, 100);
        RequestOptions options;
        for (; options.tag < before; options.tag++)
            CHECK(writer.add(set_of("k" + std::to_string(options.tag), "v"), options));
        CHECK(writer.add(get_of("k"), options));
        writer.end();
        std::string bytes(out.data(), out.size());
        const size_t last = bytes.size() - request_bytes(get_of("k"), options);
        bytes[last] = char(0x7f);  // the operation
        proxy.give(bytes);
        good = good && proxy.answers.size() == before && proxy.goodbye == Goodbye::protocol_error;
        good = good && served.counted(FrameError::op_unknown) == 1;
        Proxy next(served);
        for (uint32_t i = 0; i < before; i++) good = good && is_hit(next.ask(get_of("k" + std::to_string(i))));
    }
    tap::ok(good, "what stands before a bad request is executed and answered, and the connection ends");
}

// A value that follows its frame is stored when it has come: under its key, and after the frame's other effects.
void value_that_follows() {
    ServedNode served;
    Proxy proxy(served);
    OutBuffer out;
    const std::string value(1000, 'l');
    RequestOptions options, follows;
    follows.value_follows = true;
    FrameWriter writer(out, proxy.welcome.frame_bytes_max);
    writer.begin(FrameKind::requests, 100);
    for (uint32_t i = 0; i < 12; i++) {
        options.tag = i;
        follows.tag = 50 + i;
        const std::string key = "k" + std::to_string(i);
        CHECK(writer.add(set_of(key, "short"), options));
        CHECK(writer.add(set_of(key, value), follows));
    }
    writer.end();
    for (uint32_t i = 12; i-- > 0;) proxy.put_chunks(out, 100, 50 + i, value);
    proxy.give(out);
    bool good = proxy.answers.size() == 24 && proxy.trouble.empty();
    for (uint32_t i = 0; i < 12; i++) {
        good = good && got(proxy.answers[{100, i}]) == "stored" && got(proxy.answers[{100, 50 + i}]) == "stored";
        good = good && proxy.ask(get_of("k" + std::to_string(i))).value == value;
    }
    tap::ok(good, "values that follow a frame are stored under their keys");
}

}  // namespace

int main() {
    one_key();
    frames_of_all_sizes(256 * 1024, 0, "at once");
    frames_of_all_sizes(1, 7, "one reply at a time");
    frames_of_all_sizes(150, 20, "a few replies at a time");
    bad_in_the_middle();
    value_that_follows();
    return tap::done();
}
