# SPDX-License-Identifier: BSD-3-Clause
"""TAP output for automake's driver: the object `tap`, and bytes shown as text.

A script that ends in an exception, or without tap.done(), bails out, so it never passes by accident.
"""
import atexit
import os
import re
import shutil
import signal as signals
import sys
import traceback


def to_bytes(data):
    return data.encode("latin-1") if isinstance(data, str) else bytes(data)


def show(data, limit=400):
    """Bytes as one printable line; a long one is cut in the middle."""
    data = to_bytes(data)
    text = "".join(chr(b) if 32 <= b < 127 and b != 92 else
                   {13: "\\r", 10: "\\n", 92: "\\\\", 9: "\\t"}.get(b, "\\x%02x" % b) for b in data)
    if len(text) <= limit:
        return text
    return "%s...[%d bytes]...%s" % (text[:limit // 2], len(data), text[-limit // 4:])


class Tap:
    """TAP for automake's driver. `done()` prints the plan if `plan()` did not, and exits."""

    def __init__(self):
        self.count = 0
        self.failed = 0
        self.planned = None
        self.finished = False

    def plan(self, n):
        self.planned = n
        self.emit("1..%d" % n)

    def emit(self, line):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def ok(self, condition, name, *details):
        self.count += 1
        name = str(name).replace("#", "\\#").replace("\n", " ")
        self.emit("%s %d - %s" % ("ok" if condition else "not ok", self.count, name))
        if not condition:
            self.failed += 1
            for d in details:
                self.diag(d)
        return bool(condition)

    def is_(self, got, want, name):
        return self.ok(got == want, name, "got:    %s" % self._shown(got), "wanted: %s" % self._shown(want))

    def like(self, got, pattern, name):
        text = got.decode("latin-1") if isinstance(got, (bytes, bytearray)) else str(got)
        return self.ok(re.search(pattern, text), name, "got:         %s" % self._shown(text),
                       "not matched: %s" % pattern)

    def skip(self, name, why):
        self.count += 1
        self.emit("ok %d - %s # SKIP %s" % (self.count, str(name).replace("#", "\\#"), why))

    def skip_all(self, why):
        self.finished = True
        self.emit("1..0 # SKIP %s" % why)
        sys.exit(0)

    def path_of(self, program, path=None):
        """Where the program is; None: it is not installed. If FARCACHED_TEST_TOOLS says that it is, the test fails instead."""
        found = shutil.which(program, path=path)
        if found is None and os.environ.get("FARCACHED_TEST_TOOLS"):
            self.bail("%s is not installed" % program)
        return found

    def diag(self, text):
        for line in str(text).split("\n"):
            self.emit("# " + line)

    def bail(self, why):
        self.finished = True
        self.emit("Bail out!  %s" % str(why).replace("\n", " "))
        sys.exit(1)

    def done(self):
        self.finished = True
        if self.planned is None:
            self.emit("1..%d" % self.count)
        elif self.planned != self.count:
            self.diag("planned %d tests but ran %d" % (self.planned, self.count))
            sys.exit(1)
        sys.exit(1 if self.failed else 0)

    @staticmethod
    def _shown(value):
        if isinstance(value, (bytes, bytearray)):
            return show(value)
        return show(value) if isinstance(value, str) else repr(value)


tap = Tap()


def _on_exception(kind, value, trace):
    for line in traceback.format_exception(kind, value, trace):
        tap.diag(line.rstrip("\n"))
    tap.finished = True
    tap.emit("Bail out!  %s: %s" % (kind.__name__, str(value).split("\n")[0][:300]))


def _on_exit():
    if not tap.finished:
        tap.emit("Bail out!  the script ended without tap.done()")
        sys.stdout.flush()
        os._exit(1)


def _on_signal(number, _frame):
    raise SystemExit(128 + number)


sys.excepthook = _on_exception
atexit.register(_on_exit)
signals.signal(signals.SIGTERM, _on_signal)
