// SPDX-License-Identifier: BSD-3-Clause
// The owner of a region: every reader sees its death before its name is free (S9).
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>

#include <cerrno>
#include <string>
#include <thread>

#include "base/broken.h"
#include "t/unit/fabric/channel_fixture.h"

namespace {

using namespace channel_test;

// A node that is one process: it owns `region` under `path`, says so through the pipe, and lives
// until it is killed.
struct OwnerProcess {
    OwnerProcess(Region& region, const std::string& path) {
        if (pipe2(ready, O_CLOEXEC) != 0) tap::bail_out("pipe2");
        child.emplace([&] {
            Owner owner(region.header(), value_of(NameLock::take(path)));
            if (write(ready[1], "!", 1) != 1) return;
            for (;;) pause();
        });
        close(ready[1]);
        char byte = 0;
        alive = read(ready[0], &byte, 1) == 1;
    }
    ~OwnerProcess() { close(ready[0]); }
    int ready[2] = {-1, -1};
    bool alive = false;
    std::optional<Child> child;
};

Result<std::shared_ptr<const MappedRegion>> map(MappedRegions& regions, const Region& region) {
    const Descriptor fd(region.open_read_only());
    return regions.map(fd, region.view().region_bytes, region.view().header->incarnation);
}

// Kills an owner and waits for its lock as a successor does: once the lock is held, the word must be marked. Returns
// how often a reader would have taken the dead one for alive.
int deaths_overlooked(int rounds) {
    Folder folder;
    int overlooked = 0;
    for (int i = 0; i < rounds; i++) {
        const std::string path = folder / "node.sock";
        Region region(small_region(uint64_t(i) + 1));
        OwnerProcess owner(region, path);
        MappedRegions regions;
        const auto mapped = value_of(map(regions, region));
        if (!owner.alive || !mapped->alive()) tap::bail_out("no owner");
        const Descriptor lock(open((path + ".lock").c_str(), O_RDWR | O_CLOEXEC));
        if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) tap::bail_out("the lock was free");
        kill(owner.child->pid(), SIGKILL);
        if (flock(lock.get(), LOCK_EX) != 0) tap::bail_out("flock");
        if (mapped->alive()) overlooked++;
    }
    return overlooked;
}

void one_at_a_time() {
    Folder folder;
    const std::string path = folder / "node.sock";
    Region region(small_region(1));
    {
        auto name = value_of(NameLock::take(path));
        tap::is(error_of(NameLock::take(path)), path + ": in use by another node, process " + std::to_string(getpid()),
                "a name cannot be taken twice: the error names its owner");
        Owner owner(region.header(), std::move(name));
        tap::is(region.header().owner, uint64_t(getpid()), "the owner word is the owner's thread");
        MappedRegions regions;
        const auto mapped = value_of(map(regions, region));
        tap::ok(mapped->alive(), "a reader sees that it lives");
        tap::ok(value_of(map(regions, region)) == mapped, "a region is mapped once");
        region.header().incarnation++;
        tap::ok(!mapped->alive(), "another incarnation is not the one it mapped");
        region.header().incarnation--;
    }
    tap::is(region.header().owner, 0u, "an owner that goes gives the region up");
    tap::is(error_of(NameLock::take(path)), "", "and then its name");
    tap::is(error_of(NameLock::take("/nonexistent/x")),
            "/nonexistent/x.lock: cannot open the lock file: No such file or directory", "a folder that is not there");
    MappedRegions regions;
    tap::is(error_of(map(regions, region)), "the region has no living owner", "a region without an owner is not mapped");
}

// The kernel walks the list of the thread that ends, and no other.
void a_thread_that_ends() {
    Folder folder;
    static Owner* left_behind = nullptr;
    Region region(small_region(1));
    std::thread([&] {
        left_behind = new Owner(region.header(), value_of(NameLock::take(folder / "x")));
    }).join();
    const uint64_t word = words::load_acquire(&region.header().owner);
    tap::ok(left_behind != nullptr && (word & owner_died_bit) != 0,
            "an owner's thread that ends is marked");
    tap::ok(!names_living_owner(word), "and is no living owner");
}

// The C library's robust mutexes, which use the same list, still work after an Owner.
void robust_mutexes_still_work() {
    Folder folder;
    Region region(small_region(1));
    pthread_mutex_t mutex;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &attributes);
    std::thread([&] {
        { Owner owner(region.header(), value_of(NameLock::take(folder / "x"))); }
        pthread_mutex_lock(&mutex);
    }).join();
    tap::is(pthread_mutex_lock(&mutex), EOWNERDEAD,
            "robust mutexes work in a thread that was an owner");
    pthread_mutex_consistent(&mutex);
    pthread_mutex_unlock(&mutex);
    pthread_mutex_destroy(&mutex);
    pthread_mutexattr_destroy(&attributes);
}

// Through a channel: the node dies, the mapping stays, and none of its contents are used.
void a_node_that_is_killed() {
    Folder folder;
    const std::string path = folder / "node.sock";
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0) tap::bail_out("pipe2");
    Child node([&] {
        ShmNode own(path);
        own.region.arena()[0] = 0x1234;
        End server;
        if (write(ready[1], "!", 1) != 1) return;
        if (accept_into(*own.listener, server)) pump({&server}, [&] { return server.over; });
    });
    close(ready[1]);
    char byte = 0;
    const bool up = read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    MappedRegions regions;
    End client;
    client.channel = value_of(connect_shm(path, regions, client));
    if (!tap::ok(up && pump({&client}, [&] { return client.up || client.over; }) && client.up,
                 "a proxy is connected to a node in another process"))
        return;
    const RegionView* view = client.channel->mapped_region(0);
    tap::is(view->arena[0], 0x1234u, "and reads its memory");
    tap::ok(client.channel->owner_alive(), "whose owner lives");
    node.kill_now();
    tap::ok(!client.channel->owner_alive(),
            "after its SIGKILL the owner is dead, without a turn of the loop");
    const uint64_t arena = uint64_t(reinterpret_cast<const char*>(view->arena) - view->base);
    uint64_t landing[16];
    tap::ok(client.channel->post_read({{4711, arena, 1, 0, 128}, landing, 99}),
            "a read can still be posted");
    tap::ok(pump({&client}, [&] { return client.over; }), "the channel ends");
    tap::is(client.ending(), "owner_dead", "by the owner's death");
    tap::is(client.reads.size(), 1u, "after the read was reported");
    if (!client.reads.empty())
        tap::is(client.reads[0].second, ReadStatus::owner_dead, "as one of a dead owner's memory");
    ShmNode successor(path, {}, 4712);
    End again;
    again.channel = value_of(connect_shm(path, regions, again));
    End server;
    tap::ok(accept_into(*successor.listener, server) &&
                pump({&again, &server}, [&] { return again.up; }),
            "a successor takes the name, the socket and the proxy");
    tap::is(again.channel->mapped_region(0)->header->incarnation, 4712u, "with memory of its own");
}

}  // namespace

int main() {
    if (broken::must_catch()) {
        tap::ok(deaths_overlooked(3) > 0, "a reader that ignores the owner word is caught");
        return tap::done();
    }
    one_at_a_time();
    a_thread_that_ends();
    robust_mutexes_still_work();
    tap::is(deaths_overlooked(100), 0,
            "the next holder of the lock sees each of 100 killed owners dead");
    a_node_that_is_killed();
    return tap::done();
}
