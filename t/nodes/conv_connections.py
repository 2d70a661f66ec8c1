# SPDX-License-Identifier: BSD-3-Clause
"""t/conversation/connections.py, unchanged, through a farcached that keeps its items in nodes: the guarantees of workers to
connections hold with delayed replies."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import suite  # noqa: E402

suite.run_all("conversation/connections.py", short=("mix,no_local_read", "3tcp,links_per_node=1"))
