# SPDX-License-Identifier: BSD-3-Clause
"""Intended differences from memcached, for t/clients/pipelines.py: name, reason, and a pattern for this difference alone.

An entry explains a difference if the pipeline contains `request` and the rest of the replies matches `ours` and `theirs`. The
comparison then skips the matched bytes.
"""
import re


class Meant:
    """lost: the rest of this pipeline cannot be compared. diverges: the contents of the two caches differ from then on.

    unseen: the replies are the same, but the caches differ.
    """

    def __init__(self, name, why, request, ours="", theirs="", binary=False, lost=False, diverges=False, unseen=False):
        self.name, self.why, self.binary = name, why, binary
        self.lost, self.diverges, self.unseen = lost, diverges or unseen, unseen
        self.request, self.ours, self.theirs = (re.compile(p.encode("latin-1"), re.S) for p in (request, ours, theirs))

    def asked_in(self, raw, binary):
        return binary == self.binary and self.request.search(raw)

    def explains(self, ours, theirs):
        """(bytes to skip of ours, of theirs), or None."""
        ours, theirs = self.ours.match(ours), self.theirs.match(theirs)
        return (ours.end(), theirs.end()) if ours and theirs else None


BASE64_KEY = r"(?:AAEC|aGVsbG8=|YQ==)"
BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
STORAGE = r"(?:set|add|replace|append|prepend|cas) "

