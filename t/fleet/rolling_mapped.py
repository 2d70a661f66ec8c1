# SPDX-License-Identifier: BSD-3-Clause
"""t/fleet/rolling.py with nodes on this host, whose memory farcached maps (discover_shm): what ends reads of a node's memory."""
import os
import runpy

os.environ["FARCACHED_OVER"] = "tcp=shm"
runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "rolling.py"), run_name="__main__")
