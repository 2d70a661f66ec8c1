# SPDX-License-Identifier: BSD-3-Clause
"""contrib/vm itself: input, output, exit status, and nothing left behind. Runs on the host."""
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import until  # noqa: E402
from tap_output import tap  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VM = os.path.join(TOP, "contrib", "vm")


def vm(*words, folder, env=None, cwd=None):
    return subprocess.run([VM, *words], env={**os.environ, "TMPDIR": folder, **(env or {})}, cwd=cwd,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=380)


def complaints(done):
    """The command's stderr, without contrib/vm's message about a second boot (V4)."""
    return re.sub(rb"(?s)\Avm: guest .*?\nvm: booted anew\n", b"", done.stderr)


def guests_of(folder):
    """Processes that were started with files below the folder."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                if folder.encode() in f.read().split(b"qemu-system")[-1]:
                    found.append(path)
        except OSError:
            pass
    return [path for path in found if str(os.getpid()) != path.split("/")[2]]


def passes_through(folder):
    kept = os.path.join(folder, "kept")
    os.mkdir(kept)
    script = ('echo "$WORD"; pwd; echo complaint >&2; head -c 300000 /dev/zero | tr "\\0" x; echo note >"$0/note"; '
              'touch /etc/written; exit 7')
    done = vm("--seconds", "90", "--keep", kept, "bash", "-c", script, kept, folder=folder,
              env={"WORD": "it's \"quoted\" $HOME"}, cwd=kept)
    lines = done.stdout.split(b"\n")
    tap.is_(lines[0], b"it's \"quoted\" $HOME", "a guest has this environment")
    tap.is_(lines[1], kept.encode(), "and this folder")
    tap.is_(done.stdout[-300000:], b"x" * 300000, "all of its output arrives")
    tap.is_(complaints(done), b"complaint\n", "its stderr is separate")
    tap.is_(done.returncode, 7, "its exit status is the command's")
    tap.ok(os.path.exists(os.path.join(kept, "note")), "its kept file is on the host")
    tap.ok(not os.path.exists("/etc/written"), "and nothing else")


def ends_in_time(folder):
    done = vm("--seconds", "5", "sh", "-c", "echo begun; sleep 1000", folder=folder)
    tap.is_((done.returncode, done.stdout), (124, b"begun\n"), "it ends at its timeout")
    tap.like(complaints(done), "^vm: not done in 5 s", "and prints a message")


def ends_with_its_caller(folder):
    """A caller's pipe that ends together with the guest."""
    with subprocess.Popen([VM, "sh", "-c", "echo begun; sleep 1000"], env={**os.environ, "TMPDIR": folder},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        tap.is_(process.stdout.readline(), b"begun\n", "another guest runs")
        tap.ok(guests_of(folder), "and has a QEMU process")
        process.send_signal(signal.SIGTERM)
        tap.is_(process.wait(20), 128 + signal.SIGTERM, "SIGTERM ends it")
    tap.is_(until(lambda: guests_of(folder), lambda found: not found), [], "and its guest with it")


def two_meet(folder):
    done = vm("--seconds", "60", "--beside", "echo beside; busybox nc -l -p 7000 </dev/null; sleep 1000", "sh", "-c",
              "until busybox nc $FARCACHED_RDMA_PEER 7000 </dev/null; do :; done; rdma link show rxe0/1", folder=folder)
    tap.is_(done.returncode, 0, "a guest reaches the one beside it")
    tap.like(done.stdout, "rxe0/1 state ACTIVE", "and has RDMA on that wire")
    tap.like(done.stderr, "beside", "the other guest's output appears")


def boots_anew(folder):
    done = vm("--boot-seconds", "0.5", "--seconds", "60", "--beside", "sleep 1000", "echo", "begun", folder=folder)
    tap.is_((done.returncode, done.stdout), (0, b"begun\n"), "a late guest boots again, and runs its command once")
    tap.like(done.stderr, "(?s)^vm: guest 1 did not start in 0.5 s\n.*guest 2's console:.*vm: booted anew\n", "with a message")


def main():
    with tempfile.TemporaryDirectory(prefix="farcached-vm-test-") as folder:
        begun = time.monotonic()
        passes_through(folder)
        tap.diag("a guest's life: %.1f s" % (time.monotonic() - begun))
        ends_in_time(folder)
        ends_with_its_caller(folder)
        two_meet(folder)
        boots_anew(folder)
        tap.is_([name for name in os.listdir(folder) if name != "kept"], [], "nothing is left")
    tap.done()


main()
