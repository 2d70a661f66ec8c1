// SPDX-License-Identifier: BSD-3-Clause
#include "conf/disk_options.h"

#include <charconv>
#include <cstdint>
#include <utility>

namespace farcached::conf::disk {

namespace {

struct SizeUnit {
    char upper, lower;
    int shift;
};
constexpr SizeUnit size_units[] = {{'M', 'm', 20}, {'G', 'g', 30}, {'T', 't', 40}, {'P', 'p', 50}};

// False: not a whole number with a unit, or above the largest offset in a file.
bool read_size(std::string_view text, uint64_t& bytes) {
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end + 1 != text.data() + text.size()) return false;
    for (const SizeUnit& unit : size_units) {
        if (*end != unit.upper && *end != unit.lower) continue;
        if (number > uint64_t(INT64_MAX) >> unit.shift) return false;
        bytes = number << unit.shift;
        return true;
    }
    return false;
}

// Of whole megabytes: "64G".
std::string size_text(uint64_t bytes) {
    const SizeUnit* best = &size_units[0];
    for (const SizeUnit& unit : size_units)
        if (bytes != 0 && bytes % (UINT64_C(1) << unit.shift) == 0) best = &unit;
    return std::to_string(bytes >> best->shift) + best->upper;
}

}  // namespace

Refusal set_path(const Option& option, Settings& settings, const char* text, std::string&) {
    const std::string_view given = text;
    const auto refused = [&](std::string_view why) {
        return Problem{option.exit_status, "ext_path '" + std::string(given) + "' " + std::string(why) +
                                               "; give a file and its size, as in ext_path=/d/file:64G (M, G, T or P)\n"};
    };
    const size_t colon = given.rfind(':');
    if (colon == given.npos) return refused("has no size");
    if (colon == 0) return refused("has no file");
    uint64_t bytes = 0;
    if (!read_size(given.substr(colon + 1), bytes)) return refused("has a size that is not a number with a unit");
    settings.disk.path = given.substr(0, colon);
    settings.disk.bytes = bytes;
    return {};
}

std::string write_path(const Option&, const Settings& settings) {
    return settings.disk.path.empty() ? std::string() : settings.disk.path + ":" + size_text(settings.disk.bytes);
}

namespace {

Refusal check_nodes(const Settings& settings) {
    if (!settings.proxy.has_nodes()) return {};
    return Problem{exit_usage, "ext_path: values are in the nodes; give it to each farnode instead\n"};
}

Refusal check_pages(const Settings& settings) {
    const DiskSettings& disk = settings.disk;
    if (disk.bytes / 2 >= disk.page_bytes) return {};
    return Problem{exit_usage, "ext_path: " + size_text(disk.bytes) + " is less than two pages of ext_page_size (" +
                                   size_text(disk.page_bytes) + "), so each new page would drop all values; give at least " +
                                   size_text(2 * disk.page_bytes) + ", or a smaller ext_page_size\n"};
}

Refusal check_write_buffer(const Settings& settings) {
    const DiskSettings& disk = settings.disk;
    if (disk.page_bytes % disk.write_buffer_bytes == 0) return {};
    return Problem{exit_usage, "ext_page_size (" + size_text(disk.page_bytes) + ") is not a multiple of ext_wbuf_size (" +
                                   size_text(disk.write_buffer_bytes) +
                                   "), so the last write would not fit into its page; give a divisor as ext_wbuf_size\n"};
}

Refusal check_item_fits(const Settings& settings) {
    const uint64_t item = settings.memory.item_bytes_max, buffer = settings.disk.write_buffer_bytes;
    if (item <= buffer) return {};
    return Problem{exit_usage, "-I (item_size_max: " + std::to_string(item) + ") cannot be larger than ext_wbuf_size: " +
                                   std::to_string(buffer) + "; raise ext_wbuf_size, or lower -I\n"};
}

Refusal check_memory_file(const Settings& settings) {
    if (settings.disk.path != settings.memory.file) return {};
    return Problem{exit_usage, "-e and ext_path name the same file, " + settings.disk.path +
                                   ", and each would overwrite the other's data; give two files\n"};
}

}  // namespace

std::vector<Conflict> check(const Settings& settings) {
    std::vector<Conflict> conflicts;
    if (settings.disk.path.empty()) return conflicts;
    const auto add = [&](Refusal refusal, std::vector<std::string_view> keys) {
        if (refusal) conflicts.push_back({std::move(*refusal), std::move(keys)});
    };
    add(check_nodes(settings), {"ext_path"});
    add(check_pages(settings), {"ext_path", "ext_page_size"});
    add(check_write_buffer(settings), {"ext_wbuf_size", "ext_page_size"});
    add(check_item_fits(settings), {"ext_wbuf_size", "max-item-size"});
    add(check_memory_file(settings), {"ext_path", "memory-file"});
    return conflicts;
}

}  // namespace farcached::conf::disk
