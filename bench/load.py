"""A load generator: keep-alive connections that send one prepared request after the other."""

import asyncio
import time
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Load:
    """What came of it: requests a second, and latencies in milliseconds."""

    per_second: float
    median: float
    p99: float

    def __str__(self) -> str:
        return f"{self.per_second:8.0f}/s   p50 {self.median:6.2f} ms   p99 {self.p99:6.2f} ms"


async def send(url: str, body: bytes, *, connections: int, count: int) -> Load:
    """POST the body `count` times; every reply must be a 2xx."""
    parts = urlsplit(url)
    request = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    left = iter(range(count))
    latencies: list[float] = []

    async def one_connection() -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        for _ in left:
            began = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 2"):
                raise RuntimeError(head.decode())
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            await reader.readexactly(length)
            latencies.append((time.perf_counter() - began) * 1000)
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one_connection() for _ in range(connections)))
    seconds = time.perf_counter() - began
    latencies.sort()
    return Load(
        count / seconds, latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100]
    )
