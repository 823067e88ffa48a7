"""A headless Chromium, driven over a pipe by the DevTools protocol."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")


def find_browser() -> str | None:
    """Return the path of a browser: KAFKALOG_BROWSER, or the first one that is installed."""
    return os.environ.get("KAFKALOG_BROWSER") or next(filter(None, map(shutil.which, _NAMES)), None)


class Tab:
    """A tab of the browser.

    Attributes:
        events: the (method, parameters) of all events so far.
    """

    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._requests, self._answers = requests, answers
        self._session: dict[str, str] = {}
        self._last_id = 0
        self.events: list[tuple[str, dict[str, Any]]] = []
        target = self.call("Target.createTarget", url="about:blank")
        session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = {"sessionId": session["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method and return its result. Raises AssertionError if it fails."""
        self._last_id += 1
        request = {"id": self._last_id, "method": method, "params": parameters, **self._session}
        self._requests.write(json.dumps(request).encode() + b"\0")
        self._requests.flush()
        while True:
            message = self._next_message()
            if message.get("id") == self._last_id:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    def open(self, path: Path) -> None:
        """Open a page and wait until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while "Page.loadEventFired" not in (name for name, _ in self.events):
            self._next_message()

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def _next_message(self) -> dict[str, Any]:
        data = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser has ended"
            data += byte
        message: dict[str, Any] = json.loads(data)
        if "method" in message:
            self.events.append((message["method"], message["params"]))
        return message


@contextmanager
def open_tab(browser: str, folder: Path) -> Iterator[Tab]:
    """Start a browser with a tab. Its profile is in `folder`."""
    for_requests, requests = os.pipe()
    answers, for_answers = os.pipe()

    def connect() -> None:
        """Give the browser its pipes as the descriptors 3 and 4."""
        moved = os.dup(for_requests), os.dup(for_answers)
        os.dup2(moved[0], 3, inheritable=True)
        os.dup2(moved[1], 4, inheritable=True)

    process = subprocess.Popen(
        [browser, *_OPTIONS, "--remote-debugging-pipe", f"--user-data-dir={folder}"],
        preexec_fn=connect,
        close_fds=False,
        stderr=subprocess.DEVNULL,
    )
    os.close(for_requests)
    os.close(for_answers)
    try:
        with os.fdopen(requests, "wb") as sending, os.fdopen(answers, "rb") as receiving:
            yield Tab(sending, receiving)
    finally:
        process.kill()
        process.wait()
