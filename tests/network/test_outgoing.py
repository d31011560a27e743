"""Requests to addresses that users chose reach public ones only, and cost little [2.3]."""

import asyncio
import contextlib
import gzip
import ssl
from ipaddress import ip_network
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from comfyrail.errors import AddressRefused, OutgoingError, ResponseTooLarge
from comfyrail.network.outgoing import OutgoingHttp, OutgoingLimits
from comfyrail.network.probe import HttpUrlProbe, UrlAnswer
from comfyrail.network.urls import without_secrets
from tests.engine.distributed.certificates import server_context
from tests.network.parts import (
    AS_PUBLIC,
    PRIVATE,
    PUBLIC,
    Handler,
    ScriptedResolver,
    picture,
    raw_site,
    site,
)

QUICK = OutgoingLimits(total_seconds=0.3, connect_seconds=0.2)


def client(
    resolver: aiohttp.abc.AbstractResolver | None = None, limits: OutgoingLimits | None = None
) -> OutgoingHttp:
    return OutgoingHttp(limits=limits, exceptions=AS_PUBLIC, resolver=resolver)


async def test_answer_of_a_public_host_comes_back() -> None:
    async with (
        site(picture) as server,
        client(ScriptedResolver(pictures_example=[[PUBLIC]])) as http,
    ):
        answer = await http.request("GET", server.url("pictures.example", "/a?b=c"))
    assert (answer.status, answer.body) == (200, b"PNG")
    assert answer.headers["content-type"] == "image/png"
    assert server.requests[0].headers["Host"] == f"pictures.example:{server.port}"


# Addresses


async def test_name_that_means_something_else_the_next_time_is_refused_then() -> None:
    resolver = ScriptedResolver(rebinding_example=[[PUBLIC], [PRIVATE]])
    async with (
        site(picture) as public,
        site(picture, PRIVATE, public.port) as secret,
        client(resolver) as http,
    ):
        url = public.url("rebinding.example")
        assert (await http.request("GET", url, headers={"Connection": "close"})).status == 200
        assert resolver.asked == ["rebinding.example"]
        with pytest.raises(AddressRefused) as caught:
            await http.request("GET", url)
    assert caught.value.reason == "private_address"
    assert PRIVATE not in caught.value.message
    assert len(public.requests) == 1
    assert secret.requests == []


@pytest.mark.parametrize(
    "answers",
    [
        [PRIVATE],
        [PUBLIC, PRIVATE],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["10.0.0.1", PUBLIC],
        ["169.254.169.254"],
        ["fe80::1%eth0"],
    ],
)
async def test_name_that_leads_to_a_private_address_is_refused(answers: list[str]) -> None:
    resolver = ScriptedResolver(sneaky_example=[answers])
    async with site(picture, PRIVATE) as secret, client(resolver) as http:
        with pytest.raises(AddressRefused):
            await http.request("GET", secret.url("sneaky.example"))
    assert secret.requests == []


@pytest.mark.parametrize(
    "host",
    [
        PRIVATE,
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "localhost",
        "LOCALHOST.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "printer",
        "x.internal",
    ],
)
async def test_private_hosts_are_refused_with_the_systems_own_resolver(host: str) -> None:
    async with site(picture, PRIVATE) as secret, client() as http:
        with pytest.raises(AddressRefused):
            await http.request("GET", secret.url(host))
    assert secret.requests == []


async def test_exception_is_reached_by_its_address() -> None:
    async with site(picture) as server, client() as http:
        assert (await http.request("GET", server.url(PUBLIC))).status == 200
        assert (await http.request("GET", server.url("0x7f.2"))).status == 200


async def test_unknown_name_and_silent_port_are_told_apart() -> None:
    async with site(picture) as server:
        closed = server.url(PUBLIC)
    async with client(ScriptedResolver()) as http:
        with pytest.raises(OutgoingError, match="name is not known"):
            await http.request("GET", "http://nobody.example/")
        with pytest.raises(OutgoingError, match="nothing answers"):
            await http.request("GET", closed)


# Redirects


