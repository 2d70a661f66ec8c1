// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: the text engine with any bytes. It must not crash, must consume its input, and must reply the same
// however the bytes arrive. The first byte selects where they are cut.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "t/fuzz/text_session.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    std::string_view said(reinterpret_cast<const char*>(data) + 1, size - 1);
    fuzz::compare(said, data[0]);
    return 0;
}
