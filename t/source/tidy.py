# SPDX-License-Identifier: BSD-3-Clause
"""Style as a test: rules of ARCHITECTURE.md and HACKING.md for the sources, checked without a compiler.

An exception may shrink (then its line below must go) but not grow. A new one needs a comment with its reason.
"""
import ast
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cxx_source import Source, function_lengths, source_tree  # noqa: E402
from tap_output import tap  # noqa: E402

TOP = os.environ.get("abs_top_srcdir") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

NODE = {"node/disk", "node/memory", "node/peer", "node/policy", "node/items", "node/keys", "node/store", "node/service"}
BELOW_DAEMON = {"base", "protocol", "fabric", "proxy", "conf", "process"} | NODE
DAEMON = {"daemon/discovery", "daemon/http", "daemon/stats", "daemon/engine", "daemon/steps", "daemon/commands",
          "daemon/remote", "daemon/session"}
# Allowed includes: each folder may include from these.
ARROWS = {
    "base": {"base"},
    "protocol": {"base", "protocol"},
    "fabric": {"base", "protocol", "fabric"},
    "node/disk": {"base", "protocol", "node/disk"},
    "node/memory": {"base", "protocol", "fabric", "node/memory"},
    "node/policy": {"base", "protocol", "node/memory", "node/policy"},
    "node/peer": {"base", "protocol", "fabric", "node/disk", "node/peer"},
    "node/items": {"base", "protocol", "fabric", "node/disk", "node/memory", "node/policy", "node/items"},
    "node/keys": {"base", "protocol", "node/disk", "node/keys"},
    "node/store": {"base", "protocol", "fabric", "node/disk", "node/memory", "node/peer", "node/policy", "node/items", "node/keys",
                   "node/store"},
    "node/service": {"base", "protocol", "fabric", "node/store", "node/service"},
    "proxy": {"base", "protocol", "fabric", "proxy"},
    "conf": {"base", "conf"},
    "process": {"base", "conf", "process"},
    "daemon/discovery": {"base", "protocol", "conf", "process", "daemon/discovery"},
    "daemon/http": {"base", "conf", "process", "daemon/http"} | NODE,
    "daemon/stats": BELOW_DAEMON | {"daemon/discovery", "daemon/http", "daemon/stats"},
    "daemon/engine": BELOW_DAEMON | {"daemon/stats", "daemon/remote", "daemon/engine"},
    "daemon/remote": BELOW_DAEMON | {"daemon/stats", "daemon/remote"},
    "daemon/steps": BELOW_DAEMON | {"daemon/stats", "daemon/remote", "daemon/engine", "daemon/steps"},
    "daemon/commands": BELOW_DAEMON | {"daemon/stats", "daemon/remote", "daemon/engine", "daemon/steps", "daemon/commands"},
    "daemon/session": BELOW_DAEMON | {"daemon/stats", "daemon/engine", "daemon/steps", "daemon/commands", "daemon/remote",
                                      "daemon/session"},
    "daemon/farcached": BELOW_DAEMON | DAEMON | {"daemon/farcached"},
    "daemon/farnode": {"base", "protocol", "fabric", "conf", "process", "proxy", "daemon/discovery", "daemon/http",
                       "daemon/remote", "daemon/farnode"} | NODE,
    "ctl": {"base", "protocol", "conf", "ctl"},
    "bench": {"base", "protocol", "fabric", "proxy", "conf", "bench"} | NODE,
    "man": {"base", "protocol", "fabric", "proxy", "process", "daemon/discovery", "daemon/http", "daemon/stats"} | NODE,
    "t": BELOW_DAEMON | DAEMON | {"daemon/farcached", "daemon/farnode", "ctl", "bench", "t"},
}
# Single headers beyond these, with the reason.
MAY_INCLUDE = {
    ("ctl", "proxy/placement.h"),  # `route --plan` must place keys as farcached does; it is pure
    ("ctl", "proxy/pointer_table_layout.h"),  # `doctor` compares /dev/shm with the table's size; it is constants
}

