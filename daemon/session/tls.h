// SPDX-License-Identifier: BSD-3-Clause
// TLS of clients' connections (-Z), by OpenSSL. TlsKeys: the certificate, its key and the rules for clients' certificates.
// TlsSession: the TLS of one connection. It works in memory: TlsLayer passes what a socket received to open(), and sends what
// open() and seal() append to `sealed` (daemon/session/tls_layer.h). With ssl_kernel_tls OpenSSL sends the handshake itself,
// then gives the keys for replies to the kernel; if the kernel refuses them, all is as without the option.
//
// Owner: TlsKeys: main; any thread calls it. TlsSession: its session, then a watcher; one thread at a time, and beside it the one
// that computes a step (T5).
//
// T1  A load of keys that fails changes nothing. A session keeps the keys that it began with. Loads follow each other, from
//     reading to use(): keys that were read earlier never replace later ones.
// T2  OpenSSL gets whole records only, and keeps no buffer between calls. The begin of a record, the input of a step and sealed
//     bytes that the socket has not taken are a client's buffers (daemon/engine/session_memory.h). What OpenSSL seals during a step
//     is not: one flight of the handshake, whose size the configured certificates determine (a few KB).
// T3  Sealed bytes leave in their order: a record's number is part of its encryption.
// T4  A session that was resumed has the client certificate that its listener demands: sessions of listeners with other demands,
//     or of other keys, are not resumed.
// T5  From HandshakeThread::begin() until the worker has a step back, ssl_, input_, sealed_, starved_ and *step_ belong to the
//     step. The worker reads only the capacity of step_->input. All other fields are the worker's.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "base/node_clock.h"
#include "base/out_buffer.h"
#include "base/result.h"
#include "conf/settings.h"
#include "daemon/engine/session_memory.h"

struct bio_st;
struct ssl_ctx_st;
struct ssl_st;

namespace farcached::daemon {

struct Context;
struct Session;

class TlsSession;

class TlsKeys {
  public:
    struct Loaded {
        conf::TlsSettings settings;  // paths are absolute
        std::shared_ptr<ssl_ctx_st> context;
        int64_t expires_unix = 0;    // of the certificate
        std::string warning;         // that it is not valid now; empty: it is
    };
    // Held from load() to use() (T1).
    std::unique_lock<std::mutex> hold_loads() const { return std::unique_lock(loading_); }
    // Reads the files. An error has memcached's words.
    static Result<Loaded> load(const conf::TlsSettings& settings);
    // Sessions opened from now on have these keys. Logs their warning.
    void use(Loaded keys);
    // Reads the files again, for `refresh_certs`. The answer, without CRLF; after an error nothing is changed.
    std::string refresh();
    bool enabled() const;
    NodeSeconds age_s() const;  // since use()
    int64_t expires_unix() const;

    // Throws std::bad_alloc. mode: not plain. socket: for ssl_kernel_tls; -1: without.
    std::shared_ptr<TlsSession> greet(int socket, TlsMode mode, SessionMemory* memory) const;

  private:
    mutable std::mutex lock_, loading_;  // loading_ is taken first
    Loaded keys_;  // this and the next under lock_
    NodeSeconds used_at_ = 0;
};

class TlsSession {
  public:
    enum class Outcome : uint8_t { fine, ended, failed, no_memory };  // ended: the client sends no more

    // Throws std::bad_alloc.
    TlsSession(ssl_ctx_st* context, int socket, TlsMode mode, SessionMemory* memory);
    ~TlsSession();
    TlsSession(const TlsSession&) = delete;
    TlsSession& operator=(const TlsSession&) = delete;

    bool in_handshake() const { return in_handshake_; }
    bool is_new_session() const;  // that the client may resume
    // The common name in the client's verified certificate; empty: none, or not exactly one. Throws std::bad_alloc.
    std::string client_name() const;
    // The kernel seals what is sent: nothing else may be sealed.
    bool kernel_seals() const { return kernel_seals_; }
    bool began() const { return began_; }  // the client has sent something
    std::string_view failure() const { return failure_; }  // OpenSSL's reason; empty: none

