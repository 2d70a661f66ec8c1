# SPDX-License-Identifier: BSD-3-Clause
"""Executes docs/tutorial.md: one bash runs its shell blocks in order, in a folder that has the programs in build/try and nothing
else. The output must contain the shown lines. Blocks that need RDMA run in a guest that has it ($FARCACHED_RDMA_ADDRESS).

The kernel replaces ports that are in use here. As root each daemon gets -u root, and farcached waits
longer for its nodes. Without nc or curl a few lines of Python replace
them. Commands that only display are repeated until they show the page's lines, because a person types more slowly than a test.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import connect, deadline, default_binary, tap, until, user_args  # noqa: E402

TOP = os.environ.get("abs_top_srcdir") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FENCED = re.compile(r"^```(\w+)(?: ([\w.]+))?\n(.*?)^```$", re.M | re.S)
PORTS = ("11211", "11301", "11302", "11303", "9150")
LOOKS = ("farctl status", "farctl route", "farctl top", "curl ", "export ")
NC = """import socket, sys
s = socket.create_connection((sys.argv[-2], int(sys.argv[-1])))
s.sendall(sys.stdin.buffer.read())
s.shutdown(socket.SHUT_WR)
while piece := s.recv(65536):
    sys.stdout.buffer.write(piece)
"""
CURL = "import sys, urllib.request\nprint(urllib.request.urlopen(sys.argv[-1]).read().decode())\n"


def reserve_ports():
    """Sockets that are bound and do not listen, at the page's ports if they are free: they reserve ports until they are closed.
    The kernel gives such a port to no process that asks for any, but daemons can bind it by number, since they set SO_REUSEADDR."""
    sockets = []
    for port in PORTS:
        sockets.append(socket.socket())
        sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if somebody_listens(int(port)):
            port = 0
        sockets[-1].bind(("127.0.0.1", int(port)))
    return sockets


def somebody_listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def write_program(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


def make_programs(folder):
    """Writes the programs in the folder where contrib/try builds them."""
    built = os.path.dirname(os.path.abspath(default_binary()))
    for name in ("farcached", "farnode", "farctl", "farbench"):
        more = " ".join(user_args()) if name in ("farcached", "farnode") else ""
        if name == "farcached":  # a busy machine may stop a node for longer than a second
            more += " -o node_timeout_ms=%d" % int(min(deadline(), 60) * 1000)
        write_program(folder, name, '#!/bin/sh\nexec "%s/%s" %s "$@"\n' % (built, name, more))
    for name, text in (("nc", NC), ("curl", CURL)):
        if not shutil.which(name):
            write_program(folder, name, "#!%s\n%s" % (sys.executable, text))


class Shell:
    """One bash; run() gives the status and the output of some lines."""

    def __init__(self, folder):
        self.errors = open(os.path.join(folder, "stderr"), "w+b")
        self.process = subprocess.Popen(["bash", "--norc"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, start_new_session=True)
        self.number = 0

    def run(self, lines):
        self.number += 1
        end = "-- the end of %d, status " % self.number
        signal.alarm(int(deadline() * 3))
        self.process.stdin.write(("%s\nprintf '\\n%s%%d\\n' $?\n" % (lines, end)).encode())
        self.process.stdin.flush()
        shown = []
        for line in iter(self.process.stdout.readline, b""):
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            if text.startswith(end):
                signal.alarm(0)
                return int(text[len(end):]), "\n".join(shown)
            shown.append(text)
        return None, "\n".join(shown)

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace")

    def end(self):
        """Ends the shell and all processes started from it."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.errors.close()


def shows(output, wanted):
    """Does the output contain these lines in this order? Runs of blanks are equal, and ... matches anything."""
    at = 0
    for line in wanted.strip().splitlines():
        words = [".*?" if word == "..." else re.escape(word) for word in line.split()]
        found = re.compile(r"(?<![\w.])" + r"\s+".join(words)).search(output, at)
        if not found:
            return False
        at = found.end()
    return True


def only_looks(lines):
    return all(line.startswith(LOOKS) for line in lines.splitlines())


