// SPDX-License-Identifier: BSD-3-Clause
// Measures the cost of verifying an item's check (protocol/item_check.h), as every reader by READ does. Table 1 of the
// C-Hint paper has it for CRC64.
#pragma once

#include <cstdint>

namespace farcached::bench {

// Microseconds per item with a value of that size, in this thread and from the cache: the median of some rounds.
double check_cost_us(uint32_t value_bytes);

}  // namespace farcached::bench
