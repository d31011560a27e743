"""Thousands of jobs in the history stay smooth: only the rows in sight are there."""

import re
from collections.abc import Callable, Iterator

import pytest

from tests.graphs import picture
from tests.page.watched import WatchedPage
from tests.processes import Comfyrail, server

OpenPage = Callable[..., WatchedPage]
MANY = 5_000
IN_SIGHT = 60


@pytest.fixture(scope="module")
def busy_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    """Its queue stands still: what is in it stays."""
    with server(tmp_path_factory.mktemp("history") / "data") as process:
        process.wait_ready()
        process.call("POST", "/v1/queue/pause", {"reason": "so that they stay"})
        items = [{"input_params": {"1.color": number}} for number in range(MANY)]
        body = {"name": "many", "workflow": picture(), "items": items}
        status, reply = process.call("POST", "/v1/batches", body)
        assert status == 202, reply
        yield process


def rows(page: WatchedPage) -> int:
    return int(page.page.locator("main ul.virtual > li").count())


def test_only_rows_in_sight_are_in_the_page(busy_server: Comfyrail, open_page: OpenPage) -> None:
    watched = open_page(busy_server.url, "#/jobs")
    page = watched.page
    page.locator("main ul.virtual > li").first.wait_for()
    assert rows(watched) <= IN_SIGHT
    height = "document.documentElement.scrollHeight"
    # Down to the oldest one, page by page.
    everything = page.locator(f'[aria-setsize="{MANY}"]')

    def is_all() -> bool:
        page.evaluate(f"scrollTo(0, {height})")
        return bool(everything.count())

    watched.wait(is_all, seconds=60)
    page.evaluate(f"scrollTo(0, {height})")
    page.locator(f'[aria-posinset="{MANY}"]').wait_for()
    assert rows(watched) <= IN_SIGHT


def test_new_job_comes_on_top_without_a_reload(busy_server: Comfyrail, open_page: OpenPage) -> None:
    page = open_page(busy_server.url, "#/jobs").page
    page.locator("main ul.virtual > li").first.wait_for()
    job_id = busy_server.submit(picture())
    page.locator('[aria-posinset="1"]').get_by_text(re.compile(job_id[-8:])).first.wait_for()
    busy_server.call("POST", f"/v2/workflows/executions/{job_id}/cancel")
    page.locator('[aria-posinset="1"]').get_by_text("cancelled").wait_for()


def test_job_is_found_by_its_id_and_by_its_words(
    busy_server: Comfyrail, open_page: OpenPage
) -> None:
    graph = picture()
    graph["3"]["_meta"]["title"] = "Quokka"
    job_id = busy_server.submit(graph)
    for wanted in ("quokka", job_id, job_id[-8:]):
        watched = open_page(busy_server.url, "#/jobs")
        page = watched.page
        page.get_by_role("searchbox").fill(wanted)
        page.locator('[aria-setsize="1"]').get_by_text(re.compile(job_id[-8:])).first.wait_for()
        assert wanted in page.url
    busy_server.call("POST", f"/v2/workflows/executions/{job_id}/cancel")


def test_filter_by_state_is_in_the_url(busy_server: Comfyrail, open_page: OpenPage) -> None:
    job_id = busy_server.submit(picture())
    busy_server.call("POST", f"/v2/workflows/executions/{job_id}/cancel")
    page = open_page(busy_server.url, "#/jobs?status=cancelled").page
    first = page.locator('[aria-posinset="1"]')
    first.wait_for()
    assert "cancelled" in first.inner_text()
