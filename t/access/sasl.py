# SPDX-License-Identifier: BSD-3-Clause
"""-S: clients of the binary protocol authenticate by SASL, as with memcached. Until then they get the version, and else an error
and their end. t/access/sasl_transports.py has TLS, io_uring, nodes and the other sockets."""
import os
import re
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from binary_client import TEXT, op, packet, set_extras, status  # noqa: E402
from farcached import Closed, deadline, default_binary, is_sanitized, run_binary, tap, until  # noqa: E402
from sasl_daemon import (FOLDER, HAS_DATABASE, JOHN, MARY, USER, SaslDaemon, configure, cram_md5, path_of, plain,  # noqa: E402
                         write)

CONTINUE = 0x21
LOOPBACK = ("-l", "127.0.0.1", "-p", "-1")


def shows(reply):
    return reply.status, reply.value


def fails(reply, name, code=status.AUTH):
    tap.is_((reply.status, reply.value, reply.key, reply.extras, reply.cas),
            (code, {**TEXT, status.NO_MEMORY: b"Out of memory"}[code], b"", b"", 0), name)


def auth(b, user=USER, mechanism="PLAIN"):
    return b.ask(op.SASL_AUTH, mechanism, plain(*user))


def in_frame(b, name):
    tap.is_(shows(b.ask(op.VERSION)), (status.OK, b.version), name + ": the connection stays, in frame")


def talk(d):
    b = d.talk()
    b.version = d.version
    return b


# -- Before authentication -----------------------------------------------------------------------------------

def before(d):
    for opcode in [op.GET, op.GETQ, op.GETK, op.SET, op.SETQ, op.DELETE, op.INCR, op.QUIT, op.QUITQ, op.FLUSH, op.NOOP, op.STAT,
                   op.TOUCH, op.GATKQ, op.VERBOSITY, 0x30, 0xFF]:
        replies = talk(d).closes_after(opcode, "" if opcode in (op.QUIT, op.NOOP) else "key", opaque=7)
        tap.is_([(r.opcode, r.status, r.value, r.opaque) for r in replies or []], [(opcode, status.AUTH, b"Auth failure.", 7)],
                "before: opcode %02x gets an error and the end" % opcode)
    b = talk(d)
    b.raw.send(packet(op.VERSION), packet(op.SET, "a", "1", set_extras()), packet(op.SASL_AUTH, "PLAIN", plain(*USER)))
    replies = [b.read(), b.read()]
    tap.is_([r.status for r in replies] + [b.closed()], [status.OK, status.AUTH, True], "before: nothing behind the error is read")
    b = d.client()
    b.send(b"get a\r\n")
    b.shutdown_send()
    tap.is_(b.until_close(), b"", "before: the text protocol gets no reply")
    b = talk(d)
    in_frame(b, "VERSION")
    listed = b.ask(op.SASL_LIST)
    tap.is_((listed.status, sorted(listed.value.split())), (0, [b"CRAM-MD5", b"LOGIN", b"PLAIN"]), "LIST")
    in_frame(b, "LIST")


def shapes(d):
    for name, code, args, more in (
            ("LIST with a body", status.INVALID, (op.SASL_LIST, "", "v"), {}),
            ("AUTH without a mechanism", status.INVALID, (op.SASL_AUTH, "", "v"), {}),
            ("STEP with extras", status.INVALID, (op.SASL_STEP, "PLAIN", "v", b"abcd"), {}),
            ("AUTH with a name of 251 bytes", status.INVALID, (op.SASL_AUTH, "m" * 251), {}),
            ("VERSION with a key", status.INVALID, (op.VERSION, "k"), {}),
            ("AUTH whose name is longer than its body", status.UNKNOWN, (op.SASL_AUTH, "PLAIN"), {"body": 2}),
            ("GET with extras", status.AUTH, (op.GET, "k", "", b"abcd"), {}),
            ("GET of over 1 GiB", status.INVALID, (op.GET, "k"), {"body": (1 << 30) + 1})):
        replies = talk(d).closes_after(*args, **more)
        tap.is_([r.status for r in replies or []], [code], "%s: status %#x, and the end" % (name, code))
    b = talk(d)
    fails(b.ask(op.SASL_AUTH, "M" * 33, "v" * 1000), "a mechanism's name of 33 bytes", status.INVALID)
    in_frame(b, "a name of 33 bytes")
    fails(b.ask(op.SASL_AUTH, "M" * 32, "v"), "a mechanism's name of 32 bytes is unknown")
    fails(b.ask(op.SASL_AUTH, "PLAIN\0", plain(*USER)), "a mechanism's name with a null byte is unknown")
    fails(b.ask(op.SASL_AUTH, "PLAIN", "v" * (64 << 10)), "a response of 64 KiB")
    fails(b.ask(op.SASL_AUTH, "PLAIN", "v" * ((64 << 10) + 1)), "a longer one is discarded", status.NO_MEMORY)
    in_frame(b, "a long response")
    tap.is_(shows(auth(b)), (0, b"Authenticated"), "and the client can authenticate")


