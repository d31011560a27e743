"""The jobs of a run: small graphs of which it is known beforehand what they must give."""

import io
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image, UnidentifiedImageError

from comfyrail.faultlab.stamp_node import MARK

PRIORITIES = (1, 3, 5, 5, 5, 8, 10)
CANCELLED_SHARE = 0.06
REPEATED_SHARE = 0.1
FOLLOWED_SHARE = 0.1
OUTPUTS = 2
"""A picture and a text."""


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """What one submission asks for.

    `cancel_after`: seconds after which the client takes it back; `is_repeated`: the client sends it
    again although it was accepted; `is_followed`: somebody reads its events from first to last.
    """

    key: str
    colour: int
    width: int
    height: int
    text: str
    seconds: float
    priority: int
    cancel_after: float | None = None
    is_repeated: bool = False
    is_followed: bool = False

    @property
    def graph(self) -> dict[str, dict[str, Any]]:
        size = {"width": self.width, "height": self.height, "batch_size": 1, "color": self.colour}
        saved = {"images": ["2", 0], "filename_prefix": "faultlab"}
        return {
            "1": {"class_type": "EmptyImage", "inputs": size},
            "2": {"class_type": "Delay", "inputs": {"value": ["1", 0], "seconds": self.seconds}},
            "3": {"class_type": "SaveImage", "inputs": saved},
            "4": {"class_type": "FaultlabStamp", "inputs": {"text": self.text}},
            "5": {"class_type": "PreviewAny", "inputs": {"source": ["4", 0]}},
        }

    def faults_of(self, contents: Sequence[tuple[str, bytes]]) -> list[str]:
        """What is wrong with the outputs, given as (kind, bytes); nothing where all are right."""
        pictures = [content for kind, content in contents if kind == "images"]
        texts = [content for kind, content in contents if kind == "text"]
        if len(pictures) != 1 or len(texts) != 1 or len(contents) != OUTPUTS:
            return [f"{len(pictures)} pictures and {len(texts)} texts of {len(contents)} outputs"]
        is_text = texts[0].startswith(f"{self.text}{MARK}".encode())
        wrong = [] if is_text else [f"the text is {texts[0][:80]!r}"]
        found = _look_of(pictures[0])
        expected = f"{self.width}x{self.height} #{self.colour:06x}"
        return wrong if found == expected else [*wrong, f"the picture is {found}, not {expected}"]


def plan_jobs(
    count: int, seed: int, seconds: tuple[float, float] = (0.05, 0.5)
) -> list[PlannedJob]:
    """The same for the same seed; no two give the same files."""
    chance = random.Random(f"jobs-{seed}")  # noqa: S311 - reproducible, not secret
    colours = chance.sample(range(1 << 24), count)
    return [_make(number, colour, seed, seconds, chance) for number, colour in enumerate(colours)]


def _make(
    number: int, colour: int, seed: int, seconds: tuple[float, float], chance: random.Random
) -> PlannedJob:
    is_cancelled = chance.random() < CANCELLED_SHARE
    return PlannedJob(
        key=f"faultlab-{seed}-{number}",
        colour=colour,
        width=chance.randrange(8, 65),
        height=chance.randrange(8, 65),
        text=f"job {number} of seed {seed}",
        seconds=round(chance.uniform(*seconds), 3),
        priority=chance.choice(PRIORITIES),
        cancel_after=round(chance.uniform(0, 1), 3) if is_cancelled else None,
        is_repeated=chance.random() < REPEATED_SHARE,
        is_followed=chance.random() < FOLLOWED_SHARE,
    )


def _look_of(content: bytes) -> str:
    """Size and colour of a picture that has only one, as text."""
    try:
        with Image.open(io.BytesIO(content)) as picture:
            plain = picture.convert("RGB")
    except (UnidentifiedImageError, OSError) as error:
        return f"none: {error}"
    colours: Iterable[Any] = plain.getcolors() or ()
    shown = ", ".join(f"#{red:02x}{green:02x}{blue:02x}" for _, (red, green, blue) in colours)
    return f"{plain.width}x{plain.height} {shown or 'of many colours'}"
