"""Public keys of whoever issues tokens: a JSON Web Key Set from a file or a URL [11.1]."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt
import msgspec
import structlog
from jwt import PyJWK

from comfyrail.clock import Clock
from comfyrail.errors import ConfigurationError, NotReady

SMALLEST_RSA_BITS = 2048
MOST_KEYS = 100
REFRESH_SECONDS = 60.0
"""A key that is not known is looked for no more often than this."""
RELOAD_SECONDS = 300.0
"""A key that was taken back counts no longer than this."""

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",)}
_PUBLIC_PARTS = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}

log = structlog.get_logger(__name__)

Fetch = Callable[[], Awaitable[bytes]]
"""The text of the key set. Raises OSError or ValueError."""


class _Document(msgspec.Struct):
    keys: list[dict[str, Any]]


_decode = msgspec.json.Decoder(_Document).decode


@dataclass(frozen=True, slots=True)
class TokenKey:
    """`algorithms`: those of this kind of key, and no other. A public key is never a secret."""

    key: Any
    algorithms: Sequence[str]


class FixedKey:
    """One key for all tokens, such as a shared secret."""

    generation = 0

    def __init__(self, key: TokenKey) -> None:
        self._key = key

    async def find(self, kid: str | None) -> TokenKey | None:  # noqa: ARG002 - any
        return self._key


class KeySet:
    """`generation` changes with the keys. While they cannot be fetched those from before count."""

    def __init__(self, fetch: Fetch, clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: Mapping[str | None, TokenKey] = {}
        self._refreshing = asyncio.Lock()
        self._refresh_due = clock.monotonic()
        self._is_stale = True
        self._text = b""
        self.generation = 0

    async def find(self, kid: str | None) -> TokenKey | None:
        """None where there is no such key. A token need not name the only one."""
        found = self._look(kid)
        if found is None:
            await self._refresh()
            found = self._look(kid)
        if found is None and self._is_stale:
            raise NotReady(
                "The keys for tokens cannot be fetched now, and this token needs one that is not "
                "known. Try again later.",
                code="TOKEN_KEYS_UNAVAILABLE",
                retry_after=REFRESH_SECONDS,
            )
        return found

    async def run(self) -> None:
        """Fetch the keys again and again."""
        while True:
            await self._refresh()
            await asyncio.sleep(RELOAD_SECONDS)

    async def load(self) -> None:
        """Raises ConfigurationError."""
        try:
            self._take(await self._fetch())
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"The keys of jwt_jwks cannot be used: {error}.", code="INVALID_KEY_SET"
            ) from error

    def _look(self, kid: str | None) -> TokenKey | None:
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid)

    async def _refresh(self) -> None:
        async with self._refreshing:
            if self._clock.monotonic() < self._refresh_due:
                return
            self._refresh_due = self._clock.monotonic() + REFRESH_SECONDS
            try:
                self._take(await self._fetch())
            except (OSError, ValueError, TimeoutError) as error:
                self._is_stale = True
                log.warning("token_keys_not_fetched", error=str(error)[:200])

    def _take(self, text: bytes) -> None:
        if text != self._text:
            self._keys = read_key_set(text)
            self._text = text
            self.generation += 1
        self._is_stale = False


def read_key_set(text: bytes) -> Mapping[str | None, TokenKey]:
    """The keys that tokens can be checked with, by their ids. Raises ValueError: there are none."""
    try:
        listed = _decode(text).keys
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError("it is no JSON Web Key Set") from error
    keys: dict[str | None, TokenKey] = {}
    for entry in listed[:MOST_KEYS]:
        key = _read_key(entry)
        if key is not None:
            kid = entry.get("kid")
            keys[kid if isinstance(kid, str) else None] = key
    if not keys:
        raise ValueError("it has no public key that tokens can be checked with")
    return keys


def _read_key(entry: Mapping[str, Any]) -> TokenKey | None:
    """None for what is not for signatures, for secrets, and for kinds that nobody knows."""
    kind = entry.get("kty")
    parts = _PUBLIC_PARTS.get(kind) if isinstance(kind, str) else None
    if parts is None or entry.get("use", "sig") != "sig":
        return None
    algorithms = _algorithms(kind, entry)
    if not algorithms:
        return None
    public = {"kty": kind, **{name: entry.get(name) for name in parts}}
    try:
        key = PyJWK(public, algorithm=algorithms[0]).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if kind == "RSA" and key.key_size < SMALLEST_RSA_BITS:
        log.warning("token_key_too_small", kid=str(entry.get("kid"))[:80], bits=key.key_size)
        return None
    return TokenKey(key, algorithms)


def _algorithms(kind: str | None, entry: Mapping[str, Any]) -> Sequence[str]:
    match kind:
        case "RSA":
            possible: Sequence[str] = _RSA
        case "EC":
            possible = _CURVES.get(str(entry.get("crv")), ())
        case _:
            possible = ("EdDSA",) if entry.get("crv") in {"Ed25519", "Ed448"} else ()
    named = entry.get("alg")
    return possible if named is None else [each for each in possible if each == named]
