"""The agent's side of its line: dial out to the server, and join its streams to one ComfyUI.

The server cannot reach anything else from here: where a stream leads is decided on this side, and
it is always the one host and port that the agent was started with.
"""

import asyncio
import random
import ssl
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import msgspec

from comfyrail import __version__
from comfyrail.errors import ConfigurationError
from comfyrail.fleet.drivers.agent_endpoint import PATH
from comfyrail.fleet.drivers.agent_frames import (
    GREETING_SECONDS,
    LARGEST_FRAME,
    PING_SECONDS,
    PROTOCOL,
    SILENCE_SECONDS,
    Frame,
    Hello,
    Kind,
    LineDropped,
    Refusal,
    decode_frame,
    labels_fault,
    name_fault,
)
from comfyrail.fleet.drivers.agent_line import Connection, Line
from comfyrail.fleet.drivers.agent_socket import AiohttpSocket

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 4.0
"""Short against a lease: a job goes on if its agent is back before that is over."""
STEADY_SECONDS = 10.0
"""A line that lasted so long was a good one: the next pause is short again."""
CONNECT_SECONDS = 5.0

_WEB_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_MENDED_BY_PEOPLE = {"OTHER_PROTOCOL", "BAD_HELLO", "BAD_NAME"}


class Refused(Exception):
    """The server answers, and does not take this agent. `is_final`: trying again is of no use."""

    def __init__(self, message: str, *, is_final: bool) -> None:
        super().__init__(message)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class ComfyAddress:
    host: str
    port: int
    is_secure: bool
    path: str

    @property
    def url(self) -> str:
        return f"{'https' if self.is_secure else 'http'}://{self.host}:{self.port}{self.path}"


@dataclass(frozen=True, slots=True)
class AgentOptions:
    server: str
    comfyui: ComfyAddress
    name: str
    token: str
    labels: Mapping[str, str] = field(default_factory=dict)
    first_pause: float = FIRST_PAUSE_SECONDS
    longest_pause: float = LONGEST_PAUSE_SECONDS
    ping_seconds: float = PING_SECONDS
    silence_seconds: float = SILENCE_SECONDS


