"""/view and the uploads."""

import io
import json
from typing import Any
from urllib.parse import urlencode

import pytest
from PIL import Image

from tests.comfyui_surface.parts import Script
from tests.graphs import picture
from tests.processes import Comfyrail, wait_until


def png(color: tuple[int, ...] = (1, 2, 3), size: tuple[int, int] = (8, 6)) -> bytes:
    content = io.BytesIO()
    mode = "RGBA" if len(color) == 4 else "RGB"
    Image.new(mode, size, color).save(content, "png")
    return content.getvalue()


def opened(content: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(content))
    image.load()
    return image


def made(script: Script, prompt: Any) -> dict[str, str]:
    prompt_id = script.queue(prompt)["prompt_id"]
    history = wait_until(lambda: script.get(f"/history/{prompt_id}"))
    file: dict[str, str] = history[prompt_id]["outputs"]["3"]["images"][0]
    return file


def test_files_of_one_name_from_different_jobs_are_told_apart(script: Script) -> None:
    files = []
    for color in (0x000000, 0xFFFFFF):
        prompt = picture(color)
        prompt["3"]["inputs"]["filename_prefix"] = f"deep/folder/twin{color:x}"
        files.append(made(script, prompt))

    pixels = [opened(script.view(file)).getpixel((0, 0)) for file in files]

    assert pixels == [(255, 255, 255), (0, 0, 0)]
    assert all(file["subfolder"].endswith("/deep/folder") for file in files)
    # Without the job it is the newest of the name.
    newest = {"filename": files[1]["filename"], "subfolder": "deep/folder"}
    assert opened(script.view(newest)).getpixel((0, 0)) == (0, 0, 0)


def test_a_view_makes_previews_and_single_channels(plain: Script) -> None:
    file = made(plain, picture(0x336699))

    assert opened(plain.view(file, preview="webp;80")).format == "WEBP"
    assert opened(plain.view(file, preview="jpeg;50")).format == "JPEG"
    assert opened(plain.view(file, channel="rgb")).mode == "RGB"
    assert opened(plain.view(file, channel="a")).getpixel((0, 0)) == (0, 0, 0, 255)
    assert plain.fetch("/view?" + urlencode({**file, "channel": "zz"}))[0] == 400


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({}, 404),
        ({"filename": "nope.png"}, 404),
        ({"filename": "../x"}, 400),
        ({"filename": "/etc/passwd"}, 400),
        ({"filename": "x\0y"}, 400),
        ({"filename": "x.png", "type": "secrets"}, 400),
        ({"filename": "x.png", "subfolder": "../.."}, 403),
        ({"filename": "x.png", "subfolder": "/etc"}, 403),
        ({"filename": "x.png", "subfolder": "00000000-0000-0000-0000-000000000000"}, 404),
        ({"filename": "nope.png [input]"}, 404),
    ],
)
def test_a_view_of_what_is_not_there_is_refused_as_comfyui_does(
    plain: Script, query: dict[str, str], status: int
) -> None:
    assert plain.fetch("/view?" + urlencode(query))[0] == status


def test_an_upload_keeps_its_name_unless_another_has_it(script: Script) -> None:
    name = f"up{script.prefix.strip('/')}.png"

    assert script.upload(png(), name) == (200, {"name": name, "subfolder": "", "type": "input"})
    assert script.upload(png(), name)[1]["name"] == name
    other = script.upload(png((9, 9, 9)), name)[1]["name"]
    assert other == name.replace(".png", " (1).png")
    assert opened(script.view({"filename": name, "type": "input"})).getpixel((0, 0)) == (1, 2, 3)
    assert script.upload(png((7, 7, 7)), name, overwrite="true")[1]["name"] == name
    assert opened(script.view({"filename": f"{name} [input]"})).getpixel((0, 0)) == (7, 7, 7)
    offered = script.get("/object_info/LoadImage")["LoadImage"]["input"]["required"]["image"][0]
    assert {name, other} <= set(offered)


def test_an_uploaded_picture_is_loaded_by_a_graph(script: Script) -> None:
    name = f"load{script.prefix.strip('/')}.png"
    script.upload(png((10, 200, 30)), name, subfolder="faces")
    prompt = {
        "1": {"class_type": "LoadImage", "inputs": {"image": f"faces/{name}"}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "l"}},
    }

    file = made(script, prompt)

    assert opened(script.view(file)).getpixel((0, 0)) == (10, 200, 30)


