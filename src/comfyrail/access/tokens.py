"""JSON Web Tokens: who somebody is, as said and signed by someone whom the server trusts [11.1]."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Protocol

import jwt

from comfyrail.access.jwks import TokenKey
from comfyrail.access.permissions import ALL, EVERYTHING, OF_USERS, Permission
from comfyrail.access.tiers import FREE, TIERS
from comfyrail.clock import Clock, Instant, after
from comfyrail.errors import Unauthorized

LONGEST_TOKEN = 8192
LEEWAY_SECONDS = 30.0
MOST_REMEMBERED = 10_000
LATEST_EXPIRY = 1 << 40
"""Seconds since the epoch: what lies behind it is no date."""

_KNOWN = frozenset(Permission)


class Keys(Protocol):
    @property
    def generation(self) -> int:
        """It changes when the keys do."""
        ...

    async def find(self, kid: str | None) -> TokenKey | None: ...


@dataclass(frozen=True, slots=True)
class TokenClaims:
    user_id: str
    tier: str
    permissions: frozenset[Permission]
    expires_at: Instant


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What every token must say; None: anything, or nothing."""

    issuer: str | None = None
    audience: str | None = None


class TokenReader:
    """Checks tokens. What was checked is remembered until it expires or the keys change: a
    signature costs more than the rest of a request.
    """

    def __init__(self, keys: Keys, clock: Clock, rules: TokenRules) -> None:
        self._keys = keys
        self._clock = clock
        self._rules = rules
        self._generation = keys.generation
        self._checked: OrderedDict[bytes, TokenClaims] = OrderedDict()

    async def read(self, text: str) -> TokenClaims:
        """Raise Unauthorized for a token that does not count."""
        if len(text) > LONGEST_TOKEN or not text.isascii():
            raise _invalid()
        digest = hashlib.sha256(text.encode("ascii")).digest()
        claims = self._remembered(digest)
        if claims is None:
            claims = await self._check(text)
            self._remember(digest, claims)
        if self._clock.now() >= after(claims.expires_at, LEEWAY_SECONDS):
            self._checked.pop(digest, None)
            raise _expired()
        return claims

    def _remembered(self, digest: bytes) -> TokenClaims | None:
        if self._generation != self._keys.generation:
            self._generation = self._keys.generation
            self._checked.clear()
        found = self._checked.get(digest)
        if found is not None:
            self._checked.move_to_end(digest)
        return found

    def _remember(self, digest: bytes, claims: TokenClaims) -> None:
        self._checked[digest] = claims
        if len(self._checked) > MOST_REMEMBERED:
            self._checked.popitem(last=False)

    async def _check(self, text: str) -> TokenClaims:
        try:
            kid = jwt.get_unverified_header(text).get("kid")
            key = await self._keys.find(kid)
            if key is None:
                raise _invalid()
            return _claims(self._decode(text, key))
        except jwt.ExpiredSignatureError as error:
            raise _expired() from error
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise _invalid() from error

    def _decode(self, text: str, key: TokenKey) -> dict[str, Any]:
        return jwt.decode(
            text,
            key.key,
            algorithms=list(key.algorithms),
            issuer=self._rules.issuer,
            audience=self._rules.audience,
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp"], "verify_aud": self._rules.audience is not None},
        )


def _claims(payload: dict[str, Any]) -> TokenClaims:
    user_id = payload.get("user_id", payload.get("sub"))
    tier = payload.get("tier", FREE)
    expiry = payload["exp"]
    if not isinstance(user_id, str) or not user_id or tier not in TIERS:
        raise ValueError("who it is for")
    if not 0 < expiry < LATEST_EXPIRY:
        raise ValueError("until when")
    return TokenClaims(
        user_id, tier, _permissions(payload.get("permissions")), Instant(round(expiry * 1000))
    )


def _permissions(said: Any) -> frozenset[Permission]:
    """What another server gives its users means nothing here, unless it has our names."""
    if said is None:
        return OF_USERS
    names = said.split() if isinstance(said, str) else said
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("permissions")
    if EVERYTHING in names:
        return ALL
    return frozenset(Permission(name) for name in names if name in _KNOWN)


def _expired() -> Unauthorized:
    return Unauthorized("The token has expired. Get a new one.", code="TOKEN_EXPIRED")


def _invalid() -> Unauthorized:
    """One message for all reasons: it helps those who have one, not those who make one up."""
    return Unauthorized(
        "The token is not valid here. Get a new one from whoever issues them, or use an API key.",
        code="TOKEN_INVALID",
    )
