"""Random graphs of nodes that need no model, the same for the same seed."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from comfyrail.engine.builtin.filters import MORPHOLOGY
from comfyrail.engine.builtin.masks import MASK_OPERATIONS
from comfyrail.engine.builtin.mixing import BLEND_MODES
from comfyrail.engine.builtin.porter_duff import PORTER_DUFF_MODES
from comfyrail.engine.builtin.quantizing import DITHERINGS
from comfyrail.engine.builtin.strings import CASES, COMPARISONS, TRIMS
from comfyrail.engine.resampling import RESAMPLING_METHODS

Graph = dict[str, dict[str, Any]]
Link = list[Any]

STEPS = 8
WORDS = ("Über", "alpha beta", "  a1=b2 ", "Straße\nzwei", "AAAbbb", "x", "")
PATTERNS = (r"[ab]+", r"(\w)(\d)?", "^a", "(", r"\s+", "B")


def sample_pictures() -> dict[str, npt.NDArray[np.uint8]]:
    """The files that graphs load: noise, ramps, and one with alpha."""
    source = np.random.default_rng(7)
    ramp = np.linspace(0, 255, 24 * 33 * 3).astype(np.uint8).reshape(24, 33, 3)
    return {
        "noise.png": source.integers(0, 256, (21, 17, 3), np.uint8),
        "ramp.png": ramp,
        "tall.png": source.integers(0, 256, (37, 12, 3), np.uint8),
        "alpha.png": source.integers(0, 256, (16, 26, 4), np.uint8),
    }


class GraphMaker:
    """Grows a graph: each step adds a node that takes what is there already."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.graph: Graph = {}
        self._values: dict[str, list[Link]] = {kind: [] for kind in ("IMAGE", "MASK", "STRING")}
        self._others: list[Link] = []

    def make(self) -> Graph:
        for name in self._pick_some(sample_pictures(), 3):
            self._add("LoadImage", "IMAGE MASK", image=name)
            self._add("LoadImageMask", "MASK", image=name, channel=self._pick(("red", "alpha")))
        size = {"width": self._number(8, 30), "height": self._number(8, 30)}
        self._add("SolidMask", "MASK", value=self._share(), **size)
        self._add("PrimitiveString", "STRING", value=self._pick(WORDS))
        for _ in range(STEPS):
            self._pick(_STEPS)(self)
        for _ in range(2):
            self._pick(_STRING_STEPS)(self)
        self._show()
        return self.graph

    def _show(self) -> None:
        for kind, shown_by, port in (
            ("IMAGE", "PreviewImage", "images"),
            ("MASK", "MaskPreview", "mask"),
            ("STRING", "PreviewAny", "source"),
        ):
            for link in self._values[kind]:
                self._add(shown_by, "", **{port: link})
        for link in self._others:
            self._add("PreviewAny", "", source=link)
        animation = {"images": self._image(), "filename_prefix": "parity", "fps": 7.0}
        if self._flag():
            self._add("SaveAnimatedPNG", "", **animation, compress_level=4)
        else:
            lossless = {"lossless": True, "quality": 80, "method": "fastest"}
            self._add("SaveAnimatedWEBP", "", **animation, **lossless)

    def _add(self, class_type: str, gives: str, **inputs: Any) -> None:
        """Add a node; `gives` names the types of its outputs, those with a dash are left alone."""
        node_id = str(len(self.graph) + 1)
        self.graph[node_id] = {"class_type": class_type, "inputs": inputs}
        for slot, kind in enumerate(gives.split()):
            self._values.get(kind, self._others).append([node_id, slot])

    def _pick(self, options: Any) -> Any:
        return self._random.choice(list(options))

    def _pick_some(self, options: Any, count: int) -> list[Any]:
        return self._random.sample(list(options), count)

    def _image(self) -> Link:
        return list(self._pick(self._values["IMAGE"]))

    def _mask(self) -> Link:
        return list(self._pick(self._values["MASK"]))

    def _text(self) -> Link:
        return list(self._pick(self._values["STRING"]))

    def _number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def _share(self) -> float:
        return self._number(0, 100) / 100

    def _flag(self) -> bool:
        return self._random.random() < 0.5

    def change_mask(self) -> None:
        number, mask = self._number, self._mask()
        changes: Mapping[str, dict[str, Any]] = {
            "InvertMask": {},
            "CropMask": {
                "x": number(0, 5),
                "y": number(0, 5),
                "width": 20,
                "height": number(6, 30),
            },
            "ThresholdMask": {"value": self._share()},
            "FeatherMask": {side: number(0, 9) for side in ("left", "top", "right", "bottom")},
            "GrowMask": {"expand": number(-5, 5), "tapered_corners": self._flag()},
        }
        name = self._pick(changes)
        self._add(name, "MASK", mask=mask, **changes[name])

    def combine_masks(self) -> None:
        place = {"x": self._number(0, 5), "y": self._number(0, 5)}
        operation = self._pick(MASK_OPERATIONS)
        pair = {"destination": self._mask(), "source": self._mask()}
        self._add("MaskComposite", "MASK", **pair, **place, operation=operation)

    def convert(self) -> None:
        channel = self._pick(("red", "green", "blue"))
        conversions: Mapping[str, tuple[str, dict[str, Any]]] = {
            "ImageToMask": ("MASK", {"image": self._image(), "channel": channel}),
            "MaskToImage": ("IMAGE", {"mask": self._mask()}),
            "ImageColorToMask": ("MASK", {"image": self._image(), "color": 0}),
            "SplitImageWithAlpha": ("IMAGE MASK", {"image": self._image()}),
            "GetImageSize": ("INT INT INT", {"image": self._image()}),
        }
        name = self._pick(conversions)
        self._add(name, conversions[name][0], **conversions[name][1])

    def use_alpha(self) -> None:
        """Transparent images go no further than this: few nodes take them."""
        self._add("JoinImageWithAlpha", "", image=self._image(), alpha=self._mask())
        joined = [str(len(self.graph)), 0]
        self._add("SplitImageWithAlpha", "IMAGE MASK", image=joined)
        self._add("PreviewImage", "", images=joined)

    def composite(self) -> None:
        pair = {"source": self._image(), "destination": self._image()}
        if self._flag():
            masks = {"source_alpha": self._mask(), "destination_alpha": self._mask()}
            mode = self._pick(PORTER_DUFF_MODES)
            self._add("PorterDuffImageComposite", "IMAGE MASK", **pair, **masks, mode=mode)
            return
        place = {"x": self._number(0, 8), "y": self._number(0, 8), "resize_source": self._flag()}
        mask = {"mask": self._mask()} if self._flag() else {}
        self._add("ImageCompositeMasked", "IMAGE", **pair, **place, **mask)

    def pad(self) -> None:
        sides = {side: self._number(0, 2) * 8 for side in ("left", "top", "right", "bottom")}
        feathering = self._number(0, 6)
        image = self._image()
        self._add("ImagePadForOutpaint", "IMAGE MASK", image=image, **sides, feathering=feathering)

    def scale(self) -> None:
        number, method = self._number, self._pick(RESAMPLING_METHODS)
        upscale = {"upscale_method": method}
        size = {"target_width": number(8, 40), "target_height": number(8, 40)}
        scalings: Mapping[str, dict[str, Any]] = {
            "ImageScale": {**upscale, "width": number(8, 40), "height": 24, "crop": "center"},
            "ImageScaleToTotalPixels": {**upscale, "megapixels": 0.01, "resolution_steps": 1},
            "ImageScaleToMaxDimension": {**upscale, "largest_size": number(8, 40)},
            "ResizeAndPadImage": {**size, "interpolation": method, "padding_color": "white"},
        }
        name = self._pick(scalings)
        self._add(name, "IMAGE", image=self._image(), **scalings[name])

    def transform(self) -> None:
        turn = self._pick(("none", "90 degrees", "180 degrees", "270 degrees"))
        flip = self._pick(("x-axis: vertically", "y-axis: horizontally"))
        index = {"batch_index": self._number(0, 2), "length": self._number(1, 2)}
        transforms: Mapping[str, dict[str, Any]] = {
            "ImageFlip": {"flip_method": flip},
            "ImageRotate": {"rotation": turn},
            "ImageFromBatch": index,
            "RepeatImageBatch": {"amount": 2},
        }
        name = self._pick(transforms)
        self._add(name, "IMAGE", image=self._image(), **transforms[name])

    def join(self) -> None:
        pair = {"image1": self._image(), "image2": self._image()}
        look = {"spacing_width": self._number(0, 4), "spacing_color": self._pick(("white", "red"))}
        direction = self._pick(("right", "down", "left", "up"))
        match = self._flag()
        joins: Mapping[str, dict[str, Any]] = {
            "ImageBatch": {},
            "ImageBlend": {"blend_factor": self._share(), "blend_mode": self._pick(BLEND_MODES)},
            "ImageStitch": {"direction": direction, "match_image_size": match, **look},
        }
        name = self._pick(joins)
        self._add(name, "IMAGE", **pair, **joins[name])

    def rebatch(self) -> None:
        self._add("RebatchImages", "IMAGE", images=self._image(), batch_size=self._number(1, 2))

    def filter(self) -> None:
        alpha = self._number(0, 20) / 10
        radius, sigma = self._number(1, 2), self._number(1, 20) / 10
        kernel = {"operation": self._pick(MORPHOLOGY), "kernel_size": self._number(3, 6)}
        colours = {"colors": self._number(1, 20), "dither": self._pick(DITHERINGS)}
        filters: Mapping[str, dict[str, Any]] = {
            "ImageInvert": {},
            "ImageBlur": {"blur_radius": radius, "sigma": sigma},
            "ImageSharpen": {"sharpen_radius": radius, "sigma": sigma, "alpha": alpha},
            "Morphology": kernel,
            "ImageQuantize": colours,
        }
        name = self._pick(filters)
        self._add(name, "IMAGE", image=self._image(), **filters[name])

    def split_colours(self) -> None:
        self._add("ImageRGBToYUV", "IMAGE IMAGE IMAGE", image=self._image())
        parts = [[str(len(self.graph)), slot] for slot in self._pick_some(range(3), 3)]
        self._add("ImageYUVToRGB", "IMAGE", **dict(zip("YUV", parts, strict=True)))

    def change_text(self) -> None:
        words, text = self._pick(WORDS), self._text()
        changes: Mapping[str, dict[str, Any]] = {
            "CaseConverter": {"mode": self._pick(CASES)},
            "StringTrim": {"mode": self._pick(TRIMS)},
            "StringReplace": {"find": self._pick(("a", "b", " ")), "replace": words},
            "StringSubstring": {"start": self._number(-3, 3), "end": self._number(-3, 9)},
            "RegexReplace": {"regex_pattern": self._pick(PATTERNS), "replace": r"<\g<0>>"},
        }
        name = self._pick(changes)
        self._add(name, "STRING", string=text, **changes[name])

    def join_texts(self) -> None:
        pair = {"string_a": self._text(), "string_b": self._pick(WORDS)}
        if self._flag():
            self._add("StringConcatenate", "STRING", **pair, delimiter=", ")
            return
        mode = self._pick(COMPARISONS)
        self._add("StringCompare", "BOOLEAN", **pair, mode=mode, case_sensitive=self._flag())

    def search_text(self) -> None:
        flags = {name: self._flag() for name in ("case_insensitive", "multiline", "dotall")}
        search = {"string": self._text(), "regex_pattern": self._pick(PATTERNS), **flags}
        mode = self._pick(("First Match", "All Matches", "First Group"))
        if self._flag():
            self._add("RegexMatch", "BOOLEAN", **search)
        else:
            self._add("RegexExtract", "INT", **search, mode=mode, group_index=self._number(0, 2))

    def measure_text(self) -> None:
        self._add("StringLength", "INT", string=self._text())
        look = {"substring": self._pick(WORDS), "case_sensitive": self._flag()}
        self._add("StringContains", "BOOLEAN", string=self._text(), **look)


Step = Callable[[GraphMaker], None]

_STEPS: tuple[Step, ...] = (
    GraphMaker.change_mask,
    GraphMaker.combine_masks,
    GraphMaker.convert,
    GraphMaker.use_alpha,
    GraphMaker.composite,
    GraphMaker.pad,
    GraphMaker.scale,
    GraphMaker.transform,
    GraphMaker.join,
    GraphMaker.rebatch,
    GraphMaker.filter,
    GraphMaker.split_colours,
)
_STRING_STEPS: tuple[Step, ...] = (
    GraphMaker.change_text,
    GraphMaker.join_texts,
    GraphMaker.search_text,
    GraphMaker.measure_text,
)


def make_graph(seed: int) -> Graph:
    return GraphMaker(seed).make()
