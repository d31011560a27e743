"""What a server that others can reach says of itself in its log when it starts."""

import socket
import stat
from ipaddress import ip_address
from pathlib import Path

import structlog

from comfyrail.network.own_addresses import own_addresses
from comfyrail.process import url_of
from comfyrail.store.sqlite.database import DATABASE_NAME

ANY_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO

log = structlog.get_logger(__name__)


def tell_where_it_listens(listener: socket.socket) -> None:
    """With the addresses of this machine where the socket is open on all of them."""
    host, port = listener.getsockname()[:2]
    address = ip_address(host.partition("%")[0])
    if address.is_loopback:
        log.info("listening", url=url_of(listener))
        return
    hosts = own_addresses(listener.family) if address.is_unspecified else [host]
    log.info(
        "listening",
        url=url_of(listener),
        host=host,
        reachable_as=[f"http://{_bracketed(each)}:{port}" for each in hosts],
    )
    log.warning(
        "plain_http",
        host=host,
        what="API keys cross the network as plain text, unless a proxy with TLS is in front",
    )


def warn_of_readable_data(folder: Path) -> None:
    """Where other users of this machine can get at the data folder or the database in it."""
    if not folder.stat().st_mode & ANY_OF_OTHERS:
        return
    database = folder / DATABASE_NAME
    open_ones = {folder: "700"}
    if database.stat().st_mode & ANY_OF_OTHERS:
        open_ones[database] = "600"
    log.warning(
        "data_readable_by_others",
        paths=[str(path.absolute()) for path in open_ones],
        what=" && ".join(f"chmod {mode} {path.absolute()}" for path, mode in open_ones.items()),
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
