// SPDX-License-Identifier: BSD-3-Clause
// KeysOfOthers: whether another member of the fleet had keys at any time since this node's record has weight 0.
//
// Owner: an EtcdRegistration (M9), in its thread. The client, and its watch, are the registration's.
// O1  Three answers of etcd can say so: the records of that time, which etcd may have forgotten by then; those of now; and a watch
//     of all changes since. The watch alone shows a record that was there between two looks.
// O2  A watch that ended goes on behind the last change that it showed. If etcd has forgotten that one, the watch begins with the
//     oldest change that etcd still has: those between are not known.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "daemon/discovery/etcd_client.h"
#include "daemon/discovery/etcd_messages.h"

namespace farcached::daemon {

class KeysOfOthers {
  public:
    // keys: the prefix of all records. own: the key of this node's. The client outlives this; `ask` asks by it.
    KeysOfOthers(EtcdClient& client, const std::string& keys, const std::string& own, EtcdClient::Ask ask)
        : client_(client), keys_(keys), own_(own), ask_(std::move(ask)) {}
    KeysOfOthers(const KeysOfOthers&) = delete;
    KeysOfOthers& operator=(const KeysOfOthers&) = delete;

    // The record has weight 0 since that revision; 0: it has another one.
    void begin(int64_t since);
    int64_t since() const { return since_; }
    // Looks again unless the answer is known. If etcd does not answer, the next call asks again. Throws std::bad_alloc.
    bool seen();
    // Has etcd answered whether others had keys when the record got weight 0? True without that weight, too.
    bool knows_begin() const { return since_ == 0 || seen_ || knows_begin_; }

  private:
    bool has_keys(const EtcdKey& record) const;
    std::optional<bool> have_keys(int64_t revision);
    bool watched();
    void end_watch();

    EtcdClient& client_;
    const std::string keys_, own_;
    const EtcdClient::Ask ask_;
    int64_t since_ = 0;
    bool seen_ = false;
    bool knows_begin_ = false;  // etcd has answered for since_
    bool watches_ = false;
    int64_t watched_to_ = 0;    // O2
    uint64_t moves_ = 0;        // of the client, when the watch began
};

}  // namespace farcached::daemon
