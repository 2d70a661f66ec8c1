// SPDX-License-Identifier: BSD-3-Clause
// JsonText: JSON, written from begin to end. The destructors of nlohmann's arrays and objects allocate, and terminate
// the process without memory. JsonText throws std::bad_alloc; its destructor allocates nothing.
//
// Owner: one thread.
// J1  The calls form one value: begin() and end() nest, and in an object each value has its name.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace farcached::process {

// Quoted; invalid UTF-8 is replaced.
std::string json_string(std::string_view text);

class JsonText {
  public:
    void begin(char bracket) {  // '{' or '['
        separate();
        text_ += bracket;
        first_ = true;
    }
    void begin(std::string_view name, char bracket) {
        write_name(name);
        begin(bracket);
    }
    void end(char bracket) {
        text_ += bracket;
        first_ = false;
    }
    void value(std::string_view text);
    void value(const char* text) { value(std::string_view(text)); }
    void value(const std::string& text) { value(std::string_view(text)); }
    void value(double number);
    void value(std::same_as<bool> auto yes) { write(yes ? "true" : "false"); }
    template <std::integral Number>
        requires(!std::same_as<Number, bool>)
    void value(Number number) {
        write(std::to_string(number));
    }
    void null() { write("null"); }
    template <class Value>
    void add(std::string_view name, const Value& of_that_name) {
        write_name(name);
        value(of_that_name);
    }
    void add_null(std::string_view name) {
        write_name(name);
        null();
    }

    const std::string& text() const { return text_; }

  private:
    void write_name(std::string_view name);
    void write(std::string_view words);
    void separate() {
        if (!first_) text_ += ',';
        first_ = false;
    }

    std::string text_;
    bool first_ = true;  // the next value needs no comma before it
};

}  // namespace farcached::process
