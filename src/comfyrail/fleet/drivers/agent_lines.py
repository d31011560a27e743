"""The server's end of the lines of agents: who is connected, and where each is reached."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping

import msgspec
import structlog

from comfyrail import __version__
from comfyrail.errors import ComfyrailError, WorkerUnreachable
from comfyrail.fleet.drivers.agent_frames import (
    GREETING_SECONDS,
    MOST_STREAMS,
    PING_SECONDS,
    PROTOCOL,
    SILENCE_SECONDS,
    Frame,
    Hello,
    Kind,
    LineDropped,
    Misuse,
    Refusal,
    Socket,
    Welcome,
    decode_frame,
    labels_fault,
    name_fault,
)
from comfyrail.fleet.drivers.agent_line import Line
from comfyrail.fleet.drivers.agent_stream import close_connection

PROBE_SECONDS = 5.0
CLOSE_SECONDS = 5.0
MOST_AGENTS = 1000
MOST_GREETINGS = 64
"""Lines at once that have not said yet who they are."""

OnNew = Callable[[str, Mapping[str, str]], Awaitable[None]]
"""Called with an agent's name and labels each time that it connects, before it is welcome. It adds
the worker where there is none of that name. A ComfyrailError of it becomes the agent's refusal."""

log = structlog.get_logger(__name__)


