"""Load a ComfyUI checkout into this process: its folders, its node classes, its packs."""

import asyncio
import importlib
import importlib.util
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from comfyrail.engine.comfyui.arguments import (
    CacheChoice,
    Listening,
    cache_choice_of,
    listening_of,
    parse_arguments,
    set_device_variables,
    takes_custom_nodes,
)
from comfyrail.engine.comfyui.classes import definition_of
from comfyrail.engine.comfyui.model_folders import pack_folders, prepare_comfyui_folders
from comfyrail.engine.comfyui.packs import (
    LoadedPack,
    LoadRecorder,
    PackFailure,
    chatter_on_stderr,
    existing_pack,
    load_plain_pack,
    run_prestartup_script,
)
from comfyrail.engine.comfyui.prompt_server import PromptServer, install_stand_in
from comfyrail.engine.comfyui.schema_nodes import definition_of_schema, is_schema_class
from comfyrail.engine.comfyui.surroundings import ComfyUISurroundings
from comfyrail.engine.comfyui.tensors import speaking_tensors
from comfyrail.engine.comfyui.versions import UNKNOWN, Versions
from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.folders import Folders
from comfyrail.engine.registry import DefinitionSource, NodeRegistry
from comfyrail.errors import ConfigurationError

log = structlog.get_logger(__name__)

OLDEST_VERSION = "0.3.48"
FILES_OF_A_CHECKOUT = ("main.py", "nodes.py", "folder_paths.py", "comfy/cli_args.py")
FILE_OF_RECENT_ONES = "comfy_api/latest/_io.py"


@dataclass(frozen=True)
class LoadedCheckout:
    """ComfyUI in this process. There can be only one."""

    path: Path
    version: str
    arguments: Any
    """All of ComfyUI's flags, as its own parser gives them."""
    listening: Listening
    cache: CacheChoice
    folders: Folders
    surroundings: ComfyUISurroundings
    server: PromptServer
    loop: asyncio.AbstractEventLoop
    """The event loop in which packs were loaded: the worker must be served in this one."""
    sources: Mapping[str, DefinitionSource]
    failures: Sequence[PackFailure]
    loader: "_NodeLoader" = field(repr=False)

    def register(self, registry: NodeRegistry) -> None:
        """Add all node types. Those of the same names are replaced, others learn of tensors."""
        for name in registry.names():
            if name not in self.sources:
                registry.add(speaking_tensors(registry[name]))
        for name, source in self.sources.items():
            registry.add_source(name, source)


def load_checkout(path: Path, arguments: Sequence[str]) -> LoadedCheckout:
    """Load ComfyUI from a folder, with the flags of its `main.py`.

    A pack that cannot be loaded does not stop the others; `failures` says why. Raises
    ConfigurationError where there is no ComfyUI that could be loaded.
    """
    path = path.expanduser().absolute()
    _check_checkout(path)
    _check_environment(path)
    sys.path.insert(0, str(path))
    flags = parse_arguments(path, arguments)
    if "--verbose" in arguments:
        logging.getLogger().setLevel(flags.verbose)
    set_device_variables(flags)
    folders = prepare_comfyui_folders(path, flags)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    server = install_stand_in(loop, path)
    listening = listening_of(flags)
    server.address, server.port = listening.hosts[0], listening.port
    with chatter_on_stderr():
        early_failures = _run_prestartup_scripts(flags)
        loader = _NodeLoader(path)
        loop.run_until_complete(loader.load_all(flags))
    return LoadedCheckout(
        path=path,
        version=loader.version,
        arguments=flags,
        listening=listening,
        cache=cache_choice_of(flags),
        folders=folders,
        surroundings=ComfyUISurroundings(server),
        server=server,
        loop=loop,
        sources=loader.sources(),
        failures=[*early_failures, *loader.failures],
        loader=loader,
    )


def load_pack(
    path: Path, checkout: LoadedCheckout | None = None, reserved: Sequence[str] = ()
) -> LoadedPack:
    """Load one pack beside those that a checkout brings, or without any checkout.

    Names of ComfyUI's own nodes are not given to a pack, nor are those in `reserved`. What goes
    wrong is in `failures`; raises ConfigurationError only where there is no pack at all.
    """
    with chatter_on_stderr():
        if checkout is None:
            return load_plain_pack(path, reserved)
        return checkout.loop.run_until_complete(checkout.loader.load_pack(existing_pack(path)))


