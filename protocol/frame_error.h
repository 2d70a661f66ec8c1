// SPDX-License-Identifier: BSD-3-Clause
// Errors in the bytes from the other end of a node connection. Each ends that connection and is counted by its name; `none`
// is no error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcached::protocol {

//    name               help
#define FRAME_ERRORS(X)                                                                           \
    X(none, "no error")                                                                           \
    X(frame_too_long, "a frame was longer than agreed")                                           \
    X(kind_unknown, "a frame was of no known kind")                                               \
    X(kind_unexpected, "a frame's kind was not for this sender, or not for this moment")          \
    X(count_wrong, "a frame promised no entries, or entries where its kind has none")             \
    X(body_short, "a frame's body was too short for its kind and its count")                      \
    X(body_excess, "a frame had bytes behind its last entry")                                     \
    X(reserved_set, "a reserved field was not zero")                                              \
    X(entry_truncated, "a request or a reply ran over the end of its frame")                      \
    X(op_unknown, "a request or a reply was of no known operation")                               \
    X(mode_unknown, "a store was of no known mode")                                               \
    X(flag_unknown, "a flag was set that its operation does not have")                            \
    X(key_length, "a key was empty, too long, or where none belongs")                             \
    X(value_unexpected, "a value was where none belongs, or none followed where one was said to") \
    X(value_too_long, "a value was longer than agreed")                                           \
    X(value_mismatch, "a value was not as long as its item")                                      \
    X(cas_missing, "a cas had no number to compare with")                                         \
    X(status_unknown, "a reply had no known status")                                              \
    X(meta_invalid, "a reply described an item that cannot be")                                   \
    X(grant_invalid, "a reply granted a pointer or a lease that cannot be")                       \
    X(clock_invalid, "a node's clock told a fraction of a second or more")                        \
    X(entry_invalid, "a returned lease or an access was of no possible item")                     \
    X(chunk_order, "a piece of a value did not begin where the last one ended")                   \
    X(chunk_overrun, "the pieces of a value were longer than the value")                          \
    X(chunk_empty, "a piece of a value was empty, or an abandoned value had one more")            \
    X(chunk_stranger, "a piece came of a value that was not announced")                           \
    X(lent_mismatch, "a value that the proxy lent was not the one that it had announced")         \
    X(reply_stranger, "a reply came to what was not asked")                                       \
    X(report_invalid, "a report was answered with more records, more time or a longer lease than can be")       \
    X(written_mismatch, "what was written into a container was not one whole report, or one answer")               \
    X(request_repeated, "a request had the sequence, or sequence and tag, of one in flight")      \
    X(credits_exceeded, "more request frames were in flight than agreed")                     \
    X(magic_wrong, "the other end is not farcached's")                                            \
    X(name_invalid, "a name was empty, too long, or not printable")                               \
    X(text_invalid, "a sentence was too long, or not printable")                                  \
    X(version_wrong, "the node chose a protocol version that was not offered")                    \
    X(facts_invalid, "the handshake had a fact that cannot be")

enum class FrameError : uint8_t {
#define X(name, help) name,
    FRAME_ERRORS(X)
#undef X
        count
};

constexpr std::string_view frame_error_name(FrameError error) {
    constexpr std::string_view names[] = {
#define X(name, help) #name,
        FRAME_ERRORS(X)
#undef X
    };
    return names[size_t(error)];
}

constexpr std::string_view frame_error_help(FrameError error) {
    constexpr std::string_view helps[] = {
#define X(name, help) help,
        FRAME_ERRORS(X)
#undef X
    };
    return helps[size_t(error)];
}

}  // namespace farcached::protocol
