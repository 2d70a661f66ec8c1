# SPDX-License-Identifier: BSD-3-Clause
"""The conversations, unchanged, with clients' sockets served by io_uring: with the embedded node, and in front of nodes."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import suite  # noqa: E402
from farcached import Daemon, tap  # noqa: E402

with Daemon("-t", "1", "-o", "io=uring") as d:
    in_use = d.stats()["farcached_io"]
    why = d.stderr().decode().strip()
if in_use == "uring":
    for script in ("text", "meta", "binary", "text_options", "binary_options", "watch", "connections", "together", "idle"):
        suite.run("conversation/%s.py" % script, "uring", "FARCACHED_IO")
    os.environ["FARCACHED_IO"] = "uring"
    for script in ("conversation/text.py", "conversation/connections.py", "conversation/together.py"):
        suite.run(script, "mix,no_local_read,report_interval_ms=100")
else:
    tap.skip("conversations over io_uring", why)
tap.done()