# -- Attempts ------------------------------------------------------------------------------------------------

def attempts(d):
    b, (cmds, errors) = talk(d), d.attempts()
    user, password = USER
    tried = ((user, password + "x"), (user, password[:-1]), (user, ""), ("x" + user, password), ("", password),
             (user + ":", password))
    for one in tried:
        fails(auth(b, one), "%r is refused" % (one,))
    fails(b.ask(op.SASL_AUTH, "NONE", plain(*USER)), "an unknown mechanism")
    fails(b.ask(op.SASL_AUTH, "PLAIN", "no null bytes"), "a response that is none of PLAIN")
    fails(b.ask(op.SASL_AUTH, "PLAIN", "mary" + plain(*USER)), "a client that would act for another")
    fails(b.ask(op.SASL_STEP, "PLAIN", plain(*USER)), "STEP without AUTH")
    in_frame(b, "refused attempts")
    count = len(tried) + 4
    tap.is_(tuple(a - c for a, c in zip(d.attempts(), (cmds, errors))), (count + 1, count), "auth_cmds and auth_errors")
    b = talk(d)
    asked = b.ask(op.SASL_AUTH, "PLAIN")
    tap.is_(shows(asked), (CONTINUE, b""), "PLAIN without a response goes on")
    tap.is_(shows(b.ask(op.SASL_STEP, "PLAIN", plain(*USER))), (0, b"Authenticated"), "with a STEP")


def steps(d):
    user, password = USER
    b = talk(d)
    tap.is_(shows(b.ask(op.SASL_AUTH, "LOGIN")), (CONTINUE, b"Username:"), "LOGIN asks for the name")
    tap.is_(shows(b.ask(op.SASL_STEP, "LOGIN", user)), (CONTINUE, b"Password:"), "then for the password")
    in_frame(b, "VERSION between steps")
    tap.is_(shows(b.ask(op.SASL_STEP, "LOGIN", password)), (0, b"Authenticated"), "LOGIN")
    b = talk(d)
    b.ask(op.SASL_AUTH, "LOGIN", user)
    fails(b.ask(op.SASL_STEP, "LOGIN", "wrong"), "LOGIN with a wrong password")
    fails(b.ask(op.SASL_STEP, "LOGIN", password), "the attempt is over then")
    b.ask(op.SASL_AUTH, "LOGIN")
    tap.is_(shows(auth(b)), (0, b"Authenticated"), "an AUTH replaces an attempt")
    b = talk(d)
    b.ask(op.SASL_AUTH, "LOGIN")
    replies = b.closes_after(op.GET, "a")
    tap.is_([r.status for r in replies or []], [status.AUTH], "a GET between steps gets an error and the end")
    if not HAS_DATABASE:
        return tap.skip("CRAM-MD5", "libsasl2 cannot store a password")
    for word, want in (("wrong", (status.AUTH, b"Auth failure.")), (JOHN[1], (0, b"Authenticated"))):
        b = talk(d)
        challenge = b.ask(op.SASL_AUTH, "CRAM-MD5")
        tap.is_((challenge.status, challenge.value[:1]), (CONTINUE, b"<"), "CRAM-MD5 sends a challenge")
        tap.is_(shows(b.ask(op.SASL_STEP, "CRAM-MD5", cram_md5(challenge.value, JOHN[0], word))), want, "CRAM-MD5 with " + word)


