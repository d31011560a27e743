"""All drivers by name. Each is imported when it is first asked for: most need nothing that is not
installed, and what an optional one needs is an extra of its own.
"""

import importlib
from dataclasses import dataclass
from functools import cache
from typing import cast

from comfyrail.errors import WorkerRefused
from comfyrail.fleet.drivers.interface import Driver
from comfyrail.workflow.nearest import did_you_mean, nearest_names


@dataclass(frozen=True, slots=True)
class _Home:
    """Where a driver's class is, and the extra of this package that it needs."""

    module: str
    driver_class: str
    extra: str | None = None


_PLACE = "comfyrail.fleet.drivers"
_HOMES = {
    "agent": _Home(f"{_PLACE}.agent", "AgentDriver"),
    "docker": _Home(f"{_PLACE}.docker", "DockerDriver", "docker"),
    "kubernetes": _Home(f"{_PLACE}.kubernetes", "KubernetesDriver"),
    "local": _Home(f"{_PLACE}.local", "LocalDriver"),
    "novita": _Home(f"{_PLACE}.novita", "NovitaDriver"),
    "process": _Home(f"{_PLACE}.process", "ProcessDriver"),
    "ssh": _Home(f"{_PLACE}.ssh", "SshDriver", "ssh"),
    "static": _Home(f"{_PLACE}.static", "StaticDriver"),
}

DRIVER_NAMES = tuple(_HOMES)


def driver_named(name: str) -> Driver:
    """Raises WorkerRefused for a name that is none, and for a driver whose extra is missing."""
    home = _HOMES.get(name)
    if home is None:
        raise _unknown(name)
    try:
        return _load(home)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if home.extra is None or missing in {"", "comfyrail"}:
            raise
        raise WorkerRefused(
            f"The driver '{name}' needs the package {missing}, which is not installed. "
            f"Install it with: pip install 'comfyrail[{home.extra}]', and start the server again.",
            code="DRIVER_NOT_INSTALLED",
            details={"driver": name, "package": missing, "extra": home.extra},
        ) from error


@cache
def _load(home: _Home) -> Driver:
    module = importlib.import_module(home.module)
    return cast("Driver", getattr(module, home.driver_class)())


def _unknown(name: str) -> WorkerRefused:
    near = nearest_names(name, DRIVER_NAMES)
    return WorkerRefused(
        f"There is no driver '{name[:80]}'.{did_you_mean(near)} "
        f"The drivers are: {', '.join(DRIVER_NAMES)}.",
        code="UNKNOWN_DRIVER",
        details={"driver": name[:80], "nearest": near, "known": list(DRIVER_NAMES)},
    )
