"""The library of workflows: list, show, save, share, and find one to run."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

from msgspec import UNSET, UnsetType

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Principal
from comfyrail.errors import (
    InvalidLibraryEntry,
    InvalidWorkflow,
    LibraryEntryNotFound,
    MalformedWorkflow,
)
from comfyrail.library.content import declared_in, encode_declared, workflow_in
from comfyrail.library.files import (
    DESCRIPTION_FILE,
    INPUTS_JSON,
    INPUTS_YAML,
    PREVIEW_FILE,
    WORKFLOW_FILE,
    Files,
    check_preview,
    is_png,
)
from comfyrail.library.folder import LibraryPage, StoredVersion, VersionSummary
from comfyrail.library.library import WorkflowLibrary
from comfyrail.library.names import split_reference
from comfyrail.library.writer import Added
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.declared_inputs import (
    DeclaredInput,
    declared_inputs_of,
    parse_declared_inputs,
)
from comfyrail.workflow.editor.workflow_from import workflow_from
from comfyrail.workflow.parameters import check_targets

RUNNABLE_FILES = (WORKFLOW_FILE, INPUTS_YAML, INPUTS_JSON)
SHOWN_FILES = (*RUNNABLE_FILES, DESCRIPTION_FILE)


@dataclass(frozen=True, slots=True)
class Draft:
    """A version to be: what is not set stays as it was, None takes it away."""

    workflow: bytes
    description: str | UnsetType | None = UNSET
    inputs: Any | UnsetType = UNSET
    preview: bytes | UnsetType | None = UNSET


@dataclass(frozen=True, slots=True)
class LibraryEntry:
    stored: StoredVersion
    workflow: bytes
    inputs: tuple[DeclaredInput, ...]
    description: str


@dataclass(frozen=True, slots=True)
class FoundWorkflow:
    """A workflow to run, and the inputs that are declared beside it."""

    workflow: dict[str, Any]
    declared: tuple[DeclaredInput, ...] | None
    size: int
    reference: str
    """Its name and version, like poster@3."""


class Library:
    """Every method sees the principal's own workflows only; others do not exist for it."""

    def __init__(self, library: WorkflowLibrary, catalog: Callable[[], NodeCatalog]) -> None:
        self._library = library
        self._catalog = catalog

    async def page(self, principal: Principal, after: str, limit: int) -> LibraryPage:
        return await self._library.page(principal.tenant, after, limit)

    async def versions(self, principal: Principal, name: str) -> list[VersionSummary]:
        return await self._library.versions(principal.tenant, name)

    async def show(self, principal: Principal, name: str, version: int | None) -> LibraryEntry:
        stored = await self._library.read(principal.tenant, name, version, SHOWN_FILES)
        return await self._library.in_thread(_describe, stored, self._catalog())

    async def find(self, principal: Principal, workflow_id: str) -> FoundWorkflow:
        """What `name` or `name@version` means, read when it is asked for. Raises Forbidden for one
        who may not read the library, by whatever way she asks.
        """
        principal.check_may(Permission.LIBRARY_READ)
        name, version = split_reference(workflow_id)
        stored = await self._library.read(principal.tenant, name, version, RUNNABLE_FILES)
        return await self._library.in_thread(_open, stored, name)

    async def save(self, principal: Principal, name: str, draft: Draft) -> Added:
        """Keep a draft as the next version."""
        changes = await self._library.in_thread(_changes, draft)
        return await self._library.save(principal.tenant, name, changes, self._check)

    async def delete(self, principal: Principal, name: str) -> None:
        await self._library.delete(principal.tenant, name)

    async def preview(self, principal: Principal, name: str, version: int | None) -> bytes:
        """A PNG. Raises LibraryEntryNotFound where there is none."""
        stored = await self._library.read(principal.tenant, name, version, [PREVIEW_FILE])
        content = stored.files.get(PREVIEW_FILE)
        if content is None or not is_png(content):
            raise LibraryEntryNotFound(
                f"Version {stored.version} of '{name}' has no preview.", code="PREVIEW_NOT_FOUND"
            )
        return content

    async def save_preview(self, principal: Principal, name: str, content: bytes) -> int:
        """Set the preview of the newest version; returns its number."""
        check_preview(content)
        return await self._library.replace_preview(principal.tenant, name, content)

    async def export_bundle(self, principal: Principal, name: str, version: int | None) -> BinaryIO:
        """A file that is gone when it is closed."""
        return await self._library.export_bundle(principal.tenant, name, version)

    async def import_bundle(
        self,
        principal: Principal,
        chunks: AsyncIterator[bytes],
        name: str | None,
        *,
        replace: bool,
    ) -> Added:
        return await self._library.import_bundle(
            principal.tenant, chunks, name, replace=replace, check=self._check
        )

    def _check(self, files: Files) -> None:
        """Refuse what could never run; what only some workers can run is kept."""
        try:
            catalog = self._catalog()
            graph, notes = workflow_from(workflow_in(files), catalog)
            declared = declared_in(files)
            if not notes:  # else what it will be depends on nodes that no worker has yet
                declared = declared_inputs_of(graph) if declared is None else declared
                check_targets(graph, declared, catalog)
        except RecursionError as error:
            raise MalformedWorkflow("The workflow is nested too deeply.") from error


def _changes(draft: Draft) -> dict[str, bytes | None]:
    """What a draft says about each file."""
    changes: dict[str, bytes | None] = {WORKFLOW_FILE: draft.workflow}
    if not isinstance(draft.description, UnsetType):
        changes[DESCRIPTION_FILE] = _encode_text(draft.description) or None
    if not isinstance(draft.preview, UnsetType):
        changes[PREVIEW_FILE] = draft.preview
    if not isinstance(draft.inputs, UnsetType):
        declared = None if draft.inputs is None else parse_declared_inputs(draft.inputs)
        changes[INPUTS_YAML] = None
        changes[INPUTS_JSON] = None if declared is None else encode_declared(declared)
    return changes


def _encode_text(text: str | None) -> bytes:
    try:
        return (text or "").encode()
    except UnicodeEncodeError as error:
        raise InvalidLibraryEntry("The description is not UTF-8 text.") from error


def _describe(stored: StoredVersion, catalog: NodeCatalog) -> LibraryEntry:
    raw = workflow_in(stored.files)
    declared = declared_in(stored.files)
    if declared is None:
        try:
            declared = declared_inputs_of(workflow_from(raw, catalog)[0])
        except (InvalidWorkflow, RecursionError):
            declared = ()  # it was dropped in by hand; running it says what is wrong
    description = stored.files.get(DESCRIPTION_FILE, b"").decode(errors="replace")
    return LibraryEntry(stored, stored.files[WORKFLOW_FILE], declared, description)


def _open(stored: StoredVersion, name: str) -> FoundWorkflow:
    size = len(stored.files.get(WORKFLOW_FILE, b""))
    workflow = workflow_in(stored.files)
    reference = f"{name}@{stored.version}"
    return FoundWorkflow(workflow, declared_in(stored.files), size, reference)
