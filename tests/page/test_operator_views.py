"""The views of those who run a server: queue, workers, webhooks, usage, keys."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.graphs import picture, slow_picture
from tests.page.watched import WatchedPage
from tests.processes import Comfyrail, server

OpenPage = Callable[..., WatchedPage]


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    """One whose queue may be paused and whose worker may be drained."""
    data = tmp_path_factory.mktemp("page") / "data"
    with server(data, COMFYRAIL_WEBHOOK_NETWORKS="127.0.0.0/8") as process:
        yield process.wait_ready()


@contextmanager
def receiver(status: int) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Answers every call with a status, and keeps what it was told."""
    told: list[dict[str, object]] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    listening = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}/hook", told
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def test_queue_shows_what_runs_and_what_waits_and_lets_go_of_it(
    own_server: Comfyrail, open_page: OpenPage
) -> None:
    running = own_server.submit(slow_picture(60))
    own_server.wait_for(running, "processing")
    waiting = own_server.submit(picture())
    page = open_page(own_server.url, "#/fleet").page
    rows = page.get_by_role("row")
    page.get_by_role("cell", name="now", exact=True).wait_for()
    assert rows.filter(has_text=running[-8:]).get_by_role("progressbar").count() == 1
    rows.filter(has_text=waiting[-8:]).get_by_role("button", name=re.compile("Cancel")).click()
    own_server.wait_for(waiting, "cancelled")
    rows.filter(has_text=waiting[-8:]).wait_for(state="detached")
    rows.filter(has_text=running[-8:]).get_by_role("button", name=re.compile("Cancel")).click()
    page.get_by_text("Nothing runs or waits").wait_for()


def test_queue_is_paused_with_a_reason_and_resumed(
    own_server: Comfyrail, open_page: OpenPage
) -> None:
    page = open_page(own_server.url, "#/fleet").page
    other = open_page(own_server.url, "#/fleet").page
    other.get_by_role("button", name="Pause the queue").wait_for()
    page.get_by_role("button", name="Pause the queue").click()
    page.get_by_label("Reason").fill("new disk")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_text(re.compile("new disk")).wait_for()
    other.get_by_text(re.compile("new disk")).wait_for()  # by the stream, without a reload
    page.get_by_role("button", name="Resume the queue").click()
    other.get_by_role("button", name="Pause the queue").wait_for()


def test_worker_is_cordoned_and_taken_back_and_shows_its_log(
    own_server: Comfyrail, open_page: OpenPage
) -> None:
    page = open_page(own_server.url, "#/fleet?tab=workers").page
    card = page.get_by_test_id("worker-local-1")
    card.get_by_role("button", name="Cordon").click()
    card.get_by_text("cordoned").wait_for()
    card.get_by_role("button", name="Take it back").click()
    card.get_by_text("idle").wait_for()
    card.get_by_role("button", name="Log").click()
    page.get_by_role("dialog", name="Log of local-1").wait_for()
    page.reload()  # what is open is in the URL
    page.get_by_role("dialog", name="Log of local-1").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile(r"#/fleet\?tab=workers$"))


def test_worker_shows_what_it_runs(own_server: Comfyrail, open_page: OpenPage) -> None:
    page = open_page(own_server.url, "#/fleet?tab=workers").page
    card = page.get_by_test_id("worker-local-1")
    card.get_by_text("Runs nothing.").wait_for()
    job_id = own_server.submit(slow_picture(60))
    card.get_by_role("link", name=re.compile(job_id[-8:])).wait_for()
    own_server.call("POST", f"/v2/workflows/executions/{job_id}/cancel")
    card.get_by_text("Runs nothing.").wait_for()


