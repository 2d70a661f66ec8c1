// SPDX-License-Identifier: BSD-3-Clause
#include "process/crash_report.h"

#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <iterator>
#include <span>

#include "base/broken.h"
#include "base/check.h"
#include "base/node_clock.h"
#include "base/peer_address.h"
#include "base/recorder.h"
#include "base/sanitizers.h"
#include "process/log.h"

namespace farcached::process {

namespace {

constexpr int frames_max = 64;
constexpr size_t bytes_shown_max = 64;  // of the request
constexpr size_t build_id_bytes_max = 32;
constexpr int waits_max = 50;  // for another thread's report
constexpr timespec wait_for{0, 100'000'000};
constexpr int patience_ms = 1000;  // for the reader of stderr (Z3)
constexpr std::string_view journal_mark = "<2>";  // critical

constexpr int crashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
constexpr auto signals = std::span(crashes).first(has_asan || has_tsan ? 1 : std::size(crashes));  // a sanitizer reports the others

// Written once by report_crashes(), before a handler can read it.
char program_shown[128] = "";
unsigned char build_id[build_id_bytes_max];
size_t build_id_bytes = 0;
bool request_shown = false;
std::atomic<pid_t> reporter{0};  // the thread that reports
bool takes_no_more = false;      // stderr is blocked; the reporter stops waiting for it
bool to_journal = false;

// Sets O_NONBLOCK (Z3): even after poll(), a write may wait, since a terminal may have less room.
class NeverWaits {
  public:
    NeverWaits() : flags_(fcntl(STDERR_FILENO, F_GETFL)) {
        if (flags_ >= 0) (void)fcntl(STDERR_FILENO, F_SETFL, flags_ | O_NONBLOCK);
    }
    // Restores the flags: other processes may share the file.
    ~NeverWaits() {
        if (flags_ >= 0) (void)fcntl(STDERR_FILENO, F_SETFL, flags_);
    }
    NeverWaits(const NeverWaits&) = delete;
    NeverWaits& operator=(const NeverWaits&) = delete;

  private:
    const int flags_;
};

bool has_room() {
    if (takes_no_more) return false;
    pollfd there{STDERR_FILENO, POLLOUT, 0};
    takes_no_more = poll(&there, 1, patience_ms) == 0;
    return !takes_no_more;
}

pid_t this_thread() { return pid_t(syscall(SYS_gettid)); }

// One line at a time, without allocation; long lines are cut.
class Line {
  public:
    Line& text(std::string_view more) {
        const size_t size = std::min(more.size(), sizeof bytes_ - 1 - size_);
        std::memcpy(bytes_ + size_, more.data(), size);
        size_ += size;
        return *this;
    }
    Line& number(int64_t value) {
        if (value < 0) text("-");
        char digits[20];
        size_t at = sizeof digits;
        uint64_t left = value < 0 ? 0 - uint64_t(value) : uint64_t(value);
        do digits[--at] = char('0' + left % 10);
        while ((left /= 10) != 0);
        return text({digits + at, sizeof digits - at});
    }
    Line& hex(uint64_t value, int digits) {
        for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) text({&"0123456789abcdef"[value >> shift & 15], 1});
        return *this;
    }
    // Escapes foreign bytes to keep them on one line.
    Line& quoted(std::string_view bytes) {
        text("\"");
        for (char c : bytes) {
            const auto code = static_cast<unsigned char>(c);
            if (c == '\r' || c == '\n')
                text(c == '\r' ? "\\r" : "\\n");
            else if (code < ' ' || code >= 0x7f || c == '"' || c == '\\')
                text("\\x").hex(code, 2);
            else
                text({&c, 1});
        }
        return text("\"");
    }
    // "tcp:127.0.0.1:40950", "tcp6:[fe80:0000:...]:40950"
    Line& address(const PeerAddress& peer) {
        if (const PeerAddress::Ip6* at = peer.ip6(); at != nullptr) {
            for (size_t i = 0; i < at->ip.size(); i += 2)
                text(i == 0 ? "tcp6:[" : ":").hex(uint64_t(at->ip[i]) << 8 | at->ip[i + 1], 4);
            return text("]:").number(at->port);
        }
        if (!peer.is_ip4()) return text("a Unix socket");
        const PeerAddress::Ip4 at = peer.ip4();
        for (size_t i = 0; i < at.ip.size(); i++) text(i == 0 ? "tcp:" : ".").number(at.ip[i]);
        return text(":").number(at.port);
    }
    void write() {
        bytes_[size_++] = '\n';
        for (size_t done = 0; done < size_ && has_room();) {
            const ssize_t wrote = ::write(STDERR_FILENO, bytes_ + done, size_ - done);
            if (wrote <= 0) break;
            done += size_t(wrote);
        }
        begin();
    }

    Line() { begin(); }

  private:
    void begin() {
        size_ = 0;
        if (to_journal) text(journal_mark);
    }

