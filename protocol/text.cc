// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/text.h"

#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "protocol/text_keys.h"

namespace farcached::protocol {

namespace {

using Status = TextParse::Status;

constexpr size_t line_bytes_min = 4;                 // two letters and CRLF
constexpr uint64_t value_end_bytes = 2;              // CRLF

// Words between spaces, left to right.
class Words {
  public:
    explicit Words(std::string_view line) : at_(line.data()), end_(line.data() + line.size()) {}

    std::string_view next() {
        skip_spaces();
        const char* start = at_;
        while (at_ != end_ && *at_ != ' ') at_++;
        return std::string_view(start, size_t(at_ - start));
    }
    // The remaining text, without spaces at either end.
    std::string_view rest() {
        skip_spaces();
        const char* last = end_;
        while (last != at_ && last[-1] == ' ') last--;
        return std::string_view(at_, size_t(last - at_));
    }

  private:
    void skip_spaces() {
        while (at_ != end_ && *at_ == ' ') at_++;
    }
    const char* at_;
    const char* end_;
};

std::string_view last_word(std::string_view line) {
    size_t end = line.size();
    while (end != 0 && line[end - 1] == ' ') end--;
    size_t start = end;
    while (start != 0 && line[start - 1] != ' ') start--;
    return line.substr(start, end - start);
}

bool says_noreply(std::string_view line) {
    if (line.empty()) return false;
    if (line.back() != 'y' && line.back() != ' ') return false;  // nearly always
    return last_word(line) == "noreply";
}

void fail(TextParse& p, std::string_view text) {
    p.status = Status::error;
    p.error = p.request.noreply ? std::string_view() : text;
}

void fail_format(TextParse& p) { fail(p, bad_format); }

// ---- one function per shape of line; `words` starts after the verb ----------------------------

void parse_storage(TextParse& p, Words words) {
    TextRequest& r = p.request;
    r.key = words.next();
    std::string_view flags = words.next();
    std::string_view exptime = words.next();
    std::string_view bytes = words.next();
    // Without a length no value can be skipped: the bytes that follow are parsed as commands.
    if (!parse_length(bytes, r.value_bytes)) return fail_format(p);
    std::string_view unique = r.verb == TextVerb::cas ? words.next() : std::string_view();
    r.noreply = says_noreply(r.line);
    p.swallow = r.value_bytes + value_end_bytes;
    if (r.key.size() > limits::key_bytes_max) return fail_format(p);
    if (!parse_flags(flags, r.flags)) return fail_format(p);
    if (!parse_storage_exptime(exptime, r.exptime)) return fail_format(p);
    if (r.verb == TextVerb::cas)
        if (!parse_u64(unique, r.number)) return fail_format(p);
    p.swallow = 0;
    p.status = Status::request;
}

void parse_keys(TextParse& p, Words words) {
    TextRequest& r = p.request;
    if (r.verb == TextVerb::gat || r.verb == TextVerb::gats) {
        std::string_view exptime = words.next();
        if (words.rest().empty()) return fail_format(p);
        if (!parse_int32(exptime, r.exptime))
            return fail(p, "CLIENT_ERROR invalid exptime argument");
    }
    std::string_view keys = words.rest();
    if (keys.empty()) return fail_format(p);
    // To the end of the line with its newline, which KeyCursor needs.
    const char* line_end = r.line.data() + r.line.size();
    while (*line_end != '\n') line_end++;
    r.args = std::string_view(keys.data(), size_t(line_end + 1 - keys.data()));
    // All or nothing: one key that is too long fails the whole line.
    if (keys.size() > limits::key_bytes_max) {
        KeyCursor cursor(r.args);
        std::string_view key;
        KeyCursor::Step step;
        while ((step = cursor.next(key)) == KeyCursor::Step::key) continue;
        if (step == KeyCursor::Step::too_long) return fail_format(p);
    }
    p.status = Status::request;
}

// delete, incr, decr, touch: a key and at most one argument.
void parse_keyed(TextParse& p, Words words) {
    TextRequest& r = p.request;
    r.key = words.next();
    std::string_view argument = words.next();
    if (r.key.empty()) return fail_format(p);
    if (r.verb != TextVerb::del && argument.empty()) return fail_format(p);
    r.noreply = says_noreply(r.line);
    if (r.key.size() > limits::key_bytes_max) return fail_format(p);
    if (r.verb == TextVerb::touch && !parse_int32(argument, r.exptime))
        return fail(p, "CLIENT_ERROR invalid exptime argument");
    if (r.verb == TextVerb::incr || r.verb == TextVerb::decr)
        if (!parse_u64(argument, r.number))
            return fail(p, "CLIENT_ERROR invalid numeric delta argument");
    p.status = Status::request;
}

// memcached splits off so many words of a meta line, and reads the flags beyond them only if these are right.
constexpr uint32_t meta_words_max = 23;

// A flag begins with a letter (or a character between the cases in ASCII) or a digit; else the line is not a command.
bool flags_are_words(std::string_view flags, uint32_t most) {
    bool word_begins = true;
    for (char c : flags) {
        if (word_begins && c != ' ') {
            if (most-- == 0) return true;
            if (!((c > '@' && c < '{') || (c >= '0' && c <= '9'))) return false;
        }
        word_begins = c == ' ';
    }
    return true;
}

void parse_meta_line(TextParse& p, Words words) {
    TextRequest& r = p.request;
    r.key = words.next();
    std::string_view bytes = r.verb == TextVerb::ms ? words.next() : std::string_view();
    r.args = words.rest();
    if (r.key.empty()) return fail_format(p);
    const uint32_t words_before = r.verb == TextVerb::ms ? 3 : 2;
    if (!flags_are_words(r.args, meta_words_max - words_before)) return fail_format(p);
    if (r.verb == TextVerb::ms) {
        if (!parse_length(bytes, r.value_bytes)) return fail_format(p);
        p.swallow = r.value_bytes + value_end_bytes;
    }
    if (r.key.size() > limits::key_bytes_max)
        return r.verb == TextVerb::ma ? fail(p, bad_ma_flags) : fail_format(p);
    p.swallow = 0;
    p.status = Status::request;
}

void parse_flush_all(TextParse& p, Words words) {
    TextRequest& r = p.request;
    r.args = words.rest();
    r.noreply = says_noreply(r.args);
    p.status = Status::request;
}

void parse_verbosity(TextParse& p, Words words) {
    TextRequest& r = p.request;
    r.noreply = says_noreply(r.line);
    if (!parse_digits(words.next(), UINT32_MAX, r.number)) return fail_format(p);
    p.status = Status::request;
}

void parse_args(TextParse& p, Words words) {
    p.request.args = words.rest();
    if (p.request.verb == TextVerb::shutdown) p.request.noreply = says_noreply(p.request.line);
    p.status = Status::request;
}

// lru_crawler metadump|mgdump <classes> becomes a dump; all else is tuning.
void parse_tune(TextParse& p, Words words, std::string_view verb) {
    TextRequest& r = p.request;
    r.noreply = says_noreply(r.line);
    p.status = Status::request;
    if (verb != "lru_crawler") return;
    std::string_view what = words.next();
    std::string_view classes = words.next();
    if (classes.empty() || !words.rest().empty()) return;
    if (what != "metadump" && what != "mgdump") return;
    r.verb = TextVerb::dump;
    r.mgdump = what == "mgdump";
    r.args = classes;
}

void parse_unknown(TextParse& p) {
    std::string_view line = p.request.line;
    std::string_view last = last_word(line);
    // A web browser, or a request forged through one: send no bytes that it could take for an answer.
    if (last.size() != line.size() && last.starts_with("HTTP/")) {
        p.status = Status::close;
        return;
    }
    p.request.noreply = last == "noreply";
    fail(p, "ERROR");
}

// A command of the operator, or of a server with a list of its cluster. The caller answers any other client, and any other
// server's client, with the error for an unknown command.
void parse_conditional(TextParse& p, Words words) {
    parse_unknown(p);
    if (p.status == Status::close) return;
    p.error = {};
    p.request.args = words.rest();
    p.status = Status::request;
}

void parse_nothing(TextParse& p, Words) { p.status = Status::request; }

// ---- the verbs --------------------------------------------------------------------------------

using Parser = void (*)(TextParse&, Words);
struct Verb {
    std::string_view name;
    TextVerb verb;
    Parser parse;
};

constexpr Verb verbs[] = {
    {"get", TextVerb::get, parse_keys},
    {"gets", TextVerb::gets, parse_keys},
    {"set", TextVerb::set, parse_storage},
    {"gat", TextVerb::gat, parse_keys},
    {"gats", TextVerb::gats, parse_keys},
    {"add", TextVerb::add, parse_storage},
    {"replace", TextVerb::replace, parse_storage},
    {"append", TextVerb::append, parse_storage},
    {"prepend", TextVerb::prepend, parse_storage},
    {"cas", TextVerb::cas, parse_storage},
    {"delete", TextVerb::del, parse_keyed},
    {"incr", TextVerb::incr, parse_keyed},
    {"decr", TextVerb::decr, parse_keyed},
    {"touch", TextVerb::touch, parse_keyed},
    {"version", TextVerb::version, parse_nothing},
    {"quit", TextVerb::quit, parse_nothing},
    {"stats", TextVerb::stats, parse_args},
    {"watch", TextVerb::watch, parse_args},
    {"shutdown", TextVerb::shutdown, parse_args},
    {"flush_all", TextVerb::flush_all, parse_flush_all},
    {"verbosity", TextVerb::verbosity, parse_verbosity},
    {"drain", TextVerb::drain, parse_conditional},
    {"undrain", TextVerb::undrain, parse_conditional},
    {"reload", TextVerb::reload, parse_conditional},
    {"delete_prefix", TextVerb::delete_prefix, parse_conditional},
    {"count_prefix", TextVerb::count_prefix, parse_conditional},
    {"sample_keys", TextVerb::sample_keys, parse_conditional},
    {"config", TextVerb::config, parse_conditional},
};

constexpr std::string_view tune_verbs[] = {"cache_memlimit", "slabs",    "lru",
                                           "lru_crawler",    "extstore", "refresh_certs"};

constexpr std::string_view meta_verbs[] = {"mg", "ms", "md", "ma", "me", "mn"};

void dispatch_meta(TextParse& p, Words words, char letter) {
    switch (letter) {
        case 'g': p.request.verb = TextVerb::mg; return parse_meta_line(p, words);
        case 's': p.request.verb = TextVerb::ms; return parse_meta_line(p, words);
        case 'd': p.request.verb = TextVerb::md; return parse_meta_line(p, words);
        case 'a': p.request.verb = TextVerb::ma; return parse_meta_line(p, words);
        case 'e': p.request.verb = TextVerb::me; return parse_meta_line(p, words);
        case 'n':
            p.request.verb = TextVerb::mn;
            p.status = Status::request;
            return;
        default: return parse_unknown(p);
    }
}

void dispatch(TextParse& p) {
    std::string_view line = p.request.line;
    size_t verb_bytes = line.find(' ');
    std::string_view name = line.substr(0, verb_bytes);
    Words words(line.substr(name.size()));
    if (name.size() == 2 && name[0] == 'm') return dispatch_meta(p, words, name[1]);
    for (const Verb& v : verbs) {
        if (v.name != name) continue;
        p.request.verb = v.verb;
        return v.parse(p, words);
    }
    for (std::string_view verb : tune_verbs) {
        if (verb != name) continue;
        p.request.verb = TextVerb::tune;
        return parse_tune(p, words, verb);
    }
    parse_unknown(p);
}

// A get line longer than text_line_bytes_max: its keys are taken as they arrive.
bool begin_long_line(TextParse& p, std::string_view input) {
    if (input.starts_with("get ")) {
        p.request.verb = TextVerb::get;
        p.line_bytes = 4;
    } else if (input.starts_with("gets ")) {
        p.request.verb = TextVerb::gets;
        p.line_bytes = 5;
    } else {
        return false;
    }
    p.request.args = input.substr(p.line_bytes);
    p.status = Status::keys;
    return true;
}

// ---- the usual form of a set ------------------------------------------------------------------

// Decimal digits at `at` that end at `stop`; at most nine, so that no sum overflows.
bool take_plain_number(const char*& at, const char* end, char stop, uint32_t& out) {
    const char* start = at;
    uint32_t sum = 0;
    while (at != end && unsigned(static_cast<unsigned char>(*at)) - '0' <= 9)
        sum = sum * 10 + unsigned(*at++ - '0');
    if (at == start) return false;
    if (at - start > 9) return false;
    if (stop != '\0') {
        if (at == end) return false;
        if (*at++ != stop) return false;
    }
    out = sum;
    return true;
}

// Parses a set with single spaces, three short numbers, and no more. False: the line has another form; no field that
// matters has changed.
bool parse_plain_set(TextParse& p) {
    TextRequest& r = p.request;
    if (!r.line.starts_with("set ")) return false;
    const char* key = r.line.data() + 4;
    const char* end = r.line.data() + r.line.size();
    const void* space = std::memchr(key, ' ', size_t(end - key));
    if (space == nullptr) return false;
    const char* at = static_cast<const char*>(space);
    size_t key_bytes = size_t(at - key);
    if (key_bytes == 0) return false;
    if (key_bytes > limits::key_bytes_max) return false;
    at++;
    uint32_t flags = 0, exptime = 0, value_bytes = 0;
    if (!take_plain_number(at, end, ' ', flags)) return false;
    if (!take_plain_number(at, end, ' ', exptime)) return false;
    if (!take_plain_number(at, end, '\0', value_bytes)) return false;
    if (at != end) return false;
    r.verb = TextVerb::set;
    r.key = std::string_view(key, key_bytes);
    r.flags = flags;
    r.exptime = exptime;
    r.value_bytes = value_bytes;
    p.status = Status::request;
    return true;
}

}  // namespace

bool parse_lenient(std::string_view word, uint64_t& magnitude, bool& negative) {
    auto blank = [](char c) { return c >= '\t' && c <= '\r'; };
    while (!word.empty() && blank(word.front())) word.remove_prefix(1);
    negative = false;
    if (!word.empty() && (word.front() == '-' || word.front() == '+')) {
        negative = word.front() == '-';
        word.remove_prefix(1);
    }
    size_t digits = 0;
    while (digits < word.size() && word[digits] >= '0' && word[digits] <= '9') digits++;
    if (digits < word.size() && !blank(word[digits]) && word[digits] != '\0') return false;
    return parse_digits(word.substr(0, digits), UINT64_MAX, magnitude);
}

void each_text_command(FunctionRef<void(std::string_view)> visit) {
    for (const Verb& verb : verbs) visit(verb.name);
    for (const std::string_view name : tune_verbs) visit(name);
    for (const std::string_view name : meta_verbs) visit(name);
}

TextParse parse_text(std::string_view input) {
    TextParse p;
    if (input.empty()) return p;
    const void* newline = std::memchr(input.data(), '\n', input.size());
    if (newline == nullptr) {
        if (input.size() <= limits::text_line_bytes_max) return p;
        if (!begin_long_line(p, input)) p.status = Status::close;
        return p;
    }
    size_t line_bytes = size_t(static_cast<const char*>(newline) - input.data());
    if (line_bytes > limits::text_line_bytes_max)
        if (begin_long_line(p, input)) return p;
    p.line_bytes = line_bytes + 1;
    if (line_bytes != 0 && input[line_bytes - 1] == '\r') line_bytes--;
    p.request.line = std::string_view(input.data(), line_bytes);
    if (parse_plain_set(p)) return p;
    if (p.line_bytes < line_bytes_min) {
        fail_format(p);
        return p;
    }
    dispatch(p);
    return p;
}

size_t take_plain_get(std::string_view input, std::string_view& key) {
    constexpr size_t verb_bytes = 4;
    constexpr size_t look_bytes_max = limits::key_bytes_max + 2;  // a key and CRLF
    if (!input.starts_with("get ")) return 0;
    const char* start = input.data() + verb_bytes;
    size_t look_bytes = std::min(input.size() - verb_bytes, look_bytes_max);
    const char* newline = static_cast<const char*>(std::memchr(start, '\n', look_bytes));
    if (newline == nullptr) return 0;
    const char* end = newline != start && newline[-1] == '\r' ? newline - 1 : newline;
    size_t key_bytes = size_t(end - start);
    if (key_bytes == 0) return 0;
    if (key_bytes > limits::key_bytes_max) return 0;
    if (std::memchr(start, ' ', key_bytes) != nullptr) return 0;
    key = std::string_view(start, key_bytes);
    return size_t(newline + 1 - input.data());
}

ValueParse parse_value(std::string_view input, size_t line_bytes, uint32_t value_bytes) {
    ValueParse v;
    v.total_bytes = line_bytes + value_bytes + value_end_bytes;
    if (input.size() < v.total_bytes) return v;
    v.value = input.substr(line_bytes, value_bytes);
    const char* end = input.data() + line_bytes + value_bytes;
    v.status = end[0] == '\r' && end[1] == '\n' ? ValueParse::Status::good
                                                : ValueParse::Status::bad_chunk;
    return v;
}

}  // namespace farcached::protocol
