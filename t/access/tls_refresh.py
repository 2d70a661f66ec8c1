# SPDX-License-Identifier: BSD-3-Clause
"""New certificates for clients' TLS, by refresh_certs and by SIGHUP: under load, with broken files, and with issuers that are
no longer trusted."""
import os
import re
import shutil
import signal
import ssl
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import certificates  # noqa: E402
from farcached import Client, Closed, Daemon, Pace, connect, deadline, tap, until  # noqa: E402
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
        pace = Pace()
        try:
            with self.d.client(context=self.context) as stays:
                while not self.stopping:
                    pace.rest()
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


def trusting_daemon(io, *options):
    path = os.path.join(certificates.folder(), "trusted-%s.pem" % io)
    shutil.copy(CA.chain, path)
    d = TlsDaemon(io=io, options=("ssl_verify_mode=2", "ssl_ca_cert=" + path, *options))
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


def resumed_after_removal(io):
    """The sessions of a client whose issuer is no longer trusted."""
    for how in (by_command, by_signal):
        for version in ("1.2", "1.3"):
            with trusting_daemon(io, "ssl_session_cache") as d:
                trust(d, CA, OTHER_CA)
                tap.is_(how(d), "OK", "two issuers")
                context = certificates.context(CA, STRANGER, version)
                sessions = []

                def again():
                    sock = connect(("127.0.0.1", d.port), deadline())
                    session = sessions[-1] if sessions else None
                    with Client(context.wrap_socket(sock, session=session, suppress_ragged_eofs=False)) as c:
                        c.stats()
                        sessions.append(c.socket.session)
                        return c.socket.session_reused

                tap.is_((again(), again()), (False, True), "a client resumes its session, TLS " + version)
                trust(d, CA)
                tap.is_(how(d), "OK", "its issuer is removed")
                try:
                    resumed = again()
                except (ssl.SSLError, Closed, ConnectionError) as e:
                    resumed = e
                tap.ok(isinstance(resumed, Exception), "its session is refused", resumed)
                with d.client() as c:
                    tap.is_(c.set("k", "v"), "STORED", "others are served")


def invalid_now():
    """A certificate that has expired or is not valid yet is used with a warning, and does not keep a reload from the rest."""
    early = CA.issue("early", not_before="20460101000000Z")
    for certificate, what in ((CA.issue("expired", days=-1), r"expired at \d{4}-\d\d-\d\dT[\d:]{8}Z"),
                              (early, "is not valid before 2046-01-01T00:00:00Z")):
        warning = r"%%s: the certificate %s; clients refuse it; replace the file, then reload" % what
        context = certificates.context(CA)
        context.verify_mode = ssl.CERT_NONE
        with Daemon(*certificate.options(), threads=1) as d:
            tap.like(d.stderr(), warning % certificate.chain, "a start with a certificate that is not valid now")
            with Client(context.wrap_socket(connect(("127.0.0.1", d.port), deadline()))) as c:
                tap.is_(c.set("k", "v"), "STORED", "serves clients that accept it")
        for how in (by_command, by_signal):
            with TlsDaemon(threads=1) as d:
                certificate.copy_to(d.files)
                d.context = context
                tap.is_(how(d), "OK", "one for a running daemon")
                tap.like(d.stderr(), warning % d.files.chain, "brings the same warning")
                tap.ok(refusal(lambda: d.client(context=TRUSTING)), "it is in use")


