// SPDX-License-Identifier: BSD-3-Clause
// Secrets: base64 with the vectors of RFC 4648 and other texts, and the comparison.
#include "base/secret.h"

#include <string>
#include <string_view>

#include "t/lib/tap.h"

using namespace farcached;

namespace {

std::string decoded(std::string_view text) {
    std::string bytes;
    return decode_base64(text, [&bytes](unsigned char byte) { bytes += char(byte); }) ? bytes : "(refused)";
}

void test_base64() {
    constexpr std::string_view pairs[][2] = {{"", ""}, {"Zg==", "f"}, {"Zm8=", "fo"}, {"Zm9v", "foo"}, {"Zm9vYg==", "foob"},
                                             {"Zm9vYmE=", "fooba"}, {"Zm9vYmFy", "foobar"}, {"Zg", "f"}, {"Zm9vYmE", "fooba"},
                                             {"+/+/", "\xfb\xff\xbf"}, {"-_-_", "\xfb\xff\xbf"}};
    for (const auto& pair : pairs) tap::is(decoded(pair[0]), std::string(pair[1]), "base64: " + std::string(pair[0]));
    for (const std::string_view bad : {"Z", "Zm9vY", "Zg===", "Z g=", "Zg=v", "Zm9v\n", "Zm9v*", "Zg=", "Zm9v=",
                                       "Zm9v==", "Zm9v====", "=", "==", "====", "Z===", "Zh==", "Zh", "Zm9=", "Zm8=Zg==", "+/-_",
                                       "-/+/"})
        tap::is(decoded(bad), "(refused)", "no base64: " + std::string(bad));
}

void test_same() {
    tap::ok(same_secret("", "") && same_secret("abc", "abc"), "the same");
    tap::ok(!same_secret("abc", "ab") && !same_secret("", "a"), "other sizes");
    const std::string bytes(300, 'x');
    size_t wrong = 0;
    for (size_t i = 0; i < bytes.size(); i++) {
        std::string other = bytes;
        other[i] ^= '\x80';
        if (same_secret(bytes, other)) wrong++;
    }
    tap::is(wrong, 0u, "a different byte at any place");
}

}  // namespace

int main() {
    test_base64();
    test_same();
    return tap::done();
}
