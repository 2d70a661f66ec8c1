// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_reach.h"

#include <cstring>

#include "base/check.h"

namespace farcached::fabric {

OwnContainer::OwnContainer()
    : memory_(Mapping::Kind::private_memory, verbs_container_bytes, /* huge_pages= */ false) {}

std::unique_ptr<OwnContainer> OwnContainer::make(const VerbsDevice& device) {
    std::unique_ptr<OwnContainer> made(new OwnContainer());
    if (device.windows()) made->window_.reset(ibv_alloc_mw(device.domain(), IBV_MW_TYPE_2));
    const int others = made->windowed() ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_WRITE;
    made->registered_.reset(
        ibv_reg_mr(device.domain(), made->memory_.data(), verbs_container_bytes, IBV_ACCESS_LOCAL_WRITE | others));
    return made->registered_ == nullptr ? nullptr : std::move(made);
}

// The owner of a window of type 2 chooses the lowest byte of its key.
VerbsContainer OwnContainer::where() const {
    const uint32_t key = windowed() ? ibv_inc_rkey(window_->rkey) : registered_->rkey;
    return {reinterpret_cast<uint64_t>(memory_.data()), verbs_container_bytes, key};
}

void OwnContainer::bind(ibv_send_wr& work) const {
    CHECK(windowed());
    work.bind_mw.mw = window_.get();
    work.bind_mw.rkey = where().key;
    work.bind_mw.bind_info.mr = registered_.get();
    work.bind_mw.bind_info.addr = where().address;
    work.bind_mw.bind_info.length = verbs_container_bytes;
    work.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
}

void OwnContainer::copy(char* to, size_t bytes) const {
    CHECK(bytes <= container_bytes);
    std::memcpy(to, memory_.data(), bytes);
}

std::optional<VerbsContainer> OwnContainer::other() const {
    VerbsContainer said;
    std::memcpy(&said, memory_.data() + container_bytes, sizeof said);
    if (!possible(said)) return std::nullopt;
    return said;
}

}  // namespace farcached::fabric
