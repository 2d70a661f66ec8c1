// SPDX-License-Identifier: BSD-3-Clause
// JsonFields: the values of a JSON text by their paths: "result.events.0.kv.key". nlohmann's parser calls it for each value. Its
// arrays and objects are not used: their destructors allocate, and terminate the process without memory.
//
// Owner: one thread; a value type.
// F1  Any bytes are allowed. Text that is not JSON, is nested more than depth_max deep, has more than values_max values or a
//     longer path, gives nothing. Of two values with one path the last one counts.
// F2  It takes memory in proportion to the text. Only std::bad_alloc is thrown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace farcached::daemon {

class JsonFields {
  public:
    static constexpr size_t depth_max = 8, values_max = 50'000, path_bytes_max = 256;

    static std::optional<JsonFields> parse(std::string_view text);

    // Is there a value, an array or an object?
    bool has(std::string_view path) const { return values_.contains(path); }
    // nullptr: no text there.
    const std::string* text(std::string_view path) const;
    // A whole number, also one in quotes: JSON of protocol buffers writes 64 bits so.
    std::optional<int64_t> whole(std::string_view path) const;
    std::optional<bool> boolean(std::string_view path) const;
    // The number of elements of an array; 0: none there.
    size_t count(std::string_view path) const;

  private:
    friend class JsonReader;
    enum class Kind : uint8_t { null, boolean, number, text, array, object };
    struct Value {
        Kind kind = Kind::null;
        std::string text;    // a number's as written by us
        size_t elements = 0;
    };
    const Value* find(std::string_view path, Kind kind) const;

    std::map<std::string, Value, std::less<>> values_;
};

}  // namespace farcached::daemon
