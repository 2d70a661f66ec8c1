// SPDX-License-Identifier: BSD-3-Clause
// ProxyBook: the proxies that are connected to a node, by process, and the epochs of their lists of nodes (ListEpoch), for the
// statistics.
//
// Owner: the ServiceShared of all connections, which its entries refer to. Any thread; one lock, which no request takes.
// B1  A connection is in the book from its welcome to its end. A proxy that has not greeted, or not proved its key, is not.
// B2  It has at most proxies_max processes. Connections of others are counted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "base/node_clock.h"
#include "base/stat_row.h"
#include "protocol/handshake.h"

namespace farcached::node {

// A process; its name is NAME@HOST:PID.
struct ProxyShown {
    uint64_t connections = 0, epoch_lowest = 0, epoch_highest = 0, connected_s = 0;
};
inline constexpr StatRow<uint64_t ProxyShown::*> proxy_rows[] = {
    {"connections", "its connections to the node", &ProxyShown::connections, StatKind::gauge},
    {"epoch_lowest", "lowest epoch that one of them named with its last request: a revision of etcd; 0: none named one",
     &ProxyShown::epoch_lowest, StatKind::gauge},
    {"epoch_highest", "highest epoch of them", &ProxyShown::epoch_highest, StatKind::gauge},
    {"connected_s", "seconds since it has been connected without a gap", &ProxyShown::connected_s, StatKind::gauge},
};
constexpr std::string_view proxies_left_out_name = "proxies_left_out";
constexpr std::string_view proxies_left_out_help = "connections of proxies beyond the first 1024 processes, which are not shown";

class ProxyBook {
  public:
    static constexpr size_t proxies_max = 1024;

    ProxyBook() = default;
    ProxyBook(const ProxyBook&) = delete;
    ProxyBook& operator=(const ProxyBook&) = delete;

  private:
    struct Proxy {
        NodeSeconds since = 0;
        uint64_t connections = 0;
        std::map<uint64_t, uint64_t> named = {};  // connections by epoch; without those that named none
    };
    using Proxies = std::map<std::string, Proxy>;

  public:
    // A connection in the book. Its thread alone calls.
    class Entry {
      public:
        explicit Entry(ProxyBook& book) : book_(book) {}
        ~Entry();
        Entry(const Entry&) = delete;
        Entry& operator=(const Entry&) = delete;

        // Welcomed. Once. copies: as in Hello. False: a connection in the book has another value; no effect. May throw
        // std::bad_alloc.
        bool enter(const std::string& process, NodeSeconds now, uint32_t copies);
        // It named this epoch; 0: it has none any more. May throw std::bad_alloc. Does nothing before enter().
        void name(uint64_t epoch);

      private:
        ProxyBook& book_;
        bool entered_ = false;
        uint32_t copies_ = 0;
        std::optional<Proxies::iterator> proxy_;  // none: not entered, or left out (B2)
        uint64_t epoch_ = 0;
    };

    // visit(process, its state)
    void each(NodeSeconds now, FunctionRef<void(const std::string&, const ProxyShown&)> visit) const;
    // The connections of B2.
    uint64_t left_out() const;

  private:
    static void forget(Proxy& proxy, uint64_t epoch) noexcept;

    mutable std::mutex lock_;
    Proxies proxies_;        // under lock_, as is left_out_
    uint64_t left_out_ = 0;
    std::array<uint64_t, protocol::copies_highest + 1> by_copies_{};  // connections, under lock_
};

}  // namespace farcached::node
