import io
import json
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from PIL import Image

from comfyrail.engine.folders import Folders
from tests.engine.worker_client import WorkerClient, empty_image, preview, save


def png(color: tuple[int, ...] = (10, 20, 30), size: tuple[int, int] = (4, 3)) -> bytes:
    encoded = io.BytesIO()
    Image.new("RGBA" if len(color) == 4 else "RGB", size, color).save(encoded, "PNG")
    return encoded.getvalue()


def read(content: bytes) -> Image.Image:
    picture = Image.open(io.BytesIO(content))
    picture.load()
    return picture


async def test_an_uploaded_image_can_be_loaded(worker: WorkerClient) -> None:
    status, stored = await worker.upload(png(), "up.png")
    assert (status, stored) == (200, {"name": "up.png", "subfolder": "", "type": "input"})
    load = {"class_type": "LoadImage", "inputs": {"image": stored["name"]}}
    entry = await worker.run({"1": load, "2": preview("1")})
    assert entry["status"]["completed"]
    (item,) = entry["outputs"]["2"]["images"]
    _, content = await worker.get("/view", params=item)
    assert read(content).getpixel((0, 0)) == (10, 20, 30)


async def test_the_same_bytes_keep_the_name_and_others_get_a_new_one(
    worker: WorkerClient, folders: Folders
) -> None:
    names = [
        (await worker.upload(png((shade, 0, 0)), "up.png"))[1]["name"] for shade in (1, 1, 2, 2, 3)
    ]
    assert names == ["up.png", "up.png", "up (1).png", "up (1).png", "up (2).png"]
    _, stored = await worker.upload(png((9, 9, 9)), "up.png", overwrite="true")
    assert stored["name"] == "up.png"
    assert read((folders.input / "up.png").read_bytes()).getpixel((0, 0)) == (9, 9, 9)


async def test_an_upload_may_name_folder_and_subfolder(
    worker: WorkerClient, folders: Folders
) -> None:
    status, stored = await worker.upload(png(), "x.png", type="temp", subfolder="a/b")
    assert (status, stored) == (200, {"name": "x.png", "subfolder": "a/b", "type": "temp"})
    assert (folders.temp / "a" / "b" / "x.png").is_file()


@pytest.mark.parametrize(
    ("filename", "fields"),
    [
        ("../x.png", {}),
        ("/etc/x.png", {}),
        ("a/b.png", {}),
        ("a\\b.png", {}),
        ("..", {}),
        ("x" * 300 + ".png", {}),
        ("x.png", {"subfolder": "../.."}),
        ("x.png", {"subfolder": "/tmp"}),
        ("x.png", {"type": "zzz"}),
        ("link.png", {"overwrite": "true"}),
    ],
)
async def test_an_upload_that_leads_elsewhere_is_refused(
    filename: str, fields: dict[str, str], worker: WorkerClient, folders: Folders
) -> None:
    outside = folders.input.parent / "outside.png"
    (folders.input / "link.png").symlink_to(outside)
    before = sorted(folders.input.parent.rglob("*"))
    status, _ = await worker.upload(png(), filename, **fields)
    assert status == 400
    assert sorted(folders.input.parent.rglob("*")) == before


async def test_a_form_without_a_file_is_refused(worker: WorkerClient) -> None:
    form = aiohttp.FormData({"image": "text"}, default_to_multipart=True)
    async with worker.session.post("/upload/image", data=form) as reply:
        assert reply.status == 400
    assert (await worker.post("/upload/image", b"no form at all"))[0] == 400


async def test_a_mask_becomes_the_alpha_of_its_image(
    worker: WorkerClient, folders: Folders
) -> None:
    await worker.upload(png((10, 20, 30)), "photo.png")
    reference = json.dumps({"filename": "photo.png", "type": "input"})
    status, stored = await worker.upload(
        png((0, 0, 0, 77)), "masked.png", "/upload/mask", original_ref=reference
    )
    assert (status, stored["name"]) == (200, "masked.png")
    masked = read((folders.input / "masked.png").read_bytes())
    assert masked.getpixel((0, 0)) == (10, 20, 30, 77)


