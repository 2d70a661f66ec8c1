# SPDX-License-Identifier: BSD-3-Clause
"""t/conversation/text_options.py and t/conversation/binary_options.py, unchanged, through a farcached that keeps its items in
nodes; and the option that is refused there. One node, because -M is about its memory."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import suite  # noqa: E402
from farcached import run_binary, tap  # noqa: E402

status, _, said = run_binary("-M", "--node", "a=tcp:127.0.0.1:1")
tap.is_((status, said.decode()),
        (64, "-M (--disable-evictions): items are in the nodes; give it to each farnode instead\n"),
        "-M in front of nodes is refused in a sentence")
for script in ("conversation/text_options.py", "conversation/binary_options.py"):
    for mode in suite.modes(("1shm", "1tcp"), ("1shm", "1tcp", "1shm,no_local_read", "1shm,no_local_read,pointer_miss=index")):
        suite.run(script, mode)
tap.done()
