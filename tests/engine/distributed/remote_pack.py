"""A pack that coordinators and workers of the tests load: `--nodes remote_pack.py`.

Every node writes to the file that `RUN_LOG` names when it begins and when it has ended, so that a
test can count what ran, and see who is in the middle of something.
"""

import asyncio
import functools
import hashlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from comfyrail.engine.definition import node as engine_node

Inputs = dict[str, Any]

_fresh = itertools.count()


@contextmanager
def logged(name: str) -> Iterator[None]:
    _write(f"{os.getpid()} begin {name}\n")
    try:
        yield
    finally:
        _write(f"{os.getpid()} end {name}\n")


def _write(line: str) -> None:
    path = os.environ.get("RUN_LOG")
    if path:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def node_class(
    function: Callable[..., Any], inputs: Inputs, outputs: tuple[str, ...], **about: Any
) -> type:
    """A class as ComfyUI wants it, whose function logs that it runs."""
    name = about.pop("name", function.__name__)

    if asyncio.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run(_: object, **given: Any) -> Any:
            with logged(name):
                return await function(**given)

    else:

        @functools.wraps(function)
        def run(_: object, **given: Any) -> Any:
            with logged(name):
                return function(**given)

    declared = {"required": inputs}
    if "hidden" in about:
        declared["hidden"] = about.pop("hidden")
    return type(
        name,
        (),
        {
            "INPUT_TYPES": classmethod(lambda _: declared),
            "RETURN_TYPES": outputs,
            "FUNCTION": "run",
            "CATEGORY": "tests",
            "run": run,
            **about,
        },
    )


INT, IMAGE, ANY = ("INT",), ("IMAGE",), ("*",)


def _number(value: int) -> tuple[Any, ...]:
    return (value,)


def _add(a: int, b: int) -> tuple[Any, ...]:
    return ((a + b) % 1000,)


def _count(value: int) -> tuple[Any, ...]:
    return (list(range(value % 3 + 1)),)


def _image(seed: int) -> tuple[Any, ...]:
    return (np.random.default_rng(seed).random((1, 4, 4, 3), np.float32),)


def _scale(image: Any, by: float) -> tuple[Any, ...]:
    return image * np.float32(by), image * np.float32(1 - by)


def _blend(a: Any, b: Any) -> tuple[Any, ...]:
    return ((a + b) / 2,)


def _length(text: str) -> tuple[Any, ...]:
    return (len(text),)


def _mean(image: Any) -> tuple[Any, ...]:
    return (int(image.mean() * 997) % 1000,)


async def _later(value: int) -> tuple[Any, ...]:
    await asyncio.sleep(0)
    return (value + 1,)


def _slow(image: Any, seconds: float) -> tuple[Any, ...]:
    time.sleep(seconds)
    return (image * np.float32(0.5),)


def _fail(value: int) -> tuple[Any, ...]:
    raise ValueError(f"not {value}")


def _out_of_memory(value: int) -> tuple[Any, ...]:
    raise MemoryError(f"{value} is too much")


def _leave(value: int) -> tuple[Any, ...]:
    sys.exit(value)


def _die(value: int) -> tuple[Any, ...]:
    os.kill(os.getpid(), signal.SIGKILL)
    return (value,)


def _hang(value: int) -> tuple[Any, ...]:
    time.sleep(60)
    return (value,)


class Opaque:
    """A value that has no form outside its process, such as a model."""

    def __init__(self, value: int) -> None:
        self.value = value


def _make_opaque(value: int) -> tuple[Any, ...]:
    return (Opaque(value),)


def _read_opaque(opaque: Opaque) -> tuple[Any, ...]:
    return (opaque.value,)


def _who(value: int, node: str) -> tuple[Any, ...]:
    return (f"{node} {value}",)


def _texts(value: int) -> Any:
    return {"ui": {"texts": [f"the value is {value}"]}, "result": (value,)}


def _needed(_: object, flag: int, yes: Any = None, no: Any = None) -> list[str]:
    wanted, there = ("yes", yes) if flag % 2 else ("no", no)
    return [wanted] if there is None else []


def _choose(flag: int, yes: Any = None, no: Any = None) -> tuple[Any, ...]:
    return (yes if flag % 2 else no,)


def _repeat(value: int, name: str) -> Any:
    """Expands into a chain; the ids must be new each time."""
    start = f"{name}-{value}-{os.getpid()}-{next(_fresh)}"
    steps: Inputs = {f"{start}-0": {"class_type": "Number", "inputs": {"value": value}}}
    for step in range(1, value % 4 + 1):
        inputs = {"a": [f"{start}-{step - 1}", 0], "b": step}
        steps[f"{start}-{step}"] = {"class_type": "Add", "inputs": inputs}
    return {"result": ([list(steps)[-1], 0],), "expand": steps}


def _show(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        value = [str(value.dtype), list(value.shape), digest]
    return {"ui": {"value": [value]}}


LAZY = ("INT", {"lazy": True})
NODE_CLASS_MAPPINGS = {
    "Number": node_class(_number, {"value": INT}, INT),
    "Add": node_class(_add, {"a": INT, "b": INT}, INT),
    "Count": node_class(_count, {"value": INT}, INT, OUTPUT_IS_LIST=(True,)),
    "Image": node_class(_image, {"seed": INT}, IMAGE),
    "Scale": node_class(_scale, {"image": IMAGE, "by": ("FLOAT",)}, IMAGE * 2),
    "Blend": node_class(_blend, {"a": IMAGE, "b": IMAGE}, IMAGE),
    "Length": node_class(_length, {"text": ("STRING",)}, INT),
    "Mean": node_class(_mean, {"image": IMAGE}, INT),
    "Later": node_class(_later, {"value": INT}, INT),
    "Slow": node_class(_slow, {"image": IMAGE, "seconds": ("FLOAT",)}, IMAGE),
    "Fail": node_class(_fail, {"value": INT}, INT),
    "OutOfMemory": node_class(_out_of_memory, {"value": INT}, INT),
    "Leave": node_class(_leave, {"value": INT}, INT),
    "Die": node_class(_die, {"value": INT}, INT),
    "Hang": node_class(_hang, {"value": INT}, INT),
    "MakeOpaque": node_class(_make_opaque, {"value": INT}, ("OPAQUE",)),
    "ReadOpaque": node_class(_read_opaque, {"opaque": ("OPAQUE",)}, INT),
    "Who": node_class(_who, {"value": INT}, ("STRING",), hidden={"node": "UNIQUE_ID"}),
    "Texts": node_class(_texts, {"value": INT}, INT),
    "Choose": node_class(
        _choose,
        {"flag": INT, "yes": LAZY, "no": LAZY},
        INT,
        check_lazy_status=_needed,
    ),
    "Repeat": node_class(_repeat, {"value": INT}, INT, hidden={"name": "UNIQUE_ID"}),
    "Show": node_class(_show, {"value": ANY}, (), OUTPUT_NODE=True),
}


@engine_node("Twice", required={"value": INT}, outputs=INT)
def twice(value: int) -> int:
    """In the engine's own way: it may go elsewhere because it does not say that it is local."""
    with logged("_twice"):
        return 2 * value


NODES = [twice]
REMOTE = [name for name in NODE_CLASS_MAPPINGS if name not in {"Repeat", "Show"}]
"""Types that the tests' configurations let go elsewhere."""
