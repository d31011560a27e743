"""Who may come in at all. With access off: this machine; with access on: those who are known."""

from typing import Protocol

from starlette.responses import Response
from starlette.types import Scope

from comfyrail.access.addresses import TrustedProxies
from comfyrail.access.blocked_addresses import BadCredentials, BlockList
from comfyrail.access.gatekeeper import Gatekeeper
from comfyrail.access.principal import LOCAL_USER, Principal
from comfyrail.access.sessions import cookie_in
from comfyrail.api.cors import Cors
from comfyrail.api.credentials import credential_in, credentials_conflict
from comfyrail.api.origins import (
    foreign_origin,
    is_of_another_site,
    is_own,
    refuse_other_sites,
    refuse_unlike_loopback,
)
from comfyrail.api.rates import Rates
from comfyrail.api.request_head import RequestHead
from comfyrail.errors import Unauthorized
from comfyrail.network.addresses import Address

GUESSES = frozenset({"KEY_UNKNOWN", "TOKEN_INVALID"})
"""What is said to credentials that were never right. One that has expired was right once: whoever
goes on using it is not trying to break in."""


class Gate(Protocol):
    cors: Cors
    has_login: bool
    """Whether a browser that is not known is sent to the login page."""

    async def admit(self, scope: Scope, head: RequestHead) -> Response | None:
        """Put `principal` (None: nobody knows who), `client_address` and `is_https` into the scope,
        and `ask_again`, which tells who the caller is at a later time; for a session also
        `session_over`, which returns when it is. Raise what is to be said to those who may not come
        in. A response is the whole answer.
        """
        ...


class LocalGate:
    """Everybody on this machine is the one local user; pages of other sites are kept out."""

    has_login = False

    def __init__(self, cors: Cors | None = None) -> None:
        self.cors = cors or Cors()

    async def admit(self, scope: Scope, head: RequestHead) -> Response | None:
        client = scope.get("client")
        scope["client_address"] = client[0] if client else None
        scope["is_https"] = False
        scope["principal"] = LOCAL_USER
        refuse_unlike_loopback(head.host)
        if head.origin is not None and not is_own(head, is_https=False):
            if not self.cors.allows(head.origin):
                raise foreign_origin(head.origin)
            return self.cors.preflight(scope, head)
        return None


class AccessGate:
    has_login = True

    def __init__(
        self,
        keeper: Gatekeeper,
        proxies: TrustedProxies,
        blocks: BlockList,
        bad_credentials: BadCredentials,
        rates: Rates,
        cors: Cors,
    ) -> None:
        self.cors = cors
        self._keeper = keeper
        self._proxies = proxies
        self._blocks = blocks
        self._bad_credentials = bad_credentials
        self._rates = rates

    async def admit(self, scope: Scope, head: RequestHead) -> Response | None:
        scope["principal"] = None
        self._look_at_address(scope, head)
        preflight = self.cors.preflight(scope, head)
        if preflight is not None:
            return preflight
        scope["principal"] = await self._find_out(scope, head)
        scope["rates"] = self._rates
        await self._rates.count(scope)
        return None

    def _look_at_address(self, scope: Scope, head: RequestHead) -> None:
        peer = scope.get("client")
        client = self._proxies.client_of(
            peer[0] if peer else None, scope["scheme"], head.forwarded_for, head.forwarded_proto
        )
        scope["client_address"] = client.text
        scope["is_https"] = client.is_https
        address = client.address
        scope["note_bad_credentials"] = lambda: self._note_bad_credentials(address, scope, head)
        if address is not None and not self._proxies.is_never_blocked(address):
            self._blocks.refuse(address)

    async def _note_bad_credentials(
        self, address: Address | None, scope: Scope, head: RequestHead
    ) -> None:
        """Not for a page of another site: it could send credentials that do not count until the
        address of whoever looks at it is blocked.
        """
        if not is_of_another_site(head, is_https=scope["is_https"]) or self.cors.names(head.origin):
            await self._bad_credentials.note(address)

    async def _find_out(self, scope: Scope, head: RequestHead) -> Principal | None:
        credential = credential_in(scope, head)
        shown = None
        if credential is not None:
            try:
                shown = await self._keeper.recognize(credential)
                scope["ask_again"] = lambda: self._keeper.recognize(credential)
            except Unauthorized as error:
                await note_refusal(scope, error)
                raise
        cookie = cookie_in(head.cookie) if head.cookie else None
        known = await self._keeper.recognize_session(cookie) if cookie else None
        if known is None:
            return shown
        principal, note = known
        if shown is None:
            refuse_other_sites(scope, head)
            scope["session"] = note
            scope["ask_again"] = lambda: self._keeper.recognize_session_again(cookie or "")
            scope["session_over"] = lambda: self._keeper.session_over(note)
            return principal
        if (shown.tenant, shown.user_id) != (principal.tenant, principal.user_id):
            raise credentials_conflict()
        return shown


async def note_refusal(scope: Scope, error: Unauthorized) -> None:
    """Credentials that do not count have come from this address."""
    if error.code in GUESSES:
        await scope["note_bad_credentials"]()
