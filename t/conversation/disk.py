# SPDX-License-Identifier: BSD-3-Clause
"""Values on the disk (-o ext_path) of the embedded node, by every protocol: the right bytes, or a miss. Each value names its key
and its version (t/lib/disk.py), and each reply is compared with it.

Arguments: names of parts; default: all.
"""
import contextlib
import os
import random
import resource
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from binary_client import BinaryClient, arith_extras, op, packet, set_extras, status, touch_extras  # noqa: E402
from disk import Disk, classes, get_all_at_once, hit, pipelined, reads, settled, store_and_read, to_disk, value  # noqa: E402
from farcached import Client, Daemon, default_binary, tap, test_program, until  # noqa: E402
from without_call import WithoutCall  # noqa: E402

RANDOM = random.Random(11)
SIZES = (600, 3000, 20_000)
FAR = 100_000  # seconds


@contextlib.contextmanager
def daemon(io="libevent", megabytes=64, memory=4, **rules):
    """A daemon with a disk from which no value returns to memory."""
    with Disk(megabytes, **{"recache_rate": 0, **rules}) as disk:
        admin = os.path.join(disk.folder, "admin")
        with Daemon("-m", memory, "-I", "512k", "--admin", admin, "-o", disk.options("io=" + io), threads=2) as d:
            d.admin = admin
            yield d


def asked(client, request, wanted):
    """Sends it; None if the reply is that one, else what came."""
    client.send(request)
    got = client.upto(wanted)
    return None if got == wanted else (request[:60], got[:100], wanted[:100])


class Checked:
    """Requests with their replies; `wrong` has those that differ."""

    def __init__(self, client):
        self.client, self.wrong, self.asked_s = client, [], time.monotonic()

    def __call__(self, request, wanted):
        request = request.encode() if isinstance(request, str) else request
        wanted = wanted.encode() if isinstance(wanted, str) else wanted
        self.asked_s = time.monotonic()
        found = asked(self.client, request, wanted)
        if found:
            self.wrong.append(found)

    def age(self, key, value):
        """The seconds since the last request, which was for that key; a slow machine needs more than none."""
        line = self.client.ask(b"mg %s h l v" % key)
        ages = range(int(time.monotonic() - self.asked_s) + 2)
        if line not in ["VA %d h1 l%d" % (len(value), age) for age in ages] or self.client.read(len(value) + 2) != value + b"\r\n":
            self.wrong.append((key, line))


# -- Reads ----------------------------------------------------------------------------------------------

def by_text(check, key, v, cas):
    k = key.encode()
    check(b"get %s\r\n" % k, hit(key, v) + b"END\r\n")
    check(b"gets %s\r\n" % k, hit(key, v, cas=cas) + b"END\r\n")
    check(b"get none %s none2 %s\r\n" % (k, k), hit(key, v) * 2 + b"END\r\n")
    check(b"gat %d %s\r\n" % (FAR, k), hit(key, v) + b"END\r\n")
    check(b"gats %d none %s\r\n" % (FAR, k), hit(key, v, cas=cas) + b"END\r\n")
    check(b"touch %s %d\r\n" % (k, FAR), b"TOUCHED\r\n")
    check(b"gat 0 %s %s\r\n" % (k, k), hit(key, v) * 2 + b"END\r\n")


def by_meta(check, key, v, cas):
    k, size = key.encode(), len(v)
    check(b"mg %s v\r\n" % k, b"VA %d\r\n%s\r\n" % (size, v))
    check(b"mg %s\r\n" % k, b"HD\r\n")
    check(b"mg %s s f c t k\r\n" % k, b"HD s%d f5 c%d t-1 k%s\r\n" % (size, cas, k))
    check(b"mg %s k f v c s t Oab\r\n" % k, b"VA %d k%s f5 c%d s%d t-1 Oab\r\n%s\r\n" % (size, k, cas, size, v))
    check.age(k, v)
    check(b"mg %s v T%d t\r\n" % (k, FAR), b"VA %d t%d\r\n%s\r\n" % (size, FAR, v))
    check(b"mg %s T0 t\r\n" % k, b"HD t-1\r\n")
    check(b"mg %s v q k\r\nmg none v q\r\nmn\r\n" % k, b"VA %d k%s\r\n%s\r\nMN\r\n" % (size, k, v))
    check(b"mg %s v N30 t\r\n" % k, b"VA %d t-1\r\n%s\r\n" % (size, v))  # an existing item
    check(b"mg %s s c E77 N30\r\n" % k, b"HD s%d c%d\r\n" % (size, cas))


