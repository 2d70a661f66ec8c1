// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/dns_client.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <new>
#include <span>
#include <system_error>
#include <utility>

// The calls that are deprecated since 1.28 are those that 1.18 has.
#define CARES_NO_DEPRECATED
#include <ares.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/node_clock.h"

namespace farcached::daemon {

namespace {

constexpr int server_timeout_ms = 2000;  // of the first try of a server; it doubles
constexpr int tries = 3;
constexpr uint64_t ns_per_ms = 1'000'000;

struct FreeChannel {
    void operator()(ares_channel channel) const { ares_destroy(channel); }
};
using Channel = std::unique_ptr<std::remove_pointer_t<ares_channel>, FreeChannel>;

std::string sentence(int status) { return ares_strerror(status); }

// The name does not exist, or has no such record.
bool is_empty(int status) { return status == ARES_ENODATA || status == ARES_ENOTFOUND; }

// The smallest TTL of the answer's records; a CNAME's counts. The library has none for SRV before 1.28.
std::optional<uint32_t> smallest_ttl(std::span<const unsigned char> answer) {
    ns_msg message;
    if (ns_initparse(answer.data(), int(answer.size()), &message) != 0) return std::nullopt;
    std::optional<uint32_t> smallest;
    for (int i = 0; i < ns_msg_count(message, ns_s_an); i++) {
        ns_rr record;
        if (ns_parserr(&message, ns_s_an, i, &record) != 0) return std::nullopt;
        smallest = std::min<uint32_t>(smallest.value_or(UINT32_MAX), ns_rr_ttl(record));
    }
    return smallest;
}

std::string text_of(int family, const void* address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    CHECK(inet_ntop(family, address, text.data(), text.size()) != nullptr);
    return text.data();
}

}  // namespace

// Queries that run together, until all have ended.
class DnsClient::LookUp {
  public:
    struct Answer {
        bool ended = false, no_memory = false;
        int status = ARES_SUCCESS;
        std::vector<unsigned char> bytes;
    };

    static Result<Channel, std::string> open(const std::string& server) {
        ares_options options{};
        options.timeout = server_timeout_ms;
        options.tries = tries;
        ares_channel channel = nullptr;
        if (const int status = ares_init_options(&channel, &options, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES); status != ARES_SUCCESS)
            return "c-ares did not start (" + sentence(status) + ")";
        Channel owned(channel);
        if (server.empty()) return owned;
        if (const int status = ares_set_servers_ports_csv(channel, server.c_str()); status != ARES_SUCCESS)
            return "discover_dns_server " + server + " is refused (" + sentence(status) + ")";
        return owned;
    }

    static void query(ares_channel channel, const std::string& name, int type, Answer& answer) {
        const auto ended = [](void* to, int status, int, unsigned char* bytes, int size) {
            auto& into = *static_cast<Answer*>(to);
            into.ended = true;
            into.status = status;
            try {
                if (bytes != nullptr && size > 0) into.bytes.assign(bytes, bytes + size);
            } catch (const std::bad_alloc&) {
                into.no_memory = true;
            }
        };
        ares_query(channel, name.c_str(), ns_c_in, type, ended, &answer);
    }

    // canceled: readable ends all.
    static void run(ares_channel channel, std::span<Answer> answers, int canceled) {
        while (!std::ranges::all_of(answers, &Answer::ended)) {
            std::array<ares_socket_t, ARES_GETSOCK_MAXNUM> sockets;
            const int bits = ares_getsock(channel, sockets.data(), int(sockets.size()));
            std::array<pollfd, ARES_GETSOCK_MAXNUM + 1> waits{};
            nfds_t count = 0;
            waits[count++] = {canceled, POLLIN, 0};
            for (size_t i = 0; i < sockets.size(); i++) {
                const int events = (ARES_GETSOCK_READABLE(bits, i) ? POLLIN : 0) | (ARES_GETSOCK_WRITABLE(bits, i) ? POLLOUT : 0);
                if (events != 0) waits[count++] = {sockets[i], short(events), 0};
            }
            timeval longest{1, 0}, wait{};
            const timeval* chosen = ares_timeout(channel, &longest, &wait);
            const int ready = poll(waits.data(), count, int(chosen->tv_sec * 1000 + chosen->tv_usec / 1000 + 1));
            if (ready > 0 && waits[0].revents != 0) return ares_cancel(channel);
            process_ready(channel, std::span(waits).subspan(1, count - 1), ready > 0);
        }
    }

    // Add the answer's addresses. They return why there is no answer, or an empty string.
    static std::string add_v4(const Answer& answer, std::vector<std::string>& to) {
        return add<ares_addrttl>(answer, to, ares_parse_a_reply,
                                 [](const ares_addrttl& one) { return text_of(AF_INET, &one.ipaddr); });
    }
    static std::string add_v6(const Answer& answer, std::vector<std::string>& to) {
        return add<ares_addr6ttl>(answer, to, ares_parse_aaaa_reply,
                                  [](const ares_addr6ttl& one) { return text_of(AF_INET6, &one.ip6addr); });
    }

