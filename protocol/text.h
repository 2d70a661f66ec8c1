// SPDX-License-Identifier: BSD-3-Clause
// The text protocol, classic and meta: from bytes to requests. Pure: no clock, no state between calls, and only the
// protocol's own limits.
//
// parse_text() gets every byte received and not yet consumed. It parses one line only; parse_value() splits off a value
// that follows the line, so that a caller may refuse its size before it arrives.
//
// P1  The same bytes give the same requests however they arrive. One exception, as in memcached: a line other than get
//     and gets that is unfinished after text_line_bytes_max bytes closes the connection.
// P2  Only the line at the front is read twice, and its length is bounded. Longer get lines are returned as Status::keys,
//     for KeyCursor to read in pieces.
// P3  The views of a request point into the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/function_ref.h"

namespace farcached::protocol {

enum class TextVerb : uint8_t {
    get, gets, gat, gats,                     // args: the keys; gat: exptime
    set, add, replace, append, prepend, cas,  // key, flags, exptime, value_bytes; cas: number
    del, incr, decr, touch,                   // key; incr, decr: number; touch: exptime
    mg, ms, md, ma, me,                       // key, args: the flags; ms: value_bytes
    mn, version, quit,                        // none
    verbosity,                                // number
    flush_all,                                // args: the delay, or empty
    stats, watch, shutdown,                   // args: the words after the verb
    dump,                                     // args: the classes; lru_crawler metadump, mgdump
    drain, undrain, reload,                   // these and the next: the operator's; args: the words after the verb
    delete_prefix, count_prefix, sample_keys,
    config,                                   // args: the words after the verb
    tune,                                     // line: cache_memlimit, slabs, lru, lru_crawler...
};

// Does a value follow the line?
constexpr bool text_takes_value(TextVerb verb) {
    return (verb >= TextVerb::set && verb <= TextVerb::cas) || verb == TextVerb::ms;
}

struct TextRequest {
    TextRequest() {}  // not constexpr: else g++ clears it by `rep stos`, a third of a parse

    TextVerb verb = TextVerb::get;
    bool noreply = false;
    bool mgdump = false;          // dump
    uint32_t value_bytes = 0;     // without its CRLF
    uint32_t flags = 0;
    int64_t exptime = 0;          // as to_node_seconds() takes it
    uint64_t number = 0;          // cas unique, delta, level
    std::string_view key;
    std::string_view args;        // no spaces at either end; get family: the keys and the line's end
    std::string_view line;        // without its end
};

struct TextParse {
    TextParse() {}  // as TextRequest's

    enum class Status : uint8_t {
        need_more,
        request,
        // a get line too long to wait for: verb is get or gets, args the part of its keys received so far
        keys,
        error,  // send `error` (unless empty), then discard `swallow` bytes
        close,
    } status = Status::need_more;
    size_t line_bytes = 0;        // request, error: the line with its end; keys: the verb
    uint64_t swallow = 0;         // error: bytes of a value that follows the line
    std::string_view error;       // without CRLF; empty: noreply
    TextRequest request;
};

TextParse parse_text(std::string_view input);
// Visits the name of each command.
void each_text_command(FunctionRef<void(std::string_view)> visit);

// If the input begins with a whole get of one key: the number of its bytes, and the key. Else 0: call parse_text().
size_t take_plain_get(std::string_view input, std::string_view& key);

// The value after a storage line.
struct ValueParse {
    enum class Status : uint8_t { need_more, good, bad_chunk } status = Status::need_more;
    size_t total_bytes = 0;       // line and value with its CRLF: the bytes needed, or to consume
    std::string_view value;
};
ValueParse parse_value(std::string_view input, size_t line_bytes, uint32_t value_bytes);

constexpr std::string_view bad_format = "CLIENT_ERROR bad command line format";
// ma has this one error for any fault in its key or flags.
constexpr std::string_view bad_ma_flags = "CLIENT_ERROR invalid or duplicate flag";

}  // namespace farcached::protocol
