"""One graph that makes outputs of every kind, and what must come of it on any worker."""

from dataclasses import dataclass
from typing import Any

from tests.processes import Comfyrail, wait_until

GRAPH: dict[str, dict[str, Any]] = {
    "image": {
        "class_type": "EmptyImage",
        "inputs": {"width": 640, "height": 320, "batch_size": 6, "color": 0xFF8020},
    },
    "silence": {
        "class_type": "EmptyAudio",
        "inputs": {"duration": 1.5, "sample_rate": 44100, "channels": 2},
    },
    "film": {
        "class_type": "CreateVideo",
        "inputs": {"images": ["image", 0], "fps": 6.0, "audio": ["silence", 0]},
    },
    "latent": {
        "class_type": "EmptyLatentImage",
        "inputs": {"width": 64, "height": 64, "batch_size": 1},
    },
    "png": {
        "class_type": "SaveImage",
        "inputs": {"images": ["image", 0], "filename_prefix": "picture"},
    },
    "webp": {
        "class_type": "SaveAnimatedWEBP",
        "inputs": {
            "images": ["changing", 0],
            "filename_prefix": "moving",
            "fps": 6.0,
            "lossless": True,
            "quality": 80,
            "method": "fastest",
        },
    },
    "apng": {
        "class_type": "SaveAnimatedPNG",
        "inputs": {
            "images": ["changing", 0],
            "filename_prefix": "moving",
            "fps": 6.0,
            "compress_level": 4,
        },
    },
    "inverted": {"class_type": "ImageInvert", "inputs": {"image": ["image", 0]}},
    "changing": {
        "class_type": "ImageBatch",
        "inputs": {"image1": ["image", 0], "image2": ["inverted", 0]},
    },
    "mp4": {
        "class_type": "SaveVideo",
        "inputs": {
            "video": ["film", 0],
            "filename_prefix": "video/film",
            "format": "auto",
            "codec": "auto",
        },
    },
    "webm": {
        "class_type": "SaveWEBM",
        "inputs": {
            "images": ["image", 0],
            "filename_prefix": "film",
            "codec": "vp9",
            "fps": 6.0,
            "crf": 32.0,
        },
    },
    "flac": {
        "class_type": "SaveAudio",
        "inputs": {"audio": ["silence", 0], "filename_prefix": "audio/sound"},
    },
    "mp3": {
        "class_type": "SaveAudioMP3",
        "inputs": {"audio": ["silence", 0], "filename_prefix": "audio/sound", "quality": "128k"},
    },
    "opus": {
        "class_type": "SaveAudioOpus",
        "inputs": {"audio": ["silence", 0], "filename_prefix": "audio/sound", "quality": "64k"},
    },
    "text": {"class_type": "PreviewAny", "inputs": {"source": "a red fox"}},
    "latents": {
        "class_type": "SaveLatent",
        "inputs": {"samples": ["latent", 0], "filename_prefix": "latents/l"},
    },
}
THUMBNAILS = {"thumb_256", "thumb_512"}


@dataclass(frozen=True)
class Kind:
    """What an output of a node must be."""

    content_type: str
    kind: str
    variants: frozenset[str]
    has_prompt: bool = True


EXPECTED = {
    "png": Kind("image/png", "image", frozenset({*THUMBNAILS, "embedded"})),
    "webp": Kind("image/webp", "animation", frozenset({*THUMBNAILS, "embedded"})),
    "apng": Kind("image/png", "animation", frozenset({*THUMBNAILS, "embedded"})),
    "mp4": Kind("video/mp4", "video", frozenset({"poster", *THUMBNAILS, "embedded"})),
    "webm": Kind("video/webm", "video", frozenset({"poster", *THUMBNAILS, "embedded"})),
    "flac": Kind("audio/flac", "audio", frozenset({"waveform", "peaks", "embedded"})),
    "mp3": Kind("audio/mpeg", "audio", frozenset({"waveform", "peaks", "embedded"})),
    "opus": Kind("audio/ogg", "audio", frozenset({"waveform", "peaks", "embedded"})),
    "text": Kind("text/plain", "text", frozenset(), has_prompt=False),
    "latents": Kind("application/x-safetensors", "latent", frozenset({"embedded"})),
}


def look_at_all(server: Comfyrail, job_id: str) -> dict[str, dict[str, Any]]:
    """The first output of each node, once all were looked at."""

    def look() -> list[dict[str, Any]] | None:
        outputs = server.execution(job_id)["result"]["outputs"]
        return outputs if all(output["media"] for output in outputs) else None

    found = wait_until(look, limit=60)
    assert found is not None
    return {output["node_id"]: output for output in reversed(found)}


def check_all_kinds(server: Comfyrail) -> dict[str, dict[str, Any]]:
    """Run the graph; every output has its type, its facts and its variants, and can be had."""
    job_id = server.submit(GRAPH)
    server.wait_for(job_id, "completed", limit=90)
    outputs = look_at_all(server, job_id)
    assert set(outputs) == set(EXPECTED)
    for node_id, expected in EXPECTED.items():
        output = outputs[node_id]
        media = output["media"]
        found = (output["content_type"], media["kind"], media.get("has_prompt", False))
        wanted = (expected.content_type, expected.kind, expected.has_prompt)
        assert (node_id, *found) == (node_id, *wanted)
        assert (node_id, set(output["variants"])) == (node_id, set(expected.variants))
        assert "error" not in media
        for url in (output["url"], *output["variants"].values()):
            status, content, _ = server.fetch("GET", url)
            assert (status, bool(content)) == (200, True)
    for node_id in ("mp4", "webm", "webp", "apng", "png"):
        media = outputs[node_id]["media"]
        assert (node_id, media["width"], media["height"]) == (node_id, 640, 320)
    for node_id in ("mp4", "webm"):
        assert (node_id, outputs[node_id]["media"]["frames"]) == (node_id, 6)
    for node_id in ("webp", "apng"):  # equal frames may be one that is shown for longer
        media = outputs[node_id]["media"]
        assert 2 <= media["frames"] <= 12
        assert 1.9 < media["duration"] < 2.1
    # The sound of a film ends with its last frame.
    for node_id, length in (("flac", 1.5), ("mp3", 1.5), ("opus", 1.5), ("mp4", 1.0)):
        media = outputs[node_id]["media"]
        assert (node_id, media["channels"]) == (node_id, 2)
        assert length - 0.1 < media["duration"] < length + 0.1
    assert {"name": "latent_tensor", "dtype": "F32", "shape": [1, 4, 8, 8]} in outputs["latents"][
        "media"
    ]["tensors"]
    return outputs
