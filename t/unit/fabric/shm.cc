// SPDX-License-Identifier: BSD-3-Clause
// The parts special to the channel over shared memory: hostile peers, admission, wake-ups, and reads of a region that
// is being written.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <string>
#include <thread>

#include "t/unit/fabric/shm_fixture.h"

namespace {

using namespace shm_test;

// ---- greetings that are none
// --------------------------------------------------------------------------

template <class Say>
void node_refuses(ShmNode& node, Say say, const std::string& why, const char* name) {
    RawProxy proxy(node.owner->path());
    say(proxy);
    End server;
    accept_into(*node.listener, server);
    pump({&server}, [&] { return server.over; });
    tap::is(server.ending(), "handshake", std::string("a node refuses ") + name);
    auto told = proxy.meet();
    tap::is(told ? told->text : "welcome", why, "with the reason");
}

void wrong_hellos() {
    Folder folder;
    ShmNode node(folder / "node.sock");
    auto saying = [](auto change) {
        return [=](RawProxy& proxy) {
            ShmHello hello = good_hello();
            change(hello);
            if (!send_hello(proxy.socket.get(), hello)) tap::bail_out("send_hello");
        };
    };
    node_refuses(node, saying([](ShmHello& h) { h.magic++; }), "the received bytes are no greeting",
                 "another magic");
    node_refuses(node, saying([](ShmHello& h) { h.version = 7; }),
                 "the proxy speaks shm version 7, this side 3", "another version");
    node_refuses(node, saying([](ShmHello& h) { h.ring_bytes = 12345; }),
                 "rings of 12345 bytes cannot be", "rings of an odd size");
    node_refuses(
        node, [](RawProxy& proxy) { (void)send(proxy.socket.get(), "get x\r\n", 7, 0); },
        "the received bytes are no greeting", "a memcached client");
    node_refuses(
        node,
        [](RawProxy& proxy) {
            ShmHello hello = good_hello();
            (void)send(proxy.socket.get(), &hello, sizeof hello - 1, 0);
        },
        "a greeting of the wrong size", "a greeting cut short");
    RawProxy silent(node.owner->path());
    End server;
    accept_into(*node.listener, server);
    tap::is(idle_wakeups({&server}, 50), 0u, "a silent one causes no wake-up");
    silent.socket.reset();
    tap::ok(pump({&server}, [&] { return server.over; }), "until it goes");
    RawProxy other(node.owner->path());
    saying([](ShmHello& h) { h.layout_hash++; })(other);
    End with_other;
    accept_into(*node.listener, with_other);
    turn({&with_other}, 1000);
    tap::ok(!other.meet().has_value() && other.welcome.region_count == 0,
            "one of another layout may talk, but gets no region");
}

struct Lie {
    const char* name;
    std::function<void(ShmWelcome&, ShmDescriptors&)> tell;
    const char* text;
};

Descriptor read_only(const Descriptor& file) {
    return Descriptor(open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDONLY | O_CLOEXEC));
}

