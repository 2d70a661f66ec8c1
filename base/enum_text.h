// SPDX-License-Identifier: BSD-3-Clause
// EnumText: the name of an enumerator and its help. The X-macro that declares an enum also makes the table of its texts, in the
// order of the enumerators. Owner: the module of the enum. Threads: constant.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/check.h"

namespace farcached {

struct EnumText {
    std::string_view name, help;
};

template <class Enum, size_t count>
constexpr const EnumText& text_of(const EnumText (&texts)[count], Enum value) {
    CHECK(size_t(value) < count);
    return texts[size_t(value)];
}

}  // namespace farcached
