# SPDX-License-Identifier: BSD-3-Clause
"""The aims of farcached beside its peers, as ratios. `farbench compare --aims` prints this table.

A row holds the measure, the contestant, the baseline (None: the best peer at this measure), the workload, the metric and the limit.
The limit is an upper bound, or a lower bound where more is better.
"""
from compare_contest import FLOOR, METRICS, PEER
from compare_contestants import URING
from compare_memory import each_of
import compare_tls as tls
import compare_verbs as verbs

CPU, RATE, P50, P99, P999 = "cpu_s_per_million", "keys_per_s", "p50_us", "p99_us", "p999_us"
SMALL_1, SMALL_16, LARGE_1, LARGE_16 = "64 B, pipeline 1", "64 B, pipeline 16", "1 KiB, pipeline 1", "1 KiB, pipeline 16"
MULTI, OPEN, SINGLE = "64 B, multi-get of 50 keys", "64 B, 70 % of memcached's maximum", "64 B, one connection"
IDLE = (1000, 10_000)  # connections
SETS = "64 B, sets, pipeline 1"
PROXIED_1, PROXIED_16 = "proxied, pipeline 1", "proxied, pipeline 16"
PROXIED_MULTI, PROXIED_SINGLE = "proxied, multi-get of 50 keys", "proxied, one connection"
OURS, RING = "farcached", "farcached" + URING
SHM, RING_SHM = "farcached -t 1 -> 2 farnode (shm)", "farcached" + URING + " -t 1 -> 2 farnode (shm)"

AIMS = [
    (OURS, PEER, SMALL_1, CPU, 0.90), (OURS, FLOOR, SMALL_1, CPU, 1.08), (RING, PEER, SMALL_1, CPU, 0.70),
    (OURS, PEER, SMALL_16, CPU, 0.55), (OURS, PEER, SMALL_16, RATE, 1.3),
    (RING, PEER, SMALL_16, CPU, 0.55), (RING, PEER, SMALL_16, RATE, 1.3),
    (OURS, PEER, LARGE_1, CPU, 0.95), (OURS, PEER, LARGE_16, CPU, 0.65),
    (RING, PEER, LARGE_1, CPU, 0.85), (RING, PEER, LARGE_16, CPU, 0.60),
    (OURS, PEER, MULTI, CPU, 0.60), (RING, PEER, MULTI, CPU, 0.60),
    (OURS, PEER, OPEN, P99, 0.8), (OURS, PEER, OPEN, P999, 0.8), (RING, PEER, OPEN, P99, 0.8), (RING, PEER, OPEN, P999, 0.8),
    (SHM, None, PROXIED_1, CPU, 0.55), (RING_SHM, None, PROXIED_1, CPU, 0.42),
    (SHM, None, PROXIED_16, CPU, 0.30), (RING_SHM, None, PROXIED_16, CPU, 0.30),
    (SHM, None, PROXIED_MULTI, CPU, 0.35), (RING_SHM, None, PROXIED_MULTI, CPU, 0.35),
    (OURS, PEER, SINGLE, P50, 1.0), (RING, PEER, SINGLE, P50, 1.0),
    (SHM, None, PROXIED_SINGLE, P50, 0.85), (RING_SHM, None, PROXIED_SINGLE, P50, 0.85),
    (OURS, PEER, tls.RSA_HANDSHAKE, CPU, 1.05), (RING, PEER, tls.RSA_HANDSHAKE, CPU, 1.05),
    (OURS, PEER, tls.HANDSHAKE, CPU, 1.05), (RING, PEER, tls.HANDSHAKE, CPU, 1.05),
    (OURS, PEER, tls.GETS, CPU, 0.9), (RING, PEER, tls.GETS, CPU, 0.9),
    (OURS, PEER, tls.LARGE_GETS, CPU, 0.9), (RING, PEER, tls.LARGE_GETS, CPU, 0.9),
    (OURS, PEER, tls.BESIDE, P99, 0.5), (RING, PEER, tls.BESIDE, P99, 0.5),
    (verbs.OURS, None, verbs.GETS, RATE, 1.0), (verbs.OURS, None, verbs.GETS_SINGLE, RATE, 1.0),
    (verbs.OURS, None, verbs.GETS_SINGLE, P50, 1.0),
]
MEMORY_AIMS = [("item of 64 B", OURS, 1.05)] + [(each_of(number), whose, 0.7) for number in IDLE for whose in (OURS, RING)]


def verdict(low_is_good, value, limit):
    return "met" if (value <= limit if low_is_good else value >= limit) else "MISSED"


def rows(contest, memory):
    """[(measure, label, aim, measured, verdict)] as text. memory: {measure: {label: bytes}}."""
    found = []
    titles = {m[0]: (m[1], m[3]) for m in METRICS}
    for whose, to, workload, metric, limit in AIMS:
        row = contest.find(workload)
        if row is None or whose not in row.labels:
            continue
        title, more_is_better = titles[metric]
        beside = to or row.best_peer(metric)
        ratio = row.ratio(whose, metric, beside) if beside in row.labels else None
        if ratio is None or not ratio.known:
            continue
        found.append(("%s: %s to that of %s" % (workload, title, beside), whose,
                      "%s %.2f" % (">=" if more_is_better else "<=", limit),
                      "%.3f (%.3f .. %.3f)" % (ratio.median, ratio.low, ratio.high),
                      verdict(not more_is_better, ratio.median, limit)))
    found += verbs.aims(contest)
    for what, whose, limit in MEMORY_AIMS:
        taken = memory.get(what, {})
        if whose in taken and PEER in taken:
            ratio = taken[whose] / taken[PEER]
            found.append(("memory, %s, to that of %s" % (what, PEER), whose, "<= %.2f" % limit, "%.3f" % ratio,
                          verdict(True, ratio, limit)))
    return found


def table(contest, memory):
    found = rows(contest, memory)
    if not found:
        return ""
    lines = ["Aims", "  %-66s %-34s %-8s %-24s %s" % ("measure", "of", "aim", "measured", "")]
    lines += ["  %-66s %-34s %-8s %-24s %s" % one for one in found]
    return "\n".join(lines)