def by_binary(client, key, v, cas):
    """The requests whose replies are wrong."""
    b, flags = BinaryClient(client), (5).to_bytes(4, "big")
    wrong = []
    for opcode, quiet, shown, extras in (
            (op.GET, False, b"", b""), (op.GETK, False, key.encode(), b""), (op.GETQ, True, b"", b""),
            (op.GETKQ, True, key.encode(), b""), (op.GAT, False, b"", touch_extras(FAR)),
            (op.GATQ, True, b"", touch_extras(FAR)), (op.GATK, False, key.encode(), touch_extras(FAR)),
            (op.GATKQ, True, key.encode(), touch_extras(0))):
        got = b.quiet(opcode, key, extras=extras) if quiet else [b.ask(opcode, key, extras=extras)]
        if [(r.status, r.extras, r.key, r.value, r.cas) for r in got] != [(0, flags, shown, v, cas)]:
            wrong.append((opcode, got and (got[0].status, got[0].value[:40], got[0].cas)))
    if b.ask(op.TOUCH, key, extras=touch_extras(0)).status != 0:
        wrong.append("touch")
    return wrong


def cas_of(client, key):
    return int(client.ask("mg %s c" % key).split("c")[1])


def protocols(d, io):
    with d.client() as c, d.client() as b:
        values = to_disk(c, {"k%d" % size: size for size in SIZES})
        check, wrong, before = Checked(c), [], reads(c)
        for key, v in values.items():
            cas = cas_of(c, key)
            by_text(check, key, v, cas)
            by_meta(check, key, v, cas)
            wrong += by_binary(b, key, v, cas)
        tap.is_(check.wrong, [], "%s: text and meta" % io)
        tap.is_(wrong, [], "%s: binary" % io)
        tap.is_(reads(c) - before, (8 + 6 + 8) * len(SIZES), "%s: the disk had all these values" % io)
        told = c.ask("me k600")
        tap.ok(" size=" in told and " fetch=yes" in told and int(told.split(" size=")[1]) > 600, "%s: me" % io, told)


def with_tokens(d, io):
    """md I makes an item stale; the first get wins the token, the others wait; N and R likewise."""
    with d.client() as c:
        v = to_disk(c, {"stale": 2000, "recache": 2000})
        check = Checked(c)
        size, s = 2000, v["stale"]
        check("md stale I T%d\r\n" % FAR, "HD\r\n")
        check(b"mg stale v\r\n", b"VA %d X W\r\n%s\r\n" % (size, s))
        check(b"mg stale v\r\n", b"VA %d Z X\r\n%s\r\n" % (size, s))
        check("mg stale s\r\n", "HD s2000 Z X\r\n")
        check(b"get stale\r\n", hit("stale", s) + b"END\r\n")
        check("touch recache 20\r\n", "TOUCHED\r\n")
        check(b"mg recache v R30\r\n", b"VA %d W\r\n%s\r\n" % (size, v["recache"]))
        check(b"mg recache v R30\r\n", b"VA %d Z\r\n%s\r\n" % (size, v["recache"]))
        check("ms recache 3 T0\r\nnew\r\n", "HD\r\n")
        check("mg recache v R30\r\n", "VA 3\r\nnew\r\n")
        check("md stale x\r\n", "HD\r\n")
        check("mg stale v s f\r\n", "VA 0 s0 f0\r\n\r\n")
        tap.is_(check.wrong, [], "%s: stale items and tokens" % io)


# -- Mutations ------------------------------------------------------------------------------------------

