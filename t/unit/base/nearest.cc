// SPDX-License-Identifier: BSD-3-Clause
// nearest(): the option name that is most similar to a mistyped one.
#include <string>
#include <string_view>

#include "base/nearest.h"
#include "base/placement_words.h"
#include "t/lib/tap.h"

using namespace farcached;

namespace {

struct Row {
    std::string_view given;
    std::string_view nearest;
};

constexpr Row rows[] = {
    {"md5", "md5"},          {"MD5", "md5"},           {"md6", "md5"},        {"m5d", "md5"},
    {"mdd5", "md5"},         {"fnv1a64", "fnv1a_64"},  {"fnv1a-32", "fnv1a_32"}, {"jenkinss", "jenkins"},
    {"one-at-a-time", "one_at_a_time"}, {"crc32", ""}, {"sha256", ""},        {"", ""},
    {"murmur4", "murmur"},
};

}  // namespace

int main() {
    for (const Row& row : rows) {
        tap::is(nearest(row.given, key_hash_names), row.nearest, row.given.empty() ? "nothing" : row.given);
    }
    tap::is(nearest(std::string(1000, 'm'), key_hash_names), "", "a very long word");
    tap::is(nearest("md5", {}), "", "of no words");
    tap::is(unknown_word("distribution", "ketema", distribution_names),
            "unknown distribution 'ketema', did you mean 'ketama'? "
            "Allowed: ketama, ketama_weighted, modula, random",
            "a sentence with the nearest");
    tap::is(unknown_word("distribution", "x", distribution_names),
            "unknown distribution 'x'. Allowed: ketama, ketama_weighted, modula, random", "and without");
    return tap::done();
}
