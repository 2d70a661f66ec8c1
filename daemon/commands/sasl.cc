// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/commands/sasl.h"

#ifdef FARCACHED_LIBSASL2
#include <sasl/sasl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include "daemon/commands/passwords.h"
#endif

namespace farcached::daemon {

#ifndef FARCACHED_LIBSASL2

SaslExchange::SaslExchange(const std::string& host, SessionMemory* memory) : charge_(memory), host_(host) {}
SaslExchange::~SaslExchange() = default;
std::string_view SaslExchange::mechanisms() { return {}; }
SaslExchange::Outcome SaslExchange::start(std::string_view, std::string_view) { return Outcome::refused; }
SaslExchange::Outcome SaslExchange::step(std::string_view) { return Outcome::refused; }
std::string_view SaslExchange::user() const { return {}; }
std::string SaslExchange::reason() const { return {}; }

Sasl::Sasl() = default;
Sasl::~Sasl() = default;
Result<std::unique_ptr<Sasl>> Sasl::start() { return Problem{EX_USAGE, "This server is not built with SASL support.\n"}; }

#else

using process::Level;

namespace {

constexpr const char* service = "memcached";  // names the configuration file, too
constexpr const char* config_name = "memcached.conf";
constexpr const char* config_folders = "/etc/sasl:/etc/sasl2";

// The library's type of all callbacks.
using Callback = decltype(sasl_callback_t::proc);
template <class Function>
Callback as_callback(Function* function) {
    return reinterpret_cast<Callback>(reinterpret_cast<void (*)()>(function));
}

constexpr const char* unreadable =
    ": cannot read the passwords, so it allows no client; make it a file that the process may read";

std::string host_name() {
    std::array<char, 1025> name{};
    if (gethostname(name.data(), name.size() - 1) != 0) return {};
    return name.data();
}

// The library does not work on one of these from two threads, if it has them.
void* make_mutex() { return new (std::nothrow) std::mutex; }
int lock_mutex(void* mutex) {
    static_cast<std::mutex*>(mutex)->lock();
    return 0;
}
int unlock_mutex(void* mutex) {
    static_cast<std::mutex*>(mutex)->unlock();
    return 0;
}
void free_mutex(void* mutex) { delete static_cast<std::mutex*>(mutex); }

}  // namespace

// ---- what the library calls -------------------------------------------------------------------------------

struct SaslCallbacks {
    // sasl.h says that the library frees the path. 2.1.27 and 2.1.28 do not, so a pointer keeps it from being called a leak.
    static int config_path(void* context, char** path) noexcept {
        static char* kept = nullptr;
        *path = kept = strdup(static_cast<const Sasl*>(context)->config_folders_.c_str());
        return kept != nullptr ? SASL_OK : SASL_NOMEM;
    }

    // The library strips the spaces around a name, but it fails for an empty name, for " x", and for one over out_max bytes.
    // Then it does not free all memory (2.1.27, 2.1.28): LOGIN leaks the password, any mechanism a copy of a long name. So no name
    // fails here, and what is no name becomes no_name, which no password matches: a colon ends the names in MEMCACHED_SASL_PWDB,
    // and nobody gives a user of a sasldb that name.
    static int canon_user(sasl_conn_t*, void*, const char* user, unsigned bytes, unsigned, const char*, char* out, unsigned out_max,
                          unsigned* out_bytes) noexcept {
        constexpr std::string_view spaces = " \t\n\v\f\r", no_name = ":";
        std::string_view name(user, bytes);
        name.remove_prefix(std::min(name.find_first_not_of(spaces), name.size()));
        name = name.substr(0, name.find_last_not_of(spaces) + 1);
        if (name.empty() || name.size() >= out_max) name = no_name;
        std::memmove(out, name.data(), name.size());
        out[name.size()] = '\0';
        *out_bytes = unsigned(name.size());
        return SASL_OK;
    }

    // SASL_LOG_PASS has passwords.
    static int log(void* context, int level, const char* message) noexcept {
        const Sasl& sasl = *static_cast<const Sasl*>(context);
        if (level == SASL_LOG_NONE || level == SASL_LOG_PASS || message == nullptr) return SASL_OK;
        const Level as = level == SASL_LOG_ERR    ? Level::warning
                         : level <= SASL_LOG_WARN ? Level::info
                                                  : Level::debug;
        if (!process::is_said(as)) return SASL_OK;
        try {
            sasl.lines_.say(as, "libsasl2 says", {{"text", message}});
        } catch (const std::bad_alloc&) {
            process::lose_line();
        }
        return SASL_OK;
    }

