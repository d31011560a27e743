"""Where workflows are found: JSON, text around it, PNG, WebP [1.1]."""

import base64
import io
import json
import struct
import time
import zlib
from typing import Any, Self

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from comfyrail.errors import MalformedWorkflow
from comfyrail.workflow.editor.source import read_workflow_source
from comfyrail.workflow.editor.strict_json import read_json
from tests.graphs import picture
from tests.workflow_formats.editor_graphs import Drawing, convert
from tests.workflow_formats.pictures import (
    PNG_SIGNATURE,
    chunk,
    international_text,
    packed_text,
    png,
    text,
)

GRAPH = picture()
SAVED = {"nodes": [{"id": 1, "type": "Load"}], "links": [], "version": 0.4}


# JSON


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"a": 1, "a": 2}', "the name 'a' twice"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": -Infinity}', "-Infinity is no JSON number"),
        ('{"a": 1e999}', "'1e999' is too large"),
        ('{"a": 18446744073709551616}', "more than 64 bits"),
        ('{"a": ' + "9" * 5000 + "}", "more than 64 bits"),
        ('{"a": "\\ud800"}', "U+D800 is half a character"),
        ('{"\\udc00": 1}', "U+DC00 is half a character"),
        ('{"a": ' + "[" * 300 + "]" * 300 + "}", "nested more than 200 deep"),
        ("[" * 10_000, "recursion"),
        ("{" * 10_000, "Expecting property name"),
        ('{"a": [' + "[],[]," * 2_000_000 + "0]}", "more than 5000000 values"),
        ('{"a": 1', "Expecting"),
        ("{'a': 1}", "Expecting property name"),
        ("", "Expecting value"),
    ],
)
def test_json_that_is_in_doubt_is_refused(content: str, said: str) -> None:
    with pytest.raises(MalformedWorkflow) as refused:
        read_json(content)
    assert said in refused.value.message


def test_json_may_have_numbers_of_64_bits_and_pairs_of_escapes() -> None:
    content = b'\xef\xbb\xbf{"seed": 18446744073709551615, "smile": "\\ud83d\\ude00"}'
    assert read_json(content) == {"seed": 2**64 - 1, "smile": "\N{GRINNING FACE}"}


def test_bytes_that_are_no_text_are_refused() -> None:
    for content in (b"\xff\xfe{}", b"\x00\x01\x02\xff", b"GIF89a\x80"):
        with pytest.raises(MalformedWorkflow, match=r"UTF-8|no JSON object"):
            read_workflow_source(content)


def test_json_of_50_mb_is_read_in_bounded_time() -> None:
    content = json.dumps({"1": {"class_type": "Text", "inputs": {"text": "x" * 50_000_000}}})
    begun = time.monotonic()
    assert "1" in read_workflow_source(content)
    assert time.monotonic() - begun < 20


# Text


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "\ufeff  {}\n",
        "```json\n{}\n```",
        "Try this:\n\n~~~~\n{}\n~~~~\nIt is good.",
        "First {{curly}} words, then {} and more.",
        "{} trailing words",
    ],
)
def test_a_workflow_is_found_in_text(around: str) -> None:
    written = around.replace("{{", "\x01").replace("}}", "\x02").replace("{}", json.dumps(GRAPH))
    assert read_workflow_source(written.replace("\x01", "{").replace("\x02", "}")) == GRAPH


def test_a_workflow_that_is_cut_off_is_not_taken_for_one_of_its_parts() -> None:
    with pytest.raises(MalformedWorkflow, match="This is not JSON"):
        read_workflow_source(json.dumps(GRAPH)[:-1])


def test_text_without_a_workflow_is_refused() -> None:
    for content in ("hello", "", 'some {"json": 1} here', "{" * 50_000, "a " + "{" * 50_000):
        with pytest.raises(MalformedWorkflow):
            read_workflow_source(content)


def test_what_the_editor_puts_on_the_clipboard_is_read() -> None:
    encoded = base64.b64encode(json.dumps(SAVED).encode()).decode()
    html = f'<meta charset="utf-8"><div><span data-metadata="{encoded}"></span></div>Text'
    assert read_workflow_source(html) == SAVED


def test_nodes_on_the_clipboard_are_linked_by_the_list_of_links() -> None:
    drawing = Drawing()
    drawing.node("Load", id=11)
    drawing.node("Save", "image:IMAGE", id=12)
    wanted = ["11", 0]
    by_position = {"nodes": drawing.nodes, "links": [[0, 0, 1, 0, 11]]}
    assert convert(by_position)["12"]["inputs"]["image"] == wanted
    drawing.link(11, 12, "image")
    drawing.nodes[1]["inputs"][0]["link"] = None
    by_id = {"nodes": drawing.nodes, "links": drawing.links, "subgraphs": [], "groups": []}
    assert convert(by_id)["12"]["inputs"]["image"] == wanted


