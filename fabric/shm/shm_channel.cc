// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/shm/shm_channel.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/prefetch.h"
#include "fabric/shm/shm_greeting.h"
#include "fabric/shm/shm_internal.h"
#include "fabric/socket.h"
#include "protocol/layout_hash.h"
#include "protocol/words.h"

namespace farcached::fabric {

namespace {

constexpr size_t reads_max = 1024;    // posted and not reported

}  // namespace

ShmChannel::ShmChannel(Side side, Descriptor socket, Descriptor poller, std::string name,
                       ChannelEvents& events, const ShmOptions& options)
    : StreamChannel(std::move(poller), std::move(name), events, options.input_bytes_max),
      side_(side),
      options_(options),
      socket_(std::move(socket)),
      spins_(options.spins_max, Spins::least) {}

// ---- the connection ---------------------------------------------------------------------------------

void ShmChannel::connect(const sockaddr_un& to, MappedRegions& regions) {
    regions_ = &regions;
    to_ = to;
    hail();
    if (ending()) hang_up();
}

void ShmChannel::hail() {
    ShmHello hello{};
    hello.magic = shm_hello_magic;
    hello.version = version_;
    hello.layout_version = layout::spoken().version;
    hello.layout_hash = layout::spoken().hash;
    hello.ring_bytes = options_.ring_bytes;
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to_), sizeof to_) != 0) {
        if (errno == EAGAIN)
            end(ChannelEnd::refused, "its queue of connections is full");
        else if (errno == EPROTOTYPE)
            end(ChannelEnd::handshake, "it is another kind of socket");
        else
            end_with_errno(channel_end_of(errno), errno);
    } else if (const Refusal stranger = refuse_peer(socket_.get(), options_.group)) {
        end(ChannelEnd::permission, stranger->text);
    } else if (!send_hello(socket_.get(), hello)) {
        end_with_errno(channel_end_of(errno), errno);
    }
}

// Sends the hello again in the older version of a node; false: this side does not speak that version.
bool ShmChannel::hail_again(uint32_t version) {
    if (version >= version_ || version < shm_version_lowest) return false;
    version_ = version;
    socket_ = shm_socket();
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.fd = socket_.get();
    if (!socket_ || epoll_ctl(poller(), EPOLL_CTL_ADD, socket_.get(), &event) != 0)
        end_with_errno(ChannelEnd::system, errno);
    else
        hail();
    return true;
}

void ShmChannel::advance() {
    if (side_ == Side::node)
        welcome_proxy();
    else
        meet_node();
}

void ShmChannel::refuse(ShmRefusal reason, ChannelEnd why, const std::string& text) {
    (void)send_refusal(socket_.get(), reason, text, version_);
    end(why, text);
}

void ShmChannel::welcome_proxy() {
    ShmHello hello{};
    if (auto no = receive_hello(socket_.get(), hello)) {
        if (no->yet) return;
        if (no->why == ChannelEnd::handshake)
            (void)send_refusal(socket_.get(), ShmRefusal::handshake, no->text);
        return end(no->why, no->text);
    }
    version_ = hello.version;
    if (const Refusal stranger = refuse_peer(socket_.get(), options_.group))
        return refuse(ShmRefusal::permission, ChannelEnd::permission, stranger->text);
    const uint32_t ring_bytes = hello.ring_bytes == 0 ? options_.ring_bytes : hello.ring_bytes;
    if (!ring_bytes_valid(ring_bytes) || hello.reserved != 0)
        return refuse(ShmRefusal::handshake, ChannelEnd::handshake,
                      "rings of " + std::to_string(ring_bytes) + " bytes cannot be");
    ShmWelcome welcome{};
    welcome.magic = shm_welcome_magic;
    welcome.version = version_;
    welcome.ring_bytes = std::min(ring_bytes, std::max(options_.ring_bytes, ring_bytes_min));
    ShmDescriptors given;
    link_ = LinkMemory::make(welcome.ring_bytes, version_);
    given.wake_node.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    given.wake_proxy.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const bool region = offer_->fits(hello) && !options_.withholds;
    may_grant_ = offer_->fits(hello) && options_.withholds;
    if (region) {
        welcome.region_count = 1;
        welcome.region_bytes = offer_->region_bytes;
        welcome.incarnation = offer_->incarnation;
        given.region.reset(fcntl(offer_->region.get(), F_DUPFD_CLOEXEC, 0));
    }
    if (link_ == nullptr || !given.wake_node || !given.wake_proxy || (region && !given.region))
        return refuse(ShmRefusal::no_memory, ChannelEnd::no_memory, std::strerror(errno));
    given.link.reset(fcntl(link_->fd(), F_DUPFD_CLOEXEC, 0));
    if (!given.link || !send_welcome(socket_.get(), welcome, given))
        return end_with_errno(channel_end_of(errno), errno);
    start(std::move(given.wake_node), std::move(given.wake_proxy));
}

