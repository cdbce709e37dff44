"""Headless Chromium, driven over a pipe by its DevTools protocol: no port, no package."""

import itertools
import json
import select
import shutil
import subprocess
import time
from base64 import b64decode
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --mute-audio"
    " --disable-background-networking --disable-component-update --disable-sync --remote-debugging-pipe"
)
PATIENCE = 30.0  # seconds; a machine may be busy


class Browser:
    """One page at a time. What it complains of, and whatever it asks the network for, is remembered."""

    def __init__(self, profile: Path):
        # The pipe's two ends must be descriptors 3 and 4.
        command = ["sh", "-c", 'exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null']
        command += [str(CHROMIUM), *FLAGS.split(), f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.numbers, self.unread = itertools.count(1), b""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.loaded = False
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.process.stdin.write(json.dumps(message).encode() + b"\0")
        self.process.stdin.flush()
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self._hear(answer)

    def open(
        self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False, mobile: bool = False
    ) -> None:
        self.complaints, self.requests, self.loaded = [], [], False
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.as_uri())
        while not self.loaded:
            self._hear(self._next())
        self.settle()

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page; the protocol may evaluate what the page itself may not."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def settle(self) -> None:
        """Until what was asked for is drawn."""
        self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def place(self, selector: str) -> dict[str, float]:
        self.ask(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
        return self.ask(f"document.querySelector({selector!r}).getBoundingClientRect().toJSON()")

    def mouse(self, kind: str, x: float, y: float, **rest: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **rest)

    def click(self, x: float, y: float) -> None:
        self.drag(x, y, x, y)

    def drag(self, x: float, y: float, to_x: float, to_y: float) -> None:
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for share in (0.3, 0.6, 1.0):
            self.mouse("mouseMoved", x + share * (to_x - x), y + share * (to_y - y), button="left", buttons=1)
        self.mouse("mouseReleased", to_x, to_y, button="left", clickCount=1)
        self.settle()

    def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        content = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(b64decode(content["data"]))

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            piece = self.process.stdout.read1(1 << 20) if ready else b""
            if not piece:
                raise TimeoutError("Chromium does not answer")
            self.unread += piece
        message, _, self.unread = self.unread.partition(b"\0")
        return json.loads(message)

    def _hear(self, event: dict[str, Any]) -> None:
        match event.get("method"):
            case "Page.loadEventFired":
                self.loaded = True
            case "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Page.javascriptDialogOpening":
                self.complaints.append(json.dumps(event["params"]))
            case "Log.entryAdded":
                self.complaints.append(event["params"]["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(event["params"]["request"]["url"][:100])
