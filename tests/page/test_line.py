"""A line that dies without a word: nothing comes over it any more, and nothing says so."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from tests.graphs import slow_picture
from tests.page.watched import WatchedPage
from tests.processes import Comfyrail, server

OpenPage = Callable[..., WatchedPage]


class Proxy:
    """Forwards bytes. `go_silent`: the connections that there are stay open and bring nothing."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._silent = threading.Event()
        self._sockets: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def go_silent(self) -> None:
        self._silent.set()
        self._silent = threading.Event()

    def close(self) -> None:
        self._listener.close()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._port))
            self._sockets += [near, far]
            for pair in ((near, far), (far, near)):
                arguments = (*pair, self._silent)
                threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    @staticmethod
    def _forward(source: socket.socket, sink: socket.socket, silent: threading.Event) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if silent.is_set():
                    return
                sink.sendall(data)
            if not silent.is_set():
                sink.shutdown(socket.SHUT_WR)


@contextmanager
def proxy_of(process: Comfyrail) -> Iterator[Proxy]:
    proxy = Proxy(urlsplit(process.url).port or 0)
    try:
        yield proxy
    finally:
        proxy.close()


@pytest.fixture(scope="module")
def line_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    with server(tmp_path_factory.mktemp("line") / "data") as process:
        yield process.wait_ready()


def test_page_notices_a_line_that_brings_nothing_any_more(
    line_server: Comfyrail, open_page: OpenPage
) -> None:
    with proxy_of(line_server) as proxy:
        job_id = line_server.submit(slow_picture(3))
        watched = open_page(proxy.url, f"#/jobs/{job_id}")
        watched.expect("TimeoutError", "timed out", "ERR_ABORTED", "WebSocket")
        watched.page.get_by_text("Live", exact=True).first.wait_for()
        watched.page.locator("main header .pill.processing").wait_for()
        proxy.go_silent()
        line_server.wait_for(job_id, "completed")
        assert not watched.page.locator("main header .pill.completed").count()
        watched.page.locator("main header .pill.completed").wait_for(timeout=40_000)
        watched.page.get_by_text("Live", exact=True).first.wait_for()
