# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program with one system call refused, as sandboxes do:

    with WithoutCall("io_uring_setup") as binary:
        Daemon(binary=binary)

`python3 without_call.py CALL PROGRAM ARGUMENT...` does the same.
"""
import ctypes
import os
import platform
import struct
import sys
import tempfile

CALLS = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,  # the same on every architecture except Alpha
         "seccomp": {"x86_64": 317, "aarch64": 277, "riscv64": 277}.get(platform.machine())}
EPERM = 1
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
RET_ALLOW, RET_ERRNO = 0x7fff0000, 0x00050000


class WithoutCall:
    """The path of a script that runs the program this way."""

    def __init__(self, call, program):
        self.call, self.program = call, os.path.abspath(program)

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="farcached-without-")
        path = os.path.join(self.folder.name, os.path.basename(self.program))
        with open(path, "w") as f:
            words = (sys.executable, os.path.abspath(__file__), self.call, self.program)
            f.write('#!/bin/sh\nexec "%s" "%s" %s "%s" "$@"\n' % words)
        os.chmod(path, 0o700)
        return path

    def __exit__(self, *_):
        self.folder.cleanup()


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def main():
    steps = [(LOAD_WORD, 0, 0, 0), (JUMP_IF_EQUAL, 0, 1, CALLS[sys.argv[1]]), (RETURN, 0, 0, RET_ERRNO | EPERM),
             (RETURN, 0, 0, RET_ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(steps), ctypes.addressof(code))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER,
                                                                 ctypes.byref(program), 0, 0):
        sys.exit("prctl: %s" % os.strerror(ctypes.get_errno()))
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
