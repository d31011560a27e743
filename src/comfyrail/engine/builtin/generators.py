"""Nodes that make images out of nothing, so that an empty installation has something to show."""

import math

import numpy as np
import numpy.typing as npt
from PIL import ImageDraw, ImageFont

from comfyrail.engine.builtin.palettes import (
    PALETTES,
    colour_ramp,
    read_colour,
    read_colours,
)
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import node
from comfyrail.engine.pixels import FloatArray, to_floats, to_picture

CATEGORY = "comfyrail/generate"
_STRIP_ROWS = 128
_WIDTH = ("INT", {"default": 512, "min": 1, "max": 8192, "step": 1})
_HEIGHT = ("INT", {"default": 512, "min": 1, "max": 8192, "step": 1})
_SEED = ("INT", {"default": 0, "min": 0, "max": 0xFFFFFFFFFFFFFFFF, "control_after_generate": True})
_POSITIONS = {
    "top left": (0.0, 0.0),
    "top": (0.5, 0.0),
    "top right": (1.0, 0.0),
    "left": (0.0, 0.5),
    "center": (0.5, 0.5),
    "right": (1.0, 0.5),
    "bottom left": (0.0, 1.0),
    "bottom": (0.5, 1.0),
    "bottom right": (1.0, 1.0),
}


@node(
    "GradientImage",
    required={
        "width": _WIDTH,
        "height": _HEIGHT,
        "colors": ("STRING", {"default": "#1b1035, #c3427b, #fde8a5"}),
        "angle": ("FLOAT", {"default": 45.0, "min": -360.0, "max": 360.0, "step": 1.0}),
        "shape": (["linear", "radial"],),
    },
    outputs=("IMAGE",),
    category=CATEGORY,
    display_name="Gradient Image",
    description="Two or more colours that run into each other, along an angle or from the middle.",
)
def gradient_image(
    *, width: int, height: int, colors: str, angle: float, shape: str, context: NodeContext
) -> FloatArray:
    ramp = read_colours(colors)
    image = np.empty((1, height, width, 3), np.float32)
    across = (np.arange(width, dtype=np.float32) + 0.5) / width * 2 - 1
    down = (np.arange(height, dtype=np.float32) + 0.5) / height * 2 - 1
    turn = math.radians(angle)
    reach = abs(math.cos(turn)) + abs(math.sin(turn))
    for top in range(0, height, _STRIP_ROWS):
        rows = down[top : top + _STRIP_ROWS, None]
        if shape == "radial":
            places = np.sqrt(across**2 + rows**2) / math.sqrt(2)
        else:
            places = ((across * math.cos(turn) + rows * math.sin(turn)) / reach + 1) / 2
        image[0, top : top + _STRIP_ROWS] = colour_ramp(places, ramp)
        context.progress(min(top + _STRIP_ROWS, height), height)
    return image


@node(
    "NoiseImage",
    required={
        "width": _WIDTH,
        "height": _HEIGHT,
        "seed": _SEED,
        "scale": ("FLOAT", {"default": 128.0, "min": 1.0, "max": 4096.0, "step": 1.0}),
        "octaves": ("INT", {"default": 6, "min": 1, "max": 12, "step": 1}),
        "palette": (list(PALETTES),),
    },
    outputs=("IMAGE",),
    category=CATEGORY,
    display_name="Noise Image",
    description="Clouds: smooth noise of several sizes laid over each other, in colours.",
)
def noise_image(
    *,
    width: int,
    height: int,
    seed: int,
    scale: float,
    octaves: int,
    palette: str,
    context: NodeContext,
) -> FloatArray:
    source = np.random.default_rng(seed)
    ramp = np.stack([read_colour(colour) for colour in PALETTES[palette]])
    total = np.zeros((height, width), np.float32)
    for octave in range(octaves):
        context.check_interrupt()
        cell = max(scale / 2**octave, 1.0)
        total += _value_noise(source, width, height, cell) * np.float32(0.5**octave)
        context.preview(colour_ramp(_stretched(total[::4, ::4]), ramp))
        context.progress(octave + 1, octaves)
    return colour_ramp(_stretched(total), ramp)[None]