# Header of the standard library -> names that need it.
STANDARD_NAMES = {
    "algorithm": "min max clamp sort stable_sort find_if any_of all_of none_of fill copy copy_if lower_bound upper_bound",
    "array": "array", "atomic": "atomic atomic_ref memory_order_relaxed memory_order_acquire memory_order_release",
    "bit": "bit_ceil bit_cast popcount has_single_bit countr_zero bit_width", "bitset": "bitset", "cctype": "tolower toupper",
    "charconv": "from_chars to_chars", "chrono": "chrono", "cmath": "log2 pow sqrt", "condition_variable": "condition_variable",
    "cstdio": "printf fprintf snprintf", "cstdlib": "strtoull getenv exit abort", "cstring": "memcpy memcmp memset strerror",
    "deque": "deque", "exception": "exception", "filesystem": "filesystem", "fstream": "ifstream ofstream",
    "functional": "function", "initializer_list": "initializer_list", "iterator": "back_inserter inserter",
    "limits": "numeric_limits", "list": "list", "map": "map multimap",
    "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared", "mutex": "mutex lock_guard unique_lock",
    "new": "bad_alloc nothrow", "numeric": "accumulate iota", "optional": "optional nullopt", "queue": "queue priority_queue",
    "random": "mt19937 mt19937_64", "regex": "regex", "set": "set multiset", "span": "span",
    "sstream": "ostringstream istringstream", "stdexcept": "runtime_error", "string": "string to_string",
    "string_view": "string_view", "system_error": "error_code system_error", "thread": "thread this_thread",
    "tuple": "tuple tie", "type_traits": "is_same_v decay_t conditional_t", "unordered_map": "unordered_map",
    "unordered_set": "unordered_set", "utility": "move exchange pair swap forward",
    "variant": "variant visit get_if holds_alternative", "vector": "vector",
}


def folder_of(path):
    """The sub-folder, if it has an entry in ARROWS, else the folder."""
    room = "/".join(path.split("/")[:2])
    return room if room in ARROWS else path.split("/")[0]


# System headers that only some folders may use.
SOCKETS = re.compile(r"^(sys/socket|sys/un|netinet/.*|arpa/.*|netdb|poll|sys/epoll)(\.h)?$")
CLOCKS = re.compile(r"^(chrono|ctime|time\.h|sys/time\.h)$")
EVENTS = re.compile(r"^(event|event2/.*)(\.h)?$")
FORBIDDEN = [
    ("base", SOCKETS), ("protocol", SOCKETS), ("protocol", CLOCKS), ("node", SOCKETS), ("proxy", SOCKETS),
    ("base", EVENTS), ("protocol", EVENTS), ("fabric", EVENTS), ("node", EVENTS), ("proxy", EVENTS),
    ("conf", EVENTS),
]

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
PRODUCT = {"base", "protocol", "fabric", "node", "proxy", "conf", "process", "daemon"}
FOLDER_FILES_MAX = 42
COLUMNS_MAX = 132  # clang-format says 100; a table or a string may run over it, not away from it

# "path: function" -> lines it has. Only shrinks.
LONG_FUNCTIONS = {}
# path -> lines it has. Only shrinks.
LONG_FILES = {}

CXX = (".h", ".cc")
GENERATED = {"configure", "configure~", "aclocal.m4", "Makefile.in"}


def is_ours(path):
    """A source file of ours, and not a product of a build in the source tree."""
    top = path.split("/")[0]
    return (path.endswith(CXX + (".py", ".sh", ".mk", ".ac", ".am", ".go", ".mjs", ".js", ".php", ".rb"))
            or top in ("contrib", ".ci")) and not path.endswith((".o", ".Po", ".log", ".trs", ".json"))  # JSON has no comments


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return file.read()


def report(found, name):
    tap.ok(not found, name, *found[:40])


def check_spdx(texts):
    found = [path for path, text in texts.items()
             if "SPDX-License-Identifier: BSD-3-Clause" not in "\n".join(text.split("\n")[:2])]
    report(found, "every file has its licence in its first lines")


def check_arrows(sources):
    found = []
    for path, source in sources.items():
        folder = folder_of(path)
        for line, name in source.quoted_includes:
            target = folder_of(name)
            if "/" not in name or not os.path.exists(os.path.join(TOP, name)):
                found.append("%s:%d: \"%s\" is not a path from the root" % (path, line, name))
            elif target not in ARROWS.get(folder, set()) and (folder, name) not in MAY_INCLUDE:
                found.append("%s:%d: %s must not include %s" % (path, line, folder, name))
    report(found, "no include goes against the arrows")


def check_forbidden(sources):
    found = []
    for path, source in sources.items():
        for line, name in source.system_includes:
            for folder, pattern in FORBIDDEN:
                if path.startswith(folder + "/") and pattern.match(name):
                    found.append("%s:%d: <%s> has no place in %s/" % (path, line, name, folder))
    report(found, "protocol/ has no sockets and no clock; only the daemons use libevent")


