// SPDX-License-Identifier: BSD-3-Clause
// Checks the fields of a node's region before use (S10). Pure: both functions take private copies, since another process
// may change the region.
#pragma once

#include <cstdint>
#include <string_view>

#include "fabric/region_view.h"
#include "protocol/layout.h"

namespace farcached::fabric {

// The error in the header of a region of that many bytes; empty: none.
std::string_view header_wrong(const layout::RegionHeader& header, uint64_t region_bytes);

// A partition's part of the index; false: it does not lie within a region of that many bytes.
bool index_shape(const layout::PartitionEntry& entry, uint64_t region_bytes, IndexShape& shape);

}  // namespace farcached::fabric
