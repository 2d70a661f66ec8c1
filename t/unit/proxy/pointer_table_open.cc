// SPDX-License-Identifier: BSD-3-Clause
// Making a pointer table and attaching to one: the refusals and their messages. A table is whole or absent for any end
// of its maker, and processes that start together share one.
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <vector>

#include "t/unit/proxy/pointer_table_fixture.h"

using namespace table_test;
using proxy::TableRefusal;
using proxy::TableStep;

namespace {

// Opens; gives back the failure, or one with the text "opened".
proxy::TableFailure failure_of(const proxy::TableOptions& with) {
    PointerTable::Opened opened = PointerTable::open(with);
    if (auto* failure = std::get_if<proxy::TableFailure>(&opened)) return *failure;
    return {TableRefusal(99), "opened"};
}

void is_refused(const proxy::TableOptions& with, TableRefusal reason, std::string_view advice,
                const std::string& what) {
    const proxy::TableFailure failure = failure_of(with);
    tap::is(failure.reason, reason, what + ": refused");
    bool useful = failure.message.find(with.name) != std::string::npos &&
                  failure.message.find(advice) != std::string::npos &&
                  failure.message.find('\n') == std::string::npos;
    if (!tap::ok(useful, what + ": names the cause, the place and the action")) tap::note("%s", failure.message.c_str());
}

// Runs it in a separate process. Returns the exit status that `run` returned; -1: the process was killed.
int in_child(const std::function<int()>& run) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child < 0) tap::bail_out("fork");
    if (child == 0) _exit(run());
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {}
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void wrong_options() {
    for (const char* wrong : {"", "/", "farcached", "/a/b", "//", "/.", "/.."}) {
        proxy::TableOptions with;
        with.name = wrong;
        with.seed = 1;
        tap::is(failure_of(with).reason, TableRefusal::bad_name, "no name of a table: \"" + std::string(wrong) + "\"");
    }
    Name name;
    proxy::TableOptions with = options(name);
    with.name += std::string(300, 'x');
    is_refused(with, TableRefusal::bad_name, "pointer_table.path", "a name that is too long");
    for (uint64_t wrong : {UINT64_C(0), UINT64_C(32), UINT64_C(100), UINT64_C(1) << 31, UINT64_MAX})
        is_refused(options(name, wrong), TableRefusal::bad_entries, "pointer_table.entries",
                   std::to_string(wrong) + " entries");
    tap::ok(access(name.path().c_str(), F_OK) != 0, "nothing was made");
}

void two_share() {
    Name name;
    auto first = open(options(name, 128));
    auto second_process = open(options(name, 64));
    tap::ok(first->created(), "the first makes it");
    tap::ok(!second_process->created(), "the second attaches");
    tap::is(second_process->entries(), 128u, "and takes it as large as it is");
    first->put(5, derived(5, 1), now);
    tap::is(second_process->find(5, one_node, now).found, Found::hit, "what one puts the other finds");
    first.reset();
    second_process.reset();
    tap::is(open(name)->find(5, one_node, now).found, Found::hit, "it outlives its users");
}

void names() {
    tap::is(proxy::table_name("/farcached-3-%U", 1000), "/farcached-3-1000", "%U in a name is the user id");
    tap::is(proxy::table_name("/%U%U-%u", 7), "/77-%u", "each of them, and nothing else");
    tap::is(proxy::table_name("/plain", 7), "/plain", "a name without is itself");
}

// A table that another user made under the shared name does not keep this user from a table.
void another_users_name() {
    if (geteuid() != 0) return tap::skip(6, "only root makes a table of another user");
    Name name;
    open(name);
    tap::ok(chown(name.path().c_str(), 1, 1) == 0, "another user has a table");
    is_refused(options(name), TableRefusal::wrong_owner, "belongs to user id 1, not to 0", "it is refused");
    is_refused(options(name), TableRefusal::wrong_owner, "have its owner remove it", "with what to do");
    proxy::TableOptions own = options(name);
    own.name = proxy::table_name(own.name + "-%U", own.owner);
    tap::is(failure_of(own).message, "opened", "with the user in its name there is one of our own");
    unlink(("/dev/shm" + own.name).c_str());
}

