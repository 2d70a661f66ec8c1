# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the output of farbench transport --json."""
import itertools

from tap_output import tap

KEYS = ["transport", "mix", "clients", "ops_per_s", "mean_us", "p50_us", "p99_us", "p999_us", "errors",
        "node_cpu_us_per_op", "client_cpu_us_per_op"]


def points_of(points):
    return [(point["mix"], point["transport"], point["clients"]) for point in points]


def check_points(points, transports, clients, mixes, name):
    tap.ok(all(list(point) == KEYS for point in points), "%s: each point has its keys and no others" % name, points)
    tap.is_(points_of(points), list(itertools.product(mixes, transports, clients)), "%s: every point is there, once" % name)
    tap.is_(sum(point["errors"] for point in points), 0, "%s: no errors" % name)
    tap.ok(all(point["ops_per_s"] > 0 and 0 < point["p50_us"] <= point["p99_us"] <= point["p999_us"] for point in points),
           "%s: latencies are in order" % name, points)
    tap.ok(all(point["client_cpu_us_per_op"] > 0 and point["node_cpu_us_per_op"] is not None for point in points),
           "%s: CPU time of both sides is known" % name, points)
