// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/dump.h"

#include <algorithm>

#include "node/store/pages.h"
#include "protocol/meta.h"
#include "protocol/text_keys.h"

namespace farcached::daemon {

namespace {

constexpr size_t cachedump_bytes_max = 2 << 20;  // memcached's limit on the whole reply
// Bound on the pages visited in one call, even without a match: other clients wait.
constexpr uint64_t pages_per_call_max = 256;

constexpr bool is_unreserved(unsigned char c) {
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
}

constexpr bool is_graphic(unsigned char c) { return c > ' ' && c != 0x7f; }  // neither blank nor control

template <class Keep>
void append_encoded(OutBuffer& out, std::string_view bytes, Keep keep) {
    constexpr char digits[] = "0123456789ABCDEF";
    char* start = out.reserve(uri_encoded_bytes_max(bytes.size()));
    char* to = start;
    for (char c : bytes) {
        auto byte = static_cast<unsigned char>(c);
        if (keep(byte)) {
            *to++ = c;
            continue;
        }
        *to++ = '%';
        *to++ = digits[byte >> 4];
        *to++ = digits[byte & 15];
    }
    out.commit(size_t(to - start));
}

template <class Keep>
std::string encoded(std::string_view bytes, Keep keep) {
    OutBuffer out;
    append_encoded(out, bytes, keep);
    return {out.data(), out.size()};
}

// True for all keys of the text protocol; binary keys may have any byte.
bool fits_a_word(std::string_view key) { return key.find_first_of(" \r\n") == std::string_view::npos; }

void append_unix_time(OutBuffer& out, NodeSeconds at, int64_t started_unix) {
    out.append_number(uint64_t(int64_t(at) + started_unix));
}

}  // namespace

void append_uri_encoded(OutBuffer& out, std::string_view bytes) {
    append_encoded(out, bytes, is_unreserved);
}

std::string uri_encoded(std::string_view bytes) { return encoded(bytes, is_unreserved); }

void append_printable(OutBuffer& out, std::string_view bytes) { append_encoded(out, bytes, is_graphic); }

std::string printable(std::string_view bytes) { return encoded(bytes, is_graphic); }

std::string word_encoded(std::string_view bytes) {
    return encoded(bytes, [](unsigned char c) { return is_graphic(c) && c < 0x7f && c != '%'; });
}

uint64_t parse_crawl_classes(std::string_view text) {
    if (text == "all") return ~UINT64_C(0);
    uint64_t classes = 0;
    while (!text.empty()) {
        std::string_view word = text.substr(0, text.find(','));
        uint64_t id = 0;
        if (!protocol::parse_digits(word, 63, id)) return 0;
        if (id == 0) return 0;
        classes |= UINT64_C(1) << id;
        text.remove_prefix(word.size() == text.size() ? word.size() : word.size() + 1);
    }
    return classes;
}

void append_metadump_line(OutBuffer& out, const node::ItemView& item, int64_t started_unix) {
    const protocol::ItemMeta& meta = item.meta;
    out.append("key=");
    append_uri_encoded(out, item.key);
    out.append(" exp=");
    if (meta.exptime == never_expires)
        out.append("-1");
    else
        append_unix_time(out, meta.exptime, started_unix);
    out.append(" la=");
    append_unix_time(out, meta.last_access, started_unix);
    out.append(" cas=");
    out.append_number(meta.cas);
    out.append(meta.fetched ? " fetch=yes cls=" : " fetch=no cls=");
    out.append_number(meta.size_class);
    out.append(" size=");
    out.append_number(meta.item_bytes);
    out.append(" flags=");
    out.append_number(meta.flags);
    out.append(" \n");  // the blank is memcached 1.6.45's
}

void append_mgdump_line(OutBuffer& out, const node::ItemView& item) {
    out.append("mg ");
    if (!item.meta.key_binary && fits_a_word(item.key)) {
        out.append(item.key);
        out.append("\r\n");
        return;
    }
    size_t size = protocol::base64_encoded_bytes(item.key.size());
    protocol::base64_encode(item.key, out.reserve(size));
    out.commit(size);
    out.append(" b\r\n");
}

bool append_cachedump_line(OutBuffer& out, const node::ItemView& item, int64_t started_unix) {
    if (item.meta.key_binary || !fits_a_word(item.key)) return false;
    out.append("ITEM ");
    out.append(item.key);
    out.append(" [");
    out.append_number(item.meta.value_len);
    out.append(" b; ");
    if (item.meta.exptime == never_expires)
        out.append("0");
    else
        append_unix_time(out, item.meta.exptime, started_unix);
    out.append(" s]\r\n");
    return true;
}

void append_cachedump(OutBuffer& out, node::Node& node, uint8_t size_class, uint32_t items_max,
                      NodeSeconds now, int64_t started_unix) {
    constexpr size_t end_bytes = 5;
    size_t limit = out.size() + cachedump_bytes_max - end_bytes;
    uint32_t items = 0;
    bool full = false;
    auto visit = [&](const node::ItemView& item) {
        if (full || item.meta.size_class != size_class) return;
        size_t before = out.size();
        if (append_cachedump_line(out, item, started_unix)) items++;
        full = out.size() > limit || (items_max != 0 && items == items_max);
        if (out.size() > limit) out.truncate(before);
    };
    const layout::PageEntry* pages = node.view().pages;
    for (uint64_t page = 0; page < node.pages().count() && !full; page++) {
        // A fast hint only; the visit checks again under the lock.
        uint32_t seen = __atomic_load_n(&pages[page].size_class, __ATOMIC_RELAXED);
        if (seen == size_class) node.pages().visit(page, now, visit);
    }
    out.append("END\r\n");
}

bool DumpWalk::more(OutBuffer& out, node::Node& node, NodeSeconds now, int64_t started_unix,
                    size_t bytes_soft_max) {
    CHECK(!ended_);
    if (!begun_) out.append("OK\r\n");
    begun_ = true;
    auto visit = [&](const node::ItemView& item) {
        if ((classes_ >> (item.meta.size_class & 63) & 1) == 0) return;
        if (mgdump_)
            append_mgdump_line(out, item);
        else
            append_metadump_line(out, item, started_unix);
    };
    uint64_t end = std::min(node.pages().count(), page_ + pages_per_call_max);
    while (page_ < end && out.size() < bytes_soft_max) node.pages().visit(page_++, now, visit);
    if (page_ < node.pages().count()) return true;
    out.append(mgdump_ ? "EN\r\n" : "END\r\n");
    ended_ = true;
    return false;
}

}  // namespace farcached::daemon
