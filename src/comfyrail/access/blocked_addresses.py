"""Addresses that get no answer, and those that earn it by trying credentials [11.3]."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_network
from math import inf
from typing import Protocol

import structlog

from comfyrail.access.addresses import TrustedProxies, subscriber_of
from comfyrail.clock import Clock, Instant, after
from comfyrail.errors import Forbidden, StoreUnavailable
from comfyrail.ids import new_uuid
from comfyrail.network.addresses import Address, Network
from comfyrail.store.access import BLOCKS, AddressBlock, AuditEntry
from comfyrail.store.signals import Signals

REREAD_SECONDS = 10.0
"""Another replica may have changed the list."""
FAILURE_SECONDS = 300.0
FIRST_BLOCK_SECONDS = 900.0
LONGEST_BLOCK_SECONDS = 86_400.0
MOST_SUSPECTS = 10_000
THE_GATE = "gate"
"""Who has made a block that nobody has made by hand."""

log = structlog.get_logger(__name__)


class Blocks(Protocol):
    """The side of the store that is needed here."""

    signals: Signals

    async def list_blocks(self) -> Sequence[AddressBlock]: ...

    async def add_block(self, block: AddressBlock) -> AddressBlock: ...

    async def write_audit(self, entry: AuditEntry) -> None: ...


class BlockList:
    """The blocks as they are in memory: one look a length of prefix, however many there are."""

    def __init__(self, store: Blocks, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._until: dict[tuple[int, int], dict[int, float]] = {}

    async def run(self) -> None:
        with self._store.signals.subscribe(BLOCKS) as changed:
            while True:
                with suppress(StoreUnavailable):
                    await self.load()
                await changed.wait(REREAD_SECONDS)

    async def load(self) -> None:
        self._read(await self._store.list_blocks())

    def refuse(self, address: Address) -> None:
        """Raise Forbidden, with the time until which an address is blocked, where it is."""
        until = self._blocked_until(address)
        if until is None:
            return
        raise Forbidden(
            f"Your address is blocked{_said(until)}. An administrator of this server can lift "
            "that.",
            code="ADDRESS_BLOCKED",
            retry_after=None if until == inf else (until - self._clock.now()) / 1000,
        )

    def is_blocked(self, address: Address) -> bool:
        return self._blocked_until(address) is not None

    async def add(self, network: Network, seconds: float, reason: str) -> None:
        """It is in the audit log, as what administrators block is."""
        now = self._clock.now()
        until = after(now, seconds)
        # At once: what is on its way meanwhile is refused too.
        self._put(str(network), until)
        block = await self._store.add_block(
            AddressBlock(new_uuid(), str(network), reason, THE_GATE, now, until)
        )
        details = {"block_id": block.id, "reason": reason, "seconds": seconds}
        await self._store.write_audit(
            AuditEntry(now, THE_GATE, "block.add", block.network, details)
        )

    def _blocked_until(self, address: Address) -> float | None:
        """In milliseconds since 1970; `inf` for one that is blocked for good."""
        if not self._until:
            return None
        number, bits = int(address), address.max_prefixlen
        found = [
            networks.get(number >> (bits - length), 0.0)
            for (version, length), networks in self._until.items()
            if version == address.version
        ]
        until = max(found, default=0.0)
        return until if self._clock.now() < until else None

    def _read(self, blocks: Iterable[AddressBlock]) -> None:
        self._until = {}
        for block in blocks:
            with suppress(ValueError):
                self._put(block.network, block.expires_at)

    def _put(self, text: str, until: Instant | None) -> None:
        network = ip_network(text, strict=False)
        kept = self._until.setdefault((network.version, network.prefixlen), {})
        start = int(network.network_address) >> (network.max_prefixlen - network.prefixlen)
        kept[start] = inf if until is None else until


def _said(until: float) -> str:
    if until == inf:
        return ""
    return f" until {datetime.fromtimestamp(until / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


@dataclass(slots=True)
class _Suspect:
    failures: deque[float] = field(default_factory=deque)
    times_blocked: int = 0


class BadCredentials:
    """Counts them by address. `most` within five minutes block it for 15 minutes, and twice as long
    each time after that, up to a day. This machine and trusted proxies are never blocked.
    """

    def __init__(self, blocks: BlockList, proxies: TrustedProxies, most: int, clock: Clock) -> None:
        """`most` 0: nobody is blocked for this."""
        self._blocks = blocks
        self._proxies = proxies
        self._most = most
        self._clock = clock
        self._suspects: OrderedDict[Network, _Suspect] = OrderedDict()

    async def note(self, address: Address | None) -> None:
        if address is None or not self._most:
            return
        if self._proxies.is_never_blocked(address):
            return
        network = subscriber_of(address)
        suspect = self._suspect(network)
        now = self._clock.monotonic()
        suspect.failures.append(now)
        while now - suspect.failures[0] > FAILURE_SECONDS:
            suspect.failures.popleft()
        if len(suspect.failures) >= self._most:
            suspect.failures.clear()
            await self._block(network, suspect)

    def _suspect(self, network: Network) -> _Suspect:
        suspect = self._suspects.setdefault(network, _Suspect())
        self._suspects.move_to_end(network)
        if len(self._suspects) > MOST_SUSPECTS:
            self._suspects.popitem(last=False)
        return suspect

    async def _block(self, network: Network, suspect: _Suspect) -> None:
        seconds = min(
            FIRST_BLOCK_SECONDS * 2.0 ** min(suspect.times_blocked, 10), LONGEST_BLOCK_SECONDS
        )
        suspect.times_blocked += 1
        log.warning("address_blocked", network=str(network), seconds=seconds)
        try:
            await self._blocks.add(network, seconds, f"{self._most} bad credentials in 5 minutes")
        except StoreUnavailable:
            log.warning("block_not_kept", network=str(network))
