# SPDX-License-Identifier: BSD-3-Clause
"""The conversations, unchanged, over TLS, with clients' sockets by libevent and by io_uring."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import suite  # noqa: E402
from farcached import Daemon, has_tls, tap  # noqa: E402

if not has_tls():
    tap.skip_all("no OpenSSL in this program, or no openssl command")
with Daemon("-t", "1", "-o", "io=uring") as d:
    has_ring = d.stats()["farcached_io"] == "uring"
for io in ("libevent", "uring") if has_ring else ("libevent",):
    os.environ["FARCACHED_IO"] = io
    for script, version in (("text", "1.3"), ("meta", "1.2"), ("binary", "1.3"), ("text_options", "1.2"), ("large_values", "1.3")):
        suite.run("conversation/%s.py" % script, version, "FARCACHED_TLS")
tap.done()