@pytest.mark.parametrize(
    ("reference", "mask", "status"),
    [
        ('{"filename": "photo.png", "type": "input"}', png((0, 0, 0, 9), (1, 1)), 400),
        ('{"filename": "photo.png", "type": "input"}', b"no image", 400),
        ('{"filename": "nope.png", "type": "input"}', png(), 404),
        ('{"filename": "../photo.png", "type": "input"}', png(), 400),
        ('{"filename": "photo.png", "type": "zzz"}', png(), 400),
        ("nope", png(), 400),
        ("[]", png(), 400),
    ],
)
async def test_a_mask_that_does_not_fit_is_refused(
    reference: str, mask: bytes, status: int, worker: WorkerClient
) -> None:
    await worker.upload(png(), "photo.png")
    reply = await worker.upload(mask, "masked.png", "/upload/mask", original_ref=reference)
    assert reply[0] == status


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({}, 404),
        ({"filename": ""}, 404),
        ({"filename": "nope.png"}, 404),
        ({"filename": "../x.png"}, 400),
        ({"filename": "/etc/passwd"}, 400),
        ({"filename": "x\0.png"}, 400),
        ({"filename": "x.png", "type": "zzz"}, 400),
        ({"filename": "x.png", "subfolder": "../.."}, 403),
        ({"filename": "x.png", "subfolder": "/etc"}, 403),
        ({"filename": "link.png"}, 403),
        ({"filename": "folder"}, 404),
        ({"filename": "n" * 5000}, 404),
    ],
)
async def test_a_view_of_what_is_not_there_to_see(
    query: dict[str, str], status: int, worker: WorkerClient, folders: Folders, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (folders.output / "link.png").symlink_to(tmp_path / "secret")
    (folders.output / "folder").mkdir()
    assert (await worker.get("/view", params=query))[0] == status


async def test_a_name_may_say_its_folder(worker: WorkerClient, folders: Folders) -> None:
    (folders.temp / "x.png").write_bytes(png())
    assert await worker.get("/view", params={"filename": "x.png [temp]"}) == (200, png())


@pytest.mark.parametrize(
    ("query", "content_type", "mode"),
    [
        ({"preview": "webp;50"}, "image/webp", "RGBA"),
        ({"preview": "jpeg"}, "image/jpeg", "RGB"),
        ({"preview": "zzz;x"}, "image/webp", "RGBA"),
        ({"channel": "rgb"}, "image/png", "RGB"),
        ({"channel": "a"}, "image/png", "RGBA"),
        ({}, "image/png", "RGBA"),
    ],
)
async def test_views_can_be_previews_and_single_channels(
    query: dict[str, str], content_type: str, mode: str, worker: WorkerClient, folders: Folders
) -> None:
    (folders.output / "x.png").write_bytes(png((10, 20, 30, 40)))
    params = {"filename": "x.png", **query}
    async with worker.session.get("/view", params=params) as reply:
        assert reply.status == 200
        assert reply.content_type == content_type
        assert reply.headers["Content-Disposition"] == 'filename="x.png"'
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert read(await reply.read()).mode == mode


async def test_a_preview_of_something_that_is_no_image_is_refused(
    worker: WorkerClient, folders: Folders
) -> None:
    (folders.output / "x.txt").write_bytes(b"text")
    assert (await worker.get("/view?filename=x.txt&preview=webp"))[0] == 400


@pytest.mark.parametrize("name", ["x.html", "x.svg", "x.js", "x.xhtml", "x.css", "x.xml"])
async def test_files_that_a_browser_would_run_are_downloads(
    name: str, worker: WorkerClient, folders: Folders
) -> None:
    (folders.output / name).write_bytes(b"<script>alert(1)</script>")
    async with worker.session.get("/view", params={"filename": name}) as reply:
        assert reply.content_type == "application/octet-stream"
        assert reply.headers["Content-Disposition"] == f'attachment; filename="{name}"'
        assert reply.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_file_name_cannot_break_out_of_its_header(
    worker: WorkerClient, folders: Folders
) -> None:
    name = 'x"; filename="evil\r\nSet-Cookie: a=b.png'
    (folders.output / name).write_bytes(png())
    async with worker.session.get("/view", params={"filename": name}) as reply:
        assert reply.status == 200
        assert "Set-Cookie" not in reply.headers
        assert reply.headers["Content-Disposition"].count('"') == 2


async def test_what_was_saved_is_what_is_viewed(worker: WorkerClient) -> None:
    prompt: dict[str, Any] = {"1": empty_image(0x336699, side=5), "2": save("1", "a/b/c")}
    (item,) = (await worker.run(prompt))["outputs"]["2"]["images"]
    assert item == {"filename": "c_00001_.png", "subfolder": "a/b", "type": "output"}
    _, content = await worker.get("/view", params=item)
    assert np.asarray(read(content)).tolist() == [[[0x33, 0x66, 0x99]] * 5] * 5