    // -- A step of the handshake that another thread computes (daemon/session/handshake_thread.h) --
    enum class Stage : uint8_t { none, under_way, computed };
    Stage stage() const { return stage_; }
    // Whether kept bytes are the input of a step that takes long. Then they are, and it is under way. Throws std::bad_alloc.
    bool begin_step();
    // That other thread.
    void compute_step();
    // The worker got it back.
    void step_computed() { stage_ = Stage::computed; }
    // Before the next open(). Appends what the client must get. Throws std::bad_alloc.
    Outcome finish_step(OutBuffer& sealed);
    // It got it back before that has begun, for a session that ends.
    void drop_step();
    // HandshakeThread's; it writes them under its lock.
    std::list<std::shared_ptr<TlsSession>>::iterator place;
    std::atomic<bool> in_queue{false};

    // Keeps received bytes for the next open(). Throws std::bad_alloc.
    void keep(const Context& context, std::string_view bytes);
    size_t kept() const { return kept_.size(); }
    // Opens kept bytes, then `bytes`: appends the client's data to `plain`, and what the client must get to `sealed`. Throws
    // std::bad_alloc.
    Outcome open(const Context& context, std::string_view bytes, OutBuffer& plain, OutBuffer& sealed);

    // Seals at most `most` bytes from position `from` on of what `own` and `pieces` are together (base/out_buffer.h), beginning at
    // own byte `start`. Returns their number; 0: it failed.
    size_t seal(std::string_view own, size_t start, std::span<const OutPiece> pieces, size_t from, size_t most, OutBuffer& sealed);
    // Without memory it throws std::bad_alloc, with no effect if `sealed` has room for sealed_bytes_max().
    bool seal(std::string_view bytes, OutBuffer& sealed);
    // An upper bound of what so many bytes become.
    static constexpr size_t sealed_bytes_max(size_t bytes) {
        constexpr size_t record_bytes = 16 << 10, record_overhead = 192;
        return bytes + (bytes / record_bytes + 1) * record_overhead;
    }
    // Seals the end of all data, unless nothing may follow.
    void seal_end(OutBuffer& sealed);

    // Sealed bytes that the socket has not taken. Throws std::bad_alloc.
    void keep_unsent(const Context& context, std::string_view sealed);
    bool has_unsent() const { return unsent_start_ < unsent_.size(); }
    // Sends some of them. Returns as send() does.
    ssize_t send_unsent(int socket);

    // The bytes that the worker can free now, by drop_step() and drop_buffers().
    size_t held() const;
    // Frees all buffers but those of a step that is under way; nothing is sent afterwards.
    void drop_buffers();

    Session* session = nullptr;  // whose it is; null: that has ended, or is a watcher's

    // The sessions of a worker that are in their handshake, in the order of their beginning (TlsHandshakes).
    struct Waiting {
        Session* older = nullptr;
        Session* newer = nullptr;
        uint64_t since_ns = 0;  // on boottime_ns(); 0: not among them
    } waiting;

  private:
    friend struct TlsBio;
    struct FreeSsl {
        void operator()(ssl_st* ssl) const;
    };

    struct Step;

    Outcome feed(std::string_view input, OutBuffer& plain, OutBuffer& sealed);
    Outcome fail(int result);
    Outcome fail(int error, const char* reason);
    bool takes_long() const;
    Outcome refuse(const char* reason);
    void settle_sender();

    std::unique_ptr<ssl_st, FreeSsl> ssl_;
    SessionBytes kept_;       // T2
    SessionBytes unsent_;     // T2; from unsent_start_ on
    size_t unsent_start_ = 0;
    std::unique_ptr<Step> step_;
    std::string_view input_;  // this and the next: during a call into OpenSSL
    OutBuffer* sealed_ = nullptr;
    std::string failure_;
    bool in_handshake_ = true, began_ = false;
    bool greeted_ = false;    // the client's hello has begun
    bool kernel_seals_ = false, has_new_key_ = false;
    bool starved_ = false;    // no memory for `sealed`
    bool broken_ = false;     // nothing may be sent any more
    Stage stage_ = Stage::none;
};

// The sessions of a worker in their handshake.
class TlsHandshakes {
  public:
    void add(Session& session, uint64_t now_ns);
    void remove(Session& session);  // also one that is not there
    Session* oldest() const { return oldest_; }

  private:
    Session* oldest_ = nullptr;
    Session* newest_ = nullptr;
};

}  // namespace farcached::daemon