# PNG


def test_a_png_of_comfyui_gives_what_was_run() -> None:
    info = PngInfo()
    info.add_text("prompt", json.dumps(GRAPH))
    info.add_text("workflow", json.dumps(SAVED))
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "PNG", pnginfo=info)
    assert read_workflow_source(file.getvalue()) == GRAPH


WRITTEN = json.dumps({"1": {"class_type": "Träume", "inputs": {}}}, ensure_ascii=False)


@pytest.mark.parametrize(
    "part",
    [
        chunk(b"tEXt", b"prompt\0" + WRITTEN.encode("latin-1")),
        chunk(b"tEXt", b"Prompt\0" + WRITTEN.encode()),
        packed_text("prompt", WRITTEN.encode()),
        international_text("prompt", WRITTEN.encode(), is_packed=False),
        international_text("prompt", WRITTEN.encode(), is_packed=True),
        chunk(b"comf", b"prompt\0" + WRITTEN.encode()),
    ],
    ids=["latin", "utf-8", "packed", "international", "international packed", "animated"],
)
def test_every_kind_of_text_in_a_png_is_read(part: bytes) -> None:
    assert read_workflow_source(png(part))["1"]["class_type"] == "Träume"
    after_pixels = png(chunk(b"IDAT", b"no pixels are looked at"), part)
    assert read_workflow_source(after_pixels)["1"]["class_type"] == "Träume"


def test_a_prompt_that_no_longer_can_be_read_gives_way_to_the_editors_format() -> None:
    broken = chunk(b"tEXt", b"prompt\0{")
    assert read_workflow_source(png(broken, text("workflow", SAVED))) == SAVED
    with pytest.raises(MalformedWorkflow, match="This is not JSON"):
        read_workflow_source(png(broken))


def test_numbers_that_are_none_in_a_png_are_null() -> None:
    assert read_workflow_source(png(chunk(b"tEXt", b'prompt\0{"1": {"is_changed": [NaN]}}'))) == {
        "1": {"is_changed": [None]}
    }


def test_a_png_with_a_wrong_checksum_or_a_cut_end_gives_what_is_whole() -> None:
    wrong = bytearray(text("prompt", {"1": {}}))
    wrong[-1] ^= 1
    whole = text("workflow", SAVED)
    assert read_workflow_source(png(bytes(wrong), whole)) == SAVED
    assert read_workflow_source(png(whole)[:-12] + b"\0\0\xff\xffIDAT...") == SAVED


@pytest.mark.parametrize(
    "content",
    [
        png(),
        PNG_SIGNATURE,
        PNG_SIGNATURE + b"\xff\xff\xff\xfftEXt",
        png(chunk(b"tEXt", b"prompt")),
        png(chunk(b"zTXt", b"prompt\0\0broken")),
        png(chunk(b"iTXt", b"prompt\0")),
        png(chunk(b"tEXt", b"parameters\0Steps: 20")),
    ],
)
def test_a_png_without_a_workflow_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedWorkflow, match=r"holds no workflow|This is not JSON"):
        read_workflow_source(content)


def test_a_text_that_unpacks_to_gigabytes_is_not_unpacked() -> None:
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(300)) + packer.flush()
    data = chunk(b"zTXt", b"prompt\0\0" + bomb)
    begun = time.monotonic()
    with pytest.raises(MalformedWorkflow, match="holds no workflow"):
        read_workflow_source(png(data, data, data))
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("keyword", [b"prompt", b"parameters"])
@pytest.mark.parametrize("is_whole", [True, False], ids=["too long", "broken"])
def test_many_texts_of_a_png_are_not_unpacked_to_more_than_one_may_have(
    monkeypatch: pytest.MonkeyPatch, keyword: bytes, is_whole: bool
) -> None:
    packer = zlib.compressobj(9)
    size = 65 if is_whole else 60
    bomb = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(size)) + packer.flush()
    data = chunk(b"zTXt", keyword + b"\0\0" + (bomb if is_whole else bomb[:-4] + b"oops"))
    unpacked = counted_unpacking(monkeypatch)
    with pytest.raises(MalformedWorkflow, match="holds no workflow"):
        read_workflow_source(png(*[data] * 10))
    assert sum(unpacked) <= 66 << 20


