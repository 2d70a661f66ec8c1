// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/etcd_client.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/node_clock.h"
#include "daemon/discovery/etcd_messages.h"
#include "daemon/discovery/password_file.h"

#ifdef FARCACHED_LIBCURL
#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/socket.h>
#endif

namespace farcached::daemon {

#ifdef FARCACHED_LIBCURL

namespace {

constexpr uint64_t client_ms_ns = 1'000'000;
constexpr long connect_ms_max = 2000;
constexpr int silent_s = 5, probes = 3;  // of TCP's keepalive
constexpr long http_ok = 200;

void start_library() {
    static std::once_flag once;
    std::call_once(once, [] { CHECK(curl_global_init(CURL_GLOBAL_ALL) == CURLE_OK); });
}

struct FreeEasy {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeList {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// A connection whose peer is silent ends after about 20 s, also one of a watch.
int set_keepalive(void*, curl_socket_t fd, curlsocktype) {
    const int on = 1, user_ms = (silent_s * (probes + 1)) * 1000;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &silent_s, sizeof silent_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &silent_s, sizeof silent_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_ms, sizeof user_ms);
    return CURL_SOCKOPT_OK;
}

template <class Value>
void set(CURL* easy, CURLoption option, Value value) {
    if (curl_easy_setopt(easy, option, value) == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
}

}  // namespace

struct EtcdClient::Curl {
    Curl() : multi((start_library(), curl_multi_init())) {
        if (multi == nullptr) throw std::bad_alloc();
    }
    ~Curl() { (void)curl_multi_cleanup(multi); }
    CURLM* const multi;
};

// A request or the watch, while it runs and until its result is taken.
struct EtcdClient::Transfer {
    explicit Transfer(CURLM* in) : multi(in), easy(curl_easy_init()) {
        if (easy == nullptr) throw std::bad_alloc();
    }
    ~Transfer() {
        leave();
        explicit_bzero(body.data(), body.size());  // may have a password
    }
    void leave() {
        if (added) (void)curl_multi_remove_handle(multi, easy.get());
        added = false;
    }
    void begin() {
        if (curl_multi_add_handle(multi, easy.get()) != CURLM_OK) throw std::bad_alloc();
        added = true;
    }
    // libcurl's callback; C code calls it, so no exception may leave it.
    static size_t take(char* bytes, size_t, size_t count, void* to) {
        Transfer& transfer = *static_cast<Transfer*>(to);
        if (count > bytes_max - transfer.got.size()) return 0;
        try {
            transfer.got.append(bytes, count);
        } catch (const std::bad_alloc&) {
            transfer.starved = true;
            return 0;
        }
        return count;
    }
    std::string problem() const {
        if (result == CURLE_OK) return {};
        if (starved) return "out of memory";
        if (result == CURLE_WRITE_ERROR) return "the answer is longer than " + std::to_string(bytes_max >> 20) + " MB";
        return error[0] != '\0' ? error : curl_easy_strerror(result);
    }

