"""What files are, and what is made of them to look at [8.1] [8.2]."""

import json
from pathlib import Path

import pytest
from PIL import Image

from comfyrail.store.media import TensorFacts
from tests.media import makers
from tests.media.child import MediaChild, type_of
from tests.media.makers import PROMPT, WORKFLOW, written

THUMBNAILS = {"thumb_256", "thumb_512", "thumb_1024"}


def test_picture_has_its_size_its_graphs_and_the_thumbnails_that_are_smaller(
    child: MediaChild, tmp_path: Path
) -> None:
    path = written(tmp_path, "a.png", makers.png(1200, 600, prompt=PROMPT, workflow=WORKFLOW))
    facts, made = child.look(path)
    assert (facts.kind, facts.format, facts.width, facts.height) == ("image", "png", 1200, 600)
    assert (facts.has_alpha, facts.has_prompt, facts.has_workflow) == (False, True, True)
    assert made.names == {*THUMBNAILS, "embedded"}
    for side in (256, 512, 1024):
        with Image.open(made[f"thumb_{side}"]) as thumbnail:
            assert (thumbnail.format, thumbnail.size) == ("WEBP", (side, side // 2))
    embedded = json.loads(made["embedded"].read_text())
    assert embedded == {"prompt": json.loads(PROMPT), "workflow": json.loads(WORKFLOW)}


@pytest.mark.parametrize("side", [1, 256, 257])
def test_small_picture_has_no_thumbnail_that_is_not_smaller(
    child: MediaChild, tmp_path: Path, side: int
) -> None:
    _, made = child.look(written(tmp_path, "a.png", makers.png(side, 100)))
    assert made.names == ({"thumb_256"} if side > 256 else set())


def test_very_thin_picture_has_a_thumbnail_all_the_same(child: MediaChild, tmp_path: Path) -> None:
    _, made = child.look(written(tmp_path, "a.png", makers.png(3000, 1)))
    with Image.open(made["thumb_256"]) as thumbnail:
        assert thumbnail.size == (256, 1)


def brightness(path: Path, x: int) -> float:
    with Image.open(path) as picture:
        grey = picture.convert("L")
        value = grey.getpixel((x, grey.height // 2))
    assert isinstance(value, int | float)
    return value


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "CMYK", "I;16", "YCbCr"])
def test_thumbnail_looks_like_its_picture_in_every_mode(
    child: MediaChild, tmp_path: Path, mode: str
) -> None:
    if mode == "I;16":
        content = makers.deep_png(600, 300)
    else:
        picture = makers.gradient(600, 300, mode)
        content = makers.encoded(picture, "TIFF" if mode in {"CMYK", "YCbCr"} else "PNG")
    facts, made = child.look(written(tmp_path, "a.png", content))
    assert (facts.width, facts.height, facts.error) == (600, 300, None)
    left, middle, right = (brightness(made["thumb_256"], x) for x in (5, 128, 250))
    assert left < 60
    assert right > 190
    assert mode == "1" or 100 < middle < 155


def test_alpha_is_kept(child: MediaChild, tmp_path: Path) -> None:
    picture = Image.new("RGBA", (600, 300), (200, 10, 10, 0))
    facts, made = child.look(written(tmp_path, "a.png", makers.encoded(picture, "PNG")))
    assert facts.has_alpha
    with Image.open(made["thumb_256"]) as thumbnail:
        assert thumbnail.mode == "RGBA"
        assert thumbnail.getchannel("A").getextrema() == (0, 0)


def test_picture_is_turned_as_its_exif_says(child: MediaChild, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    content = makers.encoded(makers.gradient(800, 400), "JPEG", exif=exif)
    facts, made = child.look(written(tmp_path, "a.jpg", content))
    assert (facts.width, facts.height) == (400, 800)
    with Image.open(made["thumb_512"]) as thumbnail:
        assert thumbnail.size == (256, 512)


@pytest.mark.parametrize("format_name", ["WEBP", "AVIF", "JPEG"])
def test_graphs_in_exif_are_found(child: MediaChild, tmp_path: Path, format_name: str) -> None:
    exif = Image.Exif()
    exif[0x0110], exif[0x010F] = f"prompt:{PROMPT}", f"workflow:{WORKFLOW}"
    content = makers.encoded(makers.gradient(64, 64), format_name, exif=exif)
    facts, made = child.look(written(tmp_path, "a", content))
    assert (facts.has_prompt, facts.has_workflow) == (True, True)
    assert json.loads(made["embedded"].read_text())["prompt"] == json.loads(PROMPT)


@pytest.mark.parametrize("format_name", ["WEBP", "GIF", "PNG", "AVIF"])
def test_animation_has_frames_a_length_and_thumbnails_of_its_first_frame(
    child: MediaChild, tmp_path: Path, format_name: str
) -> None:
    facts, made = child.look(written(tmp_path, "a", makers.animation(format_name)))
    assert (facts.kind, facts.frames, facts.duration, facts.fps) == ("animation", 3, 0.6, 5.0)
    assert made.names == {"thumb_256", "thumb_512"}
    with Image.open(made["thumb_256"]) as thumbnail:
        red, green, blue = thumbnail.convert("RGB").resize((1, 1)).getpixel((0, 0))  # type: ignore[misc]
    assert red > 200
    assert max(green, blue) < 60


FILMS = [("mp4", "mpeg4"), ("mp4", "libx264"), ("webm", "libvpx-vp9"), ("mkv", "libx264")]


@pytest.mark.parametrize(("suffix", "codec"), FILMS, ids=[f"{s}-{c}" for s, c in FILMS])
def test_film_has_a_poster_that_is_not_black(
    child: MediaChild, tmp_path: Path, suffix: str, codec: str
) -> None:
    tags = {"prompt": PROMPT, "workflow": WORKFLOW, "title": "Fox"}
    path = written(tmp_path, f"a.{suffix}", makers.film(suffix, codec, tags=tags))
    facts, made = child.look(path)
    assert (facts.kind, facts.width, facts.height) == ("video", 640, 360)
    assert (facts.frames, facts.fps, facts.title) == (15, 10.0, "Fox")
    assert facts.duration == pytest.approx(1.5, abs=0.05)
    assert (facts.sample_rate, facts.channels) == (48_000, 2)
    assert (facts.has_prompt, facts.has_workflow) == (True, True)
    assert made.names == {"poster", "thumb_256", "thumb_512", "embedded"}
    with Image.open(made["poster"]) as poster:
        assert poster.size == (640, 360)
        red, _, blue = poster.convert("RGB").resize((1, 1)).getpixel((0, 0))  # type: ignore[misc]
    assert red > 200
    assert blue < 100


def test_film_of_black_alone_has_a_poster_too(child: MediaChild, tmp_path: Path) -> None:
    facts, made = child.look(written(tmp_path, "a.mp4", makers.film(black=8, shown=0)))
    assert facts.error is None
    assert "poster" in made.names


def test_poster_of_a_large_film_is_1024_wide_at_most(child: MediaChild, tmp_path: Path) -> None:
    content = makers.film(size=(1920, 1080), black=0, shown=2)
    facts, made = child.look(written(tmp_path, "a.mp4", content))
    assert facts.width == 1920
    assert (made.files["poster"].width, made.files["poster"].height) == (1024, 576)


@pytest.mark.parametrize("suffix", ["wav", "flac", "mp3", "ogg"])
def test_sound_has_a_waveform_and_peaks(child: MediaChild, tmp_path: Path, suffix: str) -> None:
    content = makers.wav() if suffix == "wav" else makers.sound(suffix, tags={"prompt": PROMPT})
    facts, made = child.look(written(tmp_path, f"a.{suffix}", content))
    assert facts.kind == "audio"
    assert facts.duration == pytest.approx(2.0, abs=0.1)
    assert facts.channels == (1 if suffix == "wav" else 2)
    assert facts.has_prompt == (suffix != "wav")
    assert made.names >= {"waveform", "peaks"}
    with Image.open(made["waveform"]) as waveform:
        assert waveform.size == (1024, 256)
    peaks = json.loads(made["peaks"].read_text())["peaks"]
    assert len(peaks) == 1000
    assert all(0 <= peak <= 1 for peak in peaks)
    if suffix == "wav":
        assert min(peaks[5:-5]) > 0.4
    else:  # it grows louder
        assert max(peaks[:50]) < 0.15
        assert 0.75 < max(peaks[900:]) <= 1


def test_sound_of_a_few_samples_has_as_many_peaks(child: MediaChild, tmp_path: Path) -> None:
    facts, made = child.look(written(tmp_path, "a.flac", makers.sound("flac", 0.001)))
    assert (facts.kind, len(json.loads(made["peaks"].read_text())["peaks"])) == ("audio", 1000)


def test_sound_alone_in_a_container_of_films_is_a_sound(child: MediaChild, tmp_path: Path) -> None:
    path = written(tmp_path, "a.mp4", makers.sound("mp4"))
    assert type_of(path) == "video/mp4"
    facts, made = child.look(path)
    assert (facts.kind, made.names) == ("audio", {"waveform", "peaks"})


def test_long_sound_needs_no_more_memory_than_a_short_one(tmp_path: Path) -> None:
    path = written(tmp_path, "long.wav", makers.long_wav(hours=1.0))
    child = MediaChild(tmp_path)
    try:
        child.look(written(tmp_path, "a.wav", makers.wav()))
        before = peak_memory(child.process.pid)
        facts, made = child.look(path)
        grown = peak_memory(child.process.pid) - before
    finally:
        child.close()
    assert facts.duration == pytest.approx(3600, rel=0.01)
    assert len(json.loads(made["peaks"].read_text())["peaks"]) == 1000
    assert grown < 24 << 20


def peak_memory(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def test_3d_file_says_what_is_in_it(child: MediaChild, tmp_path: Path) -> None:
    facts, made = child.look(written(tmp_path, "a.glb", makers.glb()))
    assert (facts.kind, facts.format, facts.title) == ("model3d", "glb", "a test")
    assert facts.counts == {"nodes": 1, "meshes": 1, "vertices": 24}
    assert made.names == set()


@pytest.mark.parametrize(
    ("content_type", "content", "counts"),
    [
        ("model/obj", b"o a\nv 0 0 0\nv 1 0 0\nvn 0 0 1\nf 1 2 3\n", "objects vertices faces"),
        ("model/stl", bytes(80) + b"\2\0\0\0" + bytes(100), "faces"),
        ("model/ply", b"ply\nelement vertex 8\nelement face 6\nend_header\n", "vertices faces"),
        ("model/gltf+json", b'{"meshes": [{"primitives": []}]}', "meshes"),
    ],
    ids=["obj", "stl", "ply", "gltf"],
)
def test_other_3d_files_are_counted_too(
    child: MediaChild, tmp_path: Path, content_type: str, content: bytes, counts: str
) -> None:
    facts, _ = child.look(written(tmp_path, "a", content), content_type)
    assert (facts.kind, set(facts.counts), facts.error) == ("model3d", set(counts.split()), None)


def test_latent_says_its_shape_and_has_its_graphs(child: MediaChild, tmp_path: Path) -> None:
    facts, made = child.look(written(tmp_path, "a.latent", makers.latent()))
    assert facts.kind == "latent"
    assert TensorFacts(name="latent_tensor", dtype="F32", shape=[1, 4, 2, 2]) in facts.tensors
    assert made.names == {"embedded"}


def test_text_says_its_first_line_and_length(child: MediaChild, tmp_path: Path) -> None:
    facts, _ = child.look(written(tmp_path, "a.txt", "Füchse\nrennen".encode()))
    assert (facts.kind, facts.first_line, facts.characters) == ("text", "Füchse", 13)
