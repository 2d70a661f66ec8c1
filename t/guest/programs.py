# SPDX-License-Identifier: BSD-3-Clause
"""The unit programs that use a device, and a check for leftover resources. Runs in a guest."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from suite import relay  # noqa: E402
from farcached import deadline  # noqa: E402
from device_tools import resources  # noqa: E402
from tap_output import tap  # noqa: E402

PROGRAMS = ("unit/fabric/verbs_device", "unit/fabric/verbs_containers", "unit/fabric/verbs_rpc", "unit/fabric/verbs_rpc_lies",
            "unit/fabric/verbs_rights", "unit/fabric/channel")


def main():
    before = resources()
    for program in PROGRAMS:
        done = subprocess.run([os.path.join(os.environ["abs_top_builddir"], "t", program)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=deadline() * 5)
        count = relay(program, program, done.stdout.decode("latin-1"))
        tap.ok(count > 0 and done.returncode == 0, "%s ran to its end" % program,
               "exit status %d" % done.returncode, done.stdout[-300:])
        tap.is_(resources(), before, "%s leaves no queue pair and no memory registered" % program)
    tap.done()


main()
