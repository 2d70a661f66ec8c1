// SPDX-License-Identifier: BSD-3-Clause
// Courier: a worker's end of the Mailroom. As a borrower it remembers each request that it sent (a loan), and hands the answer
// to the request's sink. As an owner it remembers each letter whose request is under way, and is the sink of its answer.
//
// Owner: a worker's Links. The worker's thread.
//
// B6  A loan is repaid once: by an answer, by a closed desk, or by fail(). An answer without a loan is dropped.
// B7  Letters leave with deliver(), once for each other worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/function_ref.h"
#include "daemon/engine/mailroom.h"
#include "proxy/ask.h"

namespace farcached::daemon {

class BorrowedLink;

// Things under way. A number names one use of one place.
template <class Thing>
class Numbered {
  public:
    // Moves from `thing`, unless it throws std::bad_alloc.
    uint64_t add(Thing&& thing) {
        if (free_.empty()) {
            if (places_.size() > index_mask) throw std::bad_alloc();
            if (free_.capacity() <= places_.size()) free_.reserve(2 * (places_.size() + 1));  // so that take() cannot fail
            places_.emplace_back();
            free_.push_back(uint32_t(places_.size() - 1));
        }
        const uint32_t index = free_.back();
        free_.pop_back();
        Place& place = places_[index];
        uses_ = uses_ == uses_max ? 1 : uses_ + 1;
        place.number = uses_ << index_bits | index;
        place.thing.emplace(std::move(thing));
        under_way_++;
        return place.number;
    }
    std::optional<Thing> take(uint64_t number) {
        const uint64_t index = number & index_mask;
        if (index >= places_.size() || places_[index].number != number || !places_[index].thing.has_value()) return std::nullopt;
        std::optional<Thing> taken = std::move(places_[index].thing);
        places_[index].thing.reset();
        free_.push_back(uint32_t(index));
        under_way_--;
        return taken;
    }
    // body(number, thing) of each; it may take that one.
    template <class Do>
    void each(Do body) {
        for (Place& place : places_)
            if (place.thing.has_value()) body(place.number, *place.thing);
    }
    size_t under_way() const { return under_way_; }

  private:
    static constexpr uint32_t index_bits = 20;
    static constexpr uint64_t uses_max = (UINT64_C(1) << (63 - index_bits)) - 1;  // the top bit is free
    static constexpr uint64_t index_mask = (UINT64_C(1) << index_bits) - 1;
    struct Place {
        uint64_t number = 0;
        std::optional<Thing> thing;
    };
    std::deque<Place> places_;
    std::vector<uint32_t> free_;
    uint64_t uses_ = 0;
    size_t under_way_ = 0;
};

class Courier final : private proxy::ReplySink {
  public:
    struct Loan {
        BorrowedLink* link;
        proxy::Ticket ticket;
        proxy::ReplySink* sink;
        size_t bytes;  // of the request
    };

    // room: outlives this.
    Courier(Mailroom& room, uint32_t number);
    ~Courier() override;
    Courier(const Courier&) = delete;
    Courier& operator=(const Courier&) = delete;

    Mailroom& room() { return room_; }
    Desk& desk() { return room_.desk(number_); }
    uint32_t owner_of(const OneNode& node, uint32_t links) const {
        return link_owner(node.name, links, room_.workers(), number_);
    }
    // Hands the letters of the desk, or of a queue, to `serve` (requests) or to their sinks (answers).
    using Serve = FunctionRef<void(std::unique_ptr<Letter> letter)>;
    void take(Serve serve) { sort(desk().take(), serve); }
    // The same, and the desk takes no letter any more.
    void close(Serve serve) { sort(desk().close(), serve); }
    // Hands over all letters; those to closed desks fail.
    void deliver();

    // ---- as a borrower
    // Numbers the letter. Throws std::bad_alloc.
    void lend(Letter& letter, const Loan& loan);
    void send(uint32_t owner, std::unique_ptr<Letter> letter);
    // Fails the loan of a letter that was not sent.
    void fail(const Letter& letter, proxy::AskFailure why);
    // Fails all loans of a link.
    void fail(const BorrowedLink& link, proxy::AskFailure why);

    // ---- as an owner
    // Keeps the letter until the answer to this ticket arrives at sink(). Takes it, unless it throws std::bad_alloc.
    proxy::Ticket keep(std::unique_ptr<Letter>& letter);
    proxy::ReplySink& sink() { return *this; }
    void refuse(std::unique_ptr<Letter> letter, proxy::AskFailure why);
    size_t kept() const { return kept_.under_way(); }

    // Is it a ticket of keep()? The ReplyPool's are smaller.
    static bool is_kept(proxy::Ticket ticket) { return (uint64_t(ticket) & kept_bit) != 0; }

  private:
    static constexpr uint64_t kept_bit = UINT64_C(1) << 63;

    void answered(proxy::Ticket ticket, proxy::Answer& answer) override;
    void failed(proxy::Ticket ticket, const proxy::Failed& failed) override;
    std::unique_ptr<Letter> taken(proxy::Ticket ticket);
    void sort(LetterQueue letters, Serve serve);
    void send_back(std::unique_ptr<Letter> letter);
    void repay(Letter& letter);
    void fail(uint64_t number, const proxy::Failed& failed);

    Mailroom& room_;
    const uint32_t number_;  // the worker's
    std::vector<LetterQueue> outbox_;  // by worker
    bool anything_to_deliver_ = false;
    Numbered<Loan> loans_;
    Numbered<std::unique_ptr<Letter>> kept_;
};

}  // namespace farcached::daemon
