"""Names of workflows, and the folders that tenants have: text that is never trusted as a path."""

import hashlib
import re
from pathlib import Path

from comfyrail.errors import InvalidLibraryEntry, MalformedRequest
from comfyrail.ids import TenantId
from comfyrail.workflow.nearest import shown

# fmt: off
RESERVED = frozenset((
    # What the API has or may come to have beside the names of workflows.
    "batch", "bundle", "cancel", "catalog", "convert", "estimate", "execute", "execution",
    "executions", "export", "form", "import", "inputs", "library", "new", "nodes", "optimize",
    "plan", "preview", "retry", "run", "runs", "runsync", "search", "state", "templates",
    "validate", "versions", "workflows",
    # What some file systems do not take.
    "aux", "con", "nul", "prn",
))
# fmt: on
LONGEST_TENANT_FOLDER = 200
TENANTS_FOLDER = "tenants"
LIBRARY_FOLDER = "workflows"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VERSION = re.compile(r"[1-9][0-9]{0,8}")


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and text not in RESERVED


def check_name(text: str) -> None:
    """Raise InvalidLibraryEntry, saying what a name may be."""
    if text in RESERVED:
        raise InvalidLibraryEntry(
            f"'{text}' is a word of the API: choose another name.", code="INVALID_WORKFLOW_NAME"
        )
    if _NAME.fullmatch(text) is None:
        raise InvalidLibraryEntry(
            f"{shown(text)} cannot be a workflow's name: 1 to 64 small letters, digits, '.', '_' "
            "and '-', beginning with a letter or a digit.",
            code="INVALID_WORKFLOW_NAME",
        )


def read_version(text: str) -> int | None:
    """The number of a version, or None for text that is none."""
    return int(text) if _VERSION.fullmatch(text) else None


def split_reference(workflow_id: str) -> tuple[str, int | None]:
    """`name` or `name@version`; no version means the newest."""
    name, at, written = workflow_id.partition("@")
    version = read_version(written)
    if at and version is None:
        raise MalformedRequest(
            f"workflow_id is the name of a workflow, or like poster@3, not {shown(workflow_id)}."
        )
    return name, version


def library_path(data: Path, tenant: TenantId, local: TenantId) -> Path:
    """Where a tenant's workflows are; those of the local user are at the top."""
    if tenant == local:
        return data / LIBRARY_FOLDER
    return data / TENANTS_FOLDER / tenant_folder(tenant) / LIBRARY_FOLDER


def tenant_folder(tenant: TenantId) -> str:
    """One name for one tenant, whatever is in it: no other tenant's is equal, in any case."""
    encoded = "".join(
        chr(byte) if chr(byte) in "abcdefghijklmnopqrstuvwxyz0123456789_-" else f"%{byte:02x}"
        for byte in tenant.encode("utf-8", "surrogatepass")
    )
    if encoded and len(encoded) <= LONGEST_TENANT_FOLDER:
        return encoded
    # Two signs in a row are in no encoded name.
    return f"%%{hashlib.sha256(tenant.encode('utf-8', 'surrogatepass')).hexdigest()}"
