"""Builds the gate from the settings."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from comfyrail.access.addresses import TrustedProxies
from comfyrail.access.blocked_addresses import BadCredentials, BlockList
from comfyrail.access.gatekeeper import Gatekeeper
from comfyrail.access.jwks import FixedKey, KeySet, TokenKey
from comfyrail.access.principal import Principal
from comfyrail.access.rate_limits import ProcessRateLimiter, RateLimiter
from comfyrail.access.sessions import Sessions
from comfyrail.access.tenant_limits import TenantLimits
from comfyrail.access.tokens import TokenReader, TokenRules
from comfyrail.api.cors import Cors
from comfyrail.api.gate import AccessGate, Gate, LocalGate
from comfyrail.api.rates import Rates, Submissions
from comfyrail.api.surfaces import OPERATIONS
from comfyrail.bootstrap.exposure import warn_of_readable_data
from comfyrail.bootstrap.first_admin import ensure_first_admin
from comfyrail.bootstrap.kept_secret import kept_secret
from comfyrail.bootstrap.settings import Settings
from comfyrail.clock import Clock
from comfyrail.errors import ConfigurationError
from comfyrail.jobs.quotas import JobQuota
from comfyrail.store.sqlite.store import SqliteStore
from comfyrail.usecases.accounts import Accounts
from comfyrail.usecases.usage import TenantUsage

SECRET_FILE = "session.secret"  # noqa: S105 - the file's name
KEYS_TIMEOUT = aiohttp.ClientTimeout(total=5)
LARGEST_KEY_SET = 1 << 20


@dataclass(frozen=True, slots=True)
class Access:
    """`gatekeeper` is None where access is off."""

    gate: Gate
    gatekeeper: Gatekeeper | None = None


@asynccontextmanager
async def open_access(
    settings: Settings,
    store: SqliteStore,
    accounts: Accounts,
    http: aiohttp.ClientSession,
    clock: Clock,
) -> AsyncIterator[Access]:
    """Raises ConfigurationError."""
    cors = Cors(settings.cors_origins)
    if settings.access == "off":
        yield Access(LocalGate(cors))
        return
    await ensure_first_admin(accounts, settings.data)
    warn_of_readable_data(settings.data)
    async with AsyncExitStack() as stack:
        sessions = Sessions(await _session_secret(settings), store, clock)
        await sessions.load()
        tokens = await _open_tokens(settings, http, clock, stack)
        keeper = Gatekeeper(accounts, sessions, tokens)
        proxies = TrustedProxies(settings.trusted_proxies)
        blocks = BlockList(store, clock)
        await blocks.load()
        _run(stack, blocks.run(), "blocked-addresses")
        limiter = await _open_limiter(settings, clock, stack)
        gate = AccessGate(
            keeper,
            proxies,
            blocks,
            BadCredentials(blocks, proxies, settings.auth_failures, clock),
            Rates(limiter, Submissions(OPERATIONS)),
            cors,
        )
        yield Access(gate, keeper)


def admission(
    limits: TenantLimits, usage: TenantUsage
) -> Callable[[Principal], Awaitable[JobQuota | None]]:
    """What happens before a job is taken: its tenant's tier is noted, its quotas are looked at."""

    async def admit(principal: Principal) -> JobQuota | None:
        quota = await usage.admit(principal)
        await limits.note(principal)
        return quota

    return admit


async def _open_tokens(
    settings: Settings, http: aiohttp.ClientSession, clock: Clock, stack: AsyncExitStack
) -> TokenReader | None:
    rules = TokenRules(settings.jwt_issuer, settings.jwt_audience)
    if settings.jwt_secret is not None:
        secret = settings.jwt_secret.get_secret_value().encode()
        return TokenReader(FixedKey(TokenKey(secret, ("HS256",))), clock, rules)
    source = settings.jwt_jwks
    if source is None:
        return None
    if source.startswith(("https://", "http://")):
        keys = KeySet(lambda: _fetch_keys(http, source), clock)
    else:
        keys = KeySet(lambda: asyncio.to_thread(Path(source).read_bytes), clock)
        await keys.load()
    _run(stack, keys.run(), "token-keys")
    return TokenReader(keys, clock, rules)


async def _fetch_keys(http: aiohttp.ClientSession, url: str) -> bytes:
    """Whoever runs the server has chosen the address: it may be one of its own network."""
    try:
        async with http.get(url, timeout=KEYS_TIMEOUT, allow_redirects=False) as reply:
            if reply.status != 200:
                raise ValueError(f"the key set's server answered {reply.status}")
            content = await reply.content.read(LARGEST_KEY_SET + 1)
            while len(content) <= LARGEST_KEY_SET and (more := await reply.content.readany()):
                content += more
    except aiohttp.ClientError as error:
        raise OSError(f"the key set's server cannot be asked: {type(error).__name__}") from error
    if len(content) > LARGEST_KEY_SET:
        raise ValueError("the key set is too large")
    return content


async def _open_limiter(settings: Settings, clock: Clock, stack: AsyncExitStack) -> RateLimiter:
    if settings.redis_url is None:
        return ProcessRateLimiter(clock)
    try:
        # Only here: redis is an extra.
        from comfyrail.access.redis_rate_limits import RedisRateLimiter  # noqa: PLC0415

        limiter = RedisRateLimiter(settings.redis_url.get_secret_value(), clock)
    except ImportError as error:
        raise ConfigurationError(
            "redis_url needs the package redis. Install it with: pip install 'comfyrail[redis]'"
        ) from error
    except ValueError as error:
        raise ConfigurationError(
            "redis_url is not like redis://host:6379/0 or rediss://user:password@host/0."
        ) from error
    return await stack.enter_async_context(limiter)


async def _session_secret(settings: Settings) -> bytes:
    """From the secret for tokens, which all replicas have; else one of this data folder's own."""
    if settings.jwt_secret is not None:
        return settings.jwt_secret.get_secret_value().encode()
    return await asyncio.to_thread(kept_secret, settings.data / SECRET_FILE)


def _run(stack: AsyncExitStack, loop: Coroutine[None, None, None], name: str) -> None:
    task = asyncio.create_task(loop, name=name)

    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(stop)
