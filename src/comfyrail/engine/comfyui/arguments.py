"""ComfyUI's own flags, read by ComfyUI's own parser."""

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from comfyrail.errors import ConfigurationError


class CacheChoice(NamedTuple):
    """Which results are kept: those of the last prompt (classic), the newest `size` ones (lru),
    as many as leave `size` GB of memory free (ram), or none.
    """

    kind: Literal["classic", "lru", "ram", "none"]
    size: float = 0.0


class Listening(NamedTuple):
    hosts: tuple[str, ...]
    port: int


def parse_arguments(checkout: Path, arguments: Sequence[str]) -> Any:
    """What ComfyUI makes of its flags. Its folder must be on the path; can be done only once.

    `sys.argv` stays as ComfyUI would have it: packs look at it. Raises ConfigurationError.
    """
    sys.argv = [str(checkout / "main.py"), *arguments]
    options: Any = importlib.import_module("comfy.options")
    options.enable_args_parsing()
    complaints = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaints):
            cli: Any = importlib.import_module("comfy.cli_args")
    except SystemExit as error:
        if not error.code:
            raise
        reason = complaints.getvalue().strip().rpartition("error: ")[2]
        raise ConfigurationError(
            f"ComfyUI does not take these flags: {reason}. "
            f"`python {checkout / 'main.py'} --help` lists them.",
            code="COMFYUI_FLAGS",
        ) from error
    return cli.args


def listening_of(arguments: Any) -> Listening:
    """`--listen` alone means all addresses; several are separated by commas."""
    hosts = [host.strip() for host in str(arguments.listen).split(",")]
    return Listening(tuple(host for host in hosts if host), int(arguments.port))


def cache_choice_of(arguments: Any) -> CacheChoice:
    if getattr(arguments, "cache_lru", 0) > 0:
        return CacheChoice("lru", arguments.cache_lru)
    if getattr(arguments, "cache_ram", 0) > 0:
        return CacheChoice("ram", arguments.cache_ram)
    return CacheChoice("none" if getattr(arguments, "cache_none", False) else "classic")


def takes_custom_nodes(arguments: Any, name: str | None = None) -> bool:
    """Whether custom nodes are wanted at all, or this one of them."""
    wanted = getattr(arguments, "whitelist_custom_nodes", [])
    if not arguments.disable_all_custom_nodes:
        return True
    return bool(wanted) if name is None else name in wanted


def set_device_variables(arguments: Any) -> None:
    """Which devices torch will see, as ComfyUI says it. Must come before torch is imported."""
    environment = os.environ
    environment["HF_HUB_DISABLE_TELEMETRY"] = "1"
    environment["DO_NOT_TRACK"] = "1"
    environment["TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL"] = "1"
    first = getattr(arguments, "default_device", None)
    if first is not None:
        order = ",".join(map(str, [first, *(each for each in range(32) if each != first)]))
        environment["CUDA_VISIBLE_DEVICES"] = environment["HIP_VISIBLE_DEVICES"] = order
    only = getattr(arguments, "cuda_device", None)
    if only is not None:
        for name in ("CUDA", "HIP", "ASCEND_RT"):
            environment[f"{name}_VISIBLE_DEVICES"] = str(only)
    selector = getattr(arguments, "oneapi_device_selector", None)
    if selector is not None:
        environment["ONEAPI_DEVICE_SELECTOR"] = str(selector)
    if getattr(arguments, "deterministic", False):
        environment.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
