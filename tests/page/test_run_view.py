"""Choosing a workflow, filling in its form, running it."""

import base64
import io
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.graphs import picture
from tests.page.watched import WatchedPage
from tests.processes import Comfyrail

OpenPage = Callable[..., WatchedPage]
LARGE_SEED = 18446744073709551615


def noise(seed: int = 7) -> dict[str, Any]:
    inputs = {"width": 64, "height": 64, "seed": seed, "scale": 16.0, "octaves": 3}
    return {
        "1": {"class_type": "NoiseImage", "inputs": {**inputs, "palette": "ocean"}},
        "2": {
            "class_type": "SaveImage",
            "inputs": {"images": ["1", 0], "filename_prefix": "noise"},
        },
    }


def png_with(workflow: Any) -> bytes:
    info = PngInfo()
    info.add_text("prompt", json.dumps(workflow))
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(buffer, "PNG", pnginfo=info)
    return buffer.getvalue()


def drop(page: Any, selector: str, name: str, kind: str, content: bytes) -> None:
    """A file that is let go over the page, as a hand does it."""
    carried = page.evaluate_handle(
        """([text, name, type]) => {
            const carried = new DataTransfer();
            const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
            carried.items.add(new File([bytes], name, { type }));
            return carried;
        }""",
        [base64.b64encode(content).decode(), name, kind],
    )
    page.dispatch_event(selector, "dragover", {"dataTransfer": carried})
    page.dispatch_event(selector, "drop", {"dataTransfer": carried})


def job_in(url: str) -> str:
    match = re.search(r"#/jobs/([0-9a-f-]{36})", url)
    assert match is not None, url
    return match[1]


def graph_of(server: Comfyrail, job_id: str) -> Any:
    return server.call("GET", f"/v2/workflows/executions/{job_id}/workflow")[1]["workflow"]


def test_example_runs_with_two_clicks(running_server: Comfyrail, open_page: OpenPage) -> None:
    page = open_page(running_server.url).page
    page.get_by_role("link", name=re.compile("Palette")).click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url(re.compile("#/jobs/"))
    running_server.wait_for(job_in(page.url), "completed")


def test_dropped_json_is_run_with_the_values_of_the_form(
    running_server: Comfyrail, open_page: OpenPage
) -> None:
    page = open_page(running_server.url).page
    page.get_by_role("heading", name="Run a workflow").wait_for()
    drop(page, "main", "mine.json", "application/json", json.dumps(noise()).encode())
    page.get_by_role("heading", name="mine.json").wait_for()
    page.get_by_text(re.compile("All settings")).click()
    page.get_by_label("octaves", exact=True).fill("5")
    page.get_by_label("palette").select_option(label="fire")
    page.get_by_test_id("estimate").wait_for()
    page.wait_for_url(re.compile("fire"))
    page.reload()  # the file, and what was set, are still there
    page.get_by_text(re.compile("All settings")).click()
    assert page.get_by_label("octaves", exact=True).input_value() == "5"
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile("#/jobs/"))
    inputs = graph_of(running_server, job_in(page.url))["1"]["inputs"]
    assert (inputs["octaves"], inputs["palette"]) == (5, "fire")


def test_dropped_picture_opens_the_workflow_in_it(
    running_server: Comfyrail, open_page: OpenPage
) -> None:
    page = open_page(running_server.url).page
    page.get_by_role("heading", name="Run a workflow").wait_for()
    drop(page, "main", "made.png", "image/png", png_with(picture(color=0xABCDEF)))
    page.get_by_role("heading", name="made.png").wait_for()
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url(re.compile("#/jobs/"))
    assert graph_of(running_server, job_in(page.url))["1"]["inputs"]["color"] == 0xABCDEF


