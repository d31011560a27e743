"""Packs of node classes: what came of loading each, and packs that need no ComfyUI."""

import importlib.util
import logging
import os
import sys
import threading
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from comfyrail.engine.comfyui.classes import definition_of
from comfyrail.engine.comfyui.versions import Versions, digest_of_sources
from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.registry import DefinitionSource
from comfyrail.errors import ConfigurationError

log = structlog.get_logger(__name__)

COMFYUI_MODULES = frozenset(
    {
        "app",
        "comfy",
        "comfy_api",
        "comfy_api_nodes",
        "comfy_execution",
        "comfy_extras",
        "execution",
        "folder_paths",
        "latent_preview",
        "node_helpers",
        "nodes",
        "server",
    }
)
PRESTARTUP_SCRIPT = "prestartup_script.py"


class PackFailure(NamedTuple):
    """A pack that could not be loaded; `reason` is one line."""

    name: str
    path: Path
    reason: str


class LoadedPack(NamedTuple):
    """The node types of a pack by name, or why there are none."""

    sources: Mapping[str, DefinitionSource]
    failures: tuple[PackFailure, ...] = ()


@contextmanager
def chatter_on_stderr() -> Iterator[None]:
    """What is printed inside goes to standard error, also by programs that are started inside.

    Packs say hello when they are imported; standard output is for the program that started us.
    """
    output = sys.__stdout__
    if output is None or sys.stdout is not output:
        # Somebody has put another file in its place, as tests do.
        with redirect_stdout(sys.stderr):
            yield
        return
    output.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        output.flush()
        os.dup2(kept, 1)
        os.close(kept)


def load_plain_pack(path: Path, reserved: Collection[str] = ()) -> LoadedPack:
    """Load a pack without ComfyUI: a folder with `__init__.py`, or a file.

    `reserved` are names that a pack may not take. What goes wrong is in `failures`; raises
    ConfigurationError only where there is no pack at all.
    """
    path = existing_pack(path)
    try:
        module = _import(path)
        classes: Any = getattr(module, "NODE_CLASS_MAPPINGS", None)
        own: Any = getattr(module, "NODES", None)
        sources = _sources_of_classes(module, classes, path) if isinstance(classes, Mapping) else {}
        if isinstance(own, list | tuple):
            sources |= _sources_of_definitions(own, path)
        elif not isinstance(classes, Mapping):
            return _failed(path, "it has neither NODE_CLASS_MAPPINGS nor NODES")
        return LoadedPack(
            {name: source for name, source in sources.items() if name not in reserved}
        )
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a pack may raise anything
        return _failed(path, reason_of(error, has_comfyui=False))


def _sources_of_classes(
    module: Any, classes: Mapping[Any, Any], path: Path
) -> dict[str, DefinitionSource]:
    """Node classes in ComfyUI's way."""
    titles: Any = getattr(module, "NODE_DISPLAY_NAME_MAPPINGS", None) or {}
    versions = Versions("none")
    python_module = f"custom_nodes.{_module_name(path)}"
    versions.note_pack(python_module, path)
    return {
        str(name): partial(
            definition_of,
            str(name),
            node_class,
            python_module,
            titles.get(name),
            version=versions.version_of(node_class, python_module),
        )
        for name, node_class in classes.items()
    }


def _sources_of_definitions(definitions: Sequence[Any], path: Path) -> dict[str, DefinitionSource]:
    """Node types in the engine's own way. Their version changes with their source."""
    digest = digest_of_sources(path)
    sources: dict[str, DefinitionSource] = {}
    for each in definitions:
        if not isinstance(each, NodeDefinition):
            raise TypeError(f"NODES has {each!r}, which is no node type: see @node")
        versioned = replace(
            each,
            version=f"{each.version}:{digest}",
            python_module=f"custom_nodes.{_module_name(path)}",
        )
        sources[each.name] = partial(_same, versioned)
    return sources


def _same(definition: NodeDefinition) -> NodeDefinition:
    return definition


