"""An agent's line: many streams on one WebSocket. The same class stands at both ends of it."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable

from comfyrail.fleet.drivers.agent_frames import (
    MOST_STREAMS,
    PING_SECONDS,
    SILENCE_SECONDS,
    Frame,
    Kind,
    LineDropped,
    Misuse,
    Socket,
    credit_frame,
    decode_frame,
    read_credit,
)
from comfyrail.fleet.drivers.agent_stream import Stream, close_connection

MOST_RESETS = 1024
"""So many that the other end does not take are no accident."""
LAST_STREAM = (1 << 32) - 1

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Connection]]


class Dismissed(LineDropped):
    """The server has removed this worker."""


class Line:
    """Belongs to one event loop. Does nothing until `run`.

    Reading from the socket never waits for writing to it: two ends that both wait to write would
    wait for ever. What an answer needs is noted and sent by a task of its own.
    """

    def __init__(
        self,
        socket: Socket,
        connect: Connect | None = None,
        *,
        most_streams: int = MOST_STREAMS,
        ping_seconds: float = PING_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        """`connect` is what the agent's end does when the server opens a stream."""
        self._socket = socket
        self._connect = connect
        self._most_streams = most_streams
        self._ping_seconds = ping_seconds
        self._silence_seconds = silence_seconds
        self._streams: dict[int, Stream] = {}
        self._highest = 0
        self._joins: set[asyncio.Task[None]] = set()
        self._sending = asyncio.Lock()
        self._due = asyncio.Event()
        self._due_now: deque[Frame] = deque()
        self._due_pong: bytes | None = None
        self._due_credit: dict[int, int] = {}
        self._heard_at = 0.0
        self._heard = asyncio.Event()
        self._drop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._is_over = False
        self.is_dismissed = False
        """Whether the server has said that this worker is not wanted any more."""

    @property
    def buffered(self) -> int:
        """Bytes that came over the line and wait for a slow reader."""
        return sum(stream.buffered for stream in self._streams.values())

    @property
    def streams(self) -> int:
        return len(self._streams)

    async def run(self) -> str:
        """Work until the line is over; return why. Streams that are open end with it."""
        self._heard_at = asyncio.get_running_loop().time()
        work = [
            asyncio.create_task(self._receive(), name="line-receive"),
            asyncio.create_task(self._send_due(), name="line-send"),
            asyncio.create_task(self._watch(), name="line-watch"),
        ]
        try:
            await asyncio.wait({*work, self._drop}, return_when=asyncio.FIRST_COMPLETED)
            if self._drop.done():
                return self._drop.result()
            return await next(task for task in work if task.done())
        except Misuse as error:
            with contextlib.suppress(LineDropped):
                await self._socket.close(1002, str(error)[:100])
            return str(error)
        finally:
            self._is_over = True
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await self._end_streams()
            with contextlib.suppress(LineDropped):
                await self._socket.close()

    def drop(self, reason: str) -> None:
        """Make `run` return."""
        if not self._drop.done():
            self._drop.set_result(reason)

    def hang_up(self) -> None:
        """End every stream; the line stays."""
        for number, stream in self._streams.items():
            stream.take_reset()
            with contextlib.suppress(Misuse):  # then the line is about to be dropped anyway
                self._tell(Frame(Kind.RESET, number, b"the server hangs up"))

    async def dismiss(self, seconds: float = 2.0) -> None:
        """Tell the agent that it is not wanted any more; then drop the line."""
        with contextlib.suppress(LineDropped, TimeoutError):
            async with asyncio.timeout(seconds):
                await self._send(Frame(Kind.DISMISS))
        self.drop("the worker was removed")

    async def answers(self, seconds: float) -> bool:
        """Whether the other end lives: it is asked, and anything that comes counts."""
        self._heard.clear()
        try:
            self._tell(Frame(Kind.PING, 0, b"probe"))
            async with asyncio.timeout(seconds):
                await self._heard.wait()
        except (Misuse, TimeoutError):
            return False
        return not self._is_over

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Open a stream and carry a connection over it until it ends. Takes the connection over."""
        if self._is_over or len(self._streams) >= self._most_streams:
            await close_connection(writer, gently=False)
            return
        if self._highest == LAST_STREAM:
            self.drop("the line has used up its numbers for streams")
        self._highest += 1
        stream = self._add(self._highest)
        try:
            await self._send(Frame(Kind.OPEN, stream.number))
            await stream.carry(reader, writer)
        except LineDropped:
            await close_connection(writer, gently=False)
        finally:
            self._forget(stream)

    def _add(self, number: int) -> Stream:
        stream = Stream(number, self._send, self._grant)
        self._streams[number] = stream
        return stream

    def _forget(self, stream: Stream) -> None:
        self._streams.pop(stream.number, None)
        self._due_credit.pop(stream.number, None)

    # Sending

    async def _send(self, frame: Frame) -> None:
        """Whoever asks first is served first: no stream can keep the others from the line."""
        if self._is_over:
            raise LineDropped("the line is over")
        async with self._sending:
            await self._socket.send_bytes(frame.encode())

    def _grant(self, number: int, count: int) -> None:
        self._due_credit[number] = self._due_credit.get(number, 0) + count
        self._due.set()

    def _tell(self, frame: Frame) -> None:
        """Raises Misuse when the other end does not take what it is told."""
        if len(self._due_now) >= MOST_RESETS:
            raise Misuse("the other end asks for more than it takes")
        self._due_now.append(frame)
        self._due.set()

    async def _send_due(self) -> str:
        try:
            while True:
                await self._due.wait()
                self._due.clear()
                if self._due_pong is not None:
                    pong, self._due_pong = self._due_pong, None
                    await self._send(Frame(Kind.PONG, 0, pong))
                while self._due_credit:
                    number = next(iter(self._due_credit))
                    await self._send(credit_frame(number, self._due_credit.pop(number)))
                while self._due_now:
                    await self._send(self._due_now.popleft())
        except LineDropped as error:
            return str(error)

    async def _watch(self) -> str:
        """Notice that the other end is gone though nobody has said so."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + self._ping_seconds
            await asyncio.sleep(self._ping_seconds)
            # While this process itself was stopped it could hear nobody.
            self._heard_at += max(0.0, loop.time() - due)
            silence = loop.time() - self._heard_at
            if silence > self._silence_seconds:
                return f"nothing was heard from the other end for {silence:.0f} s"
            # One at a time: a line that is slow has enough to do.
            if not any(frame.kind is Kind.PING for frame in self._due_now):
                self._tell(Frame(Kind.PING))

    # Receiving

    async def _receive(self) -> str:
        loop = asyncio.get_running_loop()
        try:
            while True:
                frame = decode_frame(await self._socket.receive_bytes())
                self._heard_at = loop.time()
                self._heard.set()
                self._take(frame)
        except Misuse:
            raise
        except Dismissed as error:
            self.is_dismissed = True
            return str(error)
        except LineDropped as error:
            return str(error)

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.PING:
                self._due_pong = frame.payload[:64]
                self._due.set()
            case Kind.PONG:
                pass
            case Kind.OPEN if self._connect is not None:
                self._take_open(frame.stream, self._connect)
            case Kind.DISMISS if self._connect is not None:
                raise Dismissed("the server has removed this worker")
            case Kind.DATA | Kind.FINISH | Kind.RESET | Kind.CREDIT:
                self._take_for_stream(frame)
            case _:
                raise Misuse(f"the other end sent {frame.kind.name} where it has no place")

    def _take_open(self, number: int, connect: Connect) -> None:
        if number <= self._highest:
            raise Misuse("the other end opened a stream under a number that was used before")
        self._highest = number
        if len(self._streams) >= self._most_streams:
            self._tell(Frame(Kind.RESET, number, b"too many streams"))
            return
        task = asyncio.create_task(self._answer(self._add(number), connect), name=f"join-{number}")
        self._joins.add(task)
        task.add_done_callback(self._joins.discard)

    def _take_for_stream(self, frame: Frame) -> None:
        stream = self._streams.get(frame.stream)
        if stream is None:
            if not 0 < frame.stream <= self._highest:
                raise Misuse("the other end spoke of a stream that there never was")
            return  # it ended here while this was under way
        match frame.kind:
            case Kind.DATA:
                stream.take_data(frame.payload)
            case Kind.CREDIT:
                stream.take_credit(read_credit(frame))
            case Kind.FINISH:
                stream.take_finish()
            case _:
                stream.take_reset()

    async def _answer(self, stream: Stream, connect: Connect) -> None:
        """The agent's end of a stream: connect it, then carry."""
        try:
            await stream.carry(*await connect())
        except OSError as error:
            with contextlib.suppress(LineDropped):
                await self._send(Frame(Kind.RESET, stream.number, str(error).encode()[:500]))
        finally:
            self._forget(stream)

    async def _end_streams(self) -> None:
        for stream in self._streams.values():
            stream.take_reset()
        for task in self._joins:
            task.cancel()
        await asyncio.gather(*self._joins, return_exceptions=True)