def mutations(d, io):
    names = ("deleted", "set", "cas", "cas2", "add", "replace", "append", "prepend", "incr", "decr", "touched", "expired", "md",
             "mdc", "ms", "mscas", "msI", "ma", "bset", "bappend", "badd", "bincr", "bdelete", "p:1", "p:2", "q:1")
    with d.client() as c, d.client() as raw:
        v = to_disk(c, {name: 900 for name in names})
        b, check = BinaryClient(raw), Checked(c)
        both = lambda key, bytes_of: check(b"get %s\r\n" % key.encode(), hit(key, bytes_of) + b"END\r\n")  # noqa: E731
        check("delete deleted\r\nget deleted\r\ndelete deleted\r\n", "DELETED\r\nEND\r\nNOT_FOUND\r\n")
        check("set set 5 0 3\r\nnew\r\nget set\r\n", b"STORED\r\n" + hit("set", b"new") + b"END\r\n")
        cas = cas_of(c, "cas")
        check("cas cas 5 0 3 %d\r\nnew\r\n" % (cas + 1), "EXISTS\r\n")
        both("cas", v["cas"])
        check("cas cas 5 0 3 %d\r\nnew\r\nget cas\r\n" % cas, b"STORED\r\n" + hit("cas", b"new") + b"END\r\n")
        check("cas cas 5 0 3 %d\r\nbad\r\n" % cas, "EXISTS\r\n")
        check("gat %d cas2\r\n" % FAR, hit("cas2", v["cas2"]) + b"END\r\n")
        check("add add 5 0 3\r\nnew\r\n", "NOT_STORED\r\n")
        both("add", v["add"])
        check("replace replace 5 0 3\r\nnew\r\nget replace\r\n", b"STORED\r\n" + hit("replace", b"new") + b"END\r\n")
        for name in ("append", "prepend"):
            check("%s %s 5 0 3\r\nnew\r\n" % (name, name), "NOT_STORED\r\n")
            both(name, v[name])
        for name in ("incr", "decr"):
            check("%s %s 1\r\n" % (name, name), "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n")
            both(name, v[name])
        check("touch touched 50\r\nmg touched t\r\n", "TOUCHED\r\nHD t50\r\n")
        both("touched", v["touched"])
        check("touch expired -1\r\nget expired\r\nmg expired v\r\n", "TOUCHED\r\nEND\r\nEN\r\n")
        check("md md q\r\nmg md v\r\n", "EN\r\n")
        check("md mdc C1\r\n", "EX\r\n")
        both("mdc", v["mdc"])
        check("md mdc C%d E900\r\nmg mdc\r\n" % cas_of(c, "mdc"), "HD\r\nEN\r\n")
        check("ms ms 3 ME\r\nnew\r\nms ms 3 MA\r\nnew\r\nms ms 3 MP\r\nnew\r\n", "NS\r\n" * 3)
        both("ms", v["ms"])
        check("ms ms 3 F5 MR E12345\r\nnew\r\nmg ms v c\r\n", "HD\r\nVA 3 c12345\r\nnew\r\n")
        check("ms mscas 3 C1\r\nnew\r\n", "EX\r\n")
        both("mscas", v["mscas"])
        check("ms mscas 3 C%d\r\nnew\r\nmg mscas v\r\n" % cas_of(c, "mscas"), "HD\r\nVA 3\r\nnew\r\n")
        check("ms msI 3 I C1\r\nold\r\nmg msI v\r\n", "HD\r\nVA 3 X W\r\nold\r\n")
        check("ma ma\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n")
        both("ma", v["ma"])
        told = [b.ask(op.ADD, "badd", "new", set_extras()).status, b.ask(op.APPEND, "bappend", "new").status,
                b.ask(op.INCR, "bincr", extras=arith_extras()).status,
                b.ask(op.SET, "bset", "new", set_extras(5), cas=1).status, b.ask(op.SET, "bset", "new", set_extras(5)).status,
                b.ask(op.DELETE, "bdelete").status]
        tap.is_(told, [status.EXISTS, status.NOT_STORED, status.NON_NUMERIC, status.EXISTS, 0, 0], "%s: binary mutations" % io)
        check("get bdelete\r\n", "END\r\n")
        kept = b"".join(hit(k, v[k]) for k in ("badd", "bappend", "bincr"))
        check(b"get badd bappend bincr bset\r\n", kept + hit("bset", b"new") + b"END\r\n")
        with Client(d.admin) as operator:
            operator.ask("delete_prefix p:")
        check(b"get p:1 q:1 p:2\r\n", hit("q:1", v["q:1"]) + b"END\r\n")
        check("add p:1 5 0 3\r\nnew\r\nget p:1\r\n", b"STORED\r\n" + hit("p:1", b"new") + b"END\r\n")
        check("flush_all\r\nget q:1 add touched p:1\r\n", "OK\r\nEND\r\n")
        tap.is_(check.wrong, [], "%s: mutations of items whose values are on the disk" % io)


