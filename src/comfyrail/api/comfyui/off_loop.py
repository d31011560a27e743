"""What takes longer than a server can pause for is done in a thread."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

SMALL = 1 << 16
"""So many bytes of JSON are read or written in a moment."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


async def off_loop(
    size: int,
    work: Callable[Parameters, Result],
    *given: Parameters.args,
    **named: Parameters.kwargs,
) -> Result:
    """Do it with so many bytes: here, or in a thread where they are many."""
    if size <= SMALL:
        return work(*given, **named)
    return await asyncio.to_thread(work, *given, **named)
