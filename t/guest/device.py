# SPDX-License-Identifier: BSD-3-Clause
"""The precondition of the other tests in a guest: there is a device, and RDMA works over it. Runs in a guest."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import until  # noqa: E402
from tap_output import tap  # noqa: E402


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout


def main():
    tap.like(output("rdma", "link", "show"), "rxe0/1 state ACTIVE", "the device is active")
    tap.like(output("ibv_devinfo", "-v"), "max_qp_rd_atom:\\s+128", "and its limits can be read")
    address = os.environ["FARCACHED_RDMA_ADDRESS"]
    with subprocess.Popen(["rping", "-s", "-a", address, "-C", "10"], stdout=subprocess.DEVNULL) as server:
        # Fails until the server listens.
        done = until(lambda: subprocess.run(["rping", "-c", "-a", address, "-C", "10"], timeout=60, stderr=subprocess.DEVNULL),
                     lambda client: client.returncode == 0)
        tap.is_((done.returncode, server.wait(60)), (0, 0), "SEND, READ and WRITE work over it")
    tap.done()


main()
