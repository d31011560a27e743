"""What was made: found, looked at, compared, taken away."""

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.page.watched import WatchedPage
from tests.processes import Comfyrail, server, wait_until

OpenPage = Callable[..., WatchedPage]
CONTEXT = {"permissions": ["clipboard-read", "clipboard-write"], "accept_downloads": True}


def noise(seed: int, title: str) -> dict[str, Any]:
    inputs = {"width": 320, "height": 200, "seed": seed, "scale": 40.0, "octaves": 3}
    return {
        "1": {"class_type": "NoiseImage", "inputs": {**inputs, "palette": "ocean"}},
        "2": {
            "class_type": "TextOnImage",
            "inputs": {
                "image": ["1", 0],
                "text": title,
                "size": 30,
                "color": "#ffffff",
                "position": "center",
            },
        },
        "3": {
            "class_type": "SaveImage",
            "inputs": {"images": ["2", 0], "filename_prefix": f"seed{seed}"},
        },
    }


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    """A server that has made a walrus, a heron and a newt."""
    with server(tmp_path_factory.mktemp("gallery") / "data") as process:
        process.wait_ready()
        for seed, title in enumerate(("walrus", "heron", "newt"), start=1):
            process.wait_for(process.submit(noise(seed, title)), "completed")

        def has_thumbnails() -> bool:
            found = process.call("GET", "/v1/outputs")[1]["outputs"]
            return len(found) == 3 and all(each["output"]["variants"] for each in found)

        wait_until(has_thumbnails, limit=60)
        yield process


def thumbs(page: Any) -> Any:
    return page.locator("main").get_by_role("link").filter(has=page.locator("img"))


def test_outputs_are_found_by_the_words_of_their_prompts(
    gallery: Comfyrail, open_page: OpenPage
) -> None:
    watched = open_page(gallery.url, "#/gallery")
    page = watched.page
    watched.wait(lambda: thumbs(page).count() == 3)
    page.get_by_role("searchbox", name=re.compile("Search")).fill("heron")
    watched.wait(lambda: thumbs(page).count() == 1)
    assert "heron" in page.url
    page.reload()
    watched.wait(lambda: thumbs(page).count() == 1)


def test_new_output_appears_without_a_reload(gallery: Comfyrail, open_page: OpenPage) -> None:
    watched = open_page(gallery.url, "#/gallery?text=ibex")
    page = watched.page
    page.get_by_role("searchbox", name=re.compile("Search")).wait_for()
    page.get_by_text("Live").wait_for()
    job_id = gallery.submit(noise(9, "ibex"))
    gallery.wait_for(job_id, "completed")
    watched.wait(lambda: thumbs(page).count() == 1)
    (output,) = gallery.execution(job_id)["result"]["outputs"]
    gallery.call("DELETE", f"/v1/outputs/{output['output_id']}")


def test_lightbox_is_in_the_url_and_goes_by_arrow_keys(
    gallery: Comfyrail, open_page: OpenPage
) -> None:
    watched = open_page(gallery.url, "#/gallery", **CONTEXT)
    page = watched.page
    thumbs(page).first.click()
    page.get_by_role("dialog", name=re.compile("seed3_")).wait_for()
    page.keyboard.press("ArrowRight")
    page.get_by_role("dialog", name=re.compile("seed2_")).wait_for()
    page.reload()
    dialog = page.get_by_role("dialog", name=re.compile("seed2_"))
    dialog.get_by_text("heron").first.wait_for()
    dialog.get_by_text("320 × 200").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile("#/gallery$"))


def test_parameters_are_copied(gallery: Comfyrail, open_page: OpenPage) -> None:
    page = open_page(gallery.url, "#/gallery?text=walrus", **CONTEXT).page
    thumbs(page).first.click()
    page.get_by_role("button", name="Copy parameters").click()
    page.get_by_text("Copied.").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "walrus" in copied
    assert "1" in re.findall(r"seed\D*(\d+)", copied)


def test_picture_is_run_again_with_changes(gallery: Comfyrail, open_page: OpenPage) -> None:
    page = open_page(gallery.url, "#/gallery?text=newt").page
    thumbs(page).first.click()
    page.get_by_role("link", name=re.compile("Run again")).click()
    field = page.get_by_role("textbox", name=re.compile("text"))
    field.first.wait_for()
    assert field.first.input_value() == "newt"
    seed = page.get_by_role("textbox", name=re.compile("seed")).first
    assert seed.input_value() == "3"  # the same picture, until something is changed


def test_two_pictures_are_compared_with_a_slider(gallery: Comfyrail, open_page: OpenPage) -> None:
    watched = open_page(gallery.url, "#/gallery")
    page = watched.page
    watched.wait(lambda: thumbs(page).count() == 3)
    page.get_by_role("button", name="Select", exact=True).click()
    boxes = page.get_by_role("checkbox", name=re.compile("Select seed"))
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.get_by_role("link", name="Compare").click()
    slider = page.get_by_role("slider", name="Line between A and B")
    slider.wait_for()
    before = float(slider.get_attribute("aria-valuenow") or "nan")
    slider.focus()
    page.keyboard.press("ArrowRight")
    watched.wait(lambda: float(slider.get_attribute("aria-valuenow") or "nan") > before)
    # What differs is named: the seeds and the words.
    differing = page.get_by_role("region", name="Parameters")
    differing.get_by_text("heron").first.wait_for()
    differing.get_by_text("newt").first.wait_for()
    page.get_by_role("tab", name="Difference").click()
    page.get_by_role("img", name="Difference").wait_for()


def test_chosen_outputs_come_as_one_zip(
    gallery: Comfyrail, open_page: OpenPage, tmp_path: Path
) -> None:
    watched = open_page(gallery.url, "#/gallery", **CONTEXT)
    page = watched.page
    watched.wait(lambda: thumbs(page).count() == 3)
    page.get_by_role("button", name="Select", exact=True).click()
    boxes = page.get_by_role("checkbox", name=re.compile("Select seed"))
    boxes.nth(0).check()
    boxes.nth(2).check()
    with page.expect_download() as begun:
        page.get_by_role("link", name="Zip").click()
    target = tmp_path / "chosen.zip"
    begun.value.save_as(target)
    with zipfile.ZipFile(target) as packed:
        names = packed.namelist()
        assert len(names) == 2
        with Image.open(io.BytesIO(packed.read(names[0]))) as picture:
            assert picture.size == (320, 200)


def test_link_for_others_is_made(gallery: Comfyrail, open_page: OpenPage) -> None:
    page = open_page(gallery.url, "#/gallery?text=walrus").page
    thumbs(page).first.click()
    page.get_by_role("button", name="Share link").click()
    page.get_by_role("button", name=re.compile("Make|Create")).click()
    link = page.get_by_label("Link", exact=True)
    link.wait_for()
    path = link.input_value().split("/", 3)[3]
    assert gallery.fetch("GET", f"/{path}")[0] == 200


def test_output_is_deleted_after_asking(gallery: Comfyrail, open_page: OpenPage) -> None:
    job_id = gallery.submit(noise(7, "dodo"))
    gallery.wait_for(job_id, "completed")
    watched = open_page(gallery.url, "#/gallery?text=seed7")
    page = watched.page
    thumbs(page).first.click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog", name=re.compile("Delete")).get_by_role(
        "button", name="Delete"
    ).click()
    watched.wait(lambda: thumbs(page).count() == 0)
    status, reply = gallery.call("GET", f"/v1/outputs?execution_id={job_id}")
    assert (status, reply["outputs"]) == (200, [])
