# SPDX-License-Identifier: BSD-3-Clause
"""The conversations, unchanged, through a farcached whose nodes are behind RDMA. Runs in a guest."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import suite  # noqa: E402
from tap_output import tap  # noqa: E402

MODES = [("conversation/text.py", "3verbs,pointer_miss=index"), ("conversation/text.py", "rdma"),
         ("conversation/text.py", "3verbs,rpc=rfp")]
if os.environ.get("FARCACHED_TEST_LONG"):
    MODES += [("conversation/text.py", "3verbs,rpc=write"), ("conversation/meta.py", "3verbs,rpc=rfp,rfp_fetch_bytes=36"),
              ("conversation/text.py", "3verbs"), ("conversation/meta.py", "3verbs"), ("conversation/binary.py", "3verbs")]
for script, mode in MODES:
    suite.run(script, mode)
tap.done()
