// SPDX-License-Identifier: BSD-3-Clause
// LoadedLibrary names libraries and functions that are missing, and finds those that exist.
#include <unistd.h>

#include <string>

#include "base/loaded_library.h"
#include "t/lib/tap.h"

namespace {

using namespace farcached;

void libraries() {
    int (*function)() = nullptr;
    LoadedLibrary missing("libfarcached-none.so.1");
    missing.find("getpagesize", function);
    tap::ok(missing.error().find("libfarcached-none.so.1") != std::string::npos, "a library that is not there is named");
    tap::ok(function == nullptr, "and has no functions");
    LoadedLibrary there("libc.so.6");
    there.find("getpagesize", function);  // which no sanitizer replaces
    tap::ok(there.error().empty() && function != nullptr && function() == getpagesize(), "one that is there has them");
    there.find("farcached_none", function);
    tap::ok(there.error().find("farcached_none") != std::string::npos, "a function that it lacks is named");
}

}  // namespace

int main() {
    libraries();
    return tap::done();
}
