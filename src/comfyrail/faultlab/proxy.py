"""A TCP line between server and worker that can break, fall silent and be slow."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

CHUNK = 1 << 16


class LineProxy:
    """Listens on a port of its own and passes everything on to another."""

    def __init__(self, target_port: int) -> None:
        self.busy = asyncio.Lock()
        self.port = 0
        self._target_port = target_port
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._delay = 0.0
        self._is_closed = False
        self._is_away = False
        self.refused = 0
        """Connections that were not taken because the line was away."""
        self.carried = 0
        """Bytes, both ways."""
        self._lines: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def drop(self) -> None:
        """End every connection abruptly, both ways; new ones are taken."""
        for writer in tuple(self._writers):
            _reset(writer)

    def go_away(self) -> None:
        """End every connection abruptly and take no new ones, as a machine that is down."""
        self._is_away = True
        self.drop()

    def come_back(self) -> None:
        self._is_away = False

    def fall_silent(self) -> None:
        """Connections stay and new ones are taken, but nothing gets through any more."""
        self._flowing.clear()

    def speak_again(self) -> None:
        self._flowing.set()

    def slow_down(self, seconds: float) -> None:
        """Every piece takes so long; 0 is as fast as it goes."""
        self._delay = seconds

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Not a coroutine: a connection taken while the line closes would never be known."""
        if self._is_closed or self._is_away:
            self.refused += 1
            _reset(writer)
            return
        task = asyncio.create_task(self._serve(reader, writer), name="line")
        self._lines.add(task)
        self._writers.add(writer)
        task.add_done_callback(self._lines.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._closing(writer):
            await self._flowing.wait()
            try:
                far_reader, far_writer = await asyncio.open_connection(
                    "127.0.0.1", self._target_port
                )
            except OSError:
                _reset(writer)
                return
            with self._closing(far_writer):
                await self._carry_both(reader, writer, far_reader, far_writer)

    async def close(self) -> None:
        self._is_closed = True
        self.drop()
        for task in tuple(self._lines):
            task.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    @contextlib.contextmanager
    def _closing(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        self._writers.add(writer)
        try:
            yield
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _carry_both(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        """Until one side ends: HTTP has no use for half a connection."""
        both = {
            asyncio.create_task(self._carry(reader, far_writer), name="line-there"),
            asyncio.create_task(self._carry(far_reader, writer), name="line-back"),
        }
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while content := await source.read(CHUNK):
                if self._delay:
                    await asyncio.sleep(self._delay)
                await self._flowing.wait()
                sink.write(content)
                await sink.drain()
                self.carried += len(content)


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[LineProxy]:
    proxy = LineProxy(port)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
        await server.wait_closed()


def _reset(writer: asyncio.StreamWriter) -> None:
    """RST instead of FIN, as from a machine that has lost its memory."""
    raw = writer.get_extra_info("socket")
    if raw is not None:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
