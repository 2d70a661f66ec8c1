// SPDX-License-Identifier: BSD-3-Clause
// DeviceFile: what is known of a network interface, with the source of each figure. A TOML file has a table for each:
//
//     title = "ConnectX-5, 100 Gbit/s"
//     [link_gbps]
//     value = 100
//     source = "..."
//     [fetches]            # not published
//     value = 100
//     assumed = true
//     low = 50
//     high = 200
//     source = "why these"
//
// The files of known devices are part of the program. Pure: callers read files.
//
// F1  low <= value <= high, and all are equal unless the figure is assumed.
// F2  Each figure has a source.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace farcached::bench {

//        key                 least  help
#define DEVICE_FIGURES(X)                                                            \
    X(link_gbps, 0.1, "bandwidth of the link for data, each way, in Gbit/s")         \
    X(wire_ns, 0, "time through cables and switches, one way, in ns")                \
    X(pcie_gbps, 0.1, "bandwidth of PCIe into the device, in Gbit/s")                \
    X(pcie_round_trip_ns, 1, "round trip of a read over PCIe, in ns")                \
    X(in_bound_mops, 0.01, "operations of others that it serves, in million/s")      \
    X(out_bound_mops, 0.01, "operations that it issues, in million/s")               \
    X(fetches, 1, "messages whose resources it fetches at once")                     \
    X(qpc_entries, 1, "cache of contexts of queue pairs, in entries")                \
    X(mpt_entries, 1, "cache of memory protection entries, in entries")              \
    X(mtt_entries, 1, "cache of memory translation entries, in entries, one a page")

enum class DeviceFigure : uint8_t {
#define X(key, least, help) key,
    DEVICE_FIGURES(X)
#undef X
        count
};
constexpr size_t device_figures = size_t(DeviceFigure::count);

struct DeviceFigureRow {
    const char* key;
    double least;
    const char* help;
};
std::span<const DeviceFigureRow> device_figure_rows();

struct SourcedFigure {
    double value = 0, low = 0, high = 0;
    bool assumed = false;
    std::string source;
};

struct DeviceFile {
    std::string name, title;
    std::array<SourcedFigure, device_figures> figures;

    const SourcedFigure& at(DeviceFigure one) const { return figures[size_t(one)]; }
};

// Reads the text of a file. name: of the file, for errors. Returns an error, or an empty string.
std::string read_device_file(const std::string& name, std::string_view text, DeviceFile& device);

// The files within the program: cx3, cx5, cx7. Null: unknown.
std::span<const std::string_view> known_devices();
const char* known_device_text(std::string_view name);

}  // namespace farcached::bench