void wrong_files() {
    Name name;
    open(name);
    proxy::TableOptions with = options(name);
    with.owner = geteuid() + 1;
    is_refused(with, TableRefusal::wrong_owner, "choose another pointer_table.path", "another user's");
    for (mode_t mode : {0660, 0604, 0400, 0000, 0700, 04600}) {
        chmod(name.path().c_str(), mode);
        char what[32];
        std::snprintf(what, sizeof what, "mode %04o", unsigned(mode));
        is_refused(options(name), TableRefusal::wrong_mode, "remove /dev/shm/", what);
    }
    chmod(name.path().c_str(), 0600);
    tap::is(failure_of(options(name)).message, "opened", "with mode 0600 it is opened");

    if (geteuid() == 0) {
        int status = in_child([&] {
            if (setuid(65534) != 0) return 99;
            return int(failure_of(options(name)).reason);
        });
        tap::is(status, int(TableRefusal::wrong_owner), "without permission to open it, the refusal names its owner");
    } else {
        tap::skip(1, "needs to become another user");
    }

    Name link, folder, fifo;
    if (symlink(name.path().c_str(), link.path().c_str()) != 0) tap::bail_out("symlink");
    if (mkdir(folder.path().c_str(), 0700) != 0) tap::bail_out("mkdir");
    if (mkfifo(fifo.path().c_str(), 0600) != 0) tap::bail_out("mkfifo");
    is_refused(options(link), TableRefusal::not_a_table, "remove /dev/shm/", "a link to a table");
    is_refused(options(folder), TableRefusal::not_a_table, "remove /dev/shm/", "a folder");
    is_refused(options(fifo), TableRefusal::not_a_table, "remove /dev/shm/", "a FIFO");
    rmdir(folder.path().c_str());
}

void wrong_headers() {
    struct Case {
        const char* name;
        TableRefusal reason;
        bool checked;  // with a header check that matches
        void (*change)(proxy::TableHeader&);
    };
    static const Case cases[] = {
        {"another magic", TableRefusal::not_a_table, true, [](proxy::TableHeader& h) { h.magic++; }},
        {"another version", TableRefusal::other_layout, true, [](proxy::TableHeader& h) { h.version++; }},
        {"other sizes", TableRefusal::other_layout, true, [](proxy::TableHeader& h) { h.header_bytes++; }},
        {"other places", TableRefusal::other_layout, true, [](proxy::TableHeader& h) { h.layout_hash++; }},
        {"a check that does not match", TableRefusal::corrupt, false, [](proxy::TableHeader& h) { h.seed++; }},
        {"another boot", TableRefusal::other_boot, true, [](proxy::TableHeader& h) { h.boot_id[1]++; }},
        {"another time namespace", TableRefusal::other_clock, true, [](proxy::TableHeader& h) { h.clock_id++; }},
        {"no power of two", TableRefusal::corrupt, true, [](proxy::TableHeader& h) { h.entries = 48; }},
        {"too few entries", TableRefusal::corrupt, true, [](proxy::TableHeader& h) { h.entries = 2; }},
        {"too many entries", TableRefusal::corrupt, true,
         [](proxy::TableHeader& h) { h.entries = UINT64_C(1) << 62; }},
        {"more entries than bytes", TableRefusal::too_small, true, [](proxy::TableHeader& h) { h.entries = 128; }},
    };
    for (const Case& c : cases) {
        Name name;
        open(name);
        Raw raw(name);
        c.change(raw.header());
        if (c.checked) raw.header().check = proxy::header_check(raw.header());
        is_refused(options(name), c.reason, "remove /dev/shm/", c.name);
        tap::ok(access(name.path().c_str(), F_OK) == 0, std::string(c.name) + ": it is left as it is");
    }
    for (off_t bytes : {0, 64, 4096, 4096 + 64 * 64 - 1}) {
        Name name;
        open(name);
        if (truncate(name.path().c_str(), bytes) != 0) tap::bail_out("truncate");
        is_refused(options(name), TableRefusal::too_small, "remove /dev/shm/",
                   "cut to " + std::to_string(bytes) + " bytes");
    }
}

// Every header byte under the check; none of the wrong ones may be taken for right.
void damaged_headers() {
    Name name;
    open(name);
    Raw raw(name);
    int opened = 0;
    for (size_t byte = 0; byte < offsetof(proxy::TableHeader, fillers); byte++) {
        for (int bit = 0; bit < 8; bit++) {
            raw.byte(byte)[0] ^= 1 << bit;
            opened += failure_of(options(name)).message == "opened";
            raw.byte(byte)[0] ^= 1 << bit;
        }
    }
    tap::is(opened, 0, "a header with any bit changed is refused");
    tap::is(failure_of(options(name)).message, "opened", "put right, it is opened again");
}

void system_says_no() {
    Name name;
    int status = in_child([&] {
        signal(SIGXFSZ, SIG_IGN);
        rlimit small{8192, 8192};
        if (setrlimit(RLIMIT_FSIZE, &small) != 0) return 1;
        const proxy::TableFailure failure = failure_of(options(name, 1024));
        if (failure.reason != TableRefusal::system) return 2;
        if (failure.message.find("posix_fallocate of 118 KiB") == std::string::npos) return 3;
        return failure.message.find("pointer_table.entries") == std::string::npos ? 4 : 0;
    });
    tap::is(status, 0, "no memory for the entries: refused, with what call and what to do");
    tap::ok(access(name.path().c_str(), F_OK) != 0, "and nothing is left");

    status = in_child([&] {
        umask(0777);
        if (!open(name)->created()) return 1;
        struct stat file;
        if (stat(name.path().c_str(), &file) != 0) return 2;
        return (file.st_mode & 07777) == 0600 && file.st_nlink == 1 ? 0 : 3;
    });
    tap::is(status, 0, "with any umask the mode is 0600");
}

