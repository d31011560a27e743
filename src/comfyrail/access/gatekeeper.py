"""Finds out who somebody is from what they show: an API key, a token, a session [11.1]."""

from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from comfyrail.access.keys import PREFIX
from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Beginning, Principal
from comfyrail.access.sessions import SessionNote, Sessions
from comfyrail.access.tokens import TokenClaims, TokenReader
from comfyrail.clock import Instant
from comfyrail.errors import Unauthorized

PARTS_OF_A_TOKEN = 3


class Accounts(Protocol):
    """All raise Unauthorized for one who may not come in."""

    async def principal_of_key(self, text: str) -> Principal: ...

    async def principal_of_key_id(self, key_id: str) -> Principal: ...

    async def principal_of_user(
        self, user_id: str, tier: str, permissions: frozenset[Permission]
    ) -> Principal: ...


@dataclass(frozen=True, slots=True)
class Login:
    principal: Principal
    expires_at: Instant
    cookie: str


class Gatekeeper:
    def __init__(
        self, accounts: Accounts, sessions: Sessions, tokens: TokenReader | None = None
    ) -> None:
        """Without `tokens` only API keys count."""
        self._accounts = accounts
        self._sessions = sessions
        self._tokens = tokens

    async def recognize(self, credential: str) -> Principal:
        """Raise Unauthorized for what does not count."""
        if credential.startswith(PREFIX):
            return await self._accounts.principal_of_key(credential)
        return await self._principal_of(await self._read_token(credential))

    async def recognize_session(self, cookie: str) -> tuple[Principal, SessionNote] | None:
        """None for one that is over, whose key was revoked or whose user may no longer come in."""
        note = self._sessions.read(cookie)
        if note is None:
            return None
        try:
            if note.kind == "key":
                principal = await self._accounts.principal_of_key_id(note.id)
            else:
                permissions = frozenset(Permission(name) for name in note.permissions)
                principal = await self._accounts.principal_of_user(note.id, note.tier, permissions)
        except (Unauthorized, ValueError):
            return None
        return _until(_begun(principal, note), Instant(note.expires_at)), note

    async def recognize_session_again(self, cookie: str) -> Principal:
        """Raise Unauthorized once the session is over."""
        known = await self.recognize_session(cookie)
        if known is None:
            raise Unauthorized("The session is over. Log in again.", code="SESSION_OVER")
        return known[0]

    async def session_over(self, note: SessionNote) -> None:
        """Returns when the session has ended, or its time is up."""
        await self._sessions.over(note)

    async def log_in(self, credential: str) -> Login:
        """Begin a session. Raise Unauthorized for what does not count."""
        if credential.startswith(PREFIX):
            principal = await self._accounts.principal_of_key(credential)
            note, cookie = self._sessions.begin(
                "key", principal.key_id or "", began_until=principal.expires_at
            )
        else:
            claims = await self._read_token(credential)
            principal = await self._principal_of(claims)
            note, cookie = self._sessions.begin(
                "user",
                claims.user_id,
                claims.tier,
                tuple(sorted(claims.permissions)),
                latest=claims.expires_at,
                began_until=claims.expires_at,
            )
        return Login(principal, Instant(note.expires_at), cookie)

    async def log_out(self, cookie: str) -> None:
        """A session that is over is none to end."""
        note = self._sessions.read(cookie)
        if note is not None:
            await self._sessions.end(note)

    async def _read_token(self, text: str) -> TokenClaims:
        if self._tokens is None or text.count(".") != PARTS_OF_A_TOKEN - 1:
            raise Unauthorized(
                "This is no API key, and no token that counts here. API keys begin with "
                f"'{PREFIX}'.",
                code="TOKEN_INVALID",
            )
        return await self._tokens.read(text)

    async def _principal_of(self, claims: TokenClaims) -> Principal:
        principal = await self._accounts.principal_of_user(
            claims.user_id, claims.tier, claims.permissions
        )
        return _until(principal, claims.expires_at)


def _begun(principal: Principal, note: SessionNote) -> Principal:
    """The caller, with what the session began with, where the note says that."""
    if isinstance(note.began_until, msgspec.UnsetType):
        return principal
    known = (note.began_until, principal.expires_at)
    ends = [Instant(end) for end in known if end is not None]
    return replace(principal, began_with=Beginning(min(ends, default=None)))


def _until(principal: Principal, end: Instant) -> Principal:
    """The caller, for not longer than this."""
    own = principal.expires_at
    return replace(principal, expires_at=end if own is None else min(own, end))
