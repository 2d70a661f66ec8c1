# SPDX-License-Identifier: BSD-3-Clause
"""Conversations: a client's requests and the expected replies, as text. One conversation is one TAP test.

    conversations(daemon, r'''
    == get of a missing key
    > get foo\r\n
    < END\r\n
    == two clients
    a > set k 0 0 3\r\nbar\r\n
    a < STORED\r\n
    b > gets k\r\n
    b <~ VALUE k 0 3 \d+
    b < bar\r\nEND\r\n
    ''')

A step is an optional client name (a connection of its own; default `main`), an operator and its argument:

    >   send these bytes                <    read exactly these bytes
    <~  read one line, its text without CRLF matches this whole regular expression
    <.. read lines until one matches this whole regular expression
    !   the server closes without another byte (no argument)
    =   half-close: the client sends no more (no argument)
    #   a comment

Escapes in > and <: \\r \\n \\t \\0 \\\\ \\xNN; {x*300} is 300 times x (any bytes without braces). Consecutive steps with the same
operator are joined. The harness adds no bytes, so a line's CRLF is written out. After the last step a meta no-op on every open
connection proves that the server sent no other byte; `fence=False` leaves it out.
"""
import re

from daemon import Closed, TimedOut
from tap_output import show, tap, to_bytes

STEP = re.compile(r"^(?:(\w+)\s+)?(>|<~|<\.\.|<|!|=)(?: (.*)|)$")
ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)|\{([^{}]+)\*(\d+)\}", re.S)
NAMED = {b"r": b"\r", b"n": b"\n", b"t": b"\t", b"0": b"\0", b"\\": b"\\", b"{": b"{", b"}": b"}"}


def unescape(text):
    """The bytes of a step's argument."""
    def one(m):
        if m.group(2) is not None:
            return unescape(m.group(2)) * int(m.group(3))
        what = m.group(1)
        if what[:1] == b"x" and len(what) == 3:
            return bytes([int(what[1:], 16)])
        if what not in NAMED:
            raise ValueError("unknown escape \\%s" % what.decode("latin-1"))
        return NAMED[what]
    return ESCAPE.sub(one, to_bytes(text))


def parse(text):
    """[(title, [(client, operator, argument, source line), ...]), ...]"""
    found = []
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("=="):
            found.append((line[2:].strip(), []))
            continue
        m = STEP.match(line)
        if not m or not found:
            raise ValueError("line %d is no step of a conversation: %s" % (number, line))
        found[-1][1].append((m.group(1) or "main", m.group(2), m.group(3) or "", line))
    return found


class Mismatch(Exception):
    """A step failed; the arguments are the lines of the explanation."""


def _first_difference(got, want):
    at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    low = max(0, at - 20)
    return "first difference at byte %d: ...%s | ...%s" % (
        at, show(got[low:at + 40]), show(want[low:at + 40]))


def _line(client):
    try:
        return client.line()
    except (Closed, TimedOut) as e:
        raise Mismatch("no complete line arrived: %s" % e) from None


def _step(client, operator, argument):
    if operator == ">":
        try:
            client.send(unescape(argument))
        except ConnectionError as e:
            raise Mismatch("could not send: %s" % e) from None
    elif operator == "<":
        want = unescape(argument)
        got = client.upto(want)
        if got != want:
            raise Mismatch("got:    %s" % show(got), "wanted: %s" % show(want),
                           _first_difference(got, want))
    elif operator == "<~":
        got = _line(client).decode("latin-1").rstrip("\r\n")
        if not re.fullmatch(argument, got):
            raise Mismatch("got:         %s" % show(got), "not matched: %s" % argument)
    elif operator == "<..":
        seen = []
        while not seen or not re.fullmatch(argument, seen[-1]):
            try:
                seen.append(_line(client).decode("latin-1").rstrip("\r\n"))
            except Mismatch as e:
                raise Mismatch(*e.args, "lines before it: %s" % show("\n".join(seen))) from None
    elif operator == "!":
        try:
            got = client.until_close()
        except TimedOut as e:
            raise Mismatch("the server does not close", "got: %s" % show(e.got)) from None
        if got:
            raise Mismatch("arrived before the close: %s" % show(got))
        return False
    elif operator == "=":
        client.shutdown_send()
        return False
    return True


def converse(daemon, title, steps, fence=True):
    """Runs one conversation (a list from parse(), or its text without the title) as one TAP test."""
    if isinstance(steps, str):
        steps = parse("== %s\n%s" % (title, steps))[0][1]
    clients, open_ones = {}, {}
    done = []
    try:
        for name, operator, argument, source in steps:
            if name not in clients:
                clients[name] = daemon.client()
                open_ones[name] = True
            done.append(source)
            if not _step(clients[name], operator, argument):
                open_ones[name] = False
        for name in [n for n in clients if fence and open_ones[n]]:
            done.append("%s: nothing more" % name)
            clients[name].send(b"mn\r\n")
            _step(clients[name], "<", "MN\\r\\n")
    except Mismatch as e:
        return tap.ok(False, title, *["   " + s[:160] for s in done[-12:-1]], "-> " + done[-1][:300],
                                *e.args)
    finally:
        for c in clients.values():
            c.close()
    return tap.ok(True, title)


def conversations(daemon, text, fence=True):
    """Runs every conversation of a block, each on new connections; True if all passed."""
    return all([converse(daemon, title, steps, fence) for title, steps in parse(text)])