def expiry(d, io):
    """Items on the disk expire; one whose time was lengthened does not."""
    with d.client() as c:
        v = to_disk(c, {"short": 900, "longer": 900, "later": 900})
        c.ask("touch short 1")
        c.ask("touch longer 1")
        c.ask("touch longer 1000")
        c.ask("touch later 2")
        tap.is_(until(lambda: c.get("short"), lambda got: got is None), None, "%s: an item on the disk expires" % io)
        tap.is_(until(lambda: c.get("later"), lambda got: got is None), None, "%s: and another one" % io)
        tap.is_(c.get("longer"), v["longer"], "%s: not if its time is longer now" % io)


# -- Pipelines ------------------------------------------------------------------------------------------

def same_key(d, io):
    """A get of a value on the disk, then a mutation of its key, then a get, in one pipeline."""
    changes = {"set": (b"set %s 5 0 3\r\nnew\r\n", b"STORED\r\n", b"new"), "delete": (b"delete %s\r\n", b"DELETED\r\n", None),
               "append": (b"append %s 5 0 3\r\nnew\r\n", b"NOT_STORED\r\n", ""), "touch": (b"touch %s 90\r\n", b"TOUCHED\r\n", ""),
               "md": (b"md %s\r\n", b"HD\r\n", None), "gat": (b"gat -1 %s\r\n", None, None),
               "large": (b"set %s 5 0 300000\r\n" + b"n" * 300_000 + b"\r\n", b"STORED\r\n", b"n" * 300_000)}
    with d.client() as c:
        v = to_disk(c, {name + str(i): 3000 for name in changes for i in range(8)})
        check = Checked(c)
        for name, (request, reply, after) in changes.items():
            keys = [name + str(i) for i in range(8)]
            requests, replies = [], []
            for key in keys:
                k, found = key.encode(), hit(key, v[key]) + b"END\r\n"
                then = v[key] if after == "" else after
                requests += [b"get %s\r\nget none\r\n" % k, request % k, b"get %s\r\n" % k]
                replies += [found, b"END\r\n", reply or found, b"END\r\n" if then is None else hit(key, then) + b"END\r\n"]
            check(b"".join(requests), b"".join(replies))
        tap.is_(check.wrong, [], "%s: get, mutation, get of one key in a pipeline" % io)


