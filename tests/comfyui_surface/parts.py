"""A client of ComfyUI as people write it: urllib, websocket-client, and nothing of ours."""

import json
import uuid
from typing import Any, Self
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import websocket

Graph = dict[str, dict[str, Any]]
BOUNDARY = "----comfyrail-test"


class Script:
    """Speaks to a ComfyUI at an address; `prefix` is /api or nothing."""

    def __init__(self, url: str, prefix: str = "", key: str | None = None) -> None:
        self.address = url.removeprefix("http://")
        self.prefix = prefix
        self.client_id = str(uuid.uuid4())
        self.headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    def get(self, path: str) -> Any:
        return json.loads(self.fetch(path)[1])

    def fetch(self, path: str, data: bytes | None = None, **options: Any) -> tuple[int, bytes]:
        url = f"http://{self.address}{self.prefix}{path}"
        headers = {**self.headers, **options.pop("headers", {})}
        request = Request(url, data, headers, **options)
        try:
            with urlopen(request, timeout=30) as reply:
                return reply.status, reply.read()
        except HTTPError as error:
            with error:
                return error.code, error.read()

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        """Without a content type of its own, as the published scripts do."""
        status, content = self.fetch(path, json.dumps(body).encode())
        return status, json.loads(content) if content else None

    def queue(self, prompt: Graph, **fields: Any) -> Any:
        status, body = self.post(
            "/prompt", {"prompt": prompt, "client_id": self.client_id, **fields}
        )
        assert status == 200, body
        return body

    def connect(self, client_id: str | None = None, **options: Any) -> "Socket":
        socket = websocket.WebSocket()
        name = self.client_id if client_id is None else client_id
        query = f"?clientId={quote(name)}" if name else ""
        headers = [f"{key}: {value}" for key, value in self.headers.items()]
        socket.connect(  # type: ignore[no-untyped-call] # it has no types
            f"ws://{self.address}{self.prefix}/ws{query}", timeout=30, header=headers, **options
        )
        return Socket(socket)

    def view(self, file: dict[str, str], **query: str) -> bytes:
        status, content = self.fetch("/view?" + urlencode({**file, **query}))
        assert status == 200, content[:500]
        return content

    def upload(
        self, content: bytes, name: str, path: str = "/upload/image", **fields: str
    ) -> tuple[int, Any]:
        parts = [_file_part(name, content)]
        parts += [_text_part(key, value) for key, value in fields.items()]
        body = b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()
        headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        status, reply = self.fetch(path, body, headers=headers)
        return status, json.loads(reply)


class Socket:
    def __init__(self, socket: websocket.WebSocket) -> None:
        self.raw = socket

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.raw.close()

    def next(self) -> Any:
        """A text message as JSON, or the bytes of another."""
        message = self.raw.recv()
        return json.loads(message) if isinstance(message, str) else message

    def until_over(self, prompt_id: str) -> list[Any]:
        """All messages up to the one that says that the prompt is over, with it."""
        found = []
        while True:
            message = self.next()
            found.append(message)
            if is_over(message, prompt_id):
                return found

    def until(self, kind: str) -> list[Any]:
        found = []
        while True:
            message = self.next()
            found.append(message)
            if isinstance(message, dict) and message["type"] == kind:
                return found


def is_over(message: Any, prompt_id: str) -> bool:
    return (
        isinstance(message, dict)
        and message["type"] == "executing"
        and message["data"]["node"] is None
        and message["data"]["prompt_id"] == prompt_id
    )


def kinds(messages: list[Any]) -> list[str]:
    return [each["type"] if isinstance(each, dict) else "binary" for each in messages]


def _file_part(name: str, content: bytes) -> bytes:
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="image"; filename="{name}"\r\n'
        "Content-Type: image/png\r\n\r\n"
    )
    return head.encode() + content + b"\r\n"


def _text_part(name: str, value: str) -> bytes:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
    return head.encode() + value.encode() + b"\r\n"
