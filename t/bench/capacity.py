# SPDX-License-Identifier: BSD-3-Clause
"""farbench capacity: a whole run with its files and chart, a device file of one's own, and refused arguments."""
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import deadline, default_binary, tap  # noqa: E402

FLEET = ["--proxies", 50, "--workers", 4, "--nodes", 20, "--memory", "64g", "--mix", "95:5", "--value-bytes", 100,
         "--one-sided-share", 0.97]


def farbench(*args):
    program = os.path.join(os.path.dirname(os.path.abspath(default_binary())), "farbench")
    done = subprocess.run([program, "capacity"] + [str(a) for a in args], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=8 * deadline() + 60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def load(path):
    with open(path) as file:
        return json.load(file)


def check_run(folder):
    path, out_folder = os.path.join(folder, "capacity.json"), os.path.join(folder, "csv")
    status, out, err = farbench(*FLEET, "--device", "cx5", "--json", path, "--csv", out_folder)
    tap.ok(status == 0 and not err, "it runs to its end", status, *(out + err).split("\n"))
    found = load(path)
    tap.is_((found["node"]["queue_pairs"], found["proxy"]["queue_pairs"]), (200, 80), "queue pairs")
    tap.ok(64 < found["node"]["locked_bytes"] / 2 ** 30 < 90, "locked memory", found["node"])
    tap.ok(found["node"]["translations"] > 2 ** 24, "translations of 4 KiB each")
    tap.is_([mode["rpc"] for mode in found["modes"]], ["send", "write", "rfp"], "a row for each way of RPC")
    for mode in found["modes"]:
        whole = mode["get_per_s"] + mode["set_per_s"]
        low, high = mode["requests_per_s_low"], mode["requests_per_s_high"]
        tap.ok(low <= whole * 1.0001 and whole <= high * 1.0001, "%s is within its range" % mode["rpc"], mode)
        tap.ok(abs(mode["get_per_s"] / mode["set_per_s"] - 19) < 1e-6, "in the mix")
        tap.is_(mode["bottleneck"], mode["stations"][0]["name"], "the bottleneck is the first station")
    sentences = [one for one in found["advice"] if re.match(r"[A-Z].*\.$", one)]
    tap.ok(sentences and sentences == found["advice"], "advice in sentences", *found["advice"])
    tap.ok(all(one in out for one in found["advice"]), "which the text has, too")
    with open(os.path.join(out_folder, "points.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    tap.is_([(int(row["proxies"]), row["rpc"]) for row in rows], [(one["proxies"], one["rpc"]) for one in found["sweep"]],
            "a row for each number of proxies and way")
    tap.is_((int(rows[0]["proxies"]), int(rows[-1]["proxies"])), (1, 100), "from one to twice as many")
    tap.is_(sorted(os.listdir(out_folder)), ["points.csv", "throughput.svg"], "and a chart")
    status, again, _ = farbench(*FLEET, "--device", "cx5")
    tap.is_(again, out, "the same numbers again")


def check_own_device(folder):
    status, text, err = farbench("--print-device", "cx5")
    tap.ok(status == 0 and "source = " in text, "the file of a device is printed", status, err)
    path, results = os.path.join(folder, "mine.toml"), os.path.join(folder, "mine.json")
    with open(path, "w") as file:
        file.write(text.replace("[qpc_entries]\nvalue = 2048", "[qpc_entries]\nvalue = 50"))
    status, out, err = farbench(*FLEET, "--device", path, "--rpc", "rfp", "--json", results)
    tap.ok(status == 0, "a device of one's own", status, *(out + err).split("\n"))
    found = load(results)
    tap.ok(found["node"]["hits"]["qpc"] < 0.4, "its cache of contexts is smaller", found["node"])
    tap.is_([mode["rpc"] for mode in found["modes"]], ["rfp"], "for one way of RPC")
    with open(path, "a") as file:
        file.write("[colour]\nvalue = 1\n")
    status, out, err = farbench("--device", path)
    tap.ok(status == 64 and re.search(r"mine\.toml:\d+:1: unknown key colour", err) and not out, "an unknown key", status, err)


def check_refusals():
    for arguments, wanted in [
            (["--device", "cx9"], "--device cx9: it is none of cx3, cx5 and cx7, and as a file it cannot be opened: No such file"),
            (["--device", "/"], "as a file it cannot be opened: Is a directory"),
            (["--print-device", "cx9"], "--print-device cx9 is none of cx3, cx5 and cx7"),
            (["--memory", "64"], "is no size, as in 512m or 64g"),
            (["--proxies", "0"], "--proxies 0 is too small"),
            (["fleet"], '"fleet" is not an option')]:
        status, out, err = farbench(*arguments)
        tap.ok(status == 64 and wanted in err and not out, "refused: %s" % " ".join(arguments), status, err)


def main():
    folder = tempfile.mkdtemp(prefix="farcached-capacity-")
    try:
        check_run(folder)
        check_own_device(folder)
        check_refusals()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tap.done()


main()
