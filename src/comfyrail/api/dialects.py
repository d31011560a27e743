"""How errors are said to programs that were written for another API."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from comfyrail.api.comfy_v2 import errors as comfy_v2
from comfyrail.api.comfyui import dialect as comfyui
from comfyrail.api.comfyui import paths as comfyui_paths
from comfyrail.api.contract import ErrorReply
from comfyrail.api.runpod import words as runpod
from comfyrail.api.runs import words as runs
from comfyrail.errors import ComfyrailError

Translation = Callable[[ErrorReply, int, ComfyrailError], tuple[Any, int]]
"""Our body, its status and the error itself → the body and status of that API."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """`paths` matches the beginnings of the paths whose errors it says."""

    paths: re.Pattern[str]
    translate: Translation


DIALECTS: tuple[Dialect, ...] = (
    Dialect(re.compile(r"/api/v2/jobs/?$"), comfy_v2.translate_submission),
    Dialect(re.compile(r"/api/v2/(jobs|assets)(/|$)"), comfy_v2.translate),
    Dialect(re.compile(r"/comfyui/workflow/|/workflow/state(/|$)"), runs.translate),
    Dialect(
        re.compile(r"/runpod/|/run$|/runsync$|/(status|stream|cancel)/[^/]+$"), runpod.translate
    ),
    Dialect(re.compile(r"/api/jobs(/|$)"), comfyui.translate_job),
    Dialect(comfyui_paths.OWN, comfyui.translate),
)