std::vector<Lie> lies_of_nodes(const Region& region) {
    const uint64_t bytes = region.view().region_bytes,
                   incarnation = region.view().header->incarnation;
    auto with_region = [=](ShmWelcome& w) {
        w.region_count = 1;
        w.region_bytes = bytes;
        w.incarnation = incarnation;
    };
    auto file_of = [](size_t size, unsigned seals) {
        Descriptor file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        if (ftruncate(file.get(), off_t(size)) != 0) tap::bail_out("ftruncate");
        if (seals != 0) (void)fcntl(file.get(), F_ADD_SEALS, seals);
        return file;
    };
    const char* not_sealed = "the region is neither sealed memory nor a file of this user";
    const char* not_read_only = "the region's descriptor is not for reading only";
    return {
        {"another magic", [](ShmWelcome& w, ShmDescriptors&) { w.magic++; },
         "the received bytes are no greeting"},
        {"another version", [](ShmWelcome& w, ShmDescriptors&) { w.version = 9; },
         "the node speaks shm version 9, this side 3"},
        {"a version that was not asked for", [](ShmWelcome& w, ShmDescriptors&) { w.version = 1; },
         "a greeting of a version that was not requested"},
        {"rings of another size", [](ShmWelcome& w, ShmDescriptors&) { w.ring_bytes *= 2; },
         "the memory of the connection differs from the announcement"},
        {"rings of no size", [](ShmWelcome& w, ShmDescriptors&) { w.ring_bytes = 0; },
         "the memory of the connection differs from the announcement"},
        {"memory that can shrink",
         [=](ShmWelcome&, ShmDescriptors& d) {
             d.link = file_of(LinkMemory::bytes(ring_bytes_min), 0);
         },
         "the memory of the connection differs from the announcement"},
        {"memory without a head",
         [=](ShmWelcome&, ShmDescriptors& d) {
             d.link = file_of(LinkMemory::bytes(ring_bytes_min), F_SEAL_SHRINK);
         },
         "the memory of the connection differs from the announcement"},
        {"a file for an eventfd",
         [=](ShmWelcome&, ShmDescriptors& d) { d.wake_proxy = file_of(8, 0); },
         "Operation not permitted"},
        {"a region that can shrink",
         [=](ShmWelcome& w, ShmDescriptors& d) {
             with_region(w);
             d.region = read_only(file_of(bytes, 0));
         },
         not_sealed},
        {"a region that can be written",
         [=](ShmWelcome& w, ShmDescriptors& d) {
             with_region(w);
             d.region = file_of(bytes, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
         },
         not_read_only},
        {"a region of another size",
         [=, &region](ShmWelcome& w, ShmDescriptors& d) {
             with_region(w);
             w.region_bytes -= 8;
             d.region.reset(region.open_read_only());
         },
         "the region's size differs from the announced one"},
        {"a region of another incarnation",
         [=, &region](ShmWelcome& w, ShmDescriptors& d) {
             with_region(w);
             w.incarnation++;
             d.region.reset(region.open_read_only());
         },
         "the region is of another incarnation"},
    };
}

void wrong_welcomes() {
    Folder folder;
    ShmNode real(folder / "real.sock");
    const std::string path = folder / "raw.sock";
    RawNode raw(path);
    MappedRegions regions;
    for (const Lie& lie : lies_of_nodes(real.region)) {
        End client;
        client.channel = value_of(connect_shm(path, regions, client));
        ShmWelcome welcome = good_welcome();
        ShmDescriptors given;
        lie.tell(welcome, given);
        raw.answer(welcome, std::move(given));
        pump({&client}, [&] { return client.up || client.over; });
        tap::is(client.ending(), "handshake", std::string("a proxy refuses ") + lie.name);
        tap::is(client.text,
                "shm:" + path + ": the peer does not use this transport's handshake (" +
                    lie.text + ")",
                "with the reason");
    }
}

// A region with a false header is not mapped; one whose header becomes false later sends no reader out of it.
void lying_regions() {
    Folder folder;
    struct Change {
        const char* name;
        std::function<void(Region&)> change;
    };
    const Change changes[] = {
        {"magic", [](Region& r) { r.header().magic++; }},
        {"version", [](Region& r) { r.header().version++; }},
        {"size", [](Region& r) { r.header().region_bytes--; }},
        {"partitions", [](Region& r) { r.header().partition_count_log2 = 31; }},
        {"partition table", [](Region& r) { r.header().partitions_offset = UINT64_MAX - 63; }},
        {"page table", [](Region& r) { r.header().pages_offset = r.view().region_bytes; }},
        {"pages", [](Region& r) { r.header().page_count = UINT64_MAX; }},
        {"arena", [](Region& r) { r.header().arena_offset += 64; }},
        {"buckets", [](Region& r) { r.partition(0).buckets_offset = r.view().region_bytes - 64; }},
        {"no buckets", [](Region& r) { r.partition(0).buckets_max = 0; }},
        {"overflow", [](Region& r) { r.partition(0).overflow_max = UINT64_MAX / 2; }},
        {"dead owner", [](Region& r) { r.header().owner |= owner_died_bit; }},
    };
    int mapped = 0;
    for (const Change& lie : changes) {
        Region region(small_region(5));
        region.header().owner = 1;
        lie.change(region);
        MappedRegions regions;
        const Descriptor fd(region.open_read_only());
        if (!error_of(regions.map(fd, region.view().region_bytes, 5)).empty()) continue;
        mapped++;
        tap::note("mapped in spite of its %s", lie.name);
    }
    tap::is(mapped, 0, "no region whose header lies is mapped");
    Region region(small_region(5));
    region.header().owner = 1;
    MappedRegions regions;
    const Descriptor fd(region.open_read_only());
    const auto seen = value_of(regions.map(fd, region.view().region_bytes, 5));
    tap::ok(seen != nullptr, "one that does not is");
    tap::ok(mprotect(const_cast<char*>(seen->view().base), 4096, PROT_READ | PROT_WRITE) != 0,
            "and cannot be written through the mapping");
    const std::string reopened = "/proc/self/fd/" + std::to_string(fd.get());
    const Descriptor writable(open(reopened.c_str(), O_RDWR | O_CLOEXEC));
    tap::ok(mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, writable.get(), 0) == MAP_FAILED &&
                pwrite(writable.get(), "x", 1, 0) < 0 && ftruncate(writable.get(), 0) != 0,
            "nor through its descriptor opened again");
    region.arena()[0] = 1;
    tap::is(seen->view().arena[0], 1u, "while its owner goes on writing");
    region.partition(0).bucket_count = UINT64_MAX;
    region.partition(0).buckets_offset = UINT64_C(1) << 60;
    region.partition(0).overflow_offset = UINT64_C(1) << 60;
    region.partition(0).overflow_max = UINT64_MAX;
    for (uint32_t i = 0; i < 16; i++) region.buckets(0);
    tap::is(seen->view().shapes[0].buckets_offset, region.view().shapes[0].buckets_offset,
            "what is changed later changes nothing for a reader");
}