def mixed_pipelines(d, io):
    """Hundreds of gets of values in memory, on the disk, and of none."""
    with d.client() as c:
        v = to_disk(c, {"d%d" % i: RANDOM.choice(SIZES[:2]) for i in range(60)})
        v.update(to_disk(c, {"D%d" % i: 20_000 for i in range(5)}))
        recent = {"m%d" % i: value("m%d" % i, 100 + i) for i in range(20)}
        recent.update({"M%d" % i: value("M%d" % i, 17_000 + i) for i in range(3)})
        store_and_read(c, recent)
        v.update(recent)
        left = classes(c, v)
        v = {key: one for key, one in v.items() if key in left}
        check, before = Checked(c), reads(c)
        names = list(v) + ["none%d" % i for i in range(30)]
        for turn in range(4):
            requests, replies = [], []
            for _ in range(150):
                key = RANDOM.choice(names)
                k, one = key.encode(), v.get(key)
                kind = RANDOM.randrange(4)
                if kind == 0:
                    requests.append(b"get %s\r\n" % k)
                    replies.append((b"" if one is None else hit(key, one)) + b"END\r\n")
                elif kind == 1:
                    some = RANDOM.choices(names, k=RANDOM.choice((2, 10, 40)))
                    requests.append(b"get %s\r\n" % b" ".join(name.encode() for name in some))
                    replies += [hit(name, v[name]) for name in some if name in v] + [b"END\r\n"]
                elif kind == 2:
                    requests.append(b"mg %s v k q\r\nmn\r\n" % k)
                    replies.append((b"" if one is None else b"VA %d k%s\r\n%s\r\n" % (len(one), k, one)) + b"MN\r\n")
                else:
                    requests.append(b"mg %s s\r\n" % k)
                    replies.append(b"EN\r\n" if one is None else b"HD s%d\r\n" % len(one))
            sender = threading.Thread(target=c.send, args=requests)
            sender.start()
            wanted = b"".join(replies)
            got = c.upto(wanted)
            if got != wanted:
                at = next(i for i, (a, b) in enumerate(zip(got + b"?", wanted)) if a != b)
                check.wrong.append((turn, at, got[max(0, at - 40):at + 40], wanted[max(0, at - 40):at + 40]))
                return tap.is_(check.wrong, [], "%s: pipelines of gets" % io)
            sender.join()
        tap.is_(check.wrong, [], "%s: pipelines of gets from memory, from the disk, and of nothing" % io)
        tap.ok(reads(c) - before > 200, "%s: the disk had many of them" % io, reads(c) - before)
    with d.client() as raw:
        b, keys = BinaryClient(raw), RANDOM.choices(names, k=200)
        raw.send(*[packet(op.GETKQ, key, opaque=i) for i, key in enumerate(keys)])
        got = [(r.opaque, r.key.decode(), r.value) for r in b.until_noop()]
        tap.ok(got == [(i, key, v[key]) for i, key in enumerate(keys) if key in v], "%s: the same by quiet binary gets" % io)


def large_values(io):
    """Values of 16 KiB to 400 KB, in memory and on the disk, in one pipeline."""
    with daemon(io, memory=16) as d, d.client() as c:
        sizes = (400_000, 100_000, 70_000, 20_000, 16_384)
        v = {}
        for i in range(60):
            key, size = "v%d" % i, sizes[i % len(sizes)]
            v[key] = value(key, size)
            store_and_read(c, {key: v[key]})
        for turn in range(3):
            store_and_read(c, {"fill%d-%d" % (turn, i): b"f" * 150_000 for i in range(30)})
        left = list(classes(c, v))
        before = reads(c)
        wrong, seen = [], 0
        for _ in range(3):
            differing, hits = get_all_at_once(c, RANDOM.sample(left, len(left)), v)
            wrong += differing
            seen += hits
        tap.is_(wrong, [], "%s: large values" % io)
        tap.ok(reads(c) > before and seen, "%s: the disk had some of them" % io, "%d reads, %d hits" % (reads(c) - before, seen))


# -- Sessions -------------------------------------------------------------------------------------------

def sessions(d, io):
    """Many at once; some close or do not read."""
    with d.client() as c:
        v = to_disk(c, {"s%d" % i: 5000 for i in range(50)})
    request = b"".join(b"get %s\r\n" % key.encode() for key in v) + b"mn\r\n"
    wanted = b"".join(hit(key, one) + b"END\r\n" for key, one in v.items()) + b"MN\r\n"
    clients = [d.client() for _ in range(40)]
    for i, c in enumerate(clients):
        c.send(request)
        if i % 4 == 1:
            c.reset()
        if i % 4 == 2:
            c.shutdown_send()
    wrong = [i for i, c in enumerate(clients) if i % 4 != 1 and c.upto(wanted) != wanted]
    tap.is_(wrong, [], "%s: many sessions, some of which end in the middle" % io)
    for c in clients:
        c.close()
    lazy = [d.client() for _ in range(4)]
    for c in lazy:
        c.send(request * 8)  # 2 MB of replies each, which sockets do not hold
    with d.client() as c:
        got = [c.send(request).upto(wanted) == wanted for _ in range(3)]
        tap.is_(got, [True] * 3, "%s: others are served while clients do not read" % io)
        tap.is_(c.set("other", "x"), "STORED", "%s: stores, too" % io)
    wrong = [c for c in lazy[:2] if c.upto(wanted * 8) != wanted * 8]
    tap.is_(wrong, [], "%s: and they get their replies when they read" % io)
    for c in lazy:
        c.reset()
    tap.is_(settled(d), 0, "%s: no read of the disk is left" % io)


