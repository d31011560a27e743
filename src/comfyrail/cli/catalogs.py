"""Which node catalog a command uses: a file's, the one that a server remembers, the engine's."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from comfyrail.bootstrap.settings import load_settings
from comfyrail.cli.exits import CANNOT_START, WRONG_USE, explain_and_exit
from comfyrail.cli.remembered import Remembered, read_remembered
from comfyrail.cli.terminal import errors, line
from comfyrail.cli.workflow_file import read_limited
from comfyrail.errors import ComfyrailError, StoreUnavailable
from comfyrail.fleet.comfyui.decoding import decode_reply
from comfyrail.planning.records import ExecutionRecord
from comfyrail.workflow.capabilities import WorkerCapabilities
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from comfyrail.workflow.catalog_merge import merge_catalogs

LARGEST_CATALOG = 128 << 20


@dataclass(frozen=True, slots=True)
class ChosenCatalog:
    """`origin` says for people where it is from. The workers are those that it was learned from."""

    catalog: NodeCatalog
    origin: str
    workers: tuple[WorkerCapabilities, ...] = ()
    records: tuple[ExecutionRecord, ...] = ()


def choose_catalog(file: Path | None, data: Path | None) -> ChosenCatalog:
    """The catalog in a file that was named; else that of the workers which the server of the data
    folder has seen, while it runs or not; else the engine's own. Ends the command where what was
    named cannot be read.
    """
    if file is not None:
        return ChosenCatalog(_catalog_in(file), str(file))
    folder = load_settings(data=data).data
    try:
        remembered = read_remembered(folder)
    except StoreUnavailable as error:
        if data is not None:
            explain_and_exit(error.message, CANNOT_START)
        errors.print(Text(line(f"Note: {error.message}")), soft_wrap=True)
        remembered = Remembered()
    if remembered.workers:
        catalogs = {id(worker.catalog): worker.catalog for worker in remembered.workers}
        return ChosenCatalog(
            merge_catalogs(tuple(catalogs.values())),
            f"the workers remembered in {folder}",
            remembered.workers,
            remembered.records,
        )
    return ChosenCatalog(_engine_catalog(), "the built-in node types")


def _catalog_in(file: Path) -> NodeCatalog:
    content = read_limited(file, LARGEST_CATALOG)
    try:
        catalog = parse_object_info(decode_reply(content))
    except ComfyrailError:
        catalog = NodeCatalog()
    if not any(each.inputs or each.outputs for each in catalog.types.values()):
        explain_and_exit(
            f"{file} is no node catalog. Save one with: curl http://HOST:8188/object_info -o "
            "object_info.json",
            WRONG_USE,
        )
    return catalog


def _engine_catalog() -> NodeCatalog:
    # Only here: it brings NumPy along.
    from comfyrail.engine.builtin import builtin_registry  # noqa: PLC0415
    from comfyrail.engine.folders import Folders  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="comfyrail-catalog-") as folder:
        folders = Folders.under(Path(folder))
        return parse_object_info(builtin_registry().object_info(folders))
