// SPDX-License-Identifier: BSD-3-Clause
#include "bench/load/batch.h"

#include "base/check.h"

namespace farcached::bench {

void Failures::note(uint64_t Failures::*which, std::string_view what, std::string_view detail) {
    constexpr size_t detail_bytes_max = 120;
    (this->*which)++;
    if (!first.empty()) return;
    first = what;
    if (detail.empty()) return;
    first += ": ";
    for (char c : detail.substr(0, detail_bytes_max)) first += c >= ' ' && c <= '~' ? c : '?';
}

void Failures::merge(const Failures& other) {
    refused += other.refused;
    wrong_values += other.wrong_values;
    broken += other.broken;
    if (first.empty()) first = other.first;
}

void Batch::clear() {
    CHECK(done());
    requests_.clear();
    keys_.clear();
    missed_.clear();
    next_ = 0;
}

void Batch::add_set(OutBuffer& out, uint64_t key, uint64_t sequence) {
    uint32_t bytes = values_.size(sequence);
    auto fill = [&](char* to) { values_.fill(to, bytes, key, sequence); };
    writer_.set(out, key, bytes, fill);
    requests_.push_back({Asked::set, uint32_t(keys_.size()), 1});
    keys_.push_back(key);
}

void Batch::add_get(OutBuffer& out, std::span<const uint64_t> keys) {
    Asked asked = keys.size() == 1 ? Asked::get : Asked::get_many;
    if (asked == Asked::get)
        writer_.get(out, keys[0]);
    else
        writer_.get_many(out, keys);
    requests_.push_back({asked, uint32_t(keys_.size()), uint32_t(keys.size())});
    keys_.insert(keys_.end(), keys.begin(), keys.end());
}

void Batch::add_remove(OutBuffer& out, uint64_t key) {
    writer_.remove(out, key);
    requests_.push_back({Asked::remove, uint32_t(keys_.size()), 1});
    keys_.push_back(key);
}

// At the request's last piece: records the keys without a value as missed.
void Batch::note_missed(const Request& request, const Piece& piece) {
    if (!reads(request.asked) || piece.kind == Piece::Kind::refused) return;
    if (request.asked == Asked::get && hits_ > 0) return;
    const uint32_t from = request.asked == Asked::get ? 0 : key_next_;
    const auto keys = keys_.begin() + request.first_key;
    missed_.insert(missed_.end(), keys + from, keys + request.keys);
}

void Batch::check_value(const Request& request, const Piece& piece, Failures& failures) {
    uint64_t number = keys_[request.first_key];
    if (piece.has_key) {
        if (!writer_.key_number(piece.key, number))
            return failures.note(&Failures::wrong_values, "a key that was not requested",
                                 piece.key);
        const uint32_t passed_over = key_next_;
        while (key_next_ < request.keys && keys_[request.first_key + key_next_] != number)
            key_next_++;
        if (key_next_ == request.keys)
            return failures.note(&Failures::wrong_values, "a key that was not requested",
                                 piece.key);
        const auto keys = keys_.begin() + request.first_key;
        missed_.insert(missed_.end(), keys + passed_over, keys + key_next_);
        key_next_++;
    }
    if (!values_.good(piece.value, number))
        return failures.note(
            &Failures::wrong_values, "a value that was not stored under its key",
            "key " + std::to_string(number) + ", " + std::to_string(piece.value.size()) + " bytes");
    hits_++;
}

Batch::Step Batch::step(std::string_view input, Failures& failures) {
    CHECK(!done());
    const Request& request = requests_[next_];
    Piece piece = next_piece(wire_, request.asked, input);
    Step step;
    if (piece.kind == Piece::Kind::need_more) {
        step.wanted = piece.bytes;
        return step;
    }
    if (piece.kind == Piece::Kind::broken) {
        failures.note(&Failures::broken, "a protocol error", piece.value);
        step.broken = true;
        return step;
    }
    if (piece.kind == Piece::Kind::refused)
        failures.note(&Failures::refused, "an error reply", piece.value);
    if (piece.kind == Piece::Kind::value) check_value(request, piece, failures);
    step.bytes = piece.bytes;
    if (piece.last) {
        note_missed(request, piece);
        step.answered = true;
        step.answer = {request.asked, request.keys, hits_};
        next_++;
        key_next_ = 0;
        hits_ = 0;
    }
    return step;
}

}  // namespace farcached::bench
