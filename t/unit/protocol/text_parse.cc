// SPDX-License-Identifier: BSD-3-Clause
// The text parser by itself: numbers, base64, keys, one line of every form.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/node_clock.h"
#include "protocol/meta.h"
#include "protocol/text.h"
#include "protocol/text_keys.h"
#include "t/lib/tap.h"

using namespace farcached;
using namespace farcached::protocol;
using Status = TextParse::Status;

namespace {

void test_numbers() {
    uint64_t n = 7;
    tap::ok(parse_digits("0", 10, n) && n == 0, "exact: 0");
    tap::ok(parse_digits("18446744073709551615", UINT64_MAX, n) && n == UINT64_MAX,
            "exact: 2^64-1");
    tap::ok(!parse_digits("18446744073709551616", UINT64_MAX, n), "exact: 2^64");
    tap::ok(!parse_digits("", 10, n), "exact: nothing");
    tap::ok(!parse_digits("+1", 10, n), "exact: a plus");
    tap::ok(!parse_digits("1x", 10, n), "exact: a letter");
    tap::ok(!parse_digits("11", 10, n), "exact: above the maximum");
    int64_t i = 0;
    tap::ok(parse_int32("-2147483648", i) && i == INT32_MIN, "int32: the least");
    tap::ok(parse_int32("2147483647", i) && i == INT32_MAX, "int32: the greatest");
    tap::ok(!parse_int32("2147483648", i), "int32: too great");
    tap::ok(parse_int32("-", i) && i == 0, "int32: a sign alone is 0");
    tap::ok(!parse_int32("", i), "int32: nothing");
    tap::ok(!parse_int32("000000000000", i), "int32: twelve characters");
    for (const char* bad : {"+12", "\t12", "12\t", "12x", "-1", "", "18446744073709551616", "00000000000000000000012"})
        tap::ok(!parse_u64(bad, n), "u64, no number: " + tap::show(bad));
    tap::ok(parse_u64("18446744073709551615", n) && n == UINT64_MAX, "u64: 2^64-1");
    uint32_t flags = 0;
    tap::ok(parse_flags("4294967295", flags) && flags == UINT32_MAX, "flags: 2^32-1");
    tap::ok(parse_flags("4294967296", flags) && flags == 0, "flags: 2^32 is 0");
    tap::ok(!parse_flags("-1", flags), "flags: below zero");
    tap::ok(!parse_flags("-9223372036854775808", flags), "flags: 2^63 below zero");
    tap::ok(parse_flags("-0", flags) && flags == 0, "flags: -0 is 0");
    tap::ok(parse_flags("-18446744073709551615", flags) && flags == 1, "flags: modulo 2^64");
    tap::ok(parse_flags(std::string_view("7\0001", 3), flags) && flags == 7, "flags: a NUL ends them");
    uint32_t length = 1;
    tap::ok(parse_length("-0", length) && length == 0, "length: -0 is 0");
    tap::ok(parse_length("2147483645", length) && length == 2147483645, "length: the greatest");
    for (const char* bad : {"2147483646", "-1", "", "+1", "000000000001"})
        tap::ok(!parse_length(bad, length), "no length: " + tap::show(bad));
    tap::ok(parse_flags("\t+12\r", flags) && flags == 12, "flags: blanks around, a plus");
    tap::ok(parse_u32("4294967295", flags) && flags == UINT32_MAX, "u32: 2^32-1");
    for (const char* bad : {"4294967296", "+1", "\t1", "-1", "", "000000000001"})
        tap::ok(!parse_u32(bad, flags), "u32, no number: " + tap::show(bad));
    tap::ok(parse_storage_exptime("2592000", i) && i == 2592000, "exptime: 30 days");
    tap::ok(parse_storage_exptime("-5", i) && i == -1, "exptime: below zero has expired");
    tap::ok(parse_storage_exptime("2147483648", i) && i == -1, "exptime: 2^31 has expired");
    tap::ok(parse_storage_exptime("4294967296", i) && i == 0, "exptime: 2^32 is 0");
    tap::ok(parse_storage_exptime("4294967306", i) && i == 10, "exptime: the lower 32 bits");
    tap::ok(parse_storage_exptime("9223372036854775807", i) && i == -1, "exptime: 2^63-1 has expired");
    tap::ok(parse_storage_exptime("-4294967286", i) && i == 10, "exptime: and of one below zero");
    tap::ok(parse_storage_exptime("-0", i) && i == 0, "exptime: -0 is 0");
    tap::ok(!parse_storage_exptime("99999999999999999999", i), "exptime: no number of 64 bits");
    tap::ok(!parse_storage_exptime("soon", i), "exptime: a word");
}

// 32 bits of the node's clock count from its start, so absolute times after 2038 are unchanged.
void test_times_after_2038() {
    constexpr int64_t started = INT64_C(2147483648) + 1000;  // February 2038
    tap::is(to_node_seconds(started + 5000, 10, started), NodeSeconds(5000), "an absolute time after 2038");
    tap::is(to_node_seconds(INT64_C(4294967295), 10, started), NodeSeconds(4294967295 - started), "the greatest binary one");
    tap::is(to_node_seconds(INT32_MAX, 10, started), long_expired, "one before the start has passed");
    tap::is(to_node_seconds(60, 10, started), NodeSeconds(70), "a relative one");
}

void test_base64() {
    struct Pair {
        std::string_view plain, encoded;
    };
    for (const Pair& p :
         {Pair{"f", "Zg=="}, Pair{"fo", "Zm8="}, Pair{"foo", "Zm9v"}, Pair{"foob", "Zm9vYg=="},
          Pair{std::string_view("\0\xff\xfe", 3), "AP/+"}}) {
        char encoded[64];
        char* end = base64_encode(p.plain, encoded);
        tap::is(std::string_view(encoded, size_t(end - encoded)), p.encoded, "base64 encodes");
        char plain[64];
        size_t size = base64_decode(p.encoded, plain);
        tap::is(std::string_view(plain, size), p.plain, "base64 decodes");
    }
    char plain[64];
    for (std::string_view bad :
         {"", "Z", "Zm9", "Zm9!", "Z===", "Zg==Zg==", "=Zg=", "Zm9v\xff\xff=="})
        tap::is(base64_decode(bad, plain), 0u, "not base64: " + tap::show(bad));
    bool all = true;
    for (size_t size = 1; size <= 187; size++) {
        std::string bytes;
        for (size_t i = 0; i < size; i++) bytes += char(i * 37 + size);
        char encoded[256], back[256];
        size_t length = size_t(base64_encode(bytes, encoded) - encoded);
        all &= length == base64_encoded_bytes(size);
        all &= base64_decode(std::string_view(encoded, length), back) == size;
        all &= std::string_view(back, size) == bytes;
    }
    tap::ok(all, "base64 there and back, every length that a key can have");
}

struct Line {
    std::string_view line;
    Status status;
    std::string_view error;
    uint64_t swallow;
};

const std::string key250(250, 'k'), key251(251, 'k');

void test_refused(std::span<const Line> lines) {
    for (const Line& l : lines) {
        TextParse p = parse_text(l.line);
        bool good = p.status == l.status && p.error == l.error && p.swallow == l.swallow &&
                    (p.status == Status::close || p.line_bytes == l.line.size());
        tap::ok(good, "refused: " + tap::show(l.line.substr(0, 40)));
    }
}

void test_refusals() {
    constexpr std::string_view format = bad_format;
    const std::string long_get = "get " + key251 + "\r\n";
    const std::string long_gat = "gat 0 a " + key251 + " b\r\n";
    const std::string long_set = "set " + key251 + " 0 0 5\r\n";
    const std::string long_quiet = "set " + key251 + " 0 0 5 noreply\r\n";
    const std::string long_delete = "delete " + key251 + "\r\n";
    const Line lines[] = {
        {"\r\n", Status::error, format, 0},
        {"\n", Status::error, format, 0},
        {" \r\n", Status::error, format, 0},
        {"x\r\n", Status::error, format, 0},
        {"mn\n", Status::error, format, 0},
        {"xy\r\n", Status::error, "ERROR", 0},
        {"bogus\r\n", Status::error, "ERROR", 0},
        {"bogus noreply\r\n", Status::error, "", 0},
        {"GET a\r\n", Status::error, "ERROR", 0},
        {"get\ta\r\n", Status::error, "ERROR", 0},
        {" get a\r\n", Status::error, "ERROR", 0},
        {"flush\r\n", Status::error, "ERROR", 0},
        {"mz a\r\n", Status::error, "ERROR", 0},
        {"get\r\n", Status::error, format, 0},
        {"get \r\n", Status::error, format, 0},
        {"gets   \r\n", Status::error, format, 0},
        {"gat 0\r\n", Status::error, format, 0},
        {"gat foo bar\r\n", Status::error, "CLIENT_ERROR invalid exptime argument", 0},
        {"gats 99999999999 bar\r\n", Status::error, "CLIENT_ERROR invalid exptime argument", 0},
        {long_get, Status::error, format, 0},
        {long_gat, Status::error, format, 0},
        {"set a 0 0\r\n", Status::error, format, 0},
        {"set a 0 0 noreply\r\n", Status::error, format, 0},
        {"set a 0 0 -1\r\n", Status::error, format, 0},
        {"set a 0 0 2147483647\r\n", Status::error, format, 0},
        {"set a 0 0 x\r\n", Status::error, format, 0},
        {"set a x 0 5\r\n", Status::error, format, 7},
        {"set a -1 0 5\r\n", Status::error, format, 7},
        {"set a 0 x 5\r\n", Status::error, format, 7},
        {"set a 0 x 5 noreply\r\n", Status::error, "", 7},
        {long_set, Status::error, format, 7},
        {long_quiet, Status::error, "", 7},
        {"cas a 0 0 5\r\n", Status::error, format, 7},
        {"cas a 0 0 5 x\r\n", Status::error, format, 7},
        {"cas a 0 0 5 noreply\r\n", Status::error, "", 7},
        {"delete\r\n", Status::error, format, 0},
        {long_delete, Status::error, format, 0},
        {"incr a\r\n", Status::error, format, 0},
        {"incr a x\r\n", Status::error, "CLIENT_ERROR invalid numeric delta argument", 0},
        {"decr a -1\r\n", Status::error, "CLIENT_ERROR invalid numeric delta argument", 0},
        {"incr a 18446744073709551616\r\n", Status::error,
         "CLIENT_ERROR invalid numeric delta argument", 0},
        {"incr a x noreply\r\n", Status::error, "", 0},
        {"touch a\r\n", Status::error, format, 0},
        {"touch a x\r\n", Status::error, "CLIENT_ERROR invalid exptime argument", 0},
    };
    test_refused(lines);
}

void test_other_refusals() {
    constexpr std::string_view format = bad_format;
    const std::string long_ms = "ms " + key251 + " 3\r\n";
    const Line others[] = {
        {"verbosity\r\n", Status::error, format, 0},
        {"verbosity x\r\n", Status::error, format, 0},
        {"mg\r\n", Status::error, format, 0},
        {"mg a !\r\n", Status::error, format, 0},
        {"mg a v {\r\n", Status::error, format, 0},
        {"ms a\r\n", Status::error, format, 0},
        {"ms a x\r\n", Status::error, format, 0},
        {"ms a S2\r\n", Status::error, format, 0},
        {"ms a 2 !\r\n", Status::error, format, 0},
        {long_ms, Status::error, format, 5},
        {"GET / HTTP/1.1\r\n", Status::close, "", 0},
        {"POST / HTTP/1.0\r\n", Status::close, "", 0},
        {"HTTP/1.1\r\n", Status::error, "ERROR", 0},
    };
    test_refused(others);
}

void test_storage() {
    TextParse p = parse_text("set key 5 60 3\r\nabc\r\n");
    tap::ok(p.status == Status::request && p.request.verb == TextVerb::set, "set");
    tap::is(p.line_bytes, 16u, "set: the line");
    tap::is(p.request.key, "key", "set: key");
    tap::ok(p.request.flags == 5 && p.request.exptime == 60 && p.request.value_bytes == 3,
            "set: flags, exptime, length");
    tap::ok(!p.request.noreply, "set: a reply is wanted");
    p = parse_text("set key 5 60 3 noreply \n");
    tap::ok(p.status == Status::request && p.request.noreply, "set: noreply, LF only, spaces");
    p = parse_text("set  key  5  60  3  4 5 6\r\n");
    tap::ok(p.status == Status::request && p.request.value_bytes == 3,
            "set: more words are ignored");
    p = parse_text("cas key 1 2 3 18446744073709551615 noreply\r\n");
    tap::ok(p.status == Status::request && p.request.number == UINT64_MAX && p.request.noreply,
            "cas: the unique");
    for (auto [line, verb] : {std::pair{"add k 0 0 1\r\n", TextVerb::add},
                              std::pair{"replace k 0 0 1\r\n", TextVerb::replace},
                              std::pair{"append k 0 0 1\r\n", TextVerb::append},
                              std::pair{"prepend k 0 0 1\r\n", TextVerb::prepend}}) {
        p = parse_text(line);
        tap::ok(p.status == Status::request && p.request.verb == verb, line);
    }
    p = parse_text("set " + key250 + " 0 0 2147483645\r\n");
    tap::ok(p.status == Status::request, "set: the longest key, the longest length");
    std::string_view said = "set k 0 0 2\r\nab\r\n";
    size_t need = 0;
    for (size_t size = 0; size < said.size(); size++)
        need += parse_value(said.substr(0, size), 13, 2).status == ValueParse::Status::need_more;
    tap::is(need, said.size(), "a value is waited for");
    ValueParse v = parse_value(said, 13, 2);
    tap::ok(v.status == ValueParse::Status::good && v.value == "ab" && v.total_bytes == 17,
            "a value");
    v = parse_value("set k 0 0 2\r\nabcd", 13, 2);
    tap::ok(v.status == ValueParse::Status::bad_chunk && v.total_bytes == 17, "a bad chunk");
}

void test_other_lines() {
    TextParse p = parse_text("delete k 0 noreply\r\n");
    tap::ok(p.status == Status::request && p.request.key == "k" && p.request.noreply, "delete");
    p = parse_text("incr k 18446744073709551615\r\n");
    tap::ok(p.status == Status::request && p.request.number == UINT64_MAX, "incr");
    p = parse_text("touch k -1 noreply\r\n");
    tap::ok(p.status == Status::request && p.request.exptime == -1 && p.request.noreply, "touch");
    p = parse_text("gat 10 a b\r\n");
    tap::ok(p.status == Status::request && p.request.exptime == 10 && p.request.args == "a b\r\n",
            "gat");
    p = parse_text("stats  items \r\n");
    tap::ok(p.status == Status::request && p.request.args == "items", "stats items");
    p = parse_text("lru_crawler mgdump 1,2\r\n");
    tap::ok(p.request.verb == TextVerb::dump && p.request.mgdump && p.request.args == "1,2",
            "mgdump");
    p = parse_text("lru_crawler crawl 1\r\n");
    tap::ok(p.request.verb == TextVerb::tune && p.request.line == "lru_crawler crawl 1", "crawl");
    p = parse_text("cache_memlimit 64 noreply\r\n");
    tap::ok(p.request.verb == TextVerb::tune && p.request.noreply, "cache_memlimit");
    p = parse_text("mn anything !\r\n");
    tap::ok(p.status == Status::request && p.request.verb == TextVerb::mn, "mn minds no words");
    p = parse_text("ms k 2 T0  F5 \r\nab\r\n");
    tap::ok(p.status == Status::request && p.request.args == "T0  F5", "ms");
    p = parse_text("config  get cluster \r\n");
    tap::ok(p.status == Status::request && p.request.verb == TextVerb::config && p.request.args == "get cluster", "config");
    p = parse_text("config\r\n");
    tap::ok(p.status == Status::request && p.request.args.empty() && !p.request.noreply, "config alone");
    p = parse_text("config get cluster noreply\r\n");
    tap::ok(p.status == Status::request && p.request.noreply, "config with noreply, as every unknown command");
    tap::ok(parse_text("config / HTTP/1.1\r\n").status == Status::close, "config of a web browser");
    tap::ok(parse_text("").status == Status::need_more, "nothing yet");
}

void test_long_lines() {
    std::string keys;
    while (keys.size() < 3000) keys += " some_key";
    tap::ok(parse_text("get" + keys).status == Status::keys, "a long get begins before it ends");
    tap::ok(parse_text("get" + keys + "\r\n").status == Status::keys, "and when it has ended");
    TextParse p = parse_text("gets" + keys);
    tap::ok(p.status == Status::keys && p.request.verb == TextVerb::gets, "so does gets");
    tap::ok(parse_text("gat 0" + keys).status == Status::close, "a long gat without end closes");
    tap::ok(parse_text("gat 0" + keys + "\r\n").status == Status::request,
            "a long gat with an end");
    tap::ok(parse_text(std::string(2049, 'x')).status == Status::close, "a line that never ends");
    tap::ok(parse_text(std::string(2048, 'x')).status == Status::need_more,
            "is waited for at first");
}

std::string keys_of(KeyCursor& cursor, KeyCursor::Step& step) {
    std::string all;
    std::string_view key;
    while ((step = cursor.next(key)) == KeyCursor::Step::key) all += std::string(key) + "|";
    return all;
}

void test_keys() {
    const std::string lines[] = {"a\r\n",
                                 "a\n",
                                 "a b\r\n",
                                 " a  bb   ccc  \r\n",
                                 "\r\n",
                                 "  \n",
                                 "a\rb c\r\r\n",
                                 key250 + "\r\n",
                                 key250 + "\n",
                                 key250 + " x\r\n",
                                 key250 + " " + key250 + "\r\n",
                                 key251 + "\r\n",
                                 "a " + key251 + " b\r\n",
                                 "a " + key250 + "\r b\r\n",
                                 std::string(400, 'x')};
    for (const std::string& line : lines) {
        KeyCursor::Step step;
        KeyCursor whole(line);
        const std::string want = keys_of(whole, step);
        size_t wrong = 0;
        for (size_t cut = 0; cut <= line.size(); cut++) {
            KeyCursor::Step first_step, second_step;
            KeyCursor first(std::string_view(line).substr(0, cut));
            std::string got = keys_of(first, first_step);
            if (first_step == KeyCursor::Step::need_more) {
                KeyCursor second(std::string_view(line).substr(first.consumed()));
                got += keys_of(second, second_step);
            } else {
                second_step = first_step;
            }
            wrong += got != want || second_step != step;
        }
        tap::is(wrong, 0u, "keys, cut anywhere: " + tap::show(line.substr(0, 30)));
    }
}

void test_plain_gets() {
    std::string_view key;
    tap::ok(take_plain_get("get abc\r\nget d", key) == 9 && key == "abc", "a plain get");
    tap::ok(take_plain_get("get abc\n", key) == 8 && key == "abc", "a plain get, LF only");
    tap::ok(take_plain_get("get " + key250 + "\r\n", key) == 256 && key == key250,
            "a plain get of 250");
    const std::string too_long = "get " + key251 + "\r\n";
    for (std::string_view other : {std::string_view("get abc"), std::string_view("get a b\r\n"),
                                   std::string_view("get  a\r\n"), std::string_view("get \r\n"),
                                   std::string_view("get a \r\n"), std::string_view("gets a\r\n"),
                                   std::string_view("ge"), std::string_view(too_long)})
        tap::is(take_plain_get(other, key), 0u, "no plain get: " + tap::show(other.substr(0, 20)));
}

void test_likely_keys() {
    const std::string packet =
        std::string("\x80\x01\0\3\x08\0\0\0\0\0\0\x0c", 12) + std::string(12 + 8, 'x') + "abcv";
    const std::string_view cut = std::string_view(packet).substr(0, packet.size() - 1);
    for (std::string_view input : {std::string_view("get abc\r\nget d"), std::string_view("get abc\n"),
                                   std::string_view("gets abc d\r\n"), std::string_view("mg abc v\r\n"),
                                   std::string_view("set abc 0 0 1\r\n"), std::string_view(packet), cut})
        tap::is(likely_key(input), std::string_view("abc"), "the key of " + tap::show(input.substr(0, 20)));
    tap::is(likely_key("get " + key250 + "\r\n"), std::string_view(key250), "a key of 250");
    size_t found = 0;
    for (size_t n = 0; n < cut.size(); n++) found += !likely_key(cut.substr(0, n)).empty();
    const std::string too_long = "get " + key251 + "\r\n";
    for (std::string_view input : {std::string_view("get abc"), std::string_view("get \r\n"), std::string_view("mn\r\n"),
                                   std::string_view("flush_all 0\r\n"), std::string_view(too_long)})
        found += !likely_key(input).empty();
    tap::is(found, 0u, "and none where none is seen");
}

void test_meta_flags() {
    auto error_of = [](TextVerb verb, std::string_view words, std::string_view key = "Zm9v") {
        char decoded[limits::key_bytes_max];
        return std::string(parse_meta_flags(verb, words, key, decoded).error);
    };
    tap::is(error_of(TextVerb::mg, "b c f h k l O1 q s t u v E1 N1 R1 T1 P L"), "",
            "mg: every flag");
    tap::is(error_of(TextVerb::ms, "b c C1 E1 F1 I k O1 q s T1 MA N1 P L"), "", "ms: every flag");
    tap::is(error_of(TextVerb::md, "b C1 E1 I k O1 q T1 x P L"), "", "md: every flag");
    tap::is(error_of(TextVerb::ma, "b C1 E1 N1 J1 D1 T1 M+ O1 q t c v k P L"), "",
            "ma: every flag");
    tap::is(error_of(TextVerb::mg, "v v"), "CLIENT_ERROR duplicate flag", "a flag twice");
    tap::is(error_of(TextVerb::mg, "v S1"), "CLIENT_ERROR invalid flag", "an unknown flag");
    tap::is(error_of(TextVerb::mg, "1"), "CLIENT_ERROR invalid flag", "a digit");
    tap::is(error_of(TextVerb::mg, "W"), "CLIENT_ERROR invalid flag", "a flag of replies");
    tap::is(error_of(TextVerb::ma, "v v"), "CLIENT_ERROR invalid or duplicate flag",
            "ma: any of it");
    for (std::string_view word : {"N", "Nx", "Tx", "Rx", "Cx", "Ex", "C-1"})
        tap::is(error_of(TextVerb::ms, word), "CLIENT_ERROR bad token in command line format",
                "a bad token: " + std::string(word));
    tap::is(error_of(TextVerb::ms, "Fx"), std::string(bad_format), "a bad F");
    tap::is(error_of(TextVerb::ms, "MX"), "CLIENT_ERROR invalid mode for ms M token", "ms: mode");
    tap::is(error_of(TextVerb::ms, "M"), "CLIENT_ERROR invalid mode for ms M token", "ms: no mode");
    tap::is(error_of(TextVerb::ma, "MX"), "CLIENT_ERROR invalid mode for ma M token", "ma: mode");
    tap::is(error_of(TextVerb::mg, "b", "Zm9"), "CLIENT_ERROR error decoding key", "not base64");
    tap::is(error_of(TextVerb::mg, "O" + std::string(31, 'x')), "", "opaque of 31");
    tap::is(error_of(TextVerb::mg, "O" + std::string(32, 'x')),
            "CLIENT_ERROR opaque token too long", "opaque of 32");
    const std::string many = "a b c d e f g h i j k l m n o p q r";
    tap::is(error_of(TextVerb::mg, many + " s"), "CLIENT_ERROR options flags are too long",
            "19 flags");
    tap::ok(error_of(TextVerb::mg, many) != "CLIENT_ERROR options flags are too long", "18 flags");
    tap::is(error_of(TextVerb::ms, many), "CLIENT_ERROR options flags are too long",
            "ms: 18 flags");
}

}  // namespace

int main() {
    test_numbers();
    test_times_after_2038();
    test_base64();
    test_refusals();
    test_other_refusals();
    test_storage();
    test_other_lines();
    test_long_lines();
    test_keys();
    test_plain_gets();
    test_likely_keys();
    test_meta_flags();
    return tap::done();
}
