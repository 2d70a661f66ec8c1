# SPDX-License-Identifier: BSD-3-Clause
"""TLS for tests: certificates of an authority of our own, made by openssl(1), and clients.

With $FARCACHED_TLS=VERSION (1.2 or 1.3) every Daemon without -s serves TLS, and each Client that it makes speaks it (daemon.py).
"""
import atexit
import functools
import os
import shutil
import ssl
import subprocess
import tempfile

from tap_output import tap

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def is_available():
    return tap.path_of("openssl") is not None


@functools.lru_cache(maxsize=None)
def folder():
    path = tempfile.mkdtemp(prefix="farcached-tls-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def openssl(*args):
    subprocess.run(("openssl",) + args, check=True, stdin=subprocess.DEVNULL, capture_output=True, cwd=folder())


class Certificate:
    """The files of a certificate, and of its key."""

    def __init__(self, name):
        self.name = name
        self.chain = os.path.join(folder(), name + ".pem")
        self.key = os.path.join(folder(), name + ".key")

    def options(self, *more):
        """-Z and its options."""
        return ["-Z", "-o", ",".join(("ssl_chain_cert=" + self.chain, "ssl_key=" + self.key) + more)]

    def copy_to(self, other):
        """Replaces the other's files."""
        for mine, its in ((self.key, other.key), (self.chain, other.chain)):
            shutil.copy(mine, its + ".new")
            os.replace(its + ".new", its)


class Authority(Certificate):
    def __init__(self, name):
        super().__init__(name)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", self.key,
                "-out", self.chain, "-subj", "/CN=" + name, "-days", "30")

    def issue(self, name, days=20, not_before=None, subject=None, curve="prime256v1"):
        """Of a server at 127.0.0.1, or of a client. not_before: YYYYMMDDHHMMSSZ, in the future."""
        made = Certificate(name)
        request = made.chain + ".csr"
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:" + curve, "-nodes", "-keyout", made.key, "-out", request,
                "-subj", subject or "/CN=" + name, "-addext", "subjectAltName=IP:127.0.0.1")
        if not_before is None:
            openssl("x509", "-req", "-in", request, "-CA", self.chain, "-CAkey", self.key, "-CAcreateserial", "-days", str(days),
                    "-copy_extensions", "copy", "-out", made.chain)
            return made
        files = {"database": made.chain + ".db", "serial": made.chain + ".serial"}
        rules = made.chain + ".cnf"
        for path, text in ((files["database"], ""), (files["serial"], "01\n"),
                           (rules, "[ca]\ndefault_ca = it\n[it]\nnew_certs_dir = %s\ndefault_md = sha256\npolicy = any\n"
                                   "database = %s\nserial = %s\n[any]\ncommonName = supplied\n"
                                   % (folder(), files["database"], files["serial"]))):
            with open(path, "w") as f:
                f.write(text)
        openssl("ca", "-batch", "-notext", "-config", rules, "-in", request, "-cert", self.chain, "-keyfile", self.key,
                "-startdate", not_before, "-days", str(days), "-out", made.chain)
        return made


def context(authority, certificate=None, version=None):
    """Of a client that trusts the authority, and has the certificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.load_verify_locations(authority.chain)
    if version:
        made.minimum_version = made.maximum_version = VERSIONS[version]
    if certificate:
        made.load_cert_chain(certificate.chain, certificate.key)
    return made


@functools.lru_cache(maxsize=None)
def _for_every_daemon():
    authority = Authority("suite-authority")
    return authority, authority.issue("suite-server")


def peer_options(authority, certificate):
    """TLS of tcp links, for farcached and farnode."""
    return ["--peer-cert", certificate.chain, "--peer-key", certificate.key, "--peer-ca", authority.chain]


@functools.lru_cache(maxsize=None)
def options_of_every_peer():
    authority = Authority("suite-peers")
    return peer_options(authority, authority.issue("suite-peer"))


def is_wanted():
    return bool(os.environ.get("FARCACHED_TLS"))


def daemon_args():
    """Options for every daemon, if TLS is wanted."""
    return _for_every_daemon()[1].options()


def wrap(sock):
    """A client's socket with TLS."""
    try:
        return context(_for_every_daemon()[0], version=os.environ["FARCACHED_TLS"]).wrap_socket(sock)
    except ssl.SSLError as e:
        sock.close()
        raise ConnectionError(str(e)) from None
