"""The server's settings: flags over environment (COMFYRAIL_…) over defaults."""

import os
import re
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from comfyrail.errors import ConfigurationError
from comfyrail.jobs.output_config import Tier
from comfyrail.jobs.recovery import MAXIMUM_RETRIES, MOST_RETRIES
from comfyrail.sniffing import ALLOWED_TYPES
from comfyrail.store.interface import DEFAULT_LEASE_SECONDS
from comfyrail.validation.policy import CONTENT_TYPES
from comfyrail.workflow.nearest import did_you_mean, nearest_names

DEFAULT_DATA_FOLDER = Path("comfyrail-data")
MOST_LOCAL_WORKERS = 2
SECRET_PREFIX = "COMFYRAIL_SECRET_"  # noqa: S105 - the beginning of variables' names
SHORTEST_TOKEN = 16
SHORTEST_JWT_SECRET = 32
OTHER_VARIABLES = frozenset(
    f"COMFYRAIL_{name}"
    for name in (
        *("SERVER", "BROKER", "CONFIG", "NODES", "TASK", "TASK_KEY"),
        *("COMFYUI_CACHE", "COMFYUI_PYTHON", "API_KEY"),
    )
)
"""Those of other commands."""


def default_workers() -> int:
    """One engine worker a core, at most two."""
    return min(MOST_LOCAL_WORKERS, os.cpu_count() or 1)


