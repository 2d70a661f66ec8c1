# SPDX-License-Identifier: BSD-3-Clause
"""Compares conversations with the daemon under test to the same conversations with Debian's memcached.

Random conversations in text, meta and binary are compared byte for byte. Then the lines of `watch` and the counters of `stats` are
compared, and the replies to a list of malformed requests. For CAS values only equality within a side counts; times may differ by
some seconds. Debian's memcached is 1.6.18 and the daemon answers as 1.6.45: REWORDED lists all accepted differences. Requests that
1.6.18 does not know (E, md x, ms s, mgdump, deletions) are left out.

$FARCACHED_SEED chooses other conversations; the titles of the tests name the seed.
"""
import collections
import os
import random
import re

from farcached import Client, Closed, Daemon, tap
from binary_client import NO_CREATE, BinaryClient, arith_extras, op, set_extras, touch_extras

STOCK = "/usr/bin/memcached"
SEED = int(os.environ.get("FARCACHED_SEED", "20261121"))
TEXT_ROUNDS = 4000
BINARY_ROUNDS = 3000
# One worker, so watchers see lines in order, and log buffers that hold all lines. No background threads, because memcached stores a
# number again and unpadded while another thread holds the item; else it changes the number in place.
ARGUMENTS = ["-m", "64", "-t", "1",
             "-o", "watcher_logbuf_size=8192,worker_logbuf_size=8192,no_lru_crawler,no_lru_maintainer"]

KEYS = ["a", "b", "user:1", "user:2", "page:x", "k" * 250]
NUMBERS = ["n", "user:n"]
TTLS = [0, 0, 0, 1000, 50_000, 2_000_000]

# Counters that must agree even where replies differ.
COUNTERS = """cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses delete_misses delete_hits
    incr_misses incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses
    store_too_large store_no_memory auth_cmds auth_errors curr_items total_items curr_connections
    rejected_connections evictions""".split()


class Side:
    """One of the two daemons, with the state to compare its replies with the other's."""

    def __init__(self, binary):
        self.daemon = Daemon(*ARGUMENTS, binary=binary).start()
        self.names = {}  # CAS value: its number in order of appearance
        self.last = {}   # key: its CAS value when it was last shown
        self.client = self.daemon.client()
        self.binary = BinaryClient(self.daemon.client())
        self.watcher = self.daemon.client()
        self.watcher.send("watch fetchers mutations\r\n").line()

    def name(self, cas):
        return "#%d" % self.names.setdefault(cas, len(self.names)) if cas else "0"

    def cas(self, key, good):
        return self.last.get(key, 12345) if good else 999_999_999_999

    def ask(self, request):
        """All bytes up to the answer of a meta no-op behind the request."""
        self.client.send(request, "mn\r\n")
        return self.client.until(b"MN\r\n")[:-4]

    def stop(self):
        for c in (self.client, self.binary.raw, self.watcher):
            c.close()
        self.daemon.stop()


class Pair:
    def __init__(self, work):
        self.ours, self.stock = Side(work.binary), None
        try:
            self.stock = Side(STOCK)
        except BaseException:
            self.ours.stop()
            raise
        self.sides = (self.ours, self.stock)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for side in self.sides:
            side.stop()