    static int check_password(sasl_conn_t*, void* context, const char* user, const char* password, unsigned bytes,
                              propctx*) noexcept {
        const Sasl& sasl = *static_cast<const Sasl*>(context);
        try {
            switch (Passwords::look_up(sasl.passwords_path_, user, std::string_view(password, bytes))) {
                case Passwords::Found::allowed: return SASL_OK;
                case Passwords::Found::refused: return SASL_NOAUTHZ;
                case Passwords::Found::unreadable:
                    sasl.complain_of_passwords(unreadable);
                    return SASL_NOAUTHZ;
                case Passwords::Found::too_long:
                    sasl.complain_of_passwords(": more than a megabyte of passwords, so it allows no client; shorten it");
                    return SASL_NOAUTHZ;
            }
            return SASL_FAIL;
        } catch (const std::exception&) {
            return SASL_NOMEM;
        }
    }
};

// ---- the library ------------------------------------------------------------------------------------------

Sasl::Sasl() : host_(host_name()) {
    const char* passwords = std::getenv("MEMCACHED_SASL_PWDB");
    if (passwords != nullptr && *passwords != '\0') passwords_path_ = std::filesystem::absolute(passwords).string();
}

Sasl::~Sasl() { sasl_done(); }

// Where the library looks for memcached.conf. It says nothing of a file that it cannot read, and then admits by its defaults.
Refusal Sasl::find_config() {
    const char* const path = std::getenv("SASL_CONF_PATH");
    const bool given = path != nullptr && *path != '\0';
    config_folders_ = given ? path : config_folders;
    std::error_code error;
    if (const std::filesystem::path file = config_folders_; std::filesystem::is_regular_file(file, error)) {
        if (file.filename() != config_name)
            return system_problem("SASL_CONF_PATH " + config_folders_ +
                                  ": libsasl2 reads files of the name memcached.conf only; rename it, or name its folder");
        config_folders_ = file.has_parent_path() ? file.parent_path().string() : ".";
    }
    for (std::string_view left = config_folders_; !left.empty();) {
        const std::string_view folder = left.substr(0, left.find(':'));
        left.remove_prefix(std::min(folder.size() + 1, left.size()));
        const std::filesystem::path file = std::filesystem::path(folder) / config_name;
        if (access(file.c_str(), R_OK) != 0) continue;
        process::say(Level::info, "-S: libsasl2 reads " + file.string());
        return std::nullopt;
    }
    process::say(given ? Level::warning : Level::info,
                 "-S: no readable memcached.conf in " + config_folders_ +
                     ", so libsasl2 has its defaults: all mechanisms, and the passwords of its own database");
    return std::nullopt;
}

Result<std::unique_ptr<Sasl>> Sasl::start() {
    std::unique_ptr<Sasl> sasl(new Sasl);
    if (Refusal refusal = sasl->find_config()) return *refusal;
    static std::array<sasl_callback_t, 5> callbacks;  // the library keeps them
    auto next = callbacks.begin();
    *next++ = {SASL_CB_LOG, as_callback(&SaslCallbacks::log), sasl.get()};
    *next++ = {SASL_CB_GETCONFPATH, as_callback(&SaslCallbacks::config_path), sasl.get()};
    *next++ = {SASL_CB_CANON_USER, as_callback(&SaslCallbacks::canon_user), sasl.get()};
    if (!sasl->passwords_path_.empty())
        *next++ = {SASL_CB_SERVER_USERDB_CHECKPASS, as_callback(&SaslCallbacks::check_password), sasl.get()};
    *next = {SASL_CB_LIST_END, nullptr, nullptr};
    sasl_set_mutex(make_mutex, lock_mutex, unlock_mutex, free_mutex);
    const int result = sasl_server_init(callbacks.data(), service);
    if (result != SASL_OK)
        return system_problem(std::string("Error initializing sasl: ") + sasl_errstring(result, nullptr, nullptr));
    if (sasl->begin(nullptr)->mechanisms().empty())
        process::say(Level::warning, "-S: libsasl2 has no mechanism, so no client can authenticate; install its plugins "
                                     "(libsasl2-modules), or see mech_list in memcached.conf");
    const std::string& passwords = sasl->passwords_path_;
    if (!passwords.empty() && Passwords::look_up(passwords, "", "") == Passwords::Found::unreadable)
        sasl->complain_of_passwords(unreadable);
    return sasl;
}

void Sasl::complain_of_passwords(const std::string& what) const {
    complaints_.say(Level::warning, "MEMCACHED_SASL_PWDB " + passwords_path_ + what);
}

// ---- one client -------------------------------------------------------------------------------------------

SaslExchange::SaslExchange(const std::string& host, SessionMemory* memory) : charge_(memory), host_(host) {
    const char* const name = host.empty() ? nullptr : host.c_str();
    int result = sasl_server_new(service, name, /* user_realm= */ nullptr, nullptr, nullptr, nullptr, /* flags= */ 0, &connection_);
    // memcached admits by ANONYMOUS, which the library's default list has.
    sasl_security_properties_t properties{};
    properties.security_flags = SASL_SEC_NOANONYMOUS;
    if (result == SASL_OK) {
        result = sasl_setprop(connection_, SASL_SEC_PROPS, &properties);
        if (result == SASL_OK) return;
        sasl_dispose(&connection_);
    }
    connection_ = nullptr;  // sasl_dispose() of one that was not made whole would call a null pointer (2.1.27, 2.1.28)
    if (result == SASL_NOMEM) throw std::bad_alloc();
}

SaslExchange::~SaslExchange() {
    if (connection_ != nullptr) sasl_dispose(&connection_);
}

std::string_view SaslExchange::mechanisms() {
    const char* names = nullptr;
    unsigned bytes = 0;
    if (connection_ == nullptr) return {};
    const int result = sasl_listmech(connection_, nullptr, "", " ", "", &names, &bytes, nullptr);
    if (result == SASL_NOMEM) throw std::bad_alloc();
    return result == SASL_OK ? std::string_view(names, bytes) : std::string_view();
}

SaslExchange::Outcome SaslExchange::settle(int result) {
    if (result == SASL_NOMEM) throw std::bad_alloc();
    if (result == SASL_OK) return Outcome::authenticated;
    return result == SASL_CONTINUE ? Outcome::goes_on : Outcome::refused;
}

// As memcached: an empty response is none.
SaslExchange::Outcome SaslExchange::start(std::string_view mechanism, std::string_view response) {
    nameless_ = mechanism.find('\0') != std::string_view::npos;
    if (connection_ == nullptr || nameless_) return Outcome::refused;
    const char* challenge = nullptr;
    unsigned bytes = 0;
    const int result = sasl_server_start(connection_, std::string(mechanism).c_str(), response.empty() ? nullptr : response.data(),
                                         unsigned(response.size()), &challenge, &bytes);
    challenge_ = challenge != nullptr ? std::string_view(challenge, bytes) : std::string_view();
    return settle(result);
}

SaslExchange::Outcome SaslExchange::step(std::string_view response) {
    const char* challenge = nullptr;
    unsigned bytes = 0;
    const int result =
        sasl_server_step(connection_, response.empty() ? nullptr : response.data(), unsigned(response.size()), &challenge, &bytes);
    challenge_ = challenge != nullptr ? std::string_view(challenge, bytes) : std::string_view();
    return settle(result);
}

std::string_view SaslExchange::user() const {
    const void* name = nullptr;
    const int result = sasl_getprop(connection_, SASL_USERNAME, &name);
    if (result == SASL_NOMEM) throw std::bad_alloc();
    if (result != SASL_OK || name == nullptr) return {};
    std::string_view user = static_cast<const char*>(name);
    // alice@HOST and alice are one account of sasldb: they get the same permissions.
    const size_t at = user.rfind('@');
    if (at != user.npos && !host_.empty() && user.substr(at + 1) == host_) user = user.substr(0, at);
    return user;
}

std::string SaslExchange::reason() const {
    if (connection_ == nullptr) return "libsasl2 has no connection for it";
    if (nameless_) return "the mechanism's name has a null byte";
    const char* detail = sasl_errdetail(connection_);
    return detail != nullptr ? detail : "";
}

#endif

}  // namespace farcached::daemon
