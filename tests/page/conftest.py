"""The page in a real Chromium, against real servers and workers."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import chromium
from tests.page.watched import WatchedPage

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session", autouse=True)
def built_page() -> None:
    """`make test` has built it already; a plain pytest builds it here, once."""
    subprocess.run([sys.executable, str(ROOT / "scripts" / "build_page.py")], check=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Not for the whole session: while it is there no other test can have an event loop."""
    with chromium() as found:
        yield found


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., WatchedPage]]:
    """Opens a server's page in a browser of its own (another one with each call). Whatever a test
    does, at its end nothing has failed that the test did not expect.
    """
    opened: list[WatchedPage] = []

    def open_one(url: str, place: str = "#/", **options: Any) -> WatchedPage:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        context.set_default_timeout(20_000)
        page = WatchedPage(context.new_page(), url)
        opened.append(page)
        page.go(place)
        return page

    yield open_one
    for each in opened:
        each.page.context.close()
    for each in opened:
        each.check()
