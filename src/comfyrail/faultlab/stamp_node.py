"""A pack with one node, for the workers of a site: no two runs of it give the same.

Outputs of a run that counted for nothing can so be told from those that count: files of equal
content are kept once, and would hide what was left behind. In ComfyUI's style, because a pack is
loaded by a worker and imports nothing of it.
"""

import uuid
from typing import Any, ClassVar

MARK = ", run "


class FaultlabStamp:
    """Adds to a text what makes it unlike that of every other run."""

    RETURN_TYPES: ClassVar[tuple[str, ...]] = ("STRING",)
    FUNCTION: ClassVar[str] = "stamp"
    CATEGORY: ClassVar[str] = "faultlab"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:  # noqa: N802 - the name that ComfyUI knows
        return {"required": {"text": ("STRING", {"default": ""})}}

    @classmethod
    def IS_CHANGED(cls, text: str) -> float:  # noqa: N802 - as above
        del text
        return float("nan")

    def stamp(self, text: str) -> tuple[str]:
        return (f"{text}{MARK}{uuid.uuid4().hex}",)


NODE_CLASS_MAPPINGS = {"FaultlabStamp": FaultlabStamp}
