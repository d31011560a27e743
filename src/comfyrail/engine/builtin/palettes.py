"""Colours: how they are written, and ramps between them."""

import numpy as np
import numpy.typing as npt
from PIL import ImageColor

from comfyrail.engine.pixels import FloatArray

PALETTES: dict[str, tuple[str, ...]] = {
    "grey": ("#000000", "#ffffff"),
    "sunset": ("#1b1035", "#5b2a86", "#c3427b", "#f98e52", "#fde8a5"),
    "ocean": ("#041a2f", "#0b4f6c", "#1c9aa0", "#8ad8c0", "#f4fbe7"),
    "forest": ("#0d1f14", "#1f4d2c", "#4f8a3d", "#a9c46c", "#f2efc7"),
    "fire": ("#0a0508", "#5a0f12", "#c2330f", "#f99b1c", "#fff6c2"),
    "ice": ("#0b1026", "#28417a", "#5f9bd0", "#b7e1f2", "#ffffff"),
}


def read_colour(text: str) -> FloatArray:
    """`#rrggbb`, `rgb(…)` or a name, as three floats. Raises ValueError that says what is wrong."""
    try:
        channels = ImageColor.getrgb(text.strip())[:3]
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not a colour. Write #rrggbb or a name such as red."
        ) from error
    return np.array(channels, np.float32) / np.float32(255)


def read_colours(text: str) -> FloatArray:
    """Colours between commas or line ends, at least one, as [count, 3]."""
    parts = [
        part for part in text.replace("\n", ";").replace("),", ");").split(";") if part.strip()
    ]
    names = [name for part in parts for name in ([part] if "(" in part else part.split(","))]
    colours = [read_colour(name) for name in names if name.strip()]
    if not colours:
        raise ValueError("No colours were given. Write some, such as #1b1035, #fde8a5.")
    return np.stack(colours)


def colour_ramp(values: npt.NDArray[np.floating], colours: FloatArray) -> FloatArray:
    """Values 0..1 as colours, evenly spread and mixed between neighbours."""
    places = np.linspace(0, 1, len(colours))
    channels = [np.interp(values, places, colours[:, index]) for index in range(3)]
    return np.stack(channels, axis=-1).astype(np.float32)