def test_a_mask_becomes_the_alpha_of_its_picture(plain: Script) -> None:
    reference = json.dumps(made(plain, picture(0x112233, width=8, height=6)))

    status, reply = plain.upload(
        png((0, 0, 0, 77)), "mask.png", "/upload/mask", original_ref=reference, subfolder="clip"
    )

    assert (status, reply) == (200, {"name": "mask.png", "subfolder": "clip", "type": "input"})
    found = opened(plain.view({"filename": "mask.png", "subfolder": "clip", "type": "input"}))
    assert found.getpixel((0, 0)) == (0xEE, 0xDD, 0xCC, 77)
    wrong = png((0, 0, 0, 0), (9, 9))
    assert plain.upload(wrong, "m.png", "/upload/mask", original_ref=reference)[0] == 400
    assert plain.upload(png(), "m.png", "/upload/mask")[0] == 400
    absent = json.dumps({"filename": "nope.png"})
    assert plain.upload(png(), "m.png", "/upload/mask", original_ref=absent)[0] == 404


@pytest.mark.parametrize("name", ["../../x.png", "a/../b.png", "..", "x\\y.png"])
def test_an_upload_that_leads_elsewhere_is_refused(plain: Script, name: str) -> None:
    assert plain.upload(png(), name)[0] == 400
    assert plain.upload(png(), "ok.png", subfolder="../..")[0] == 400
    assert plain.upload(png(), "ok.png", type="secrets")[0] == 400


def test_a_form_without_a_file_is_refused(plain: Script) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    assert plain.fetch("/upload/image", b"--x--\r\n", headers=headers)[0] == 400
    assert plain.fetch("/upload/image", b"nothing", headers=headers)[0] == 400
    assert plain.upload(b"this is no picture", "x.png")[0] == 415


@pytest.mark.parametrize("kind", ["temp", "output"])
def test_an_upload_into_another_folder_is_found_there_and_only_there(
    plain: Script, kind: str
) -> None:
    name = f"into-{kind}.png"
    content = png((40, 50, 60))

    reply = plain.upload(content, name, subfolder="clip", type=kind)[1]

    assert reply == {"name": name, "subfolder": "clip", "type": kind}
    assert plain.view({"filename": name, "subfolder": "clip", "type": kind}) == content
    assert plain.view({"filename": f"clip/{name} [{kind}]"}) == content
    as_input = urlencode({"filename": name, "subfolder": "clip", "type": "input"})
    assert plain.fetch(f"/view?{as_input}")[0] == 404
    offered = plain.get("/object_info/LoadImage")["LoadImage"]["input"]["required"]["image"][0]
    assert not any(name in each for each in offered)
    prompt = {
        "1": {"class_type": "LoadImage", "inputs": {"image": f"clip/{name} [{kind}]"}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "k"}},
    }
    assert opened(plain.view(made(plain, prompt))).getpixel((0, 0)) == (40, 50, 60)
    assert plain.upload(content, "x.png", subfolder="[temp]")[0] == 400


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("bytes=0-3", 206),
        ("bytes=0-3, 999999-", 206),
        ("bytes=-4", 206),
        ("bytes=5-1", 200),
        ("lines=1-2", 200),
        ("bytes=999999-", 416),
        ("bytes=-0", 416),
        ("bytes=abc", 200),
        ("bytes=" + "0-1," * 50 + "0-1", 200),
    ],
)
def test_a_range_is_heeded_passed_over_or_refused_in_words(
    house: Comfyrail, plain: Script, asked: str, status: int
) -> None:
    content = png((3, 2, 1))
    plain.upload(content, "ranges.png")

    for path in ("/view?filename=ranges.png&type=input", "/editor/assets/../index.html"):
        got, body, headers = house.fetch("GET", path, Range=asked)
        if path.startswith("/editor") and got == 404:
            continue  # it is not installed
        assert got == status
        if status >= 400:
            assert json.loads(body)["error"]["message"]
        if status == 416:
            assert headers["content-range"].startswith("bytes */")
        if path.startswith("/view") and status == 200:
            assert body == content


def test_what_is_no_picture_is_said_without_where_it_lies(plain: Script) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="image"; filename="words.txt"\r\n\r\n'
    form = head + b"only a few words\r\n--x--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    assert plain.fetch("/upload/image", form, headers=headers)[0] == 200

    for query in ("preview=webp", "channel=rgb"):
        status, body = plain.fetch(f"/view?filename=words.txt&type=input&{query}")
        message = json.loads(body)["error"]["message"]
        assert (status, message) == (400, "This is no picture that can be read.")
    reference = json.dumps(made(plain, picture(0x112233)))
    status, reply = plain.upload(b"none", "m.png", "/upload/mask", original_ref=reference)
    assert (status, reply["error"]["message"]) == (400, "This is no picture that can be read.")