# -- Commands and statistics -----------------------------------------------------------------------------

NAMES = ["%s_extstore" % name for name in ("get", "get_aborted", "get_oom", "recache_from", "miss_from", "badcrc_from")]
NAMES += ["extstore_" + name for name in (
    "compact_lost", "compact_rescues", "compact_skipped", "page_allocs", "page_evictions", "page_reclaims", "pages_free",
    "pages_used", "objects_evicted", "objects_read", "objects_written", "objects_used", "bytes_evicted", "bytes_written",
    "bytes_read", "bytes_used", "bytes_fragmented", "limit_maxbytes", "io_queue")]


def statistics(d, io):
    with d.client() as c:
        v = to_disk(c, {"t%d" % i: 1000 for i in range(10)})
        before = c.stats()
        tap.is_([name for name in NAMES if name not in before], [], "%s: memcached's statistics" % io)
        c.get_many(list(v))
        after = c.stats()
        wanted = {"get_extstore": 10, "extstore_objects_read": 10, "get_hits": 10, "miss_from_extstore": 0,
                  "badcrc_from_extstore": 0}
        tap.is_({name: int(after[name]) - int(before[name]) for name in wanted}, wanted, "%s: gets of ten values" % io)
        tap.is_((after["extstore_limit_maxbytes"], after["extstore_page_count"]), (str(64 << 20), "64"),
                "%s: the file's size" % io)
        pages = c.stats("extstore")
        tap.is_(sum(int(n) for name, n in pages.items() if name.endswith(":bytes")), int(c.stats()["extstore_bytes_used"]),
                "%s: stats extstore has the bytes of each page" % io)
        tap.is_(sum(name.endswith(":version") for name in pages), 64, "%s: and its version" % io)
        c.ask("stats reset")
        zeros = c.stats()
        tap.is_([zeros[n] for n in ("get_extstore", "extstore_objects_written", "extstore_bytes_read")], ["0"] * 3,
                "%s: stats reset" % io)
        tap.ok(zeros["extstore_objects_used"] == after["extstore_objects_used"] != "0", "%s: which leaves the sizes" % io)
        settings = c.stats("settings")
        tap.is_({n: settings[n] for n in ("ext_item_size", "ext_wbuf_size", "ext_recache_rate", "ext_drop_unread")},
                {"ext_item_size": "512", "ext_wbuf_size": str(1 << 20), "ext_recache_rate": "0", "ext_drop_unread": "yes"},
                "%s: stats settings" % io)


def commands(d, io):
    with d.client() as c:
        all_of_them = ("item_size 5000", "recache_rate 1", "drop_unread 0", "item_age 4294967295", "low_ttl 0", "compact_under 0",
                       "drop_under 0", "max_sleep 1000", "max_frag 0.5", "free_memchunks 1 2", "nothing 1", "item_size",
                       "item_size x")
        told = [c.ask("extstore " + words) for words in all_of_them]
        tap.is_(told, ["OK"] * 10 + ["ERROR"] * 3, "%s: the commands" % io)
        settings = c.stats("settings")
        tap.is_({n: settings[n] for n in ("ext_item_size", "ext_recache_rate", "ext_drop_unread")},
                {"ext_item_size": "5000", "ext_recache_rate": "1", "ext_drop_unread": "no"}, "%s: stats settings shows them" % io)
        c.ask("extstore recache_rate 0")
        store_and_read(c, {"small%d" % i: value("small%d" % i, 4000) for i in range(1500)})
        tap.is_(sum(moved(c, {"small0": 4000, "small5": 4000})), 0, "%s: item_size: smaller values do not move" % io)
        c.ask("extstore item_size 512")
        v = to_disk(c, {"u%d" % i: 4000 for i in range(10)})
        tap.is_(len(v), 10, "%s: and then they do" % io)
        c.ask("extstore recache_rate 1")
        before = c.stats()
        wrong = [key for key in v if c.get(key) != v[key] or c.get(key) != v[key]]
        after = c.stats()
        tap.is_(wrong, [], "%s: recache_rate 1: the values" % io)
        back = int(after["recache_from_extstore"]) - int(before["recache_from_extstore"])
        gets = int(after["get_extstore"]) - int(before["get_extstore"])
        tap.is_((back, gets), (10, 10), "%s: a read brings them back to memory" % io)
        c.ask("extstore recache_rate 0")


