"""Under which addresses others can reach this machine."""

import contextlib
import fcntl
import socket
import struct
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from comfyrail.network.addresses import Address

GET_ADDRESS = 0x8915
"""The request for an interface's address (SIOCGIFADDR)."""
IPV6_ADDRESSES = Path("/proc/net/if_inet6")
NOWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses of documentation: nothing is sent there."""


def own_addresses(family: int) -> list[str]:
    """Those of one family, without loopback and those that are good on one wire only. No name
    server is asked.
    """
    found = _of_interfaces() if family == socket.AF_INET else _of_kernel()
    usable = [each for each in found or _of_route(family) if _is_of_use(each)]
    return list(dict.fromkeys(str(each) for each in usable))


def _is_of_use(address: Address) -> bool:
    return not (address.is_loopback or address.is_link_local or address.is_unspecified)


def _of_interfaces() -> list[Address]:
    found: list[Address] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                wish = struct.pack("256s", name.encode()[:15])
                reply = fcntl.ioctl(asker.fileno(), GET_ADDRESS, wish)
                found.append(ip_address(reply[20:24]))
    return found


def _of_kernel() -> list[Address]:
    try:
        lines = IPV6_ADDRESSES.read_text().splitlines()
    except OSError:
        return []
    return [IPv6Address(int(line.split()[0], 16)) for line in lines]


def _of_route(family: int) -> list[Address]:
    """Where the system does not list them: the one that is used towards elsewhere."""
    with (
        contextlib.suppress(OSError),
        socket.socket(family, socket.SOCK_DGRAM) as asker,
    ):
        asker.connect((NOWHERE[socket.AddressFamily(family)], 9))
        return [ip_address(asker.getsockname()[0])]
    return []