MODERN = [
    Meant("a key too long in get or gat",
          "memcached has touched the keys before it; it drops the replies that were not sent yet, and writes "
          "an empty line behind the error", r"g[ae]ts? [^\n]*(?:[^ \n]{250}[^ \r\n]|[^ \n]{251}[^\n])", unseen=True),
    Meant("ma with E or T that makes a number longer",
          "memcached changes the CAS and the exptime of the item that it has just replaced",
          r"ma (?![^\n]* M[D-])[^\n]* [ET]-?\d", unseen=True),
    Meant("me with b", "memcached looks for the key as it is written", r"me [^\n]* b\b",
          r"(?:CLIENT_ERROR bad command line format|ME [^\n]*|EN)\r\n", r"(?:EN|ME [^\n]*)\r\n"),
    Meant("the key of an item that mg with b and N made",
          "memcached shows it decoded, which breaks the line if it holds a blank",
          r"m[gsdae] ", r"(?:[^\n]* k%s b|ME %s)[^\n]*\n" % (BASE64_KEY, BASE64_KEY),
          r"(?:[^\n]* k|ME )(?:\x00\x01\x02|hello|a)[^\n]*\n"),
    Meant("base64 that is none", "memcached skips bytes that are no base64 digits, so that a key has many names",
          r"m[gsdae] +(?!%s )[^ \n]+ (?:[^\n]* )?b\b" % BASE64,
          r"CLIENT_ERROR (?:error decoding key|invalid or duplicate flag)\r\n", r"",
          lost=True, diverges=True),
    Meant("an opaque too long", "memcached executes the command before it finds the error; here an error changes nothing",
          r"m[gsda] [^\n]*O[^ \n]{32}", unseen=True),
    Meant("no time left", "memcached shows the time to an exptime that is past as a number of 32 bits without a sign",
          r"m[ga] ", r"(?:HD|VA)[^\n]* t0[ \r]", r"(?:HD|VA)[^\n]* t42949\d{5}[ \r]"),
    Meant("time beyond 2^31 in me",
          "memcached shows it as a negative number", r"me ", r"ME [^\n]* exp=\d{10} ", r"ME [^\n]* exp=-\d+ "),
    Meant("a flush at a moment before the start", "memcached forgets it; here it is past, and all is flushed",
          r"flush_all (?:2[6-9]\d{5}|[3-9]\d{6}|\d{8,9}|1[0-6]\d{8})\b", unseen=True),
    Meant("the largest value",
          "an item's overhead is smaller here", STORAGE + r"|ms ",
          r"(?:HD[^\n]*|STORED|NOT_STORED|NS[^\n]*|NF[^\n]*|NOT_FOUND)\r\n",
          r"SERVER_ERROR (?:object too large for cache|out of memory storing object)\r\n", diverges=True),
    Meant("the largest value", "the same", r" 327[0-2]\d[ \r\n]", unseen=True),
    Meant("what is pipelined before watch", "memcached does not see a request whose last byte came with the watch", r"watch ",
          r"ERROR cannot pipeline other commands before watch\r\n", r"ERROR\r\n"),
    Meant("a subcommand cut short",
          "memcached takes the beginning of a subcommand for the whole", r"(?:stats|lru|lru_crawler|slabs|extstore) ",
          r"(?:CLIENT_)?ERROR[^\n]*\n", r"", lost=True, diverges=True),
    Meant("what stats tells", "the numbers differ between processes; t/conversation/stats.py checks the names and their order",
          r"stats *(?:settings|items|slabs)? *\r?\n", unseen=True),
    Meant("replies before a close",
          "memcached drops the replies that were not sent yet", r"HTTP/|[^\n]{2049}", r".*\[closed\]\Z",
          r"\[closed\]\Z"),
    Meant("a long line that has come",
          "memcached closes by the part of it in a buffer of 16 KiB; here a complete line is served",
          r"[^\n]{2049}", r"", r"(?:VALUE [^\n]*\n[^\n]*)?\[closed\]\Z", lost=True, diverges=True),
    Meant("a long line that has come",
          "the same, the other way round", r"[^\n]{2049}", r".*\[closed\]\Z", r".*(?<!\[closed\])\Z", lost=True,
          diverges=True),
    Meant("a long line that has come", "the next requests change items here, before both close",
          r"[^\n]{2049}.*\n(?:%s|m[gsda] |incr |decr |delete |touch |gats? )" % STORAGE, unseen=True),
    Meant("replies before a value",
          "memcached sends replies and errors after the value has arrived; here at once",
          STORAGE + r"|ms ", r"(?!.*(?:^|\n)MN\r\n\Z).+(?<!\[closed\])\Z", r"\Z"),
    Meant("a number of blanks only", "memcached reads on behind the end of the word, in the next one",
          STORAGE + r"[^\n]*[ \t\v\f\r][\t\v\f\r]+[ \t\v\f\r]", unseen=True),
    Meant("replies before a close in binary",
          "memcached drops the replies that were not sent yet", r"", r".+\[closed\]\Z", r"\[closed\]\Z",
          binary=True),
    Meant("lengths that contradict each other",
          "memcached waits for the bytes of the key's length before it checks; here the header suffices",
          r"", r".*\x00[\x04\x81]\x00{3}.{13}(?:Unknown command|Invalid arguments)\[closed\]\Z", r"\Z", binary=True),
    Meant("the largest value in binary",
          "an item's overhead is smaller here", r"\x80[\x01-\x03\x0e\x0f\x11-\x13\x19\x1a]",
          r"(?:\x81[\x01-\x03\x0e\x0f].{4}\x00\x00.{16})?", r"\x81.{5}\x00[\x03\x82]", binary=True, lost=True, diverges=True),
    Meant("an unknown opcode with a body", "memcached takes the body for requests; here it is thrown away",
          r"\x80[\x1b\x1f\x25-\xff].{6}(?!\x00{4})", binary=True, unseen=True),
    Meant("a stat with a body and no key", "memcached takes the body for requests; here it is thrown away",
          r"\x80\x10\x00{3}.{3}(?!\x00{4})", binary=True, unseen=True),
    Meant("a touch or gat with a value", "memcached takes the value for requests; here it is thrown away",
          r"\x80[\x1c-\x1e\x23\x24]\x00\x01\x04...\x00\x00\x00\x06", binary=True, unseen=True),
]
# For these versions only binary is compared. Their text parser differs, and REWORDED in differential.py lists its differences.
OLDER = [entry for entry in MODERN if entry.binary and entry.name != "the largest value in binary"] + [
    Meant("a body of more than 1 GiB",
          "later versions refuse it and close, as here", r"\x80[\x00-\x24].{6}[\x40-\xff]", binary=True, unseen=True),
]


def is_modern(version):
    """1.6.40 introduced another parser."""
    return version >= (1, 6, 40)


def table_for(version):
    return MODERN if is_modern(version) else OLDER
