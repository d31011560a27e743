"""A small HTTP server for metrics, in threads of its own: no loop and no node waits for it."""

import ipaddress
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any, Self
from urllib.parse import urlsplit

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from comfyrail.process import url_of

log = structlog.get_logger(__name__)

PATH = "/metrics"
MOST_AT_ONCE = 8
PATIENCE_SECONDS = 5.0
POLL_SECONDS = 0.1
"""How long a stop may take to be seen."""


class MetricsServer:
    """Serves a registry on a socket that listens already, until it is closed."""

    def __init__(self, listener: socket.socket, registry: CollectorRegistry) -> None:
        self.url = f"{url_of(listener)}{PATH}"
        self._server = _Server(listener, registry)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_SECONDS,), name="metrics", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop taking requests; one that is under way is left to its thread."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingMixIn, HTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, registry: CollectorRegistry) -> None:
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.registry = registry
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take no more at once than a few: each has a thread."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is its own affair; the rest has been said by the handler."""
        del request, client_address


def _host_of(header: str | None) -> str:
    """The name in a Host header; the loopback's where there is none."""
    try:
        return "localhost" if header is None else urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "comfyrail"
    sys_version = ""
    timeout = PATIENCE_SECONDS

    def do_GET(self) -> None:
        if self._is_of_a_page():
            self._reply(HTTPStatus.FORBIDDEN, b"", "text/plain")
        elif urlsplit(self.path).path != PATH:
            self._reply(HTTPStatus.NOT_FOUND, f"Metrics are at {PATH}.\n".encode(), "text/plain")
        else:
            self._give_metrics()

    def do_HEAD(self) -> None:
        self.do_GET()

    def _is_of_a_page(self) -> bool:
        """A page of another site may not look in, nor one whose name was made to lead here.

        Programs that collect metrics send no origin.
        """
        if self.headers.get("Origin") is not None:
            return True
        here = self.connection.getsockname()[0]
        return _is_loopback(here) and not _is_loopback(_host_of(self.headers.get("Host")))

    def _give_metrics(self) -> None:
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        try:
            body = encode(self.server.registry)
        except Exception:
            log.exception("metrics_not_collected")
            self._reply(HTTPStatus.INTERNAL_SERVER_ERROR, b"See the worker's log.\n", "text/plain")
        else:
            self._reply(HTTPStatus.OK, body, content_type)

    def _reply(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Not a word for every request."""
