"""ComfyUI's own editor against two workers, in a real browser."""

import json
from pathlib import Path
from typing import Any

import pytest

from comfyrail.api.comfyui.editor import MISSING_PAGE
from comfyrail.api.comfyui.editor_files import PACKAGE, editor_folder
from tests.browser import chromium
from tests.processes import Comfyrail

EXPLAINED = (
    # As with a new ComfyUI: the user has no files yet, and the editor asks for them.
    "/userdata?dir=",
    "/userdata/comfy.templates.json",
    # The policy lets the page ask no other server, and the editor looks for news of itself.
    "https://api.comfy.org/",
)
WORKFLOW = {
    "last_node_id": 3,
    "last_link_id": 2,
    "nodes": [
        {
            "id": 1,
            "type": "EmptyImage",
            "pos": [50, 100],
            "size": [270, 130],
            "flags": {},
            "order": 0,
            "mode": 0,
            "inputs": [],
            "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [1], "slot_index": 0}],
            "properties": {},
            "widgets_values": [256, 192, 1, 0x336699],
        },
        {
            "id": 2,
            "type": "ImageInvert",
            "pos": [370, 100],
            "size": [200, 40],
            "flags": {},
            "order": 1,
            "mode": 0,
            "inputs": [{"name": "image", "type": "IMAGE", "link": 1}],
            "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [2], "slot_index": 0}],
            "properties": {},
            "widgets_values": [],
        },
        {
            "id": 3,
            "type": "SaveImage",
            "pos": [620, 60],
            "size": [320, 300],
            "flags": {},
            "order": 2,
            "mode": 0,
            "inputs": [{"name": "images", "type": "IMAGE", "link": 2}],
            "outputs": [],
            "properties": {},
            "widgets_values": ["from-the-editor"],
        },
    ],
    "links": [[1, 1, 0, 2, 0, "IMAGE"], [2, 2, 0, 3, 0, "IMAGE"]],
    "groups": [],
    "config": {},
    "extra": {},
    "version": 0.4,
}


def needs_editor() -> None:
    if editor_folder() is None:
        pytest.skip(f"NO EDITOR WAS TRIED: pip install {PACKAGE.replace('_', '-')}")


def test_the_editor_runs_a_workflow_on_the_fleet_and_shows_the_picture(
    house: Comfyrail, tmp_path: Path
) -> None:
    needs_editor()
    file = tmp_path / "workflow.json"
    file.write_text(json.dumps(WORKFLOW))
    troubles: list[str] = []

    def note(message: Any) -> None:
        if message.type == "error":
            troubles.append(f"{message.text} {message.location.get('url', '')}")

    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.on("console", note)
        page.on("pageerror", lambda error: troubles.append(f"page error: {error}"))
        frames: list[str | bytes] = []
        page.on("websocket", lambda socket: _listen(socket, frames))
        page.goto(f"{house.url}/editor")
        page.wait_for_function(
            "window.app?.graph && !document.querySelector('#splash-loader')", timeout=60_000
        )
        page.set_input_files("#comfy-file-input", str(file))
        page.wait_for_function("window.app.graph._nodes.length === 3")
        page.get_by_role("button", name="Run", exact=True).first.click()
        page.wait_for_function("window.app.nodeOutputs?.['3']?.images?.length === 1")
        page.wait_for_function("window.app.graph.getNodeById(3).imgs?.[0]?.naturalWidth === 256")
        output = page.evaluate("window.app.nodeOutputs['3'].images[0]")
        told = {json.loads(each)["type"] for each in frames if isinstance(each, str)}

    assert output["filename"].startswith("from-the-editor_")
    assert {"status", "execution_start", "executing", "executed", "execution_success"} <= told
    assert [each for each in troubles if not any(why in each for why in EXPLAINED)] == []
    history = house.call("GET", "/history?max_items=1")[1]
    [entry] = history.values()
    assert entry["prompt"][3]["extra_pnginfo"]["workflow"]["nodes"][0]["type"] == "EmptyImage"


def test_the_editor_begins_with_a_workflow_that_the_fleet_can_run(house: Comfyrail) -> None:
    needs_editor()
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(f"{house.url}/editor")
        page.wait_for_function(
            "window.app?.graph?._nodes.length && !document.querySelector('#splash-loader')",
            timeout=60_000,
        )
        assert page.evaluate("window.app.graph._nodes.map((node) => node.type)") == [
            "GradientImage",
            "TextOnImage",
            "SaveImage",
        ]
        assert not page.get_by_test_id("login-button").first.is_visible()
        page.get_by_role("button", name="Run", exact=True).first.click()
        page.wait_for_function("window.app.graph.getNodeById(3).imgs?.[0]?.naturalWidth === 640")


def _listen(socket: Any, frames: list[str | bytes]) -> None:
    socket.on("framereceived", lambda frame: frames.append(frame))  # noqa: PLW0108 - Playwright sets an attribute


def test_the_editor_lies_in_a_folder_and_gives_nothing_but_its_files(house: Comfyrail) -> None:
    needs_editor()
    status, content, headers = house.fetch("GET", "/editor/")
    assert (status, b"<title>ComfyUI</title>" in content) == (200, True)
    policy = headers["content-security-policy"]
    assert "connect-src 'self'" in policy
    scripts = policy.partition("script-src")[2].partition(";")[0]
    assert "unsafe-inline" not in scripts
    for path in ("/editor/..%2f__init__.py", "/editor/../../etc/passwd", "/editor/nope.js"):
        assert house.fetch("GET", path)[0] == 404
    assert house.fetch("GET", "/editor/user.css")[0] == 200
    assert house.call("GET", "/editor/api/queue")[0] == 200


def test_without_the_package_the_page_says_how_to_get_it() -> None:
    assert "pip install '.[editor]'" in MISSING_PAGE
