// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/proxy_events.h"

#include "daemon/stats/dump.h"

namespace farcached::daemon {

namespace {

using proxy::LinkDown;

// memcached's proxy's word for a backend's failure.
std::string_view error_word(LinkDown why, bool was_up) {
    switch (why) {
        case LinkDown::silent: return "timeout";
        case LinkDown::mismatch:
        case LinkDown::refused: return "readvalidate";
        case LinkDown::bad_frame: return "parsing";
        case LinkDown::connect_timeout:
        case LinkDown::no_channel: return "connecting";
        case LinkDown::channel_ended:
        case LinkDown::goodbye:
        case LinkDown::no_memory:
        case LinkDown::stopped:
        case LinkDown::count: break;
    }
    return was_up ? "disconnected" : "connecting";
}

std::string where(const NodePlace& place) {
    return " name=" + printable(place.host) + " port=" + std::to_string(place.port) + " label=" + std::string(place.label);
}

}  // namespace

std::string backend_connected_line(const NodePlace& place, uint32_t links_up) {
    return "type=proxy_backend event=connected" + where(place) + " links_up=" + std::to_string(links_up);
}

std::string backend_error_line(const NodePlace& place, LinkDown why, bool was_up, uint32_t lost, std::string_view text) {
    return "type=proxy_backend error=" + std::string(error_word(why, was_up)) + where(place) + " depth=" + std::to_string(lost) +
           " rbuf= cause=" + std::string(proxy::link_down_name(why)) + " text=" + printable(text);
}

std::string backend_bad_line(const NodePlace& place, uint64_t retry_s) {
    return "type=proxy_backend error=markedbad" + where(place) + " retry=" + std::to_string(retry_s);
}

std::string backend_good_line(const NodePlace& place) { return "type=proxy_backend event=markedgood" + where(place); }

std::string backend_drained_line(const NodePlace& place, bool on) {
    return std::string("type=proxy_backend event=") + (on ? "drained" : "undrained") + where(place);
}

std::string request_failed_line(std::string_view why, std::string_view label, std::string_view key, int fd) {
    return "type=proxy_request error=" + std::string(why) + " label=" + std::string(label.empty() ? "-" : label) +
           " key=" + uri_encoded(key) + " cfd=" + std::to_string(fd);
}

std::string read_failed_line(const NodePlace& place, std::string_view why, bool by_index, std::string_view key) {
    return "type=proxy_read error=" + std::string(why) + where(place) + (by_index ? " way=index key=" : " way=pointer key=") +
           uri_encoded(key);
}

std::string reload_line(std::string_view status) { return "type=proxy_conf status=" + std::string(status); }

}  // namespace farcached::daemon