void ShmChannel::meet_node() {
    ShmWelcome welcome{};
    ShmDescriptors given;
    if (auto no = receive_welcome(socket_.get(), welcome, given)) {
        if (!no->yet && !hail_again(no->version)) end(no->why, no->text);
        return;
    }
    if (welcome.version != version_) return end(ChannelEnd::handshake, "a greeting of a version that was not requested");
    auto link = LinkMemory::adopt(std::move(given.link), welcome.ring_bytes, version_);
    if (const auto* wrong = std::get_if<Problem>(&link)) return end(ChannelEnd::handshake, wrong->text);
    link_ = std::get<0>(std::move(link));
    if (given.region && !options_.withholds) {
        auto region = regions_->map(given.region, welcome.region_bytes, welcome.incarnation);
        if (const auto* wrong = std::get_if<Problem>(&region)) return end(ChannelEnd::handshake, wrong->text);
        region_ = std::get<0>(std::move(region));
    }
    // The node chose these descriptors: a blocking one must not stop the proxy.
    for (const Descriptor* wake : {&given.wake_node, &given.wake_proxy})
        if (fcntl(wake->get(), F_SETFL, O_NONBLOCK) != 0)
            return end_with_errno(ChannelEnd::handshake, errno);
    start(std::move(given.wake_proxy), std::move(given.wake_node));
    if (ending()) return;
    events().connected();
}

void ShmChannel::start(Descriptor wake_me, Descriptor wake_peer) {
    wake_me_ = std::move(wake_me);
    wake_peer_ = std::move(wake_peer);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;  // an edge at each write: no read is necessary
    event.data.fd = wake_me_.get();
    if (epoll_ctl(poller(), EPOLL_CTL_ADD, wake_me_.get(), &event) != 0)
        return end_with_errno(ChannelEnd::handshake, errno);
    link_->close_file();
    LinkShared& shared = link_->shared();
    const uint32_t bytes = link_->ring_bytes();
    const bool node = side_ == Side::node;
    sleeps_ = node ? &shared.node_sleeps : &shared.proxy_sleeps;
    peer_sleeps_ = node ? &shared.proxy_sleeps : &shared.node_sleeps;
    if (link_->node_container() != nullptr) {
        const ShmReports::End of_node{link_->node_container(), &shared.node_written};
        const ShmReports::End of_proxy{link_->proxy_container(), &shared.proxy_written};
        node ? reports_.emplace(of_node, of_proxy) : reports_.emplace(of_proxy, of_node);
    }
    if (node) {
        reader_.emplace(shared.to_node, link_->ring_to_node(), bytes);
        writer_.emplace(shared.to_proxy, link_->ring_to_proxy(), bytes);
    } else {
        reader_.emplace(shared.to_proxy, link_->ring_to_proxy(), bytes);
        writer_.emplace(shared.to_node, link_->ring_to_node(), bytes);
    }
    opened();
}

// ---- bytes ------------------------------------------------------------------------------------------

size_t ShmChannel::pull(char* to, size_t room) {
    const std::optional<size_t> got = reader_->read(to, room);
    if (!got) {
        end(ChannelEnd::corrupt, "the writer's position");
        return 0;
    }
    if (*got > 0) wake_peer(sleeps_for_room);
    if (*got < room && peer_gone_) end_for_gone_peer();
    return *got;
}

size_t ShmChannel::push(std::string_view bytes) {
    const std::optional<size_t> put = writer_->write(bytes);
    if (!put) {
        end(ChannelEnd::corrupt, "the reader's position");
        return 0;
    }
    if (*put > 0) wake_peer(sleeps_for_input);
    return *put;
}