def moved(c, sizes):
    """For each key that exists: is its value on the disk?"""
    c.set("like", b"x" * next(iter(sizes.values())))
    whole = classes(c, ["like"])["like"]
    return [one < whole for one in classes(c, sizes).values()]


def returned(io):
    """recache_rate=1 under a small memory: values go up and down; cas, flags and expiry stay."""
    with daemon(io, memory=2, recache_rate=1) as d, d.client() as c:
        v = {"r%d" % i: value("r%d" % i, 1000 + 40 * (i % 50)) for i in range(2500)}
        store_and_read(c, v)
        cas = {}
        wrong, found = [], 0
        for turn in range(3):
            for first in range(0, len(v), 100):
                keys = list(v)[first:first + 100]
                for key, flags, got, unique in c.get_many(keys, "gets"):
                    key = key.decode()
                    found += 1
                    if (flags, got, unique) != (5, v[key], cas.setdefault(key, unique)):
                        wrong.append((turn, key, flags, got[:20], unique))
        s = c.stats()
        tap.is_(wrong, [], "%s: values that move up and down stay the same" % io)
        tap.ok(found > len(v) and int(s["recache_from_extstore"]) > 100, "%s: many of them moved" % io,
               "%d hits, %s came back" % (found, s["recache_from_extstore"]))


def unread(io):
    """With drop_unread, the default, values that nobody read are evicted instead."""
    for drops, command in ((True, "drop_unread 1"), (False, "drop_unread 0")):
        with daemon(io, memory=2) as d, d.client() as c:
            c.ask("extstore " + command)
            for i in range(0, 2000, 100):
                pipelined(c, [b"set n%d 0 0 2000\r\n%s\r\n" % (j, value("n%d" % j, 2000)) for j in range(i, i + 100)], (b"STORED",))
            s = c.stats()
            got = {key.decode(): v for key, _, v, _ in c.get_many(["n%d" % i for i in range(0, 2000, 10)])}
            tap.ok(all(v == value(key, 2000) for key, v in got.items()), "%s, %s: values" % (io, command))
            tap.is_(int(s["extstore_objects_written"]) > 0, not drops, "%s, %s: unread values move, or not" % (io, command))
    with Disk(drop_unread=False) as disk, Daemon("-m", "2", "-o", disk.options("io=" + io), "-I", "512k") as d:
        tap.is_(d.stats("settings")["ext_drop_unread"], "no", "%s: no_ext_drop_unread" % io)


def wrapped(io):
    """A file much smaller than the values: the old ones are misses, and no get has another value."""
    with daemon(io, megabytes=3, memory=2) as d, d.client() as c:
        versions, wrong, hits = {}, [], 0
        for turn in range(1, 41):
            if turn > 4 and int(c.stats()["extstore_page_evictions"]) > 3:
                break  # a busy disk takes fewer of the values
            for first in range(0, 1500, 50):
                some = {"w%d" % i: value("w%d" % i, 3000, turn) for i in range(first, first + 50)}
                store_and_read(c, some)
                versions.update((key, turn) for key in some)
                for key, _, got, _ in c.get_many(RANDOM.sample(sorted(versions), min(50, len(versions)))):
                    hits += 1
                    if got != value(key.decode(), 3000, versions[key.decode()]):
                        wrong.append((key, got[:20], versions[key.decode()]))
        s = c.stats()
        tap.is_(wrong, [], "%s: a file that is written over and over: no wrong value" % io)
        shown = {n: int(s[n]) for n in ("extstore_page_evictions", "get_extstore", "miss_from_extstore")}
        tap.ok(shown["extstore_page_evictions"] > 3 and shown["get_extstore"] > 100 and hits > 1000,
               "%s: pages were dropped" % io, str(shown))


