"""The blob store in object storage, and what may happen to it [8.1]: a real S3 server."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from comfyrail.errors import ConfigurationError, StorageFull, StoreUnavailable
from comfyrail.faultlab.proxy import LineProxy, proxy_to
from comfyrail.results.object_blobs import ObjectBlobStore, probe
from comfyrail.results.object_location import open_location
from tests.mounts import small_disk
from tests.results.parts import (
    Bucket,
    chunks,
    content_of,
    files_in,
    in_pieces,
    key_for,
    read,
)
from tests.services.seaweed import SECRET_KEY

LARGE = 24 << 20


@pytest.fixture
async def line(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LineProxy]:
    """Stores that are opened now are behind it; the bucket itself is not."""
    port = urlsplit(bucket.endpoint).port
    assert port is not None
    async with proxy_to(port) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


async def wait_for_bytes(line: LineProxy, count: int) -> None:
    start = line.carried
    async with asyncio.timeout(20):
        while line.carried < start + count:  # noqa: ASYNC110 - another loop's business
            await asyncio.sleep(0.005)


async def test_storage_that_goes_away_in_the_middle_of_an_upload_and_comes_back_has_all_of_it(
    bucket: Bucket, line: LineProxy, tmp_path: Path
) -> None:
    content = content_of(LARGE)
    blobs = bucket.store(tmp_path)
    line.slow_down(0.002)
    saving = asyncio.create_task(blobs.save(in_pieces(content)))
    await wait_for_bytes(line, 4 << 20)
    line.go_away()
    async with asyncio.timeout(20):
        while line.refused < 3:  # noqa: ASYNC110 - another loop's business
            await asyncio.sleep(0.01)
    assert bucket.names() == set()
    line.slow_down(0)
    line.come_back()
    blob = await saving
    assert bucket.names() == {blob.key}
    assert await asyncio.to_thread(bucket.get, blob.key) == content
    await blobs.close()


async def test_storage_that_stays_away_is_given_up_and_nothing_is_left(
    bucket: Bucket, line: LineProxy, tmp_path: Path
) -> None:
    blobs = bucket.store(tmp_path, patience=1.0)
    line.slow_down(0.002)
    saving = asyncio.create_task(blobs.save(in_pieces(content_of(LARGE))))
    await wait_for_bytes(line, 4 << 20)
    line.go_away()
    with pytest.raises(StoreUnavailable) as caught:
        await asyncio.wait_for(saving, 40)
    assert caught.value.retry_after
    assert SECRET_KEY not in caught.value.message
    assert files_in(tmp_path) == []
    assert not blobs.has_in_hand
    with pytest.raises(StoreUnavailable):
        await blobs.open(key_for(b"nobody knows"))
    line.come_back()
    assert bucket.names() == set()
    assert (await blobs.save(chunks(b"next"))).key in bucket.names()
    await blobs.close()


async def test_upload_that_nobody_waits_for_goes_to_its_end_or_is_given_up(
    bucket: Bucket, line: LineProxy, tmp_path: Path
) -> None:
    blobs = bucket.store(tmp_path)
    line.slow_down(0.002)
    saving = asyncio.create_task(blobs.save(in_pieces(content_of(LARGE))))
    await wait_for_bytes(line, 4 << 20)
    saving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saving
    line.slow_down(0)
    await blobs.close()
    assert not blobs.has_in_hand
    assert list(blobs.take_doubtful()) == [key_for(content_of(LARGE))]


async def test_reading_breaks_off_with_an_error_when_the_storage_goes_away(
    bucket: Bucket, line: LineProxy, tmp_path: Path
) -> None:
    blobs = bucket.store(tmp_path)
    blob = await blobs.save(in_pieces(content_of(LARGE)))
    parts = (await blobs.open(blob.key)).chunks()
    await anext(parts)
    line.go_away()
    with pytest.raises(StoreUnavailable):
        async for _ in parts:
            pass
    line.come_back()
    assert await read(blobs, blob.key, 5, 9) == content_of(LARGE)[5:9]
    await blobs.close()


async def test_object_that_is_there_is_not_sent_again(
    bucket: Bucket, line: LineProxy, tmp_path: Path
) -> None:
    blobs = bucket.store(tmp_path)
    content = content_of(3 << 20)
    await blobs.save(chunks(content))
    before = line.carried
    await blobs.save(chunks(content))
    assert line.carried - before < 100_000
    await blobs.close()


@pytest.mark.parametrize("size", [100, LARGE])
async def test_half_an_object_under_the_key_is_replaced(
    bucket: Bucket, tmp_path: Path, size: int
) -> None:
    content = content_of(size)
    await asyncio.to_thread(bucket.put, key_for(content), content[: size // 2])
    blobs = bucket.store(tmp_path)
    blob = await blobs.save(in_pieces(content))
    assert await read(blobs, blob.key) == content
    await blobs.close()


async def test_damaged_object_is_not_given_out_as_a_file(
    bucket: Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    blobs = bucket.store(tmp_path)
    key = key_for(b"what was saved")
    await asyncio.to_thread(bucket.put, key, b"what is there!")
    with pytest.raises(StoreUnavailable, match="damaged"):
        async with blobs.local(key):
            pass
    assert files_in(tmp_path) == []
    await blobs.close()


async def test_full_disk_of_this_machine_is_told_as_one(bucket: Bucket, tmp_path: Path) -> None:
    doubts: list[None] = []
    with small_disk(tmp_path / "disk", megabytes=4) as disk:
        blobs = bucket.store(disk, refused=lambda: doubts.append(None))
        with pytest.raises(StorageFull):
            await blobs.save(in_pieces(content_of(8 << 20)))
        assert doubts
        assert files_in(disk) == []
        assert (await blobs.save(chunks(b"small"))).key in bucket.names()
        await blobs.close()


async def test_what_another_server_saves_again_is_not_removed_by_an_old_look(
    bucket: Bucket, tmp_path: Path
) -> None:
    one, other = bucket.store(tmp_path / "one"), bucket.store(tmp_path / "other")
    blob = await one.save(chunks(b"same"))
    one.settle([blob.key], are_kept=False)
    looked = await one.look_at([blob.key])
    assert await other.remove(await other.look_at([blob.key])) == 1
    await asyncio.sleep(1.1)  # S3 tells the time of an object in seconds
    await other.save(chunks(b"same"))
    assert await one.remove(looked) == 0
    assert await read(one, blob.key) == b"same"
    await one.close()
    await other.close()


async def test_what_is_no_blob_is_left_alone(bucket: Bucket, tmp_path: Path) -> None:
    blobs = bucket.store(tmp_path)
    names = {"notes.txt", "ab/notes.txt", "ab/" + "0" * 64}
    for name in names:
        await asyncio.to_thread(bucket.put, name, b"x")
    assert [file async for files in blobs.files() for file in files] == []
    assert bucket.names() == names
    await blobs.close()


# Links


async def signed(blobs: ObjectBlobStore, key: str, filename: str) -> str:
    url = await blobs.signed_url(
        key, 60, filename=filename, content_type="image/png", is_inline=True
    )
    assert url is not None
    return url


@pytest.mark.parametrize(
    ("filename", "said"),
    [
        ("a b.png", "inline; filename*=utf-8''a%20b.png"),
        ("plain.png", 'inline; filename="plain.png"'),
        ('"\r\nX-Evil: 1.png', "inline; filename*=utf-8''%22%0D%0AX-Evil%3A%201.png"),
    ],
    ids=["space", "plain", "hostile"],
)
async def test_signed_url_of_the_storage_gives_the_file_under_its_name(
    bucket: Bucket, tmp_path: Path, filename: str, said: str
) -> None:
    blobs = bucket.store(tmp_path)
    blob = await blobs.save(chunks(b"picture"))
    url = await signed(blobs, blob.key, filename)

    def fetch(address: str) -> tuple[bytes, str | None, str | None]:
        with urlopen(address, timeout=10) as reply:
            headers = reply.headers
            return reply.read(), headers["Content-Type"], headers["Content-Disposition"]

    assert await asyncio.to_thread(fetch, url) == (b"picture", "image/png", said)
    for other in (url.replace(blob.key[3:], "0" * 64), url.replace("image%2Fpng", "text%2Fhtml")):
        with pytest.raises(HTTPError) as caught:
            await asyncio.to_thread(fetch, other)
        assert caught.value.code == 403
        caught.value.close()
    await blobs.close()


@pytest.mark.parametrize("kind", ["image/svg+xml", "text/html", "IMAGE/SVG+XML; charset=utf-8"])
async def test_what_a_browser_could_run_is_saved_and_not_shown(
    bucket: Bucket, tmp_path: Path, kind: str
) -> None:
    blobs = bucket.store(tmp_path)
    blob = await blobs.save(chunks(b"<svg/>"))
    url = await blobs.signed_url(blob.key, 60, filename="a", content_type=kind, is_inline=True)
    assert url is not None

    def fetch() -> tuple[str, str]:
        with urlopen(url, timeout=10) as reply:
            return reply.headers["Content-Type"], reply.headers["Content-Disposition"]

    said = await asyncio.to_thread(fetch)
    assert said == ("application/octet-stream", 'attachment; filename="a"')
    await blobs.close()


async def test_without_the_secret_key_there_is_no_url_of_the_storage(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = bucket.store(tmp_path)
    blob = await blobs.save(chunks(b"picture"))
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    url = await blobs.signed_url(
        blob.key, 60, filename="a.png", content_type="image/png", is_inline=True
    )
    assert url is None
    await blobs.close()


# Settings


@pytest.mark.parametrize(
    "url",
    ["s3://", "s3:bucket", "ftp://bucket/x", "s3://key:secret@bucket/x", "s3://bucket/../x",
     "s3://bucket/x?endpoint=http://other", "bucket", "s3://b ucket/"],
)  # fmt: skip
def test_url_that_names_no_bucket_is_refused_without_telling_it(url: str) -> None:
    with pytest.raises(ConfigurationError, match="blob_url") as caught:
        open_location(url, "blob_url")
    assert caught.value.code == "BLOB_URL_INVALID"
    assert "secret" not in caught.value.message


def test_missing_package_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ConfigurationError, match=r"comfyrail\[s3\]"):
        open_location("s3://bucket/x", "blob_url")


async def test_bucket_that_cannot_be_used_is_found_out_at_the_start(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    await probe(bucket.location, "blob_url")
    assert bucket.names() == set()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret-key")
    with pytest.raises(ConfigurationError, match="credentials") as caught:
        await probe(open_location(bucket.url, "blob_url"), "blob_url")
    assert caught.value.code == "BLOB_STORE_UNREACHABLE"
    assert "wrong-secret-key" not in caught.value.message
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        await probe(open_location(bucket.url, "blob_url"), "blob_url")


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
def test_endpoint_without_a_scheme_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "127.0.0.1:8333")
    with pytest.raises(ConfigurationError, match=f"{name} begins with http"):
        open_location("s3://outputs", "blob_url")
