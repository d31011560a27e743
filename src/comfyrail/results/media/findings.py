"""What is found out about one file, piece by piece: what is known stays when the rest fails."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from comfyrail.results.media.messages import Looked, MadeFile
from comfyrail.store.media import Kind, MediaFacts

EMBEDDED = "embedded"
"""The variant that has the graphs of a file, by `prompt` and `workflow`."""
LONGEST_TEXT = 300
MOST_SECONDS = 1e9
MOST_COUNTS = 20
HIGHEST_COUNT = (1 << 53) - 1
"""What every reader of JSON can take."""


class Findings:
    """`folder`: where files go that are made of it."""

    def __init__(self, path: Path, content_type: str, folder: Path, kind: Kind) -> None:
        self.path = path
        self.content_type = content_type
        self.folder = folder
        self.variants: list[MadeFile] = []
        self._facts: dict[str, Any] = {"kind": kind}

    def note(self, **facts: Any) -> None:
        """None is nothing known."""
        self._facts |= {name: value for name, value in facts.items() if value is not None}

    def made(
        self,
        name: str,
        file: Path,
        content_type: str,
        width: int | None = None,
        height: int | None = None,
    ) -> None:
        self.variants.append(
            MadeFile(
                name=name, file=file.name, content_type=content_type, width=width, height=height
            )
        )

    def keep_graphs(self, graphs: Mapping[str, str]) -> None:
        """What was found in it, as plain JSON: ComfyUI also writes numbers that JSON has not."""
        if not graphs:
            return
        self.note(has_prompt="prompt" in graphs, has_workflow="workflow" in graphs)
        values = {
            name: json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
            for name, text in graphs.items()
        }
        file = self.folder / f"{EMBEDDED}.json"
        content = json.dumps(
            values, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
        )
        file.write_text(content, encoding="utf-8", errors="replace")
        self.made(EMBEDDED, file, "application/json")

    def looked(self, error: str | None = None) -> Looked:
        self.note(error=error, counts=_bounded(self._facts.get("counts", {})))
        return Looked(facts=MediaFacts(**self._facts), variants=self.variants)


def _finite(text: str) -> float | None:
    """`1e999` is a number to JSON, but to no reader of it."""
    number = float(text)
    return number if math.isfinite(number) else None


def _bounded(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: min(count, HIGHEST_COUNT) for name, count in list(counts.items())[:MOST_COUNTS]}


def short(text: object) -> str | None:
    """One line for people, or None for nothing."""
    line = "".join(char for char in str(text or "") if char.isprintable()).strip()
    return line[:LONGEST_TEXT] or None


def seconds(value: float | None) -> float | None:
    """A length as far as it can be one."""
    if value is None or not 0 <= value <= MOST_SECONDS:
        return None
    return round(float(value), 3)