void ShmChannel::look_for_end() {
    if (peer_gone_) end_for_gone_peer();
}

void ShmChannel::end_for_gone_peer() {
    if (region_ != nullptr && !region_->alive()) return end(ChannelEnd::owner_dead, "");
    end(ChannelEnd::peer_closed, "");
}

// ---- sleeping and waking ----------------------------------------------------------------------------

void ShmChannel::wake_peer(uint32_t reason) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);  // G3: the position is published
    if ((__atomic_load_n(peer_sleeps_, __ATOMIC_RELAXED) & reason) == 0) return;
    if (__atomic_exchange_n(peer_sleeps_, 0, __ATOMIC_RELAXED) == 0) return;
    wake_ups_.rung++;
    (void)eventfd_write(wake_peer_.get(), 1);
}

void ShmChannel::kick() { (void)eventfd_write(wake_me_.get(), 1); }

void ShmChannel::woken() {
    armed_ = 0;
    if (std::exchange(lingered_, false)) return;
    epoll_event seen[2];
    wake_ups_.woken++;
    const int count = epoll_wait(poller(), seen, 2, 0);
    for (int i = 0; i < count; i++) {
        if (seen[i].data.fd != socket_.get()) continue;
        if (options_.withholds && side_ == Side::proxy && !granted_.has_value()) {
            take_granted();
            continue;
        }
        char byte;
        const ssize_t got = recv(socket_.get(), &byte, 1, MSG_DONTWAIT);
        if (got > 0) return end(ChannelEnd::corrupt, "data after the greeting on the socket");
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        peer_gone_ = true;
    }
}

bool ShmChannel::anything_for(uint32_t reasons) {
    if ((reasons & sleeps_for_input) != 0 && reader_->has_bytes()) return true;
    if ((reasons & sleeps_for_input) != 0 && reports_.has_value() && reports_->arrived()) return true;
    return (reasons & sleeps_for_room) != 0 && writer_->has_room();
}

void ShmChannel::stay_awake() {
    __atomic_store_n(sleeps_, 0, __ATOMIC_RELAXED);
    armed_ = 0;
}

bool ShmChannel::watch(const Interest& interest) {
    if (interest.again) {
        kick();
        return true;
    }
    const uint32_t reasons =
        (interest.input ? sleeps_for_input : 0) | (interest.output ? sleeps_for_room : 0);
    if (armed_ == (reasons | armed_bit))
        return true;  // still armed: the peer has not woken this side
    __atomic_store_n(sleeps_, reasons, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);  // G3: the sleep word is published
    armed_ = reasons | armed_bit;
    if (!anything_for(reasons)) return true;
    stay_awake();
    return false;
}

bool ShmChannel::linger() {
    if (!open() || ending() || ended() || armed_ == 0) return false;
    const uint32_t spins = spins_.polls();
    if (spins == 0) return false;
    const uint32_t reasons = armed_ & ~armed_bit;
    if (__atomic_exchange_n(sleeps_, 0, __ATOMIC_RELAXED) != reasons) return true;  // just woken
    armed_ = 0;
    wake_ups_.lingered++;
    for (uint32_t i = 0; i < spins; i++) {
        wake_ups_.spins++;
        if (anything_for(reasons)) {
            wake_ups_.lingered_paid++;
            spins_.found(spins);
            lingered_ = true;
            return true;
        }
        pause_briefly();
    }
    spins_.found_nothing();
    lingered_ =
        !watch({(reasons & sleeps_for_input) != 0, (reasons & sleeps_for_room) != 0, false});
    return lingered_;
}

void ShmChannel::hang_up() { (void)shutdown(socket_.get(), SHUT_RDWR); }

// ---- an end that withholds --------------------------------------------------------------------------

// The record leaves before the caller can send what this returns.
Result<std::string> ShmChannel::grant() {
    if (!std::exchange(may_grant_, false)) return std::string();
    const ShmGrant grant{shm_grant_magic, version_, 0, offer_->region_bytes, offer_->incarnation};
    if (!send_grant(socket_.get(), grant, offer_->region))
        return system_problem(describe() + ": sendmsg: " + std::strerror(errno));
    return std::string(reinterpret_cast<const char*>(&grant), sizeof grant);
}

