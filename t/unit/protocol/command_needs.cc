// SPDX-License-Identifier: BSD-3-Clause
// The classes that commands need: every command of the parsers is in the list below, and needs what it says there.
#include "protocol/command_needs.h"

#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "t/lib/tap.h"

using namespace farcached;
using namespace farcached::protocol;

namespace {

std::string words_of(CommandClasses classes) {
    std::string text;
    for (size_t i = 0; i < command_class_names.size(); i++)
        if ((classes & bit_of(CommandClass(i))) != 0) text += (text.empty() ? "" : " ") + std::string(command_class_names[i]);
    return text;
}

struct Line {
    std::string_view line;  // the first of a command is its shortest valid form
    std::string_view needs;
};

constexpr Line lines[] = {
    {"get a", "read"}, {"get a b", "read"}, {"gets a", "read"}, {"gat 1 a", "read write"}, {"gats 1 a", "read write"},
    {"set a 0 0 1", "write"}, {"add a 0 0 1", "write"}, {"replace a 0 0 1", "write"}, {"append a 0 0 1", "write"},
    {"prepend a 0 0 1", "write"}, {"cas a 0 0 1 1", "write"}, {"set a  0 0 1 noreply", "write"},
    {"delete a", "write"}, {"incr a 1", "write"}, {"decr a 1", "write"}, {"touch a 1", "write"},
    {"mg a", "read"}, {"mg a v t k OTNE", "read"}, {"mg TNE v", "read"}, {"mg a R30", "read write"}, {"mg a T30", "read write"},
    {"mg a v N30", "read write"}, {"mg a v E5", "read write"}, {"mg a  v   T0 k", "read write"},
    {"ms a 1", "write"}, {"md a", "write"}, {"ma a", "write"}, {"me a", "read"}, {"mn", ""},
    {"version", ""}, {"quit", ""}, {"verbosity 1", "admin"}, {"flush_all", "admin"}, {"flush_all 10 noreply", "admin"},
    {"stats", "stats"}, {"stats items", "stats"}, {"stats  reset", "admin"}, {"stats detail on", "admin"},
    {"stats detail dump", "admin"}, {"stats cachedump 1 1", "admin"}, {"stats hotkeys", "stats"}, {"stats hotkeys  reset", "admin"},
    {"stats resets", "stats"},
    {"watch", "admin"}, {"watch fetchers", "admin"}, {"shutdown", "admin"}, {"cache_memlimit 64", "admin"}, {"slabs x", "admin"},
    {"lru x", "admin"}, {"lru_crawler enable", "admin"}, {"lru_crawler metadump all", "admin"}, {"extstore x", "admin"},
    {"refresh_certs", "admin"}, {"drain a", "admin"}, {"undrain a", "admin"}, {"reload", "admin"}, {"delete_prefix a", "admin"},
    {"count_prefix a b", "admin"}, {"sample_keys", "admin"}, {"config get cluster", "read"}, {"config x", "read"},
};

void test_text() {
    std::map<std::string, size_t> seen;
    for (const Line& one : lines) {
        const std::string text = std::string(one.line) + "\r\n", name = text.substr(0, text.find_first_of(" \r"));
        const TextParse parse = parse_text(text);
        if (!tap::ok(parse.status == TextParse::Status::request, "parsed: " + std::string(one.line))) continue;
        const CommandNeeds needs = needs_of(parse.request);
        tap::is(words_of(needs.classes), std::string(one.needs), "needs of: " + std::string(one.line));
        tap::is(std::string(needs.command), name, "by its name");
        seen[name]++;
    }
    size_t commands = 0;
    each_text_command([&](std::string_view name) {
        commands++;
        tap::ok(seen.contains(std::string(name)), "a line of the list is for " + std::string(name));
    });
    tap::is(seen.size(), commands, "and none for a command that there is not");
}

void test_long_line() {
    const std::string text = "gets " + std::string(3000, 'k');
    const TextParse parse = parse_text(text);
    tap::ok(parse.status == TextParse::Status::keys && needs_of(parse.request).classes == bit_of(CommandClass::read),
            "a line that has not ended is a get");
}

struct Binary {
    BinaryVerb verb;
    std::string_view needs;
};

constexpr Binary verbs[] = {
    {BinaryVerb::unknown, ""}, {BinaryVerb::get, "read"}, {BinaryVerb::touch, "write"}, {BinaryVerb::gat, "read write"},
    {BinaryVerb::set, "write"}, {BinaryVerb::add, "write"}, {BinaryVerb::replace, "write"}, {BinaryVerb::append, "write"},
    {BinaryVerb::prepend, "write"}, {BinaryVerb::del, "write"}, {BinaryVerb::incr, "write"}, {BinaryVerb::decr, "write"},
    {BinaryVerb::quit, ""}, {BinaryVerb::noop, ""}, {BinaryVerb::version, ""}, {BinaryVerb::flush, "admin"},
    {BinaryVerb::stat, "stats"}, {BinaryVerb::config_get, "read"}, {BinaryVerb::sasl_list, ""},
    {BinaryVerb::sasl_auth, ""}, {BinaryVerb::sasl_step, ""},
};
static_assert(std::size(verbs) == size_t(BinaryVerb::sasl_step) + 1, "every verb");

void test_binary() {
    for (const Binary& one : verbs) {
        BinaryRequest request;
        request.verb = one.verb;
        const CommandNeeds needs = needs_of(request);
        tap::is(words_of(needs.classes), std::string(one.needs), "binary: " + std::string(needs.command));
        tap::ok(!needs.command.empty(), "has a name");
    }
    BinaryRequest stat;
    stat.verb = BinaryVerb::stat;
    for (const std::string_view group : {"reset", "detail on", "detail dump", "hotkeys reset"}) {
        stat.key = group;
        tap::is(words_of(needs_of(stat).classes), "admin", "STAT " + std::string(group));
    }
    stat.key = "items";
    tap::is(words_of(needs_of(stat).classes), "stats", "STAT items");
}

}  // namespace

int main() {
    test_text();
    test_long_line();
    test_binary();
    return tap::done();
}
