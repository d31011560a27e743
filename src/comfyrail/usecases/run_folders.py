"""Folders of the server that runs may read from and write to."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from comfyrail.access.principal import Principal
from comfyrail.errors import NotFound, PayloadTooLarge, RequestError
from comfyrail.ids import TenantId

LONGEST_PATH = 4000
LONGEST_PART = 240
"""In bytes. A file system takes 255; names of files in it get a number."""


class RunFolders:
    """Nothing outside of them is looked at. The methods look at the disk: call them in a thread."""

    def __init__(self, folders: Sequence[Path], *, has_tenants: bool = False) -> None:
        """`has_tenants`: each has a folder of its own in each of them, and sees no other."""
        self._folders = tuple(folders)
        self._has_tenants = has_tenants

    def folder(self, principal: Principal, text: str) -> Path:
        """Where files may be written; it need not be there yet."""
        path = self._find(principal, text, "output_dir")
        there = next(each for each in (path, *path.parents) if os.path.lexists(each))
        if not there.is_dir():
            what = "it" if there == path else f"{there.name[:100]!r} on the way"
            raise _refused("output_dir", f"{what} is a file")
        if not os.access(there, os.W_OK | os.X_OK):
            raise _refused("output_dir", "the server may not write there")
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

    def is_named_by(self, principal: Principal, text: str) -> bool:
        """Whether a text is a path and no Base64: one that begins with a folder for runs, or one
        where there is a file.
        """
        if not self._folders or len(text) > LONGEST_PATH:
            return False
        try:
            path = self._find(principal, text, "")
            return Path(text).is_absolute() or path.is_file()
        except (RequestError, OSError):
            return False

    def contains(self, tenant: TenantId, path: Path) -> bool:
        """Whether a path, wherever its links lead now, is in one of the tenant's folders."""
        try:
            resolved = path.resolve()
        except (OSError, RuntimeError):  # links that lead in a circle
            return False
        return any(resolved.is_relative_to(root) for root in self._roots(tenant))

    def _find(self, principal: Principal, text: str, field: str) -> Path:
        if not self._folders:
            raise RequestError(
                f"{field}: this server reads and writes no files for runs. Whoever runs it can "
                "allow folders with COMFYRAIL_RUN_FOLDERS.",
                code="RUN_FOLDERS_NOT_SET",
                details={"field": field},
            )
        if not text or not text.isprintable():
            raise _refused(field, "it is no path")
        given = Path(text)
        if _is_too_long(given):
            raise _refused(field, "it is too long")
        if ".." in given.parts:
            raise _refused(field, "it has '..' in it")
        roots = self._roots(principal.tenant)
        # One that is not absolute is in the first folder.
        try:
            path = (given if given.is_absolute() else roots[0] / given).resolve()
        except (OSError, RuntimeError) as error:
            raise _refused(field, "its links lead in a circle") from error
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


def _is_too_long(path: Path) -> bool:
    """For any file system: names and paths end somewhere."""
    longest = max(len(os.fsencode(part)) for part in (*path.parts, ""))
    return longest > LONGEST_PART or len(os.fsencode(path)) > LONGEST_PATH


def _refused(field: str, why: str) -> RequestError:
    return RequestError(
        f"{field} cannot be used: {why}. Give a path in a folder for runs.",
        code="PATH_REFUSED",
        details={"field": field},
    )
