// SPDX-License-Identifier: BSD-3-Clause
#include "process/json_text.h"

#include <nlohmann/json.hpp>

namespace farcached::process {

namespace {

using Json = nlohmann::json;

// For strings and numbers only: their destructors do not allocate.
std::string dump(const Json& scalar) { return scalar.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string json_string(std::string_view text) { return dump(std::string(text)); }

void JsonText::value(std::string_view text) { write(json_string(text)); }

void JsonText::value(double number) { write(dump(number)); }

void JsonText::write(std::string_view words) {
    separate();
    text_ += words;
}

void JsonText::write_name(std::string_view name) {
    write(json_string(name));
    text_ += ':';
    first_ = true;
}

}  // namespace farcached::process
