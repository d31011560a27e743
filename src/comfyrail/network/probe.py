"""Whether a URL can be reached, and what it would give."""

from dataclasses import dataclass

from comfyrail.network.outgoing import AllowsHost, OutgoingHttp, OutgoingResponse

SAMPLE_BYTES = 512


@dataclass(frozen=True, slots=True)
class UrlAnswer:
    """What a server said of a URL. `content_type` is without parameters, in lower case."""

    status: int
    content_type: str | None
    url: str
    """The URL of the last redirect."""


class HttpUrlProbe:
    """Asks for the head of a URL, or where a server does not give that, for a few bytes."""

    def __init__(self, http: OutgoingHttp) -> None:
        self._http = http

    async def probe(self, url: str, allows: AllowsHost) -> UrlAnswer:
        """Raises AddressRefused or OutgoingError."""
        response = await self._http.request("HEAD", url, allows=allows)
        if response.status >= 400 or "content-type" not in response.headers:
            response = await self._http.request(
                "GET",
                url,
                headers={"Range": f"bytes=0-{SAMPLE_BYTES - 1}"},
                allows=allows,
                read_at_most=SAMPLE_BYTES,
            )
        return _answer(response)


def _answer(response: OutgoingResponse) -> UrlAnswer:
    content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return UrlAnswer(response.status, content_type or None, response.url)
