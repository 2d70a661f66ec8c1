# SPDX-License-Identifier: BSD-3-Clause
"""A reader of our C++ style for includes and lengths of functions. It is no parser."""
import os
import re

SKIPPED_FOLDERS = {".git", "build", "_build", "_inst", "build-aux", "autom4te.cache", "corpus", "__pycache__"}


def source_tree(top):
    """The paths of all files under `top` except build products, in order within each folder."""
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith("farcached-"))
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), top)


RAW_STRING = re.compile(r'R"([^()\\\s]{0,16})\(.*?\)\1"', re.S)
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.S)
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.M)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M)


def _blank(match):
    """Replaces the text by its newlines alone."""
    return "\n" * match.group(0).count("\n") + ("" if match.group(0).startswith("/") else '""')


class Source:
    """A C++ file: its text, its includes as (line, name), and `code` without comments, strings, directives."""

    def __init__(self, text):
        self.text = text
        self.quoted_includes, self.system_includes = [], []
        self.first_include = None
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            quoted, system = match.groups()
            (self.quoted_includes if quoted else self.system_includes).append((line, quoted or system))
            self.first_include = self.first_include or quoted or system
        code = RAW_STRING.sub(_blank, text)
        code = TOKEN.sub(_blank, code)
        self.code = DIRECTIVE.sub(lambda m: "\n" * m.group(0).count("\n"), code)


NOT_A_FUNCTION = re.compile(r"^(?:template\s*<.*>\s*)?(?:inline\s+)?(?:typedef\s+)?"
                            r"(?:namespace|class|struct|union|enum|extern)\b", re.S)
INITIALISER = re.compile(r"[)\w]\s*:(?!:).*[\w>]$", re.S)
NAME = re.compile(r"(operator\s*(?:\(\)|[^\s(]+)|[~\w:<>]+)\s*\(")


def _opens_function(head):
    """Does `{` after this text begin a function's body?"""
    head = head.strip()
    if "(" not in head or NOT_A_FUNCTION.match(head):
        return False
    return not head.endswith(("=", ",", "(", "return"))


def _match(code, start):
    """Index after the brace that closes the one at `start`."""
    depth = 0
    for i in range(start, len(code)):
        if code[i] == "{":
            depth += 1
        elif code[i] == "}":
            depth -= 1
            if depth == 0:
                return i + 1
    return len(code)


def function_lengths(source):
    """(name, first line, lines) of each function, from the line of its name to its last brace."""
    code, found = source.code, []
    head_start = i = 0
    while i < len(code):
        c = code[i]
        if c in ";}":
            head_start = i + 1
        elif c == "{":
            head = code[head_start:i]
            if "(" in head and head[-1:].strip() and INITIALISER.search(head):
                i = _match(code, i)  # a member's brace initialiser: the function's head continues
                continue
            if _opens_function(head):
                end = _match(code, i)
                name = NAME.search(head)
                first = code.count("\n", 0, head_start + (name.start() if name else 0)) + 1
                found.append((name.group(1) if name else "?", first, code.count("\n", 0, end) + 2 - first))
                head_start = i = end
                continue
            head_start = i + 1
        i += 1
    return found
