// SPDX-License-Identifier: BSD-3-Clause
// Limits that more than one folder relies on, each with its reason.
// Constants.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farcached::limits {

constexpr uint32_t key_bytes_max = 250;             // protocol.txt "Keys"
constexpr uint32_t opaque_bytes_max = 31;           // memcached 1.6.45: 'O' and 31 characters
constexpr uint32_t text_line_bytes_max = 2048;      // longer without a newline, not get/gets: close
constexpr uint64_t item_bytes_max_default = 1 << 20;  // -I
constexpr uint32_t workers_max = 64;                // -t; memcached warns above it
constexpr uint32_t nodes_max = 1024;                // of one proxy; each worker has a channel to each
constexpr uint32_t node_weight_max = 65535;         // shares of one node; finer than any ring can show
constexpr uint64_t pointer_table_entries_min = 64;                // powers of two: a table of this host's
constexpr uint64_t pointer_table_entries_max = UINT64_C(1) << 30;  // remote pointers, 58 KiB to 64 GiB
constexpr uint32_t report_items_min = 64;        // keys classified for reports, by each worker for each node:
constexpr uint32_t report_items_max = 65'536;    // 104 bytes each, ghosts too: 6.5 KiB to 6.5 MiB
constexpr uint32_t report_items_default = 4096;  // eight full reports
constexpr uint32_t rfp_slots_max = 64;           // of a connection over RDMA, for requests, and as many for replies:
constexpr uint32_t rfp_slot_bytes = 4096;        // 8 to 512 KiB of locked memory
constexpr uint32_t node_name_bytes_max = 63;        // a word in messages, statistics and lock names

static_assert(text_line_bytes_max > 3 * key_bytes_max, "a line holds an encoded key and its flags");

}  // namespace farcached::limits