  private:
    template <class Address, class Parse, class Text>
    static std::string add(const Answer& answer, std::vector<std::string>& to, Parse parse, Text text) {
        if (answer.no_memory) return sentence(ARES_ENOMEM);
        int status = answer.status, count = limits::nodes_max + 1;
        std::vector<Address> some(size_t(count), Address{});
        if (status == ARES_SUCCESS) status = parse(answer.bytes.data(), int(answer.bytes.size()), nullptr, some.data(), &count);
        if (is_empty(status)) return {};
        if (status != ARES_SUCCESS) return sentence(status);
        for (int i = 0; i < count; i++) to.push_back(text(some[size_t(i)]));
        return {};
    }

    static void process_ready(ares_channel channel, std::span<const pollfd> waits, bool any) {
        if (!any) return ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);  // timeouts
        for (const pollfd& one : waits) {
            const bool ended = (one.revents & (POLLERR | POLLHUP)) != 0;
            const bool in = ended || (one.revents & POLLIN) != 0, out = (one.revents & POLLOUT) != 0;
            if (in || out) ares_process_fd(channel, in ? one.fd : ARES_SOCKET_BAD, out ? one.fd : ARES_SOCKET_BAD);
        }
    }
};

DnsClient::DnsClient(std::string server) : server_(std::move(server)), canceled_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (canceled_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    CHECK(ares_library_init(ARES_LIB_INIT_ALL) == ARES_SUCCESS);
}

DnsClient::~DnsClient() {
    close(canceled_);
    ares_library_cleanup();
}

void DnsClient::cancel() {
    const uint64_t one = 1;
    CHECK(write(canceled_, &one, sizeof one) == sizeof one);
}

bool DnsClient::is_canceled() const {
    pollfd look{canceled_, POLLIN, 0};
    return poll(&look, 1, 0) > 0;
}

bool DnsClient::sleep(uint32_t seconds) {
    const uint64_t until_ns = boottime_ns() + seconds * UINT64_C(1'000'000'000);
    for (;;) {
        const uint64_t now_ns = boottime_ns();
        pollfd wait{canceled_, POLLIN, 0};
        const int left_ms = now_ns >= until_ns ? 0 : int((until_ns - now_ns) / ns_per_ms) + 1;
        if (poll(&wait, 1, left_ms) > 0) return false;
        if (left_ms == 0) return true;
    }
}

Result<DnsRecords<std::vector<std::string>>, std::string> DnsClient::addresses(const std::vector<std::string>& names) {
    std::vector<LookUp::Answer> answers(2 * names.size());  // outlives the channel
    auto opened = LookUp::open(server_);
    if (auto* why = std::get_if<std::string>(&opened)) return std::move(*why);
    const Channel& channel = std::get<Channel>(opened);
    DnsRecords<std::vector<std::string>> found;
    for (size_t first = 0; first < names.size(); first += names_at_once) {
        const size_t end = std::min(first + names_at_once, names.size());
        for (size_t i = first; i < end; i++) {
            LookUp::query(channel.get(), names[i], ns_t_a, answers[2 * i]);
            LookUp::query(channel.get(), names[i], ns_t_aaaa, answers[2 * i + 1]);
        }
        LookUp::run(channel.get(), std::span(answers).subspan(2 * first, 2 * (end - first)), canceled_);
        for (size_t i = first; i < end; i++) {
            std::vector<std::string>& some = found.records.emplace_back();
            for (const bool is_v4 : {true, false}) {
                const LookUp::Answer& answer = answers[2 * i + (is_v4 ? 0 : 1)];
                const std::string why = is_v4 ? LookUp::add_v4(answer, some) : LookUp::add_v6(answer, some);
                const std::string what = is_v4 ? "the IPv4 addresses of " : "the IPv6 addresses of ";
                if (!why.empty()) return what + names[i] + " are not known (" + why + ")";
                if (!answer.bytes.empty()) found.ttl_s = smaller_ttl(found.ttl_s, smallest_ttl(answer.bytes));
            }
        }
    }
    return found;
}

Result<DnsRecords<ServiceRecord>, std::string> DnsClient::services(const std::string& name) {
    std::array<LookUp::Answer, 1> answers;  // outlives the channel
    auto opened = LookUp::open(server_);
    if (auto* why = std::get_if<std::string>(&opened)) return std::move(*why);
    const Channel& channel = std::get<Channel>(opened);
    LookUp::query(channel.get(), name, ns_t_srv, answers[0]);
    LookUp::run(channel.get(), answers, canceled_);

    const LookUp::Answer& answer = answers[0];
    DnsRecords<ServiceRecord> found;
    if (answer.no_memory) return sentence(ARES_ENOMEM);
    if (is_empty(answer.status)) return found;
    if (answer.status != ARES_SUCCESS) return "the service is not known (" + sentence(answer.status) + ")";
    ares_srv_reply* first = nullptr;
    const int status = ares_parse_srv_reply(answer.bytes.data(), int(answer.bytes.size()), &first);
    const std::unique_ptr<ares_srv_reply, void (*)(void*)> owned(first, ares_free_data);
    if (is_empty(status)) return found;
    if (status != ARES_SUCCESS) return "the answer is malformed (" + sentence(status) + ")";
    for (const ares_srv_reply* one = first; one != nullptr; one = one->next)
        found.records.push_back({one->host, one->priority, one->weight, one->port});
    found.ttl_s = smallest_ttl(answer.bytes);
    return found;
}

}  // namespace farcached::daemon
