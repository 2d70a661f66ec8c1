# SPDX-License-Identifier: BSD-3-Clause
"""A headless Chromium, controlled by the DevTools protocol over two pipes: JSON messages, each ended by a zero byte.

    with Browser(folder) as browser:
        page = browser.page("http://127.0.0.1:9150/", dark=True)
        page.until("document.body.dataset.looks > 2")
        page.screenshot("dark.png")
"""
import base64
import json
import os
import select
import shutil
import subprocess
import time

from farcached import deadline, until

ARGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--remote-debugging-pipe"]


class Browser:
    def __init__(self, folder):
        self.profile = os.path.join(folder, "profile")
        self.number = 0
        self.events = []
        self.unread = b""

    def __enter__(self):
        to_read, self.writes = os.pipe()
        self.reads, to_write = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4.
        command = "exec chromium %s --user-data-dir='%s' about:blank 3<&%d 4>&%d" % (
            " ".join(ARGS), self.profile, to_read, to_write)
        self.process = subprocess.Popen(["bash", "-c", command], pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        return self

    def __exit__(self, *_):
        try:
            self.ask("Browser.close")
            self.process.wait(deadline())
        except (OSError, subprocess.TimeoutExpired, RuntimeError):
            self.process.kill()
            self.process.wait()
        os.close(self.writes)
        os.close(self.reads)
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self, timeout):
        """The next message, or None at the timeout."""
        end = time.monotonic() + timeout
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.reads], [], [], max(0, end - time.monotonic()))
            if not ready:
                return None
            more = os.read(self.reads, 1 << 16)
            if not more:
                raise RuntimeError("chromium has ended")
            self.unread += more
        one, self.unread = self.unread.split(b"\0", 1)
        return json.loads(one)

    def ask(self, method, session=None, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if session:
            request["sessionId"] = session
        os.write(self.writes, json.dumps(request).encode() + b"\0")
        while (answer := self.message(3 * deadline())) is not None:  # its processes start slowly beside other work
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError("%s: %s" % (method, answer["error"]))
                return answer["result"]
            self.events.append(answer)
        raise RuntimeError(method + ": no answer")

    def page(self, url, **looks):
        return Page(self, url, **looks)


class Page:
    """One page with its settings: width and height, mobile or not, dark or light."""

    def __init__(self, browser, url, width=1280, height=900, phone=False, dark=False):
        self.browser, self.url = browser, url
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.ask(domain + ".enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=url)

    def ask(self, method, **params):
        return self.browser.ask(method, session=self.session, **params)

    def value(self, expression):
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def until(self, expression):
        """Waits for the expression on a loaded page; a page that is loading has no body yet."""
        return until(lambda: self.value("document.body && (%s)" % expression), bool)

    def press(self, key, code):
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=code, text=text if kind == "keyDown" else "",
                     windowsVirtualKeyCode={"Tab": 9, "Enter": 13, " ": 32}[key])

    def screenshot(self, path, whole=True):
        image = self.ask("Page.captureScreenshot", captureBeyondViewport=whole, format="png")
        with open(path, "wb") as f:
            f.write(base64.b64decode(image["data"]))

    def seen(self, method):
        """Parameters of this page's events of that name."""
        return [event["params"] for event in self.browser.events
                if event.get("method") == method and event.get("sessionId") == self.session]

    def complaints(self):
        """Errors of scripts, security policy and network. Not of a connection that the browser opened ahead and used too late: the
        daemon closes silent ones after five seconds, and the page fetches again."""
        entries = [event["entry"]["text"] for event in self.seen("Log.entryAdded") if event["entry"]["level"] == "error"]
        entries = [text for text in entries if "net::ERR_SOCKET_NOT_CONNECTED" not in text]
        return entries + [str(event["exceptionDetails"]) for event in self.seen("Runtime.exceptionThrown")]

    def requested(self):
        return [event["request"]["url"] for event in self.seen("Network.requestWillBeSent")]

    def accessible(self):
        """[(role, name)] of the accessibility tree."""
        nodes = self.ask("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node.get("ignored")]
