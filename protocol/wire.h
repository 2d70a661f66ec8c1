// SPDX-License-Identifier: BSD-3-Clause
// wire: numbers and records in unaligned byte strings. Little-endian, as memory is. Pure.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "base/out_buffer.h"

namespace farcached::protocol::wire {

static_assert(std::endian::native == std::endian::little, "records are sent as they lie in memory");

// Writes `value` at `to`; returns the end.
template <class T>
inline char* put(char* to, const T& value) {
    static_assert(std::has_unique_object_representations_v<T>, "no padding may leave the process");
    std::memcpy(to, &value, sizeof value);
    return to + sizeof value;
}

inline char* put_bytes(char* to, std::string_view bytes) {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    return to + bytes.size();
}

template <class Record>
void append(OutBuffer& out, const Record& record) {
    put(out.reserve(sizeof record), record);
    out.commit(sizeof record);
}

// Reads one record at `from`, which must hold it.
template <class T>
inline T get(const char* from) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// Takes records from the front of a byte string; checks every step.
class Cursor {
  public:
    explicit Cursor(std::string_view bytes) : rest_(bytes) {}

    size_t left() const { return rest_.size(); }

    // False, with no byte taken, if too few bytes are left.
    template <class T>
    bool take(T& value) {
        if (rest_.size() < sizeof value) return false;
        value = get<T>(rest_.data());
        rest_.remove_prefix(sizeof value);
        return true;
    }
    bool take_bytes(size_t size, std::string_view& bytes) {
        if (rest_.size() < size) return false;
        bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return true;
    }

  private:
    std::string_view rest_;
};

}  // namespace farcached::protocol::wire
