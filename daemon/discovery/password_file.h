// SPDX-License-Identifier: BSD-3-Clause
// The file of --discover-password-file: its first line is the password of etcd's user.
//
// Owner: none; any thread.
// W1  Passwords in memory are wiped at the end, and never logged.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace farcached::daemon {

// A text that is wiped when it ends.
struct SecretText {
    explicit SecretText(std::string from) : text(std::move(from)) {}
    SecretText(SecretText&& other) noexcept;
    ~SecretText();
    SecretText(const SecretText&) = delete;
    SecretText& operator=(const SecretText&) = delete;

    std::string text;
};

class Password {
  public:
    static constexpr size_t bytes_max = 1024;

    explicit Password(std::string text) : secret_(std::move(text)) {}
    std::string_view text() const { return secret_.text; }

  private:
    SecretText secret_;
};

// A problem names the file: others than its owner may read it, or it has no line of 1 to Password::bytes_max characters.
Result<Password> read_password(const std::string& path);

}  // namespace farcached::daemon
