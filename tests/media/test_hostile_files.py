"""Files that are made to do harm, and files that are merely broken, do none [8.1]."""

import os
import time
import zlib
from pathlib import Path

import msgspec
import pytest

from tests.media import makers
from tests.media.child import MediaChild, type_of
from tests.media.makers import written

FILM_TYPES = ["video/mp4", "video/webm", "audio/ogg", "audio/mpeg", "audio/wav", "video/x-msvideo"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bomb.png", makers.png_bomb()),
        ("bomb.webp", makers.webp_bomb()),
        ("bomb.tif", makers.tiff_bomb()),
    ],
    ids=["png", "webp", "tiff"],
)
def test_decompression_bomb_is_refused_at_once(
    child: MediaChild, tmp_path: Path, name: str, content: bytes
) -> None:
    began = time.monotonic()
    facts, made = child.look(written(tmp_path, name, content))
    assert facts.error is not None
    assert made.names == set()
    assert time.monotonic() - began < 10
    child.look(written(tmp_path, "a.png", makers.png(8, 8)))  # it is alive


def test_truncated_picture_has_its_size_and_says_that_it_is_broken(
    child: MediaChild, tmp_path: Path
) -> None:
    facts, made = child.look(written(tmp_path, "a.png", makers.png(1200, 600)[:1500]))
    assert (facts.width, facts.height) == (1200, 600)
    assert facts.error == "It is broken, or cannot be read here."
    assert made.names == set()


@pytest.mark.parametrize("content_type", ["image/png", "video/mp4", "audio/flac", "model/stl"])
def test_file_of_0_bytes_is_bearable(child: MediaChild, tmp_path: Path, content_type: str) -> None:
    facts, made = child.look(written(tmp_path, "a", b""), content_type)
    assert made.names == set()
    assert facts.error or content_type == "model/stl"


@pytest.mark.parametrize("length", [200, 3000, 9000])
def test_broken_film_says_so_or_has_what_can_be_had(
    child: MediaChild, tmp_path: Path, length: int
) -> None:
    path = written(tmp_path, "a.webm", makers.film("webm", "libvpx-vp9")[:length])
    facts, made = child.look(path)
    assert facts.kind == "video"
    assert facts.error is not None or "poster" in made.names


def test_film_whose_header_lies_about_its_length_is_as_long_as_it_is(
    child: MediaChild, tmp_path: Path
) -> None:
    began = time.monotonic()
    facts, made = child.look(written(tmp_path, "a.mp4", makers.lying_film()))
    assert facts.duration == pytest.approx(1.5, abs=0.1)
    assert "poster" in made.names
    assert time.monotonic() - began < 15


def test_sound_whose_header_lies_about_its_length_is_as_long_as_it_is(
    child: MediaChild, tmp_path: Path
) -> None:
    facts, _ = child.look(written(tmp_path, "a.wav", makers.lying_wav()))
    assert facts.duration == pytest.approx(2.0, abs=0.01)


def test_text_called_png_is_a_text(child: MediaChild, tmp_path: Path) -> None:
    path = written(tmp_path, "a.png", b"I am no picture")
    assert child.look(path)[0].kind == "text"
    assert child.look(path, "image/png")[0].error is not None


@pytest.mark.parametrize("content_type", FILM_TYPES)
@pytest.mark.parametrize("kind", ["m3u8", "concat", "plain"])
def test_list_of_other_files_is_not_followed(
    child: MediaChild, tmp_path: Path, kind: str, content_type: str
) -> None:
    secret = tmp_path / "secret"
    os.mkfifo(secret)  # whoever opened it would wait for ever
    lists = {
        "m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{secret}\n#EXT-X-ENDLIST\n",
        "concat": f"ffconcat version 1.0\nfile '{secret}'\n",
        "plain": f"{secret}\n/etc/passwd\n",
    }
    path = written(tmp_path, "a.mp4", lists[kind].encode())
    assert type_of(path) == "text/plain"
    facts, made = child.look(path, content_type)
    assert facts.error is not None
    assert made.names == set()


def test_svg_is_never_rendered(child: MediaChild, tmp_path: Path) -> None:
    content = b'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="900"><script/></svg>'
    path = written(tmp_path, "a.svg", content)
    assert type_of(path) == "image/svg+xml"
    facts, made = child.look(path)
    assert (facts.kind, facts.width, made.names) == ("image", None, set())


