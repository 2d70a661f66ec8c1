// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/terminal.h"

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "ctl/wait.h"

namespace farcached::ctl {

namespace {

constexpr char enter[] = "\x1b[?1049h\x1b[?25l";   // alternate screen, no cursor
constexpr char leave[] = "\x1b[?25h\x1b[?1049l";
constexpr int deadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// State of the signal handler, which may use nothing else.
termios before;
volatile sig_atomic_t keys_changed = 0;

void write_all(std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
        if (written < 0 && errno != EINTR) return;
        text.remove_prefix(written < 0 ? 0 : size_t(written));
    }
}

void restore() {
    (void)!write(STDOUT_FILENO, leave, sizeof leave - 1);
    if (keys_changed != 0) tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

void on_deadly(int number) {
    restore();
    signal(number, SIG_DFL);
    raise(number);
}

// SIGINT interrupts a command of the console, which then ends this Terminal.
void for_deadly(void (*handler)(int)) {
    for (int number : deadly)
        if (number != SIGINT || !console_interrupts()) signal(number, handler);
}

}  // namespace

Terminal::Terminal() {
    if (tcgetattr(STDIN_FILENO, &before) == 0) {
        has_keys_ = true;
        keys_changed = 1;
    }
    for_deadly(on_deadly);
    if (has_keys_) {
        termios raw = before;
        raw.c_lflag &= tcflag_t(~(ICANON | ECHO));
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // a stopped program would not restore the screen
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    write_all(enter);
}

Terminal::~Terminal() {
    restore();
    for_deadly(SIG_DFL);
}

void Terminal::draw(const std::vector<std::string>& lines, size_t marked) {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        size.ws_row = 24, size.ws_col = 80;
    std::string screen = "\x1b[H";
    const size_t rows = std::min<size_t>(lines.size(), size.ws_row);
    for (size_t i = 0; i < rows; i++) {
        if (i == marked) screen += "\x1b[7m";
        screen.append(lines[i], 0, size.ws_col);
        if (i == marked) screen += "\x1b[0m";
        screen += "\x1b[K";
        if (i + 1 < rows) screen += "\r\n";
    }
    write_all(screen + "\x1b[J");
}

std::optional<char> Terminal::wait_for_key(uint32_t timeout_ms) {
    if (wait_for(has_keys_ ? STDIN_FILENO : -1, timeout_ms) != Waited::ready) return {};
    char key = 0;
    if (read(STDIN_FILENO, &key, 1) == 1) return key;
    has_keys_ = false;
    return {};
}

void ProgressLine::show(const std::string& text) {
    const bool is_long = std::chrono::steady_clock::now() - since_ >= std::chrono::seconds(1);
    if (is_long && isatty(STDERR_FILENO) != 0) replace(text);
}

void ProgressLine::replace(const std::string& text) {
    if (text.empty() && shown_ == 0) return;
    std::string line = "\r" + text;
    line.resize(std::max(line.size(), shown_ + 1), ' ');  // erase the rest of the former one
    if (text.empty()) line += "\r";
    (void)!write(STDERR_FILENO, line.data(), line.size());
    shown_ = text.size();
}

}  // namespace farcached::ctl
