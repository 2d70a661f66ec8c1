# SPDX-License-Identifier: BSD-3-Clause
"""New certificates for clients' TLS, by refresh_certs and by SIGHUP: under load, with broken files, and with issuers that are
no longer trusted."""
import os
import shutil
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import certificates  # noqa: E402
from farcached import Client, Daemon, connect, deadline, tap, until  # noqa: E402
from tls_daemon import CA, CLIENT, OTHER_CA, SECOND, SERVER, STRANGER, TRUSTING, TlsDaemon, in_each_backend, refusal  # noqa: E402


# -- New certificates ----------------------------------------------------------------------------------------

def subject(c):
    """The server's name. A client asks for the certificate in its own form."""
    return dict(pair[0] for pair in c.socket.getpeercert()["subject"])["commonName"]


class Load:
    """Clients that connect, ask and leave; failures are counted."""

    def __init__(self, d, context):
        self.d, self.context, self.failed, self.done, self.stopping = d, context, [], 0, False
        self.threads = [threading.Thread(target=self.run) for _ in range(3)]
        for thread in self.threads:
            thread.start()

    def run(self):
        try:
            with self.d.client(context=self.context) as stays:
                while not self.stopping:
                    with self.d.client(context=self.context) as c:
                        if (c.set("k", "v"), c.get("k"), stays.get("k")) != ("STORED", b"v", b"v"):
                            self.failed.append("wrong reply")
                    self.done += 1
        except Exception as e:
            self.failed.append(repr(e))

    def end(self):
        self.stopping = True
        for thread in self.threads:
            thread.join()


def trust(d, *authorities):
    with open(d.trusted + ".new", "w") as f:
        for authority in authorities:
            with open(authority.chain) as one:
                f.write(one.read())
    os.replace(d.trusted + ".new", d.trusted)


def trusting_daemon(io):
    path = os.path.join(certificates.folder(), "trusted-%s.pem" % io)
    shutil.copy(CA.chain, path)
    d = TlsDaemon(io=io, options=("ssl_verify_mode=2", "ssl_ca_cert=" + path))
    d.trusted = path
    d.context = certificates.context(CA, CLIENT)
    return d


def by_command(d):
    with d.client() as c:
        return c.ask("refresh_certs")


def by_signal(d):
    def tries():
        stats = d.stats("config")
        return int(stats["config_reloads"]) + int(stats["config_reload_failures"])
    before = tries()
    d.signal(signal.SIGHUP)
    until(tries, lambda n: n > before)
    stats = d.stats("config")
    return "OK" if stats["config_last_result"] == "ok" else stats["config_last_error"]


def refresh(io, how):
    with trusting_daemon(io) as d:
        old = d.client()
        tap.is_(subject(old), "server", "the first certificate")
        load = Load(d, d.context)
        for i in range(6):
            (SECOND if i % 2 == 0 else SERVER).copy_to(d.files)
            done = load.done
            tap.is_(how(d), "OK", "a new certificate")
            until(lambda: load.done, lambda n: n > done + 3)
            with d.client() as c:
                tap.is_(subject(c), "second" if i % 2 == 0 else "server", "new connections get it")
        load.end()
        tap.is_(load.failed, [], "no request and no handshake failed")
        tap.is_(old.set("k", "v"), "STORED", "a connection with the old one stays")
        tap.ok(refusal(lambda: d.client(context=certificates.context(CA, STRANGER))), "an unknown issuer is refused")
        trust(d, CA, OTHER_CA)
        tap.is_(how(d), "OK", "a new issuer")
        tap.is_(refusal(lambda: d.client(context=certificates.context(CA, STRANGER))), None, "its clients are admitted")
        trust(d, CA)
        tap.is_(how(d), "OK", "an issuer less")
        tap.ok(refusal(lambda: d.client(context=certificates.context(CA, STRANGER))), "its clients are refused")
        for path, text, want in ((d.files.key, "no key", "Error loading the key: "),
                                 (d.files.chain, "nothing", "Error loading the certificate chain: "),
                                 (d.trusted, "nothing", "Error loading the CA certificate: ")):
            with open(path) as f:
                good = f.read()
            with open(path, "w") as f:
                f.write(text)
            answer = how(d)
            tap.ok(answer.startswith(want + path + " : error:"), "a broken file is refused, with the reason", answer)
            with d.client() as c:
                tap.is_(subject(c), "server", "and the old certificate stays")
            with open(path, "w") as f:
                f.write(good)
        tap.is_(how(d), "OK", "until the file is whole again")
        old.close()


def changed_options():
    path = os.path.join(certificates.folder(), "far.toml")

    def write(**keys):
        with open(path + ".new", "w") as f:
            f.write("enable_ssl = true\n")
            for key, value in keys.items():
                f.write("%s = %s\n" % (key, value))
        os.replace(path + ".new", path)

    def files(certificate):
        return {"ssl_chain_cert": '"%s"' % certificate.chain, "ssl_key": '"%s"' % certificate.key}

    write(**files(SERVER))
    with TlsDaemon() as d:
        tap.is_(d.stats("settings")["ssl_min_version"], "tlsv1.2", "ssl_min_version")
    with Daemon("--config", path, threads=1) as d:
        d.client = lambda context=TRUSTING: Client(context.wrap_socket(connect(("127.0.0.1", d.port), deadline())))
        write(ssl_min_version=3, **files(SECOND))
        tap.is_(by_signal(d), "OK", "a reload with other TLS options")
        with d.client() as c:
            tap.is_((subject(c), c.stats("settings")["ssl_min_version"]), ("second", "tlsv1.3"), "is in effect")
        tap.ok(refusal(lambda: d.client(context=certificates.context(CA, version="1.2"))), "also the versions")
        write(ssl_chain_cert='"/no/such.pem"')
        tap.like(by_signal(d), "Error loading the certificate chain: /no/such.pem", "one with a missing file is refused")
        with d.client() as c:
            tap.is_(c.stats("settings")["ssl_chain_cert"], SECOND.chain, "and nothing changes")
            tap.is_(c.ask("refresh_certs"), "OK", "refresh_certs reads the files in use")
    with Daemon(threads=1) as d:
        with d.client() as c:
            tap.is_(c.ask("refresh_certs"), "Error TLS not enabled", "refresh_certs without -Z")


def refreshes(io):
    refresh(io, by_command)
    refresh(io, by_signal)


changed_options()
in_each_backend(refreshes)
tap.done()
