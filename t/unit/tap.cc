// SPDX-License-Identifier: BSD-3-Clause
// Tests of the test programs' own output functions (t/lib/tap.h).
#include "t/lib/tap.h"

enum class Colour : uint8_t { red = 3 };

int main() {
    tap::ok(true, "ok of true");
    tap::is(tap::show_bytes(std::string_view("a\r\n\0\"", 5)), "\"a\\r\\n\\x00\\\"\"",
            "bytes that do not print are shown");
    tap::is(tap::show(Colour::red), "3", "an enum is shown as its number");
    tap::is(tap::show(uint8_t(7)), "7", "a byte is shown as a number");
    tap::is(uint64_t(5), 5, "an unsigned value against a literal");
    tap::is(std::string("x"), "x", "a string against a literal");
    tap::is(tap::show(false), "false", "a truth value is shown in words");
    return tap::done();
}
