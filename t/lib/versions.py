# SPDX-License-Identifier: BSD-3-Clause
"""Rising versions of keys, stored through one farcached and read through several. A read is stale if the store of a newer version
was acknowledged before the read was sent.

    with Versions(proxies, "q", KEYS) as load:
        load.served()
    load.stale
"""
import threading
import time

from daemon import until


class Versions:
    """One thread stores rising versions of all keys in turn through one proxy, and one for each proxy reads them."""

    last_of_all = 0

    def __init__(self, proxies, writer, keys):
        """proxies: {name: Daemon}"""
        self.keys = keys
        self.acknowledged = {key: [] for key in keys}  # [(time, version)], rising
        self.over, self.wrong = threading.Event(), []
        self.stale, self.hits = [], dict.fromkeys(proxies, 0)  # [(when the read was sent, proxy, for how long stale)]
        self.threads = [threading.Thread(target=self.write, args=(proxies[writer],))]
        self.threads += [threading.Thread(target=self.read, args=(name, proxy)) for name, proxy in proxies.items()]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def served(self):
        """Until each proxy has answered more reads with values, and the writer has stored more."""
        def seen():
            return {**self.hits, "stored": sum(len(times) for times in self.acknowledged.values())}
        before = seen()
        return until(lambda: all(now > before[name] for name, now in seen().items()), bool)

    @classmethod
    def next(cls):
        cls.last_of_all += 1
        return cls.last_of_all

    def write(self, proxy):
        with proxy.client() as client:
            while not self.over.wait(0.05):
                version = self.next()
                for key in self.keys:
                    if client.set(key, b"%d" % version) == "STORED":
                        self.acknowledged[key].append((time.monotonic(), version))

    def read(self, name, proxy):
        with proxy.client() as client:
            while not self.over.wait(0.02):
                for key in self.keys:
                    sent = time.monotonic()
                    words = client.send(b"mg %s v\r\n" % key.encode()).line().split()
                    if words[0] != b"VA":  # a miss, or an error
                        continue
                    version = int(client.read(int(words[1]) + 2))
                    self.hits[name] += 1
                    if not 0 < version <= self.last_of_all:
                        self.wrong.append((name, key, version))
                    if stale_s := self.age(key, version, sent):
                        self.stale.append((sent, name, stale_s))

    def age(self, key, version, sent):
        """For how long a newer version had been acknowledged when the read was sent; 0: there was none."""
        newer = [at for at, stored in self.acknowledged[key][-1000:] if stored > version and at < sent]
        return sent - newer[0] if newer else 0.0
