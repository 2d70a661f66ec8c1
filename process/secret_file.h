// SPDX-License-Identifier: BSD-3-Clause
// SecretFile: the text of a file of keys or tokens, which others may not access. It is wiped at the end.
// Owner: the caller; one thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace farcached::process {

constexpr const char* secret_file_exposed =
    "group or others may access it; only its owner may (chmod 600), or the group of a file of root (640)";

class SecretFile {
  public:
    enum class Status : uint8_t {
        whole,       // text() has it
        unreadable,  // errno has the reason
        irregular,   // no regular file
        exposed,     // others may access it
        too_long,
    };

    // exposing: bits of the mode that make a file `exposed`. Only root decides who is in the group of a file of root, so that group
    // may read it: a service's own group, or that of a Secret of Kubernetes.
    SecretFile(const char* path, size_t bytes_max, mode_t exposing);
    ~SecretFile();
    SecretFile(const SecretFile&) = delete;
    SecretFile& operator=(const SecretFile&) = delete;

    Status status() const { return status_; }
    std::string_view text() const { return {bytes_.data(), size_}; }

  private:
    Status read_from(int fd, mode_t exposing);

    std::vector<char> bytes_;  // one more than the longest text
    size_t size_ = 0;
    Status status_ = Status::unreadable;
};

}  // namespace farcached::process