    char bytes_[1024];
    size_t size_ = 0;
};

std::string_view name_of(int number) {
    switch (number) {
        case SIGABRT: return "SIGABRT";
        case SIGSEGV: return "SIGSEGV";
        case SIGBUS: return "SIGBUS";
        case SIGILL: return "SIGILL";
        default: return "SIGFPE";
    }
}

bool was_sent(const siginfo_t& info) { return info.si_code <= 0; }

void write_head(int number, const siginfo_t& info) {
    Line line;
    if (const FailedCheck& failed = failed_check(); number == SIGABRT && failed.what != nullptr)
        line.text("farcached: internal error at ").text(failed.file).text(":").number(failed.line).text(": ").text(failed.what)
            .write();
    line.text("farcached: crash: ").text(name_of(number));
    if (!was_sent(info))
        line.text(" at address 0x").hex(uint64_t(reinterpret_cast<uintptr_t>(info.si_addr)), 16);
    else if (info.si_pid == getpid())
        line.text(", its own");
    else
        line.text(", sent by process ").number(info.si_pid).text(" of user ").number(info.si_uid);
    line.write();
    line.text("  program: ").text(program_shown).text("; compiler ").text(__VERSION__);
    if (broken::build) line.text("; can be broken on purpose");
    line.text("; build id ");
    for (size_t i = 0; i < build_id_bytes; i++) line.hex(build_id[i], 2);
    if (build_id_bytes == 0) line.text("none");
    line.write();
}

void write_thread(const Recorder* recorder) {
    char name[17] = "";
    prctl(PR_GET_NAME, name);
    Line line;
    line.text("  process ").number(getpid()).text(", thread ").number(this_thread()).text(" ").quoted(name);
    if (recorder == nullptr) line.text(", which records no events");
    line.write();
}

void write_events(const Recorder& recorder) {
    const uint64_t noted = recorder.noted(), now_ns = boottime_ns();
    Line line;
    line.text(noted == 0 ? "  events: none" : "  events, oldest first:").write();
    for (uint64_t i = noted - std::min<uint64_t>(noted, Recorder::events_max); i < noted; i++) {
        const Recorder::Event& event = recorder.event(i);
        line.text("    ");
        if (event.at_ns != 0) line.number(int64_t(now_ns - event.at_ns) / 1000).text(" us ago: ");
        line.text(event.what).text(" ").number(event.number);
        if (event.more != 0) line.text(" ").number(event.more);
        line.write();
    }
}

void write_backtrace() {
    Line line;
    line.text("  backtrace:").write();
    void* frames[frames_max];
    const int count = backtrace(frames, frames_max);
    for (int i = 0; i < count && has_room(); i++) {
        if (to_journal) (void)!::write(STDERR_FILENO, journal_mark.data(), journal_mark.size());
        backtrace_symbols_fd(frames + i, 1, STDERR_FILENO);
    }
}

// Written last, since the bytes are outside this file's control and reading them may fail.
void write_at_hand(const Recorder& recorder) {
    const Recorder::AtHand hand = recorder.at_hand();
    Line line;
    if (hand.fd < 0) return line.text("  at hand: nothing").write();
    line.text("  at hand: connection ").number(hand.fd).text(" from ");
    hand.peer != nullptr ? line.address(*hand.peer) : line.text(hand.from);
    const uintptr_t begin = reinterpret_cast<uintptr_t>(hand.bytes.data());
    const uintptr_t at = reinterpret_cast<uintptr_t>(hand.step);
    size_t done = at >= begin && at - begin <= hand.bytes.size() ? at - begin : 0;
    const std::string_view left = hand.bytes.substr(done);
    if (!hand.bytes.empty()) line.text(", ").number(int64_t(left.size())).text(" bytes");
    if (!hand.bytes.empty() && request_shown) line.text(" that begin with ").quoted(left.substr(0, bytes_shown_max));
    line.write();
}

void report(int number, const siginfo_t& info) {
    const NeverWaits meanwhile;
    to_journal = stderr_is_journal();
    const Recorder* recorder = Recorder::current();
    write_head(number, info);
    write_thread(recorder);
    if (recorder != nullptr) write_events(*recorder);
    write_backtrace();
    if (recorder != nullptr) write_at_hand(*recorder);
}

void on_signal(int number, siginfo_t* info, void*) {
    pid_t who = 0;
    const pid_t self = this_thread();
    if (reporter.compare_exchange_strong(who, self))
        report(number, *info);
    else
        for (int i = 0; who != self && i < waits_max; i++) nanosleep(&wait_for, nullptr);
    // After the handler returns, a fault repeats with the default action; a signal that was sent is sent again.
    std::signal(number, SIG_DFL);
    if (was_sent(*info)) syscall(SYS_tgkill, getpid(), self, number);
}

// Finds the linker's build-id note, which identifies the program's symbols.
int find_build_id(dl_phdr_info* object, size_t, void*) {
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr)& part = object->dlpi_phdr[i];
        if (part.p_type != PT_NOTE) continue;
        const char* at = reinterpret_cast<const char*>(object->dlpi_addr + part.p_vaddr);
        const char* const end = at + part.p_memsz;
        while (size_t(end - at) >= sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) note;
            std::memcpy(&note, at, sizeof note);
            const size_t name_bytes = (note.n_namesz + 3) & ~size_t(3), bytes = (note.n_descsz + 3) & ~size_t(3);
            at += sizeof note;
            if (size_t(end - at) < name_bytes + bytes) return 1;
            if (note.n_type == NT_GNU_BUILD_ID && std::string_view(at, note.n_namesz) == std::string_view("GNU\0", 4)) {
                build_id_bytes = std::min<size_t>(note.n_descsz, build_id_bytes_max);
                std::memcpy(build_id, at + name_bytes, build_id_bytes);
                return 1;
            }
            at += name_bytes + bytes;
        }
    }
    return 1;  // the program comes first; skip all other objects
}

}  // namespace

void report_crashes(std::string_view program, bool show_request) {
    request_shown = show_request;
    std::memcpy(program_shown, program.data(), std::min(program.size(), sizeof program_shown - 1));
    dl_iterate_phdr(find_build_id, nullptr);
    (void)stderr_is_journal();
    handler_says_failed_checks();
    void* frame;
    backtrace(&frame, 1);  // the first call loads a library
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (int number : signals) sigaction(number, &action, nullptr);
}

}  // namespace farcached::process