class _NodeLoader:
    """ComfyUI's own loading of nodes, watched."""

    def __init__(self, checkout: Path) -> None:
        try:
            version: Any = importlib.import_module("comfyui_version")
            self.version = str(version.__version__)
        except ImportError:
            self.version = UNKNOWN
        self._versions = Versions(self.version)
        # It chooses torch's allocator and must come before torch.
        _import_of_comfyui("cuda_malloc", checkout)
        self._nodes = _import_of_comfyui("nodes", checkout)
        self._recorder = LoadRecorder(self._nodes.load_custom_node, self._versions)
        self._own_names = frozenset[str]()

    @property
    def failures(self) -> list[PackFailure]:
        return self._recorder.failures

    async def load_all(self, flags: Any) -> None:
        """ComfyUI's nodes, and the packs of all folders that are configured."""
        breaker = _optional_module("hook_breaker_ac10a0")
        if breaker is not None:
            breaker.save_functions()
        load = self._nodes.load_custom_node
        self._nodes.load_custom_node = self._recorder
        try:
            await self._nodes.init_extra_nodes(
                init_custom_nodes=takes_custom_nodes(flags),
                init_api_nodes=not flags.disable_api_nodes,
            )
        finally:
            if self._nodes.load_custom_node is self._recorder:
                self._nodes.load_custom_node = load
            if breaker is not None:
                breaker.restore_functions()
        self._own_names = frozenset(
            name
            for name in self._classes()
            if not self._module_of(name).startswith("custom_nodes.")
        )

    async def load_pack(self, path: Path) -> LoadedPack:
        before = dict(self._classes())
        known = len(self.failures)
        failure = run_prestartup_script(path)
        await self._recorder(str(path), self._own_names, module_parent="custom_nodes")
        added = [name for name, each in self._classes().items() if before.get(name) is not each]
        failures = [*([failure] if failure else []), *self.failures[known:]]
        return LoadedPack({name: self._source(name) for name in added}, tuple(failures))

    def sources(self) -> dict[str, DefinitionSource]:
        return {name: self._source(name) for name in self._classes()}

    def _source(self, name: str) -> DefinitionSource:
        return partial(self._define, name)

    def _define(self, name: str) -> NodeDefinition:
        # Looked up anew: packs exchange classes of others, also later.
        node_class = self._classes()[name]
        python_module = self._module_of(name)
        version = self._versions.version_of(node_class, python_module)
        if is_schema_class(node_class):
            return definition_of_schema(name, node_class, python_module, version=version)
        title = self._nodes.NODE_DISPLAY_NAME_MAPPINGS.get(name, name)
        return definition_of(name, node_class, python_module, title, version=version)

    def _classes(self) -> Mapping[str, Any]:
        classes: Mapping[str, Any] = self._nodes.NODE_CLASS_MAPPINGS
        return classes

    def _module_of(self, name: str) -> str:
        return getattr(self._classes()[name], "RELATIVE_PYTHON_MODULE", None) or "nodes"


def _check_checkout(path: Path) -> None:
    missing = [name for name in FILES_OF_A_CHECKOUT if not (path / name).is_file()]
    if missing:
        raise ConfigurationError(
            f"{path} is no ComfyUI checkout: it has no {missing[0]}. "
            "Give the folder that has ComfyUI's main.py.",
            code="NOT_A_COMFYUI_CHECKOUT",
        )
    if not (path / FILE_OF_RECENT_ONES).is_file():
        raise ConfigurationError(
            f"The ComfyUI in {path} is too old. Update it to {OLDEST_VERSION} or newer.",
            code="COMFYUI_TOO_OLD",
        )


def _check_environment(path: Path) -> None:
    if "comfy.cli_args" in sys.modules:
        raise ConfigurationError(
            "A ComfyUI is loaded in this process already.", code="COMFYUI_LOADED_ALREADY"
        )
    if importlib.util.find_spec("torch") is None:
        raise ConfigurationError(
            f"ComfyUI's nodes need torch, which is not installed in {sys.prefix}. Install "
            f"Comfyrail into the environment in which ComfyUI runs: there, `python -m pip install "
            f"comfyrail`, then start the worker from there. (The requirements of {path} are in "
            "its requirements.txt.)",
            code="TORCH_MISSING",
        )


def _run_prestartup_scripts(flags: Any) -> list[PackFailure]:
    failures: list[PackFailure] = []
    for folder in pack_folders():
        for pack in sorted(folder.iterdir()):
            wanted = pack.is_dir() and pack.suffix != ".disabled"
            if wanted and takes_custom_nodes(flags, pack.name):
                failure = run_prestartup_script(pack)
                failures.extend([failure] if failure else [])
    return failures


def _import_of_comfyui(name: str, checkout: Path) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise ConfigurationError(
            f"The ComfyUI in {checkout} cannot be imported: {type(error).__name__}: {error}. Are "
            f"the packages of its requirements.txt installed in {sys.prefix}?",
            code="COMFYUI_NOT_LOADED",
        ) from error


def _optional_module(name: str) -> Any:
    return importlib.import_module(name) if importlib.util.find_spec(name) else None
