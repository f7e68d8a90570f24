"""Debian's Chromium without a screen, spoken to over a pipe by the DevTools protocol."""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time

PROGRAM = shutil.which("chromium")
_TIMEOUT_S = 60.0


class Browser:
    """A page in a browser of its own, as a context manager.

    Parameters
    ----------
    profile : pathlib.Path
        An empty folder.
    """

    def __init__(self, profile):
        self.seen = []
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def at_3_and_4():
            # First out of the way, since they may be 3 and 4 themselves.
            reader, writer = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reader, 3)
            os.dup2(writer, 4)

        self._process = subprocess.Popen(
            [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
             f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=at_3_and_4, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._number, self._session = b"", 0, None
        target = next(target for target in self.ask("Target.getTargets")["targetInfos"] if target["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._session = None
        with contextlib.suppress(AssertionError, OSError):
            self.ask("Browser.close")
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def ask(self, method, **parameters):
        """The answer to a command; events that come meanwhile are in `seen`."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            self.seen.append(answer)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def _read(self):
        deadline_s = time.monotonic() + _TIMEOUT_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline_s - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._in, 1 << 20)
            assert data, "the browser ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def events(self, method):
        """What has been seen of a kind."""
        return [event["params"] for event in self.seen if event.get("method") == method]

    def open(self, path, width, height=900, dark=False):
        """Show a file in a window of a size; returns the seconds until it was loaded and laid out."""
        self.seen = []
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        start_s = time.monotonic()
        self.ask("Page.navigate", url=path.resolve().as_uri())
        while not self.events("Page.loadEventFired"):
            self.seen.append(self._read())
        self.run("document.body.getBoundingClientRect().height")
        return time.monotonic() - start_s

    def run(self, expression):
        """The value of a JavaScript expression."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key):
        """Press and release a key, as a user would."""
        codes = {"Tab": 9, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key])

    def point(self, x, y):
        """Move the pointer to a place in the window."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path):
        """Keep the whole page as PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        answer = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                          clip={**size, "scale": 1})
        path.write_bytes(base64.b64decode(answer["data"]))
