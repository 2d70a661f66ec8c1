// SPDX-License-Identifier: BSD-3-Clause
// The device files within the program. Sources: "Ma" is Ma et al., Toward Scalable RDMA Through Resource Prefetching, IEEE
// Computer Architecture Letters 2025. "RFP" is the paper of Jakiro, which measured ConnectX-3 (MT27500) at 40 Gbit/s.
#include <algorithm>
#include <iterator>

#include "bench/capacity/device_file.h"

namespace farcached::bench {

namespace {

constexpr const char* cx3 = R"toml(# ConnectX-3 as the RFP paper measured it.
title = "ConnectX-3, 40 Gbit/s"

[link_gbps]
value = 25.9
source = "RFP, section III.B: both directions are equal from 1.5 KB, at 2.11 million operations/s"

[wire_ns]
value = 300
assumed = true
low = 100
high = 600
source = "cable and one switch; depends on the network"

[pcie_gbps]
value = 63
source = "PCIe 3.0 x8: 8 GT/s, 8 lanes, 128 of 130 bits"

[pcie_round_trip_ns]
value = 500
assumed = true
low = 300
high = 900
source = "Ma, section IV, for a later device"

[in_bound_mops]
value = 11.26
source = "RFP, Figure 1 and Table II"

[out_bound_mops]
value = 2.11
source = "RFP, Tables I and II"

[fetches]
value = 32
assumed = true
low = 16
high = 64
source = "not published; enough for the in-bound rate without misses"

[qpc_entries]
value = 512
assumed = true
low = 128
high = 2048
source = "not published; Ma found 2048 with a later device"

[mpt_entries]
value = 512
assumed = true
low = 128
high = 2048
source = "not published"

[mtt_entries]
value = 2048
assumed = true
low = 512
high = 16384
source = "not published"
)toml";

constexpr const char* cx5 = R"toml(# ConnectX-5 as Ma et al. measured and modelled it.
title = "ConnectX-5, 100 Gbit/s"

[link_gbps]
value = 100
source = "Ma, section IV"

[wire_ns]
value = 300
assumed = true
low = 100
high = 600
source = "cable and one switch; depends on the network"

[pcie_gbps]
value = 128
source = "Ma, section IV: PCIe 3.0 x16"

[pcie_round_trip_ns]
value = 500
source = "Ma, section IV"

[in_bound_mops]
value = 70
assumed = true
low = 35
high = 140
source = "Ma has only the rate of sending, Figure 4"

[out_bound_mops]
value = 70
source = "Ma, Figures 4 and 5"

[fetches]
value = 100
assumed = true
low = 50
high = 200
source = "the fit to Ma, Figure 4: 5 chunks of 20 messages (farbench rnic)"

[qpc_entries]
value = 2048
source = "Ma, Figure 3: the rate falls beyond 2048 queue pairs"

[mpt_entries]
value = 2048
assumed = true
low = 512
high = 8192
source = "not published; as many as contexts"

[mtt_entries]
value = 4096
assumed = true
low = 1024
high = 32768
source = "not published"
)toml";

constexpr const char* cx7 = R"toml(# ConnectX-7. Its vendor publishes link and bus; all else is assumed.
title = "ConnectX-7, 400 Gbit/s"

[link_gbps]
value = 400
source = "NVIDIA, product brief of ConnectX-7: up to 400 Gb/s"

[wire_ns]
value = 300
assumed = true
low = 100
high = 600
source = "cable and one switch; depends on the network"

[pcie_gbps]
value = 504
source = "PCIe 5.0 x16: 32 GT/s, 16 lanes, 128 of 130 bits"

[pcie_round_trip_ns]
value = 500
assumed = true
low = 300
high = 700
source = "Ma, section IV, for an earlier device"

[in_bound_mops]
value = 150
assumed = true
low = 70
high = 300
source = "at least ConnectX-5's; the vendor's rate of packets is no rate of operations"

[out_bound_mops]
value = 150
assumed = true
low = 70
high = 300
source = "at least ConnectX-5's"

[fetches]
value = 200
assumed = true
low = 100
high = 400
source = "not published; twice ConnectX-5's"

[qpc_entries]
value = 8192
assumed = true
low = 2048
high = 32768
source = "not published; at least ConnectX-5's"

[mpt_entries]
value = 8192
assumed = true
low = 2048
high = 32768
source = "not published"

[mtt_entries]
value = 16384
assumed = true
low = 4096
high = 131072
source = "not published"
)toml";

constexpr std::string_view names[] = {"cx3", "cx5", "cx7"};
constexpr const char* texts[] = {cx3, cx5, cx7};

}  // namespace

std::span<const std::string_view> known_devices() { return names; }

const char* known_device_text(std::string_view name) {
    const auto found = std::find(std::begin(names), std::end(names), name);
    return found == std::end(names) ? nullptr : texts[found - std::begin(names)];
}

}  // namespace farcached::bench