// Takes the record, so that it wakes this side once.
void ShmChannel::take_granted() {
    ShmGrant grant{};
    Descriptor region;
    if (const auto no = receive_grant(socket_.get(), grant, region)) {
        if (no->yet) return;
        if (no->why == ChannelEnd::handshake) return end(ChannelEnd::corrupt, no->text);
        peer_gone_ = true;
        return;
    }
    granted_ = grant;
    granted_region_ = std::move(region);
}

Refusal ShmChannel::take_grant(std::string_view bytes) {
    if (bytes.empty()) return {};
    if (!options_.withholds || side_ != Side::proxy || !open() || ending() || region_ != nullptr)
        return system_problem("its grant was not expected");
    if (!granted_.has_value()) take_granted();
    if (!granted_.has_value()) return system_problem("its grant came without the region");
    if (granted_->version != version_ || bytes != std::string_view(reinterpret_cast<const char*>(&*granted_), sizeof *granted_))
        return system_problem("its grant differs from the record with the region");
    auto region = regions_->map(granted_region_, granted_->region_bytes, granted_->incarnation);
    if (auto* wrong = std::get_if<Problem>(&region)) return std::move(*wrong);
    region_ = std::get<0>(std::move(region));
    granted_region_.reset();
    return {};
}

// ---- reads ------------------------------------------------------------------------------------------

const RegionView* ShmChannel::mapped_region(uint32_t region) const {
    return region == 0 && region_ != nullptr ? &region_->view() : nullptr;
}

bool ShmChannel::owner_alive() const { return region_ == nullptr || region_->alive(); }

bool ShmChannel::post_read(const ReadRequest& request) {
    CHECK(can_read());
    CHECK(well_formed(request.ptr));
    if (reads_.size() == reads_max) return false;
    ReadStatus status = ReadStatus::failed;
    if (request.ptr.region == 0 && request.ptr.incarnation == region_->incarnation()) {
        const RegionView& view = region_->view();
        CHECK(inside(request.ptr, view.region_bytes));
        const uint64_t* from = reinterpret_cast<const uint64_t*>(view.base + request.ptr.offset);
        const size_t bytes = (size_t(request.ptr.length) + 7) / 8 * 8;
        words::copy_out(reinterpret_cast<char*>(request.landing), from, 0, bytes, [] {});
        status = region_->alive() ? ReadStatus::done : ReadStatus::owner_dead;
    }
    reads_.push_back({request.token, status});
    if (reads_.size() == 1) kick();
    return true;
}

void ShmChannel::tell_reads() {
    std::vector<DoneRead> done;
    done.swap(reads_);
    for (const DoneRead& read : done) {
        if (ending()) return;
        events().read_done(read.token, read.status);
    }
}

// ---- containers -------------------------------------------------------------------------------------

void ShmChannel::copy_container(char* to, size_t bytes) const {
    CHECK(has_container());
    reports_->copy(to, bytes);
}

bool ShmChannel::post_report(std::string_view bytes) {
    CHECK(!bytes.empty());
    CHECK(bytes.size() <= container_bytes);
    if (!has_container() || ending()) return false;
    reports_->write(bytes);
    wake_peer(sleeps_for_input);
    return true;
}

void ShmChannel::tell_written() {
    if (!has_container() || !reports_->arrived()) return;
    const uint32_t bytes = reports_->take();
    if (bytes == 0 || bytes > container_bytes) return end(ChannelEnd::corrupt, "the length of a report");
    events().written(bytes);
}

// ---- counters ---------------------------------------------------------------------------------------

const ShmCounters& shm_counters(const Channel& channel) {
    const auto* shm = dynamic_cast<const ShmChannel*>(&channel);
    CHECK(shm != nullptr);
    return shm->wake_ups();
}

// ---- making one, and the listener ------------------------------------------------------------------

namespace {

constexpr mode_t socket_mode = 0600;  // its user and root, as in the greeting
constexpr mode_t socket_mode_of_group = 0660;

bool address_of(const std::string& path, sockaddr_un& address) {
    address = {};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path) return false;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return true;
}

}  // namespace