class AgentPort:
    """Where this server reaches one agent's ComfyUI: a listener on 127.0.0.1, while it is wanted.

    It stays while the agent's line comes and goes, so that a short loss of the line is a silence of
    the worker and not its end. Connections that come while there is no line are closed at once.
    """

    def __init__(self) -> None:
        self.line: Line | None = None
        self.instance = ""
        self.path = ""
        self.why_gone = "it has not dialed yet"
        self.waiting = 0
        """Hosts that wait for its line to come or to go."""
        self.takeover = asyncio.Lock()
        self.changed = asyncio.Condition()
        self._listener: asyncio.Server | None = None
        self._joins: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self._listener is not None  # noqa: S101 - opened before anyone can ask
        return f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}{self.path}"

    async def open(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(self._take, "127.0.0.1", 0, backlog=128)

    @contextlib.contextmanager
    def awaited(self) -> Iterator[None]:
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    async def set_line(self, line: Line | None, why_gone: str = "") -> None:
        self.line = line
        self.why_gone = why_gone
        async with self.changed:
            self.changed.notify_all()

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self.line is not None:
            self.line.hang_up()
        if self._joins:
            await asyncio.wait(self._joins, timeout=CLOSE_SECONDS)

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._join(reader, writer), name="agent-connection")
        self._joins.add(task)
        task.add_done_callback(self._joins.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.line is None:
            await close_connection(writer, gently=False)
        else:
            await self.line.join(reader, writer)


class AgentLines:
    """Every agent of this server by its name. In `HostContext.agents`."""

    def __init__(
        self,
        on_new: OnNew | None = None,
        *,
        most_agents: int = MOST_AGENTS,
        most_streams: int = MOST_STREAMS,
        greeting_seconds: float = GREETING_SECONDS,
        probe_seconds: float = PROBE_SECONDS,
        ping_seconds: float = PING_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self.on_new = on_new
        self._most_agents = most_agents
        self._most_streams = most_streams
        self._greeting_seconds = greeting_seconds
        self._probe_seconds = probe_seconds
        self._ping_seconds = ping_seconds
        self._silence_seconds = silence_seconds
        self._ports: dict[str, AgentPort] = {}
        self._greetings = 0
        self._is_closed = False

    def names(self) -> list[str]:
        """The agents that are connected now."""
        return sorted(name for name, port in self._ports.items() if port.line is not None)

    def line(self, name: str) -> Line | None:
        port = self._ports.get(name)
        return None if port is None else port.line

    async def wait_connected(self, name: str, seconds: float) -> str:
        """Where the agent's ComfyUI is reached. Raises WorkerUnreachable when it does not come."""
        port = self._port(name)
        try:
            with port.awaited():
                async with asyncio.timeout(seconds), port.changed:
                    await port.changed.wait_for(lambda: port.line is not None)
        except TimeoutError as error:
            raise WorkerUnreachable(
                f"The agent {name} is not connected: {port.why_gone}. Start it on its machine "
                "with: comfyrail agent --server URL --comfyui URL --name " + name,
                code="AGENT_NOT_CONNECTED",
            ) from error
        await port.open()
        return port.url

    async def wait_gone(self, name: str, grace_seconds: float) -> str:
        """Return, with the cause, when the agent has had no line for so long."""
        port = self._port(name)
        with port.awaited():
            while True:
                async with port.changed:
                    await port.changed.wait_for(lambda: port.line is None)
                try:
                    async with asyncio.timeout(grace_seconds), port.changed:
                        await port.changed.wait_for(lambda: port.line is not None)
                except TimeoutError:
                    return f"the line of the agent {name} is gone: {port.why_gone}"

    async def close_port(self, name: str) -> None:
        """Its worker is not wanted for now: nobody gets through to it. The line stays, so that
        `wait_connected` has it back at once.
        """
        port = self._ports.get(name)
        if port is not None:
            await port.close()

    async def dismiss(self, name: str) -> None:
        """Its worker was removed: end its line and tell it not to come back by itself. An agent
        that is not sent away so is announced again with its next line.
        """
        port = self._ports.pop(name, None)
        if port is None:
            return
        if port.line is not None:
            await port.line.dismiss()
        await port.close()

    async def close(self) -> None:
        """The server stops. Agents try again until there is one."""
        self._is_closed = True
        for port in self._ports.values():
            if port.line is not None:
                port.line.drop("the server stops")
        await asyncio.gather(*(port.close() for port in self._ports.values()))

    async def accept(self, socket: Socket, peer: str = "") -> None:
        """Serve one line from its first message to its end. Whoever may not speak at all has been
        turned away before this.
        """
        if self._greetings >= MOST_GREETINGS or self._is_closed:
            await _refuse(socket, Refusal(code="BUSY", message="The server is busy. Try again."))
            return
        self._greetings += 1
        try:
            agreed = await self._greet(socket, peer)
        except LineDropped as error:
            log.info("agent_not_taken", peer=peer, reason=str(error))
            with contextlib.suppress(LineDropped):
                await socket.close(1002, str(error)[:100])
            return
        finally:
            self._greetings -= 1
        if isinstance(agreed, Refusal):
            log.warning("agent_refused", peer=peer, code=agreed.code, message=agreed.message)
            await _refuse(socket, agreed)
            return
        await self._serve(agreed, socket, peer)

    async def _greet(self, socket: Socket, peer: str) -> Hello | Refusal:
        try:
            async with asyncio.timeout(self._greeting_seconds):
                frame = decode_frame(await socket.receive_bytes())
        except TimeoutError as error:
            raise LineDropped("the agent did not say who it is") from error
        if frame.kind is not Kind.HELLO:
            raise Misuse("the agent did not begin with HELLO")
        try:
            hello = msgspec.json.decode(frame.payload, type=Hello)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if _protocol_of(frame.payload) not in {None, PROTOCOL}:
                return _other_protocol(_protocol_of(frame.payload))
            return Refusal(code="BAD_HELLO", message=f"The agent's greeting is wrong: {error}.")
        log.debug("agent_greets", peer=peer, name=hello.name)
        if hello.protocol != PROTOCOL:
            return _other_protocol(hello.protocol)
        fault = name_fault(hello.name) or labels_fault(hello.labels)
        return hello if fault is None else Refusal(code="BAD_NAME", message=fault)

    async def _serve(self, hello: Hello, socket: Socket, peer: str) -> None:
        if hello.name not in self._ports and not await self._make_room():
            message = f"The server has {self._most_agents} agents already, and takes no more."
            await _refuse(socket, Refusal(code="BUSY", message=message))
            return
        port = self._port(hello.name)
        line = Line(
            socket,
            most_streams=self._most_streams,
            ping_seconds=self._ping_seconds,
            silence_seconds=self._silence_seconds,
        )
        async with port.takeover:
            refusal = await self._take_over(port, hello) or await self._announce(hello)
            if refusal is not None:
                log.warning("agent_refused", peer=peer, code=refusal.code, message=refusal.message)
                await _refuse(socket, refusal)
                return
            welcome = msgspec.json.encode(Welcome(protocol=PROTOCOL, version=__version__))
            try:
                await socket.send_bytes(Frame(Kind.WELCOME, 0, welcome).encode())
            except LineDropped:
                return
            port.instance, port.path = hello.instance, hello.path
            await port.set_line(line)
        log.info("agent_connected", name=hello.name, peer=peer, version=hello.version)
        cause = "the server let go of it"
        try:
            cause = await line.run()
        finally:
            log.info("agent_gone", name=hello.name, peer=peer, cause=cause)
            if port.line is line:
                await port.set_line(None, cause)

    async def _take_over(self, port: AgentPort, hello: Hello) -> Refusal | None:
        """Make the name free: the older line goes if it is dead, or if it is the same agent's."""
        older = port.line
        if older is None:
            return None
        is_same = bool(hello.instance) and hello.instance == port.instance
        if not is_same and await older.answers(self._probe_seconds):
            return Refusal(
                code="NAME_TAKEN",
                message=f"Another agent with the name {hello.name} is connected and alive. "
                "Stop that one, or give this one another --name.",
            )
        older.drop("a newer line of the same agent took its place")
        await port.set_line(None, "a newer line took its place")
        return None

    async def _announce(self, hello: Hello) -> Refusal | None:
        if self.on_new is None:
            return None
        try:
            await self.on_new(hello.name, hello.labels)
        except ComfyrailError as error:
            return Refusal(code="NOT_TAKEN", message=error.message)
        except Exception:
            log.exception("agent_not_taken", name=hello.name)
            return Refusal(code="NOT_TAKEN", message="The server failed; its log says why.")
        return None

    def _port(self, name: str) -> AgentPort:
        return self._ports.setdefault(name, AgentPort())

    async def _make_room(self) -> bool:
        """Whether one more may come; those that are away the longest make way."""
        if len(self._ports) < self._most_agents:
            return True
        for name, port in self._ports.items():
            if port.line is None and not port.waiting:
                del self._ports[name]
                await port.close()
                return True
        return False


async def _refuse(socket: Socket, refusal: Refusal) -> None:
    with contextlib.suppress(LineDropped):
        await socket.send_bytes(Frame(Kind.REFUSE, 0, msgspec.json.encode(refusal)).encode())
        await socket.close(1008, refusal.code)


def _protocol_of(payload: bytes) -> int | None:
    """The version that a greeting names which is otherwise not understood."""
    try:
        said = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    found = said.get("protocol") if isinstance(said, dict) else None
    return found if isinstance(found, int) else None


def _other_protocol(said: int | None) -> Refusal:
    return Refusal(
        code="OTHER_PROTOCOL",
        message=f"The agent speaks version {said} of the line's protocol, this server "
        f"({__version__}) version {PROTOCOL}. Install the same comfyrail on both machines.",
    )
