"""The server's settings: flags over environment (COMFYRAIL_…) over defaults."""

import os
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from comfyrail.errors import ConfigurationError
from comfyrail.store.interface import DEFAULT_LEASE_SECONDS

DEFAULT_DATA_FOLDER = Path("comfyrail-data")
MOST_LOCAL_WORKERS = 2


def default_workers() -> int:
    """One engine worker a core, at most two."""
    return min(MOST_LOCAL_WORKERS, os.cpu_count() or 1)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="COMFYRAIL_", extra="ignore")

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    data: Path = DEFAULT_DATA_FOLDER
    workers: int = Field(default_factory=default_workers, ge=0, le=64)
    engine_config: Path | None = None
    lease_seconds: float = Field(DEFAULT_LEASE_SECONDS, gt=0.2, le=3600)
    poll_seconds: float = Field(5.0, gt=0, le=600)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_json: bool | None = None


def load_settings(**flags: Any) -> Settings:
    """Settings with the flags that were given. Raises ConfigurationError naming what is wrong."""
    try:
        settings = Settings(**{key: value for key, value in flags.items() if value is not None})
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}"
            for each in error.errors()
        )
        raise ConfigurationError(f"The settings are not right: {faults}.") from error
    if settings.engine_config is not None:
        # Only here: it brings NumPy along, which the server itself does not need.
        from comfyrail.engine.configuration import load_configuration  # noqa: PLC0415

        load_configuration(settings.engine_config)
    if not _is_loopback(settings.host):
        raise ConfigurationError(
            f"--host {settings.host} would open the server to the network, and this version has "
            "no access control yet. Use 127.0.0.1, and an SSH tunnel from elsewhere.",
            code="ACCESS_IS_OFF",
        )
    return settings


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