def existing_pack(path: Path) -> Path:
    """The path of a pack, absolute. Raises ConfigurationError where there is none."""
    path = path.expanduser().absolute()
    if (path / "__init__.py").is_file() or (path.is_file() and path.suffix == ".py"):
        return path
    if not path.exists():
        raise ConfigurationError(f"There is no {path} to load nodes from.", code="NOT_A_NODE_PACK")
    raise ConfigurationError(
        f"{path} is no pack of nodes: it must be a folder with an __init__.py, or a .py file.",
        code="NOT_A_NODE_PACK",
    )


def reason_of(error: BaseException, *, has_comfyui: bool) -> str:
    """Why a pack was not loaded, in one line."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        if package in COMFYUI_MODULES and not has_comfyui:
            return (
                f"it needs ComfyUI's module {error.name}: "
                "give a ComfyUI checkout too, with --comfyui"
            )
        return f"it needs the package {package}, which is not installed in {sys.prefix}"
    return traceback.format_exception_only(error)[-1].strip()


def run_prestartup_script(pack: Path) -> PackFailure | None:
    """Run what a pack wants to have run before anything is imported."""
    script = pack / PRESTARTUP_SCRIPT
    if not script.is_file():
        return None
    try:
        _execute(str(script.with_suffix("")), script)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a pack may raise anything
        reason = f"its {PRESTARTUP_SCRIPT} failed: {reason_of(error, has_comfyui=True)}"
        return note_failure(PackFailure(pack.name, pack, reason))
    return None


def note_failure(failure: PackFailure) -> PackFailure:
    log.warning("pack_not_loaded", pack=failure.name, path=str(failure.path), reason=failure.reason)
    return failure


class LoadRecorder:
    """Stands in for ComfyUI's function that loads a pack: notes what came of it.

    A pack that ends the interpreter fails like any other, where it would end ComfyUI.
    """

    def __init__(self, load: Any, versions: Versions) -> None:
        self._load = load
        self._versions = versions
        self.failures: list[PackFailure] = []

    async def __call__(
        self,
        module_path: str,
        ignore: Collection[str] = frozenset(),
        module_parent: str = "custom_nodes",
    ) -> bool:
        path = Path(module_path)
        self._versions.note_pack(f"{module_parent}.{_module_name(path)}", path)
        with _warnings_of_this_thread() as said:
            try:
                loaded = bool(await self._load(module_path, ignore, module_parent))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a pack may raise anything
                loaded = False
                said.append(reason_of(error, has_comfyui=True))
        if not loaded:
            failure = PackFailure(_module_name(path), path, _short(said))
            self.failures.append(note_failure(failure))
        return loaded


def _failed(path: Path, reason: str) -> LoadedPack:
    return LoadedPack({}, (note_failure(PackFailure(_module_name(path), path, reason)),))


def _import(path: Path) -> Any:
    if path.is_dir():
        return _execute(str(path).replace(".", "_x_"), path / "__init__.py")
    return _execute(str(path.with_suffix("")), path)


def _execute(name: str, file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _module_name(path: Path) -> str:
    return path.stem if path.is_file() else path.name


@contextmanager
def _warnings_of_this_thread() -> Iterator[list[str]]:
    """What is logged as a warning or worse: ComfyUI says no other way why a pack failed."""
    root = logging.getLogger()
    level = root.level
    listener = _Listener()
    root.addHandler(listener)
    root.setLevel(min(level, logging.WARNING) or logging.WARNING)
    try:
        yield listener.said
    finally:
        root.removeHandler(listener)
        root.setLevel(level)


class _Listener(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self.said.append(record.getMessage())


def _short(said: list[str]) -> str:
    """The last line of the last traceback; without one, the last line of all."""
    traces = [text for text in said if "Traceback (most recent call last)" in text]
    lines = (traces or said or ["no reason was given"])[-1].strip().splitlines()
    return lines[-1].strip()
