// SPDX-License-Identifier: BSD-3-Clause
// LinkSums: the counters of the connections to a node: of each present one, and the sum of those that have ended.
//
// Owner: Nodes, which guards it with its lock. The connections write their own counters, in their threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/check.h"
#include "base/stat_row.h"
#include "daemon/stats/server_view.h"
#include "proxy/link_counters.h"
#include "proxy/local_get.h"

namespace farcached::daemon {

class LinkSums {
  public:
    using Visit = NodesView::LinkVisit;

    // Both outlive remove(). Throws std::bad_alloc: nothing has changed.
    void add(const proxy::LinkCounters& link, const proxy::LocalGetCounters& local) { present_.push_back({&link, &local}); }
    // The connection has ended: `to` has its counts from now on.
    void remove(const proxy::LinkCounters& link, LinkSums& to) noexcept {
        const auto at = std::ranges::find(present_, &link, &Cells::link);
        CHECK(at != present_.end());
        to.add_past(*at->link, *at->local);
        present_.erase(at);
    }
    // Moves the sum of those that have ended.
    void move_past(LinkSums& to) noexcept {
        to.add_past(past_, past_local_);
        clear(static_cast<proxy::LinkCells<Counter>&>(past_));
        clear(past_.channel);
        each_reason(past_, past_, [](Counter& cell, const Counter&) { cell.set(0); });
        clear(past_local_);
    }
    size_t present() const { return present_.size(); }
    void visit_present(Visit visit) const {
        for (const Cells& cells : present_) visit(*cells.link, *cells.local);
    }
    void visit_past(Visit visit) const { visit(past_, past_local_); }

  private:
    struct Cells {
        const proxy::LinkCounters* link;
        const proxy::LocalGetCounters* local;
    };

    // Counters only, no gauges.
    template <template <class> class Rows>
    static void add_to(Rows<Counter>& to, const Rows<Counter>& from) {
        each_cell(to, from, [](StatKind kind, Counter& sum, const Counter& cell) {
            if (kind == StatKind::counter) sum.add(cell.get());
        });
    }
    template <template <class> class Rows>
    static void clear(Rows<Counter>& cells) {
        for (const auto& row : Rows<Counter>::rows()) row.of(cells).set(0);
    }
    void add_past(const proxy::LinkCounters& link, const proxy::LocalGetCounters& local) noexcept {
        add_to<proxy::LinkCells>(past_, link);
        add_to(past_.channel, link.channel);
        each_reason(past_, link, [](Counter& sum, const Counter& cell) { sum.add(cell.get()); });
        add_to(past_local_, local);
    }

    std::vector<Cells> present_;
    proxy::LinkCounters past_;
    proxy::LocalGetCounters past_local_;
};

}  // namespace farcached::daemon