def rest_of_a_reload():
    """Passwords and other options come into effect when the keys cannot be loaded, or have expired."""
    folder = certificates.folder()
    path, passwords = os.path.join(folder, "rest.toml"), os.path.join(folder, "passwords")
    context = certificates.context(CA)
    context.verify_mode = ssl.CERT_NONE

    def write(keys, word, **options):
        with open(passwords, "w") as f:
            f.write("user:%s\n" % word)
        with open(path, "w") as f:
            f.write('enable_ssl = true\nauth_file = "%s"\nssl_chain_cert = "%s"\nssl_key = "%s"\n'
                    % (passwords, keys.chain, keys.key))
            for key, value in options.items():
                f.write("%s = %s\n" % (key, value))

    def accepts(word):
        with Client(context.wrap_socket(connect(("127.0.0.1", d.port), deadline()))) as c:
            token = "user " + word
            return c.ask("set auth 0 0 %d\r\n%s" % (len(token), token)) == "STORED"

    def settled():
        with Client(admin) as c:
            return c.stats("config"), c.stats("settings")

    def reload():
        before = settled()[0]
        d.signal(signal.SIGHUP)
        done = ("config_reloads", "config_reload_failures")
        until(lambda: settled()[0], lambda now: [now[n] for n in done] != [before[n] for n in done])
        return settled()

    write(SERVER, "one")
    admin = os.path.join(folder, "admin")
    with Daemon("--config", path, "--admin", admin, threads=1) as d:
        write(CA.issue("expired-later", days=-1), "two", idle_timeout=100)
        config, settings = reload()
        tap.is_((config["config_last_result"], settings["idle_timeout"]), ("ok", "100"),
                "an expired certificate: other options apply")
        tap.is_((accepts("one"), accepts("two")), (False, True), "and passwords")
        write(SERVER, "three", idle_timeout=200, ssl_min_version=3)
        tap.is_(reload()[0]["config_last_result"], "ok", "a good one")
        broken = certificates.Certificate("no-such")
        write(broken, "four", idle_timeout=300, ssl_min_version=2, ssl_handshake_timeout=20)
        config, settings = reload()
        tap.is_((config["config_last_result"], config["config_reload_failures"], config["config_changed"]),
                ("partly", "1", "idle_timeout, ssl_handshake_timeout"), "a missing one: the rest of the reload is applied")
        tap.like(config["config_last_error"], "^Error loading the certificate chain: %s : .*; the former certificate, key and "
                 "rules stay in use$" % broken.chain, "with the reason")
        tap.like(d.stderr(), "(?m)^reload: Error loading the certificate chain: .*\nreload: changed idle_timeout, ", "logged, too")
        tap.is_((settings["idle_timeout"], settings["ssl_min_version"], settings["ssl_chain_cert"]),
                ("300", "tlsv1.3", SERVER.chain), "the old keys and their options stay")
        tap.is_((accepts("three"), accepts("four")), (False, True), "the new passwords are in use")
        write(SERVER, "five", idle_timeout=300, ssl_handshake_timeout=20, ssl_min_version=2)
        config, settings = reload()
        tap.is_((config["config_last_result"], settings["ssl_min_version"]), ("ok", "tlsv1.2"), "until the file is good")


def writer_of(pipe):
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # nobody reads it yet
        return None


def older_load():
    """refresh_certs has read the old certificate when a reload begins, which reads the new one."""
    with trusting_daemon("libevent", "ssl_verify_mode=1") as d:
        with d.client() as asker, d.client() as watcher:  # of two workers
            tap.is_(watcher.ask("watch proxyevents"), "OK", "a watcher")
            os.unlink(d.trusted)
            os.mkfifo(d.trusted)
            asker.send(b"refresh_certs\r\n")
            with os.fdopen(until(lambda: writer_of(d.trusted), lambda fd: fd is not None), "w") as pipe:
                SECOND.copy_to(d.files)
                trust(d, CA)
                d.signal(signal.SIGHUP)
                watcher.until(re.compile(b"status=start\r?\n"))
                with open(CA.chain) as one:
                    pipe.write(one.read())
            tap.is_(asker.line().strip(), b"OK", "refresh_certs ends")
            watcher.until(re.compile(b"status=done\r?\n"))
        with d.client() as c:
            tap.is_(subject(c), "second", "the reload's certificate is in use")


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
        tap.like(by_signal(d), "Error loading the certificate chain: /no/such.pem", "one with a missing file")
        with d.client() as c:
            tap.is_(c.stats("settings")["ssl_chain_cert"], SECOND.chain, "changes no keys")
            tap.is_(c.ask("refresh_certs"), "OK", "refresh_certs reads the files in use")
    with Daemon(threads=1) as d:
        with d.client() as c:
            tap.is_(c.ask("refresh_certs"), "Error TLS not enabled", "refresh_certs without -Z")


def refreshes(io):
    refresh(io, by_command)
    refresh(io, by_signal)


changed_options()
invalid_now()
rest_of_a_reload()
older_load()
in_each_backend(refreshes, resumed_after_removal)
tap.done()
