# SPDX-License-Identifier: BSD-3-Clause
"""farctl under test: runs of the program, and a folder for the sockets of its daemons.

    with Daemon("--admin", path_of("p")):
        asked("status", *at("p"))["nodes"]
"""
import json
import os
import tempfile

from farcached import default_binary, run_binary, tap

FARCTL = os.path.join(os.path.dirname(default_binary()), "farctl")
FOLDER = tempfile.mkdtemp(prefix="farctl-")


def path_of(name):
    return os.path.join(FOLDER, name)


def farctl(*args, env=None):
    """(status, stdout, stderr) as int, str, str."""
    status, out, err = run_binary(*args, binary=FARCTL, as_is=True, env={"FARCTL_SOCKET": "", **(env or {})})
    return status, out.decode(), err.decode()


def at(*names):
    return ["--socket=" + path_of(name) for name in names]


def asked(*args):
    """The JSON that it prints, after a check of its exit status and stderr."""
    status, out, err = farctl("--json", *args)
    if status != 0 or err:
        raise AssertionError("%s: status %d: %s" % (" ".join(args), status, err))
    return json.loads(out)


def refused(args, sentence, name, status=1):
    got, _, err = farctl(*args)
    tap.is_((got, err), (status, "farctl: %s\n" % sentence), name)
