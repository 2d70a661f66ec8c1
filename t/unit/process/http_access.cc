// SPDX-License-Identifier: BSD-3-Clause
// The file of --http-token-file, and the Authorization headers that its tokens allow.
#include "process/http_access.h"

#include <string>
#include <variant>

#include "t/lib/tap.h"

using farcached::Problem;
using farcached::Result;
using farcached::process::HttpTokens;

namespace {

const std::string first = "0123456789abcdef", second = "!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~Z";

std::string problem_of(const std::string& text) {
    const Result<HttpTokens> parsed = HttpTokens::parse("f", text);
    const auto* problem = std::get_if<Problem>(&parsed);
    return problem == nullptr ? "" : problem->text;
}

void files() {
    const std::string f = "--http-token-file f: ", none = f + "has no token, so no client could be served\n";
    const auto bad = [&](int line) {
        return f + "line " + std::to_string(line) + " is no token of 16 to 256 printable characters without spaces\n";
    };
    tap::is(problem_of(first), "", "one token");
    tap::is(problem_of("# scraper\r\n\n" + first + "\r\n" + second + "\n#\n"), "", "comments, empty lines, ends of lines");
    tap::is(problem_of(""), none, "an empty file");
    tap::is(problem_of("\n#" + first + "\n"), none, "comments only");
    tap::is(problem_of(first.substr(1)), bad(1), "15 characters");
    tap::is(problem_of(std::string(256, 'x')), "", "256");
    tap::is(problem_of("\n" + std::string(257, 'x')), bad(2), "257");
    for (const char c : {' ', '\t', '\0', '\x7f', '\xc3'})
        tap::is(problem_of(first + c + first + "\n"), bad(1), "a character that is not printable");
    std::string eight;
    for (int i = 0; i < 8; i++) eight += first + std::to_string(i) + "\n";
    tap::is(problem_of(eight), "", "8 tokens");
    tap::is(problem_of(eight + first), f + "has more than 8 tokens\n", "9");
}

void headers() {
    const std::string longest(256, 'q');
    const HttpTokens tokens = std::get<HttpTokens>(HttpTokens::parse("f", first + "\n" + second + "\n" + longest + "\n"));
    for (const std::string& token : {first, second, longest}) {
        tap::ok(tokens.allow("Bearer " + token), "Bearer");
        tap::ok(tokens.allow("bEARER   " + token), "in any case, with several spaces");
        tap::ok(!tokens.allow(token) && !tokens.allow("Bearer" + token) && !tokens.allow("Token " + token), "no other scheme");
        tap::ok(!tokens.allow("Bearer " + token + "x") && !tokens.allow("Bearer " + token.substr(1)), "a whole token");
        tap::ok(!tokens.allow("Bearer " + token + " ") && !tokens.allow("Bearer " + token + std::string(1, '\0')), "and no more");
    }
    tap::ok(!tokens.allow("Bearer 0123456789abcdeF"), "case counts");
    for (const char* header : {"", "Bearer", "Bearer ", "Basic", "Basic ", "Basic =", "Basic ????", "B", " "})
        tap::ok(!tokens.allow(header), "'" + std::string(header) + "' has no token");
    tap::ok(tokens.allow("Basic dXNlcjowMTIzNDU2Nzg5YWJjZGVm"), "Basic: user:0123456789abcdef");
    tap::ok(tokens.allow("basic OjAxMjM0NTY3ODlhYmNkZWY="), "without a user");
    tap::ok(tokens.allow("Basic OjAxMjM0NTY3ODlhYmNkZWY"), "without padding");
    tap::ok(!tokens.allow("Basic MDEyMzQ1Njc4OWFiY2RlZg=="), "without a colon there is no password");
    tap::ok(!tokens.allow("Basic MDEyMzQ1Njc4OWFiY2RlZjp4"), "the user is no token");
    tap::ok(!tokens.allow("Basic OjAxMjM0NTY3ODlhYmNkZWYA"), "a zero byte behind it");
    tap::ok(!HttpTokens().allow("Bearer " + first), "without a file no client is allowed");
}

}  // namespace

int main() {
    files();
    headers();
    return tap::done();
}
