// SPDX-License-Identifier: BSD-3-Clause
// The operations of the consistency load's threads and their shares: a mix is a row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace consistency {

enum class Step : uint8_t {
    set,       // of a key of this thread
    add,       // append or prepend to one
    remove,    // delete one
    cas,       // with the right unique, or a stale one
    gone,      // stored as expired already
    touch,     // changes no bytes
    ttl,       // a key of this thread that has a time to live
    shorten,   // touch or gat: its time to live becomes short
    get,       // of any key
    gat,       // the same, which touches
    get_many,  // of several keys in one request
    count,     // incr, or the counter is made
    flush,     // flush_all
    prefix,    // a delete by prefix, if there are operators' sockets
    count_of_steps,
};
constexpr size_t steps = size_t(Step::count_of_steps);

struct Mix {
    std::string_view name;
    std::array<uint32_t, steps> shares;  // of all of its row
    bool refill = false;      // half of the gets are of this thread's keys; a miss sets the key again
    bool even_sizes = false;  // every size as likely as any other; else small ones as likely as large ones

    uint32_t share(Step step) const { return shares[size_t(step)]; }
};

// clang-format off
constexpr Mix mixes[] = {
    //              set   add remove  cas  gone touch   ttl short   get   gat  many count flush prefix
    {"everything", {2000,  667,  333,  333,  333,  333,  200,   50, 3200,  100, 1500,  990,   1,    2}},
    {"95:5",       { 500,    0,    0,    0,    0,    0,    0,    0, 9500,    0,    0,    0,   0,    0}},
    {"50:50",      {5000,    0,    0,    0,    0,    0,    0,    0, 5000,    0,    0,    0,   0,    0}},
    {"refill",     {   0,    0,  600,    0,    0,    0,    0,    0, 9400,    0,    0,    0,   0,    0}, true},
    {"joins",      { 600, 3000,    0,  200,    0,    0,    0,    0, 4700,    0,    0, 1500,   0,    0}},
    {"sizes",      {3000,    0,  600,    0,    0,    0,    0,    0, 6400,    0,    0,    0,   0,    0}, false, true},
    {"ttl",        { 700,    0,    0,    0,  300,  500, 2000, 1500, 3500, 1500,    0,    0,   0,    0}},
    {"flushes",    {3500,    0,  300,    0,    0,    0,    0,    0, 6180,    0,    0,    0,   5,   15}},
};
// clang-format on

constexpr const Mix* mix_of(std::string_view name) {
    for (const Mix& one : mixes)
        if (one.name == name) return &one;
    return nullptr;
}

}  // namespace consistency