def _split(value: object) -> object:
    """`a, b` of an environment variable as a list."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _split_rates(value: object) -> object:
    """`RTX 4090=0.0005, H100=0.001` as a table."""
    if not isinstance(value, str):
        return value
    pairs = [part.rpartition("=") for part in value.split(",") if part.strip()]
    if not all(name.strip() for name, _, _ in pairs):
        raise ValueError("write it like 'RTX 4090=0.0005, H100=0.001'")
    return {name.strip(): rate.strip() for name, _, rate in pairs}


def _check_custom_nodes(names: tuple[str, ...]) -> tuple[str, ...]:
    rules = {name.casefold() for name in names} & {"allow", "deny"}
    if rules and len(names) > 1:
        raise ValueError("write allow, deny, or names of packs and node types, not both")
    return tuple(rules) or names


def _check_domains(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not _DOMAIN.fullmatch(name):
            raise ValueError(f"{name!r} is not like example.com, *.example.com or *")
    return names


def _check_origins(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name != "*" and not _ORIGIN.fullmatch(name):
            raise ValueError(f"{name!r} is not like https://app.example.com, or *")
    return names


def _check_base_url(url: str | None) -> str | None:
    parts = urlsplit(url or "")
    if url is not None and (
        parts.scheme not in {"http", "https"}
        or not parts.hostname
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
    ):
        raise ValueError(f"{url!r} is not like https://files.example.com")
    return None if url is None else url.rstrip("/")


def _check_networks(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        ip_network(name)
    return names


def _check_folders(folders: tuple[Path, ...]) -> tuple[Path, ...]:
    for folder in folders:
        if not folder.is_absolute():
            raise ValueError(f"{str(folder)!r} is no whole path: begin with '/'")
    return folders


_ORIGIN = re.compile(r"https?://[\w.-]+(:\d{1,5})?|https?://\[[0-9a-fA-F:.]+\](:\d{1,5})?")
_DOMAIN = re.compile(r"\*|(\*\.)?([\w-]+\.)*[\w-]+\.?|\[?[0-9A-Fa-f:.]+\]?")

Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Folders = Annotated[
    tuple[Path, ...], NoDecode, BeforeValidator(_split), AfterValidator(_check_folders)
]
Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rates = Annotated[dict[str, Rate], NoDecode, BeforeValidator(_split_rates)]
Limit = Annotated[int, Field(ge=0)]
Wait = Annotated[float, Field(gt=0, le=30 * 86400, allow_inf_nan=False)]


class PolicySettings(BaseModel):
    """What workflows may do; a policy file gives tenants values of their own. 0 is no limit."""

    model_config = ConfigDict(extra="forbid")

    allowed_domains: Annotated[Names, AfterValidator(_check_domains)] = ()
    allow_computed_urls: bool = False
    allowed_content_types: Names = CONTENT_TYPES
    allowed_folders: Names = ()
    denied_node_types: Names = ()
    allowed_node_types: Names = ()
    custom_nodes: Annotated[Names, AfterValidator(_check_custom_nodes)] = ("allow",)
    max_nodes: Limit = 100
    max_image_side: Limit = 8192
    max_image_pixels: Limit = 4096 * 4096
    max_batch_size: Limit = 64
    max_frames: Limit = 1000
    max_steps: Limit = 1000
    max_string_length: Limit = 100_000
    max_workflow_bytes: Limit = 10 << 20
    max_seconds: Limit = 0


class Settings(PolicySettings, BaseSettings):
    model_config = SettingsConfigDict(env_prefix="COMFYRAIL_", extra="ignore")

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    data: Path = DEFAULT_DATA_FOLDER
    workers: int = Field(default_factory=default_workers, ge=0, le=64)
    engine_config: Path | None = None
    fleet: Path | None = None
    lease_seconds: float = Field(DEFAULT_LEASE_SECONDS, gt=0.2, le=3600)
    queue_timeout: float = Field(1800.0, ge=0, le=30 * 86400, allow_inf_nan=False)
    max_retries: int = Field(MAXIMUM_RETRIES, ge=0, le=MOST_RETRIES)
    retry_delay: float = Field(10.0, ge=0, le=3600, allow_inf_nan=False)
    tenant_concurrency: Limit = 0
    wait_high: Wait = 30.0
    wait_medium: Wait = 120.0
    wait_low: Wait = 600.0
    wait_batch: Wait = 3600.0
    prefetch_seconds: float = Field(0.5, ge=0, le=3600, allow_inf_nan=False)
    prefetch_jobs: int = Field(4, ge=0, le=64)
    agent_host: str = "127.0.0.1"
    agent_port: int | None = Field(None, ge=0, le=65535)
    agent_token: SecretStr | None = None
    poll_seconds: float = Field(5.0, gt=0, le=600)
    policy: Path | None = None
    run_folders: Folders = ()
    run_concurrency: Limit = 3
    state_dir: Path | None = None
    check_urls: bool = True
    max_upload_bytes: Limit = 2 << 30
    allowed_upload_types: Names = ALLOWED_TYPES
    asset_retention_seconds: float = Field(0.0, ge=0, le=366 * 86400, allow_inf_nan=False)
    retention: Tier = Tier.GLACIER
    output_quota_bytes: Limit = 0
    public_url: Annotated[str | None, AfterValidator(_check_base_url)] = None
    cdn_url: Annotated[str | None, AfterValidator(_check_base_url)] = None
    link_secret: SecretStr | None = None
    gpu_rates: Rates = Field(default_factory=dict)
    access: Literal["off", "on"] = "off"
    jwt_secret: SecretStr | None = None
    jwt_jwks: str | None = None
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    cors_origins: Annotated[Names, AfterValidator(_check_origins)] = ()
    trusted_proxies: Annotated[Names, AfterValidator(_check_networks)] = ()
    auth_failures: int = Field(10, ge=0, le=10_000)
    redis_url: SecretStr | None = None
    max_connections: int = Field(10_000, ge=10, le=1_000_000)
    min_free_bytes: Limit = 64 << 20
    blob_url: str | None = None
    archive_url: str | None = None
    glacier_url: str | None = None
    blob_cache_bytes: Limit = 10 << 30
    media: Literal["off", "on"] = "on"
    media_processes: int = Field(1, ge=1, le=16)
    webhook_networks: Annotated[Names, AfterValidator(_check_networks)] = ()
    webhook_log_days: float = Field(30.0, gt=0, le=3660, allow_inf_nan=False)
    smtp_url: SecretStr | None = None
    smtp_from: str = "Comfyrail <comfyrail@localhost>"
    sms_url: SecretStr | None = None
    sms_method: Literal["POST", "PUT", "GET"] = "POST"
    sms_headers: SecretStr | None = None
    email_per_hour: int = Field(100, ge=1, le=1_000_000)
    sms_per_hour: int = Field(20, ge=1, le=1_000_000)
    sms_body: str = '{"to": "{{ to }}", "text": "{{ text }}"}'
    shutdown_seconds: float = Field(10.0, ge=0, le=3600, allow_inf_nan=False)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_json: bool | None = None


def load_settings(**flags: Any) -> Settings:
    """Settings with the flags that were given. Raises ConfigurationError naming what is wrong."""
    try:
        settings = Settings(**{key: value for key, value in flags.items() if value is not None})
    except ValidationError as error:
        raise ConfigurationError(
            f"The settings are not right: {describe_faults(error)}."
        ) from error
    if settings.engine_config is not None:
        # Only here: it brings NumPy along, which the server itself does not need.
        from comfyrail.engine.configuration import load_configuration  # noqa: PLC0415

        load_configuration(settings.engine_config)
    check_access(settings)
    _check_agents(settings)
    return settings


def secrets() -> dict[str, str]:
    """Credentials that drivers ask for by name: COMFYRAIL_SECRET_NOVITA_API_KEY and the like."""
    return {
        name.removeprefix(SECRET_PREFIX).lower(): value
        for name, value in os.environ.items()
        if name.startswith(SECRET_PREFIX)
    }


def check_access(settings: Settings) -> None:
    """Raise ConfigurationError for what would leave a door open, or cannot be checked."""
    is_on = settings.access == "on"
    if not is_on and not _is_loopback(settings.host):
        raise ConfigurationError(
            f"--host {settings.host} would open the server to the network, and access is off: "
            "everybody could use it. Turn access on with --access on, or use 127.0.0.1 and an SSH "
            "tunnel from elsewhere.",
            code="ACCESS_IS_OFF",
        )
    if not is_on and "*" in settings.cors_origins:
        raise ConfigurationError(
            "cors_origins is * and access is off: any page that somebody here opens could use the "
            "server. Name the origins, or turn access on with --access on.",
            code="ACCESS_IS_OFF",
        )
    link_secret = settings.link_secret
    if link_secret is not None and len(link_secret.get_secret_value()) < SHORTEST_JWT_SECRET:
        raise ConfigurationError(
            f"link_secret (COMFYRAIL_LINK_SECRET) has fewer than {SHORTEST_JWT_SECRET} bytes: it "
            "could be guessed from a link. Make one with: openssl rand -hex 32",
            code="LINK_SECRET_TOO_SHORT",
        )
    given = settings.jwt_secret
    secret = None if given is None else given.get_secret_value().encode()
    if secret is not None and settings.jwt_jwks is not None:
        raise ConfigurationError(
            "jwt_secret and jwt_jwks are both set. Tokens are signed with one or the other."
        )
    if secret is not None and len(secret) < SHORTEST_JWT_SECRET:
        raise ConfigurationError(
            f"jwt_secret (COMFYRAIL_JWT_SECRET) has fewer than {SHORTEST_JWT_SECRET} bytes: it "
            "could be guessed from a token. Make one with: openssl rand -hex 32",
            code="JWT_SECRET_TOO_SHORT",
        )


def _check_agents(settings: Settings) -> None:
    token = settings.agent_token.get_secret_value() if settings.agent_token else ""
    if settings.agent_port is not None and len(token) < SHORTEST_TOKEN:
        raise ConfigurationError(
            "Agents may dial in from anywhere: --agent-port needs COMFYRAIL_AGENT_TOKEN with at "
            f"least {SHORTEST_TOKEN} characters. Make one with: openssl rand -hex 32",
            code="AGENT_TOKEN_MISSING",
        )


def unknown_variables() -> list[str]:
    """Variables of the environment that look like settings and are none, with what was meant."""
    known = {f"COMFYRAIL_{name.upper()}" for name in Settings.model_fields} | OTHER_VARIABLES
    return [
        f"{name} is no setting.{did_you_mean(nearest_names(name, known))}"
        for name in sorted(os.environ)
        if name.startswith("COMFYRAIL_")
        and not name.startswith(SECRET_PREFIX)
        and name not in known
    ]


def describe_faults(error: ValidationError) -> str:
    return "; ".join(_describe_fault(each["loc"], each["msg"]) for each in error.errors())


def _describe_fault(place: tuple[int | str, ...], message: str) -> str:
    """With the names that a setting has in the docs and in the environment."""
    name = ".".join(str(part) for part in place)
    variable = f"COMFYRAIL_{str(place[0]).upper()}" if place else "the environment"
    return f"{name} ({variable}): {message.removeprefix('Value error, ')}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
