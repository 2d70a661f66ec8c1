// SPDX-License-Identifier: BSD-3-Clause
// What a node's region says of itself, checked before it is believed (S10). Pure: both look at private copies, since
// another process may change what it has told.
#pragma once

#include <cstdint>
#include <string_view>

#include "fabric/region_view.h"
#include "protocol/layout.h"

namespace farcached::fabric {

// What is wrong with the header of a region of that many bytes; empty: nothing.
std::string_view header_wrong(const layout::RegionHeader& header, uint64_t region_bytes);

// Where a partition's part of the index lies; false: not within a region of that many bytes.
bool index_shape(const layout::PartitionEntry& entry, uint64_t region_bytes, IndexShape& shape);

}  // namespace farcached::fabric