def redirect_to(location: str, status: int = 302) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/end":
            return await picture(request)
        return web.Response(status=status, headers={"Location": location})

    return answer


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        (f"http://{PRIVATE}:1/", "private_address"),
        ("http://2130706433/", "private_address"),
        ("http://[::1]/", "private_address"),
        ("http://169.254.169.254/latest/meta-data", "private_address"),
        ("file:///etc/passwd", "scheme"),
        ("gopher://x/", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("http://user:pass@other.example/", "credentials"),
        ("http://forbidden.example/", "domain"),
        ("http://[", "malformed"),
    ],
)
async def test_every_hop_of_a_redirect_is_judged(location: str, reason: str) -> None:
    resolver = ScriptedResolver(forbidden_example=[[PUBLIC]])
    async with site(redirect_to(location)) as server, client(resolver) as http:
        with pytest.raises(AddressRefused) as caught:
            await http.request(
                "GET", server.url(PUBLIC), allows=lambda host: host != "forbidden.example"
            )
    assert caught.value.reason == reason
    assert len(server.requests) == 1


async def test_redirects_are_followed_a_few_times() -> None:
    async with site(redirect_to("/end")) as server, client() as http:
        answer = await http.request("GET", server.url(PUBLIC, "/start"))
    assert (answer.body, answer.url) == (b"PNG", server.url(PUBLIC, "/end"))
    async with site(redirect_to("/again")) as server, client() as http:
        with pytest.raises(OutgoingError, match="more than 5 times"):
            await http.request("GET", server.url(PUBLIC))
    assert len(server.requests) == 6


async def test_other_origins_do_not_get_secrets() -> None:
    resolver = ScriptedResolver(one_example=[[PUBLIC]], two_example=[[PUBLIC]])

    async def answer(request: web.Request) -> web.Response:
        if request.host.startswith("one."):
            target = f"http://two.example:{request.url.port}/"
            return web.Response(status=307, headers={"Location": target})
        return await picture(request)

    async with site(answer) as server, client(resolver) as http:
        headers = {"Authorization": "Bearer x", "X-Signature": "y", "Accept": "image/*"}
        await http.request("GET", server.url("one.example"), headers=headers)
    first, second = server.requests
    assert first.headers["Authorization"] == "Bearer x"
    assert "Authorization" not in second.headers
    assert "X-Signature" not in second.headers
    assert second.headers["Accept"] == "image/*"


async def test_request_with_a_body_is_not_redirected() -> None:
    async with site(redirect_to("/end", 307)) as server, client() as http:
        answer = await http.request("POST", server.url(PUBLIC), body=b"event")
    assert answer.status == 307
    assert len(server.requests) == 1


# Certificates


async def test_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    tls = server_context(tmp_path)
    async with site(picture, ssl_context=tls) as server, client() as http:
        with pytest.raises(OutgoingError) as caught:
            await http.request("GET", f"https://{PUBLIC}:{server.port}/")
    assert caught.value.reason == "certificate"


async def test_redirect_from_https_to_http_is_refused(tmp_path: Path) -> None:
    server_tls = server_context(tmp_path)
    # The certificate is for 127.0.0.1, so that this address is the exception here.
    trusting = ssl.create_default_context(cafile=tmp_path / "ca.crt")
    async with (
        site(redirect_to("http://other.example/"), PRIVATE, ssl_context=server_tls) as server,
        OutgoingHttp(
            exceptions=[*AS_PUBLIC, ip_network(PRIVATE)],
            tls=trusting,
            resolver=ScriptedResolver(other_example=[[PUBLIC]]),
        ) as http,
    ):
        with pytest.raises(OutgoingError, match="from https to http"):
            await http.request("GET", f"https://{PRIVATE}:{server.port}/")


# Time and size


async def test_server_that_says_nothing_is_given_up() -> None:
    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_site(hang) as server, client(limits=QUICK) as http:
        with pytest.raises(OutgoingError) as caught:
            await http.request("GET", server.url(PUBLIC))
    assert caught.value.reason == "timeout"


async def test_server_that_trickles_is_given_up() -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not reader.at_eof():
            writer.write(b"x")
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(), 0.02)

    async with raw_site(trickle) as server, client(limits=QUICK) as http:
        with pytest.raises(OutgoingError) as caught:
            await http.request("GET", server.url(PUBLIC))
    assert caught.value.reason == "timeout"


