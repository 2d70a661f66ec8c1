// SPDX-License-Identifier: BSD-3-Clause
// The rows of `stats proxy` that are not LOCAL_GET_COUNTERS or close reasons: declared once, here, for the
// statistics (daemon/stats_items.cc) and for the man page (man/counters_man.cc).
#pragma once

//        name          help                                                      where a Sample has it
#define OWN_STATS(X)                                                                                 \
    X(requests, "requests executed", sample.workers.requests)                                        \
    X(read_calls, "recv system calls", sample.workers.read_calls)                                    \
    X(write_calls, "sendmsg system calls", sample.workers.write_calls)                               \
    X(get_unavailable, "keys asked for whose node did not answer", sample.workers.get_unavailable)   \
    X(change_unavailable, "changes whose node did not answer: carried out or not, nobody knows",     \
      sample.workers.change_unavailable)                                                             \
    X(node_pages_used, "pages of the arena that belong to a size class", sample.node.pages_used)     \
    X(node_pages_limit, "pages that -m allows", sample.node.pages_limit)                             \
    X(node_pages_moved, "pages taken from one size class for another, or for a large item",          \
      sample.node.pages_moved)                                                                       \
    X(node_index_buckets, "64-byte buckets of the index", sample.node.index_buckets)                 \
    X(node_index_bytes, "memory of the index, which -m does not count", sample.node.index_bytes)     \
    X(node_overflow_evictions, "items that went because their chain of buckets was full",            \
      sample.node.overflow_evictions)                                                                \
    X(node_flushes, "flush_all that took effect", sample.node.flushes)