def test_a_text_of_a_png_that_stands_there_again_is_not_unpacked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unpacked = counted_unpacking(monkeypatch)
    again = packed_text("workflow", json.dumps(SAVED).encode())
    assert read_workflow_source(png(*[again] * 50)) == SAVED
    assert len(unpacked) == 1


def counted_unpacking(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes zlib gives from now on, one number for every time."""
    sizes: list[int] = []
    make = zlib.decompressobj

    class Counted:
        def __init__(self) -> None:
            self._unpacker = make()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._unpacker, name)

        def decompress(self, data: bytes, limit: int) -> bytes:
            sizes.append(limit)
            made = self._unpacker.decompress(data, limit)
            sizes[-1] = len(made)
            return made

    monkeypatch.setattr(zlib, "decompressobj", Counted)
    return sizes


# WebP


def webp_of_comfyui(**texts: Any) -> bytes:
    """As ComfyUI's SaveAnimatedWEBP writes it: the prompt as model, the rest from maker down."""
    image = Image.new("RGB", (8, 8))
    exif = image.getexif()
    if "prompt" in texts:
        exif[0x0110] = f"prompt:{json.dumps(texts.pop('prompt'))}"
    for tag, (name, value) in zip(range(0x010F, 0, -1), texts.items(), strict=False):
        exif[tag] = f"{name}:{json.dumps(value)}"
    file = io.BytesIO()
    image.save(file, "WEBP", exif=exif)
    return file.getvalue()


def test_a_webp_of_comfyui_gives_what_was_run() -> None:
    assert read_workflow_source(webp_of_comfyui(prompt=GRAPH, workflow=SAVED)) == GRAPH
    assert read_workflow_source(webp_of_comfyui(workflow=SAVED)) == SAVED
    with pytest.raises(MalformedWorkflow, match="holds no workflow"):
        read_workflow_source(webp_of_comfyui())


@pytest.mark.parametrize(
    "comment",
    [
        b"ASCII\0\0\0" + json.dumps(SAVED).encode(),
        b"UNICODE\0" + json.dumps(SAVED).encode("utf-16"),
        b"\0" * 8 + b"workflow:" + json.dumps(SAVED).encode(),
    ],
)
def test_a_comment_in_a_webp_is_read(comment: bytes) -> None:
    image = Image.new("RGB", (8, 8))
    exif = image.getexif()
    exif.get_ifd(0x8769)[0x9286] = comment
    file = io.BytesIO()
    image.save(file, "WEBP", exif=exif)
    assert read_workflow_source(file.getvalue()) == SAVED


class CountedBytes(bytes):
    """Counts how often something is taken out of it, or out of what was taken."""

    slices: list[int]

    def __new__(cls, content: bytes, slices: list[int] | None = None) -> Self:
        made = super().__new__(cls, content)
        made.slices = [0] if slices is None else slices
        return made

    def __getitem__(self, place: Any) -> Any:
        self.slices[0] += 1
        if self.slices[0] > 1_000_000:
            pytest.fail("this does not end")
        found = super().__getitem__(place)
        return CountedBytes(found, self.slices) if isinstance(found, bytes) else found

    def removeprefix(self, prefix: Any, /) -> "CountedBytes":
        return CountedBytes(super().removeprefix(prefix), self.slices)


def webp_of_tiff(tiff: bytes) -> bytes:
    content = b"EXIF" + struct.pack("<I", len(tiff)) + tiff
    return b"RIFF" + struct.pack("<I", len(content) + 4) + b"WEBP" + content


def test_a_webp_whose_directories_lead_in_a_circle_ends() -> None:
    entry = struct.pack("<HHII", 0x8769, 4, 1, 8)
    with pytest.raises(MalformedWorkflow, match="holds no workflow"):
        read_workflow_source(webp_of_tiff(b"II*\0" + struct.pack("<IH", 8, 1) + entry))


def test_directories_of_a_webp_that_overlap_are_read_a_few_times_only() -> None:
    # One starts at every entry: the end of the value before it, an address, is its length too.
    entries = b"".join(
        struct.pack(">HHII", 0x8769, 4, 1, 8 + at) for at in range(12, 12 * 2_000, 12)
    )
    counted = CountedBytes(webp_of_tiff(b"MM\0*" + struct.pack(">IH", 8, 2_000) + entries))
    with pytest.raises(MalformedWorkflow, match="holds no workflow"):
        read_workflow_source(counted)
    assert counted.slices[0] < 10_000