class AgentDialer:
    """Keeps one line to the server. `say` gets a sentence for people about whatever happens."""

    def __init__(self, options: AgentOptions, say: Callable[[str], None]) -> None:
        self._options = options
        self._say = say
        self._instance = uuid.uuid4().hex
        self._was_connected = False
        self._comfyui_is_away = False
        self._last_said = ""

    async def run(self) -> None:
        """Dial until cancelled, or until the server has removed this worker.

        Raises ConfigurationError when the server refuses at the first time what only a person can
        mend; later the same is tried again, as the server may be the one to be mended.
        """
        pause = self._options.first_pause
        loop = asyncio.get_running_loop()
        async with aiohttp.ClientSession(trust_env=True) as http:
            while True:
                began = loop.time()
                try:
                    line, cause = await self._hold_line(http)
                    if line.is_dismissed:
                        self._say(
                            "The server has removed this worker. Start the agent again "
                            "to bring it back."
                        )
                        return
                    self._tell(f"The line to {self._options.server} is gone: {cause}.")
                except Refused as error:
                    if error.is_final and not self._was_connected:
                        raise ConfigurationError(str(error), code="AGENT_REFUSED") from error
                    self._tell(str(error))
                    pause = self._options.longest_pause if error.is_final else pause
                if loop.time() - began > STEADY_SECONDS:
                    pause = self._options.first_pause
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spread
                pause = min(2 * pause, self._options.longest_pause)

    async def _hold_line(self, http: aiohttp.ClientSession) -> tuple[Line, str]:
        """One line from its beginning to its end. Raises Refused."""
        socket = AiohttpSocket(await self._dial(http))
        try:
            await self._greet(socket)
        except LineDropped as error:
            await socket.close()
            raise Refused(f"{self._options.server}: {error}.", is_final=False) from error
        except BaseException:
            await socket.close()
            raise
        line = Line(
            socket,
            self._connect,
            ping_seconds=self._options.ping_seconds,
            silence_seconds=self._options.silence_seconds,
        )
        self._was_connected = True
        self._last_said = ""
        self._say(
            f"Connected to {self._options.server} as {self._options.name}: "
            f"jobs go to {self._options.comfyui.url}."
        )
        return line, await line.run()

    async def _dial(self, http: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
        server = self._options.server
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await http.ws_connect(
                    server_socket_url(server),
                    headers={"Authorization": f"Bearer {self._options.token}"},
                    max_msg_size=LARGEST_FRAME,
                    compress=0,
                    timeout=aiohttp.ClientWSTimeout(ws_close=2.0),
                )
        except aiohttp.WSServerHandshakeError as error:
            raise _refused_handshake(server, error.status) from error
        except (aiohttp.ClientConnectorCertificateError, ssl.SSLError) as error:
            raise Refused(
                f"The certificate of {server} is not trusted: {error}. If it is signed by an "
                "authority of your own, name its file in SSL_CERT_FILE.",
                is_final=True,
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            why = str(error) or "it took too long"
            raise Refused(
                f"The server {server} cannot be reached: {why}. Trying again.", is_final=False
            ) from error

    async def _greet(self, socket: AiohttpSocket) -> None:
        hello = Hello(
            protocol=PROTOCOL,
            name=self._options.name,
            version=__version__,
            instance=self._instance,
            labels=dict(self._options.labels),
            path=self._options.comfyui.path,
        )
        await socket.send_bytes(Frame(Kind.HELLO, 0, msgspec.json.encode(hello)).encode())
        try:
            async with asyncio.timeout(3 * GREETING_SECONDS):
                frame = decode_frame(await socket.receive_bytes())
        except TimeoutError as error:
            raise LineDropped("the server does not answer the greeting") from error
        if frame.kind is Kind.WELCOME:
            return
        try:
            refusal = msgspec.json.decode(frame.payload, type=Refusal)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LineDropped("the server does not answer like a Comfyrail server") from error
        message = "".join(each for each in refusal.message[:1000] if each.isprintable())
        raise Refused(message, is_final=refusal.code in _MENDED_BY_PEOPLE)

    async def _connect(self) -> Connection:
        """A connection to the ComfyUI. Raises OSError."""
        address = self._options.comfyui
        context = ssl.create_default_context() if address.is_secure else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = await asyncio.open_connection(
                    address.host, address.port, ssl=context, limit=64 << 10
                )
        except OSError as error:
            if not self._comfyui_is_away:
                self._comfyui_is_away = True
                self._say(f"{address.url} does not answer: {error}. Is ComfyUI running there?")
            raise
        if self._comfyui_is_away:
            self._comfyui_is_away = False
            self._say(f"{address.url} answers again.")
        return connection

    def _tell(self, sentence: str) -> None:
        """The same trouble again and again is said once."""
        if sentence != self._last_said:
            self._last_said = sentence
            self._say(sentence)


def server_socket_url(server: str) -> str:
    """Where agents come in at a server. Raises ConfigurationError for what is no address."""
    text = server.strip()
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        is_usable = parts.scheme in _WEB_SCHEMES and parts.hostname and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or parts.username or parts.query or parts.fragment:
        raise ConfigurationError(
            f"{server!r} is not the address of a server. Give it like https://comfy.example.org "
            "or ws://10.0.0.5:8081.",
            code="INVALID_SERVER_URL",
        )
    path = parts.path.rstrip("/")
    path = path if path.endswith(PATH) else path + PATH
    return urlunsplit((_WEB_SCHEMES[parts.scheme], parts.netloc, path, "", ""))


def is_exposed(server: str) -> bool:
    """Whether the token would cross a network that anyone on it can read."""
    parts = urlsplit(server_socket_url(server))
    return parts.scheme == "ws" and parts.hostname not in {"127.0.0.1", "localhost", "::1"}


def comfy_address(url: str) -> ComfyAddress:
    """Raises ConfigurationError for what is no address of a ComfyUI."""
    text = url.strip()
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        is_usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or parts.username or parts.query or parts.fragment:
        raise ConfigurationError(
            f"{url!r} is not the address of a ComfyUI. Give it like http://127.0.0.1:8188.",
            code="INVALID_COMFYUI_URL",
        )
    is_secure = parts.scheme == "https"
    host = str(parts.hostname)
    port = parts.port or (443 if is_secure else 80)
    return ComfyAddress(host, port, is_secure, parts.path.rstrip("/"))


def check_identity(name: str, labels: Mapping[str, str]) -> None:
    """Raises ConfigurationError for a name or labels that no server would take."""
    fault = name_fault(name) or labels_fault(labels)
    if fault is not None:
        raise ConfigurationError(fault, code="INVALID_AGENT_NAME")


def _refused_handshake(server: str, status: int) -> Refused:
    if status == 401:
        return Refused(
            f"{server} does not accept the token (401). It must be the server's agent_token: "
            "give it as COMFYRAIL_AGENT_TOKEN.",
            is_final=True,
        )
    if status in {403, 404, 405, 426}:
        return Refused(
            f"{server} takes no agents there ({status}). Is it the address of the agents' "
            "listener (agent_host, agent_port), and not that of the API?",
            is_final=True,
        )
    return Refused(f"{server} answered {status}. Trying again.", is_final=False)
