"""Who is asking, by key or token; and the users and API keys behind that [11.1]."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from comfyrail.access.keys import is_secret_of, new_key, read_key
from comfyrail.access.permissions import OF_USERS, Permission
from comfyrail.access.principal import Principal
from comfyrail.clock import Clock, Instant
from comfyrail.errors import Conflict, KeyNotFound, MalformedRequest, Unauthorized, UserNotFound
from comfyrail.ids import TenantId
from comfyrail.jobs.quotas import NO_LIMITS, Quotas
from comfyrail.store.access import AccessStore, ApiKey, User
from comfyrail.usecases.account_rules import (
    USER_ID_RULE,
    MadeKey,
    NewKey,
    NewUser,
    UserChange,
    check_admin,
    check_key_name,
    check_user_id,
    is_user_id,
    kept_names,
    permissions_of,
    read_names,
    read_quotas,
    read_tenant,
    read_tier,
    refuse_more,
    refuse_more_than_user,
    shown_id,
)
from comfyrail.usecases.recent import Recent

CACHE_SECONDS = 5.0
"""So long another server may go on with what this one has changed."""
MOST_CACHED = 10_000
USE_NOTED_SECONDS = 60.0
USERS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class _KnownUser:
    user: User | None
    is_name_of_others: bool = False
    """There is no such user, and users have a tenant of this name."""


class Accounts:
    """What one server changes counts here at once, and on others within CACHE_SECONDS."""

    def __init__(self, store: AccessStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._keys: Recent[tuple[ApiKey, User | None]] = Recent(clock, CACHE_SECONDS, MOST_CACHED)
        self._users: Recent[_KnownUser] = Recent(clock, CACHE_SECONDS, MOST_CACHED)
        self._noted: dict[str, float] = {}
        self._changing = asyncio.Lock()
        self.after_revocation: Callable[[], Awaitable[None]] = _nothing
        """Called when keys were revoked."""

    async def principal_of_key(self, text: str) -> Principal:
        """Raise Unauthorized unless it is the text of a key that counts. A wrong secret is answered
        like an unknown key, and takes as long.
        """
        sent = read_key(text)
        if sent is None:
            raise _unknown_key()
        known = self._keys.get(sent.id)
        if known is None or not is_secret_of(sent, known[0].digest):
            known = await self._keys.fetch(sent.id, self._store.get_key)
            if not is_secret_of(sent, known[0].digest if known else None):
                known = None
        if known is None:
            raise _unknown_key()
        return self._principal(*known)

    async def principal_of_key_id(self, key_id: str) -> Principal:
        """Of somebody who has shown the key before: a session. Raise Unauthorized as above."""
        known = self._keys.get(key_id) or await self._keys.fetch(key_id, self._store.get_key)
        if known is None:
            raise _unknown_key()
        return self._principal(*known)

    def _principal(self, key: ApiKey, owner: User | None) -> Principal:
        user = self._check_key(key, owner)
        self._note_use(key.id)
        return Principal(
            user.tenant,
            user.tier,
            permissions_of(key.permissions) & permissions_of(user.permissions),
            user.id,
            key.id,
            is_limited=True,
            expires_at=key.expires_at,
        )

    async def principal_of_user(
        self, user_id: str, tier: str, permissions: frozenset[Permission]
    ) -> Principal:
        """Of a token that was found to be right. One who is in no table is her own tenant; one who
        is there may be disabled, and has no more permissions than are there.
        """
        if not is_user_id(user_id):
            raise Unauthorized(
                f"The user_id of a token has {USER_ID_RULE}.", code="USER_ID_REFUSED"
            )
        known = await self._known_user(user_id)
        if known.is_name_of_others:
            raise Unauthorized(
                "There are users with a tenant of this name, and this user_id is none of them. An "
                "administrator can add the user.",
                code="USER_ID_REFUSED",
            )
        user = known.user
        if user is None:
            return Principal(TenantId(user_id), tier, permissions, user_id, is_limited=True)
        if user.is_disabled:
            raise _disabled()
        allowed = permissions & permissions_of(user.permissions)
        return Principal(user.tenant, tier, allowed, user_id, is_limited=True)

    async def quotas_of(self, principal: Principal) -> Quotas:
        """No limits for the local user, and for those who are in no table."""
        if not principal.is_limited:
            return NO_LIMITS
        user = (await self._known_user(principal.user_id)).user
        return NO_LIMITS if user is None else user.quotas

    async def add_user(self, maker: Principal, wanted: NewUser) -> User:
        """Raise Conflict where there is one, or where users have a tenant of her name that nobody
        has said she is to share; Forbidden where she would have more than the maker.
        """
        check_user_id(wanted.id)
        names = (
            kept_names(OF_USERS) if wanted.permissions is None else read_names(wanted.permissions)
        )
        refuse_more(maker, permissions_of(names))
        user = User(
            wanted.id,
            TenantId(wanted.id) if wanted.tenant is None else read_tenant(wanted.tenant),
            read_tier(wanted.tier),
            names,
            read_quotas(wanted.quotas),
            self._clock.now(),
        )
        async with self._changing:
            await self._store.add_user(user, is_own_tenant=wanted.tenant is None)
            self._forget()
        return user

    async def get_user(self, user_id: str) -> User:
        user = await self._store.get_user(user_id)
        if user is None:
            shown = shown_id(user_id)
            raise UserNotFound(
                f"There is no user {shown!r}. Check the id.", details={"user_id": shown}
            )
        return user

    async def list_users(self, after: str, limit: int) -> tuple[Sequence[User], str | None]:
        """By id; and where the next page begins."""
        users = await self._store.list_users(after, limit + 1)
        return users[:limit], users[limit - 1].id if len(users) > limit else None

    async def change_user(self, maker: Principal, user_id: str, change: UserChange) -> User:
        """Raise Forbidden where she would get more than the maker has."""
        async with self._changing:
            user = await self.get_user(user_id)
            changed = _changed(user, change)
            gained = permissions_of(changed.permissions) - permissions_of(user.permissions)
            refuse_more(maker, gained)
            if not _is_admin(changed):
                await self._keep_an_admin(user)
            await self._store.change_user(changed)
            self._forget()
        return changed

    async def remove_user(self, user_id: str, *, is_last_allowed: bool = False) -> None:
        """Her keys are revoked; what belongs to her tenant stays. Raise Conflict for the last one
        who could let others in.
        """
        async with self._changing:
            user = await self.get_user(user_id)
            if not is_last_allowed:
                await self._keep_an_admin(user)
            await self._store.remove_user(user_id)
            self._forget()
        await self.after_revocation()

    async def has_admin(self, *, besides: str | None = None) -> bool:
        """Whether any user, or any other user, could let others in."""
        after: str | None = ""
        while after is not None:
            users, after = await self.list_users(after, USERS_AT_ONCE)
            if any(_is_admin(user) and user.id != besides for user in users):
                return True
        return False

    async def make_key(self, maker: Principal, wanted: NewKey) -> MadeKey:
        """A key gives no more than its maker has, and lasts no longer than the key, the token or
        the session she came with. Those of others are for administrators.
        """
        check_key_name(wanted.name)
        expires_at = self._expiry(maker, wanted.expires_at)
        async with self._changing:
            user = await self._owner(maker, wanted.user_id)
            text = new_key()
            key = ApiKey(
                text.id,
                user.id,
                wanted.name,
                _key_permissions(maker, user, wanted.permissions),
                text.digest,
                self._clock.now(),
                maker.user_id,
                expires_at,
            )
            await self._store.add_key(key)
        return MadeKey(key, text.text)

    async def list_keys(
        self, asker: Principal, user_id: str | None, after: str, limit: int
    ) -> tuple[Sequence[ApiKey], str | None]:
        """The caller's own; those of another user, or of all (`*`), are for administrators."""
        wanted = asker.user_id if user_id is None else user_id
        if wanted != asker.user_id:
            check_admin(asker)
        keys = await self._store.list_keys(None if wanted == "*" else wanted, after, limit + 1)
        return keys[:limit], keys[limit - 1].id if len(keys) > limit else None

    async def revoke_key(self, asker: Principal, key_id: str) -> ApiKey:
        """Raise KeyNotFound for keys of others, unless an administrator asks."""
        known = await self._store.get_key(key_id)
        is_own = known is not None and known[0].user_id == asker.user_id
        if known is None or not (is_own or asker.may(Permission.ACCESS_ADMIN)):
            shown = shown_id(key_id)
            raise KeyNotFound(
                f"There is no API key {shown!r}. The id is the part between the underscores.",
                details={"key_id": shown},
            )
        revoked = await self._store.revoke_key(key_id)
        self._forget()
        await self.after_revocation()
        return revoked or known[0]

    async def is_revoked(self, text: str) -> bool:
        """Whether it is the text of a key that was revoked, or whose user is gone."""
        sent = read_key(text)
        known = None if sent is None else await self._store.get_key(sent.id)
        return known is not None and (known[0].revoked_at is not None or known[1] is None)

    async def _keep_an_admin(self, user: User) -> None:
        """Raise Conflict where nobody but this user could let others in."""
        if _is_admin(user) and not await self.has_admin(besides=user.id):
            raise Conflict(
                f"{user.id} is the last user with {Permission.ACCESS_ADMIN.value}: nobody could "
                "let others in. Give that permission to another user first.",
                code="LAST_ADMINISTRATOR",
                details={"user_id": user.id},
            )

    async def _known_user(self, user_id: str) -> _KnownUser:
        known = self._users.get(user_id) or await self._users.fetch(user_id, self._read_user)
        return known or _KnownUser(None)

    async def _read_user(self, user_id: str) -> _KnownUser:
        user = await self._store.get_user(user_id)
        if user is not None:
            return _KnownUser(user)
        return _KnownUser(None, await self._store.is_tenant_of_users(TenantId(user_id)))

    def _check_key(self, key: ApiKey, user: User | None) -> User:
        if key.revoked_at is not None or user is None:
            raise Unauthorized("This API key was revoked. Make a new one.", code="KEY_REVOKED")
        if key.expires_at is not None and key.expires_at <= self._clock.now():
            raise Unauthorized("This API key has expired. Make a new one.", code="KEY_EXPIRED")
        if user.is_disabled:
            raise _disabled()
        return user

    def _note_use(self, key_id: str) -> None:
        now = self._clock.monotonic()
        last = self._noted.get(key_id)
        if last is None or now - last >= USE_NOTED_SECONDS:
            if len(self._noted) >= MOST_CACHED:
                self._noted.clear()
            self._noted[key_id] = now
            self._store.note_key_use(key_id)

    def _forget(self) -> None:
        self._keys.forget()
        self._users.forget()

    async def _owner(self, maker: Principal, user_id: str | None) -> User:
        """Whose key it is to be."""
        if user_id is not None and user_id != maker.user_id:
            check_admin(maker)
            return await self.get_user(user_id)
        user = await self._store.get_user(maker.user_id)
        if user is None:
            raise UserNotFound(
                f"'{maker.user_id}' is not in the table of users, and a key belongs to a user "
                "there. Say whose it is with user_id, or let an administrator add the user.",
                details={"user_id": maker.user_id},
            )
        return user

    def _expiry(self, maker: Principal, wanted: Instant | None) -> Instant | None:
        if wanted is not None and wanted <= self._clock.now():
            raise MalformedRequest("expires_at is in the past.", code="INVALID_KEY")
        latest = maker.keys_end_at
        if latest is None:
            return wanted
        return latest if wanted is None else min(wanted, latest)