def cycles(edges):
    """The cycles of {name: [names]}, each as one line."""
    done, found = set(), []

    def visit(path, trail):
        if path in trail:
            found.append(" -> ".join(trail[trail.index(path):] + [path]))
            return
        if path in done:
            return
        for name in edges.get(path, ()):
            visit(name, trail + [path])
        done.add(path)

    for path in edges:
        visit(path, [])
    return found


def check_cycles(texts, sources):
    report(cycles({path: [name for _, name in source.quoted_includes] for path, source in sources.items()}),
           "no header includes itself, directly or indirectly")
    modules = {os.path.basename(path)[:-3]: python_imports(path, text) for path, text in texts.items()
               if path.startswith("t/lib/") and path.endswith(".py")}
    report(cycles(modules), "no module of t/lib imports itself, directly or indirectly")


def python_imports(path, text):
    """The modules that a file imports, also inside of functions."""
    nodes = list(ast.walk(ast.parse(text, path)))
    return [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names] + [
        node.module for node in nodes if isinstance(node, ast.ImportFrom)]


def check_standard_headers(sources):
    """A header may arrive through others, but not with each compiler, nor without precompiled ones (contrib/check)."""
    header_of = {name: header for header, names in STANDARD_NAMES.items() for name in names.split()}
    known = {}

    def brings(path):
        if path not in known:
            known[path] = set()  # for a circle
            source = sources.get(path)
            if source is not None:
                known[path] = {name for _, name in source.system_includes}.union(*(brings(q) for _, q in source.quoted_includes))
        return known[path]

    found = []
    for path, source in sources.items():
        used = {header_of[name] for name in re.findall(r"\bstd::(?:ranges::)?(\w+)", source.code) if name in header_of}
        if re.search(r"\bu?int(8|16|32|64)_t\b", source.code) and "stdint.h" not in brings(path):
            used.add("cstdint")
        found += ["%s: %s" % (path, header) for header in sorted(used - brings(path))]
    report(found, "files that use names of the standard library include their headers, themselves or by headers of the project")


def check_own_header_first(sources):
    found = []
    for path, source in sources.items():
        own = path[:-3] + ".h"
        if path.endswith(".cc") and own in sources and source.first_include != own:
            found.append("%s: its first include is %s" % (path, source.first_include))
    report(found, "a source file includes its own header first")


def check_pragma_once(sources):
    report([path for path, source in sources.items() if path.endswith(".h") and "#pragma once" not in source.text],
           "every header has #pragma once")