def test_endpoint_is_added_tested_and_told(own_server: Comfyrail, open_page: OpenPage) -> None:
    with receiver(204) as (url, told):
        page = open_page(own_server.url, "#/webhooks").page
        page.get_by_role("button", name="Add an endpoint").click()
        page.get_by_label("Address").fill(url)
        page.get_by_role("button", name="Add it").click()
        page.get_by_role("dialog", name=re.compile("secret")).get_by_text(
            re.compile("^whsec_")
        ).wait_for()
        page.get_by_role("button", name="I have it").click()
        page.get_by_role("button", name="Send a test").click()
        page.get_by_text(re.compile("It arrived")).wait_for()
        assert len(told) == 1
        job_id = own_server.submit(picture())
        own_server.wait_for(job_id, "completed")
        page.get_by_role("tab", name="Deliveries").click()
        row = page.get_by_role("row").filter(has_text=job_id[-8:])
        row.get_by_text("delivered").wait_for()
        row.get_by_role("button", name="Details").click()
        page.get_by_role("dialog").get_by_text(re.compile("answered 204")).wait_for()
        page.get_by_role("button", name="Close").click()
        page.get_by_role("tab", name="Endpoints").click()
        page.get_by_role("button", name="Remove").click()
        page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        page.get_by_text("Nobody is told anything").wait_for()


def test_dead_letter_is_sent_once_more(own_server: Comfyrail, open_page: OpenPage) -> None:
    with receiver(422) as (url, told):
        body = {"url": url, "events": ["execution.completed"]}
        status, made = own_server.call("POST", "/v1/webhooks", body)
        assert status == 201
        job_id = own_server.submit(picture())
        own_server.wait_for(job_id, "completed")
        watched = open_page(own_server.url, "#/webhooks?tab=deliveries&state=dead")
        page = watched.page
        page.get_by_role("row").filter(has_text=job_id[-8:]).wait_for()
        page.get_by_role("tab", name="Dead letters").click()
        page.get_by_role("row").filter(has_text=job_id[-8:]).wait_for()
        page.get_by_role("button", name="Send all once more").click()
        page.get_by_text(re.compile("will be sent once more")).wait_for()
        watched.wait(lambda: len(told) >= 2)
        own_server.call("DELETE", f"/v1/webhooks/{made['webhook']['webhook_id']}")


def test_wrong_address_of_an_endpoint_is_told_at_its_field(
    own_server: Comfyrail, open_page: OpenPage
) -> None:
    watched = open_page(own_server.url, "#/webhooks")
    watched.expect("422")
    page = watched.page
    page.get_by_role("button", name="Add an endpoint").click()
    field = page.get_by_label("Address")
    field.fill("ftp://example.com")
    page.get_by_role("button", name="Add it").click()
    page.locator("[aria-invalid=true]").wait_for()
    assert page.locator(".field.wrong .fault").inner_text() != ""


def test_server_that_asks_for_no_keys_makes_none(
    own_server: Comfyrail, open_page: OpenPage
) -> None:
    page = open_page(own_server.url, "#/keys").page
    page.get_by_text(re.compile("asks nobody for a key")).wait_for()
    assert page.get_by_role("button", name="Make a key").count() == 0


def test_usage_counts_jobs_as_they_end(own_server: Comfyrail, open_page: OpenPage) -> None:
    watched = open_page(own_server.url, "#/usage")
    chart = watched.page.get_by_role("img", name=re.compile("Jobs by day"))
    chart.wait_for()

    def completed() -> int:
        match = re.search(r"(\d+) done", chart.get_attribute("aria-label") or "")
        return int(match[1]) if match else -1

    before = completed()
    own_server.wait_for(own_server.submit(picture()), "completed")
    watched.wait(lambda: completed() == before + 1)


def test_unknown_address_leads_back_to_the_start(
    own_server: Comfyrail, open_page: OpenPage
) -> None:
    page = open_page(own_server.url, "#/no/such/view").page
    page.get_by_role("link", name="Go to the start").click()
    page.get_by_role("heading", name="Run a workflow").wait_for()


def test_colours_are_kept(own_server: Comfyrail, open_page: OpenPage) -> None:
    page = open_page(own_server.url, color_scheme="light").page
    page.get_by_role("button", name=re.compile("Colours")).click()
    page.get_by_role("button", name="Colours: light").click()
    page.reload()
    page.get_by_role("button", name="Colours: dark").wait_for()
    background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert background == "rgb(17, 21, 27)"
