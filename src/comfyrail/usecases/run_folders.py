"""Folders of the server that runs may read from and write to."""

import stat
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from comfyrail.access.principal import Principal
from comfyrail.errors import NotFound, PayloadTooLarge, RequestError
from comfyrail.ids import TenantId

LONGEST_PATH = 4096


class RunFolders:
    """Nothing outside of them is looked at. The methods look at the disk: call them in a thread."""

    def __init__(self, folders: Sequence[Path], *, has_tenants: bool = False) -> None:
        """`has_tenants`: each has a folder of its own in each of them, and sees no other."""
        self._folders = tuple(folders)
        self._has_tenants = has_tenants

    def folder(self, principal: Principal, text: str) -> Path:
        """Where files may be written; it need not be there yet."""
        path = self._find(principal, text, "output_dir")
        if path.exists() and not path.is_dir():
            raise _refused("output_dir", "it is a file")
        return path

    def file(self, principal: Principal, text: str, field: str, limit: int | None = None) -> Path:
        """A file that is there, of `limit` bytes at most."""
        path = self._find(principal, text, field)
        try:
            found = path.stat()
        except (OSError, ValueError):
            found = None
        if found is None or not stat.S_ISREG(found.st_mode):
            raise NotFound(
                f"{field}: there is no file {text[:200]!r} in the folders for runs.",
                code="RUN_FILE_NOT_FOUND",
                details={"field": field},
            )
        if limit is not None and found.st_size > limit:
            raise PayloadTooLarge(
                f"{field}: the file is larger than {limit >> 20} MiB.", details={"limit": limit}
            )
        return path

    def contains(self, tenant: TenantId, path: Path) -> bool:
        """Whether a path, wherever its links lead now, is in one of the tenant's folders."""
        resolved = path.resolve()
        return any(resolved.is_relative_to(root) for root in self._roots(tenant))

    def _find(self, principal: Principal, text: str, field: str) -> Path:
        if not self._folders:
            raise RequestError(
                f"{field}: this server reads and writes no files for runs. Whoever runs it can "
                "allow folders with COMFYRAIL_RUN_FOLDERS.",
                code="RUN_FOLDERS_NOT_SET",
                details={"field": field},
            )
        if not text or len(text) > LONGEST_PATH or not text.isprintable():
            raise _refused(field, "it is no path")
        given = Path(text)
        if ".." in given.parts:
            raise _refused(field, "it has '..' in it")
        roots = self._roots(principal.tenant)
        # One that is not absolute is in the first folder.
        path = (given if given.is_absolute() else roots[0] / given).resolve()
        if not any(path.is_relative_to(root) for root in roots):
            raise _refused(field, "it is in none of the folders that this server allows you")
        return path

    def _roots(self, tenant: TenantId) -> list[Path]:
        roots = [folder.resolve() for folder in self._folders]
        return [root / folder_name(tenant) for root in roots] if self._has_tenants else roots


def folder_name(tenant: TenantId) -> str:
    """A tenant's name as one that a folder can have, and no other tenant's folder has."""
    quoted = quote(tenant, safe="")
    return quoted.replace(".", "%2E", 1) if quoted.startswith(".") else quoted


def _refused(field: str, why: str) -> RequestError:
    return RequestError(
        f"{field} cannot be used: {why}. Give a path in a folder for runs.",
        code="PATH_REFUSED",
        details={"field": field},
    )