def test_picture_without_a_workflow_says_so(running_server: Comfyrail, open_page: OpenPage) -> None:
    watched = open_page(running_server.url)
    watched.expect("422")
    page = watched.page
    page.get_by_role("heading", name="Run a workflow").wait_for()
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "PNG")
    drop(page, "main", "photo.png", "image/png", buffer.getvalue())
    said = page.get_by_role("alert")
    said.wait_for()
    assert "workflow" in said.inner_text()
    page.get_by_role("link", name="Choose another").click()
    page.get_by_role("heading", name="Run a workflow").wait_for()


def test_wrong_value_is_told_at_its_field_and_cannot_be_run(
    running_server: Comfyrail, open_page: OpenPage
) -> None:
    watched = open_page(running_server.url, "#/run/example/aurora?v.2.octaves=99")
    page = watched.page
    field = page.get_by_role("textbox", name="octaves").first
    field.wait_for()
    page.get_by_text("99 is bigger than the maximum 12.").wait_for()
    assert field.get_attribute("aria-invalid") == "true"
    run = page.get_by_role("button", name="Run", exact=True)
    assert run.is_disabled()
    field.fill("3")
    page.get_by_text("99 is bigger than the maximum 12.").wait_for(state="detached")
    watched.wait(run.is_enabled)


def test_link_opens_the_form_with_its_values_in_another_browser(
    running_server: Comfyrail, open_page: OpenPage
) -> None:
    first = open_page(running_server.url, "#/run/example/poster").page
    first.get_by_label("Title: text").fill("ÄÖÜ & more = 5?")
    first.wait_for_url(re.compile("v.*text"))
    assert "more" in unquote(first.url)
    second = open_page(running_server.url, first.url.split("/", 3)[3]).page
    second.get_by_label("Title: text").wait_for()
    assert second.get_by_label("Title: text").input_value() == "ÄÖÜ & more = 5?"


def test_seeds_keep_all_their_digits(running_server: Comfyrail, open_page: OpenPage) -> None:
    page = open_page(running_server.url).page
    page.get_by_role("heading", name="Run a workflow").wait_for()
    drop(page, "main", "a.json", "application/json", json.dumps(noise(LARGE_SEED)).encode())
    field = page.get_by_role("textbox", name=re.compile("seed")).first
    field.wait_for()
    assert field.input_value() == str(LARGE_SEED)
    page.get_by_label("new with every run").first.uncheck()
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url(re.compile("#/jobs/"))
    assert graph_of(running_server, job_in(page.url))["1"]["inputs"]["seed"] == LARGE_SEED


def test_many_runs_have_seeds_of_their_own(running_server: Comfyrail, open_page: OpenPage) -> None:
    page = open_page(running_server.url).page
    page.get_by_role("heading", name="Run a workflow").wait_for()
    drop(page, "main", "a.json", "application/json", json.dumps(noise()).encode())
    page.get_by_role("spinbutton").fill("4")
    page.get_by_role("button", name="Run 4 times").click()
    page.wait_for_url(re.compile("#/batches/"))
    batch_id = page.url.rsplit("/", 1)[1].split("?")[0]
    members = running_server.call("GET", f"/v1/batches/{batch_id}/executions")[1]["executions"]
    assert len({each["parameters"]["1.seed"] for each in members}) == 4


def test_workflow_is_saved_to_the_library_and_found_there(
    running_server: Comfyrail, open_page: OpenPage
) -> None:
    page = open_page(running_server.url, "#/run/example/palette").page
    page.get_by_role("button", name="Save to library").click()
    page.get_by_role("textbox", name="Name", exact=True).fill("kept-colours")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url(re.compile("#/run/library/kept-colours"))
    page.goto(f"{running_server.url}/#/")
    page.get_by_role("link", name=re.compile("kept-colours")).click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url(re.compile("#/jobs/"))
    job = running_server.call("GET", f"/v2/workflows/executions/{job_in(page.url)}")[1]
    assert job["origin"]["workflow_id"] == "kept-colours@1"
    running_server.call("DELETE", "/v1/workflows/kept-colours")