async def test_huge_reply_is_not_read_to_its_end() -> None:
    sent = 0

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async with raw_site(flood) as server, client() as http:
        with pytest.raises(ResponseTooLarge):
            await http.request("GET", server.url(PUBLIC))
        sample = await http.request("GET", server.url(PUBLIC), read_at_most=512)
    assert len(sample.body) == 512
    assert sent < 100_000_000


async def test_compressed_reply_is_not_unpacked() -> None:
    bomb = gzip.compress(b"\0" * 10_000_000)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    async with site(answer) as server, client() as http:
        assert (await http.request("GET", server.url(PUBLIC))).body == bomb


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"", "the connection breaks off"),
        (b"nonsense\xff\r\n\r\n", "its reply is not what HTTP allows"),
        (
            b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
            "its reply is not what HTTP allows",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
            "its reply is not what HTTP allows",
        ),
        # Which of the two is a matter of what has arrived when it is read.
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "its reply "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", "its reply breaks off"),
    ],
)
async def test_reply_that_makes_no_sense_is_an_error_in_plain_words(
    reply: bytes, reason: str
) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)
        await writer.drain()

    async with raw_site(answer) as server, client() as http:
        with pytest.raises(OutgoingError) as caught:
            await http.request("GET", server.url(PUBLIC))
    assert caught.value.message.startswith(f"It cannot be reached: {reason}")


@pytest.mark.parametrize(
    "headers",
    [
        {"X-A": "b\r\nX-Evil: 1"},
        {"X-A": "b\nc"},
        {"X-A\r\nX-Evil": "1"},
        {"X A": "b"},
        {"": "b"},
        {"X-A": "b\x00"},
    ],
)
async def test_headers_cannot_begin_others(headers: dict[str, str]) -> None:
    async with site(picture) as server, client() as http:
        with pytest.raises(AddressRefused):
            await http.request("GET", server.url(PUBLIC), headers=headers)
    assert server.requests == []


async def test_proxies_and_passwords_of_the_surroundings_are_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text(f"machine {PUBLIC} login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://{PRIVATE}:1/")
    async with site(picture) as server, client() as http:
        assert (await http.request("GET", server.url(PUBLIC))).status == 200
    assert "Authorization" not in server.requests[0].headers


# The probe


def anyone(_: str) -> bool:
    return True


async def test_probe_asks_for_the_head_first() -> None:
    async with site(picture) as server, client() as http:
        answer = await HttpUrlProbe(http).probe(server.url(PUBLIC), anyone)
    assert answer == UrlAnswer(200, "image/png", server.url(PUBLIC))
    assert [request.method for request in server.requests] == ["HEAD"]


async def test_probe_asks_for_a_few_bytes_where_there_is_no_head() -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.method == "HEAD":
            return web.Response(status=405)
        headers = {"Content-Range": "bytes 0-511/123456", "Content-Type": "Video/MP4; x=y"}
        return web.Response(status=206, body=b"x" * 512, headers=headers)

    async with site(answer) as server, client() as http:
        found = await HttpUrlProbe(http).probe(server.url(PUBLIC), anyone)
    assert (found.status, found.content_type) == (206, "video/mp4")
    assert server.requests[1].headers["Range"] == "bytes=0-511"


async def test_probe_does_not_read_what_is_sent_without_being_asked_for() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "HEAD":
            return web.Response(status=404)
        return web.Response(body=b"x" * 20_000_000, content_type="image/png")

    async with site(answer) as server, client() as http:
        found = await HttpUrlProbe(http).probe(server.url(PUBLIC), anyone)
    assert (found.status, found.content_type) == (200, "image/png")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://example.com/x.png", "https://example.com/x.png"),
        ("https://example.com:8080/@user/x", "https://example.com:8080/@user/x"),
        ("https://a:b@example.com/x", "https://…@example.com/x"),
        ("https://a:b/c@example.com/x", "https://…@example.com/x"),
        ("a:b@example.com", "…@example.com"),
        ("https://example.com/x?token=y#z", "https://example.com/x?…"),
        ("https://[::1]:80/x", "https://[::1]:80/x"),
        ("", ""),
    ],
)
def test_url_is_told_without_its_secrets(url: str, told: str) -> None:
    assert without_secrets(url) == told
