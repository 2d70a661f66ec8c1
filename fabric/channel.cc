// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/channel.h"

#include "base/check.h"

namespace farcached::fabric {

std::string_view channel_end_name(ChannelEnd end) {
    constexpr std::string_view names[] = {
#define X(name, help) #name,
        CHANNEL_ENDS(X)
#undef X
    };
    CHECK(end < ChannelEnd::count);
    return names[size_t(end)];
}

std::string_view channel_end_help(ChannelEnd end) {
    constexpr std::string_view helps[] = {
#define X(name, help) help,
        CHANNEL_ENDS(X)
#undef X
    };
    CHECK(end < ChannelEnd::count);
    return helps[size_t(end)];
}

}  // namespace farcached::fabric
