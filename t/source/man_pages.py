# SPDX-License-Identifier: BSD-3-Clause
"""The installed man pages: mandoc reports no problem, pages refer only to existing pages, and the daemons' pages describe all their
counters."""
import glob
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster  # noqa: E402
from farcached import tap  # noqa: E402

TOP = os.environ.get("abs_top_srcdir") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("abs_top_builddir", os.getcwd())
FOREIGN = {"memcached (1)", "sd_notify (3)", "sd_listen_fds (3)"}
# Groups with farcached's own names, except those that need an argument.
OWN_GROUPS = ("proxy", "nodes", "leases", "pointers", "latency", "hotkeys", "members", "config", "route key")
NODE_GROUPS = ("general", "leases", "classes", "connections", "proxies", "config")


def built_pages():
    """{"farcached.1": its text} of each page with a source."""
    found = {}
    for source in sorted(glob.glob(os.path.join(TOP, "man", "*.in"))):
        name = os.path.basename(source)[:-len(".in")]
        with open(os.path.join(BUILD, "man", name), encoding="utf-8") as page:
            found[name] = page.read()
    return found


def check_lint(pages):
    if not shutil.which("mandoc"):
        return tap.skip("mandoc -Tlint is silent", "there is no mandoc")
    for name in pages:
        done = subprocess.run(["mandoc", "-Tlint", os.path.join(BUILD, "man", name)], capture_output=True, timeout=60)
        tap.ok(done.returncode == 0 and not done.stdout + done.stderr, "mandoc -Tlint is silent: " + name,
               (done.stdout + done.stderr).decode())
    return None


def check_references(pages):
    known = {"%s (%s)" % tuple(name.rsplit(".", 1)) for name in pages} | FOREIGN
    for name, page in pages.items():
        named = {"%s (%s)" % found for found in re.findall(r'^\.BR ([^ "]+) \((\d)\)', page.replace("\\-", "-"), re.M)}
        tap.is_(sorted(named - known), [], name + " refers to pages that there are")
    listed = {name for name in pages if "man/" + name in makefile_pages()}
    tap.is_(sorted(set(pages) - listed), [], "each is installed")


def makefile_pages():
    with open(os.path.join(TOP, "man", "local.mk"), encoding="utf-8") as file:
        return re.search(r"^man_MANS \+= (.*)$", file.read(), re.M).group(1).split()


def described(page):
    return set(re.findall(r"^\.B (\S+)$", page.replace("\\-", "-").replace("\\&", ""), re.M))


def last_words(stats):
    """Names without their prefixes: n0:get_local and 3:items become get_local and items."""
    return {name.rsplit(":", 1)[-1] for name in stats}


def check_statistics(pages):
    with Cluster("shm", proxies=1, local_read=False) as cluster:
        client = cluster.proxies[0].client()
        for _ in range(300):  # hot keys are sampled
            client.set("key", "value")
            client.get("key")
        for group in OWN_GROUPS:
            names = last_words(client.stats(group))
            tap.ok(names, "stats %s is not empty" % group)
            tap.is_(sorted(names - described(pages["farcached.1"]) - described(pages["farnode.1"])), [],
                    "farcached(1) describes the names of stats %s" % group)
        for group in NODE_GROUPS:
            names = last_words(client.stats("node n0 " + group))
            tap.is_(sorted(names - described(pages["farnode.1"])), [],
                    "farnode(1) describes the names of a node's %s" % group)


def main():
    pages = built_pages()
    tap.ok(len(pages) >= 6, "there are man pages")
    check_lint(pages)
    check_references(pages)
    check_statistics(pages)
    tap.done()


main()
