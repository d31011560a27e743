"""Random graphs of nodes that need no model, the same for the same seed."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from comfyrail.engine.builtin.filters import MORPHOLOGY
from comfyrail.engine.builtin.masks import MASK_OPERATIONS
from comfyrail.engine.builtin.mixing import BLEND_MODES
from comfyrail.engine.builtin.porter_duff import PORTER_DUFF_MODES
from comfyrail.engine.builtin.quantizing import DITHERINGS
from comfyrail.engine.builtin.strings import CASES, COMPARISONS, TRIMS
from comfyrail.engine.latent_values import LATENT_METHODS
from comfyrail.engine.resampling import RESAMPLING_METHODS
from comfyrail.engine.tensor_files import encode_tensors

Graph = dict[str, dict[str, Any]]
Link = list[Any]

STEPS = 8
WORDS = ("Über", "alpha beta", "  a1=b2 ", "Straße\nzwei", "AAAbbb", "x", "")
PATTERNS = (r"[ab]+", r"(\w)(\d)?", "^a", "(", r"\s+", "B")
# Where torch's square roots, which depend on the processor, are the nearest floats.
RADIUSES = (1, 2, 4)
# Without the one that is not equal to the last bit.
EXACT_LATENT_METHODS = tuple(method for method in LATENT_METHODS if method != "bislerp")
LARGEST_SEED = 2**64 - 1


def sample_pictures() -> dict[str, npt.NDArray[np.uint8]]:
    """The files that graphs load: noise, ramps, and one with alpha."""
    source = np.random.default_rng(7)
    ramp = np.linspace(0, 255, 24 * 33 * 3).astype(np.uint8).reshape(24, 33, 3)
    return {
        "noise.png": source.integers(0, 256, (21, 17, 3), np.uint8),
        "ramp.png": ramp,
        "tall.png": source.integers(0, 256, (37, 12, 3), np.uint8),
        "alpha.png": source.integers(0, 256, (16, 26, 4), np.uint8),
        "large.png": source.integers(0, 256, (150, 90, 3), np.uint8),
    }


def sample_latents() -> dict[str, npt.NDArray[np.float32]]:
    source = np.random.default_rng(11)
    shapes = {"one.latent": (1, 4, 8, 9), "two.latent": (2, 4, 11, 8), "wide.latent": (1, 4, 8, 70)}
    return {
        name: source.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }


def write_inputs(folder: Path) -> None:
    """All files that graphs load, into an input folder."""
    for name, pixels in sample_pictures().items():
        Image.fromarray(pixels).save(folder / name)
    for name, samples in sample_latents().items():
        unscaled = {"latent_format_version_0": np.zeros(0, np.float32)}
        (folder / name).write_bytes(encode_tensors({**unscaled, "latent_tensor": samples}, {}))
    (folder / "old.latent").write_bytes(encode_tensors({"latent_tensor": samples}, {}))
    cats = folder / "cats" / "2_cats"
    cats.mkdir(parents=True, exist_ok=True)
    Image.fromarray(sample_pictures()["tall.png"]).save(cats / "cat.PNG")
    (cats / "cat.txt").write_text("  a cat\n", encoding="utf-8")


class GraphMaker:
    """Grows a graph: each step adds a node that takes what is there already."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.graph: Graph = {}
        kinds = ("IMAGE", "MASK", "STRING", "LATENT")
        self._values: dict[str, list[Link]] = {kind: [] for kind in kinds}
        self._others: list[Link] = []

    def make(self) -> Graph:
        for name in self._pick_some(sample_pictures(), 3):
            self._add("LoadImage", "IMAGE MASK", image=name)
            self._add("LoadImageMask", "MASK", image=name, channel=self._pick(("red", "alpha")))
        size = {"width": self._number(8, 30), "height": self._number(8, 30)}
        self._add("SolidMask", "MASK", value=self._share(), **size)
        self._add("PrimitiveString", "STRING", value=self._pick(WORDS))
        for name in self._pick_some((*sample_latents(), "old.latent"), 2):
            self._add("LoadLatent", "LATENT", latent=name)
        for _ in range(STEPS):
            self._pick(_STEPS)(self)
        for _ in range(2):
            self._pick(_STRING_STEPS)(self)
        for _ in range(3):
            self._pick(_LATENT_STEPS)(self)
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
        for link in self._values["LATENT"]:
            self._add("SaveLatent", "", samples=link, filename_prefix="latents/parity")
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

    def _latent(self) -> Link:
        return list(self._pick(self._values["LATENT"]))

    def _one_image(self) -> Link:
        """The first of a batch: some nodes of ComfyUI's take no more."""
        start = {"batch_index": 0, "length": 1}
        self._add("ImageFromBatch", "", image=self._image(), **start)
        return [str(len(self.graph)), 0]

    def _one_latent(self) -> Link:
        start = {"batch_index": 0, "length": 1}
        self._add("LatentFromBatch", "", samples=self._latent(), **start)
        return [str(len(self.graph)), 0]

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
            "ImageScale": {**upscale, "width": number(8, 140), "height": 24, "crop": "center"},
            "ImageScaleBy": {**upscale, "scale_by": number(5, 20) / 10},
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
        radius, sigma = self._pick(RADIUSES), self._number(1, 20) / 10
        kernel = {"operation": self._pick(MORPHOLOGY), "kernel_size": self._number(3, 6)}
        colours = {"colors": self._number(1, 20), "dither": self._pick(DITHERINGS)}
        filters: Mapping[str, dict[str, Any]] = {
            "ImageInvert": {},
            "ImageBlur": {"blur_radius": radius, "sigma": sigma},
            "ImageSharpen": {"sharpen_radius": radius, "sigma": sigma, "alpha": alpha},
            "Morphology": kernel,
            "ImageQuantize": colours,
            "ImageAddNoise": {"seed": self._number(0, LARGEST_SEED), "strength": self._share()},
        }
        name = self._pick(filters)
        self._add(name, "IMAGE", image=self._image(), **filters[name])

    def make_image(self) -> None:
        if self._flag():
            self._add("LoadImageOutput", "IMAGE MASK", image="ramp.png [input]")
            return
        size = {"width": self._number(1, 50), "height": self._number(1, 50), "batch_size": 2}
        self._add("EmptyImage", "IMAGE", **size, color=self._number(0, 0xFFFFFF))

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

    def hold_value(self) -> None:
        values: Mapping[str, Any] = {
            "PrimitiveInt": self._number(-9, 2**62),
            "PrimitiveFloat": self._number(-99, 99) / 8,
            "PrimitiveBoolean": self._flag(),
            "PrimitiveStringMultiline": self._pick(WORDS),
        }
        name = self._pick(values)
        self._add(name, "ANY", value=values[name])

    def measure_text(self) -> None:
        self._add("StringLength", "INT", string=self._text())
        look = {"substring": self._pick(WORDS), "case_sensitive": self._flag()}
        self._add("StringContains", "BOOLEAN", string=self._text(), **look)

    def change_dataset_images(self) -> None:
        number = self._number
        size = {"width": number(5, 40), "height": number(5, 40)}
        changes: Mapping[str, dict[str, Any]] = {
            "ResizeImagesByShorterEdge": {"shorter_edge": number(8, 40)},
            "ResizeImagesByLongerEdge": {"longer_edge": number(20, 60)},
            "CenterCropImages": size,
            "RandomCropImages": {**size, "seed": number(0, LARGEST_SEED)},
            "NormalizeImages": {"mean": self._share(), "std": number(1, 100) / 100},
            "AdjustBrightness": {"factor": number(0, 20) / 10},
            "AdjustContrast": {"factor": number(0, 20) / 10},
        }
        name = self._pick(changes)
        self._add(name, "IMAGE", images=self._one_image(), **changes[name])

    def use_image_list(self) -> None:
        """A list of single images, and what a dataset's nodes make of all of it."""
        self._add("RebatchImages", "", images=self._image(), batch_size=1)
        singles = [str(len(self.graph)), 0]
        cell = {"cell_width": self._number(32, 50), "cell_height": 32, "padding": 3}
        lists: Mapping[str, dict[str, Any]] = {
            "ShuffleDataset": {"seed": self._number(0, LARGEST_SEED)},
            "ImageDeduplication": {"similarity_threshold": self._pick((0.5, 0.9, 1.0))},
            "ImageGrid": {"columns": self._number(1, 3), **cell},
            "MergeImageLists": {},
        }
        name = self._pick(lists)
        self._add(name, "IMAGE", images=singles, **lists[name])

    def load_dataset(self) -> None:
        if self._flag():
            self._add("LoadImageDataSetFromFolder", "IMAGE", folder="cats/2_cats")
            return
        self._add("LoadImageTextDataSetFromFolder", "IMAGE STRING", folder="cats")
        images, texts = ([str(len(self.graph)), slot] for slot in (0, 1))
        seed = self._number(0, LARGEST_SEED)
        self._add("ShuffleImageTextDataset", "IMAGE STRING", images=images, texts=texts, seed=seed)

    def change_dataset_text(self) -> None:
        words = self._pick(WORDS)
        changes: Mapping[str, dict[str, Any]] = {
            "TextToLowercase": {},
            "TextToUppercase": {},
            "TruncateText": {"max_length": self._number(1, 6)},
            "AddTextPrefix": {"prefix": words},
            "AddTextSuffix": {"suffix": words},
            "ReplaceText": {"find": self._pick(("a", "b", "")), "replace": words},
            "StripWhitespace": {},
            "MergeTextLists": {},
        }
        name = self._pick(changes)
        self._add(name, "LIST", texts=self._text(), **changes[name])

    def change_latent(self) -> None:
        number = self._number
        sides = {"width": number(8, 60) * 8, "height": number(8, 60) * 8}
        place = {"x": number(0, 4) * 8, "y": number(0, 4) * 8}
        upscale = {"upscale_method": self._pick(EXACT_LATENT_METHODS)}
        turn = self._pick(("none", "90 degrees", "180 degrees", "270 degrees"))
        flip = self._pick(("x-axis: vertically", "y-axis: horizontally"))
        crop = self._pick(("disabled", "center"))
        cut = {"dim": self._pick("xy"), "index": number(-9, 9), "amount": number(3, 9)}
        changes: Mapping[str, dict[str, Any]] = {
            "LatentUpscale": {**upscale, **sides, "crop": crop},
            "LatentUpscaleBy": {**upscale, "scale_by": number(5, 30) / 10},
            "LatentRotate": {"rotation": turn},
            "LatentFlip": {"flip_method": flip},
            "LatentCrop": {"width": 64, "height": 64, **place},
            "LatentCut": cut,
            "LatentMultiply": {"multiplier": number(-100, 100) / 10},
            "SetLatentNoiseMask": {"mask": self._mask()},
            "LatentFromBatch": {"batch_index": number(0, 2), "length": number(1, 2)},
            "RepeatLatentBatch": {"amount": number(1, 3)},
            "LatentBatchSeedBehavior": {"seed_behavior": self._pick(("random", "fixed"))},
        }
        name = self._pick(changes)
        self._add(name, "LATENT", samples=self._latent(), **changes[name])

    def combine_latents(self) -> None:
        pair = {"samples1": self._latent(), "samples2": self._latent()}
        combinations: Mapping[str, dict[str, Any]] = {
            "LatentAdd": pair,
            "LatentSubtract": pair,
            "LatentBatch": pair,
            "LatentInterpolate": {**pair, "samples1": self._one_latent(), "ratio": self._share()},
            "LatentBlend": {
                "samples1": self._one_latent(),
                "samples2": self._one_latent(),
                "blend_factor": self._share(),
            },
            "LatentConcat": {
                "samples1": pair["samples1"],
                "samples2": pair["samples1"],
                "dim": self._pick(("x", "-x", "y", "-y", "t", "-t")),
            },
        }
        name = self._pick(combinations)
        gives = "" if name == "LatentConcat" else "LATENT"
        self._add(name, gives, **combinations[name])
        if not gives:
            self._add("SaveLatent", "", samples=[str(len(self.graph)), 0], filename_prefix="cat")

    def composite_latents(self) -> None:
        place = {"x": self._number(0, 5) * 8, "y": self._number(0, 5) * 8}
        if self._flag():
            pair = {"samples_to": self._latent(), "samples_from": self._one_latent()}
            feather = self._number(0, 6) * 8
            self._add("LatentComposite", "LATENT", **pair, **place, feather=feather)
            return
        pair = {"destination": self._latent(), "source": self._latent()}
        mask = {"mask": self._mask()} if self._flag() else {}
        resize = {"resize_source": self._flag()}
        self._add("LatentCompositeMasked", "LATENT", **pair, **place, **resize, **mask)

    def rebatch_latents(self) -> None:
        size = self._number(1, 2)
        self._add("RebatchLatents", "LATENT", latents=self._latent(), batch_size=size)

    def make_latent(self) -> None:
        """Of any channels, so that it goes no further than into a file."""
        sides = {"width": self._number(16, 40) * 8, "height": self._number(16, 40) * 8}
        count = {"batch_size": self._number(1, 2)}
        video = {**sides, "length": self._number(7, 30), **count}
        seconds = self._number(10, 300) / 10
        kinds: Mapping[str, dict[str, Any]] = {
            "EmptyLatentImage": {**sides, **count},
            "EmptySD3LatentImage": {**sides, **count},
            "EmptyHunyuanImageLatent": {**sides, **count},
            "EmptyFlux2LatentImage": {**sides, **count},
            "EmptyChromaRadianceLatentImage": {**sides, **count},
            "EmptyHunyuanLatentVideo": video,
            "EmptyHunyuanVideo15Latent": video,
            "EmptyMochiLatentVideo": video,
            "EmptyCosmosLatentVideo": video,
            "EmptyLTXVLatentVideo": video,
            "StableCascade_EmptyLatentImage": {
                "width": 256,
                "height": 280,
                "compression": self._number(4, 60),
                **count,
            },
            "EmptyLatentHunyuan3Dv2": {"resolution": self._number(1, 99), **count},
            "EmptyLatentAudio": {"seconds": seconds, **count},
            "EmptyAceStepLatentAudio": {"seconds": seconds, **count},
        }
        name = self._pick(kinds)
        self._add(name, "", **kinds[name])
        made = [str(len(self.graph)), 0]
        if "Video" in name:
            trim = self._number(0, 1)
            self._add("TrimVideoLatent", "", samples=made, trim_amount=trim)
            made = [str(len(self.graph)), 0]
        self._add("SaveLatent", "", samples=made, filename_prefix="latents/empty")


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
    GraphMaker.make_image,
    GraphMaker.change_dataset_images,
    GraphMaker.use_image_list,
    GraphMaker.load_dataset,
)
_LATENT_STEPS: tuple[Step, ...] = (
    GraphMaker.change_latent,
    GraphMaker.change_latent,
    GraphMaker.combine_latents,
    GraphMaker.composite_latents,
    GraphMaker.rebatch_latents,
    GraphMaker.make_latent,
)
_STRING_STEPS: tuple[Step, ...] = (
    GraphMaker.change_text,
    GraphMaker.join_texts,
    GraphMaker.search_text,
    GraphMaker.measure_text,
    GraphMaker.change_dataset_text,
    GraphMaker.hold_value,
)


def make_graph(seed: int) -> Graph:
    return GraphMaker(seed).make()
