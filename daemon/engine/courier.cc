// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/engine/courier.h"

#include <cstring>
#include <new>

#include "daemon/engine/borrowed_link.h"

namespace farcached::daemon {

Courier::Courier(Mailroom& room, uint32_t number) : room_(room), number_(number), outbox_(room.workers()) {
    CHECK(number < room.workers());
}

Courier::~Courier() = default;

void Courier::sort(LetterQueue letters, Serve serve) {
    while (std::unique_ptr<Letter> letter = letters.pop()) {
        if (std::holds_alternative<std::monostate>(letter->answer))
            serve(std::move(letter));
        else
            repay(*letter);
    }
}

void Courier::deliver() {
    if (!anything_to_deliver_) return;
    anything_to_deliver_ = false;
    for (uint32_t worker = 0; worker < outbox_.size(); worker++) {
        LetterQueue& letters = outbox_[worker];
        if (letters.empty() || room_.desk(worker).put(letters)) continue;
        LetterQueue returned(std::move(letters));
        while (const std::unique_ptr<Letter> letter = returned.pop())
            if (letter->from == number_) fail(letter->loan, {proxy::AskFailure::node_down, std::nullopt});
    }
}

// ---- as a borrower ----------------------------------------------------------------------------------

void Courier::lend(Letter& letter, const Loan& loan) {
    letter.from = number_;
    letter.loan = loans_.add(Loan(loan));
}

void Courier::send(uint32_t owner, std::unique_ptr<Letter> letter) {
    outbox_[owner].push(std::move(letter));
    anything_to_deliver_ = true;
}

void Courier::fail(const Letter& letter, proxy::AskFailure why) { fail(letter.loan, {why, std::nullopt}); }

void Courier::fail(const BorrowedLink& link, proxy::AskFailure why) {
    loans_.each([&](uint64_t number, const Loan& loan) {
        if (loan.link == &link) fail(number, {why, std::nullopt});
    });
}

void Courier::fail(uint64_t number, const proxy::Failed& failed) {
    const std::optional<Loan> loan = loans_.take(number);
    if (!loan.has_value()) return;
    loan->link->repaid(loan->bytes);
    loan->sink->failed(loan->ticket, failed);
}

void Courier::repay(Letter& letter) {
    if (const auto* failed = std::get_if<proxy::Failed>(&letter.answer)) return fail(letter.loan, *failed);
    const std::optional<Loan> loan = loans_.take(letter.loan);
    if (!loan.has_value()) return;
    loan->link->repaid(loan->bytes);
    auto& reply = std::get<Letter::Reply>(letter.answer);
    proxy::Answer answer{reply.op, {reply.value.get(), reply.value_bytes}, reply.one_sided, reply.by_index, nullptr};
    answer.owned = std::move(reply.value);
    loan->sink->answered(loan->ticket, answer);
}

// ---- as an owner ------------------------------------------------------------------------------------

proxy::Ticket Courier::keep(std::unique_ptr<Letter>& letter) { return proxy::Ticket(kept_.add(std::move(letter)) | kept_bit); }

// nullptr: it failed earlier, for lack of memory, although its request was sent.
std::unique_ptr<Letter> Courier::taken(proxy::Ticket ticket) {
    std::optional<std::unique_ptr<Letter>> letter = kept_.take(uint64_t(ticket) & ~kept_bit);
    return letter.has_value() ? std::move(*letter) : nullptr;
}

void Courier::answered(proxy::Ticket ticket, proxy::Answer& answer) {
    std::unique_ptr<Letter> letter = taken(ticket);
    if (letter == nullptr) return;
    Letter::Reply reply{answer.op, std::move(answer.owned), answer.value.size(), answer.one_sided, answer.by_index};
    if (reply.value == nullptr && reply.value_bytes != 0) {
        reply.value.reset(new (std::nothrow) char[reply.value_bytes]);
        if (reply.value == nullptr) return refuse(std::move(letter), proxy::AskFailure::no_memory);
        std::memcpy(reply.value.get(), answer.value.data(), reply.value_bytes);
    }
    letter->answer = std::move(reply);
    send_back(std::move(letter));
}

void Courier::failed(proxy::Ticket ticket, const proxy::Failed& failed) {
    std::unique_ptr<Letter> letter = taken(ticket);
    if (letter == nullptr) return;
    letter->answer = failed;
    send_back(std::move(letter));
}

void Courier::refuse(std::unique_ptr<Letter> letter, proxy::AskFailure why) {
    letter->answer = proxy::Failed{why, std::nullopt};
    send_back(std::move(letter));
}

void Courier::send_back(std::unique_ptr<Letter> letter) {
    const uint32_t to = letter->from;
    send(to, std::move(letter));
}

}  // namespace farcached::daemon
