# SPDX-License-Identifier: BSD-3-Clause
"""Checks docs/ against the sources. Each message in docs/troubleshooting.md is printed by a program, and each printed message is on
that page. Each number in docs/capacity.md that is a constant has the constant's value.

In a message <such> stands for variable text. The text between must occur unchanged in string literals of the sources. Each literal
that is a message must occur, without its format specifiers, in a message of the page.
"""
import glob
import os
import re
import shlex
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cxx_source import RAW_STRING, TOKEN, source_tree  # noqa: E402
from farcached import Daemon, default_binary, run_binary, tap  # noqa: E402

BUILD = os.environ.get("abs_top_builddir", os.getcwd())
TOP = os.environ.get("abs_top_srcdir") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("base", "bench", "conf", "ctl", "daemon", "fabric", "node", "process", "protocol", "proxy")

# Literals of these files are no messages to an operator: help texts, names of statistics, metrics, pages and tables, replies to
# clients (farcached-protocol(7) has those that are not memcached's), and reasons that are counted and not logged.
NO_MESSAGES = set("""
bench/buffer/buffer_report.cc bench/hitratio/lru.cc bench/hitratio/hitratio_report.cc bench/prefetch_window.cc
bench/reports/result.cc
bench/transport/rpc_report.cc bench/transport/transport_report.cc base/broken.h base/limits.h base/metrics_text.cc
base/nearest.cc base/policy_kind.h
conf/completion.cc conf/config_text.cc conf/help.cc conf/addresses.h conf/option.cc
ctl/command_line.cc ctl/command_line.h ctl/doctor.cc ctl/machine.cc ctl/plan_text.cc ctl/server.h ctl/format.cc
ctl/members.cc ctl/show.cc ctl/slow_log.cc ctl/top.cc ctl/top.h
daemon/farcached/admin.cc daemon/stats/dump.cc daemon/commands/binary_engine.cc daemon/commands/binary_store.cc
daemon/commands/meta_engine.cc daemon/commands/text_admin.cc daemon/commands/text_auth.cc
daemon/commands/text_store.cc daemon/farcached/http_pages.cc
daemon/stats/latency.cc daemon/stats/latency.h daemon/stats/metrics.cc daemon/stats/own_stats.h
daemon/stats/worker_counters.h daemon/stats/stats.cc
daemon/engine/engine.cc daemon/discovery/shown.h daemon/farcached/tune.cc daemon/stats/watch_hub.h daemon/stats/watch_hub.cc
daemon/session/datagrams.cc daemon/session/room_keeper.cc daemon/session/session_output.cc daemon/session/sessions.cc
daemon/session/worker.cc
fabric/channel.h fabric/fault_channel.cc
daemon/farnode/admin.cc daemon/farnode/http_pages.cc daemon/http/history.cc daemon/http/shared_pages.cc
node/disk/disk_statistics.h node/peer/peer_statistics.h node/service/node_metrics.cc node/service/node_stats.cc
node/service/node_stats.h node/service/service_counters.h node/service/serving_right.h node/service/proxy_book.h
daemon/stats/members_shown.h
base/stat_row.h process/http_listener.cc process/http_listener.h process/reloader.h process/supervisor.h
protocol/binary.cc protocol/frame_reply.h protocol/meta.cc protocol/op.h protocol/source_reply.cc protocol/text.cc protocol/text.h
proxy/ask.h proxy/link_counters.h proxy/local_get.h proxy/onesided_share.h
""".split())
# In these files only literals at the end of a line count.
LINES_ONLY = {"conf/disk_options.h", "conf/kinds.h", "conf/node_option_table.cc", "conf/option_table.cc",
              "conf/proxy_option_table.cc"}
# bench/ has help texts and results, too. Only literals that are thrown, recorded as failures, printed on stderr or part of an
# option's error count.
BENCH_SAYS = re.compile(r'(?:throw |\bfail\(|fprintf\(stderr|\.note\(|return (?=")|std::string text = )'
                        r'(?:"(?:[^"\\]|\\.)*"|[^";])*;')