Descriptor shm_socket() {
    return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool ShmListener::Offer::fits(const ShmHello& hello) const {
    if (!region) return false;
    return layout::may_read({hello.layout_version, hello.layout_hash});
}

Result<std::unique_ptr<Channel>> connect_shm(const std::string& path, MappedRegions& regions,
                                             ChannelEvents& events, const ShmOptions& options) {
    const std::string name = "shm:" + path;
    sockaddr_un address;
    if (!address_of(path, address)) return system_problem(name + ": a path of 1 to 107 bytes is needed");
    Descriptor fd = shm_socket();
    Descriptor poller;
    if (fd) poller = poller_of(fd.get(), EPOLLIN | EPOLLRDHUP);
    if (!poller) return no_descriptor(name);
    auto channel = std::make_unique<ShmChannel>(ShmChannel::Side::proxy, std::move(fd),
                                                std::move(poller), name, events, options);
    channel->connect(address, regions);
    return channel;
}

ShmListener::ShmListener(Descriptor socket, std::shared_ptr<const Offer> offer)
    : socket_(std::move(socket)), reserve_(reserve_descriptor()), offer_(std::move(offer)) {
    struct stat made {};
    if (lstat(offer_->path.c_str(), &made) != 0) return;
    device_ = made.st_dev;
    inode_ = made.st_ino;
}

ShmListener::~ShmListener() {
    struct stat there {};
    if (lstat(offer_->path.c_str(), &there) != 0) return;
    if (there.st_dev == device_ && there.st_ino == inode_) unlink(offer_->path.c_str());
}

Result<std::unique_ptr<ShmListener>> ShmListener::listen(const Owner& owner, const Region* region,
                                                         const ShmOptions& options, int backlog) {
    auto offer = std::make_shared<Offer>();
    offer->path = owner.path();
    offer->name = "shm:" + offer->path;
    offer->options = options;
    auto refuse = [&](const char* call, int reason) {
        return system_problem(std::string(call) + ": cannot listen at " + offer->name + ": " + std::strerror(reason));
    };
    CHECK(ring_bytes_valid(options.ring_bytes));
    if (region != nullptr) {
        CHECK(region->view().header == &owner.header());
        try {
            offer->region.reset(region->open_read_only());
        } catch (const std::system_error& failed) {
            return system_problem(failed.what());
        }
        offer->region_bytes = region->view().region_bytes;
        offer->incarnation = region->view().header->incarnation;
    }
    sockaddr_un address;
    if (!address_of(offer->path, address)) return refuse("bind", ENAMETOOLONG);
    Descriptor fd = shm_socket();
    if (!fd) return refuse("socket", errno);
    struct stat old {};
    if (lstat(offer->path.c_str(), &old) == 0 && S_ISSOCK(old.st_mode)) unlink(offer->path.c_str());
    if (fchmod(fd.get(), socket_mode) != 0)
        return refuse("fchmod", errno);  // bind() gives this mode to the file
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        return refuse("bind", errno);
    // Not by fchmod(): bind() applies the umask, which removes the group's bits.
    if (options.group && chmod(address.sun_path, socket_mode_of_group) != 0)
        return refuse("chmod", errno);
    if (::listen(fd.get(), backlog) != 0) return refuse("listen", errno);
    return std::unique_ptr<ShmListener>(new ShmListener(std::move(fd), std::move(offer)));
}

std::unique_ptr<Channel> ShmListener::accept(ChannelEvents& events) {
    for (;;) {
        Descriptor fd = accept_one(socket_.get(), reserve_, nullptr, turned_away_);
        if (!fd) return nullptr;
        Descriptor poller = poller_of(fd.get(), EPOLLIN | EPOLLRDHUP);
        if (!poller) {
            turned_away_++;
            continue;
        }
        ucred peer{};
        socklen_t size = sizeof peer;
        (void)getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size);
        auto channel = std::make_unique<ShmChannel>(
            ShmChannel::Side::node, std::move(fd), std::move(poller),
            offer_->name + " from process " + std::to_string(peer.pid), events, offer_->options);
        channel->set_source("process " + std::to_string(peer.pid));
        channel->accepted(offer_);
        return channel;
    }
}

std::string ShmListener::describe() const { return offer_->name; }

}  // namespace farcached::fabric
