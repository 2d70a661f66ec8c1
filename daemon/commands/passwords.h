// SPDX-License-Identifier: BSD-3-Clause
// Passwords in a file of lines user:password: of the text protocol (-Y), and of the binary one (MEMCACHED_SASL_PWDB).
//
// Owner: the program. Threads: any.
// A1  read() changes nothing. Sessions that have authenticated stay so after a use().
// A2  How long allows() takes depends on the number of entries and on the lengths of the two texts only.
// A3  The number of entries has no limit but the file's size, which file_bytes_max bounds (S10).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "process/log.h"

namespace farcached::daemon {

// The log of failed attempts, with -v, and with a limit.
class FailedLogins {
  public:
    // Of the client at that socket.
    void tell(int fd, std::string_view reason) const noexcept;

  private:
    mutable process::LimitedLines lines_;
};

class Passwords {
  public:
    static constexpr size_t file_bytes_max = 1 << 20;
    static constexpr uint32_t token_bytes_max = 2048;  // "user password", as clients send it

    struct Entry {
        std::string user, password;
    };
    using Entries = std::vector<Entry>;
    // The problem is a sentence with the file's name.
    static Result<Entries> read(const std::string& path);
    void use(Entries entries);
    bool allows(std::string_view user, std::string_view password) const;

    // Reads such a file for one attempt of a binary client; what follows a colon behind the password is ignored there. Its time
    // depends on the file and on the lengths of the two texts only. too_long: over file_bytes_max. Throws std::bad_alloc.
    enum class Found : uint8_t { allowed, refused, unreadable, too_long };
    static Found look_up(const std::string& path, std::string_view user, std::string_view password);

    const FailedLogins failed{};

  private:
    mutable std::mutex lock_;
    Entries entries_;  // under lock_
};

}  // namespace farcached::daemon