size_t names_in_shm() {
    size_t names = 0;
    const std::string ours = "farcached-test-" + std::to_string(getpid()) + "-";
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
        names += file.path().filename().string().starts_with(ours);
    return names;
}

void makers_killed() {
    for (TableStep at : {TableStep::file_made, TableStep::sized, TableStep::header_written, TableStep::named}) {
        Name name;
        const size_t before = names_in_shm();
        int status = in_child([&] {
            (void)PointerTable::open(options(name), [&](TableStep step) {
                if (step == at) raise(SIGKILL);
            });
            return 0;
        });
        const std::string where = "its maker killed at step " + std::to_string(int(at));
        tap::is(status, -1, where);
        const bool named = at == TableStep::named;
        tap::is(names_in_shm() - before, named ? 1u : 0u, where + ": a whole table is left, or nothing");
        auto table = open(name);
        tap::is(table->created(), !named, where + ": the next one makes it, or attaches");
        tap::is(table->put(1, derived(1, 1), now), Put::stored, where + ": and it works");
    }
}

void overtaken() {
    Name name;
    std::unique_ptr<PointerTable> quicker;
    PointerTable::Opened opened = PointerTable::open(options(name, 128), [&](TableStep step) {
        if (step == TableStep::header_written) quicker = open(options(name, 64));
    });
    auto* table = std::get_if<std::unique_ptr<PointerTable>>(&opened);
    tap::ok(table != nullptr && !(*table)->created() && (*table)->entries() == 64,
            "a process overtaken while it makes a table attaches to the other's");

    Name unsettled;
    int made = 0;
    opened = PointerTable::open(options(unsettled), [&](TableStep step) {
        if (step == TableStep::header_written) open(options(unsettled)), made++;
        if (step == TableStep::overtaken) shm_unlink(unsettled.text().c_str());
    });
    auto* failure = std::get_if<proxy::TableFailure>(&opened);
    tap::ok(failure != nullptr && failure->reason == TableRefusal::unsettled,
            "a name that comes and goes is given up");
    tap::ok(made > 1, "not at once");
}

// All wait at the same gate, a pipe that is closed.
void made_at_once() {
    constexpr int processes = 8, rounds = 25;
    int wrong_makers = 0, lost = 0, failed = 0;
    for (int round = 0; round < rounds; round++) {
        Name name;
        int gate[2];
        if (pipe(gate) != 0) tap::bail_out("pipe");
        std::vector<pid_t> children;
        std::fflush(stdout);
        for (uint64_t n = 0; n < processes; n++) {
            const pid_t child = fork();
            if (child < 0) tap::bail_out("fork");
            if (child == 0) {
                close(gate[1]);
                char none;
                while (read(gate[0], &none, 1) != 0) {}
                PointerTable::Opened opened = PointerTable::open(options(name));
                auto* table = std::get_if<std::unique_ptr<PointerTable>>(&opened);
                if (table == nullptr) _exit(2);
                (*table)->put(n, derived(n, n), now);
                _exit((*table)->created() ? 1 : 0);
            }
            children.push_back(child);
        }
        close(gate[0]);
        close(gate[1]);
        int makers = 0;
        for (pid_t child : children) {
            int status = 0;
            while (waitpid(child, &status, 0) < 0) {}
            if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) failed++;
            else makers += WEXITSTATUS(status);
        }
        wrong_makers += makers != 1;
        auto table = open(name);
        for (uint64_t n = 0; n < processes; n++)
            lost += table->find(n, one_node, now).found != Found::hit;
    }
    tap::is(failed, 0, "processes that start together all open the table");
    tap::is(wrong_makers, 0, "one of them makes it");
    tap::is(lost, 0, "and all share that one");
}

void this_host() {
    auto read = proxy::TableHost::of_this_process();
    auto again = proxy::TableHost::of_this_process();
    auto* host = std::get_if<proxy::TableHost>(&read);
    if (!tap::ok(host != nullptr, "this host has a boot id")) return;
    auto& same = std::get<proxy::TableHost>(again);
    tap::ok(host->boot_id[0] != 0 && host->boot_id[1] != 0, "by a number");
    tap::ok(same.boot_id[0] == host->boot_id[0] && same.boot_id[1] == host->boot_id[1] &&
                same.clock_id == host->clock_id,
            "the same every time");
}

}  // namespace

int main() {
    wrong_options();
    two_share();
    names();
    another_users_name();
    wrong_files();
    wrong_headers();
    damaged_headers();
    system_says_no();
    makers_killed();
    overtaken();
    made_at_once();
    this_host();
    tap::is(names_in_shm(), 0u, "nothing is left in /dev/shm");
    return tap::done();
}
