"""What the engine writes and reads: films and sounds as files, with clear words where it cannot."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from comfyrail.engine.film_files import decode_film, encode_mp4, encode_webm
from comfyrail.engine.output_names import OutputNames
from comfyrail.engine.sound_files import encode_sound
from comfyrail.engine.sound_values import silence
from tests.media import makers
from tests.media.makers import written


class Interrupted(Exception):
    """As a user stops a job."""


def go_on() -> None:
    """Nobody stops it."""


def stop() -> None:
    raise Interrupted


@pytest.mark.parametrize("size", [(300, 17), (63, 64)], ids=["wide-and-low", "nearly"])
def test_pictures_too_small_for_av1_are_refused_before_its_encoder_hangs(
    size: tuple[int, int],
) -> None:
    images = np.zeros((5, size[1], size[0], 3), np.float32)
    film = {"images": images, "audio": None, "frame_rate": 24}
    with pytest.raises(ValueError, match="AV1 needs at least 64 by 64"):
        encode_webm(film, {}, "av1", 32, go_on)
    assert encode_webm(film, {}, "vp9", 32, go_on)


def test_sound_too_short_for_mp3_is_no_file_of_0_bytes() -> None:
    with pytest.raises(ValueError, match="too short to be saved as mp3"):
        encode_sound(np.zeros((2, 2), np.float32), 1, "libmp3lame", {"prompt": "{}"}, go_on)


def test_sound_that_an_encoder_refuses_is_a_fault_of_the_graph() -> None:
    with pytest.raises(ValueError, match="cannot be saved as flac"):
        encode_sound(np.zeros((2, 100), np.float32), 10**7, "flac", {}, go_on)


@pytest.mark.parametrize(
    ("seconds", "rate"),
    [(1.0, 0), (1.0, -1), (1.0, 192_001), (1e18, 44100), (-1.0, 44100), (float("nan"), 44100)],
    ids=["no-rate", "negative-rate", "high-rate", "endless", "negative", "no-number"],
)
def test_silence_that_cannot_be_is_a_fault_of_the_graph(seconds: float, rate: int) -> None:
    with pytest.raises(ValueError, match="A sound "):
        silence(seconds, rate, 2)


def test_encoding_a_sound_can_be_interrupted() -> None:
    with pytest.raises(Interrupted):
        encode_sound(np.zeros((2, 4096), np.float32), 44100, "flac", {}, stop)


def test_decoding_takes_the_memory_of_the_pictures_once(tmp_path: Path) -> None:
    images = np.random.default_rng(1).random((40, 128, 128, 3), np.float32)
    content = encode_mp4({"images": images, "audio": None, "frame_rate": 10}, {}, go_on)
    path = written(tmp_path, "a.mp4", content)
    decode_film(path, go_on)  # loads what it needs
    tracemalloc.start()
    try:
        film = decode_film(path, go_on)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert film["images"].shape == images.shape
    assert np.abs(film["images"] - images).mean() < 0.3
    assert peak < 1.5 * images.nbytes


def test_film_and_its_sound_are_decoded_whole(tmp_path: Path) -> None:
    film = decode_film(written(tmp_path, "a.mp4", makers.film(black=2, shown=8)), go_on)
    assert len(film["images"]) == 10
    assert film["images"].max() <= 1.0


@pytest.mark.parametrize(
    "prefix", ["x" * 300, "a/" * 600 + "b", "ö" * 150], ids=["name", "folders", "bytes"]
)
def test_prefix_that_is_too_long_is_told_without_the_path_of_the_server(
    tmp_path: Path, prefix: str
) -> None:
    with pytest.raises(ValueError, match="filename_prefix is too long") as caught:
        OutputNames().save(tmp_path, prefix, b"content")
    assert str(tmp_path) not in str(caught.value)
