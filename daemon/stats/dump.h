// SPDX-License-Identifier: BSD-3-Clause
// The line formats of item lists (lru_crawler metadump and mgdump, stats cachedump), and the walk that streams the first two.
//
// Owner: of a DumpWalk the session that sends it, in its worker's thread. The functions have no state. Those that visit items take
// the lock of one page's partition at a time.
//
// I1  No byte of a key can end a line or a word: keys are URI-encoded or sent as base64, or the item is omitted, as the format
//     allows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/node_clock.h"
#include "base/out_buffer.h"
#include "node/store/node.h"

namespace farcached::daemon {

// RFC 3986: letters, digits and - . _ ~ stay, all other bytes become %XX.
void append_uri_encoded(OutBuffer& out, std::string_view bytes);
constexpr size_t uri_encoded_bytes_max(size_t bytes) { return 3 * bytes; }
std::string uri_encoded(std::string_view bytes);
// For formats that show keys raw: only blanks and control characters become %XX.
void append_printable(OutBuffer& out, std::string_view bytes);
std::string printable(std::string_view bytes);
// As memcached's logger encodes keys, and every byte that could end a word.
std::string word_encoded(std::string_view bytes);

// `started_unix`: the Unix time at which the node's clock read 0.
// key=foo exp=1795226068 la=1795225968 cas=2 fetch=no cls=1 size=63 flags=0
void append_metadump_line(OutBuffer& out, const node::ItemView& item, int64_t started_unix);
// mg foo
void append_mgdump_line(OutBuffer& out, const node::ItemView& item);
// ITEM foo [3 b; 1795226068 s]; false, with no output, for keys that this format cannot show.
bool append_cachedump_line(OutBuffer& out, const node::ItemView& item, int64_t started_unix);

// `stats cachedump`: the items of one class, at most `items_max` (0: no limit) and 2 MB, then END.
void append_cachedump(OutBuffer& out, node::Node& node, uint8_t size_class, uint32_t items_max,
                      NodeSeconds now, int64_t started_unix);

// "all", or size classes separated by commas: a bit per 1-based class. 0: memcached's BADCLASS.
uint64_t parse_crawl_classes(std::string_view text);

// A metadump or mgdump under way: the session calls more() whenever it can send more. Includes every item that stays in place
// throughout.
class DumpWalk {
  public:
    // classes: bit per 1-based class, ~0 for all.
    DumpWalk(bool mgdump, uint64_t classes) : mgdump_(mgdump), classes_(classes) {}

    // Appends the next lines, until `out` holds about `bytes_soft_max`. False: the last was appended.
    bool more(OutBuffer& out, node::Node& node, NodeSeconds now, int64_t started_unix,
              size_t bytes_soft_max);

  private:
    bool mgdump_;
    bool begun_ = false;
    bool ended_ = false;
    uint64_t classes_;
    uint64_t page_ = 0;
};

}  // namespace farcached::daemon
