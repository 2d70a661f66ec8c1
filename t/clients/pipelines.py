# SPDX-License-Identifier: BSD-3-Clause
"""Sends random pipelines of requests to the daemon under test and to a memcached, and compares every reply byte and every close.

The reference is the program in $FARCACHED_REFERENCE, else memcached on PATH. pipeline_differences.py lists the intended differences
from its version; pipeline_replies.py lists the parts that cannot be equal. The pipelines use all three protocols, on an open
connection or on a new one, whose protocol the server does not know yet. A pipeline is cut into writes at random.

Both servers run with one worker. A second connection to each one serves as a clock: its request is answered after the worker has
read all earlier bytes on any connection. So no step waits for a fixed time.

A difference is shrunk: requests and cuts that it does not need are removed, with new servers for each try.

$FARCACHED_SEED chooses other pipelines and $FARCACHED_PIPELINES their number; $FARCACHED_TEST_LONG=1 runs a hundred thousand.
"""
import os
import random
import re
import shutil
import signal
import subprocess
import time

from binary_client import op, packet
from farcached import SANITIZER_REPORT, Daemon, deadline, select_nothing, show, tap
from pipeline_differences import is_modern, table_for
from pipeline_replies import SameCas, Token, binary_tokens, text_tokens
from pipeline_requests import Cas, Requests

