"""A page whose errors are noted: of the console, of its scripts, of its requests."""

import re
from collections.abc import Callable
from typing import Any

NETWORK_CHANGED = "ERR_NETWORK_CHANGED"
"""Other tests make networks for containers meanwhile: the browser lets go of its requests then. The
page has to get over it, as over any break.
"""


class WatchedPage:
    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self.faults: list[str] = []
        self._expected = [NETWORK_CHANGED]
        page.on("console", self._note_console)
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        page.on("requestfailed", self._note_failed)
        page.on("response", self._note_response)

    def go(self, place: str) -> None:
        self.page.goto(f"{self.url}/{place}")

    def expect(self, *patterns: str) -> None:
        """Faults with these in them are what the test is about."""
        self._expected.extend(patterns)

    def check(self) -> None:
        left = [
            fault
            for fault in self.faults
            if not any(re.search(pattern, fault) for pattern in self._expected)
        ]
        if left:
            raise AssertionError("\n".join(left))

    def wait(self, condition: Callable[[], Any], seconds: float = 20.0) -> None:
        """Until it holds, asked with the page's own clock."""
        for _ in range(int(seconds / 0.1)):
            if condition():
                return
            self.page.wait_for_timeout(100)
        raise AssertionError(f"it did not come: {condition}")

    def _note_console(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            where = message.location.get("url", "")
            self.faults.append(f"console {message.type}: {message.text} ({where})")

    def _note_failed(self, request: Any) -> None:
        # A request that the page itself has given up is none that failed.
        if request.failure != "net::ERR_ABORTED":
            self.faults.append(f"request: {request.method} {request.url} {request.failure}")

    def _note_response(self, response: Any) -> None:
        if response.status >= 400:
            self.faults.append(f"reply: {response.status} {response.request.method} {response.url}")
