# SPDX-License-Identifier: BSD-3-Clause
"""Each safety rule broken on purpose (base/broken.h). The checkers of the parts must report it, and must report nothing while all
rules hold. The test t/nodes/broken.py does the same with whole daemons."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import deadline, tap, test_program  # noqa: E402

CHECKERS = {
    "faulty/node_safety": "S1 S4 S5 S7 S10 S11 S13",
    "faulty/node_in_place": "S1_COMPOSE S1_RECEIVE S1_NO_DEAD S1_REVIVE S1_HASH S2 S2_STALE S3_CLEAR S11_LEASED S11_LIST",
    "faulty/node_held": "S1_PINNED S2_PINNED",
    "faulty/node_lease": "S2 S8 S11_LEASED",
    "faulty/pointer_table_safety": "S10_POINTER",
    "faulty/node_link_safety": "S3 S4_GUARD S4_LEASE S4 S4_GENERATION S5_INDEX S5_POINTER S9 S12 S13 S13_POINTER S17 S18",
    "faulty/pointer_read": "S4_GUARD S4_LEASE S4 S4_CHECK S4_GENERATION S4_SPILLED S5_POINTER S13_POINTER",
    "faulty/node_reads": "S6",
    "faulty/node_disk": "S4_DISK",
    "faulty/node_peer": "S15",
    "faulty/node_restart": "S7_RESTART",
    "faulty/owner": "S9_OWNER",
    "faulty/service_auth": "S16 S16_EARLY S16_NODE",
    "faulty/verbs_slots": "S12_SLOTS",
    "faulty/fence": "S19",
    "faulty/fence_homes": "S19_ADDRESS",
    "faulty/node_holds": "S20_ORDER",
    "faulty/node_uniques": "S20_UNIQUES",
}


def sees(program, rule):
    """([was a violation caught?] for each verdict of the checker, end of its output). None: it cannot run here."""
    done = subprocess.run([test_program(program)], env={**os.environ, "FARCACHED_BREAK": rule}, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=deadline() * 10)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    if any(" # SKIP" in line for line in lines) and len(lines) == 2:
        return None, lines[0]
    found = [line.startswith("ok") for line in lines if line.endswith(" is caught")]
    return found, "\n".join(lines[-5:]) + done.stderr.decode("utf-8", "replace")[-2000:]


for program, rules in CHECKERS.items():
    found, said = sees(program, "")
    if found is None:
        tap.skip(program, said.partition("# SKIP ")[2])
        continue
    tap.ok(found and not any(found), "%s sees nothing where no rule is broken" % program, said)
    for rule in rules.split():
        found, said = sees(program, rule)
        tap.ok(found and all(found), "%s sees that %s is broken" % (program, rule), said)
tap.done()
