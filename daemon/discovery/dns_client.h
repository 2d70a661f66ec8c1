// SPDX-License-Identifier: BSD-3-Clause
// DnsClient: look-ups of complete names by c-ares, which retries, changes servers and uses TCP for long answers.
//
// Owner: the thread that calls it. Each look-up reads the system's configuration again (resolv.conf(5)).
// Q1  A look-up is complete or failed: addresses of one family are no answer while those of the other are unknown.
// Q2  At most names_at_once names are looked up at once. The first failure ends the rest.
// Q3  cancel() of any thread ends a look-up at once, and all later ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/discovery/answers.h"

namespace farcached::daemon {

template <class Record>
struct DnsRecords {
    std::vector<Record> records;          // may be empty: the name does not exist, or has none
    std::optional<uint32_t> ttl_s = {};   // the smallest of the answers
};

class DnsClient {
  public:
    // server: HOST:PORT; empty: the system's.
    explicit DnsClient(std::string server);  // throws std::system_error
    ~DnsClient();
    DnsClient(const DnsClient&) = delete;
    DnsClient& operator=(const DnsClient&) = delete;

    static constexpr size_t names_at_once = 16;

    // Errors are sentences.
    // Those of each name, in this order.
    Result<DnsRecords<std::vector<std::string>>, std::string> addresses(const std::vector<std::string>& names);
    Result<DnsRecords<ServiceRecord>, std::string> services(const std::string& name);

    void cancel();
    bool is_canceled() const;
    // Waits, until cancel(). False: canceled.
    bool sleep(uint32_t seconds);

  private:
    class LookUp;

    const std::string server_;
    const int canceled_;  // an eventfd
};

}  // namespace farcached::daemon