SEED = int(os.environ.get("FARCACHED_SEED", "20261123"))
LONG = os.environ.get("FARCACHED_TEST_LONG") == "1"
PIPELINES = int(os.environ.get("FARCACHED_PIPELINES", "100000" if LONG else "3000"))
PER_EPISODE = 100      # then both servers restart
REQUESTS_MAX = 12
ITEM_BYTES_MAX = 32768
TRIES_MAX = 400        # of one shrinking
SHOWN_BYTES_MAX = 1000
QUIET_ROUNDS = 3       # without a byte: the answer is complete
LATE_ROUNDS_MAX = 200  # before a difference counts
# One worker, so that an answer on one connection proves that the others were read. No background threads, because memcached stores
# a number again, without padding, while a thread holds the item.
ARGUMENTS = ["-m", "64", "-t", "1", "-o", "no_lru_crawler,no_lru_maintainer"]
# An item is one chunk, because memcached 1.6.18 crashes with these options.
SMALL_ITEMS = ["-I", "%dk" % (ITEM_BYTES_MAX // 1024), "-o", "slab_chunk_max=%d" % (ITEM_BYTES_MAX // 1024)]


def reference():
    """(program, version as numbers), or None."""
    program = os.environ.get("FARCACHED_REFERENCE") or shutil.which("memcached")
    if not program:
        return None
    told = subprocess.run([program, "-V"], capture_output=True, text=True, timeout=60).stdout
    found = re.match(r"memcached (\d+)\.(\d+)\.(\d+)", told)
    return (program, tuple(int(n) for n in found.groups())) if found else None


class Pipeline:
    """Requests for one connection. cuts: for each request the offsets at which a new write begins."""

    def __init__(self, binary, fresh, requests, cuts):
        self.binary, self.fresh, self.requests, self.cuts = binary, fresh, requests, cuts

    def writes(self, last):
        """The bytes of each write, for the server that showed these CAS values."""
        pieces = [b""]
        for request, cuts in zip(self.requests, self.cuts):
            data = b"".join(p.bytes_for(last) if isinstance(p, Cas) else p for p in request)
            start = 0
            for cut in cuts:
                pieces[-1] += data[start:cut]
                pieces.append(b"")
                start = cut
            pieces[-1] += data[start:]
        return [p for p in pieces if p]

    def shown(self):
        lines = ["%s connection, %s" % ("a new" if self.fresh else "the same", "binary" if self.binary else "text")]
        for request, cuts in zip(self.requests, self.cuts):
            parts = ["".join(repr(p) if isinstance(p, Cas) else show(p, SHOWN_BYTES_MAX) for p in request)]
            lines.append("  " + "".join(parts) + ("   cut at %s" % cuts if cuts else ""))
        return lines

    def raw(self):
        """The bytes that patterns search; a CAS is digits."""
        return b"".join(b"0" * len(p) if isinstance(p, Cas) else p for request in self.requests for p in request)


class Server:
    """One of the two servers and its connections: `clock`, which proves that all others were read, and one per protocol."""

    def __init__(self, binary, arguments, is_ours):
        self.is_ours = is_ours
        self.daemon = Daemon(*arguments, binary=binary).start()
        self.last = {}  # key: the last shown CAS
        self.clock = self.daemon.client()
        self.tick()
        self.open, self.unused = {}, []

    def stop(self):
        for client in list(self.open.values()) + self.unused + [self.clock]:
            client.close()
        status = self.daemon.stop(signal.SIGTERM if self.is_ours else signal.SIGKILL)  # memcached's own shutdown takes a second
        report = self.daemon.stderr_at_end
        if self.is_ours and (status != 0 or SANITIZER_REPORT.search(report)):
            raise AssertionError("farcached ended with %s: %s" % (status, show(report, 4000)))

    def tick(self):
        """Returns after the worker has read all sent bytes. The first answer may come earlier, in the same iteration of the
        loop."""
        for _ in range(2):
            self.clock.send(b"mn\r\n")
            assert self.clock.line() == b"MN\r\n"

    def connection(self, pipeline):
        if pipeline.fresh:
            self.drop(pipeline)
        if pipeline.binary not in self.open:
            self.open[pipeline.binary] = client = self.daemon.client()
            client.got, client.ended = bytearray(), False
            client.socket.setblocking(False)
            self.until_quiet()
        return self.open[pipeline.binary]

    def until_quiet(self):
        """Waits until the worker has exactly the open connections."""
        end = time.monotonic() + deadline()
        while int(self.clock.stats()["curr_connections"]) != self.expected() and time.monotonic() < end:
            continue

    def expected(self):
        if not hasattr(self, "idle_connections"):
            for _ in range(10):  # the connection of the harness's start check is closed by then
                self.tick()
            self.idle_connections = int(self.clock.stats()["curr_connections"])
        return self.idle_connections + len(self.open) + len(self.unused)

    def drop(self, pipeline):
        client = self.open.pop(pipeline.binary, None)
        if client is None:
            return
        client.close()
        # memcached hands the last CAS of a binary connection to a text connection that reuses its descriptor. The next set stores
        # that CAS. So each descriptor is used once.
        self.until_quiet()
        self.unused.append(self.daemon.client())
        self.until_quiet()

    @staticmethod
    def receive(client):
        """Reads all pending bytes; True if any came."""
        any_came = False
        while not client.ended:
            try:
                data = client.socket.recv(1 << 20)
            except BlockingIOError:
                break
            except ConnectionError:
                data = b""
            client.ended = not data
            client.got += data
            any_came = True
        return any_came

    def write(self, client, data):
        while data and not client.ended:
            try:
                data = data[client.socket.send(data):]
            except BlockingIOError:
                self.tick()
            except ConnectionError:
                self.receive(client)
                client.ended = True
            self.receive(client)

    def settle(self, client, rounds):
        """Waits until no byte came for some rounds: a worker executes a connection's requests 20 at a time."""
        quiet = 0
        while quiet < rounds and not client.ended:
            self.tick()
            quiet = 0 if self.receive(client) else quiet + 1

    def tokens(self, pipeline, client):
        got, self.last = bytes(client.got), dict(self.last_before)
        found = binary_tokens(got, self.last, Requests.key_of) if pipeline.binary else text_tokens(got, self.last)
        return found + ([Token(b"[closed]")] if client.ended else [])


class Pair:
    """Both servers, in the same state."""

    def __init__(self, binary, stock, arguments):
        self.same_cas = SameCas()
        self.servers = [Server(binary, arguments, is_ours=True)]
        try:
            self.servers.append(Server(stock, arguments, is_ours=False))
        except BaseException:
            self.servers[0].stop()
            raise

    def __enter__(self):
        for server in self.servers:
            server.expected()
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.stop()

    def ask(self, pipeline):
        """The tokens of both servers."""
        self.clients = [server.connection(pipeline) for server in self.servers]
        for server, client in zip(self.servers, self.clients):
            client.got.clear()
            server.last_before = dict(server.last)
            for piece in pipeline.writes(server.last):
                server.write(client, piece)
                server.settle(client, 1)
        return self.settle(pipeline, QUIET_ROUNDS + len(pipeline.raw()) // 2000)

    def settle(self, pipeline, rounds):
        """The tokens of both servers after this number of rounds without a byte."""
        for server, client in zip(self.servers, self.clients):
            server.settle(client, rounds)
        return [server.tokens(pipeline, client) for server, client in zip(self.servers, self.clients)]

    def finish(self, pipeline, tokens):
        """Drops a connection on which the fence was not answered."""
        fence = FENCE_REPLY[pipeline.binary]
        if not all(found and found[-1].text == fence for found in tokens):
            for server in self.servers:
                server.drop(pipeline)

    def forget(self):
        """Forgets the shown CAS values, so that no request uses one."""
        for server in self.servers:
            server.last = {}


FENCE = {False: [b"mn\r\n"], True: [packet(op.NOOP, opaque=0xF00D)]}
FENCE_REPLY = {False: b"MN\r\n", True: packet(op.NOOP, opaque=0xF00D, magic=0x81)[:16] + b"0"}


# ---- drawing -----------------------------------------------------------------------------------------

def draw(dice, binary_only):
    binary, fresh = binary_only or dice.random() < 0.3, dice.random() < 0.1
    requests = Requests(dice, ITEM_BYTES_MAX)
    drawn = [requests.binary() if binary else requests.text() for _ in range(dice.randrange(1, REQUESTS_MAX + 1))]
    if fresh and not binary_only and dice.random() < 0.1:  # not the connection's protocol
        other = requests.text() if binary else requests.binary()
        drawn.append([bytes(len(p)) if isinstance(p, Cas) else p for p in other])  # a CAS may contain a newline
    if binary and not drawn[0][0].startswith(b"\x80"):  # a new connection would not be binary
        drawn.insert(0, FENCE[binary])
    drawn.append(FENCE[binary])
    cuts = [draw_cuts(dice, sum(len(p) for p in request)) for request in drawn]
    for request, where in zip(drawn, cuts):
        if CHANGES_NUMBER.match(request[0]) and 0 not in where:
            where.insert(0, 0)
    return Pipeline(binary, fresh, drawn, cuts)


# memcached changes a number in place, and pads it, unless an unsent reply holds the item.
CHANGES_NUMBER = re.compile(rb"incr|decr|ma |\x80[\x05\x06\x15\x16]")


def draw_cuts(dice, size):
    """Usually no cuts: requests go out together. Sometimes a cut behind each byte of a short request."""
    shape = dice.random()
    if shape < 0.7:
        return []
    if shape < 0.73 and size < 60:
        return list(range(1, size + 1))
    near = [dice.randrange(0, size + 1), size, max(0, size - 1), max(0, size - 2), min(size, 24), min(size, 4)]
    return sorted({dice.choice(near) for _ in range(dice.randrange(1, 4))})


# ---- differences -------------------------------------------------------------------------------------

class Judge:
    """Compares replies, and counts the intended differences that occurred."""

    def __init__(self, table):
        self.table = table
        self.met = {entry.name: 0 for entry in table}

    def unexplained(self, pair, pipeline, patient=True):
        """(the tokens from the first unexplained difference on, or None; do the caches still agree?)."""
        tokens = pair.ask(pipeline)
        found, agree, met = self.look(pair, pipeline, *tokens)
        for _ in range(LATE_ROUNDS_MAX if patient and found else 1 if met else 0):
            select_nothing(0.002 if found else 0)
            tokens = pair.settle(pipeline, 2 * QUIET_ROUNDS)
            found, agree, met = self.look(pair, pipeline, *tokens)
            if not found:
                break
        pair.finish(pipeline, tokens)
        for entry in met:
            self.met[entry.name] += 1
            pair.forget()
        return found, agree

    def look(self, pair, pipeline, ours, theirs):
        """The same for these tokens, and the table's entries that matched."""
        raw = pipeline.raw()
        asked = [entry for entry in self.table if entry.asked_in(raw, pipeline.binary)]
        met = [entry for entry in asked if entry.unseen]
        i = j = 0
        while i < len(ours) or j < len(theirs):
            if i < len(ours) and j < len(theirs) and pair.same_cas.alike(ours[i], theirs[j]):
                i, j = i + 1, j + 1
                continue
            entry, taken = self.explained(asked, ours[i:], theirs[j:])
            if entry is None:
                return None if met and met[0].unseen else (ours[i:], theirs[j:]), not any(e.diverges for e in met), met
            met.append(entry)
            if entry.lost:
                break
            i, j = past(ours, i, taken[0]), past(theirs, j, taken[1])
        return None, not any(entry.diverges for entry in met), met

    @staticmethod
    def explained(asked, ours, theirs):
        """(the entry that explains the difference, the bytes that it covers), or (None, None)."""
        left = [b"".join(token.shown for token in tokens) for tokens in (ours, theirs)]
        for entry in asked:
            taken = None if entry.unseen else entry.explains(*left)
            if taken is not None:
                return entry, taken
        return None, None


def past(tokens, at, size):
    """The index behind the tokens of this many bytes."""
    while size > 0:
        size -= len(tokens[at].shown)
        at += 1
    return at


class Hunt:
    """A whole run."""

    def __init__(self, binary, stock, version):
        self.binary, self.stock = binary, stock
        self.binary_only = not is_modern(version)
        self.arguments = ARGUMENTS + (SMALL_ITEMS if is_modern(version) else [])
        self.judge = Judge(table_for(version))

    def differs(self, history, patient=False):
        """Sends these pipelines to new servers; the difference in the last one, or None."""
        with Pair(self.binary, self.stock, self.arguments) as pair:
            found = None
            for pipeline in history:
                found, agree = Judge(self.judge.table).unexplained(pair, pipeline, patient)
                if found or not agree:
                    break
            return found

    def shrink(self, history):
        """A shorter history that ends in a difference."""
        tries = 0
        size = max(1, len(history) // 2)
        while size and tries < TRIES_MAX:  # removes whole pipelines
            at = 0
            while at < len(history) and tries < TRIES_MAX:
                fewer = history[:at] + history[at + size:]
                tries += 1
                if fewer and self.differs(fewer):
                    history = fewer
                else:
                    at += size
            size //= 2
        for change in (without_cuts, without_request):
            n = 0
            while n < len(history):
                smaller, tried = None, 0
                for smaller in change(history[n]):
                    tries, tried = tries + 1, tried + 1
                    if tries > 2 * TRIES_MAX:
                        return history
                    if self.differs(history[:n] + [smaller] + history[n + 1:]):
                        history[n] = smaller
                        break
                else:
                    n += 1
        return history

    def episode(self, dice, count):
        """(number of pipelines, report of a difference or None)."""
        history = []
        with Pair(self.binary, self.stock, self.arguments) as pair:
            for _ in range(count):
                pipeline = draw(dice, self.binary_only)
                history.append(pipeline)
                found, agree = self.judge.unexplained(pair, pipeline)
                if found:
                    break
                if not agree:
                    return len(history), None
            else:
                return len(history), None
        return len(history), self.report(history, found)

    def report(self, history, found):
        tap.diag("a difference: %s" % told(found)[0])
        smallest = self.shrink(history) if self.differs(history, patient=True) else None
        lines = ["shrunk to:"] if smallest else ["not reproduced on new servers; the requests:"]
        for pipeline in smallest or history:
            lines += pipeline.shown()
        return lines + told(smallest and self.differs(smallest, patient=True) or found)


def told(found):
    return ["%s %s" % (name, " ".join(show(t.shown, 200) for t in tokens[:3]) or "nothing more")
            for name, tokens in zip(("ours:     ", "memcached:"), found)]


def without_cuts(pipeline):
    if any(cuts and cuts != [0] for cuts in pipeline.cuts):
        fewest = [cuts[:1] if cuts[:1] == [0] else [] for cuts in pipeline.cuts]
        yield Pipeline(pipeline.binary, pipeline.fresh, pipeline.requests, fewest)
        for n, cuts in enumerate(pipeline.cuts):
            if cuts and cuts != [0]:  # a request that changes a number needs the cut in front of it
                yield Pipeline(pipeline.binary, pipeline.fresh, pipeline.requests,
                               [cuts[:1] if i == n and cuts[0] == 0 else [] if i == n else c for i,
                                c in enumerate(pipeline.cuts)])


def without_request(pipeline):
    for n in range(len(pipeline.requests) - 1):  # the fence stays
        left = pipeline.requests[:n] + pipeline.requests[n + 1:]
        if (left[0][0][:1] == b"\x80") == pipeline.binary:  # the first byte chooses the connection's protocol
            yield Pipeline(pipeline.binary, pipeline.fresh, left, pipeline.cuts[:n] + pipeline.cuts[n + 1:])


def pipelines(work):
    found = reference()
    if not found:
        return tap.skip("pipelines: the same replies as memcached's", "there is no memcached: install it, or name one in "
                        "$FARCACHED_REFERENCE")
    stock, version = found
    name = "memcached " + ".".join(str(n) for n in version)
    hunt = Hunt(work.binary, stock, version)
    dice = random.Random(SEED)
    done, step = 0, max(PIPELINES // 10, 1)
    title = "pipelines: %%d, the same replies as %s's, seed %d" % (name, SEED)
    while done < PIPELINES:
        before = done
        asked, wrong = hunt.episode(random.Random(dice.getrandbits(64)), min(PER_EPISODE, PIPELINES - done))
        done += asked
        if wrong:
            return tap.ok(False, title % done, *wrong)
        if done // step != before // step:
            tap.diag("%d pipelines, seed %d" % (done, SEED))
    tap.ok(True, title % done)
    for entry, count in hunt.judge.met.items():
        tap.diag("%d times, as is meant: %s" % (count, entry))
    never = [entry for entry, count in hunt.judge.met.items() if count == 0]
    if LONG:
        tap.ok(not never, "pipelines: each difference that is meant was met", *never)
