// SPDX-License-Identifier: BSD-3-Clause
#include "process/reloader.h"

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "conf/command_line.h"
#include "process/log.h"
#include "process/node_time.h"

namespace farcached::process {

namespace {

struct FreeText {
    void operator()(char* text) const { std::free(text); }
};

std::string current_folder() {
    const std::unique_ptr<char, FreeText> path(getcwd(nullptr, 0));
    return path == nullptr ? std::string() : path.get();
}

std::string joined(const std::vector<std::string>& words) {
    std::string all;
    for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
    return all;
}

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const size_t end = text.find('\n');
        if (end != 0) lines.emplace_back(text.substr(0, end));
        text.remove_prefix(end == text.npos ? text.size() : end + 1);
    }
    return lines;
}

// A statistic's value is one line of bounded length.
std::string summary(const std::vector<std::string>& errors) {
    constexpr size_t bytes_max = 400;
    std::string text = errors.empty() ? "" : errors[0].substr(0, bytes_max);
    for (char& c : text)
        if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
    if (errors.size() > 1) text += " (and " + std::to_string(errors.size() - 1) + " more)";
    return text;
}

}  // namespace

Reloader::Reloader(std::span<const char* const> argv, std::vector<conf::Option> table, const conf::Program& program,
                   conf::Settings running)
    : words_(argv.begin(), argv.end()),
      table_(std::move(table)),
      program_(program),
      folder_(current_folder()),
      running_(std::move(running)),
      read_at_(node_now()) {
    const conf::ProcessSettings& named = running_.process;
    file_ = named.config_path.empty() ? named.memcached_conf_path : named.config_path;
}

bool Reloader::reload(Apply apply, Read read) {
    try {
        return try_reload(apply, read);
    } catch (const std::bad_alloc&) {
        starved();
        return false;
    }
}

bool Reloader::try_reload(Apply apply, Read read) {
    std::vector<const char*> argv;
    for (const std::string& word : words_) argv.push_back(word.c_str());
    conf::CommandLine line = conf::parse_command_line(argv, table_, program_, folder_);
    if (line.exit_status) return failed(lines_of(line.err)), false;
    conf::ReloadPlan plan = conf::plan_reload(table_, program_, running_, line.settings, line.origins);
    std::vector<std::string> errors;  // that the rest of the reload survives
    if (plan.errors.empty()) errors = read(plan.settings, line.settings);
    if (!errors.empty()) plan = conf::plan_reload(table_, program_, running_, line.settings, line.origins);
    if (plan.errors.empty() && !plan.changed.empty()) plan.errors = apply(running_, plan.settings);
    if (!plan.errors.empty()) return failed(plan.errors), false;
    succeeded(std::move(plan), errors);
    return true;
}

void Reloader::succeeded(conf::ReloadPlan plan, const std::vector<std::string>& errors) {
    std::string changed = joined(plan.changed), waiting = joined(plan.waiting);
    std::string text = changed.empty() ? "reload: no option changed; files that options name were read again"
                                       : "reload: changed " + changed;
    if (!waiting.empty()) text += "; needs a restart: " + waiting;
    std::string result = errors.empty() ? "ok" : "partly", shown = summary(errors);
    running_ = std::move(plan.settings);
    {
        std::lock_guard hold(lock_);
        (errors.empty() ? reloads_ : failures_)++;
        read_at_ = node_now();
        result_ = std::move(result);
        if (!errors.empty()) error_ = std::move(shown);
        changed_ = std::move(changed);
        waiting_ = std::move(waiting);
    }
    for (const std::string& error : errors) say(Level::warning, "reload: " + error);
    say(Level::notice, text);
}

// `running_` is unchanged: the next reload compares with it, and applies the rest of this one.
void Reloader::starved() noexcept {
    {
        std::lock_guard hold(lock_);
        failures_++;
        result_ = "failed";
        error_.clear();
        try {
            error_ = "out of memory";
        } catch (const std::bad_alloc&) {
            (void)0;  // the result reports it
        }
    }
    say(Level::warning, "reload: out of memory, applied in part; reload again");
}

void Reloader::failed(const std::vector<std::string>& errors) {
    std::string text = "reload: refused, nothing changed\n";
    for (const std::string& error : errors) text += "reload: " + error + "\n";
    std::string shown = summary(errors);
    {
        std::lock_guard hold(lock_);
        failures_++;
        result_ = "failed";
        error_ = std::move(shown);
    }
    say(Level::warning, text);
}

void Reloader::each(FunctionRef<void(std::string_view name, std::string_view value)> visit) const {
    std::lock_guard hold(lock_);
    const ConfigShown shown{file_, std::to_string(node_now() - read_at_), std::to_string(reloads_), std::to_string(failures_),
                            result_, error_, changed_, waiting_};
    for (const auto& row : config_rows) visit(row.name, row.of(shown));
}

}  // namespace farcached::process
