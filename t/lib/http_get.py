# SPDX-License-Identifier: BSD-3-Clause
"""Helpers for tests of --http: a daemon's port, requests, and parsing of metrics.

    with Daemon(*http_args(), env=http_env(folder)) as d:
        status, headers, body = get(http_port(folder), "/metrics")
"""
import http.client
import os
import re

from farcached import deadline, until

SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def http_args():
    return ["--http", "0"]


def http_env(folder):
    return {"FARCACHED_HTTP_PORT_FILENAME": os.path.join(folder, "http-port")}


def http_port(folder):
    path = os.path.join(folder, "http-port")
    until(lambda: os.path.exists(path), bool)
    with open(path) as f:
        return int(f.read().split()[-1])


def get(port, path, method="GET", headers=None, timeout=None):
    """(status, {header in lower case: value}, body as text)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout or deadline())
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode("utf-8")
    finally:
        connection.close()


def samples(text):
    """{(name, ((label, value), ...)): number} of an exposition; an invalid line is an error."""
    found = {}
    for line in text.split("\n"):
        if not line or line.startswith("#"):
            continue
        m = SAMPLE.match(line)
        if not m:
            raise ValueError("no sample: " + line)
        key = (m.group(1), tuple(LABEL.findall(m.group(2) or "")))
        if key in found:
            raise ValueError("twice: " + line)
        found[key] = float(m.group(3))
    return found


def value(text, name, **labels):
    """The sum of the samples of that name with these labels; None if there are none."""
    found = [number for (known, has), number in samples(text).items()
             if known == name and set(labels.items()) <= set(has)]
    return sum(found) if found else None
