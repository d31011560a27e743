"""A job as it runs: the same state after a reload, in another browser, and after a restart."""

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.graphs import picture, slow_picture
from tests.page.watched import WatchedPage
from tests.processes import Comfyrail, server
from tests.services.ports import free_ports

OpenPage = Callable[..., WatchedPage]
AWAY = ("ERR_CONNECTION_REFUSED", "ERR_INTERNET_DISCONNECTED", "WebSocket", "ERR_CONNECTION_RESET")


@pytest.fixture(scope="module")
def live_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    """At the same address after a restart."""
    data = tmp_path_factory.mktemp("live") / "data"
    with server(data, "--port", str(free_ports(1)[0])) as process:
        yield process.wait_ready()


@pytest.fixture(autouse=True)
def no_jobs_left(live_server: Comfyrail) -> Iterator[None]:
    yield
    live_server.end_all_jobs()


def failing() -> dict[str, Any]:
    graph = picture()
    mask = {"image": ["1", 0], "channel": "alpha"}
    graph["5"] = {"class_type": "ImageToMask", "inputs": mask, "_meta": {"title": "Alpha"}}
    graph["6"] = {"class_type": "MaskToImage", "inputs": {"mask": ["5", 0]}}
    graph["7"] = {"class_type": "PreviewImage", "inputs": {"images": ["6", 0]}}
    return graph


def is_running(watched: WatchedPage) -> None:
    watched.page.locator("main header .pill.processing").wait_for()


def test_progress_appears_within_two_seconds(live_server: Comfyrail, open_page: OpenPage) -> None:
    watched = open_page(live_server.url, "#/fleet")
    watched.page.get_by_text("Live").wait_for()
    job_id = live_server.submit(slow_picture(30))
    live_server.wait_for(job_id, "processing")
    begun = time.monotonic()
    watched.page.get_by_text(re.compile(r"\d+% on local-1")).wait_for()
    assert time.monotonic() - begun < 2.0


def test_job_shows_its_graph_and_the_state_of_every_node(
    live_server: Comfyrail, open_page: OpenPage
) -> None:
    job_id = live_server.submit(slow_picture(60))
    watched = open_page(live_server.url, f"#/jobs/{job_id}")
    page = watched.page
    is_running(watched)
    page.get_by_role("button", name=re.compile("^Delay, running")).wait_for()
    page.get_by_role("button", name=re.compile("^EmptyImage, (done|cached)")).wait_for()


def test_same_state_after_a_reload_and_in_another_browser(
    live_server: Comfyrail, open_page: OpenPage
) -> None:
    job_id = live_server.submit(slow_picture(8))
    first = open_page(live_server.url, f"#/jobs/{job_id}")
    is_running(first)
    first.page.reload()
    is_running(first)
    second = open_page(live_server.url, first.page.url.split("/", 3)[3])
    is_running(second)
    for each in (first, second):
        each.page.locator("main header .pill.completed").wait_for()
        each.page.get_by_role("img", name=re.compile("test_")).first.wait_for()


def test_page_goes_on_after_a_restart_of_the_server(
    live_server: Comfyrail, open_page: OpenPage
) -> None:
    job_id = live_server.submit(slow_picture(4))
    watched = open_page(live_server.url, f"#/jobs/{job_id}")
    watched.expect(*AWAY)
    is_running(watched)
    live_server.kill()
    watched.page.get_by_text("The server does not answer.").wait_for()
    live_server.start()
    watched.page.locator("main header .pill.completed").wait_for(timeout=60_000)
    watched.page.get_by_text("The server does not answer.").wait_for(state="detached")


def test_page_that_was_offline_shows_what_has_happened_since(
    live_server: Comfyrail, open_page: OpenPage
) -> None:
    job_id = live_server.submit(slow_picture(60))
    watched = open_page(live_server.url, f"#/jobs/{job_id}")
    watched.expect(*AWAY)
    is_running(watched)
    watched.page.context.set_offline(True)
    watched.page.get_by_text("The server does not answer.").wait_for()
    live_server.call("POST", f"/v2/workflows/executions/{job_id}/cancel")
    live_server.wait_for(job_id, "cancelled")
    watched.page.context.set_offline(False)
    watched.page.locator("main header .pill.cancelled").wait_for()


def test_job_is_cancelled(live_server: Comfyrail, open_page: OpenPage) -> None:
    job_id = live_server.submit(slow_picture(60))
    watched = open_page(live_server.url, f"#/jobs/{job_id}")
    is_running(watched)
    watched.page.get_by_role("button", name="Cancel").click()
    watched.page.locator("main header .pill.cancelled").wait_for()


def test_failed_job_says_what_happened_and_is_tried_again(
    live_server: Comfyrail, open_page: OpenPage
) -> None:
    job_id = live_server.submit(failing(), max_retries=0)
    live_server.wait_for(job_id, "failed")
    page = open_page(live_server.url, f"#/jobs/{job_id}").page
    page.locator("main header .pill.failed").wait_for()
    said = page.get_by_role("alert").first.inner_text()
    assert "alpha" in said.lower()
    page.get_by_role("button", name="Retry").first.click()
    page.wait_for_url(lambda url: "#/jobs/" in url and job_id not in url)
    page.locator("main header .pill.failed").wait_for()


def test_preview_is_shown_while_a_picture_is_made(
    live_server: Comfyrail, open_page: OpenPage
) -> None:
    inputs = {"width": 3000, "height": 3000, "seed": 1, "scale": 900.0, "octaves": 12}
    graph = {
        "1": {"class_type": "NoiseImage", "inputs": {**inputs, "palette": "fire"}},
        "2": {"class_type": "Delay", "inputs": {"value": ["1", 0], "seconds": 10}},
        "3": {
            "class_type": "SaveImage",
            "inputs": {"images": ["2", 0], "filename_prefix": "big"},
        },
    }
    watched = open_page(live_server.url, "#/jobs")
    job_id = live_server.submit(graph)
    watched.go(f"#/jobs/{job_id}")
    watched.page.get_by_role("img", name=re.compile("preview", re.IGNORECASE)).wait_for()


def test_job_that_does_not_exist_is_told_kindly(
    live_server: Comfyrail, open_page: OpenPage
) -> None:
    watched = open_page(live_server.url, "#/jobs/01a1e2e5-0000-7000-8000-000000000000")
    watched.expect("404")
    watched.page.get_by_text(
        re.compile("no (such )?(job|execution)", re.IGNORECASE)
    ).first.wait_for()
