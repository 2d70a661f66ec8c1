# SPDX-License-Identifier: BSD-3-Clause
"""The programs' own documentation: every option and counter has a help text, and the man page has the same text.

The tables are checked through their output: --help, --print-options-man, `stats proxy`, man/farcached.1.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, run_binary, tap  # noqa: E402

TOP = os.environ.get("abs_top_srcdir") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("abs_top_builddir", os.getcwd())


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def one_line(text):
    """Joins folded lines."""
    return " ".join(text.split())


def plain(roff):
    """The words of roff, without its escapes."""
    return roff.replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")


def check_none(found, name):
    tap.ok(not found, name, *found[:20])


def terms(roff):
    """{term: help} of the .TP/.B paragraphs."""
    found = {}
    for paragraph in re.split(r"^\.TP\n", roff, flags=re.M)[1:]:
        lines = paragraph.split("\n")
        term = plain(lines[0][3:]) if lines[0].startswith(".B ") else ""
        text = [line for line in lines[1:] if not line.startswith(".S")]
        if term:
            found[term] = " ".join(text).strip()
    return found


def check_options(page):
    status, help_text, _ = run_binary("--help", as_is=True)
    tap.is_(status, 0, "--help ends well")
    help_text = help_text.decode()
    status, options, _ = run_binary("--print-options-man", as_is=True)
    tap.is_(status, 0, "--print-options-man ends well")
    described = terms(options.decode())
    tap.ok(len(described) > 60, "it describes all the options")
    check_none([term for term, text in described.items() if len(text) < 8], "every option has a help text")
    check_none([term for term in described if term not in help_text], "--help lists the man page's options")
    check_none([term for term in re.findall(r"^  (-\S+(?:, --\S+)?|--\S+)", help_text, re.M)
                if not any(known.startswith(term) for known in described)], "and the man page those of --help")
    tap.ok(one_line(options.decode()) in one_line(page), "the man page holds the options that the program prints")
    for flag in re.findall(r"^\| `(-\w)`, `(--[\w-]+)` \|", read(TOP, "README.md"), re.M):
        tap.ok(any(term.startswith(", ".join(flag)) for term in described), "README's %s, %s exist" % flag)


def check_counters(page):
    described = terms(page)
    with Daemon("-m", "16", threads=1) as daemon:
        names = list(daemon.stats("proxy"))
    tap.ok(len(names) > 8, "stats proxy shows our own counters")
    with Daemon("-m", "16", "--node", "a=shm:/nonexistent/a.sock", threads=1) as daemon:
        with_nodes = list(daemon.stats("proxy"))
    names += with_nodes
    check_none([name for name in names if len(described.get(name, "")) < 8], "the man page describes each")
    check_none([name for name in described if re.match(r"^(local|node|close)_\w+$", name) and name not in names],
               "and no other")


def check_tables():
    """The tables themselves: a row without help would print an empty line without an error."""
    found = []
    for path in ("daemon/stats/worker_counters.h", "daemon/stats/own_stats.h", "proxy/local_get.h",
                 "proxy/link_counters.h", "node/service/node_stats.h", "process/reloader.h"):
        # The last string of a row is its help.
        rows = re.findall(r'(?:\bX\(\s*|\{")(\w+)"?,\s*(?:"\w*",\s*)?("(?:[^"\\]|\\.)*")', read(TOP, path))
        tap.ok(rows, "%s has a table" % path)
        found += ["%s: %s" % (path, name) for name, text in rows if len(text) < 10]
    check_none(found, "every counter has a help text")


def check_page(page):
    check_none(re.findall(r"@\w+@", page), "nothing is left to be filled in")
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SIGNALS", "ENVIRONMENT", "EXIT STATUS",
                    "STATISTICS"):
        tap.ok("\n.SH %s\n" % section in page, "it has the section %s" % section)


def check_node():
    """farnode's page, generated like farcached's."""
    binary = os.path.join(BUILD, "farnode")
    page = read(BUILD, "man", "farnode.1")
    check_page(page)
    status, options, _ = run_binary("--print-options-man", as_is=True, binary=binary)
    tap.is_(status, 0, "farnode --print-options-man ends well")
    tap.ok(one_line(options.decode()) in one_line(page), "its man page holds the options that it prints")
    status, help_text, _ = run_binary("--help", as_is=True, binary=binary)
    described = terms(options.decode())
    tap.ok(status == 0 and len(described) > 12, "farnode --help ends well")
    check_none([term for term in described if term not in help_text.decode()], "--help and its man page list the same")
    rows = terms(page)
    check_none([term for term, text in rows.items() if len(text) < 8], "everything in it is described")
    for name in ("curr_items", "cmd_get", "lease_granted", "end_bad_frame", "channel_end_reset", "evictions"):
        tap.ok(name in rows, "it describes %s" % name)


def check_commands(program):
    """The page of a program with commands: one table has commands and options. Returns (page, {term: help})."""
    binary = os.path.join(BUILD, program)
    page = read(BUILD, "man", program + ".1")
    check_none(re.findall(r"@\w+@", page), "nothing is left to be filled in in %s's page" % program)
    status, printed, _ = run_binary("--print-man", as_is=True, binary=binary)
    tap.ok(status == 0 and one_line(printed.decode()) in one_line(page), "it has the output of %s" % program)
    status, help_text, _ = run_binary("--help", as_is=True, binary=binary)
    described = terms(printed.decode())
    tap.ok(status == 0 and len(described) > 12, "%s --help ends well" % program)
    check_none([term for term in described if term not in help_text.decode()], "--help and its man page list the same")
    check_none([term for term, text in described.items() if len(text) < 8], "everything in it is described")
    return page, described


def check_ctl():
    page, described = check_commands("farctl")
    for command in [term.split(" ")[0] for term in described if not term.startswith("-")]:
        named = command.replace("-", r"\\-")
        tap.ok(re.search(r"^\.SH JSON.*^\.BR? .*\b%s\b" % named, page, re.M | re.S), "its JSON is: " + command)


def check_samples():
    for program in ("farcached", "farnode"):
        status, sample, _ = run_binary("--print-config-sample", as_is=True, binary=os.path.join(BUILD, program))
        tap.ok(status == 0 and sample.decode() == read(TOP, "conf", program + ".toml"),
               "conf/%s.toml is the output of %s --print-config-sample" % (program, program))


def main():
    check_node()
    check_samples()
    check_ctl()
    check_commands("farbench")
    page = read(BUILD, "man", "farcached.1")
    check_page(page)
    check_options(page)
    check_counters(page)
    check_tables()
    tap.done()


main()