# Beginnings and parts of literals that are no messages either: help texts beside messages, names of threads, of work requests and
# of events in a crash report, failures that only our own bugs cause, farbench's name, and progress.
NOT_SHOWN = (
    "1 to 63 letters, digits", "name in messages and statistics", "shm:PATH, ", "a whole number from", "its share of the keys",
    "HOST:PORT, up to", "hashed as this instead", "nutcracker, which keeps", "eviction policy", "a table [[",
    "]] for each", "VERSION farnode", "as memcached", "the thread that accepts", "connected to node", "no connection to node",
    "opened connection", "turn of connection", "ended connection", "of proxies", "rip=unix", "post_read over tcp",
    "SEND of credits", "empty WRITE", "work request", "parse_frame lets no such", "no error", "a node without a point",
    "farbench load", "farbench floor", "M operations per CPU second", "bytes, trial", "freeing memory", "of the pages", "all items",
    "disk writer", "disk reader", "looks the nodes up",
    "Content-Type:", "invalid auth token", "user name is empty", "revision of auth store", "revision in header",
)
PAGE_BYTES, STRIDE_BYTES, HEADER_BYTES = 65536, 16, 40
NODE_KEYS = {"name", "hash_as", "weight", "address"}
MEMCACHED_COUNTERS = {"listen_disabled_num", "rejected_connections"}


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as file:
        return file.read()


def unescaped(text):
    return text.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\").replace("\\r", "\r")


def literals(text):
    """The string literals; adjacent ones are joined."""
    text = RAW_STRING.sub('""', text)
    found, end = [], None
    for match in TOKEN.finditer(text):
        if not match.group(0).startswith('"'):
            continue
        words = unescaped(match.group(0)[1:-1])
        if end is not None and not text[end:match.start()].strip(" \n\\"):
            found[-1] += words
        else:
            found.append(words)
        end = match.end()
    return found


def messages_in(path, text):
    """The literals that are sentences, or parts of one."""
    text = re.sub(r"static_assert\([^;]*;", "", text)
    if path.startswith("bench/"):
        text = " ".join(BENCH_SAYS.findall(text))
    found = [words for words in literals(text) if re.search(r"[A-Za-z].* .*[A-Za-z]", words)]
    return [words for words in found if words.endswith("\n")] if path in LINES_ONLY else found


def sources():
    """{"base/check.cc": its text}"""
    return {path: read(path) for folder in FOLDERS for path in sorted(
        os.path.join(folder, name) for name in source_tree(os.path.join(TOP, folder)) if name.endswith((".cc", ".h")))}


def described_messages(page):
    """The messages at the beginning of the page's items, up to the first colon outside of one."""
    found = []
    for point in re.findall(r"^\* (.*?)(?=^\* |^$|^#|\Z)", page, re.M | re.S):
        rest = " ".join(point.split())
        while True:
            match = re.match(r"(?:, | and |; )?(`+)(.+?)\1", rest)
            if not match:
                break
            found.append(match.group(2))
            rest = rest[match.end():]
    return found


def fixed_parts(message):
    """The fixed parts of a message, if they are long enough to identify it."""
    parts = [part.strip() for part in re.split(r"<[a-z' ]+>|\s*\n\s*", message)]
    return [part for part in parts if len(part) >= 4 and re.search("[A-Za-z]{2}", part)]


def pieces(words):
    """The fixed parts of a literal."""
    parts = re.split(r"%[-.*0-9]*(?:l{0,2}[dux]|z[du]|[sdufcx])|\{\}|\n", words)
    return [part.strip(" ;,:.'\"()`") for part in parts if re.search(r"[A-Za-z].* .*[A-Za-z]", part)]


def check_messages_exist(page, texts):
    known = {path: " \0 ".join(" ".join(words.split()) for words in literals(text)) for path, text in texts.items()}
    everything = " \0 ".join(known.values())
    described = described_messages(page)
    tap.ok(len(described) > 200, "there are messages on the page", len(described))
    missing = []
    for message in described:
        parts = fixed_parts(message)
        if not parts or not all(part in everything for part in parts):
            missing.append(message + ": " + str([part for part in parts if part not in everything]))
    tap.ok(not missing, "each message of docs/troubleshooting.md is in the sources", *missing)


