"""Nodes that make latents of zeros, in the shapes that families of models take."""

from collections.abc import Callable
from typing import Any

from comfyrail.engine.builtin.images import LARGEST_SIDE
from comfyrail.engine.definition import NodeDefinition, define_node, node
from comfyrail.engine.latent_values import Latent, empty_latent
from comfyrail.workflow.catalog import OutputPort

_COUNT = ("INT", {"default": 1, "min": 1, "max": 4096})
_SECONDS_OF_AUDIO = {"min": 1.0, "max": 1000.0, "step": 0.1}

Shape = Callable[..., tuple[int, ...]]


def _number(default: int, least: int, step: int, most: int = LARGEST_SIDE) -> tuple[str, Any]:
    return ("INT", {"default": default, "min": least, "max": most, "step": step})


def _empty(
    name: str, required: dict[str, Any], shape: Shape, *, kind: str | None = None, **about: Any
) -> NodeDefinition:
    """A node type; `shape` gives the shape of one latent for the inputs beside the count."""
    kinds = {} if kind is None else {"type": kind}

    def make(batch_size: int, **inputs: Any) -> dict[str, Any]:
        return empty_latent(batch_size, *shape(**inputs), **kinds)

    return define_node(
        name,
        make,
        required={**required, "batch_size": _COUNT},
        outputs=("LATENT",),
        **{"schema": "v3", **about},
    )


def _image(
    name: str,
    size: tuple[int, int, int],
    channels: int,
    scale: int,
    **about: Any,
) -> NodeDefinition:
    """Latents of images; `size` is the default, the least and the step of both sides."""
    return _empty(
        name,
        {"width": _number(*size), "height": _number(*size)},
        lambda width, height: (channels, height // scale, width // scale),
        **about,
    )


def _video(
    name: str,
    sides: tuple[tuple[int, int, int], tuple[int, int, int]],
    length: tuple[int, int, int],
    channels: int,
    scale: int,
    **about: Any,
) -> NodeDefinition:
    """Latents of videos; the step of the length is also how many frames one latent frame holds."""
    frames = length[2]
    return _empty(
        name,
        {
            "width": _number(*sides[0]),
            "height": _number(*sides[1]),
            "length": _number(*length),
        },
        lambda width, height, length: (
            channels,
            (length - 1) // frames + 1,
            height // scale,
            width // scale,
        ),
        **{"category": "latent/video", **about},
    )


def _sides(width: int, height: int, least: int, step: int) -> Any:
    return (width, least, step), (height, least, step)


_HUNYUAN = _sides(848, 480, 16, 16)

EMPTY_LATENTS = (
    _image(
        "EmptyLatentImage",
        (512, 16, 8),
        4,
        8,
        schema="v1",
        category="latent",
        display_name="Empty Latent Image",
    ),
    _image("EmptySD3LatentImage", (1024, 16, 16), 16, 8, category="latent/sd3"),
    _image("EmptyHunyuanImageLatent", (2048, 64, 32), 64, 32, category="latent"),
    _image(
        "EmptyFlux2LatentImage",
        (1024, 16, 16),
        128,
        16,
        category="latent",
        display_name="Empty Flux 2 Latent",
    ),
    _image(
        "EmptyChromaRadianceLatentImage",
        (1024, 16, 16),
        3,
        1,
        category="latent/chroma_radiance",
    ),
    _video(
        "EmptyHunyuanLatentVideo",
        _HUNYUAN,
        (25, 1, 4),
        16,
        8,
        display_name="Empty HunyuanVideo 1.0 Latent",
    ),
    _video(
        "EmptyHunyuanVideo15Latent",
        _HUNYUAN,
        (25, 1, 4),
        32,
        16,
        display_name="Empty HunyuanVideo 1.5 Latent",
    ),
    _video("EmptyMochiLatentVideo", _HUNYUAN, (25, 7, 6), 12, 8),
    _video("EmptyCosmosLatentVideo", _sides(1280, 704, 16, 16), (121, 1, 8), 16, 8),
    _video(
        "EmptyLTXVLatentVideo",
        _sides(768, 512, 64, 32),
        (97, 1, 8),
        128,
        32,
        category="latent/video/ltxv",
    ),
    _empty(
        "EmptyQwenImageLayeredLatentImage",
        {
            "width": _number(640, 16, 16),
            "height": _number(640, 16, 16),
            "layers": _number(3, 0, 1),
        },
        lambda width, height, layers: (16, layers + 1, height // 8, width // 8),
        category="latent/qwen",
        display_name="Empty Qwen Image Layered Latent",
    ),
    _empty(
        "EmptyLatentHunyuan3Dv2",
        {"resolution": ("INT", {"default": 3072, "min": 1, "max": 8192})},
        lambda resolution: (64, resolution),
        kind="hunyuan3dv2",
        category="latent/3d",
    ),
    _empty(
        "EmptyLatentAudio",
        {"seconds": ("FLOAT", {"default": 47.6, **_SECONDS_OF_AUDIO})},
        lambda seconds: (64, round(seconds * 44100 / 2048 / 2) * 2),
        kind="audio",
        category="latent/audio",
        display_name="Empty Latent Audio",
    ),
    _empty(
        "EmptyAceStepLatentAudio",
        {"seconds": ("FLOAT", {"default": 120.0, **_SECONDS_OF_AUDIO})},
        lambda seconds: (8, 16, int(seconds * 44100 / 512 / 8)),
        kind="audio",
        category="latent/audio",
    ),
)


@node(
    "StableCascade_EmptyLatentImage",
    required={
        "width": _number(1024, 256, 8),
        "height": _number(1024, 256, 8),
        "compression": _number(42, 4, 1, 128),
        "batch_size": _COUNT,
    },
    outputs=(OutputPort("stage_c", "LATENT"), OutputPort("stage_b", "LATENT")),
    category="latent/stable_cascade",
    schema="v3",
)
def empty_cascade_latents(
    width: int, height: int, compression: int, batch_size: int
) -> tuple[Latent, Latent]:
    first = empty_latent(batch_size, 16, height // compression, width // compression)
    return first, empty_latent(batch_size, 4, height // 4, width // 4)


NODES = (*EMPTY_LATENTS, empty_cascade_latents)
