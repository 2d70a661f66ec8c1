# SPDX-License-Identifier: BSD-3-Clause
"""Daemons with -S, whose passwords may be replaced, and their clients. A script that imports this is skipped where there is no
SASL.

john's password is in a sasldb file, which is libsasl2's own. mary's is in the file of MEMCACHED_SASL_PWDB, if the daemon has one.
"""
import ctypes
import hashlib
import hmac
import os
import socket
import sys
import tempfile

from binary_client import BinaryClient, op, status
from farcached import Daemon, run_binary, tap

JOHN, MARY = ("john", "secret"), ("mary", "with spaces in it")

if b"without libsasl2" in run_binary("--version-full")[1]:
    refused, _, why = run_binary("-S")
    tap.is_((refused, why), (64, b"This server is not built with SASL support.\n"), "-S is refused, with the reason")
    tap.done()
    sys.exit()

FOLDER = tempfile.TemporaryDirectory(prefix="farcached-sasl-")


def path_of(name):
    return os.path.join(FOLDER.name, name)


def write(path, text):
    with open(path + ".new", "w", encoding="latin-1") as f:
        f.write(text)
    os.replace(path + ".new", path)


def configure(mechanisms="plain login cram-md5"):
    write(path_of("memcached.conf"), "mech_list: %s\nauxprop_plugin: sasldb\nsasldb_path: %s\n" % (mechanisms, path_of("sasldb")))


def set_password(user, password):
    """Into the sasldb, by libsasl2 in a process of its own. False: it cannot."""
    child = os.fork()
    if child == 0:
        try:
            os.environ["SASL_CONF_PATH"] = FOLDER.name
            sasl, connection = ctypes.CDLL("libsasl2.so.2"), ctypes.c_void_p()
            good = sasl.sasl_server_init(None, b"memcached") == 0
            good = good and sasl.sasl_server_new(b"memcached", socket.gethostname().encode(), None, None, None, None, 0,
                                                 ctypes.byref(connection)) == 0
            create = 1
            good = good and sasl.sasl_setpass(connection, user.encode(), password.encode(), len(password), None, 0, create) == 0
            os._exit(0 if good else 1)
        finally:
            os._exit(2)
    return os.waitpid(child, 0)[1] == 0


configure()
write(path_of("passwords"), "%s:%s\n" % MARY)
HAS_DATABASE = set_password(*JOHN)
USER = JOHN if HAS_DATABASE else MARY


def plain(user, password):
    return "\0%s\0%s" % (user, password)


def cram_md5(challenge, user, password):
    return user.encode() + b" " + hmac.new(password.encode(), challenge, hashlib.md5).hexdigest().encode()


class SaslDaemon(Daemon):
    """passwords: of MEMCACHED_SASL_PWDB; None: without it."""

    def __init__(self, *args, passwords="passwords", env=None, threads=2, **more):
        env = {"SASL_CONF_PATH": FOLDER.name, **(env or {})}
        if passwords:
            env["MEMCACHED_SASL_PWDB"] = path_of(passwords)
        super().__init__("-S", *args, env=env, threads=threads, **more)

    def talk(self, timeout=None):
        return BinaryClient(self.client(timeout))

    def member(self, user=USER):
        """An authenticated client."""
        b = self.talk()
        reply = b.ask(op.SASL_AUTH, "PLAIN", plain(*user))
        if (reply.status, reply.value) != (status.OK, b"Authenticated"):
            b.raw.close()
            raise AssertionError("not authenticated: %r" % reply)
        return b

    def stats(self, sub=""):
        with self.member() as b:
            return b.stat(sub)[1]

    def admits(self, user):
        try:
            self.member(user).raw.close()
            return True
        except AssertionError:
            return False

    def attempts(self):
        """Without those of this call."""
        stats = self.stats()
        return int(stats["auth_cmds"]) - 1, int(stats["auth_errors"])


with SaslDaemon() as first:
    with first.talk() as asking:
        LISTED = asking.ask(op.SASL_LIST)
    if b"PLAIN" not in LISTED.value.split():
        tap.skip_all("libsasl2 has no PLAIN: %r" % LISTED.value)
if os.environ.get("FARCACHED", "").endswith("/memcached"):
    HAS_RING = False
else:
    with SaslDaemon("-o", "io=uring", threads=1) as ring:
        HAS_RING = ring.stats()["farcached_io"] == "uring"
