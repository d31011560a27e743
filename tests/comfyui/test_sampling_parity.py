"""A diffusion model through `comfyrail worker --comfyui`: the pixels that ComfyUI itself gives."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.comfyui.test_engine_parity import Engine
from tests.comfyui_peer import random_checkpoint
from tests.comfyui_peer.install import Peer, installed_peer
from tests.comfyui_peer.server import ComfyUIServer
from tests.comfyui_peer.worker import ComfyrailWorker

pytestmark = pytest.mark.comfyui

NAME = "random_sd15.safetensors"


def text_to_image(seed: int, sampler: str, text: str, **changes: Any) -> dict[str, Any]:
    sampling = {
        "seed": seed,
        "steps": 3,
        "cfg": 7.0,
        "sampler_name": sampler,
        "scheduler": "normal",
        "denoise": 1.0,
        "model": ["1", 0],
        "positive": ["2", 0],
        "negative": ["3", 0],
        "latent_image": ["4", 0],
        **changes,
    }
    return {
        "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": NAME}},
        "2": {"class_type": "CLIPTextEncode", "inputs": {"text": text, "clip": ["1", 1]}},
        "3": {"class_type": "CLIPTextEncode", "inputs": {"text": "blurry", "clip": ["1", 1]}},
        "4": {
            "class_type": "EmptyLatentImage",
            "inputs": {"width": 64, "height": 96, "batch_size": 2},
        },
        "5": {"class_type": "KSampler", "inputs": sampling},
        "6": {"class_type": "VAEDecode", "inputs": {"samples": ["5", 0], "vae": ["1", 2]}},
        "7": {
            "class_type": "SaveImage",
            "inputs": {"images": ["6", 0], "filename_prefix": "sampled"},
        },
    }


@pytest.fixture(scope="module")
def peer() -> Peer:
    peer = installed_peer()
    assert peer is not None, "run `make test-comfyui`, which installs it"
    return peer


@pytest.fixture(scope="module")
def checkpoint(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / NAME
    subprocess.run(
        [str(peer.python), random_checkpoint.__file__, str(path)],
        cwd=peer.checkout,
        env=peer.environment(),
        check=True,
        timeout=110,
    )
    return path


@pytest.fixture(scope="module")
def engines(peer: Peer, checkpoint: Path) -> Iterator[tuple[Engine, Engine]]:
    theirs = ComfyUIServer(peer)
    ours = ComfyrailWorker(peer)
    for base in (theirs.base_directory, ours.base_directory):
        folder = base / "models" / "checkpoints"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / NAME).symlink_to(checkpoint)
    with theirs, ours:
        yield Engine(theirs.url), Engine(ours.url)


@pytest.mark.parametrize(
    ("seed", "sampler"), [(1, "euler"), (2, "dpmpp_2m"), (3, "euler_ancestral"), (4, "ddim")]
)
def test_text_to_image_gives_the_same_pixels(
    engines: tuple[Engine, Engine], seed: int, sampler: str
) -> None:
    theirs, ours = (
        engine.run(text_to_image(seed, sampler, f"a picture {seed}")) for engine in engines
    )
    assert not isinstance(theirs, str), theirs
    assert ours == theirs
    (first, second) = theirs["7"]["images"]
    assert len(set(first[0][3])) > 20, "a picture of one colour would prove nothing"
    assert first != second


def test_image_to_image_gives_the_same_pixels(engines: tuple[Engine, Engine]) -> None:
    graph = text_to_image(9, "euler", "again", denoise=0.5, latent_image=["9", 0])
    graph["8"] = {
        "class_type": "EmptyImage",
        "inputs": {"width": 64, "height": 64, "batch_size": 1, "color": 0x3366CC},
    }
    graph["9"] = {"class_type": "VAEEncode", "inputs": {"pixels": ["8", 0], "vae": ["1", 2]}}
    theirs, ours = (engine.run(graph) for engine in engines)
    assert not isinstance(theirs, str), theirs
    assert ours == theirs
