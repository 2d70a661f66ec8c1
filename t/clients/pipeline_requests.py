# SPDX-License-Identifier: BSD-3-Clause
"""Random requests for t/clients/pipelines.py: valid ones, nearly valid ones, and ones with changed bytes.

A request is a list of parts: bytes, or a Cas, whose number differs between the two servers. Both servers get the same number
of bytes, so a request can be cut anywhere.

R1  No reply depends on the time of day or on the length of the test: exptimes and delays are 0, past, or hours away.
R2  The same seed gives the same requests: no clock and no system call is involved.
"""
import re
import struct

from binary_client import NO_CREATE, arith_extras, op, packet, set_extras, touch_extras

KEYS = ["a", "b", "user:1", "user:2", "k" * 250, "\x01\xc0\xff", "caf\xc3\xa9"]
NUMBERS = ["n", "user:n"]
BASE64_KEYS = ["AAEC", "aGVsbG8=", "YQ=="]  # the last is "a"
BAD_BASE64 = ["AAE", "????", "A A=", "Y" * 340, "Y===", "YQ", "Y" * 336]
BAD_KEYS = ["k" * 251, "k" * 252, "", "x" * 1000, "a\tb", "a\0b", "a\rb"]

DAYS_30 = 60 * 60 * 24 * 30
GOOD_TTLS = [0, 0, 0, 0, 10_000, 50_000, DAYS_30]
RECACHE_BEFORE = [5_000, 30_000, 100_000]  # never near the rest of a valid TTL
# Dates in 2001 and 2033; the limits of 32 and of 63 bits.
ODD_TTLS = [-1, -5, DAYS_30 + 1, 1_000_000_000, 2_000_000_000, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 10_000, 2**63 - 1,
            2**63, 2**64, -2**31, -2**31 - 1, -2**63, -2**63 - 1]
NONSENSE = ["x", "-", "+", "1x", "--1", "0x10", "1e3", "1.5", "", "10000 ", "+10000", "\t10000", "10000\t", "0010000", "-0",
            "000000000010000", "0000000000000000000010000"]
INTEGERS = [0, 1, 2, 9, 10, 99, 100, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 5]


class Cas:
    """A placeholder for the CAS that the server last showed for the key, or, if not good, for a CAS that it never issued."""
    DIGITS = 20

    def __init__(self, key, good, binary=False):
        self.key, self.good, self.binary = key, good, binary

    def bytes_for(self, last):
        number = last.get(self.key, 12_345) if self.good else 999_999_999_999
        return struct.pack(">Q", number) if self.binary else b"%0*d" % (self.DIGITS, number)

    def __len__(self):
        return 8 if self.binary else self.DIGITS

    def __repr__(self):
        return "<CAS of %r%s>" % (self.key, "" if self.good else ", wrong")


def latin(text):
    return text.encode("latin-1")


def cas_stands_alone(request):
    """Is every CAS an argument by itself? One within a key or an opaque is echoed, and the two servers' numbers differ."""
    for at, part in enumerate(request):
        if isinstance(part, Cas) and not part.binary:
            line = b"".join(p for p in request[:at] if not isinstance(p, Cas)).rpartition(b"\n")[2]
            if not re.search(rb" C?\Z", line) or len(line.removesuffix(b"C").split()) < 2:
                return False
    return True


