"""Batches: a grid of what differs, filled as it is made."""

import re
from collections.abc import Callable
from typing import Any

from tests.graphs import slow_picture
from tests.page.watched import WatchedPage
from tests.processes import Comfyrail

OpenPage = Callable[..., WatchedPage]


def grid(seconds: float = 0.2) -> dict[str, Any]:
    return {
        "name": "Sizes and colours",
        "workflow": slow_picture(seconds),
        "priority": 9,
        "grid": {"1.color": [0xFF0000, 0x00FF00], "1.width": [64, 96, 128]},
    }


def test_grid_has_its_axes_and_fills_while_one_looks(
    running_server: Comfyrail, open_page: OpenPage
) -> None:
    batch_id = running_server.call("POST", "/v1/batches", grid())[1]["batch_id"]
    watched = open_page(running_server.url, f"#/batches/{batch_id}")
    page = watched.page
    page.get_by_role("heading", name="Sizes and colours").wait_for()
    for width in ("64", "96", "128"):
        page.get_by_role("columnheader", name=width, exact=True).wait_for()
    watched.wait(lambda: page.locator("main table img").count() == 6, seconds=60)
    page.locator("main .pill.completed").first.wait_for()


def test_two_of_a_batch_are_compared(running_server: Comfyrail, open_page: OpenPage) -> None:
    batch_id = running_server.call("POST", "/v1/batches", grid(0))[1]["batch_id"]
    watched = open_page(running_server.url, f"#/batches/{batch_id}")
    page = watched.page
    watched.wait(lambda: page.locator("main table img").count() == 6, seconds=60)
    boxes = page.locator("main").get_by_role("checkbox")
    boxes.nth(0).check()
    boxes.nth(4).check()
    page.get_by_role("link", name=re.compile("Compare")).click()
    page.get_by_role("slider", name="Line between A and B").wait_for()


def test_batch_is_cancelled(running_server: Comfyrail, open_page: OpenPage) -> None:
    batch_id = running_server.call("POST", "/v1/batches", grid(60))[1]["batch_id"]
    page = open_page(running_server.url, "#/batches").page
    page.get_by_role("link", name="Sizes and colours").first.click()
    page.wait_for_url(re.compile(batch_id))
    page.get_by_role("button", name=re.compile("Cancel")).first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=re.compile("Cancel")).click()
    page.locator("main .pill.cancelled").first.wait_for()
