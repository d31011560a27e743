"""Free ports, and whether something listens."""

import contextlib
import socket


def free_ports(count: int, *, also_above: int = 0) -> list[int]:
    """Ports that were free a moment ago, all different.

    With `also_above`, the ports that many higher are free too.
    """
    with contextlib.ExitStack() as held:
        found: list[int] = []
        while len(found) < count:
            listener = held.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = listener.getsockname()[1]
            if not also_above or _is_free(port + also_above):
                found.append(port)
        return found


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except (OSError, OverflowError):
        return False
    return True
