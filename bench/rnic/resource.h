// SPDX-License-Identifier: BSD-3-Clause
// Resource: what an RDMA network interface fetches from host memory before it can process a message, in the order of
// their dependence. ResourceCache: the cache of one kind. LRU, fully associative. Pure; one thread.
//
// C1  At most `entries` keys are present. The one that was looked up or inserted longest ago leaves first.
// C2  With the same sequence of keys, a larger cache has each key that a smaller one has.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace farcached::bench {

enum class Resource : uint8_t {
    qpc,  // context of a queue pair: where its work queue elements are
    wqe,  // work queue elements of a chunk: addresses of the data, and keys of memory regions
    mpt,  // entry of the memory protection table: access rights of a region
    mtt,  // entry of the memory translation table: the physical page
};
constexpr size_t resource_kinds = 4;
constexpr std::array<Resource, resource_kinds> resource_chain = {Resource::qpc, Resource::wqe, Resource::mpt, Resource::mtt};
constexpr std::array<const char*, resource_kinds> resource_names = {"qpc", "wqe", "mpt", "mtt"};

template <class T>
using PerResource = std::array<T, resource_kinds>;

class ResourceCache {
  public:
    // entries: 0: it holds none.
    explicit ResourceCache(uint32_t entries);
    ResourceCache(const ResourceCache&) = delete;
    ResourceCache& operator=(const ResourceCache&) = delete;
    ResourceCache(ResourceCache&&) = default;

    bool has(uint64_t key) const { return places_.contains(key); }
    // Whether the key is present; if so it becomes the newest.
    bool look(uint64_t key);
    // Makes the key present and the newest.
    void insert(uint64_t key);
    size_t size() const { return places_.size(); }

  private:
    struct Entry {
        uint64_t key;
        uint32_t newer, older;  // a ring through entries_[0], whose `older` is the newest
    };
    void unlink(uint32_t place);
    void link_newest(uint32_t place);

    const uint32_t entries_max_;
    std::vector<Entry> entries_;
    std::unordered_map<uint64_t, uint32_t> places_;
};

}  // namespace farcached::bench
