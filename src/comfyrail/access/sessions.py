"""Sessions of browsers: a signed note of who has logged in, kept in a cookie [11.3].

The note holds no credential. Whether its key still counts, or its user, is asked each time.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from comfyrail.clock import Clock, Instant, after

COOKIE = "comfyrail_session"
SESSION_SECONDS = 12 * 3600.0
LONGEST_COOKIE = 4096
SECRET_BYTES = 32
_PURPOSE = b"comfyrail session"


class SessionNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["key", "user"]
    id: str
    """Of the API key, or of the user whom a token named."""
    expires_at: int
    nonce: str
    tier: str = ""
    permissions: tuple[str, ...] = ()
    """Of a token; a key's own count."""
    began_until: int | msgspec.UnsetType | None = msgspec.UNSET
    """When the key or token ends that it began with; None: never. Unset in notes of before."""


class EndedSessions(Protocol):
    """The side of the store that is needed here."""

    async def list_ended_sessions(self) -> Mapping[str, Instant]:
        """By nonce, until when they would have lasted; those that would be over are left out."""
        ...

    async def end_session(self, nonce: str, until: Instant) -> None: ...


_decode = msgspec.json.Decoder(SessionNote).decode


class Sessions:
    def __init__(self, secret: bytes, store: EndedSessions, clock: Clock) -> None:
        self._key = hmac.new(secret, _PURPOSE, hashlib.sha256).digest()
        self._store = store
        self._clock = clock
        self._ended: dict[str, Instant] = {}
        self._waiting: dict[str, set[asyncio.Event]] = {}

    async def load(self) -> None:
        self._ended = dict(await self._store.list_ended_sessions())

    def begin(
        self,
        kind: Literal["key", "user"],
        holder: str,
        tier: str = "",
        permissions: tuple[str, ...] = (),
        *,
        latest: Instant | None = None,
        began_until: Instant | None = None,
    ) -> tuple[SessionNote, str]:
        """The note and the cookie's value. It lasts 12 hours, and not longer than `latest`.
        `began_until`: when what it begins with ends; None: never.
        """
        until = after(self._clock.now(), SESSION_SECONDS)
        note = SessionNote(
            kind=kind,
            id=holder,
            expires_at=until if latest is None else min(until, latest),
            nonce=secrets.token_urlsafe(16),
            tier=tier,
            permissions=permissions,
            began_until=began_until,
        )
        content = msgspec.json.encode(note)
        return note, f"{_text(content)}.{_text(self._sign(content))}"

    def read(self, cookie: str) -> SessionNote | None:
        """None for what we have not signed, what has ended and what is over."""
        if len(cookie) > LONGEST_COOKIE:
            return None
        content_text, _, signature_text = cookie.partition(".")
        try:
            content, signature = _bytes(content_text), _bytes(signature_text)
            if not hmac.compare_digest(self._sign(content), signature):
                return None
            note = _decode(content)
        except (ValueError, msgspec.DecodeError):
            return None
        return None if self._is_over(note) else note

    async def over(self, note: SessionNote) -> None:
        """Returns when it has ended, or its time is up."""
        end, waiting = asyncio.Event(), self._waiting.setdefault(note.nonce, set())
        waiting.add(end)
        try:
            while not self._is_over(note):
                left = (note.expires_at - self._clock.now()) / 1000
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await end.wait()
        finally:
            waiting.remove(end)
            if not waiting:
                del self._waiting[note.nonce]

    async def end(self, note: SessionNote) -> None:
        """For good, on all copies of the cookie."""
        now = self._clock.now()
        self._ended = {nonce: until for nonce, until in self._ended.items() if until > now}
        self._ended[note.nonce] = Instant(note.expires_at)
        for end in self._waiting.get(note.nonce, ()):
            end.set()
        await self._store.end_session(note.nonce, Instant(note.expires_at))

    def _is_over(self, note: SessionNote) -> bool:
        return self._clock.now() >= note.expires_at or note.nonce in self._ended

    def _sign(self, content: bytes) -> bytes:
        return hmac.new(self._key, content, hashlib.sha256).digest()


def cookie_in(header: str) -> str | None:
    """The session's cookie among those of a request."""
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return None


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode("ascii").rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