async def _nothing() -> None:
    """For those who need not be told."""


def _is_admin(user: User) -> bool:
    return not user.is_disabled and Permission.ACCESS_ADMIN in permissions_of(user.permissions)


def _changed(user: User, change: UserChange) -> User:
    if change.tenant is not None:
        user = replace(user, tenant=read_tenant(change.tenant))
    if change.tier is not None:
        user = replace(user, tier=read_tier(change.tier))
    if change.permissions is not None:
        user = replace(user, permissions=read_names(change.permissions))
    if change.quotas:
        user = replace(user, quotas=read_quotas(replace(user.quotas, **change.quotas)))
    if change.is_disabled is not None:
        user = replace(user, is_disabled=change.is_disabled)
    return user


def _key_permissions(maker: Principal, user: User, wanted: Sequence[str] | None) -> frozenset[str]:
    if wanted is None:
        return kept_names(maker.permissions & permissions_of(user.permissions))
    names = read_names(wanted)
    refuse_more(maker, permissions_of(names))
    refuse_more_than_user(user, permissions_of(names))
    return names


def _unknown_key() -> Unauthorized:
    return Unauthorized(
        "This API key is not known here. Check that all of it was sent, or make a new one.",
        code="KEY_UNKNOWN",
    )


def _disabled() -> Unauthorized:
    return Unauthorized(
        "This user is disabled. An administrator can change that.", code="USER_DISABLED"
    )
