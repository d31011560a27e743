"""How errors are said to programs that were written for another API."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from comfyrail.api.contract import ErrorReply
from comfyrail.errors import ComfyrailError

Translation = Callable[[ErrorReply, int, ComfyrailError], tuple[Any, int]]
"""Our body, its status and the error itself → the body and status of that API."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """`paths` matches the beginnings of the paths whose errors it says."""

    paths: re.Pattern[str]
    translate: Translation


DIALECTS: tuple[Dialect, ...] = ()
