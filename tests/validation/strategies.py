"""Workflows that hypothesis makes: right ones, wrong ones, and nonsense."""

from typing import Any

from hypothesis import strategies as st

from tests.graphs import Graph
from tests.validation.parts import node, shown_image

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.text(st.characters(categories=["Cs", "Cc", "Lu"]), max_size=5)
    | st.sampled_from(
        [
            "20.0",
            "nan",
            "inf",
            "1e300",
            "false",
            "../x",
            "http://127.0.0.1/",
            "eval(1)",
            "eulr",
            "sd15",
            10**400,
            -(10**400),
            "9" * 5000,
        ]
    )
)
LINKS = st.tuples(
    st.sampled_from(["1", "2", "k", "c", "nowhere", ""]), st.integers(-2, 3) | st.booleans()
).map(list)
VALUES = st.recursive(
    SCALARS | LINKS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        | st.fixed_dictionaries({"__value__": inner})
    ),
    max_leaves=6,
)

_CHOICES: dict[str, st.SearchStrategy[Any]] = {
    "seed": st.integers(0, 2**64 - 1),
    "steps": st.integers(1, 100),
    "cfg": st.floats(0, 100, allow_nan=False) | st.integers(0, 100).map(str),
    "sampler_name": st.sampled_from(["euler", "heun", "ddim"]),
    "scheduler": st.sampled_from(["normal", "karras"]),
    "denoise": st.floats(0, 1, allow_nan=False) | st.booleans(),
}
_SAMPLER_LINKS = {
    "model": ["c", 0],
    "positive": ["p", 0],
    "negative": ["p", 0],
    "latent_image": ["l", 0],
}


@st.composite
def right_workflows(draw: st.DrawFn) -> Graph:
    """Any of a kind, with values that ComfyUI takes though some need converting."""
    side = st.integers(16, 128).map(lambda number: number * 8)
    size = {"width": draw(side), "height": draw(side | side.map(str)), "batch_size": 1}
    graph = {
        "c": node("CheckpointLoaderSimple", ckpt_name="sd15.safetensors"),
        "p": node("CLIPTextEncode", clip=["c", 1], text=draw(st.text(max_size=30))),
        "l": node("EmptyLatentImage", **size),
        "d": node("VAEDecode", samples=["k", 0], vae=["c", 2]),
        "s": node("PreviewImage", images=["d", 0]),
    }
    settings = {name: draw(values) for name, values in _CHOICES.items()}
    graph["k"] = node("KSampler", **settings, **_SAMPLER_LINKS)
    return graph


@st.composite
def wrong_workflows(draw: st.DrawFn) -> Graph:
    """A right one in which a few inputs are anything."""
    graph = draw(right_workflows()) | shown_image()
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(sorted(graph)))
        inputs = [*sorted(graph[name]["inputs"]), "stranger", "images.image0"]
        graph[name]["inputs"][draw(st.sampled_from(inputs))] = draw(VALUES)
    return graph


NODES = st.fixed_dictionaries(
    {
        "class_type": st.sampled_from(["KSampler", "EmptyImage", "ResizeImageMaskNode", "Nope"])
        | st.text(max_size=10),
        "inputs": st.dictionaries(
            st.sampled_from(["width", "resize_type", "images", "seed", "url"])
            | st.text(max_size=4),
            VALUES,
            max_size=5,
        ),
    }
)
NONSENSE = st.dictionaries(st.text(max_size=5), NODES | VALUES, max_size=6)
