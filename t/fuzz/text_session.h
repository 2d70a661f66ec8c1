// SPDX-License-Identifier: BSD-3-Clause
// Two sessions that receive the same bytes, one of them in pieces, for the fuzz targets of the text protocol.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/limits.h"
#include "daemon/remote/cluster_view.h"
#include "t/unit/daemon/text_fixture.h"

namespace fuzz {

using namespace farcached;

// A reusable session: the cache is empty, and no reply depends on earlier inputs (no cas). No reply depends on how the
// input arrives: watch and the dumps, which depend on pipelined requests, are off.
class Session {
  public:
    Session() : talk_(config()) {
        talk_.options.watch_enabled = false;
        talk_.options.dump_enabled = false;
        view_.set({{"a", "10.0.0.1", 1}}, 1);
        talk_.options.cluster = &view_;
    }
    fixture::Talk& fresh() {
        talk_.node.flush_all(talk_.context.now);
        talk_.session = daemon::SessionState();
        talk_.closed = false;
        talk_.drop_held();
        talk_.admin.told.clear();
        return talk_;
    }

  private:
    static node::Config config() {
        node::Config c = fixture::small_config();
        c.cas = false;
        return c;
    }
    daemon::ClusterView view_;
    fixture::Talk talk_;
};

// Lines above the length limit close the session or not, depending on when their end arrives: nothing to compare.
inline bool comparable(std::string_view said) {
    size_t line = 0;
    for (char c : said) {
        line = c == '\n' ? 0 : line + 1;
        if (line > limits::text_line_bytes_max) return false;
    }
    return true;
}

inline void compare(std::string_view said, uint8_t cut) {
    static Session one, other;
    fixture::Talk& whole = one.fresh();
    fixture::Talk& pieces = other.fresh();
    const std::string want = whole.say(said);
    const std::string got = cut == 0 ? pieces.say_in_pieces(said, 1)
                                     : pieces.say_cut(said, std::min<size_t>(cut, said.size()));
    if (!comparable(said)) return;
    CHECK(got == want);
    CHECK(whole.closed == pieces.closed);
    if (whole.closed) return;
    CHECK(whole.held() == pieces.held());
    CHECK(whole.session.swallow == pieces.session.swallow);
    CHECK(whole.admin.told == pieces.admin.told);
}

}  // namespace fuzz
