"""Reading the settings of a worker that a person wrote, with errors that name the field."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from comfyrail.errors import WorkerRefused
from comfyrail.workflow.nearest import did_you_mean, nearest_names

_AT = re.compile(r"^(.*?) - at `(key in )?\$(.*?)`$", re.DOTALL)
_FIELD = re.compile(r"(unknown|required) field `([^`]*)`")


class DriverSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Base of a driver's settings. Text is taken for a number where a number is meant, so that
    what a command line gives can be passed on.
    """


Settings = TypeVar("Settings", bound=DriverSettings)


def read_settings(kind: type[Settings], config: Mapping[str, Any], driver: str) -> Settings:
    """Raises WorkerRefused naming the field that is wrong, and what it may be."""
    try:
        return msgspec.convert(config, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _refused(kind, driver, str(error)) from error


def plain_settings(settings: DriverSettings) -> dict[str, Any]:
    """As JSON has it: what `Driver.check` returns and a record keeps."""
    plain: dict[str, Any] = msgspec.to_builtins(settings)
    return plain


def wrong_setting(driver: str, field: str, what: str) -> WorkerRefused:
    """The error for a value that has the right type and is still wrong. `what` is a sentence."""
    return WorkerRefused(
        f"The setting '{field}' of driver '{driver}' is wrong: {what}",
        code="INVALID_WORKER_SETTING",
        details={"driver": driver, "field": field},
    )


def _refused(kind: type[DriverSettings], driver: str, text: str) -> WorkerRefused:
    at = _AT.match(text)
    path = at[3].removeprefix(".") if at else ""
    what = at[1] if at else text
    named = _FIELD.search(what)
    if named is None:
        if not path:
            return wrong_setting(driver, "config", f"{what}. Give a table of settings.")
        return wrong_setting(driver, path, f"{what}.")
    field = ".".join(part for part in (path, named[2]) if part)
    if named[1] == "required":
        return WorkerRefused(
            f"The driver '{driver}' needs the setting '{field}'.",
            code="MISSING_WORKER_SETTING",
            details={"driver": driver, "field": field},
        )
    known = [each.encode_name for each in msgspec.structs.fields(kind)]
    near = [] if path else nearest_names(field, known)
    which = "" if path else f"{did_you_mean(near)} It has: {', '.join(sorted(known))}."
    return WorkerRefused(
        f"The driver '{driver}' has no setting '{field}'.{which}",
        code="UNKNOWN_WORKER_SETTING",
        details={"driver": driver, "field": field, "nearest": near, "known": sorted(known)},
    )


_BYTES = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,6}))?\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


def byte_count(driver: str, field: str, value: int | str) -> int:
    """Bytes from a number or from text such as `8g`, `512 MiB`; units are of 1024."""
    found = _BYTES.fullmatch(str(value).strip())
    if found is None:
        raise wrong_setting(driver, field, f"{value!r} is no size. Give it like 8g or 512m.")
    power = "kmgt".index(found[3].lower()) + 1 if found[3] else 0
    return int(float(f"{found[1]}.{found[2] or 0}") * 1024**power)


def existing_path(driver: str, field: str, text: str, *, folder: bool) -> str:
    """The absolute path of a file or folder that must be there on the server's machine."""
    path = Path(text).expanduser().absolute()
    try:
        is_there = path.is_dir() if folder else path.is_file()
    except (OSError, ValueError):
        is_there = False
    if not is_there:
        kind = "folder" if folder else "file"
        raise wrong_setting(driver, field, f"there is no {kind} {text!r} on the server's machine.")
    return str(path)