def afterwards(d):
    b = d.member()
    b.version = d.version
    tap.is_((b.ask(op.SET, "a", "1", set_extras()).status, b.ask(op.GET, "a").value), (0, b"1"), "afterwards all is as without -S")
    tap.is_(b.quiet(op.GETQ, "none"), [], "quiet commands, too")
    tap.is_(shows(auth(b)), (0, b"Authenticated"), "a client may authenticate again")
    tap.is_(b.ask(op.GET, "a").value, b"1", "and goes on")
    fails(auth(b, (USER[0], "wrong")), "a second attempt that fails")
    tap.is_([r.status for r in b.closes_after(op.GET, "a") or []], [status.AUTH], "makes it unauthenticated")
    for name, request in (("LIST", (op.SASL_LIST,)), ("STEP", (op.SASL_STEP, "PLAIN", plain(*USER))),
                          ("LOGIN", (op.SASL_AUTH, "LOGIN"))):
        b = d.member()
        b.ask(*request)
        tap.is_([r.status for r in b.closes_after(op.GET, "a") or []], [status.AUTH], "%s does so, too" % name)


def pipelines(d):
    login, wrong = packet(op.SASL_AUTH, "PLAIN", plain(*USER)), packet(op.SASL_AUTH, "PLAIN", plain(USER[0], "wrong"))
    requests = [wrong, login, packet(op.SET, "p", "v", set_extras()), packet(op.GETKQ, "none"), packet(op.GET, "p"), login,
                packet(op.GET, "p"), packet(op.SASL_LIST), login, login, packet(op.NOOP), wrong, packet(op.GET, "p"), login]
    want = [(op.SASL_AUTH, 0x20), (op.SASL_AUTH, 0), (op.SET, 0), (op.GET, 0), (op.SASL_AUTH, 0), (op.GET, 0), (op.SASL_LIST, 0),
            (op.SASL_AUTH, 0), (op.SASL_AUTH, 0), (op.NOOP, 0), (op.SASL_AUTH, 0x20), (op.GET, 0x20)]
    bytes_of_all = b"".join(requests)
    for name, send in (("at once", lambda raw: raw.send(bytes_of_all)), ("byte by byte", lambda raw: raw.send_split(bytes_of_all)),
                       ("in pieces of 7", lambda raw: raw.send_split(bytes_of_all, (7,))),
                       ("in pieces of 31", lambda raw: raw.send_split(bytes_of_all, (31,)))):
        b = talk(d)
        try:
            send(b.raw)
        except OSError:
            pass  # the end came before the last byte
        got = [b.read() for _ in want]
        tap.is_([(r.opcode, r.status) for r in got], want, "a pipeline, %s" % name)
        tap.ok(b.closed(), "a pipeline, %s: the end" % name)
    many = 100
    b = talk(d)
    b.raw.send((wrong + login + packet(op.GET, "p")) * many)
    got = [b.read().status for _ in range(3 * many)]
    tap.is_(got, [0x20, 0, 0] * many, "%d attempts and gets in one pipeline" % (3 * many))