def check_messages_described(page, texts):
    shown = " \0 ".join(" ".join(message.split()) for message in described_messages(page))
    missing = []
    for path, text in texts.items():
        if path in NO_MESSAGES:
            continue
        for words in messages_in(path, text):
            missing += ["%s: %s" % (path, piece) for piece in pieces(words)
                        if " ".join(piece.split()) not in shown and not piece.startswith(NOT_SHOWN)]
    tap.ok(not missing, "docs/troubleshooting.md has each message that the sources have", *missing)


def check_counters(page):
    """The first column of the page's table of counters."""
    described = set(MEMCACHED_COUNTERS)
    for name in ("farcached.1", "farnode.1"):
        with open(os.path.join(BUILD, "man", name), encoding="utf-8") as file:
            described |= set(re.findall(r"^\.B (\w+)$", file.read(), re.M))
    shown = [name for cell in re.findall(r"^\| (`\w+`[^|]*)\|", page, re.M) for name in re.findall(r"`(\w+)`", cell)]
    tap.ok(len(shown) > 40, "there are counters on the page")
    tap.is_(sorted(set(shown) - described), [], "each counter of docs/troubleshooting.md is in a man page")
    named = set(re.findall(r"`((?:down|channel_end|frame|refusal|lease_denied|read_invalid|close)_\w+)`", page))
    tap.is_(sorted(named - described), [], "and so is each that it names elsewhere")


def check_protocol_errors(texts):
    """The terms of the section ERRORS of farcached-protocol(7)."""
    errors = read("man", "farcached-protocol.7.in").split(".SH ERRORS")[1].split(".SH ")[0]
    terms = re.findall(r'^\.B[I]? "?(\w+_ERROR [^"\n]*|ERROR [^"\n]*)', errors, re.M)
    everything = " \0 ".join(words for text in texts.values() for words in literals(text))
    tap.ok(len(terms) > 12, "there are errors in farcached-protocol(7)")
    tap.is_([term for term in terms if term.strip() not in everything], [], "each of them is in the sources")


def check_constants(page):
    """`code` in FILE."""
    constants = re.findall(r"`([^`]+)` in ((?:[a-z]+/)+\w+\.(?:h|cc))", page)
    tap.ok(len(constants) > 15, "there are constants in docs/capacity.md")
    tap.is_([code for code, path in constants if code not in read(*path.split("/"))], [], "each of them is in its file")


def command_pages():
    """The names and texts of the pages with commands."""
    paths = sorted(glob.glob(os.path.join(TOP, "docs", "*.md"))) + [os.path.join(TOP, "README.md")]
    return [(os.path.basename(path), read(path)) for path in paths]


def beside_farcached(program):
    return os.path.join(os.path.dirname(default_binary()), program)


def check_options():
    """In a command on a page, each option is one of its program's."""
    helps = {}
    for program in ("farcached", "farnode", "farctl", "farbench"):
        helps[program] = run_binary("--help", as_is=True, binary=beside_farcached(program))[1].decode()
    commands = []
    for _, page in command_pages():
        text = re.sub(r"\$\([^)]*\)", "NUMBER", page)
        for program, words in re.findall(r"^ *(?:`|\$ )?(far\w+)((?: [^`#\n&|;]*)?)", text, re.M):
            commands += [(program, option) for option in re.findall(r" (--?[a-z][\w-]*)", words) if program in helps]
    tap.ok(len(commands) > 20, "there are commands in the pages")
    unknown = {"%s %s" % (program, option) for program, option in commands
               if not re.search(r"(?<![\w-])%s(?![\w-])" % re.escape(option), helps[program])}
    tap.is_(sorted(unknown), [], "each option that they use is in its program's --help")


def check_commands_start():
    """A command of a page that stands alone in its line starts: its program accepts the options together. Files are not read."""
    refused, count = [], 0
    for name, page in command_pages():
        text = page.replace("\\\n", " ")
        for line in re.findall(r"(?m)^    ((?:farcached|farnode) +-.*)$", text):
            words = shlex.split(re.sub(r" +&$", "", line), comments=True)
            if any(word.startswith(("--check", "--print", "--help", "--version")) for word in words):
                continue
            status, _, errors = run_binary(*words[1:], "--print-config", as_is=True, binary=beside_farcached(words[0]))
            count += 1
            if status != 0:
                refused.append("%s: %s: %s" % (name, line, errors.decode().strip()))
    tap.ok(count > 30, "there are commands of farcached and farnode in the pages", count)
    tap.is_(refused, [], "each of them is accepted")