def test_image_is_dropped_onto_its_field_and_its_mask_is_shown(
    running_server: Comfyrail, open_page: OpenPage
) -> None:
    workflow = {
        "1": {"class_type": "LoadImage", "inputs": {"image": ""}},
        "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
        "3": {
            "class_type": "SaveImage",
            "inputs": {"images": ["2", 0], "filename_prefix": "negative"},
        },
    }
    page = open_page(running_server.url).page
    page.get_by_role("heading", name="Run a workflow").wait_for()
    drop(page, "main", "negative.json", "application/json", json.dumps(workflow).encode())
    page.get_by_role("button", name="Choose an image").wait_for()
    buffer = io.BytesIO()
    half = Image.new("RGBA", (20, 10), (255, 0, 0, 255))
    half.paste((0, 0, 0, 0), (0, 0, 10, 10))
    half.save(buffer, "PNG")
    drop(page, ".run-file", "half.png", "image/png", buffer.getvalue())
    mask = page.get_by_role("img", name=re.compile("mask"))
    mask.wait_for()
    sides = mask.evaluate(
        """(canvas) => {
            const drawing = canvas.getContext("2d");
            const at = (x) => drawing.getImageData(x, 2, 1, 1).data[0];
            return [at(2), at(canvas.width - 3)];
        }"""
    )
    assert sides == [255, 0]
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url(re.compile("#/jobs/"))
    running_server.wait_for(job_in(page.url), "completed")


def test_file_of_another_browser_is_explained(
    running_server: Comfyrail, open_page: OpenPage
) -> None:
    page = open_page(running_server.url, "#/run/file/1-2").page
    assert "only in the browser where it was dropped" in page.get_by_role("alert").inner_text()


def test_server_without_a_comfyui_says_how_to_add_one(
    running_server: Comfyrail, open_page: OpenPage
) -> None:
    watched = open_page(running_server.url)
    watched.expect("422")
    page = watched.page
    page.get_by_role("button", name="Add a ComfyUI").click()
    page.get_by_label("Address of a running ComfyUI").fill("http://127.0.0.1:1")
    page.get_by_role("button", name="Add it").click()
    page.get_by_text(re.compile("does not answer")).wait_for()
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Not now").click()
    page.reload()
    page.get_by_role("heading", name="Examples").wait_for()
    assert page.get_by_text("Welcome to Comfyrail").count() == 0


def test_what_is_no_number_cannot_be_run(running_server: Comfyrail, open_page: OpenPage) -> None:
    watched = open_page(running_server.url, "#/run/example/aurora?v.2.octaves=4")
    page = watched.page
    page.get_by_text(re.compile("All settings")).click()
    field = page.get_by_role("textbox", name="octaves").first
    run = page.get_by_role("button", name="Run", exact=True)
    watched.wait(run.is_enabled)
    for typed in ("abc", "", "3.5"):
        field.fill(typed)
        page.get_by_text("This has to be a whole number.").wait_for()
        watched.wait(run.is_disabled)
        page.keyboard.press("Control+Enter")
    field.fill("5")
    watched.wait(run.is_enabled)
    assert "#/run/" in page.url


def test_another_link_to_the_same_form_is_another_value(
    running_server: Comfyrail, open_page: OpenPage
) -> None:
    watched = open_page(running_server.url, "#/run/example/poster?v.10.text=%22one%22")
    page = watched.page
    title = page.get_by_label("Title: text")
    title.fill("first")
    page.wait_for_url(re.compile("first"))
    page.evaluate(
        "link => { location.hash = link }", page.url.split("#")[1].replace("first", "two")
    )
    watched.wait(lambda: title.input_value() == "two")


