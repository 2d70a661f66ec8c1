# SPDX-License-Identifier: BSD-3-Clause
"""Replies as comparable tokens, for t/clients/pipelines.py.

A token contains the bytes that are compared as they came. RULES names all parts that may differ.
"""
import re

from binary_client import HEADER, op

RULES = {
    "CAS": "which one it is, as long as the same one of one server is always the same one of the other",
    "seconds": "times left and times ago (t, l, la, exp) may differ by SECONDS_APART",
    "item size": "cls and size in the reply of me, which depend on how memory is organised",
    "version": "the number in the reply of version",
}
SECONDS_APART = 120  # between the two servers' answers on a busy machine

SECONDS = re.compile(rb"( t| l|\bla=|\bexp=)(\d+)(?=[ \r])")  # -1 of an item without expiry is not a number of seconds
CAS = re.compile(rb"( c| cas=)(\d+)(?=[ \r])")


class Token:
    """A line with its value, or a packet. text: the bytes to compare, with placeholders for the numbers."""

    def __init__(self, text, seconds=(), cas=(), shown=None):
        self.text, self.seconds, self.cas = text, tuple(seconds), tuple(cas)
        self.shown = text if shown is None else shown  # as received


class SameCas:
    """Maps the CAS values of one server to those of the other, by their positions in the replies."""

    def __init__(self):
        self.pairs = ({}, {})

    def fits(self, ours, theirs):
        return self.pairs[0].get(ours, theirs) == theirs and self.pairs[1].get(theirs, ours) == ours

    def note(self, ours, theirs):
        self.pairs[0][ours], self.pairs[1][theirs] = theirs, ours

    def alike(self, ours, theirs):
        """Are the two tokens equal by RULES?"""
        if ours.text != theirs.text or len(ours.cas) != len(theirs.cas) or len(ours.seconds) != len(theirs.seconds):
            return False
        if any(abs(a - b) > SECONDS_APART for a, b in zip(ours.seconds, theirs.seconds)):
            return False
        if not all(self.fits(a, b) for a, b in zip(ours.cas, theirs.cas)):
            return False
        for a, b in zip(ours.cas, theirs.cas):
            self.note(a, b)
        return True


def text_tokens(stream, last):
    """The tokens of a text stream: one per line, including its value. last: gets each key's shown CAS."""
    found, at = [], 0
    while at < len(stream):
        end = stream.find(b"\n", at) + 1
        if end == 0:
            found.append(Token(stream[at:]))
            break
        line, at = stream[at:end], end
        value_bytes = re.match(rb"(?:VALUE [^ ]+ \d+|VA) (\d+)[ \r]", line)
        value = b""
        if value_bytes:
            value = stream[at:at + int(value_bytes.group(1)) + 2]
            at += len(value)
        found.append(text_token(line, value, last))
    return found


def text_token(line, value, last):
    if line.startswith(b"VALUE "):
        with_cas = re.match(rb"(VALUE ([^ ]+) \d+ \d+ )(\d+)\r\n$", line)
        if not with_cas:
            return Token(line + value)
        head, key, cas = with_cas.groups()
        last[key.decode("latin-1")] = int(cas)
        return Token(head + b"#\r\n" + value, cas=[int(cas)], shown=line + value)
    if line.startswith(b"VERSION "):
        return Token(b"VERSION")
    if not re.match(rb"(HD|VA|EN|NF|NS|EX|ME) ", line):
        return Token(line + value)
    text = re.sub(rb" cls=\d+ size=\d+\r\n$", b"\r\n", line) if line.startswith(b"ME ") else line
    cas = [int(n) for _, n in CAS.findall(text)]
    key = re.search(rb" k(\S+)", text)
    if cas and key:
        last[key.group(1).decode("latin-1")] = cas[0]
    text = CAS.sub(rb"\1#", text)
    seconds = [int(n) for _, n in SECONDS.findall(text)]
    return Token(SECONDS.sub(rb"\1s", text) + value, seconds, cas, line + value)


def binary_tokens(stream, last, key_of):
    """The tokens of a binary stream, one per packet."""
    found, at = [], 0
    while len(stream) - at >= HEADER.size:
        magic, opcode, key_bytes, extras_bytes, datatype, status, body_bytes, opaque, cas = HEADER.unpack_from(stream, at)
        whole = stream[at:at + HEADER.size + body_bytes]
        at += len(whole)
        if cas and key_of(opaque):
            last[key_of(opaque)] = cas
        if opcode == op.VERSION and status == 0:
            whole = whole[:8] + b"\0\0\0\0" + whole[12:HEADER.size]
        found.append(Token(whole[:16] + (b"#" if cas else b"0") + whole[HEADER.size:], cas=[cas] if cas else [], shown=whole))
    return found + ([Token(stream[at:])] if at < len(stream) else [])
