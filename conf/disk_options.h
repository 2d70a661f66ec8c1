// SPDX-License-Identifier: BSD-3-Clause
// The options of the disk tier (DiskSettings): memcached's -o ext_..., and the same names as long options of farnode.
// Threads: constants, and functions without state.
//
// D1  Both programs have the same rows, in the order of their own tables.
// D2  Sizes are checked together only where there is a file: without ext_path any values are accepted, as in memcached.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "conf/kinds.h"
#include "conf/option.h"
#include "conf/program.h"

namespace farcached::conf::disk {

Set set_path;
Show write_path;

constexpr std::string_view path_allowed = "FILE:SIZE, where SIZE is a whole number with M, G, T or P, as in /d/file:64G";

// A row of farcached's -o, or a long option of farnode.
constexpr Option placed(Where where, Option row) {
    row.where = where;
    row.section = where == Where::suboption ? Section::extended : Section::memory;
    row.exit_status = where == Where::suboption ? exit_illegal : exit_usage;
    return row;
}

using D = DiskSettings;

constexpr Option ext_path(Where where) {
    return placed(where, {.name = "ext_path", .argument = "<path:size>",
                          .kind = {.set = set_path, .show = write_path, .value = Value::text},
                          .once = "ext_path is given twice, but one file is supported; give one, on a volume of all disks\n",
                          .allowed = path_allowed,
                          .help = "file on an SSD, and its size with M, G, T or P. Values of\n"
                                  "evicted items move to it; their keys stay in memory"});
}

constexpr Option ext_page_size(Where where) {
    return placed(where, {.name = "ext_page_size", .argument = "<megabytes>", .initial = "64",
                          .kind = counted_in(Unit::megabytes, number<&Settings::disk, &D::page_bytes>(1, 1024, 1 << 20)),
                          .help = "size of a segment of the file of ext_path; a full file\n"
                                  "drops its oldest segment as a whole"});
}

constexpr Option ext_wbuf_size(Where where) {
    return placed(where, {.name = "ext_wbuf_size", .argument = "<megabytes>", .initial = "4",
                          .kind = counted_in(Unit::megabytes, number<&Settings::disk, &D::write_buffer_bytes>(1, 1024, 1 << 20)),
                          .stat = "ext_wbuf_size",
                          .help = "size of a write to that file: a divisor of\n"
                                  "ext_page_size, and at least -I"});
}

constexpr Option ext_threads(Where where) {
    return placed(where, {.name = "ext_threads", .argument = "<num>", .initial = "1",
                          .kind = number<&Settings::disk, &D::threads>(1, 64),
                          .help = "threads that read that file where there is no io_uring"});
}

constexpr Option ext_io_depth(Where where) {
    return placed(where, {.name = "ext_io_depth", .argument = "<num>", .initial = "32",
                          .kind = number<&Settings::disk, &D::io_depth>(1, 4096),
                          .help = "maximum reads in progress per thread of -t"});
}

constexpr Option ext_item_size(Where where) {
    return placed(where, {.name = "ext_item_size", .argument = "<bytes>", .initial = "512",
                          .kind = counted_in(Unit::bytes, number<&Settings::disk, &D::item_bytes_min>(0, any_u32)),
                          .live = true, .stat = "ext_item_size",
                          .help = "smallest value that moves to that file"});
}

constexpr Option ext_item_age(Where where) {
    return placed(where, {.name = "ext_item_age", .argument = "<s>", .initial = "4294967295",
                          .kind = counted_in(Unit::seconds, number<&Settings::disk, &D::item_age_s>(0, any_u32)),
                          .live = true, .stat = "ext_item_age",
                          .help = "idle time after which a value moves before its eviction;\n"
                                  "4294967295: never"});
}

constexpr Option ext_recache_rate(Where where) {
    return placed(where, {.name = "ext_recache_rate", .argument = "<num>", .initial = "2000",
                          .kind = number<&Settings::disk, &D::recache_rate>(0, any_u32),
                          .live = true, .stat = "ext_recache_rate",
                          .help = "rate of values that return to memory: one in this many\n"
                                  "reads of that file; 0: none"});
}

constexpr Option ext_drop_unread(Where where) {
    return placed(where, {.name = "ext_drop_unread", .negatable = where == Where::suboption, .initial = "yes",
                          .kind = toggle<&Settings::disk, &D::drop_unread>(), .live = true, .stat = "ext_drop_unread",
                          .help = "drop of evicted values that were never read since they\n"
                                  "were stored, unless their keys return soon after such\n"
                                  "a drop, which spares the SSD (default);\n"
                                  "no_ext_drop_unread: they move, too"});
}

// farnode's no_ext_drop_unread: a long option has no negation of its own.
constexpr Option no_ext_drop_unread(Where where) {
    return placed(where, {.name = "no_ext_drop_unread", .kind = toggle<&Settings::disk, &D::drop_unread, false>(),
                          .in_file = false, .help = "evicted values that were never read move to that file, too"});
}

constexpr std::string_view never_compacted = "no effect: segments are dropped whole, never compacted";

// Both programs log this with -M. option: the one that names where values would move.
inline std::string nothing_moves(const std::string& option) {
    return "-M: nothing is evicted, so no value moves to " + option + ". Leave out one of them";
}

// The checks of both programs between these options and others.
std::vector<Conflict> check(const Settings& settings);

}  // namespace farcached::conf::disk
