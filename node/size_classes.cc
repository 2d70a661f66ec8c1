// SPDX-License-Identifier: BSD-3-Clause
#include "node/size_classes.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace farcached::node {

namespace {

// Up to this size, classes are one stride apart for any factor. At 1.25, an item of 64 bytes would waste as much as its index
// entry takes.
constexpr uint32_t fine_bytes_max = 256;

uint32_t to_stride(double bytes) {
    double strides = std::ceil(bytes / layout::stride_bytes);
    return uint32_t(strides) * layout::stride_bytes;
}

}  // namespace

SizeClasses::SizeClasses(uint32_t chunk_bytes_min, double growth_factor) {
    CHECK(growth_factor > 1.0);
    constexpr uint8_t classes_max = layout::large_class - 1;
    double size = std::max<double>(layout::slot_bytes_min,
                                   double(sizeof(layout::ItemHeader)) + chunk_bytes_min);
    size = std::min<double>(size, layout::page_bytes);
    // A factor near 1 needs more classes than there are numbers: spreads them over the range instead.
    double factor = std::max(
        growth_factor, std::pow(double(layout::page_bytes) / size, 1.0 / double(classes_max - 2)));
    while (size <= layout::page_bytes / 2.0 && count_ < classes_max - 1) {
        uint32_t bytes = to_stride(size);
        uint32_t fit = layout::page_bytes / bytes;
        bytes = layout::page_bytes / fit / layout::stride_bytes * layout::stride_bytes;
        if (bytes != bytes_[count_]) {
            count_++;
            bytes_[count_] = bytes;
            slots_[count_] = fit;
        }
        const double next = double(bytes) + layout::stride_bytes;
        size = next <= fine_bytes_max ? next : std::max(size * factor, next);
    }
    count_++;
    bytes_[count_] = layout::page_bytes;
    slots_[count_] = 1;
    uint8_t size_class = 1;
    for (uint32_t strides = 0; strides < lookup_.size(); strides++) {
        while (bytes_[size_class] < strides * layout::stride_bytes) size_class++;
        lookup_[strides] = size_class;
    }
}

}  // namespace farcached::node