def test_picture_of_a_format_that_runs_other_programs_is_not_opened(
    child: MediaChild, tmp_path: Path
) -> None:
    content = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) (r) file\n"
    facts, _ = child.look(written(tmp_path, "a.eps", content), "image/x-eps")
    assert facts.error == "Pictures of the type image/x-eps cannot be read here."


def test_graphs_that_are_no_json_or_too_long_are_left_out(
    child: MediaChild, tmp_path: Path
) -> None:
    content = makers.png(8, 8, prompt="{broken", workflow='{"a": "' + "x" * (5 << 20) + '"}')
    facts, made = child.look(written(tmp_path, "a.png", content))
    assert (facts.has_prompt, facts.has_workflow, made.names) == (False, False, set())


@pytest.mark.parametrize(
    ("content_type", "content"),
    [
        ("model/gltf-binary", b"glTF\2\0\0\0\0\0\0\0\xff\xff\xff\xffJSON"),
        ("model/gltf-binary", b"glTF\2\0\0\0\0\0\0\0\2\0\0\0JSON[]"),
        ("model/gltf+json", b'{"meshes": 3}'),
        ("application/x-safetensors", b"\xff\xff\xff\xff\0\0\0\0{"),
        ("application/x-safetensors", b"\2\0\0\0\0\0\0\0[]"),
        ("application/zip", b"PK\5\6" + b"\xff" * 18),
        ("image/gif", b"GIF89a" + b"\xff" * 20),
        ("image/webp", b"RIFF\xff\xff\xff\xffWEBPVP8X" + b"\xff" * 40),
    ],
    ids=["glb-long", "glb-list", "gltf", "tensors-long", "tensors-list", "zip", "gif", "webp"],
)
def test_nonsense_is_refused(
    child: MediaChild, tmp_path: Path, content_type: str, content: bytes
) -> None:
    facts, made = child.look(written(tmp_path, "a", content), content_type)
    assert facts.error is not None
    assert made.names == set()


def test_embedded_graphs_have_no_number_that_json_has_not(
    child: MediaChild, tmp_path: Path
) -> None:
    graph = '{"1": {"inputs": {"a": 1e999, "b": -1e999, "c": NaN, "d": 1.5}}}'
    _, made = child.look(written(tmp_path, "a.png", makers.png(8, 8, prompt=graph)))
    content = msgspec.json.decode(made["embedded"].read_bytes())
    assert content["prompt"]["1"]["inputs"] == {"a": None, "b": None, "c": None, "d": 1.5}


def test_tensor_of_a_type_that_is_no_text_does_not_end_the_process(
    child: MediaChild, tmp_path: Path
) -> None:
    header = rb'{"a\ud800": {"dtype": "\ud800F32", "shape": [1]}}'
    content = len(header).to_bytes(8, "little") + header
    facts, _ = child.look(written(tmp_path, "a", content), "application/x-safetensors")
    assert [(each.name, each.dtype) for each in facts.tensors] == [("a", "F32")]


def test_counts_of_a_file_are_few(child: MediaChild, tmp_path: Path) -> None:
    lines = "".join(f"element e{number} 1\n" for number in range(2000))
    content = f"ply\nformat ascii 1.0\n{lines}end_header\n".encode()
    facts, _ = child.look(written(tmp_path, "a.ply", content), "model/ply")
    assert len(facts.counts) == 20


@pytest.mark.parametrize("kind", [b"tEXt", b"zTXt", b"iTXt"])
def test_picture_with_long_texts_has_thumbnails_all_the_same(
    child: MediaChild, tmp_path: Path, kind: bytes
) -> None:
    long = b"x" * (65 << 20)
    data = {
        b"tEXt": b"note\0" + long,
        b"zTXt": b"note\0\0" + zlib.compress(long),
        b"iTXt": b"note\0\1\0\0\0" + zlib.compress(long),
    }[kind]
    plain = makers.png(600, 300)
    content = plain[:33] + makers.chunk(kind, data) + plain[33:]
    facts, made = child.look(written(tmp_path, "a.png", content))
    assert (facts.width, facts.height, facts.error) == (600, 300, None)
    assert made.names == {"thumb_256", "thumb_512"}


def test_gif_of_countless_blocks_takes_little_time(child: MediaChild, tmp_path: Path) -> None:
    head = makers.encoded(makers.gradient(8, 8).convert("P"), "GIF")[:-1]
    content = head + b"\x21\xfe" + b"\x01x" * (20 << 20) + b"\0;"
    began = time.monotonic()
    facts, _ = child.look(written(tmp_path, "a.gif", content))
    assert facts.width == 8
    assert time.monotonic() - began < 15