def _value_noise(
    source: np.random.Generator, width: int, height: int, cell: float
) -> npt.NDArray[np.float32]:
    """Random values on a grid of this cell size, with smooth passages between them."""
    x, to_right = _smooth_steps(width, cell)
    y, to_bottom = _smooth_steps(height, cell)
    grid = source.random((int(y[-1]) + 2, int(x[-1]) + 2), dtype=np.float32)
    rows = grid[y] + (grid[y + 1] - grid[y]) * to_bottom[:, None]
    left = rows[:, x]
    return left + (rows[:, x + 1] - left) * to_right


def _smooth_steps(length: int, cell: float) -> tuple[npt.NDArray[np.intp], FloatArray]:
    places = np.arange(length, dtype=np.float32) / np.float32(cell)
    cells = places.astype(np.intp)
    t = places - cells.astype(np.float32)
    smooth: FloatArray = t * t * t * (t * (t * 6 - 15) + 10)
    return cells, smooth


def _stretched(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    low, high = values.min(), values.max()
    stretched: FloatArray = (values - low) / max(high - low, np.float32(1e-6))
    return stretched


@node(
    "CheckerboardImage",
    required={
        "width": _WIDTH,
        "height": _HEIGHT,
        "cell": ("INT", {"default": 64, "min": 1, "max": 4096, "step": 1}),
        "color1": ("STRING", {"default": "#20242c"}),
        "color2": ("STRING", {"default": "#e8e4da"}),
    },
    outputs=("IMAGE",),
    category=CATEGORY,
    display_name="Checkerboard Image",
)
def checkerboard_image(width: int, height: int, cell: int, color1: str, color2: str) -> FloatArray:
    colours = np.stack([read_colour(color1), read_colour(color2)])
    down, across = np.arange(height) // cell, np.arange(width) // cell
    image: FloatArray = colours[(down[:, None] + across) % 2][None]
    return image


@node(
    "TextOnImage",
    required={
        "image": ("IMAGE",),
        "text": ("STRING", {"default": "Hello", "multiline": True}),
        "size": ("INT", {"default": 48, "min": 4, "max": 1024, "step": 1}),
        "color": ("STRING", {"default": "#ffffff"}),
        "position": (list(_POSITIONS), {"default": "center"}),
    },
    outputs=("IMAGE",),
    category=CATEGORY,
    display_name="Text on Image",
    description="Writes on every image of a batch, a margin of half the size from the border.",
    batches="image",
)
def text_on_image(
    *, image: FloatArray, text: str, size: int, color: str, position: str, context: NodeContext
) -> FloatArray:
    colour = read_colour(color)
    written = image.copy()
    for index in range(len(written)):
        coverage = _draw_text(written.shape[2], written.shape[1], text, size, position)
        strength = coverage[..., None]
        written[index, ..., :3] += (colour - written[index, ..., :3]) * strength
        context.progress(index + 1, len(written))
    return written


def _draw_text(width: int, height: int, text: str, size: int, position: str) -> FloatArray:
    """How much of each pixel the letters cover, 0..1."""
    canvas = to_picture(np.zeros((height, width, 1), np.float32))
    drawing = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(size)
    box = drawing.multiline_textbbox((0, 0), text, font=font, align="center")
    margin = size / 2
    right, down = _POSITIONS[position]
    x = margin + (width - 2 * margin - (box[2] - box[0])) * right - box[0]
    y = margin + (height - 2 * margin - (box[3] - box[1])) * down - box[1]
    drawing.multiline_text((x, y), text, fill=255, font=font, align="center")
    return to_floats(canvas)


NODES = (gradient_image, noise_image, checkerboard_image, text_on_image)
