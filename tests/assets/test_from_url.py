"""Files by URL: from allowed domains and public addresses alone, however they redirect [10.8]."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from comfyrail.errors import PayloadTooLarge, RequestError
from comfyrail.usecases.asset_intake import UploadRules
from comfyrail.validation.policy import SecurityPolicy
from tests.assets.parts import ANN, Kit, asset_kit, png
from tests.network.parts import PRIVATE, PUBLIC, site

POLICY = SecurityPolicy(allowed_domains=(PUBLIC,))


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with asset_kit(tmp_path, UploadRules(max_bytes=1 << 20), POLICY) as made:
        yield made


async def code_of(kit: Kit, url: str) -> str:
    with pytest.raises(RequestError) as caught:
        await kit.assets.from_url(ANN, url)
    assert "secret" not in caught.value.message
    assert not (await kit.assets.list(ANN, None, 10)).assets
    assert not kit.blobs.has_in_hand
    return caught.value.code


def _moved_to(place: str) -> web.Response:
    return web.Response(status=302, headers={"Location": place})


PAGES = {
    "/photo.png": lambda: web.Response(body=png(), content_type="image/png"),
    "/moved": lambda: _moved_to("/photo.png"),
    "/inside": lambda: _moved_to(f"http://{PRIVATE}/x"),
    "/round": lambda: _moved_to("/round"),
    "/page.png": lambda: web.Response(text="<html>", content_type="text/html"),
    "/large.png": lambda: web.Response(body=png() + bytes(2 << 20), content_type="image/png"),
    "/nothing": lambda: web.Response(status=404),
}


async def answer(request: web.Request) -> web.StreamResponse:
    if request.path != "/short.png":
        return PAGES[request.path]()
    reply = web.StreamResponse(headers={"Content-Length": "1000"})
    await reply.prepare(request)
    await reply.write(png()[:50])
    assert request.transport is not None
    request.transport.close()
    return reply


async def test_a_file_is_fetched_and_named_after_its_url(kit: Kit) -> None:
    async with site(answer) as web_site:
        for path in ("/photo.png?secret=1", "/moved"):
            received = await kit.assets.from_url(ANN, web_site.url(PUBLIC, path))
            assert received.asset.name == "photo.png"
            assert await kit.bytes_of(received.asset) == png()
        named = await kit.assets.from_url(ANN, web_site.url(PUBLIC, "/photo.png"), name="b.png")
        assert named.asset.name == "b.png"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/nothing?secret", "URL_UNREACHABLE"),
        ("/inside", "ADDRESS_REFUSED"),
        ("/round", "URL_UNREACHABLE"),
        ("/page.png", "CONTENT_TYPE_REFUSED"),
        ("/large.png", "FILE_TOO_LARGE"),
        ("/short.png", "URL_UNREACHABLE"),
    ],
)
async def test_what_cannot_be_had_is_told(kit: Kit, path: str, code: str) -> None:
    async with site(answer) as web_site:
        assert await code_of(kit, web_site.url(PUBLIC, path)) == code


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/x.png?secret",
        f"http://{PRIVATE}:80/x.png",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "ftp://127.0.0.2/x",
        "http://user:secret@127.0.0.2/x",
        "not a url",
        "",
    ],
)
async def test_addresses_that_are_not_allowed_are_not_asked(kit: Kit, url: str) -> None:
    assert await code_of(kit, url) == "UNAUTHORIZED_DOMAIN"


async def test_without_allowed_domains_nothing_is_fetched(tmp_path: Path) -> None:
    async with asset_kit(tmp_path / "other") as kit:
        with pytest.raises(RequestError, match="COMFYRAIL_ALLOWED_DOMAINS") as caught:
            await kit.assets.from_url(ANN, "https://example.com/x.png")
        assert caught.value.code == "UNAUTHORIZED_DOMAIN"


async def test_the_limit_is_told_as_that_of_any_file(kit: Kit) -> None:
    async with site(answer) as web_site:
        with pytest.raises(PayloadTooLarge):
            await kit.assets.from_url(ANN, web_site.url(PUBLIC, "/large.png"))
