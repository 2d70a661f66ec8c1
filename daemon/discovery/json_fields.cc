// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/json_fields.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace farcached::daemon {

// Receives nlohmann's calls; one that returns false ends the parse.
class JsonReader final : public nlohmann::json_sax<nlohmann::json> {
  public:
    explicit JsonReader(JsonFields& fields) : fields_(fields) {}

    bool null() override { return add(JsonFields::Kind::null, {}); }
    bool boolean(bool yes) override { return add(JsonFields::Kind::boolean, yes ? "true" : "false"); }
    bool number_integer(number_integer_t number) override { return add(JsonFields::Kind::number, std::to_string(number)); }
    bool number_unsigned(number_unsigned_t number) override { return add(JsonFields::Kind::number, std::to_string(number)); }
    bool number_float(number_float_t, const string_t&) override { return add(JsonFields::Kind::number, "fraction"); }
    bool string(string_t& text) override { return add(JsonFields::Kind::text, std::move(text)); }
    bool binary(binary_t&) override { return false; }
    bool start_object(size_t) override { return begin(JsonFields::Kind::object); }
    bool key(string_t& name) override {
        open_.back().name = std::move(name);
        return true;
    }
    bool end_object() override { return end(); }
    bool start_array(size_t) override { return begin(JsonFields::Kind::array); }
    bool end_array() override { return end(); }
    bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  private:
    struct Open {
        bool array = false;
        size_t path_bytes = 0;   // of its own path
        size_t elements = 0;
        std::string name;        // of the next value in an object
    };

    // The path of the next value, in path_.
    void enter() {
        if (open_.empty()) return path_.clear();
        Open& in = open_.back();
        path_.resize(in.path_bytes);
        if (!path_.empty()) path_ += '.';
        path_ += in.array ? std::to_string(in.elements++) : in.name;
    }
    bool add(JsonFields::Kind kind, std::string text) {
        if (fields_.values_.size() >= JsonFields::values_max) return false;
        enter();
        if (path_.size() > JsonFields::path_bytes_max) return false;
        fields_.values_.insert_or_assign(path_, JsonFields::Value{kind, std::move(text), 0});
        return true;
    }
    bool begin(JsonFields::Kind kind) {
        if (open_.size() >= JsonFields::depth_max || !add(kind, {})) return false;
        open_.push_back({kind == JsonFields::Kind::array, path_.size(), 0, {}});
        return true;
    }
    bool end() {
        path_.resize(open_.back().path_bytes);
        fields_.values_[path_].elements = open_.back().elements;
        open_.pop_back();
        return true;
    }

    JsonFields& fields_;
    std::string path_;
    std::vector<Open> open_;
};

std::optional<JsonFields> JsonFields::parse(std::string_view text) {
    JsonFields fields;
    JsonReader reader(fields);
    if (!nlohmann::json::sax_parse(text, &reader)) return {};
    return fields;
}

const JsonFields::Value* JsonFields::find(std::string_view path, Kind kind) const {
    const auto at = values_.find(path);
    return at == values_.end() || at->second.kind != kind ? nullptr : &at->second;
}

const std::string* JsonFields::text(std::string_view path) const {
    const Value* value = find(path, Kind::text);
    return value == nullptr ? nullptr : &value->text;
}

std::optional<int64_t> JsonFields::whole(std::string_view path) const {
    const Value* value = find(path, Kind::text);
    if (value == nullptr) value = find(path, Kind::number);
    if (value == nullptr) return {};
    int64_t number = 0;
    const char* const end = value->text.data() + value->text.size();
    const auto [read, error] = std::from_chars(value->text.data(), end, number);
    if (error != std::errc() || read != end) return {};
    return number;
}

std::optional<bool> JsonFields::boolean(std::string_view path) const {
    const Value* value = find(path, Kind::boolean);
    if (value == nullptr) return {};
    return value->text == "true";
}

size_t JsonFields::count(std::string_view path) const {
    const Value* value = find(path, Kind::array);
    return value == nullptr ? 0 : value->elements;
}

}  // namespace farcached::daemon
