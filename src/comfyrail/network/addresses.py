"""Which addresses are public. Pure: nothing is looked up.

A server that fetches what its users name must not be made to reach what only it can reach: its own
ports, its neighbours, a cloud's metadata service. Addresses of IPv6 are refused unless they are
known to be public; so are those that carry an address of IPv4 that is not.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LOCAL_SUFFIXES = (
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "lan",
    "home.arpa",
    "test",
    "invalid",
    "onion",
    "in-addr.arpa",
    "ip6.arpa",
)
"""Names under these mean something on this network only."""

_SPECIAL_IPV4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by carriers; also Alibaba's metadata service
        "127.0.0.0/8",
        "168.63.129.16/32",  # public by its number, yet Azure's own service on each machine
        "169.254.0.0/16",  # link-local, and most metadata services
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_GLOBAL_IPV6 = IPv6Network("2000::/3")
_SPECIAL_IPV6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # Teredo, benchmarks, ORCHID
        "2001:db8::/32",
        "2002::/16",  # 6to4: leads to the IPv4 address inside it
        "3fff::/20",
    )
)
_CARRIES_IPV4 = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
_ISATAP = (0x00005EFE, 0x02005EFE)
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")


def is_public(address: Address | str, exceptions: Sequence[Network] = ()) -> bool:
    """Whether anyone on the Internet could reach it, or it lies in one of `exceptions`."""
    if isinstance(address, str):
        read = read_address(address)
        if read is None:
            return False
        address = read
    if any(address in network for network in exceptions):
        return True
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_IPV4)
    inner = _carried_ipv4(address)
    if inner is not None:
        return is_public(inner, exceptions)
    if address not in _GLOBAL_IPV6 or any(address in network for network in _SPECIAL_IPV6):
        return False
    tunnelled = _isatap_ipv4(address)
    return tunnelled is None or is_public(tunnelled)


def read_address(host: str) -> Address | None:
    """The address that a host stands for without asking anyone; None for a name.

    All forms that a system's resolver takes for a number are read: `127.1`, `2130706433`,
    `0x7f.1`, `0177.0.0.1`, brackets and zones of IPv6, a dot at the end.
    """
    text = host.strip("[]").removesuffix(".")
    if ":" in text:
        try:
            return ip_address(text.partition("%")[0])
        except ValueError:
            return None
    return _read_loose_ipv4(text)


def normal_host(host: str) -> str | None:
    """A host's one spelling: lower case, IDNA, no dot at the end. None when it is none.

    An address comes back in its usual form, so that no spelling of it can slip past a list.
    """
    address = read_address(host)
    if address is not None:
        return str(address)
    text = host.strip().rstrip(".").lower()
    if not text.isascii():
        try:
            text = text.encode("idna").decode("ascii")
        except UnicodeError:
            return None
    labels = text.split(".")
    if len(text) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return None
    # A number in the last place makes resolvers read the whole as an address, or as nonsense.
    return None if _NUMBER.fullmatch(labels[-1]) else text


def is_public_name(host: str, exceptions: Sequence[Network] = ()) -> bool:
    """Whether a host, as `normal_host` gives it, may lead to the Internet at all.

    What a name leads to is only known, and has to be checked again, when it is connected to.
    """
    address = read_address(host)
    if address is not None:
        return is_public(address, exceptions)
    if any(host == suffix or host.endswith(f".{suffix}") for suffix in LOCAL_SUFFIXES):
        return host == "localhost" and is_public("127.0.0.1", exceptions)
    return "." in host


def matches_domain(host: str, pattern: str) -> bool:
    """Whether a normal host is the domain `example.com`, or in `*.example.com`; `*` is any."""
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        domain = normal_host(pattern[2:])
        return domain is not None and host.endswith(f".{domain}")
    return host == normal_host(pattern)


def _carried_ipv4(address: IPv6Address) -> IPv4Address | None:
    if any(address in network for network in _CARRIES_IPV4):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _isatap_ipv4(address: IPv6Address) -> IPv4Address | None:
    number = int(address)
    if (number >> 32) & 0xFFFFFFFF in _ISATAP:
        return IPv4Address(number & 0xFFFFFFFF)
    return None


def _read_loose_ipv4(text: str) -> IPv4Address | None:
    """As inet_aton: one to four numbers of any base, the last one fills what is left."""
    parts = text.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    numbers = [_read_number(part) for part in parts]
    *heads, last = numbers
    room = 256 ** (4 - len(heads))
    if last is None or last >= room or any(head is None or head > 255 for head in heads):
        return None
    value = last
    for index, head in enumerate(heads):
        value += (head or 0) << (24 - 8 * index)
    return IPv4Address(value)


def _read_number(text: str) -> int | None:
    if len(text) > 20:
        return None
    try:
        if text[:2].lower() == "0x":
            return int(text[2:] or "0", 16)
        return int(text, 8) if text.startswith("0") else int(text)
    except ValueError:
        return None
