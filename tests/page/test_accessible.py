"""Every view by axe, in both colours and at a phone's width; and by keyboard."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page.views import Scene, set_scene
from tests.page.watched import WatchedPage
from tests.processes import Comfyrail, server

OpenPage = Callable[..., WatchedPage]
AXE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
PHONE = {"width": 390, "height": 844}
VIEWS = tuple(Scene("", "", "", ("", ""), "").places)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Comfyrail, Scene]]:
    data = tmp_path_factory.mktemp("axe") / "data"
    with server(data, COMFYRAIL_WEBHOOK_NETWORKS="127.0.0.0/8") as process:
        process.wait_ready()
        yield process, set_scene(process)


def faults_of(page: Any) -> list[str]:
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate(
        """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
            .filter((each) => ["serious", "critical"].includes(each.impact))
            .map((each) => `${each.id}: ${each.nodes.map((one) => one.html).join(" | ")}`)"""
    )
    return [str(each) for each in found]


def settle(page: Any) -> None:
    """Until the view is there and has loaded what it shows."""
    page.locator("main h1").first.wait_for()
    page.locator("main .loading").first.wait_for(state="detached")
    page.wait_for_load_state("networkidle")


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_no_serious_fault(
    stage: tuple[Comfyrail, Scene], open_page: OpenPage, view: str
) -> None:
    process, scene = stage
    faults = {}
    for colours, viewport in (("light", None), ("dark", PHONE)):
        options = {"color_scheme": colours, **({"viewport": viewport} if viewport else {})}
        page = open_page(process.url, scene.places[view], **options).page
        settle(page)
        faults[colours] = faults_of(page)
        across = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert across <= 0, f"{view} is wider than the window by {across} pixels"
    assert faults == {"light": [], "dark": []}


def test_example_is_run_by_keyboard_alone(
    stage: tuple[Comfyrail, Scene], open_page: OpenPage
) -> None:
    process, _ = stage
    page = open_page(process.url).page
    page.get_by_role("heading", name="Examples").wait_for()

    def tab_to(name: str, limit: int = 60) -> None:
        for _ in range(limit):
            page.keyboard.press("Tab")
            focused = page.evaluate("document.activeElement?.innerText ?? ''")
            if re.search(name, focused):
                return
        raise AssertionError(f"Tab does not lead to {name}")

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "Skip to the content"
    page.keyboard.press("Enter")
    tab_to("Palette")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Palette").wait_for()
    tab_to("^Run$")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("#/jobs/"))