def test_seeds_that_stay_are_the_same_in_every_run(
    running_server: Comfyrail, open_page: OpenPage
) -> None:
    page = open_page(running_server.url).page
    page.get_by_role("heading", name="Run a workflow").wait_for()
    drop(page, "main", "a.json", "application/json", json.dumps(noise(77)).encode())
    page.get_by_label("new with every run").first.uncheck()
    page.get_by_role("spinbutton").fill("3")
    page.get_by_text(re.compile("its seeds stay")).wait_for()
    page.get_by_role("button", name="Run 3 times").click()
    page.wait_for_url(re.compile("#/batches/"))
    batch_id = page.url.rsplit("/", 1)[1].split("?")[0]
    members = running_server.call("GET", f"/v1/batches/{batch_id}/executions")[1]["executions"]
    seeds = {
        graph_of(running_server, each["execution_id"])["1"]["inputs"]["seed"] for each in members
    }
    assert seeds == {77}
    page.go_back()
    box = page.get_by_label("new with every run").first
    box.wait_for()
    assert not box.is_checked()


def test_long_texts_survive_a_reload(running_server: Comfyrail, open_page: OpenPage) -> None:
    watched = open_page(running_server.url, "#/run/example/poster")
    page = watched.page
    text = "word " * 1500
    page.get_by_label("Title: text").fill(text)
    page.get_by_text(re.compile("too long for an address")).wait_for()
    page.wait_for_url(re.compile("draft=1"))
    page.reload()
    watched.wait(lambda: page.get_by_label("Title: text").input_value() == text)


def test_keys_that_are_hit_thrice_run_it_once(
    running_server: Comfyrail, open_page: OpenPage
) -> None:
    page = open_page(running_server.url, "#/run/example/palette").page
    page.get_by_test_id("estimate").wait_for()

    def jobs() -> int:
        return len(
            running_server.call("GET", "/v2/workflows/executions?limit=500")[1]["executions"]
        )

    before = jobs()
    page.evaluate(
        """() => {
            const press = () => document.body.dispatchEvent(
                new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true })
            );
            press(); press(); press();
        }"""
    )
    page.wait_for_url(re.compile("#/jobs/"))
    assert jobs() == before + 1


def test_saving_keeps_declared_inputs_and_what_was_set(
    running_server: Comfyrail, open_page: OpenPage
) -> None:
    body = {
        "workflow": noise(),
        "inputs": {"detail": {"target": "1.octaves", "type": "integer", "default": 4}},
    }
    assert running_server.call("PUT", "/v1/workflows/detailed", body)[0] == 201
    page = open_page(running_server.url, "#/run/library/detailed").page
    page.get_by_role("textbox", name="detail", exact=True).fill("7")
    page.get_by_role("button", name="Save to library").click()
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url(re.compile("detailed@2"))
    page.get_by_role("textbox", name="detail", exact=True).wait_for()
    page.get_by_test_id("estimate").wait_for()
    saved = running_server.call("GET", "/v1/workflows/detailed")[1]
    assert saved["version"] == 2
    assert saved["inputs"][0]["default"] == 7
    assert saved["workflow"]["1"]["inputs"]["octaves"] == 7
    running_server.call("DELETE", "/v1/workflows/detailed")


def test_nothing_is_run_while_a_file_is_on_its_way(
    running_server: Comfyrail, open_page: OpenPage
) -> None:
    workflow = {
        "1": {"class_type": "LoadImage", "inputs": {"image": "old.png"}},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    }
    watched = open_page(running_server.url)
    page = watched.page
    page.get_by_role("heading", name="Run a workflow").wait_for()
    drop(page, "main", "load.json", "application/json", json.dumps(workflow).encode())
    page.get_by_role("button", name="Choose an image").wait_for()
    held: list[Any] = []
    page.route("**/v1/uploads", lambda route: held.append(route))  # noqa: PLW0108 (Playwright takes no builtin)
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "PNG")
    drop(page, ".run-file", "new.png", "image/png", buffer.getvalue())
    run = page.get_by_role("button", name="Run", exact=True)
    watched.wait(run.is_disabled)
    watched.wait(lambda: bool(held))
    held[0].continue_()
    watched.wait(run.is_enabled)
    page.get_by_text("new.png").wait_for()