class Requests:
    """Draws requests. item_bytes_max: the -I of both servers."""

    def __init__(self, dice, item_bytes_max):
        self.dice = dice
        self.item_bytes_max = item_bytes_max

    # -- words ----------------------------------------------------------------------------------------

    def rarely(self, share=0.1):
        return self.dice.random() < share

    def key(self):
        if self.rarely(0.004):
            return self.dice.choice(BAD_KEYS)
        return self.dice.choice(KEYS + ["a", "b"] + NUMBERS + ["absent"])

    def ttl(self, odd_only=False):
        if odd_only or self.rarely(0.15):
            return str(self.dice.choice(ODD_TTLS))
        if self.rarely(0.05):
            return self.dice.choice(NONSENSE)
        return str(self.dice.choice(GOOD_TTLS))

    def integer(self):
        if self.rarely(0.1):
            return self.dice.choice(NONSENSE + ["-1", str(2**64), str(2**64 + 1), "9" * 25])
        return str(self.dice.choice(INTEGERS))

    def no_cas(self):
        """A number that neither server issues, or an invalid number."""
        return self.dice.choice(["0", "0", str(2**63), str(2**64 - 1), str(2**64), "-1"] + NONSENSE)

    def flags(self):
        if self.rarely(0.1):
            return self.dice.choice(NONSENSE + ["-1", str(2**32), str(2**64)])
        return str(self.dice.choice([0, 0, 1, 7, 65535, 65536, 2**32 - 1]))

    def size(self):
        """A random size. Near the limit it avoids those that only one server accepts: see "largest value" in
        farcached-protocol(7)."""
        if self.rarely(0.04):
            return self.item_bytes_max + self.dice.choice([-600] * 9 + [1, 2, 100, 5000] * 2 + [-50])
        return self.dice.choice([0, 1, 2, 3, 7, 10, 20, 100, 400, 2000, self.item_bytes_max // 4])

    def value(self):
        if self.rarely(0.35):
            return self.dice.choice(["0", "1", "9", "10", "99", "100", "5 ", "10   ", " 5", "-1", "1e3", "5x", "+5", "007",
                                     "1" * 20,
                                     str(2**64 - 1), str(2**64), str(2**64 - 5), "9" * 21, "0" * 19 + "7", "", "\x005", "5\0"])
        if self.rarely(0.05):
            return self.dice.choice(["x\r\n", "x\r\nget a\r\n", "x\r\nEND\r\n", "\0" * 5, "\xff" * 9, "mn\r\n", "x\r", "x\n"])
        return self.dice.choice("abcxyz") * self.size()

    def gap(self):
        return " " if self.dice.random() < 0.98 else self.dice.choice(["  ", "   ", "\t", " \t ", "\0"])

    def end(self):
        return "\r\n" if self.dice.random() < 0.97 else self.dice.choice(["\n", " \r\n", "\r\r\n", "   \n", "\t\r\n"])

    def noreply(self):
        if self.rarely(0.1):
            return [self.dice.choice(["noreply"] * 8 + ["noreply ", "norepl", "NOREPLY", "noreply x", "x noreply"])]
        return ["x"] if self.rarely(0.01) else []

    def line(self, words):
        text = words[0]
        for word in words[1:]:
            text += self.gap() + word
        return text + self.end()

    # -- text -----------------------------------------------------------------------------------------

    def data(self, value, declared=None):
        """(declared length, data with line end); sometimes the two disagree."""
        told, end = str(len(value) if declared is None else declared), "\r\n"
        if self.rarely(0.03):
            told = str(max(0, len(value) + self.dice.choice([-2, -1, 1, 2, 3])))
        elif self.rarely(0.02):
            told = self.dice.choice(NONSENSE + ["-1", "-2", str(2**31 - 3), str(2**31 - 2), str(2**31 - 1), str(2**31),
                                                str(2**32 + 2),
                                                str(2**64)])
        if self.rarely(0.03):
            end = self.dice.choice(["", "\n", "\r", "\n\r", "xx", " \r\n", "\r\n\r\n"])
        return told, value + end

    def storage(self):
        verb = self.dice.choice(["set", "set", "set", "set", "add", "replace", "append", "prepend"])
        told, data = self.data(self.value())
        return [latin(self.line([verb, self.key(), self.flags(), self.ttl(), told] + self.noreply()) + data)]

    def cas(self):
        key, (told, data) = self.dice.choice(KEYS + NUMBERS), self.data(self.value())
        head = latin("cas %s %s %s %s " % (key, self.flags(), self.ttl(), told))
        unique = latin(self.no_cas()) if self.rarely() else Cas(key, self.dice.random() < 0.7)
        return [head, unique, latin(self.dice.choice(["", "", "", " noreply"]) + "\r\n" + data)]

    def get(self):
        keys = [self.key() for _ in range(self.dice.choice([0] + [1] * 20 + [2] * 6 + [5, 23, 24, 25, 60]))]
        verb = self.dice.choice(["get", "get", "get", "gets", "gets", "gat", "gats"])
        return [latin(self.line([verb] + ([self.ttl()] if verb.startswith("gat") else []) + keys))]

    def keyed(self):
        key = self.key()
        words = self.dice.choice([["delete", key], ["delete", key], ["delete", key, self.dice.choice(["0", "0", "1", "-1", "x"])],
                                  ["touch", key, self.ttl()], ["touch", key, self.ttl()]])
        if self.rarely(0.02):
            words = words[:-1]
        return [latin(self.line(words + self.noreply()))]

    def arithmetic(self):
        key = self.dice.choice(NUMBERS + NUMBERS + ["a", "b"]) if not self.rarely(0.05) else self.key()
        if self.rarely(0.4):
            value = self.dice.choice(["0", "9", "10", "99", "1000", str(2**64 - 1), str(2**64 - 5), "12 ", "5x", "007"])
            return [latin("set %s %d %d %d\r\n%s\r\n" % (key, self.dice.choice([0, 5]), self.dice.choice(GOOD_TTLS),
                                                         len(value), value))]
        words = [self.dice.choice(["incr", "decr"]), key, self.integer()]
        return [latin(self.line((words if not self.rarely(0.02) else words[:2]) + self.noreply()))]

    # -- meta -----------------------------------------------------------------------------------------

    def meta_key(self, verb):
        """(the key, the flag b or nothing)."""
        if self.rarely(0.15):
            return self.dice.choice(BASE64_KEYS if not self.rarely() else BAD_BASE64), ["b"]
        if verb == "ma" and not self.rarely(0.3):
            return self.dice.choice(NUMBERS), []
        return self.key(), []

    def token(self, letter, modes):
        """A flag with its token, which is usually valid."""
        if letter == "R" and not self.rarely():
            return letter + str(self.dice.choice(RECACHE_BEFORE))
        if letter in "TNR":
            return letter + self.ttl(odd_only=letter == "R")
        if letter == "C":
            return letter + self.no_cas()
        if letter in "DJ":
            return letter + self.integer()
        if letter == "E":  # larger than any that a server issues itself
            good = str(2**60 + self.dice.randrange(100))
            return letter + (good if not self.rarely() else self.dice.choice(NONSENSE + [str(2**64)]))
        if letter == "F":
            return letter + self.flags()
        if letter == "M":
            return letter + self.dice.choice(modes if not self.rarely(0.05) else ["X", "", "SX", "e", "set", "1"])
        if letter == "O":
            return letter + self.dice.choice(["1", "opaque", "", "o" * 30, "o" * 31, "O", "\xff"] * 30 + ["o" * 32])
        return letter

    def meta_flags(self, often, now_and_then, modes=("S",)):
        wanted = [f for f in often if self.dice.random() < 0.35] + [f for f in now_and_then if self.dice.random() < 0.06]
        self.dice.shuffle(wanted)
        flags = [self.token(letter, modes) for letter in wanted]
        if self.rarely(0.03):
            flags.append(self.dice.choice(["!", "1", "z", "v", "v", "q", "kx", "vv", "\x80", "~", "[", "_", "P1", "L/x/", "k",
                                           "W", "b"]))
        if self.rarely(0.003):
            flags += list("bcdefghijklmnopqrstuvwxyz"[:self.dice.randrange(25)])
        return flags

    def cas_flag(self, key, flags):
        """The flags as parts. C gets the key's CAS, if it was shown."""
        at = next((i for i, f in enumerate(flags) if f.startswith("C")), None)
        if at is None or self.rarely(0.3):
            return [latin("".join(" " + f for f in flags))]
        return [latin("".join(" " + f for f in flags[:at]) + " C"), Cas(key, self.dice.random() < 0.7),
                latin("".join(" " + f for f in flags[at + 1:]))]

    def meta(self):
        verb = self.dice.choice(["mg"] * 5 + ["ms"] * 4 + ["md"] * 3 + ["ma"] * 3 + ["me"])
        key, flags = self.meta_key(verb)
        if verb == "ms":
            return self.meta_set(key, flags)
        if verb == "mg":
            flags += self.meta_flags("cfkqstvOTN", "hltuvERCPLbIx")
        elif verb == "md":
            flags += self.meta_flags("kqOC", "ITExPLvbM")
        elif verb == "ma":
            flags += self.meta_flags("vtckqOND", "JMCPLbx" + ("ET" if self.rarely() else ""), modes=["I", "D", "+", "-", "i",
                                                                                                     "d", "incr", "decr"])
        else:
            flags += self.meta_flags("", "vbkq")
        return [latin(verb + self.gap() + key)] + self.cas_flag(key, flags) + [latin(self.end())]

    def meta_set(self, key, flags):
        told, data = self.data(self.value())
        flags += self.meta_flags("cfkqsTOFM", "CEINPLbv", modes=["S", "E", "A", "P", "R", "e", "a", "p", "r", "s", "A", "P"])
        return [latin("ms %s %s" % (key, told))] + self.cas_flag(key, flags) + [latin(self.end() + data)]

    # -- requests without a key, and malformed ones ------------------------------------------------------

    def rare(self):
        return [latin(self.dice.choice([
            "flush_all\r\n", "flush_all noreply\r\n", "flush_all 0\r\n", "flush_all 50000\r\n", "flush_all -1\r\n",
            "flush_all x\r\n",
            "flush_all 100000000\r\n",
            "flush_all 0 noreply\r\n", "flush_all 2000000000\r\n", "flush_all 2147483648\r\n", "flush_all 50000 x\r\n",
            "verbosity 0\r\n", "verbosity\r\n", "verbosity x\r\n", "verbosity 0 noreply\r\n", "verbosity -1\r\n",
            "verbosity 4294967296\r\n",
            "version\r\n", "version x\r\n", "mn\r\n", "mn x y\r\n", "mn noreply\r\n", "nonsense\r\n", "nonsense noreply\r\n",
            "\r\n", "\n",
            " \r\n", "x\r\n", "a\n", "GET a\r\n", "gett a\r\n", "get\ta\r\n", " get a\r\n", "mx a\r\n", "m a\r\n", "mgx a\r\n",
            "get\0a\r\n",
            "stats\r\n", "stats nonsense\r\n", "stats detail\r\n", "stats detail x\r\n", "stats detail off\r\n",
            "stats cachedump\r\n",
            "stats cachedump 1\r\n", "stats cachedump x 1\r\n", "stats cachedump 64 1\r\n", "stats sizes\r\n",
            "stats extstore\r\n",
            "shutdown\r\n", "shutdown graceful\r\n", "shutdown noreply\r\n", "watch nonsense\r\n", "cache_memlimit\r\n",
            "cache_memlimit x\r\n", "cache_memlimit 1\r\n", "slabs\r\n", "slabs reassign x 1\r\n", "slabs reassign 99 1\r\n",
            "slabs automove x\r\n", "slabs automove 3\r\n", "lru nonsense\r\n", "lru_crawler nonsense\r\n",
            "lru_crawler crawl 1\r\n",
            "x" * 300 + "\r\n", "get" + " " * 300 + "a\r\n", "get " + "a " * 900 + "\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "quit\r\n", "quit now\r\n", "quit noreply\r\n", "x" * 2049, "gat " + "x" * 2049,
            "x" * 2100 + "\r\n", "gat 0 " + "a " * 1020 + "\r\n", "delete " + "x" * 2030 + "\r\n", "\0\0\0\0\r\n",
            "\x81\0\0\0\r\n"]))]

    def text(self):
        shape = self.dice.choices([self.storage, self.cas, self.get, self.keyed, self.arithmetic, self.meta, self.rare],
                                  weights=[30, 8, 30, 14, 14, 45, 2.5])[0]
        request = shape()
        return self.changed(request, safe_text) if self.rarely(0.05) else request

    def changed(self, request, is_safe):
        """The request with a byte or a word of one part changed, if R1 still holds."""
        at = self.dice.randrange(len(request))
        if isinstance(request[at], Cas) or not request[at]:
            return request
        part = bytearray(request[at])
        line_end = max(1, part.find(b"\n"))  # changes in a value are of little interest
        where = self.dice.randrange(min(len(part), line_end + 1))
        odd = self.dice.choice([b" ", b"\t", b"\0", b"\r", b"\n", b"\r\n", b"0", b"9", b"-", b"+", b"\x81", b"\xff", b"q",
                                b"noreply"])
        what = self.dice.randrange(4)
        if what == 0:
            part[where:where + 1] = odd
        elif what == 1:
            part[where:where] = odd
        elif what == 2:
            del part[where]
        else:
            word = bytes(part[where:line_end]).split(b" ")[0]
            part[where:where] = word + b" "
        made = request[:at] + [bytes(part)] + request[at + 1:]
        return made if is_safe(made) and cas_stands_alone(made) else request

    # -- binary ---------------------------------------------------------------------------------------

    def binary_ttl(self):
        return self.dice.choice(GOOD_TTLS + GOOD_TTLS + [DAYS_30 + 1, 1_000_000_000, 2_000_000_000, 2**31 - 1, 2**31, 2**32 - 1])

    def binary(self):
        """A packet; its opaque is the index of the key in `self.opaques`, plus 1000."""
        quiet = self.rarely(0.3)
        key = self.dice.choice(KEYS + NUMBERS + ["a", "b", "absent"])
        value = self.value() if not self.rarely(0.03) else "y" * (self.item_bytes_max + 500)
        number_key = self.dice.choice(NUMBERS + NUMBERS + ["a"])
        stored = set_extras(flags=self.dice.choice([0, 7, 2**32 - 1]), exptime=self.binary_ttl())
        amounts = arith_extras(self.dice.choice(INTEGERS), self.dice.choice([0, 500, 2**64 - 1]),
                               self.dice.choice([0, 10_000, NO_CREATE, NO_CREATE]))
        touched = touch_extras(self.binary_ttl())
        opcode, key, value, extras, cas = self.dice.choice([
            ((op.SET, op.SETQ)[quiet], key, value, stored, True), ((op.SET, op.SETQ)[quiet], key, value, stored, True),
            ((op.ADD, op.ADDQ)[quiet], key, value, stored, True), ((op.REPLACE, op.REPLACEQ)[quiet], key, value, stored, True),
            ((op.APPEND, op.APPENDQ)[quiet], key, value, b"", True), ((op.PREPEND, op.PREPENDQ)[quiet], key, value, b"", True),
            ((op.INCR, op.INCRQ)[quiet], number_key, "", amounts, True), ((op.DECR, op.DECRQ)[quiet], number_key, "", amounts,
                                                                          True),
            ((op.GET, op.GETQ)[quiet], key, "", b"", False), ((op.GETK, op.GETKQ)[quiet], key, "", b"", False),
            ((op.GET, op.GETQ)[quiet], key, "", b"", False), ((op.GETK, op.GETKQ)[quiet], key, "", b"", False),
            ((op.GAT, op.GATQ)[quiet], key, "", touched, False), ((op.GATK, op.GATKQ)[quiet], key, "", touched, False),
            (op.TOUCH, key, "", touched, False), ((op.DELETE, op.DELETEQ)[quiet], key, "", b"", True),
            ((op.DELETE, op.DELETEQ)[quiet], number_key, "", b"", True), (op.NOOP, "", "", b"", False)])
        more = {}
        if self.rarely(0.02):
            opcode, key, value, extras = self.rare_packet()
        if self.rarely(0.02):
            more = self.dice.choice([{"keylen": len(key) + 1}, {"keylen": 0}, {"keylen": 251}, {"extlen": 0}, {"extlen": 4},
                                     {"extlen": 8},
                                     {"extlen": 255}, {"datatype": 1}, {"vbucket": 7}, {"magic": 0x81}, {"magic": 0x00},
                                     {"body": len(key)}, {"body": len(extras) + len(key)}, {"body": 2**31}, {"body": 2**32 - 1}])
        made = packet(opcode, latin(key), latin(value), extras=extras, opaque=self.opaque_of(key), **more)
        if cas and self.rarely(0.25):
            return [made[:16], Cas(key, self.dice.random() < 0.7, binary=True), made[24:]]
        return [made]

    def rare_packet(self):
        """(opcode, key, value, extras)."""
        return self.dice.choice([
            (op.VERSION, "", "", b""), (op.QUIT, "", "", b""), (op.QUITQ, "", "", b""), (op.FLUSH, "", "", b""), (op.FLUSHQ,
                                                                                                                  "", "", b""),
            (op.FLUSH, "", "", touch_extras(0)), (op.FLUSH, "", "", touch_extras(50_000)), (op.STAT, "nonsense", "", b""),
            (op.STAT, "detail", "", b""), (0x1B, "", "", touch_extras(0)), (0x40, "", "", b""), (0x40, "a", "", b""), (0xFF,
                "", "", b""),
            (op.SASL_LIST, "", "", b""), (op.SASL_AUTH, "PLAIN", "\0a\0b", b""), (op.SASL_STEP, "PLAIN", "x", b""),
            (op.GET, "", "", b""), (op.GET, "a", "x", b""), (op.GET, "a", "", b"\0\0\0\0"), (op.SET, "a", "x", b""),
            (op.DELETE, "", "", b""),
            (op.GET, "k" * 251, "", b""), (op.SET, "k" * 251, "x", set_extras()), (op.SET, "", "x", set_extras()),
            (op.TOUCH, "a", "", b""), (op.INCR, "n", "", b""), (op.INCR, "n", "x", arith_extras()), (op.NOOP, "a", "", b""),
            (op.NOOP, "", "x", b""), (op.VERSION, "a", "", b""), (op.APPEND, "a", "x", set_extras()), (op.TOUCH, "a", "x",
                                                                                                       touch_extras(0)),
            (op.GAT, "a", "x", touch_extras(0)), (op.SET, "a", "", set_extras()), (op.FLUSH, "a", "", b"")])

    @staticmethod
    def opaque_of(key):
        known = KEYS + NUMBERS + ["absent"]
        return 1000 + known.index(key) if key in known else 999

    @staticmethod
    def key_of(opaque):
        known = KEYS + NUMBERS + ["absent"]
        return known[opaque - 1000] if 0 <= opaque - 1000 < len(known) else None


NEAR_MAX = 3600  # smaller numbers as exptime may pass during the test


def is_near(word):
    found = re.match(rb"[\t\v\f\r]*\+?(\d{1,20})", word)
    return bool(found) and (0 < int(found.group(1)) < NEAR_MAX or 1_700_000_000 < int(found.group(1)) < 1_990_000_000)


def safe_text(request):
    """Does R1 hold for these randomly changed bytes?"""
    everything = b"".join(part if isinstance(part, bytes) else b"0" * len(part) for part in request)
    for line in re.split(rb"[\r\n]+", everything):
        words = line.split(b" ")
        words = [w for w in words if w]
        places = {b"set": 3, b"add": 3, b"replace": 3, b"append": 3, b"prepend": 3, b"cas": 3, b"gat": 1, b"gats": 1, b"touch": 2,
                  b"flush_all": 1}
        place = places.get(words[0], len(words)) if words else 0
        if place < len(words) and is_near(words[place]):
            return False
        if any(re.match(rb"[TNR]", w) and is_near(w[1:]) for w in words):
            return False
    return True
