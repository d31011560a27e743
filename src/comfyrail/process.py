"""What the server's and the worker's processes have in common."""

import contextlib
import errno
import json
import os
import socket
import sys
import threading
from collections.abc import Callable

from comfyrail.errors import ConfigurationError

BACKLOG = 2048
SWITCH_INTERVAL_SECONDS = 0.0005
ORPHAN_SECONDS = 10.0


def hand_over_quickly() -> None:
    """Let a busy thread hand over after at most half a millisecond instead of 5.

    A job crosses between the event loop and other threads several times, and a node in pure
    Python keeps its thread busy: each crossing would wait as long.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. The error says what to do."""
    if not 0 <= port <= 65535:
        raise ConfigurationError(f"A port is 0 to 65535, not {port}.", code="CANNOT_LISTEN")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server((str(address[0]), port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigurationError(_why(error, host, port), code="CANNOT_LISTEN") from error
    # Accepted sockets inherit it. The event loop sets it only on sockets that were made with the
    # protocol named, and these were not; without it small replies wait 40 ms for an ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_of(listener: socket.socket) -> str:
    """Where a client on this machine reaches the socket."""
    host, port = listener.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104 - as above
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def announce_url(url: str) -> None:
    """One line of JSON on standard output, for the process that started this one."""
    sys.stdout.write(json.dumps({"event": "listening", "url": url}) + "\n")
    sys.stdout.flush()


def call_when_parent_ends(stop: Callable[[], object], limit: float = ORPHAN_SECONDS) -> None:
    """Call `stop` (from a thread) when standard input ends, as it does when the parent is gone,
    however that came about; end the process by force if it is still there `limit` seconds later.
    """

    def watch() -> None:
        with contextlib.suppress(OSError, ValueError):
            while os.read(sys.stdin.fileno(), 4096):
                continue
        with contextlib.suppress(RuntimeError):
            stop()
        # The orderly way out may hang in a node, and nobody is left to notice.
        threading.Event().wait(limit)
        os._exit(0)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is in use by another program. "
            "Stop that one, or choose another with --port (0 takes a free one)."
        )
    if error.errno == errno.EACCES:
        return f"Port {port} needs more rights than this process has. Choose one above 1023."
    reason = error.strerror or error
    return f"Cannot listen on {host}, port {port}: {reason}. Choose another --host or --port."
