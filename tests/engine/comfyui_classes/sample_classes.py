"""Node classes in the style of ComfyUI's first kind, good ones and bad ones."""

# ruff: noqa: N802 - the names are ComfyUI's

import asyncio
from typing import Any, ClassVar


class ExecutionBlocker:
    """By its name what ComfyUI's nodes return to stop others."""

    def __init__(self, message: str | None) -> None:
        self.message = message


class Plain:
    DESCRIPTION = "Adds."
    CATEGORY = "tests/math"
    RETURN_TYPES = ("INT", "STRING")
    RETURN_NAMES = ("sum", "text")
    FUNCTION = "add"

    def __init__(self) -> None:
        self.calls = 0

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {
            "required": {
                "a": ("INT", {"default": 1, "min": 0, "max": 9}),
                "mode": (["plus", "minus"],),
            },
            "optional": {"b": ("INT", {"lazy": True}), "link": ("*", {"rawLink": True})},
        }

    def add(self, a: int, mode: str, b: int = 0, **others: Any) -> tuple[Any, ...]:
        self.calls += 1
        return (a + b if mode == "plus" else a - b, f"{self.calls} {sorted(others)}")


class AnyType(str):
    """A type that says that it differs from none."""

    __slots__ = ()

    def __ne__(self, other: object) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)

    __hash__ = str.__hash__


class AnyNames(dict[str, Any]):
    """An input section that has every name."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> tuple[Any, ...]:
        return (AnyType("whatever"), {"lazy": name.startswith("lazy")})


class Flexible:
    RETURN_TYPES = (AnyType("*"), AnyType("ANYTHING"), ["a", "b"])
    FUNCTION = "give"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {}, "optional": AnyNames({"first": ("IMAGE",)})}

    def give(self, **given: Any) -> tuple[Any, ...]:
        return (given,)


class Hidden:
    RETURN_TYPES = ("*",)
    FUNCTION = "show"
    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {
            "required": {"x": ("INT",)},
            "hidden": {
                "me": "UNIQUE_ID",
                "prompt": "PROMPT",
                "info": "EXTRA_PNGINFO",
                "graph": "DYNPROMPT",
                "from_a_graph": ("*",),
            },
        }

    def show(self, **given: Any) -> tuple[Any, ...]:
        return (given,)

    @classmethod
    def IS_CHANGED(cls, **given: Any) -> Any:
        return given

    @classmethod
    def VALIDATE_INPUTS(cls, x: Any, me: str) -> Any:
        return f"{x} {me}"


class HiddenLists(Hidden):
    INPUT_IS_LIST = True


class Lists:
    INPUT_IS_LIST = True
    RETURN_TYPES = ("INT", "INT")
    OUTPUT_IS_LIST = (True, False)
    FUNCTION = "spread"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"items": ("INT",), "factor": ("INT",)}}

    def spread(self, items: list[int], factor: list[int]) -> tuple[Any, ...]:
        items.append(100)
        return ([item * factor[0] for item in items], len(items))

    @classmethod
    def IS_CHANGED(cls, items: Any, factor: Any) -> Any:
        return [list(items), factor]

    @classmethod
    def VALIDATE_INPUTS(cls, factor: Any) -> Any:
        return factor == [2] or f"{factor} is not 2"


class Async:
    RETURN_TYPES = ("INT",)
    FUNCTION = "wait"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"x": ("INT",)}}

    async def wait(self, x: int) -> tuple[int]:
        await asyncio.sleep(0)
        return (x,)

    async def check_lazy_status(self, x: int | None = None) -> list[str]:
        await asyncio.sleep(0)
        return ["x"] if x is None else []

    @classmethod
    async def IS_CHANGED(cls, x: int) -> int:
        await asyncio.sleep(0)
        return x

    @classmethod
    async def VALIDATE_INPUTS(cls, x: int) -> bool | str:
        await asyncio.sleep(0)
        return x < 5 or "too large"


class Returns:
    """Returns what it is told to."""

    RETURN_TYPES: ClassVar[Any] = ("IMAGE", "MASK")
    OUTPUT_IS_LIST = (False, True)
    FUNCTION = "give"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"what": ("*",)}}

    def give(self, what: Any) -> Any:
        if isinstance(what, BaseException):
            raise what
        return what


class Lazy:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "mix"

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"one": ("IMAGE", {"lazy": True}), "two": ("IMAGE", {"lazy": True})}}

    def check_lazy_status(self, one: Any = None, two: Any = None) -> Any:
        if one is None:
            return ["one", 7]
        return None if two is None else ("two",)

    def mix(self, one: Any, two: Any) -> tuple[Any]:
        return (one or two,)


class Judged:
    """Judges the types of what is linked, and every value."""

    RETURN_TYPES = ()
    FUNCTION = "run"
    NOT_IDEMPOTENT = True
    DEPRECATED = True
    EXPERIMENTAL = True
    OUTPUT_TOOLTIPS = ()

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"x": ("INT",)}, "optional": {"y": ("INT",)}}

    @classmethod
    def VALIDATE_INPUTS(cls, input_types: dict[str, str], **values: Any) -> Any:
        return False if input_types.get("x") == "STRING" else not values.get("y")

    def run(self, **_: Any) -> None:
        return None
