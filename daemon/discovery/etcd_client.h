// SPDX-License-Identifier: BSD-3-Clause
// EtcdClient: requests to etcd through its JSON gateway, and one watch beside them, by libcurl. Without libcurl there is nothing
// here: conf::check_etcd() refuses such a source, and so does etcd_access().
//
// Owner: one thread, which makes all calls; interrupt() may come from any thread.
// K1  Every request ends within its time: each endpoint gets `request_ms`, and each is tried once, beginning with the last one that
//     answered. A watch has no end; TCP's keepalive ends one whose peer is gone.
// K2  Replies and lines are bounded (bytes_max). A watch over that length ends.
// K3  etcd's token is renewed when etcd refuses it. The password is read from its file for each new token, and is never logged.
// K4  Proxies of the environment are not used, and no redirection is followed.
// K5  After interrupt() each call returns at once, until resume().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "conf/etcd_url.h"
#include "conf/settings.h"

namespace farcached::daemon {

struct EtcdAccess {
    conf::EtcdUrl url;
    std::string issuers_path;   // of etcd's certificates; empty: the system's
    std::string user;           // empty: no authentication
    std::string password_path;  // absolute
    uint32_t request_ms = 3000;
};

// source: as in --discover. Reads the password's file, whose problem names it.
Result<EtcdAccess> etcd_access(const conf::ProxySettings& settings, std::string_view source);

// Why a request failed, at etcd or on the way to it: a sentence without its end.
struct EtcdFailure {
    std::string text;
    int64_t code = 0;          // of gRPC; 0: no answer of etcd
    bool interrupted = false;
};

class EtcdClient {
  public:
    static constexpr size_t bytes_max = size_t(16) << 20;
    static constexpr uint32_t often_ms = 200;

    explicit EtcdClient(EtcdAccess access);  // throws std::bad_alloc
    ~EtcdClient();
    EtcdClient(const EtcdClient&) = delete;
    EtcdClient& operator=(const EtcdClient&) = delete;

    using Reply = Result<std::string, EtcdFailure>;
    using Ask = std::function<Reply(const std::string& path, const std::string& body)>;
    // path: "kv/range". body: JSON.
    Reply ask(const std::string& path, const std::string& body);
    // The endpoint that the last request was sent to, and how often that was another one than before.
    const std::string& endpoint() const;
    uint64_t moves() const { return moves_; }

    // Ends an earlier watch.
    void watch(const std::string& body);
    void end_watch();
    enum class Event : uint8_t { line, ended, timeout, interrupted };
    // Waits for the next line of the watch, until nudge() at most. ended: why() has the reason.
    Event next(std::string& line, uint32_t wait_ms);
    const std::string& why() const { return why_; }

    // From now on `often` runs at least every often_ms while a call waits.
    void call_often(std::function<void()> often) { often_ = std::move(often); }
    // Waits without a watch. False: interrupted.
    bool pause(uint32_t ms);
    void interrupt();
    void nudge();
    void resume() { interrupted_ = false; }
    // From now on, each request gets that time, at most two endpoints are tried, and all requests end within total_ms.
    void hurry(uint32_t request_ms, uint32_t total_ms);
    bool is_interrupted() const { return interrupted_; }

  private:
    struct Transfer;
    struct Curl;
    struct Answer {
        long status = 0;
        std::string body;
        std::string problem;  // of the way; empty: none
    };

    Answer send(const std::string& path, const std::string& body);
    Reply ask_at(const std::string& path, const std::string& body);
    std::optional<EtcdFailure> authenticate();
    void prepare(Transfer& transfer, const std::string& path, const std::string& body);
    void run(uint32_t wait_ms);
    bool take_line(std::string& line);

    const EtcdAccess access_;
    const std::unique_ptr<Curl> curl_;
    std::unique_ptr<Transfer> request_, watch_;
    size_t at_ = 0;            // of the endpoints
    size_t tries_;             // of them
    uint32_t request_ms_;
    uint64_t until_ns_ = UINT64_MAX;  // of all requests
    uint64_t moves_ = 0;
    std::function<void()> often_;
    std::string token_;
    std::string why_;
    std::atomic<bool> interrupted_{false}, nudged_{false};
};

}  // namespace farcached::daemon
