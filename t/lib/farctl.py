# SPDX-License-Identifier: BSD-3-Clause
"""farctl under test: running it to its end, and a folder of sockets for it to be pointed at.

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
    """The JSON that it prints, and that all went well."""
    status, out, err = farctl("--json", *args)
    if status != 0 or err:
        raise AssertionError("%s: status %d: %s" % (" ".join(args), status, err))
    return json.loads(out)


def refused(args, sentence, name, status=1):
    got, _, err = farctl(*args)
    tap.is_((got, err), (status, "farctl: %s\n" % sentence), name)
