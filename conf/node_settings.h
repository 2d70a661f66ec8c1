// SPDX-License-Identifier: BSD-3-Clause
// NodeSettings: the settings that only a farnode has: name, listeners, leases. Texts, bounds and defaults are in the option
// table (conf/node_option_table.cc).
#pragma once

#include <cstdint>
#include <string>

#include "base/policy_kind.h"
#include "conf/access_tracking.h"

namespace farcached::conf {

struct NodeSettings {
    std::string name;            // empty: generated
    std::string shm_path;        // of the Unix socket; empty: none
    bool shm_group = false;      // also admit proxies of this process's group
    std::string tcp_host;        // a name or an address without brackets, "*": all; empty: no TCP
    uint16_t tcp_port = 0;       // 0: chosen by the kernel
    std::string verbs_host;      // as tcp_host, on an RDMA device; empty: no RDMA
    uint16_t verbs_port = 0;
    uint32_t greeting_timeout_ms = 0;
    PolicyKind policy = PolicyKind::s3fifo;
    uint32_t lease_ms = 0;       // the term of all leases, where there is one
    uint32_t lease_ms_min = 0;   // of leases by popularity
    uint32_t lease_ms_max = 0;
    bool lease = false;
    AccessTracking access_tracking = AccessTracking::none;
    uint32_t dead_share_percent = 6;
    uint32_t report_share_percent = 0;
};

}  // namespace farcached::conf