// ---- positions that cannot be
// ---------------------------------------------------------------------------

void lying_positions() {
    Folder folder;
    ShmNode node(folder / "node.sock");
    const uint64_t ring = ring_bytes_default;
    struct Position {
        const char* name;
        uint64_t tail, head;
    };
    const Position lies[] = {
        {"more written than fits", ring + 1, 0},
        {"a writer before its beginning", UINT64_MAX, 0},
        {"a writer half the world away", UINT64_C(1) << 63, 0},
        {"read what was never written", 0, 1000},
        {"a reader before its beginning", 0, UINT64_MAX - ring},
    };
    for (const Position& lie : lies) {
        RawProxy proxy(node.owner->path());
        if (!send_hello(proxy.socket.get(), good_hello())) tap::bail_out("send_hello");
        End server;
        accept_into(*node.listener, server);
        turn({&server}, 1000);
        if (proxy.meet()) tap::bail_out("no welcome");
        proxy.link->shared().to_node.tail = lie.tail;
        proxy.link->shared().to_proxy.head = lie.head;
        proxy.wake();
        std::string much(ring * 2, 'x');
        server.send(much);
        pump({&server}, [&] { return server.over; });
        tap::is(server.ending(), "corrupt", lie.name);
    }
}

// Arbitrary contents in the shared memory, from either side: the channel ends or goes on. It never reads or writes
// elsewhere, which the sanitizers check.
void garbage_everywhere() {
    Folder folder;
    const std::string path = folder / "raw.sock";
    RawNode raw(path);
    ShmNode node(folder / "node.sock");
    MappedRegions regions;
    std::mt19937_64 random(1);
    int over = 0, rounds = 400;
    for (int i = 0; i < rounds; i++) {
        End victim;
        LinkMemory* link = nullptr;
        RawProxy proxy(node.owner->path());
        std::function<void()> wake;
        if (i % 2 == 0) {
            (void)send_hello(proxy.socket.get(), good_hello());
            accept_into(*node.listener, victim);
            turn({&victim}, 1000);
            if (proxy.meet()) tap::bail_out("no welcome");
            link = proxy.link.get();
            wake = [&] { proxy.wake(); };
        } else {
            victim.channel = value_of(connect_shm(path, regions, victim));
            raw.answer(good_welcome(), {});
            turn({&victim}, 1000);
            link = raw.link.get();
            wake = [&] { raw.wake(); };
            End unused;
            proxy.socket.reset();
            accept_into(*node.listener, unused);
        }
        for (int step = 0; step < 20 && !victim.over; step++) {
            auto* words = reinterpret_cast<uint64_t*>(&link->shared());
            const uint64_t position = random() % 4 == 0 ? random() : random() % 300'000;
            constexpr size_t ours[] = {16, 24, 32, 40, 48, 64};  // positions and sleep words
            words[random() % 8 == 0 ? random() % 80 : ours[random() % 6]] = position;
            wake();
            turn({&victim}, 0);
            if (victim.over) break;
            victim.channel->out().append(std::string(random() % 40'000, 'y'));
            victim.channel->flush();
            if (!victim.over && victim.channel->linger()) victim.channel->ready();
        }
        if (victim.over) over++;
    }
    tap::note("%d of %d ended", over, rounds);
    tap::ok(over > rounds / 2, "garbage in shared memory ends a channel, or does nothing");
}

// ---- admission
// ------------------------------------------------------------------------------------

void refusals() {
    Folder folder;
    MappedRegions regions;
    auto ending_at = [&](const std::string& path) {
        End client;
        client.channel = value_of(connect_shm(path, regions, client));
        pump({&client}, [&] { return client.over || client.up; });
        return client.ending();
    };
    tap::is(ending_at(folder / "nobody.sock"), "refused", "a path that is not there is refused");
    { RawNode gone(folder / "gone.sock"); }
    tap::is(ending_at(folder / "gone.sock"), "refused", "and a socket without a listener");
    Descriptor stream(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = unix_address(folder / "stream.sock");
    (void)bind(stream.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    (void)listen(stream.get(), 1);
    tap::is(ending_at(folder / "stream.sock"), "handshake",
            "another kind of socket is no handshake");
    End nothing;
    tap::is(error_of(connect_shm(std::string(200, 'x'), regions, nothing)),
            "shm:" + std::string(200, 'x') + ": a path of 1 to 107 bytes is needed", "a path that is too long is no channel");
    ShmNode stale(folder / "gone.sock");
    struct stat made {};
    (void)stat(stale.owner->path().c_str(), &made);
    tap::is(made.st_mode & 0777, 0600u, "a left socket is replaced by one for its user alone");
    if (geteuid() != 0) return tap::skip(2, "needs root to become another user");
    (void)chmod(stale.owner->path().c_str(), 0666);
    (void)chmod((folder / "").c_str(), 0755);
    int result[2];
    if (pipe2(result, O_CLOEXEC) != 0) tap::bail_out("pipe2");
    Child stranger([&] {
        if (seteuid(65534) != 0) return;
        const std::string end = ending_at(stale.owner->path());
        (void)!write(result[1], end.data(), end.size());
    });
    End server;
    accept_into(*stale.listener, server);
    pump({&server}, [&] { return server.over; });
    tap::is(server.ending(), "permission", "another user is refused");
    char text[32] = {};
    (void)!read(result[0], text, sizeof text - 1);
    // To that user the node is another user's, too, but root's is admitted: the node's answer
    // decides.
    tap::is(std::string(text), "permission", "and gets the reason");
    close(result[0]);
    close(result[1]);
}

constexpr uid_t node_user = 12344, stranger_user = 12345;
constexpr gid_t stranger_group = 12346;
constexpr gid_t unmapped = 65534;

// How a node and a proxy of another user and of that group end; "none, up": they do not.
std::string ending_of_stranger(bool node_admits, bool proxy_trusts, gid_t group) {
    Folder folder;
    ShmOptions options;
    options.group = node_admits;
    (void)chmod((folder / "").c_str(), 0777);
    const mode_t before = umask(0077);
    if (seteuid(node_user) != 0) tap::bail_out("seteuid");
    ShmNode node(folder / "node.sock", options);
    if (seteuid(0) != 0) tap::bail_out("seteuid");
    umask(before);
    struct stat made {};
    (void)stat(node.owner->path().c_str(), &made);
    tap::is(made.st_mode & 0777, node_admits ? 0660u : 0600u, "umask() does not change the mode of the socket");
    (void)chmod(node.owner->path().c_str(), 0666);
    int result[2];
    if (pipe2(result, O_CLOEXEC) != 0) tap::bail_out("pipe2");
    Child stranger([&] {
        if (setegid(group) != 0 || seteuid(stranger_user) != 0) return;
        MappedRegions regions;
        ShmOptions own;
        own.group = proxy_trusts;
        End client;
        client.channel = value_of(connect_shm(node.owner->path(), regions, client, own));
        pump({&client}, [&] { return client.over || client.up; });
        const std::string end = client.up ? "up" : client.ending();
        (void)!write(result[1], end.data(), end.size());
        pause();  // until it is killed, so that the connection stays
    });
    End server;
    accept_into(*node.listener, server);
    pollfd answered{result[0], POLLIN, 0};
    pump({&server}, [&] { return poll(&answered, 1, 0) == 1; });
    char text[32] = {};
    (void)!read(result[0], text, sizeof text - 1);
    close(result[0]);
    close(result[1]);
    return std::string(server.ending()) + ", " + text;
}

void other_users_of_the_group() {
    if (geteuid() != 0) return tap::skip(10, "needs root to become another user");
    const std::string permission = "permission, permission";
    tap::is(ending_of_stranger(true, true, getegid()), "none, up", "another user of the group, admitted by both");
    tap::is(ending_of_stranger(false, true, getegid()), permission, "by the proxy alone: refused");
    tap::ok(ending_of_stranger(true, false, getegid()).ends_with(", permission"), "by the node alone: refused");
    tap::ok(ending_of_stranger(true, true, stranger_group).ends_with(", permission"), "another group: refused");
    const gid_t before = getegid();
    if (setegid(unmapped) != 0) return tap::skip(2, "cannot change its group");
    tap::ok(ending_of_stranger(true, true, unmapped).ends_with(", permission"),
            "what the kernel shows for unknown groups is no group");
    (void)!setegid(before);
}

// ---- wake-ups
// -----------------------------------------------------------------------------------------

void wakes_sleepers_only() {
    Folder folder;
    ShmNode node(folder / "node.sock");
    MappedRegions regions;
    Transport transport = shm_transport(node, regions);
    End client, server;
    if (!tap::ok(join(transport, client, server), "joined")) return;
    while (turn({&client, &server}, 20)) {
    }
    const uint64_t rung = shm_counters(*client.channel).rung, woken = server.wakeups;
    for (int i = 0; i < 1000; i++) client.send("x");
    tap::is(shm_counters(*client.channel).rung - rung, 1u,
            "of 1000 messages to a sleeper one wakes it");
    tap::ok(pump({&client, &server}, [&] { return server.bytes.size() == 1000; }),
            "it gets them all");
    tap::is(server.wakeups - woken, 1u, "by one wake-up");
    tap::is(shm_counters(*server.channel).rung, 0u, "and the room that it made rings no bell");
    for (int i = 0; i < 2000; i++) {
        client.send("y");
        if (client.channel->linger()) client.channel->ready();
    }
    const ShmCounters& counters = shm_counters(*client.channel);
    tap::note("%llu looks in %llu of 2000 calls", static_cast<unsigned long long>(counters.spins),
              static_cast<unsigned long long>(counters.lingered));
    tap::ok(counters.lingered < 60, "lingering that does not pay stops");
    for (int i = 0; i < 4000; i++) {  // woken before it lingers, or while
        client.send("z");
        server.channel->ready();
        server.send("w");
        if (client.channel->linger()) client.channel->ready();
    }
    pump({&client, &server}, [&] { return client.bytes.size() == 4000; });
    tap::is(client.bytes.size(), 4000u, "nothing is lost over it");
    tap::is(idle_wakeups({&client, &server}, 100), 0u, "idle, it costs nothing");
}

// ---- reads
// ------------------------------------------------------------------------------------------------

void posted_reads() {
    Folder folder;
    ShmNode node(folder / "node.sock");
    for (uint64_t i = 0; i < 1000; i++) node.region.arena()[i] = i * 3;
    const uint64_t arena = node.region.view().region_bytes - node.region.view().arena_bytes;
    MappedRegions regions;
    Transport transport = shm_transport(node, regions);
    End client, server;
    if (!tap::ok(join(transport, client, server), "joined for reads")) return;
    tap::ok(client.channel->can_read() && !server.channel->can_read(), "the proxy's side can read");
    tap::ok(
        client.channel->mapped_region(0) != nullptr && client.channel->mapped_region(1) == nullptr,
        "and has one region mapped");
    uint64_t landing[32] = {}, other[32] = {};
    while (turn({&client, &server}, 20)) {
    }
    tap::ok(client.channel->post_read({{4711, arena + 80, 1, 0, 77}, landing, 1}),
            "a read is taken");
    tap::ok(client.channel->post_read({{4712, arena + 80, 1, 0, 77}, other, 2}), "and another");
    client.channel->flush();
    tap::is(client.reads.size(), 0u, "posting and flushing cause no event");
    tap::ok(pump({&client}, [&] { return client.reads.size() == 2; }),
            "but its owner is woken for it");
    tap::ok(client.reads[0] == std::pair(uint64_t(1), ReadStatus::done),
            "a read of this incarnation is done");
    tap::ok(client.reads[1] == std::pair(uint64_t(2), ReadStatus::failed), "one of another fails");
    bool right = true;
    for (uint64_t i = 0; i < 10; i++) right = right && landing[i] == (i + 10) * 3;
    tap::ok(right && landing[10] == 0, "with the words that are there, rounded up and no more");
    size_t taken = 0;
    while (client.channel->post_read({{4711, arena, 1, 0, 64}, landing, taken})) taken++;
    tap::is(taken, 1024u, "no more than so many can be under way");
    tap::ok(pump({&client}, [&] { return client.reads.size() == 1026; }), "and then they are reported");
    tap::ok(client.channel->post_read({{4711, arena, 1, 0, 64}, landing, 0}), "and others can be");
    client.channel->close();
    pump({&client}, [&] { return client.over; });
    tap::is(client.reads.size(), 1026u, "after close() no read completes");
    const RegionView* view = client.channel->mapped_region(0);
    tap::ok(view != nullptr && view->arena[1] == 3, "the mapping stays as long as the channel");
}

// An item that is replaced all the time: | guard | hash | 30 words |. Words with a valid hash must be of one version.
void reads_of_what_is_written() {
    Folder folder;
    ShmNode node(folder / "node.sock");
    const uint64_t arena = node.region.view().region_bytes - node.region.view().arena_bytes;
    MappedRegions regions;
    Transport transport = shm_transport(node, regions);
    End client, server;
    if (!tap::ok(join(transport, client, server), "joined for races")) return;
    constexpr size_t item_words = 32;
    std::atomic<bool> stop{false};
    std::thread writer([&] {
        uint64_t* item = node.region.arena();
        for (uint64_t n = 1; !stop.load(std::memory_order_relaxed); n++) {
            uint64_t body[item_words - 2];
            for (uint64_t& word : body) word = n;
            words::store_relaxed(item, n);
            words::store_relaxed(item + 1, hash_bytes(body, sizeof body, n));
            for (size_t i = 0; i < item_words - 2; i++) words::store_relaxed(item + 2 + i, body[i]);
        }
    });
    uint64_t whole = 0, torn = 0, wrong = 0, landing[item_words];
    for (int i = 0; i < 50'000; i++) {
        client.reads.clear();
        (void)client.channel->post_read({{4711, arena, 1, 0, item_words * 8}, landing, 1});
        client.channel->ready();
        if (client.reads.size() != 1 || client.reads[0].second != ReadStatus::done) wrong++;
        if (hash_bytes(landing + 2, sizeof landing - 16, landing[0]) != landing[1]) {
            torn++;
            continue;
        }
        whole++;
        for (size_t k = 2; k < item_words; k++)
            if (landing[k] != landing[0]) wrong++;
    }
    stop = true;
    writer.join();
    tap::note("%llu whole, %llu torn", static_cast<unsigned long long>(whole),
              static_cast<unsigned long long>(torn));
    tap::is(wrong, 0u, "what a writer overwrites is read torn or whole, and the check decides which");
    tap::ok(whole + torn == 50'000, "and every read is reported");
}

}  // namespace

int main() {
    wrong_hellos();
    wrong_welcomes();
    lying_regions();
    lying_positions();
    garbage_everywhere();
    refusals();
    other_users_of_the_group();
    wakes_sleepers_only();
    posted_reads();
    reads_of_what_is_written();
    return tap::done();
}
