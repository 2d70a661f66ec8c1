// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/console.h"

#ifdef FARCACHED_LIBEDIT

#include <fcntl.h>
#include <histedit.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/check.h"

namespace farcached::ctl {

bool console_is_built() { return true; }

namespace {

constexpr int history_lines = 1000;

// Creates the file with its folders, all for their owner only, as the XDG specification demands. False: it cannot be used.
bool prepare_history(const std::string& path) {
    if (path.empty()) return false;
    for (size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1))
        (void)mkdir(path.substr(0, slash).c_str(), 0700);  // open() below fails without it
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return false;
    struct stat file {};
    const bool is_own = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid() && fchmod(fd, 0600) == 0;
    close(fd);
    return is_own;
}

std::string common_beginning(const std::vector<std::string>& words) {
    std::string common = words.front();
    for (const std::string& word : words) {
        const auto [end, other] = std::ranges::mismatch(common, word);
        common.resize(size_t(end - common.begin()));
    }
    return common;
}

}  // namespace

struct Console::Impl {
    std::string prompt, path;
    Complete complete;
    EditLine* line = nullptr;
    History* history = nullptr;
    bool is_interrupted = false;

    static Impl& of(EditLine* line) {
        void* mine = nullptr;
        el_get(line, EL_CLIENTDATA, &mine);
        return *static_cast<Impl*>(mine);
    }
    static char* prompt_of(EditLine* line) { return of(line).prompt.data(); }
    static unsigned char on_interrupt(EditLine* line, int) {
        of(line).is_interrupted = true;
        return CC_NEWLINE;
    }
    static unsigned char on_tab(EditLine* line, int) { return of(line).tab(); }
    unsigned char tab();
};

// Completes the word before the cursor as far as it is certain; shows the candidates if it is not at all.
unsigned char Console::Impl::tab() {
    const LineInfo* info = el_line(line);
    const std::string_view typed(info->buffer, size_t(info->cursor - info->buffer));
    const size_t blank = typed.find_last_of(' ');
    const std::string_view word = typed.substr(blank == typed.npos ? 0 : blank + 1);
    const auto before = words_of_line(typed.substr(0, typed.size() - word.size()));
    if (!before) return CC_REFRESH_BEEP;
    std::vector<std::string> candidates = complete(*before);
    // Options are offered once a word begins like one.
    std::erase_if(candidates, [&](const std::string& one) {
        return !one.starts_with(word) || (word.empty() && one.starts_with("--"));
    });
    if (candidates.empty()) return CC_REFRESH_BEEP;
    std::string more = common_beginning(candidates).substr(word.size());
    if (candidates.size() == 1) more += " ";
    if (!more.empty()) return el_insertstr(line, more.c_str()) == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
    std::fputs("\r\n", stdout);
    for (const std::string& one : candidates) std::printf("%s  ", one.c_str());
    std::fputs("\r\n", stdout);
    std::fflush(stdout);
    return CC_REDISPLAY;
}

Console::Console(std::string prompt, std::string history_path, Complete complete)
    : impl_(std::make_unique<Impl>(Impl{std::move(prompt), std::move(history_path), std::move(complete)})) {
    impl_->line = el_init("farctl", stdin, stdout, stderr);
    impl_->history = history_init();
    CHECK(impl_->line != nullptr);
    CHECK(impl_->history != nullptr);
    HistEvent event{};
    history(impl_->history, &event, H_SETSIZE, history_lines);
    history(impl_->history, &event, H_SETUNIQUE, 1);
    el_set(impl_->line, EL_CLIENTDATA, impl_.get());
    el_set(impl_->line, EL_PROMPT, &Impl::prompt_of);
    el_set(impl_->line, EL_EDITOR, "emacs");
    el_set(impl_->line, EL_HIST, history, impl_->history);
    el_set(impl_->line, EL_ADDFN, "farctl-complete", "complete", &Impl::on_tab);
    el_set(impl_->line, EL_BIND, "^I", "farctl-complete", nullptr);
    el_set(impl_->line, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    // While a line is edited, Ctrl-C is a key: it drops the line.
    el_set(impl_->line, EL_SETTY, "-d", "-isig", nullptr);
    el_set(impl_->line, EL_ADDFN, "farctl-interrupt", "drop", &Impl::on_interrupt);
    el_set(impl_->line, EL_BIND, "^C", "farctl-interrupt", nullptr);
    // libedit binds NUL like the keys that the terminal does not define, to ed-quoted-insert. A Ctrl-D typed while a command runs
    // arrives as NUL, and the next Ctrl-D would become a character of the line.
    el_set(impl_->line, EL_BIND, "^@", "em-set-mark", nullptr);
    el_source(impl_->line, nullptr);  // the user's ~/.editrc
    if (prepare_history(impl_->path))
        history(impl_->history, &event, H_LOAD, impl_->path.c_str());
    else
        impl_->path.clear();
}

Console::~Console() {
    history_end(impl_->history);
    el_end(impl_->line);
}

std::optional<std::string> Console::next() {
    impl_->is_interrupted = false;
    int bytes = 0;
    el_set(impl_->line, EL_PREP_TERM, 1);  // before the prompt, so that a key typed at the prompt is always a key
    const char* got = el_gets(impl_->line, &bytes);
    if (impl_->is_interrupted) {
        std::fputs("^C\r\n", stdout);
        return std::string();
    }
    if (got == nullptr || bytes <= 0) return {};
    std::string line(got, size_t(bytes));
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    HistEvent event{};
    const bool is_kept = line.find_first_not_of(" \t") == 0;
    if (is_kept) history(impl_->history, &event, H_ENTER, line.c_str());
    // At once: SIGTERM during a command ends this process.
    if (is_kept && !impl_->path.empty()) history(impl_->history, &event, H_SAVE, impl_->path.c_str());
    return line;
}

}  // namespace farcached::ctl

#else

namespace farcached::ctl {

bool console_is_built() { return false; }

struct Console::Impl {};
Console::Console(std::string, std::string, Complete) {}
Console::~Console() = default;
std::optional<std::string> Console::next() { return {}; }

}  // namespace farcached::ctl

#endif