def rounded(seconds):
    """TTLs here are multiples of 1000, so the rest of one rounds to the same number within some seconds."""
    return str(-(-int(seconds) // 100) * 100)


def comparable(side, reply):
    """A text reply in comparable form: CAS by name, times rounded, sizes of items left out."""
    def value_line(m):
        side.last[m.group(2)] = int(m.group(3))
        return m.group(1) + side.name(int(m.group(3)))
    text = reply.decode("latin-1")
    text = re.sub(r"(?m)^(VALUE (\S+) \d+ \d+ )(\d+)\r$", value_line, text)
    # 1.6.18 shows the time to live of an expiring item with a minus.
    text = re.sub(r"(?m)^(ME \S+ )exp=-?(\d+) la=\d+ cas=(\d+) (fetch=\w+) .*",
                  lambda m: m.group(1) + rounded(m.group(2)) + side.name(int(m.group(3))) + m.group(4), text)

    def meta_line(m):
        line = re.sub(r" c(\d+)", lambda c: " c" + side.name(int(c.group(1))), m.group(0))
        line = re.sub(r" t(\d+)", lambda t: " t" + rounded(t.group(1)), line)
        return re.sub(r" l\d+", " l", line)
    return re.sub(r"(?m)^(HD|VA \d+|EX|NF|NS) .*$", meta_line, text)


# ---- text and meta --------------------------------------------------------------------------------

def value_of(dice):
    return "".join(dice.choices("abcdefghij klmn", k=dice.choice([0, 1, 2, 10, 100, 2000, 30_000])))


def noreply(dice):
    return " noreply" if dice.random() < 0.1 else ""


def storage(dice):
    verb = dice.choice(["set", "set", "set", "add", "replace", "append", "prepend"])
    value = value_of(dice)
    return "%s %s %d %d %d%s\r\n%s\r\n" % (verb, dice.choice(KEYS), dice.choice([0, 1, 2**32 - 1]),
                                          dice.choice(TTLS), len(value), noreply(dice), value)


def compare_and_swap(dice):
    key, value, good = dice.choice(KEYS), value_of(dice), dice.random() < 0.6
    if dice.random() < 0.5:
        return lambda side: "cas %s 5 %d %d %d\r\n%s\r\n" % (
            key, TTLS[3], len(value), side.cas(key, good), value)
    mode = dice.choice(["", " MS", " MR", " ME", " MA", " MP"])
    stale = dice.choice(["", " I"])
    return lambda side: "ms %s %d C%d%s%s c k Oxyz\r\n%s\r\n" % (
        key, len(value), side.cas(key, good), mode, stale, value)


def fetch(dice):
    keys = " ".join(dice.choices(KEYS + NUMBERS + ["absent"], k=dice.choice([1, 1, 1, 3, 20])))
    verb = dice.choice(["get", "get", "gets", "gat %d" % dice.choice(TTLS), "gats %d" % dice.choice(TTLS)])
    return "%s %s%s\r\n" % (verb, keys, dice.choice(["", "", " "]))


def keyed(dice):
    key = dice.choice(KEYS + ["absent"])
    return dice.choice(["delete %s" % key, "touch %s %d" % (key, dice.choice(TTLS)), "me %s" % key,
                        "incr %s 1" % key]) + ("" if dice.random() < 0.5 else noreply(dice)) + "\r\n"


def number(dice):
    key = dice.choice(NUMBERS)
    renew = "set %s 0 0 4\r\n%s\r\n" % (key, dice.choice(["1000", "9999", " 12 ", "+7 x", "0010", "-100", "x   "]))
    # A number that grows in length is stored again, and 1.6.18 then touches the old item: no T where that may happen.
    return dice.choice([
        renew, "incr %s %d%s\r\n" % (key, dice.choice([1, 5, 10**6]), noreply(dice)),
        "decr %s %d\r\n" % (key, dice.choice([1, 10**9])),
        "ma %s%s\r\n" % (key, some(dice, ["v", "t", "c", "k", "Ozz", "MI", "D7", "N1000", "J50"])),
        # No q with N, because 1.6.18 answers it anyway.
        "ma %s MD D%d%s\r\n" % (key, dice.choice([1, 10**9]), some(dice, ["q", "v", "T5000", "t"])),
        "ma %s MD D%d%s\r\n" % (key, dice.choice([1, 10**9]), some(dice, ["v", "N0", "T5000", "t"])),
        "delete %s\r\n" % key, "incr %s x\r\n" % key, "incr %s 18446744073709551616\r\n" % key])


def some(dice, flags):
    """Each of the flags with a probability, in random order."""
    return "".join(" " + f for f in dice.sample(flags, dice.randrange(len(flags) + 1)))


def meta(dice):
    key = dice.choice(KEYS + ["absent"])
    ttl = dice.choice(TTLS[3:])
    value = value_of(dice)
    return dice.choice([
        "mg %s%s\r\n" % (key, some(dice, ["v", "v", "s", "f", "t", "k", "c", "O1", "q", "h", "l", "u"][1:])),
        "mg %s%s\r\n" % (key, some(dice, ["v", "N%d" % ttl, "t", "T%d" % ttl, "R3000", "c", "k"])),
        "ms %s %d%s\r\n%s\r\n" % (key, len(value), some(dice, ["T%d" % ttl, "F9", "q", "k", "Oq", "c", "I"]), value),
        "ms %s %d M%s%s\r\n%s\r\n" % (key, len(value), dice.choice("EAPRS"), some(dice, ["q", "k", "c"]), value),
        "md %s%s\r\n" % (key, some(dice, ["q", "k", "O5", "I", "T%d" % ttl])),
        "ms AAEC 2 b k\r\nxy\r\n", "mg AAEC b k v%s\r\n" % some(dice, ["q", "s"]), "md AAEC b\r\n"])


def rare(dice):
    return dice.choice(["flush_all\r\n", "flush_all noreply\r\n", "flush_all 0\r\n", "verbosity 0\r\n",
                        "set big 0 0 2000000\r\n%s\r\n" % ("x" * 2_000_000),
                        "set a 0 0 5\r\nabcdefgnonsense\r\n", "nonsense\r\n", "stats nonsense\r\n"])


def text_request(dice):
    shape = dice.choices([storage, compare_and_swap, fetch, keyed, number, meta, rare],
                         weights=[30, 10, 25, 15, 15, 30, 1])[0]
    return shape(dice)


def random_text(pair, title):
    dice = random.Random(SEED)
    before = collections.deque(maxlen=40)
    for turn in range(TEXT_ROUNDS):
        request = text_request(dice)
        asked = [request(side) if callable(request) else request for side in pair.sides]
        replies = [comparable(side, side.ask(text)) for side, text in zip(pair.sides, asked)]
        if replies[0] != replies[1]:
            return tap.ok(False, title, "request %d: %r" % (turn, asked[0][:300]),
                          "ours:      %r" % replies[0][:400], "memcached: %r" % replies[1][:400],
                          *["before:    %r" % old[:100] for old in before if old.split()[1:2] == asked[0].split()[1:2]])
        before.append(asked[0])
    return tap.ok(True, title)


# ---- binary ---------------------------------------------------------------------------------------

def binary_request(dice):
    """(opcode, key, value, extras, CAS to send: None, or whether it is the right one)."""
    quiet = dice.random() < 0.3
    key = dice.choice(KEYS + ["absent"])
    cas = dice.choice([None, None, None, True, False])
    value = value_of(dice)
    extras = set_extras(flags=dice.choice([0, 7]), exptime=dice.choice(TTLS))
    touched = touch_extras(dice.choice(TTLS))
    stored = dice.choice([(op.SET, op.SETQ), (op.SET, op.SETQ), (op.ADD, op.ADDQ), (op.REPLACE, op.REPLACEQ)])
    joined = dice.choice([(op.APPEND, op.APPENDQ), (op.PREPEND, op.PREPENDQ)])
    counted = dice.choice([(op.INCR, op.INCRQ), (op.DECR, op.DECRQ)])
    fetched = dice.choice([(op.GET, op.GETQ), (op.GETK, op.GETKQ)])
    gat = dice.choice([(op.GAT, op.GATQ), (op.GATK, op.GATKQ)])
    amounts = arith_extras(dice.choice([1, 10**6]), dice.choice([0, 500]), dice.choice([0, 1000, NO_CREATE]))
    number_key = dice.choice(NUMBERS + ["a"])
    return dice.choice([
        (stored[quiet], key, value, extras, cas), (stored[quiet], key, value, extras, cas),
        (joined[quiet], key, value, b"", cas), (counted[quiet], number_key, "", amounts, None),
        (fetched[quiet], key, "", b"", None), (fetched[quiet], key, "", b"", None),
        (gat[quiet], key, "", touched, None), (op.TOUCH, key, "", touched, None),
        ((op.DELETE, op.DELETEQ)[quiet], key, "", b"", cas), (op.VERSION, "", "", b"", None),
        ((op.DELETE, op.DELETEQ)[quiet], number_key, "", b"", None)])


def binary_replies(side, request):
    """The replies to one packet, in comparable form."""
    opcode, key, value, extras, good = request
    cas = 0 if good is None else side.cas(key, good)
    found = []
    for r in side.binary.quiet(opcode, key.encode(), value.encode(), extras=extras, cas=cas, opaque=77):
        if r.cas:
            side.last[key] = r.cas
        body = b"" if opcode == op.VERSION else r.value
        found.append((r.opcode, r.status, r.opaque, r.extras, r.key, body, side.name(r.cas)))
    return found


def random_binary(pair, title):
    dice = random.Random(SEED + 1)
    for turn in range(BINARY_ROUNDS):
        request = binary_request(dice)
        replies = [binary_replies(side, request) for side in pair.sides]
        if replies[0] != replies[1]:
            return tap.ok(False, title, "packet %d: %r" % (turn, repr(request)[:300]),
                          "ours:      %s" % repr(replies[0])[:400], "memcached: %s" % repr(replies[1])[:400])
    return tap.ok(True, title)


# ---- counters and watchers --------------------------------------------------------------------------

def watched(side):
    """The watcher's lines in comparable form."""
    # Flushed items count until they are accessed.
    side.ask("get %s\r\nmg AAEC b v\r\nget the-end\r\n" % " ".join(KEYS + NUMBERS))
    text = side.watcher.until(re.compile(rb"key=the-end [^\n]*\n")).decode("latin-1")
    lines = []
    for line in text.splitlines():
        line = re.sub(r"^ts=\d+\.\d+ gid=\d+ ", "", line)
        line = re.sub(r"(clsid|cfd)=-?\d+", r"\1=", line)
        line = re.sub(r"ttl=(\d+)", lambda m: "ttl=" + rounded(m.group(1)), line)
        # A flushed item is removed at its next access, or earlier.
        lines.append(line.replace("status=flushed", "status=not_found"))
    return lines


def aftermath(pair, what):
    ours, stock = watched(pair.ours), watched(pair.stock)
    differ = [i for i, (a, b) in enumerate(zip(ours, stock)) if a != b]
    tap.ok(len(ours) == len(stock) and not differ, "differential: watchers of %s" % what,
           "%d lines, memcached %d" % (len(ours), len(stock)),
           *["line %d: %s | memcached: %s" % (i, ours[i], stock[i]) for i in differ[:3]])
    numbers = [{name: side.daemon.stats()[name] for name in COUNTERS} for side in pair.sides]
    wrong = ["%s: %s, memcached %s" % (n, numbers[0][n], numbers[1][n])
             for n in COUNTERS if numbers[0][n] != numbers[1][n]]
    tap.ok(not wrong, "differential: stats after %s" % what, *wrong)


# ---- malformed requests -----------------------------------------------------------------------------

BAD_FORMAT = "CLIENT_ERROR bad command line format\r\n"
LONG = "k" * 251

# Requests to a cache with a=hi, and the answers of 1.6.40 and later where those of 1.6.18 differ.
REWORDED = {
    **{line + "\r\n": BAD_FORMAT for line in (
        "", " ", "x", "get", "gets", "gat 0", "gats 0", "delete", "incr", "incr a", "touch", "touch a", "verbosity",
        "mg", "ms", "md", "ma", "set a", "set a 0 0", "set a 0 0 noreply")},
    "cas a 0 0 2\r\nhi\r\n": BAD_FORMAT,
    "set %s 0 0 2\r\nhi\r\n" % LONG: BAD_FORMAT, "add %s 0 0 2\r\nhi\r\n" % LONG: BAD_FORMAT,
    "ms %s 2\r\nhi\r\n" % LONG: BAD_FORMAT, "ma %s\r\n" % LONG: "CLIENT_ERROR invalid or duplicate flag\r\n",
    "set a x 0 2\r\nhi\r\n": BAD_FORMAT, "set a -1 0 2\r\nhi\r\n": BAD_FORMAT,
    "set a 0 x 2\r\nhi\r\n": BAD_FORMAT, "cas a 0 0 2 x\r\nhi\r\n": BAD_FORMAT,
    "set b 0 0 1 2 3\r\nx\r\n": "STORED\r\n", "delete b 10\r\n": "DELETED\r\n",
    "delete b c d e f\r\n": "NOT_FOUND\r\n", "verbosity 1 2 3\r\n": "OK\r\n", "flush_all 1000 2 3\r\n": "OK\r\n",
    " get a\r\n": "ERROR\r\n", "nonsense noreply\r\n": "", "shutdown\r\n": "SERVER_ERROR: shutdown not enabled\r\n",
    "ma a !\r\n": BAD_FORMAT, "md a b\r\n": "CLIENT_ERROR error decoding key\r\n",
    "md a v v\r\n": "CLIENT_ERROR duplicate flag\r\n", "md a !\r\n": BAD_FORMAT, "mg a !\r\n": BAD_FORMAT,
    "ms a 2 !\r\nhi\r\n": BAD_FORMAT + "ERROR\r\n", "md a Cx\r\n": "CLIENT_ERROR bad token in command line format\r\n",
    "ms a 2 MXY\r\nhi\r\n": "CLIENT_ERROR invalid mode for ms M token\r\n",
    "ma a M\r\n": "CLIENT_ERROR invalid mode for ma M token\r\n",
    "lru_crawler metadump 99\r\n": "CLIENT_ERROR lru crawler disabled\r\n",
    "lru_crawler mgdump all\r\n": "CLIENT_ERROR lru crawler disabled\r\n",
    "slabs automove window 30\r\n": "OK\r\n", "slabs automove freeratio 0.1\r\n": "OK\r\n",
}

SAME = ["get %s\r\n" % LONG, "get a %s b\r\n" % LONG, "gets %s\r\n" % LONG, "gat 0 %s\r\n" % LONG, "delete %s\r\n" % LONG,
        "incr %s 1\r\n" % LONG, "touch %s 1\r\n" % LONG, "mg %s\r\n" % LONG, "md %s\r\n" % LONG, "me %s\r\n" % LONG,
        "set a 0 0 x\r\n", "set a 0 0 -1\r\n", "set a 0 0 2147483647\r\n", "set a 0 0 99999999999999999999\r\n",
        "gat x a\r\n", "touch a x\r\n", "incr a 1\r\n", "incr a -1\r\n", "incr a 5x\r\n", "decr a 99999999999999999999\r\n",
        "flush_all x\r\n", "verbosity x\r\n", "verbosity x noreply\r\n", "GET a\r\n", "get\ta\r\n", "nonsense\r\n",
        "stats nonsense\r\n", "stats detail\r\n", "stats detail x\r\n", "stats cachedump\r\n", "stats cachedump 1\r\n",
        "stats cachedump x 1\r\n", "stats cachedump 64 1\r\n", "mx a\r\n", "mg a a\r\n", "mg a v v\r\n", "mg a b\r\n",
        "mg a Tx\r\n", "mg a Nx\r\n", "mg a Rx\r\n", "mg a O%s\r\n" % ("o" * 32), "mg a O%s\r\n" % ("o" * 31),
        "ms a 2 Fx\r\nhi\r\n", "ms a 2 Tx\r\nhi\r\n", "ms a 2 Cx\r\nhi\r\n", "ms a 2 MX\r\nhi\r\n", "ms a x\r\n",
        "ms a 2 b\r\nhi\r\n", "ms a 2 O%s\r\nhi\r\n" % ("o" * 32), "ma a MX\r\n", "ma a Dx\r\n", "ma a b\r\n",
        "mg a %s\r\n" % " ".join("bcdefghijklmnopqrstuvwx"), "mg a  v  t \r\n", "get  a  b \r\n", "get a\n",
        "cache_memlimit\r\n", "cache_memlimit x\r\n", "cache_memlimit 1\r\n", "cache_memlimit 2000000000\r\n",
        "slabs\r\n", "slabs reassign 1 1\r\n", "slabs reassign x 1\r\n", "slabs reassign 99 1\r\n", "slabs automove 3\r\n",
        "slabs automove x\r\n", "lru\r\n", "lru tune 10 80 0.1 2\r\n", "lru tune 10 25 0 2\r\n", "lru mode x\r\n",
        "lru temp_ttl x\r\n", "lru_crawler\r\n", "lru_crawler crawl 1\r\n", "lru_crawler sleep 2000000\r\n",
        "lru_crawler sleep x\r\n", "lru_crawler tocrawl x\r\n", "refresh_certs\r\n", "watch nonsense\r\n",
        "extstore\r\n", "extstore item_size x\r\n", "extstore item_size 512\r\n", "extstore nonsense 1\r\n"]

CLOSING = ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.0\r\n", "quit\r\n", "quit now\r\n", "x" * 2049,
           "gat " + "x" * 2049, " " * 200 + "get " + "x" * 2049]


def malformed(pair):
    for side in pair.sides:
        side.ask("set a 0 0 2\r\nhi\r\n")
    for request in SAME:
        ours, stock = (side.ask(request) for side in pair.sides)
        tap.is_(ours, stock, "differential: %r as memcached 1.6.18" % request[:40])
    for request, answer in REWORDED.items():
        tap.is_(pair.ours.ask(request), answer.encode(), "differential: %r as 1.6.45" % request[:40])
        if request.startswith("set b"):
            pair.stock.ask("set b 0 0 1\r\nx\r\n")
    for request in CLOSING:
        ends = []
        for side in pair.sides:
            with Client(side.daemon.port) as c:
                c.send(request)
                try:
                    ends.append(c.until_close())
                except Closed as e:
                    ends.append(e.got)
        tap.is_(ends[0], ends[1], "differential: %r closes" % request[:40])


def differential(work):
    with Pair(work) as pair:
        malformed(pair)
    with Pair(work) as pair:
        if random_text(pair, "differential: text and meta, seed %d" % SEED):
            aftermath(pair, "text and meta")
    with Pair(work) as pair:
        if random_binary(pair, "differential: binary, seed %d" % SEED):
            aftermath(pair, "binary")