    CURLM* const multi;
    const std::unique_ptr<CURL, FreeEasy> easy;
    std::unique_ptr<curl_slist, FreeList> headers;
    std::string url, body, got;
    char error[CURL_ERROR_SIZE] = "";
    bool added = false, over = false, starved = false;
    CURLcode result = CURLE_OK;
};

EtcdClient::EtcdClient(EtcdAccess access)
    : access_(std::move(access)), curl_(std::make_unique<Curl>()), tries_(access_.url.endpoints.size()),
      request_ms_(access_.request_ms) {
    CHECK(!access_.url.endpoints.empty());
}

void EtcdClient::hurry(uint32_t request_ms, uint32_t total_ms) {
    request_ms_ = request_ms;
    until_ns_ = boottime_ns() + total_ms * client_ms_ns;
    tries_ = std::min<size_t>(tries_, 2);
}

EtcdClient::~EtcdClient() = default;  // transfers end before the handle of all

// ---- one transfer -------------------------------------------------------------------------------------

void EtcdClient::prepare(Transfer& transfer, const std::string& path, const std::string& body) {
    CURL* const easy = transfer.easy.get();
    transfer.url = endpoint() + "/v3/" + path;
    transfer.body = body;
    const auto add_header = [&](const std::string& line) {
        curl_slist* const longer = curl_slist_append(transfer.headers.get(), line.c_str());
        if (longer == nullptr) throw std::bad_alloc();
        (void)transfer.headers.release();
        transfer.headers.reset(longer);
    };
    add_header("Content-Type: application/json");
    add_header("Expect:");
    if (!token_.empty()) add_header("Authorization: " + token_);
    set(easy, CURLOPT_URL, transfer.url.c_str());
    set(easy, CURLOPT_POST, 1L);
    set(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(transfer.body.size()));
    set(easy, CURLOPT_POSTFIELDS, transfer.body.data());
    set(easy, CURLOPT_HTTPHEADER, transfer.headers.get());
    set(easy, CURLOPT_WRITEFUNCTION, &Transfer::take);
    set(easy, CURLOPT_WRITEDATA, &transfer);
    set(easy, CURLOPT_ERRORBUFFER, transfer.error);
    set(easy, CURLOPT_PRIVATE, &transfer);
    set(easy, CURLOPT_SOCKOPTFUNCTION, &set_keepalive);
    set(easy, CURLOPT_NOSIGNAL, 1L);
    set(easy, CURLOPT_PROXY, "");
    set(easy, CURLOPT_FOLLOWLOCATION, 0L);
    set(easy, CURLOPT_HTTP_VERSION, long(CURL_HTTP_VERSION_1_1));
    set(easy, CURLOPT_CONNECTTIMEOUT_MS, std::min(connect_ms_max, long(request_ms_)));
    set(easy, CURLOPT_SSLVERSION, long(CURL_SSLVERSION_TLSv1_2));
#if LIBCURL_VERSION_NUM >= 0x075500
    set(easy, CURLOPT_PROTOCOLS_STR, access_.url.tls ? "https" : "http");
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
    set(easy, CURLOPT_QUICK_EXIT, 1L);  // not after a name server
#endif
    if (!access_.issuers_path.empty()) set(easy, CURLOPT_CAINFO, access_.issuers_path.c_str());
}

// Moves bytes of all transfers for at most that time, or until something happened.
void EtcdClient::run(uint32_t wait_ms) {
    if (often_ != nullptr) {
        often_();
        wait_ms = std::min(wait_ms, often_ms);
    }
    int running = 0;
    (void)curl_multi_perform(curl_->multi, &running);
    bool ended = false;
    const auto take_results = [&] {
        int left = 0;
        while (const CURLMsg* const message = curl_multi_info_read(curl_->multi, &left)) {
            if (message->msg != CURLMSG_DONE) continue;
            void* whose = nullptr;
            (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &whose);
            Transfer& transfer = *static_cast<Transfer*>(whose);
            transfer.over = ended = true;
            transfer.result = message->data.result;
        }
    };
    take_results();
    if (ended || wait_ms == 0 || interrupted_) return;
    (void)curl_multi_poll(curl_->multi, nullptr, 0, int(wait_ms), nullptr);
    (void)curl_multi_perform(curl_->multi, &running);
    take_results();
}

EtcdClient::Answer EtcdClient::send(const std::string& path, const std::string& body) {
    request_ = std::make_unique<Transfer>(curl_->multi);
    prepare(*request_, path, body);
    set(request_->easy.get(), CURLOPT_TIMEOUT_MS, long(request_ms_));
    request_->begin();
    // libcurl's time ends before, unless there is less left.
    const uint64_t end_ns = std::min(boottime_ns() + (request_ms_ + connect_ms_max) * client_ms_ns, until_ns_);
    while (!request_->over && !interrupted_ && boottime_ns() < end_ns) run(request_ms_);
    Answer answer;
    answer.problem = interrupted_ ? "interrupted" : request_->over ? request_->problem() : "no answer in time";
    (void)curl_easy_getinfo(request_->easy.get(), CURLINFO_RESPONSE_CODE, &answer.status);
    answer.body = std::move(request_->got);
    request_.reset();
    return answer;
}

// ---- requests -----------------------------------------------------------------------------------------

const std::string& EtcdClient::endpoint() const { return access_.url.endpoints[at_]; }

std::optional<EtcdFailure> EtcdClient::authenticate() {
    Result<Password> password = read_password(access_.password_path);
    if (const auto* problem = std::get_if<Problem>(&password)) return EtcdFailure{problem->text};
    token_.clear();
    const SecretText body{authenticate_request(access_.user, std::get<Password>(password).text())};
    const Answer answer = send("auth/authenticate", body.text);
    if (!answer.problem.empty()) return EtcdFailure{answer.problem, 0, interrupted_};
    std::optional<std::string> token = answer.status == http_ok ? read_token(answer.body) : std::nullopt;
    if (!token.has_value()) {
        const EtcdError error = read_error(answer.body);
        return EtcdFailure{"authentication of " + access_.user + " failed: " + error.text, error.code};
    }
    token_ = std::move(*token);
    return {};
}

// At one endpoint. The failure has a code if etcd answered.
EtcdClient::Reply EtcdClient::ask_at(const std::string& path, const std::string& body) {
    for (int attempt = 0;; attempt++) {
        if (!access_.user.empty() && token_.empty())
            if (std::optional<EtcdFailure> failure = authenticate()) return std::move(*failure);
        Answer answer = send(path, body);
        if (!answer.problem.empty()) return EtcdFailure{std::move(answer.problem), 0, interrupted_};
        if (answer.status == http_ok) return std::move(answer.body);
        EtcdError error = read_error(answer.body);
        if (error.text.empty()) error.text = "HTTP status " + std::to_string(answer.status);
        if (attempt == 0 && !access_.user.empty() && needs_token(error)) {
            token_.clear();  // K3
            continue;
        }
        return EtcdFailure{std::move(error.text), error.code};
    }
}

EtcdClient::Reply EtcdClient::ask(const std::string& path, const std::string& body) {
    constexpr int64_t not_found = 5;
    EtcdFailure failure;
    for (size_t i = 0; i < tries_; i++) {
        if (interrupted_) return EtcdFailure{"interrupted", 0, true};
        Reply reply = ask_at(path, body);
        auto* const failed = std::get_if<EtcdFailure>(&reply);
        if (failed == nullptr || failed->code == not_found) return reply;
        failure = std::move(*failed);
        failure.text = endpoint() + ": " + failure.text;
        if (failure.interrupted) break;
        if (access_.url.endpoints.size() == 1) break;
        at_ = (at_ + 1) % access_.url.endpoints.size();
        moves_++;
    }
    return failure;
}

// ---- the watch ----------------------------------------------------------------------------------------

void EtcdClient::watch(const std::string& body) {
    end_watch();
    auto transfer = std::make_unique<Transfer>(curl_->multi);
    prepare(*transfer, "watch", body);
    transfer->begin();
    watch_ = std::move(transfer);
}

void EtcdClient::end_watch() { watch_.reset(); }

bool EtcdClient::take_line(std::string& line) {
    const size_t end = watch_->got.find('\n');
    if (end == std::string::npos) return false;
    line.assign(watch_->got, 0, end);
    watch_->got.erase(0, end + 1);
    return true;
}

EtcdClient::Event EtcdClient::next(std::string& line, uint32_t wait_ms) {
    CHECK(watch_ != nullptr);
    const uint64_t end_ns = boottime_ns() + wait_ms * client_ms_ns;
    for (;;) {
        if (interrupted_) return Event::interrupted;
        if (take_line(line)) return Event::line;
        if (watch_->over) break;
        const uint64_t now_ns = boottime_ns();
        if (nudged_.exchange(false) || now_ns >= end_ns) return Event::timeout;
        run(uint32_t((end_ns - now_ns + client_ms_ns - 1) / client_ms_ns));
    }
    why_ = watch_->problem();
    if (why_.empty() && !watch_->got.empty()) why_ = read_error(watch_->got).text;
    if (why_.empty()) why_ = "etcd ended it";
    end_watch();
    return Event::ended;
}

bool EtcdClient::pause(uint32_t ms) {
    const uint64_t end_ns = boottime_ns() + ms * client_ms_ns;
    for (uint64_t now_ns = boottime_ns(); now_ns < end_ns && !interrupted_; now_ns = boottime_ns())
        run(uint32_t((end_ns - now_ns + client_ms_ns - 1) / client_ms_ns));
    return !interrupted_;
}

void EtcdClient::interrupt() {
    interrupted_ = true;
    (void)curl_multi_wakeup(curl_->multi);
}

void EtcdClient::nudge() {
    nudged_ = true;
    (void)curl_multi_wakeup(curl_->multi);
}

#else  // no libcurl

struct EtcdClient::Curl {};
struct EtcdClient::Transfer {};

EtcdClient::EtcdClient(EtcdAccess access) : access_(std::move(access)), tries_(0), request_ms_(access_.request_ms) {}
void EtcdClient::hurry(uint32_t, uint32_t) {}
EtcdClient::~EtcdClient() = default;
const std::string& EtcdClient::endpoint() const { return access_.url.endpoints[at_]; }
EtcdClient::Reply EtcdClient::ask(const std::string&, const std::string&) { return EtcdFailure{}; }
void EtcdClient::watch(const std::string&) {}
void EtcdClient::end_watch() {}
EtcdClient::Event EtcdClient::next(std::string&, uint32_t) { return Event::ended; }
bool EtcdClient::pause(uint32_t) { return false; }
void EtcdClient::interrupt() { interrupted_ = true; }
void EtcdClient::nudge() {}

#endif

Result<EtcdAccess> etcd_access(const conf::ProxySettings& settings, std::string_view source) {
    if (Refusal refused = conf::check_etcd(source)) return std::move(*refused);
    EtcdAccess access;
    Result<conf::EtcdUrl> url = conf::parse_etcd_url(source);
    if (auto* const problem = std::get_if<Problem>(&url)) return std::move(*problem);
    access.url = std::get<conf::EtcdUrl>(std::move(url));
    access.issuers_path = settings.discovery.ca;
    if (!access.issuers_path.empty() && ::access(access.issuers_path.c_str(), R_OK) != 0)
        return system_problem("--discover-ca " + access.issuers_path + ": " + std::strerror(errno));
    access.user = settings.discovery.user;
    access.password_path = settings.discovery.password_file;
    if (access.user.empty()) return access;
    Result<Password> password = read_password(access.password_path);
    if (auto* const problem = std::get_if<Problem>(&password)) return std::move(*problem);
    return access;
}

}  // namespace farcached::daemon
