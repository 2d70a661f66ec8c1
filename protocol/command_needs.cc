// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/command_needs.h"

#include <cstddef>
#include <iterator>

#include "protocol/text_keys.h"

namespace farcached::protocol {

namespace command_needs {

namespace {

constexpr CommandClasses nothing = no_command_classes;
constexpr CommandClasses read = bit_of(CommandClass::read);
constexpr CommandClasses write = bit_of(CommandClass::write);
constexpr CommandClasses admin = bit_of(CommandClass::admin);
constexpr CommandClasses stats = bit_of(CommandClass::stats);

template <class Verb>
struct Row {
    Verb verb;
    CommandNeeds needs;
};

// In the order of the verbs. A touch changes when an item expires, and a gat returns its value, too.
constexpr Row<TextVerb> text_rows[] = {
    {TextVerb::get, {"get", read}},
    {TextVerb::gets, {"gets", read}},
    {TextVerb::gat, {"gat", read | write}},
    {TextVerb::gats, {"gats", read | write}},
    {TextVerb::set, {"set", write}},
    {TextVerb::add, {"add", write}},
    {TextVerb::replace, {"replace", write}},
    {TextVerb::append, {"append", write}},
    {TextVerb::prepend, {"prepend", write}},
    {TextVerb::cas, {"cas", write}},
    {TextVerb::del, {"delete", write}},
    {TextVerb::incr, {"incr", write}},
    {TextVerb::decr, {"decr", write}},
    {TextVerb::touch, {"touch", write}},
    {TextVerb::mg, {"mg", read}},  // see changing_flags
    {TextVerb::ms, {"ms", write}},
    {TextVerb::md, {"md", write}},
    {TextVerb::ma, {"ma", write}},
    {TextVerb::me, {"me", read}},
    {TextVerb::mn, {"mn", nothing}},
    {TextVerb::version, {"version", nothing}},
    {TextVerb::quit, {"quit", nothing}},
    {TextVerb::verbosity, {"verbosity", admin}},
    {TextVerb::flush_all, {"flush_all", admin}},
    {TextVerb::stats, {"stats", stats}},  // see admin_groups
    {TextVerb::watch, {"watch", admin}},
    {TextVerb::shutdown, {"shutdown", admin}},
    {TextVerb::dump, {"lru_crawler", admin}},
    {TextVerb::drain, {"drain", admin}},
    {TextVerb::undrain, {"undrain", admin}},
    {TextVerb::reload, {"reload", admin}},
    {TextVerb::delete_prefix, {"delete_prefix", admin}},
    {TextVerb::count_prefix, {"count_prefix", admin}},
    {TextVerb::sample_keys, {"sample_keys", admin}},
    {TextVerb::config, {"config", read}},  // clients need the list before their first get
    {TextVerb::tune, {"", admin}},  // cache_memlimit, slabs, lru, lru_crawler, extstore, refresh_certs: named by the request
};

constexpr Row<BinaryVerb> binary_rows[] = {
    {BinaryVerb::unknown, {"unknown", nothing}},
    {BinaryVerb::get, {"get", read}},
    {BinaryVerb::touch, {"touch", write}},
    {BinaryVerb::gat, {"gat", read | write}},
    {BinaryVerb::set, {"set", write}},
    {BinaryVerb::add, {"add", write}},
    {BinaryVerb::replace, {"replace", write}},
    {BinaryVerb::append, {"append", write}},
    {BinaryVerb::prepend, {"prepend", write}},
    {BinaryVerb::del, {"delete", write}},
    {BinaryVerb::incr, {"incr", write}},
    {BinaryVerb::decr, {"decr", write}},
    {BinaryVerb::quit, {"quit", nothing}},
    {BinaryVerb::noop, {"noop", nothing}},
    {BinaryVerb::version, {"version", nothing}},
    {BinaryVerb::flush, {"flush", admin}},
    {BinaryVerb::stat, {"stat", stats}},  // see admin_groups
    {BinaryVerb::config_get, {"config_get", read}},
    {BinaryVerb::sasl_list, {"sasl_list", nothing}},
    {BinaryVerb::sasl_auth, {"sasl_auth", nothing}},
    {BinaryVerb::sasl_step, {"sasl_step", nothing}},
};

// The flags of an mg that change the item: its expiry, its token for a refill, or by creating it with a chosen CAS unique.
constexpr std::string_view changing_flags = "TNER";

// Groups of statistics that change the server, or list keys of items.
constexpr std::string_view admin_groups[] = {"reset", "detail", "cachedump"};
constexpr std::string_view resetting_word = "reset";  // also behind another group

// N1
template <class Verb, size_t size>
constexpr bool covers(const Row<Verb> (&rows)[size], Verb last) {
    for (size_t i = 0; i < size; i++)
        if (rows[i].verb != Verb(i)) return false;
    return size == size_t(last) + 1;
}
static_assert(covers(text_rows, TextVerb::tune));
static_assert(covers(binary_rows, BinaryVerb::sasl_step));

bool has_changing_flag(std::string_view flags) {
    while (!flags.empty()) {
        const std::string_view word = take_word(flags);
        if (!word.empty() && changing_flags.find(word.front()) != changing_flags.npos) return true;
    }
    return false;
}

bool is_admin_group(std::string_view words) {
    const std::string_view group = take_word(words);
    for (const std::string_view one : admin_groups)
        if (group == one) return true;
    while (!words.empty())
        if (take_word(words) == resetting_word) return true;
    return false;
}

}  // namespace

}  // namespace command_needs

CommandNeeds needs_of(const TextRequest& request) {
    using namespace command_needs;
    CommandNeeds needs = text_rows[size_t(request.verb)].needs;
    if (request.verb == TextVerb::mg && has_changing_flag(request.args)) needs.classes |= write;
    if (request.verb == TextVerb::stats && is_admin_group(request.args)) needs.classes = admin;
    if (request.verb == TextVerb::tune) needs.command = request.line.substr(0, request.line.find(' '));
    return needs;
}

CommandNeeds needs_of(const BinaryRequest& request) {
    using namespace command_needs;
    CommandNeeds needs = binary_rows[size_t(request.verb)].needs;
    if (request.verb == BinaryVerb::stat && is_admin_group(request.key)) needs.classes = admin;
    return needs;
}

}  // namespace farcached::protocol