def serves(where):
    """Does a port have a listener, or does a daemon answer at the admin socket? The latter opens all addresses before."""
    try:
        with connect(("127.0.0.1", int(where)) if where.isdigit() else where, 5.0) as s:
            if where.isdigit():
                return True
            s.sendall(b"version\r\n")
            return s.recv(100).startswith(b"VERSION")
    except OSError:
        return False


def until_started(lines, folder, ports):
    """Waits until a background command serves at each port and admin socket of its line."""
    for line in [line for line in lines.splitlines() if line.endswith("&")]:
        here = [port for port in ports.values() if re.search(r"(?:-p |127\.0\.0\.1:)%s\b" % port, line)]
        if "--config " in line:
            with open(os.path.join(folder, "far.toml"), encoding="utf-8") as file:
                here += re.findall(r"^port = (\d+)$", file.read(), re.M)
            here.append(os.path.join(folder, "admin.sock"))
        here += [os.path.join(folder, name) for name in re.findall(r'--admin "\$PWD/([\w.]+)"', line)]
        tap.ok(all(until(lambda where=where: serves(where), bool) for where in here), "it serves: " + line)


AT_LAST = 0.97  # of gets are one-sided


def shares_in(output):
    return [float(share) for share in re.findall(r"^GETs one-sided: ([\d.]+) of all", output, re.M)]


class Tutorial:
    def __init__(self, shell, folder):
        self.shell, self.folder, self.reserved = shell, folder, reserve_ports()
        self.ports = dict(zip(PORTS, [str(s.getsockname()[1]) for s in self.reserved]))
        self.rdma = os.environ.get("FARCACHED_RDMA_ADDRESS")
        self.shares = []  # of one-sided gets, one for each load

    def here(self, text):
        for port, ours in self.ports.items():
            text = re.sub(r"\b%s\b" % port, ours, text)
        return text.replace("10.0.0.1", self.rdma) if self.rdma else text

    def run(self, lines, wanted):
        lines, wanted = self.here(lines), self.here(wanted)
        name = lines.splitlines()[-1]

        def once():
            status, output = self.shell.run(lines)
            until_started(lines, self.folder, self.ports)
            return status, output

        if only_looks(lines):
            status, output = until(once, lambda seen: seen[0] is None or seen[0] == 0 and shows(seen[1], wanted))
        elif only_looks(name) and wanted:
            self.run("\n".join(lines.splitlines()[:-1]), "")
            return self.run(name, wanted)
        else:
            status, output = once()
        for _ in range(4):  # on a busy machine leases end between gets, and farbench may miss the counters
            found = shares_in(output)
            if "GETs one-sided" not in wanted or (found and (not self.shares or found[-1] >= AT_LAST)):
                break
            status, output = once()
        self.shares += shares_in(output)
        tap.ok(status == 0 and shows(output, wanted), name, "status: %s" % status, "shown:", output, "wanted:", wanted)
        return None


def main():
    signal.signal(signal.SIGALRM, lambda *_: tap.bail("a command of the tutorial does not end"))
    with open(os.path.join(TOP, "docs", "tutorial.md"), encoding="utf-8") as page:
        blocks = FENCED.findall(page.read())
    tap.ok(len(blocks) > 15, "the tutorial has blocks")
    folder = tempfile.mkdtemp(prefix="farcached-tutorial-")
    os.makedirs(os.path.join(folder, "build", "try"))
    make_programs(os.path.join(folder, "build", "try"))
    shell = Shell(folder)
    try:
        tutorial = Tutorial(shell, os.path.join(folder, "build", "tutorial"))
        for (kind, what, text), (next_kind, _, wanted) in zip(blocks, blocks[1:] + [("", "", "")]):
            if kind == "sh" and (what != "rdma" or tutorial.rdma):
                tutorial.run(text.rstrip("\n"), wanted if next_kind == "text" else "")
            if tap.failed:  # later blocks would fail, too
                tap.diag(shell.stderr()[-4000:])
                break
        else:
            tap.is_(tutorial.shares[0], 0.0, "no get is one-sided at first")
            tap.ok(tutorial.shares[1] >= AT_LAST, "and at last 97 % are", tutorial.shares)
    finally:
        shell.end()
        shutil.rmtree(folder, ignore_errors=True)
    tap.done()


main()