def check_links():
    """README.md names every page of docs/, each one is distributed, and every named page exists."""
    pages = sorted("docs/" + name for name in os.listdir(os.path.join(TOP, "docs")) if name.endswith(".md"))
    makefile, readme = read("Makefile.am"), read("README.md")
    tap.is_([page for page in pages if page not in makefile], [], "each page of docs/ is distributed")
    tap.is_([page for page in pages if page not in readme], [], "README.md names each")
    for source in pages + ["README.md", "ARCHITECTURE.md", "HACKING.md"]:
        named = re.findall(r"\b(docs/\w+\.md)", read(*source.split("/")))
        tap.is_([page for page in named if page not in pages], [], source + " names pages that there are")


def slots_of(client):
    """The slot sizes: each is the largest item of its class."""
    def class_of(item_bytes):
        client.set("k", "x" * (item_bytes - HEADER_BYTES - 1))
        return re.search(r" cls=(\d+) ", client.ask("me k")).group(1)

    found, low = [], 64
    while low <= PAGE_BYTES:
        here, good, bad = class_of(low), low, PAGE_BYTES + STRIDE_BYTES
        while bad - good > STRIDE_BYTES:
            middle = (good + bad) // 2 // STRIDE_BYTES * STRIDE_BYTES
            good, bad = (middle, bad) if class_of(middle) == here else (good, middle)
        found.append(good)
        low = good + STRIDE_BYTES
    return found


def check_slots(page):
    """The list of slots, and the numbers derived from it in the table of values."""
    listed = [int(word) for word in re.search(r"^    (\d\d [\d ]+(?:\n    [\d ]+)*)$", page, re.M).group(1).split()]
    with Daemon("-m", "64", threads=1) as daemon, daemon.client() as client:
        tap.is_(listed, slots_of(client), "docs/capacity.md lists the slots that there are")
    rows = re.findall(r"^\| (\d+) (B|KiB) \| (\d+) \| ([\d.]+) (million|thousand) \|", page, re.M)
    tap.ok(len(rows) > 8, "it has a table of values")
    for number, unit, slot, shown, scale in rows:
        item = int(number) * (1024 if unit == "KiB" else 1) + HEADER_BYTES + 17
        fits = min((size for size in listed if size >= item), default=0)
        items = PAGE_BYTES // fits * (2 ** 30 // PAGE_BYTES)
        wanted = items / (1e6 if scale == "million" else 1e3)
        tap.ok(int(slot) == fits and abs(float(shown) - wanted) < 0.06 * max(1, wanted / 100) + 0.5 * (scale == "thousand"),
               "values of %s %s" % (number, unit), "slot %d, %.2f %s" % (fits, wanted, scale))


def check_settings(page):
    """The programs accept the settings that docs/moving.md recommends."""
    lines = re.findall(r"`(\w[\w-]* = [^`]+)`", page)
    tap.ok(len(lines) > 6, "there are settings in docs/moving.md")
    with tempfile.TemporaryDirectory(prefix="farcached-pages-") as folder:
        path = os.path.join(folder, "far.toml")
        for line in lines:
            key, value = line.split(" = ", 1)
            top, node = {}, {"name": '"x"', "address": '"tcp:127.0.0.1:1"'}
            (node if key in NODE_KEYS else top)[key] = value
            with open(path, "w", encoding="utf-8") as file:
                file.writelines("%s = %s\n" % pair for pair in top.items())
                file.write("[[node]]\n")
                file.writelines("%s = %s\n" % pair for pair in node.items())
            status, _, errors = run_binary("--check-config", path)
            tap.is_((status, errors), (0, b""), "docs/moving.md: " + line)


def main():
    texts = sources()
    page = read("docs", "troubleshooting.md")
    check_messages_exist(page, texts)
    check_messages_described(page, texts)
    check_counters(page)
    check_protocol_errors(texts)
    check_constants(read("docs", "capacity.md"))
    check_slots(read("docs", "capacity.md"))
    check_settings(read("docs", "moving.md"))
    check_options()
    check_commands_start()
    check_links()
    tap.done()


main()