def refused_writes(io):
    """The system refuses writes behind a limit of files' sizes, as a full disk does: what moves there is lost, and nothing else."""
    with daemon(io, memory=2) as d, d.client() as c:
        resource.prlimit(d.pid, resource.RLIMIT_FSIZE, (2 << 20, resource.RLIM_INFINITY))
        told = set()
        for turn in range(20):
            names = ["r%d-%d" % (turn, i) for i in range(100)]
            told |= {c.set(name, value(name, 3000)) for name in names}
            wrong = [k for k, _, v, _ in c.get_many(names) if v != value(k.decode(), 3000)]
        tap.is_((told, wrong), ({"STORED"}, []), "%s: sets go on while the disk refuses writes" % io)
        old = ["r%d-%d" % (turn, i) for turn in range(20) for i in range(100)]
        found = {k.decode(): v for k, _, v, _ in c.get_many(old)}
        tap.is_([k for k, v in found.items() if v != value(k, 3000)], [], "%s: no value is wrong" % io)
        errors = until(lambda: int(c.stats()["extstore_write_errors"]), lambda n: n > 0)
        tap.ok(errors > 0, "%s: writes failed" % io, errors)
        resource.prlimit(d.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        tap.ok("a write failed, so evicted items are lost" in d.stderr().decode(), "%s: the log says so" % io)


def stuck(io):
    """No write of the disk ends. Sets of many times the write buffers are acknowledged, and so are gets."""
    with Disk(recache_rate=0, drop_unread=False) as disk:
        args = ["-m", "4", "-I", "512k", "-o", disk.options("io=" + io)]
        faulty = {"binary": test_program("faulty/farcached"), "env": {"FARCACHED_FAULTS": "stuck_disk=1"}}
        with Daemon(*args, threads=2, expect_exit=-signal.SIGKILL, **faulty) as d, d.client() as c:
            values = {"k%d" % i: value("k%d" % i, 3000) for i in range(8000)}  # 24 MB
            store_and_read(c, values)
            stats = c.stats()
            tap.is_(stats["extstore_bytes_written"], "0", "%s: a disk that hangs: no set waits for it" % io)
            tap.ok(int(stats["extstore_dropped_no_buffer"]) > 1000, "%s: and values are dropped instead" % io)
            wrong, hits = get_all_at_once(c, values, values)
            tap.ok(not wrong and hits > 500, "%s: gets find those in memory and in the buffers" % io, "%s %d" % (wrong[:3], hits))
            d.stop(signal.SIGKILL)


def never_evicted():
    """-M: no value moves, and the log says so."""
    with Disk() as disk, Daemon("-M", "-m", "4", "-o", disk.options(), threads=1) as d, d.client() as c:
        tap.like(d.stderr(), "-M: nothing is evicted, so no value moves to ext_path", "-M: the log says that no value moves")
        told = {c.set("k%d" % i, "v" * 3000) for i in range(3000)}
        tap.is_(told, {"STORED", "SERVER_ERROR out of memory storing object"}, "-M: full memory refuses sets")
        tap.is_(c.stats()["extstore_objects_written"], "0", "-M: nothing moved")


def without_io_uring():
    """Threads read the disk where the system has no io_uring."""
    with WithoutCall("io_uring_setup", default_binary()) as binary, Disk(recache_rate=0, threads=2) as disk:
        with Daemon("-m", "4", "-I", "512k", "-v", "-o", disk.options(), binary=binary, threads=2) as d:
            tap.like(d.stderr(), "no io_uring", "without io_uring: the log says so")
            protocols(d, "without io_uring")
            same_key(d, "without io_uring")
            mixed_pipelines(d, "without io_uring")
            sessions(d, "without io_uring")


SHARED = (protocols, with_tokens, expiry, same_key, mixed_pipelines, sessions, statistics, commands, mutations)
ALONE = (large_values, returned, unread, wrapped, refused_writes, stuck)


def main():
    only = sys.argv[1:]
    for io in ("libevent", "uring"):
        with daemon(io) as d:
            for part in SHARED:
                if not only or part.__name__ in only:
                    part(d, io)
        for part in ALONE:
            if not only or part.__name__ in only:
                part(io)
    if not only or "without_io_uring" in only:
        without_io_uring()
    if not only or "never_evicted" in only:
        never_evicted()
    tap.done()


main()
