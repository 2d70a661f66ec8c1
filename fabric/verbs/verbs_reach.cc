// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_reach.h"

#include <cstring>
#include <utility>

#include "base/check.h"

namespace farcached::fabric {

// ---- windows ------------------------------------------------------------------------------------------

// The owner of a window of type 2 chooses the lowest byte of its key.
bool VerbsWindow::make(const VerbsDevice& device) {
    window_.reset(device.windows() ? ibv_alloc_mw(device.domain(), IBV_MW_TYPE_2) : nullptr);
    if (window_ != nullptr) key_ = ibv_inc_rkey(window_->rkey);
    return window_ != nullptr;
}

void VerbsWindow::bind(ibv_send_wr& work, ibv_mr* memory, uint64_t address, uint64_t bytes, unsigned access) const {
    CHECK(there());
    work.bind_mw.mw = window_.get();
    work.bind_mw.rkey = key_;
    work.bind_mw.bind_info.mr = memory;
    work.bind_mw.bind_info.addr = address;
    work.bind_mw.bind_info.length = bytes;
    work.bind_mw.bind_info.mw_access_flags = access;
}

// ---- memory that the other end READs ------------------------------------------------------------------

Refusal VerbsReach::lend(VerbsDevice& device, const VerbsMemory& memory) {
    if (!device.windows()) return use(device, memory, VerbsAccess::remote_read);
    if (memory.bytes == 0) return {};
    if (Refusal no = use(device, memory, VerbsAccess::windowed)) return no;
    if (window_.make(device)) return {};
    own_[size_t(VerbsAccess::windowed)].reset();
    return system_problem(std::string(device.name()) + " has no memory window left");
}

uint32_t VerbsReach::lent_key() const {
    if (window_.there()) return window_.key();
    const ibv_mr* memory = own(VerbsAccess::remote_read);
    return memory == nullptr ? 0 : memory->rkey;
}

bool VerbsReach::lends() const { return window_.there() || own(VerbsAccess::remote_read) != nullptr; }

void VerbsReach::bind(ibv_send_wr& work) const {
    const auto& memory = own_[size_t(VerbsAccess::windowed)];
    ibv_mr* registered = memory->get();
    window_.bind(work, registered, reinterpret_cast<uint64_t>(registered->addr), registered->length, IBV_ACCESS_REMOTE_READ);
}

// ---- memory of one connection -------------------------------------------------------------------------

std::unique_ptr<ConnectionMemory> ConnectionMemory::make(const VerbsDevice& device, size_t bytes, unsigned access) {
    std::unique_ptr<ConnectionMemory> made(new ConnectionMemory(bytes, access));
    const unsigned others = made->window_.make(device) ? unsigned(IBV_ACCESS_MW_BIND) : access;
    made->registered_.reset(ibv_reg_mr(device.domain(), made->data(), bytes, int(IBV_ACCESS_LOCAL_WRITE | others)));
    return made->registered_ == nullptr ? nullptr : std::move(made);
}

uint32_t ConnectionMemory::key() const { return windowed() ? window_.key() : registered_->rkey; }

void ConnectionMemory::bind(ibv_send_wr& work) const { window_.bind(work, registered_.get(), address(), bytes_, access_); }

std::unique_ptr<OwnContainer> OwnContainer::make(const VerbsDevice& device) {
    auto memory = ConnectionMemory::make(device, verbs_container_bytes, IBV_ACCESS_REMOTE_WRITE);
    return memory == nullptr ? nullptr : std::unique_ptr<OwnContainer>(new OwnContainer(std::move(memory)));
}

VerbsContainer OwnContainer::where() const { return {memory_->address(), verbs_container_bytes, memory_->key()}; }

void OwnContainer::copy(char* to, size_t bytes) const {
    CHECK(bytes <= container_bytes);
    std::memcpy(to, memory_->data(), bytes);
}

std::optional<VerbsContainer> OwnContainer::other() const {
    VerbsContainer said;
    std::memcpy(&said, memory_->data() + container_bytes, sizeof said);
    if (!possible(said)) return std::nullopt;
    return said;
}

}  // namespace farcached::fabric
