"""The bodies of the library of workflows in API v1."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from comfyrail.api.contract import moment
from comfyrail.library.folder import LibraryPage, VersionSummary
from comfyrail.library.writer import Added
from comfyrail.usecases.library import LibraryEntry
from comfyrail.workflow.declared_inputs import DeclaredInput

LIBRARY = "/v1/workflows"
LIBRARY_ENTRY = "/v1/workflows/{name}"

JsonObject = Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "object"})]
"""A workflow's JSON, passed on as it was given."""


class SaveWorkflowRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The next version; what is left out stays as it was, null takes it away."""

    workflow: JsonObject
    description: str | UnsetType | None = UNSET
    inputs: list[Any] | dict[str, Any] | UnsetType | None = UNSET
    preview: bytes | UnsetType | None = UNSET


class SavedWorkflow(msgspec.Struct, kw_only=True):
    name: str
    version: int
    added: list[int]


class WorkflowSummary(msgspec.Struct, kw_only=True):
    name: str
    version: int
    description: str
    preview: str | None
    saved_at: datetime


class WorkflowList(msgspec.Struct, kw_only=True):
    workflows: list[WorkflowSummary]
    next_cursor: str | None


class WorkflowVersions(msgspec.Struct, kw_only=True):
    name: str
    versions: list[WorkflowSummary]


class DeclaredInputBody(msgspec.Struct, kw_only=True):
    name: str
    targets: list[str]
    type: str
    label: str | None
    description: str | None
    default: Any
    minimum: float | None
    maximum: float | None
    choices: list[Any] | None
    required: bool


class LibraryWorkflow(msgspec.Struct, kw_only=True):
    name: str
    version: int
    versions: list[int]
    workflow: JsonObject
    inputs: list[DeclaredInputBody]
    description: str
    preview: str | None
    saved_at: datetime


def saved_body(added: Added) -> SavedWorkflow:
    return SavedWorkflow(name=added.name, version=added.versions[-1], added=list(added.versions))


def summary_body(summary: VersionSummary) -> WorkflowSummary:
    return WorkflowSummary(
        name=summary.name,
        version=summary.version,
        description=summary.summary,
        preview=_preview_path(summary.name, summary.version) if summary.has_preview else None,
        saved_at=moment(summary.saved_at),
    )


def list_body(page: LibraryPage) -> WorkflowList:
    return WorkflowList(
        workflows=[summary_body(entry) for entry in page.entries], next_cursor=page.next_cursor
    )


def versions_body(name: str, summaries: Sequence[VersionSummary]) -> WorkflowVersions:
    return WorkflowVersions(name=name, versions=[summary_body(each) for each in summaries])


def workflow_body(entry: LibraryEntry) -> LibraryWorkflow:
    stored = entry.stored
    return LibraryWorkflow(
        name=stored.name,
        version=stored.version,
        versions=list(stored.versions),
        workflow=msgspec.Raw(entry.workflow),
        inputs=[_input_body(each) for each in entry.inputs],
        description=entry.description,
        preview=_preview_path(stored.name, stored.version) if stored.has_preview else None,
        saved_at=moment(stored.saved_at),
    )


def _input_body(declared: DeclaredInput) -> DeclaredInputBody:
    return DeclaredInputBody(
        name=declared.name,
        targets=list(declared.targets),
        type=declared.type,
        label=declared.label,
        description=declared.description,
        default=declared.default,
        minimum=declared.minimum,
        maximum=declared.maximum,
        choices=None if declared.choices is None else list(declared.choices),
        required=declared.required,
    )


def _preview_path(name: str, version: int) -> str:
    return f"{LIBRARY_ENTRY.format(name=name)}/preview?version={version}"