def python_functions(path, text):
    for node in ast.walk(ast.parse(text, path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def check_functions(texts, sources):
    lengths = {}
    for path, text in texts.items():
        functions = function_lengths(sources[path]) if path in sources else (
            python_functions(path, text) if path.endswith(".py") else ())
        for name, line, lines in functions:
            if lines > FUNCTION_LINES_MAX:
                lengths["%s: %s" % (path, name)] = (line, lines)
    found = ["%s (line %d) has %d lines" % (name, line, lines) for name, (line, lines) in lengths.items()
             if lines > LONG_FUNCTIONS.get(name, FUNCTION_LINES_MAX)]
    report(found, "no function has over %d lines" % FUNCTION_LINES_MAX)
    report([name for name, lines in LONG_FUNCTIONS.items() if lengths.get(name, (0, 0))[1] < lines],
           "no exception for a function is larger than its need")


def check_file_lengths(texts):
    lengths = {path: text.count("\n") for path, text in texts.items()}
    report(["%s has %d lines" % (path, lines) for path, lines in lengths.items()
            if lines > LONG_FILES.get(path, FILE_LINES_MAX)], "no file has over %d lines" % FILE_LINES_MAX)
    report([path for path, lines in LONG_FILES.items() if lengths.get(path, 0) < lines],
           "no exception for a file is larger than its need")


def check_lines(texts):
    wide, blank, tabs = [], [], []
    for path, text in texts.items():
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > COLUMNS_MAX:
                wide.append("%s:%d: %d columns" % (path, number, len(line)))
            if line != line.rstrip():
                blank.append("%s:%d" % (path, number))
            if "\t" in line and path.endswith(CXX + (".py",)):
                tabs.append("%s:%d" % (path, number))
    report(wide, "no line is wider than %d columns" % COLUMNS_MAX)
    report(blank, "no line ends in blanks")
    report(tabs, "no tabs in C++ and Python")


def check_folders(texts):
    """A folder with more is hard to look through; corpora are data."""
    counts = {}
    for path in texts:
        if path.endswith(CXX + (".py",)):
            folder = os.path.dirname(path)
            counts[folder] = counts.get(folder, 0) + 1
    report(["%s has %d" % (folder, count) for folder, count in counts.items() if count > FOLDER_FILES_MAX],
           "no folder has over %d sources" % FOLDER_FILES_MAX)


def check_classes():
    """The limits are those of contrib/class-sizes: a larger class may hold several mechanisms."""
    done = subprocess.run([sys.executable, os.path.join(TOP, "contrib/class-sizes"), "--check"], capture_output=True, text=True)
    tap.ok(done.returncode == 0, "no class has over 25 fields or 40 functions", done.stdout, done.stderr)


def check_opening_comments(texts):
    """Nothing else shows who may call a type, and in which thread."""
    names = re.compile(r"\bOwners?\b|\b[Oo]wned by\b|[Tt]hread|\b[Pp]ure\b|\b[Cc]onstants?\b")
    openings = {path: re.match(r"(?://.*\n)*", text).group() for path, text in texts.items()
                if path.endswith(".h") and not path.startswith("t/")}
    tap.ok(len(openings) > 10, "headers of the product were found")
    report([path for path, opening in openings.items() if not names.search(opening)],
           "the opening comment of every header names the owner or the threads")


def check_promises(texts):
    word = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    found = ["%s:%d: %s" % (path, number, line.strip()) for path, text in texts.items()
             for number, line in enumerate(text.split("\n"), 1) if word.search(line)]
    report(found, "no comment leaves work for later")


def words_of(variable):
    """The words of a variable in the lists of t/."""
    lists = read("t/local.mk") + read("t/faulty/local.mk") + read("jumbo/local.mk")
    found = re.findall(r"^%s \+?= ((?:.*\\\n)*.*)" % variable, lists, re.M)
    return " ".join(found).replace("\\\n", " ").split()


def check_faulty_build(sources):
    """t/faulty/libfaulty.a has the sources of jumbo_faulty and those that it lists; the rest is of the normal library."""
    folders = [word[len("jumbo/"):-len(".cc")].replace("_", "/") + "/" for word in words_of("jumbo_faulty")]
    listed = words_of("t_faulty_libfaulty_a_SOURCES") + words_of("jumbo_alone")
    found = [path for path, source in sources.items() if path.split("/")[0] in PRODUCT
             and path not in listed and not path.startswith(tuple(folders))
             and "base/broken.h" in [name for _, name in source.quoted_includes]]
    tap.ok(len(folders) > 10, "the sources with broken rules are listed", folders)
    report(found, "sources with broken rules are compiled as such for the faulty programs")


def check_one_thread(sources):
    """Programs in one_thread_programs of t/local.mk, which ThreadSanitizer builds skip, start no thread."""
    starts = re.compile(r"std::(jthread|thread|async)\b(?!::id)|pthread_create|\bfork\(")
    starting = {path for path, source in sources.items() if path.endswith(".h") and starts.search(source.text)}
    found = []
    for path in [name + ".cc" for name in words_of("one_thread_programs")]:
        reached, ahead = set(), [path]
        while ahead:
            one = ahead.pop()
            if one in reached:
                continue
            reached.add(one)
            if one in starting or one == path and starts.search(sources[one].text):
                found.append("%s: %s" % (path, one))
            if one.startswith("t/"):
                ahead += [name for _, name in sources[one].quoted_includes if name in sources]
    report(found, "a program of one thread starts no other")


def check_build_lists(texts):
    """A file that no local.mk names is missing from the tarball, which only make distcheck would notice."""
    lists = "\n".join(text for path, text in texts.items() if path.endswith(("local.mk", "Makefile.am")))
    words = set(re.split(r"[\s\\=]+", lists))

    def named(path):
        parts = path.split("/")
        return any("/".join(parts[:n]) in words for n in range(1, len(parts) + 1))

    found = [path for path in texts if "/" in path and not path.endswith("local.mk") and not named(path)]
    report(found, "every file is named in a local.mk")


def main():
    texts = {path: read(path) for path in source_tree(TOP) if path not in GENERATED and is_ours(path)}
    sources = {path: Source(text) for path, text in texts.items() if path.endswith(CXX)}
    tap.ok(len(sources) > 10, "the sources were found")
    check_spdx(texts)
    check_arrows(sources)
    check_forbidden(sources)
    check_cycles(texts, sources)
    check_standard_headers(sources)
    check_own_header_first(sources)
    check_pragma_once(sources)
    check_functions(texts, sources)
    check_file_lengths(texts)
    check_lines(texts)
    check_folders(texts)
    check_classes()
    check_opening_comments(texts)
    check_promises(texts)
    check_build_lists(texts)
    check_faulty_build(sources)
    check_one_thread(sources)
    tap.done()


main()
