"""Where a request comes from: the other end of the connection, or who stands behind a proxy that
is trusted to say so [11.3].
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

from comfyrail.network.addresses import Address, Network

IPV6_SUBSCRIBER = 64
"""One who has an address of IPv6 has all that begin like it."""
MOST_HOPS = 50


@dataclass(frozen=True, slots=True)
class ClientAddress:
    """`address` is None where there is none: a Unix socket."""

    address: Address | None
    is_https: bool

    @property
    def text(self) -> str | None:
        return None if self.address is None else str(self.address)


class TrustedProxies:
    def __init__(self, networks: Iterable[str] = ()) -> None:
        """Raises ValueError for what is no network in CIDR form."""
        self._networks = [ip_network(text) for text in networks]

    def trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)

    def is_never_blocked(self, address: Address) -> bool:
        """So are this machine and trusted proxies: others would be shut out with them."""
        return address.is_loopback or self.trusts(address)

    def are_never_blocked(self, network: Network) -> bool:
        """Whether all its addresses are such."""
        kept = [ip_network("127.0.0.0/8"), ip_network("::1/128"), *self._networks]
        return any(
            network.version == each.version
            and network.prefixlen >= each.prefixlen
            and network.network_address in each
            for each in kept
        )

    def client_of(
        self, peer: str | None, scheme: str, forwarded_for: Sequence[str], forwarded_proto: str
    ) -> ClientAddress:
        """The right-most address that is none of ours: what stands left of it anybody can write."""
        address = read_ip(peer or "")
        is_https = scheme in {"https", "wss"}
        if not self._networks or not self.trusts(address):
            return ClientAddress(address, is_https)
        if forwarded_proto:
            is_https = forwarded_proto.rpartition(",")[2].strip().lower() == "https"
        hops = [hop for value in forwarded_for for hop in value.split(",")]
        for hop in reversed(hops[-MOST_HOPS:]):
            said = read_ip(hop)
            if said is None:
                break
            address = said
            if not self.trusts(address):
                break
        return ClientAddress(address, is_https)


def read_ip(text: str) -> Address | None:
    """With or without a port; one of IPv4 inside IPv6 as what it is."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def subscriber_of(address: Address) -> Network:
    """The addresses that one client can choose from."""
    if isinstance(address, IPv6Address):
        return ip_network((address, IPV6_SUBSCRIBER), strict=False)
    return ip_network(address)