def many_at_once(d):
    """From several threads, in several workers."""
    good, bad = [], []

    def attempt(number):
        for i in range(20):
            with d.talk(deadline()) as b:
                b.ask(op.SASL_AUTH, "CRAM-MD5" if i % 3 else "LOGIN")  # one that does not end
                user = (USER[0], USER[1] if (i + number) % 2 else "wrong")
                (good if (auth(b, user).status == 0) == ((i + number) % 2 == 1) else bad).append(user)
    threads = [threading.Thread(target=attempt, args=(n,)) for n in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    tap.is_((len(good), bad), (160, []), "attempts of 8 clients at once")


def abandoned(d):
    """Memory of attempts that never end is given back."""
    if is_sanitized():
        return tap.skip("memory of attempts", "a sanitizer keeps freed memory")

    def once():
        clients = [d.talk() for _ in range(50)]
        for b in clients:
            b.ask(op.SASL_AUTH, "LOGIN")
        for b in clients:
            b.raw.close()
        return until(lambda: d.stats()["curr_connections"], lambda n: int(n) <= 3)
    once()
    before_them = d.memory()["Private"]
    for _ in range(10):
        once()
    grown = d.memory()["Private"] - before_them
    tap.ok(grown < 4 << 20, "500 attempts that never end leave no memory behind", "%d bytes" % grown)


# -- farcached's alone ---------------------------------------------------------------------------------------

def names_without_leaks(d):
    """libsasl2 2.1.28 does not free all memory of an attempt with such a name, if it gets it as it is."""
    words = b"w" * 1000

    def login(b, name):
        b.ask(op.SASL_AUTH, "LOGIN")
        b.ask(op.SASL_STEP, "LOGIN", name)
        return b.ask(op.SASL_STEP, "LOGIN", words)

    def by_plain(b, name):
        return b.ask(op.SASL_AUTH, "PLAIN", b"\0%s\0%s" % (name, words))
    with d.talk() as b:
        for attempt, name, times in ((login, b"", 2000), (login, b" \t", 2000), (login, b" x", 2000), (login, b"n" * 1024, 2000),
                                     (by_plain, b" ", 2000), (by_plain, b" x", 2000), (by_plain, b"n" * 60_000, 200)):
            for _ in range(20):
                attempt(b, name)
            before_them = d.memory()["Private"]
            times = times // 100 if is_sanitized() else times  # LeakSanitizer needs one
            refused = sum(attempt(b, name).status == status.AUTH for _ in range(times))
            label = "%s: %d attempts with %.6r, %d bytes," % (attempt.__name__, times, name, len(name))
            tap.is_(refused, times, label + " are refused")
            grown = d.memory()["Private"] - before_them
            if is_sanitized():
                tap.skip(label + " and lose no memory", "a sanitizer keeps freed memory")
            else:
                tap.ok(grown < 1 << 20, label + " and lose no memory", "%d bytes" % grown)
    tap.ok(d.admits((" %s " % USER[0], USER[1])), "spaces around a name are not part of it")


def passwords_file(d):
    tap.ok(d.admits(MARY) and not d.admits(("mary", "with")), "MEMCACHED_SASL_PWDB")
    write(path_of("passwords"), "ann:new:a remark\r\nmary:changed\nempty:\n:nameless\nlong:%s\n" % ("x" * 5000))
    with d.member(("ann", "new")):
        tap.ok(not d.admits(MARY) and d.admits(("mary", "changed")), "is read again for each attempt")
        for user in (("ann", "new:a remark"), ("long", "x" * 5000), ("empty", "")):
            tap.ok(d.admits(user), "%.20r is in it" % (user,))
        for user in (("ann:new", "a remark"), ("", "nameless"), ("nobody", ""), ("ann", "ne"), ("ann", "new:a")):
            tap.ok(not d.admits(user), "%r is not" % (user,))
        os.unlink(path_of("passwords"))
        tap.ok(not d.admits(("ann", "new")), "without the file no client of it is admitted")
        tap.like(until(d.stderr, lambda said: b"MEMCACHED_SASL_PWDB" in said), "MEMCACHED_SASL_PWDB .*: cannot read the passwords",
                 "and the log names it")
    write(path_of("passwords"), "%s:%s\n" % MARY + "# a remark\n" * 100_000)
    tap.ok(not d.admits(MARY), "a file of over a megabyte admits none of its clients")
    said = until(d.stderr, lambda text: b"megabyte" in text)
    tap.like(said, "MEMCACHED_SASL_PWDB .*: more than a megabyte", "and the log says so")
    write(path_of("passwords"), "%s:%s\n" % MARY)
    tap.ok(d.admits(MARY), "until it is there again")


def logged(d):
    d.admits((USER[0], "never logged"))
    said = until(d.stderr, lambda text: b"authentication failed" in text).decode()
    tap.like(said, r"a client's authentication failed reason=.* client=127\.0\.0\.1:\d+", "a failure is logged, with the client")
    with d.talk() as b:
        b.ask(op.SASL_AUTH, "X client=10.0.0.1:1", "never logged")
    with d.member() as b:
        b.raw.send(packet(op.NOOP), packet(op.SASL_AUTH, "PLAIN", plain(USER[0], "never logged")))
        tap.is_([b.read().status, b.read().status], [0, status.AUTH], "an attempt behind another request")
    said = until(d.stderr, lambda text: b"X client" in text).decode()
    tap.ok(not re.search(r"[^\w]client=10", re.sub(r'"[^"]*"', "", said)), "a mechanism's name forges no field", said)
    tap.ok("never logged" not in said, "no line has a password", said)


def settings(d):
    shown = d.stats("settings")
    tap.is_((shown["auth_enabled_sasl"], shown["auth_enabled_ascii"], shown["binding_protocol"]), ("yes", "no", "binary"),
            "`stats settings`")


def few_buffers():
    """Clients that begin attempts and never end them do not take all memory, nor those of one worker that of the others."""
    for threads in (1, 3):
        with SaslDaemon("-o", "read_buf_mem_limit=1", "-c", "1000", threads=threads) as d:
            clients, ended = [d.talk() for _ in range(threads * 100)], 0
            for b in clients[::threads]:  # the connections go to the workers in turn
                try:
                    b.ask(op.SASL_AUTH, "LOGIN")
                except (Closed, OSError):
                    ended += 1
            admitted = [d.admits(USER) for _ in range(2 * threads)]
            tap.ok(all(admitted), "%d workers, 100 attempts under way in one: others can authenticate" % threads,
                   "%r; %d were ended" % (admitted, ended))
            for b in clients:
                b.raw.close()


def starts():
    ascii_too = b"ERROR: You cannot allow the ASCII protocol while using SASL.\n"
    binary_too = b"ERROR: You cannot allow the BINARY protocol while using ascii authentication tokens.\n"
    for args, want in (("-S -B ascii", ascii_too), ("-S -B auto", ascii_too), ("-S -B binary -B ascii", ascii_too),
                       ("-S -Y /x", binary_too), ("-S -B binary -Y /x", binary_too)):
        code, _, err = run_binary(*LOOPBACK, *args.split())
        tap.is_((code, err), (64, want), args)
    code, _, err = run_binary("-S", "-l", "proto[ascii]:127.0.0.1:0")
    tap.is_((code, err), (64, ascii_too), "a listener of the text protocol is refused, too")
    path = path_of("other.conf")
    write(path, "mech_list: plain\n")
    code, _, err = run_binary("-S", *LOOPBACK, env={"SASL_CONF_PATH": path})
    tap.is_((code != 0, err.startswith(b"SASL_CONF_PATH %s: libsasl2 reads files" % path.encode())), (True, True),
            "a file of another name is refused")
    with SaslDaemon(env={"SASL_CONF_PATH": "/nowhere:" + FOLDER.name}) as d:
        tap.ok(b"memcached.conf" not in d.stderr() and d.admits(USER), "several folders")
    with SaslDaemon(env={"SASL_CONF_PATH": "/nowhere"}) as d:
        tap.like(d.stderr(), "-S: no readable memcached.conf in /nowhere", "without a readable file the log has a warning")
    with SaslDaemon(env={"SASL_CONF_PATH": ""}) as d:
        tap.ok(b"no readable memcached.conf" not in d.stderr(), "an empty path names no folder: no warning")
    configure("plain anonymous")
    with SaslDaemon() as d, d.talk() as b:
        tap.is_(shows(b.ask(op.SASL_LIST)), (0, b"PLAIN"), "ANONYMOUS is not in the list")
        fails(b.ask(op.SASL_AUTH, "ANONYMOUS", "somebody"), "and lets nobody in")
    configure("none")
    with SaslDaemon() as d:
        tap.like(d.stderr(), "libsasl2 has no mechanism", "without a mechanism the log has a warning")
        with d.talk() as b:
            fails(b.ask(op.SASL_LIST), "and LIST fails")
            fails(auth(b), "as AUTH does")
    configure()


def main():
    with SaslDaemon(threads=4) as d:
        with d.talk() as b:
            d.version = b.ask(op.VERSION).value
        for test in (before, shapes, attempts, steps, afterwards, pipelines, many_at_once, abandoned):
            test(d)
        settings(d)
    if os.path.basename(default_binary()) == "memcached":
        return tap.done()
    with SaslDaemon("-v") as d:
        passwords_file(d)
    with SaslDaemon() as d:
        names_without_leaks(d)
    with SaslDaemon("-v") as d:  # another one, because it logs only some of many failures
        logged(d)
    few_buffers()
    starts()
    tap.done()


main()
