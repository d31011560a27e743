"""Addresses that get no answer: by hand, or after many bad credentials [11.3]."""

from collections.abc import Sequence
from ipaddress import ip_network

from comfyrail.access.addresses import TrustedProxies
from comfyrail.access.principal import Principal
from comfyrail.clock import Clock, Instant
from comfyrail.errors import BlockNotFound, MalformedRequest, RequestError
from comfyrail.ids import new_uuid
from comfyrail.network.addresses import Network
from comfyrail.store.access import AccessStore, AddressBlock

LONGEST_REASON = 200
SHORTEST_PREFIX = {4: 8, 6: 16}
"""A mask that is shorter would shut out half the world by a slip of the hand."""


class AddressBlocks:
    """Those who ask whether an address is blocked are told of changes by the topic BLOCKS."""

    def __init__(
        self, store: AccessStore, clock: Clock, proxies: TrustedProxies | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._proxies = proxies or TrustedProxies()

    async def list(self) -> Sequence[AddressBlock]:
        """Those that count now."""
        return await self._store.list_blocks()

    async def add(
        self, maker: Principal, network: str, reason: str, expires_at: Instant | None = None
    ) -> AddressBlock:
        """Block an address or a network (`203.0.113.7`, `2001:db8::/48`). One that is blocked
        already gets the new reason and time. Raise RequestError for what is never blocked.
        """
        now = self._clock.now()
        if expires_at is not None and expires_at <= now:
            raise MalformedRequest("expires_at is in the past.", code="INVALID_BLOCK")
        if len(reason) > LONGEST_REASON or not reason.isprintable():
            raise MalformedRequest(
                f"reason has {LONGEST_REASON} printable characters at most.", code="INVALID_BLOCK"
            )
        wanted = read_network(network)
        self._refuse_never_blocked(wanted)
        return await self._store.add_block(
            AddressBlock(new_uuid(), str(wanted), reason, maker.user_id, now, expires_at)
        )

    async def remove(self, block_id: str) -> AddressBlock:
        removed = await self._store.remove_block(block_id)
        if removed is None:
            raise BlockNotFound(
                f"There is no block {block_id[:80]!r}. Check the id.",
                details={"block_id": block_id[:80]},
            )
        return removed

    def _refuse_never_blocked(self, network: Network) -> None:
        if self._proxies.are_never_blocked(network):
            whose = "this machine's own" if network.is_loopback else "a trusted proxy's"
            raise RequestError(
                f"{network} is {whose} and is never blocked: others would be shut out with it. "
                "Block the addresses behind it.",
                code="NEVER_BLOCKED",
                details={"network": str(network)},
            )


def read_network(text: str) -> Network:
    """An IPv6 address that stands for an IPv4 one is that one."""
    try:
        network = ip_network(text.strip(), strict=False)
    except ValueError:
        raise MalformedRequest(
            f"{text[:80]!r} is no address or network. Write 203.0.113.7, 203.0.113.0/24 or "
            "2001:db8::/48.",
            code="INVALID_BLOCK",
        ) from None
    if network.version == 6:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None and network.prefixlen >= 96:
            network = ip_network(f"{mapped}/{network.prefixlen - 96}")
    shortest = SHORTEST_PREFIX[network.version]
    if network.prefixlen < shortest:
        raise MalformedRequest(
            f"{network} is too large to block: a mask has /{shortest} or more.",
            code="INVALID_BLOCK",
        )
    return network
