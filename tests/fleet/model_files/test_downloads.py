"""Fetching a model [5.8] from servers that behave well and badly."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from comfyrail.errors import DriverRefused, WorkerUnreachable
from comfyrail.fleet.model_files.download import DownloadLimits
from comfyrail.fleet.model_files.replies import (
    announced_size,
    first_byte,
    retry_after,
    validator_of,
)
from tests.fleet.model_files.file_server import FileServer, serving
from tests.fleet.model_files.parts import QUICK, models_folder

CONTENT = os.urandom(300_000)
BIG = os.urandom(3 << 20)
IMPATIENT = DownloadLimits(first_pause=0.001, longest_pause=0.01, tries=3)


async def test_a_missing_model_is_fetched_once_and_then_there(tmp_path: Path) -> None:
    async with serving(FileServer(CONTENT)) as server, models_folder(tmp_path) as models:
        await models.fetch(server.model())
        await models.fetch(server.model())
        assert models.read() == CONTENT
        assert models.names() == {"a.safetensors"}
        assert len(server.requests) == 1
        assert server.requests[0]["Accept-Encoding"] == "identity"


async def test_a_broken_line_is_taken_up_where_it_broke(tmp_path: Path) -> None:
    async with (
        serving(FileServer(CONTENT, cuts=[100_000, 50_000])) as server,
        models_folder(tmp_path) as models,
    ):
        await models.fetch(server.model())
        assert models.read() == CONTENT
        asked = [request.get("Range") for request in server.requests]
        assert asked == [None, "bytes=100000-", "bytes=150000-"]
        assert server.requests[1]["If-Range"] == server.etag
        assert server.sent == len(CONTENT)


async def test_a_part_outlasts_the_process_that_fetched_it(tmp_path: Path) -> None:
    server = FileServer(CONTENT, cuts=[120_000, 0, 0])
    async with serving(server):
        async with models_folder(tmp_path, IMPATIENT) as models:
            with pytest.raises(WorkerUnreachable, match="120,000 of 300,000 bytes"):
                await models.fetch(server.model())
            assert models.names() == {"a.safetensors.part"}
        async with models_folder(tmp_path) as models:
            await models.fetch(server.model())
            assert models.read() == CONTENT
        assert server.requests[-1]["Range"] == "bytes=120000-"
        assert server.sent == len(CONTENT)


async def test_a_cancelled_fetch_is_taken_up_later(tmp_path: Path) -> None:
    server = FileServer(BIG, cuts=[2 << 20])
    limits = DownloadLimits(first_pause=60)
    async with serving(server), models_folder(tmp_path, limits) as models:
        fetching = asyncio.create_task(models.fetch(server.model()))
        async with asyncio.timeout(20):
            while not any(each.received == 2 << 20 for each in models.files.progress()):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        assert not models.files.progress()
        await models.fetch(server.model())
        assert models.read() == BIG
        assert server.requests[-1]["Range"] == f"bytes={2 << 20}-"


async def test_a_file_that_changed_meanwhile_is_fetched_from_its_beginning(tmp_path: Path) -> None:
    server = FileServer(bytes(300_000), cuts=[100_000, 0, 0])
    async with serving(server), models_folder(tmp_path, IMPATIENT) as models:
        wanted = FileServer(CONTENT).model(url=server.url)
        with pytest.raises(WorkerUnreachable):
            await models.fetch(wanted)
        server.content, server.etag, server.cuts = CONTENT, '"two"', []
        before = len(server.requests)
        await models.fetch(wanted)
        assert models.read() == CONTENT
        assert len(server.requests) == before + 1


async def test_parts_of_two_versions_that_came_together_are_fetched_anew(tmp_path: Path) -> None:
    # It breaks its word: the same tag for another content.
    server = FileServer(bytes(300_000), cuts=[100_000, 0, 0])
    async with serving(server), models_folder(tmp_path, IMPATIENT) as models:
        wanted = FileServer(CONTENT).model(url=server.url)
        with pytest.raises(WorkerUnreachable):
            await models.fetch(wanted)
        server.content, server.cuts = CONTENT, []
        await models.fetch(wanted)
        assert models.read() == CONTENT
        assert "Range" not in server.requests[-1]


async def test_a_server_that_knows_no_ranges_is_asked_for_all_again(tmp_path: Path) -> None:
    server = FileServer(CONTENT, cuts=[100_000], knows_ranges=False)
    async with serving(server), models_folder(tmp_path) as models:
        await models.fetch(server.model())
        assert models.read() == CONTENT
        assert server.sent == 100_000 + len(CONTENT)


async def test_a_server_that_gives_another_range_than_asked_is_asked_for_all(
    tmp_path: Path,
) -> None:
    server = FileServer(CONTENT, cuts=[100_000], wrong_range=True)
    async with serving(server), models_folder(tmp_path) as models:
        await models.fetch(server.model())
        assert models.read() == CONTENT
        assert "Range" not in server.requests[-1]


async def test_a_range_that_is_refused_makes_it_begin_again(tmp_path: Path) -> None:
    server = FileServer(CONTENT, cuts=[100_000])
    async with serving(server), models_folder(tmp_path) as models:
        fetching = asyncio.create_task(models.fetch(server.model()))
        async with asyncio.timeout(20):
            while server.cuts:  # noqa: ASYNC110 - the server's own state
                await asyncio.sleep(0)
        server.replies.append((416, {}))
        await fetching
        assert models.read() == CONTENT


async def test_a_wrong_checksum_is_told_and_nothing_is_kept(tmp_path: Path) -> None:
    async with serving(FileServer(CONTENT)) as server, models_folder(tmp_path) as models:
        with pytest.raises(DriverRefused, match="SHA-256 differs") as caught:
            await models.fetch(server.model(sha256="0" * 64))
        assert caught.value.code == "MODEL_CHECKSUM_DIFFERS"
        assert caught.value.details == {"model": "checkpoints/a.safetensors"}
        assert not models.names()


async def test_checksums_may_be_written_in_capitals(tmp_path: Path) -> None:
    async with serving(FileServer(CONTENT)) as server, models_folder(tmp_path) as models:
        await models.fetch(server.model(sha256=server.model()["sha256"].upper()))
        assert models.read() == CONTENT


@pytest.mark.parametrize("kind", ["more", "endless"])
async def test_a_server_that_sends_too_much_is_cut_off(tmp_path: Path, kind: str) -> None:
    server = FileServer(CONTENT, more=1, says_length=False)
    server.endless = kind == "endless"
    async with serving(server), models_folder(tmp_path) as models:
        with pytest.raises(DriverRefused, match="sends more than the 300,000 bytes"):
            await models.fetch(server.model())
        assert not models.names()
        assert server.sent < 20 << 20


async def test_a_size_that_differs_is_told_before_the_file_is_read(tmp_path: Path) -> None:
    async with serving(FileServer(BIG)) as server, models_folder(tmp_path) as models:
        with pytest.raises(DriverRefused, match=r"3,145,728 bytes and the manifest says 10\."):
            await models.fetch(server.model(size=10))


async def test_a_file_that_ends_early_is_tried_again_and_then_given_up(tmp_path: Path) -> None:
    server = FileServer(CONTENT, says_length=False, knows_ranges=False)
    async with serving(server), models_folder(tmp_path, IMPATIENT) as models:
        wanted = {**server.model(), "size": len(CONTENT) + 5}
        with pytest.raises(WorkerUnreachable, match="ends too early"):
            await models.fetch(wanted)


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_what_passes_is_waited_for(tmp_path: Path, status: int) -> None:
    replies: list[tuple[int, dict[str, str]]] = [(status, {"Retry-After": "0"}), (status, {})]
    async with (
        serving(FileServer(CONTENT, replies=replies)) as server,
        models_folder(tmp_path) as models,
    ):
        await models.fetch(server.model())
        assert models.read() == CONTENT
        assert len(server.requests) == 3


async def test_a_server_that_asks_for_an_hour_is_left_alone_until_then(tmp_path: Path) -> None:
    replies = [(429, {"Retry-After": "3600"})]
    async with (
        serving(FileServer(CONTENT, replies=replies)) as server,
        models_folder(tmp_path) as models,
    ):
        with pytest.raises(WorkerUnreachable, match="429") as caught:
            await models.fetch(server.model())
        assert caught.value.retry_after == 3600
        assert len(server.requests) == 1


async def test_a_server_that_never_gets_well_is_given_up_for_now(tmp_path: Path) -> None:
    server = FileServer(CONTENT, replies=[(500, {})] * 10)
    async with serving(server), models_folder(tmp_path, IMPATIENT) as models:
        with pytest.raises(WorkerUnreachable, match="answers 500"):
            await models.fetch(server.model())
        assert len(server.requests) == IMPATIENT.tries


@pytest.mark.parametrize("status", [401, 403, 404, 410])
async def test_a_refusal_is_for_a_person_to_mend_and_keeps_what_had_arrived(
    tmp_path: Path, status: int
) -> None:
    server = FileServer(CONTENT, cuts=[100_000, 0, 0])
    async with serving(server), models_folder(tmp_path, IMPATIENT) as models:
        with pytest.raises(WorkerUnreachable):
            await models.fetch(server.model())
        server.replies.append((status, {}))
        with pytest.raises(DriverRefused, match=f"answers {status}"):
            await models.fetch(server.model())
        server.cuts.clear()
        await models.fetch(server.model())
        assert server.requests[-1]["Range"] == "bytes=100000-"


async def test_nothing_listens_there(tmp_path: Path) -> None:
    server = FileServer(CONTENT)
    async with serving(server):
        pass
    async with models_folder(tmp_path, IMPATIENT) as models:
        with pytest.raises(WorkerUnreachable, match="connection breaks off"):
            await models.fetch(server.model())


async def test_a_line_that_drips_counts_as_broken(tmp_path: Path) -> None:
    limits = DownloadLimits(first_pause=0.001, tries=2, slow_seconds=0.05, slow_bytes=1000)
    server = FileServer(CONTENT, drips=True)
    async with serving(server), models_folder(tmp_path, limits) as models:
        with pytest.raises(WorkerUnreachable, match="next to nothing"):
            await models.fetch(server.model())


async def test_a_server_that_says_nothing_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    limits = DownloadLimits(first_pause=0.001, tries=2, read_seconds=0.05)
    server = FileServer(CONTENT, gate=asyncio.Event())
    async with serving(server), models_folder(tmp_path, limits) as models:
        with pytest.raises(WorkerUnreachable, match="does not answer in time"):
            await models.fetch(server.model())


async def test_a_packed_file_is_refused(tmp_path: Path) -> None:
    server = FileServer(CONTENT, encoding="gzip")
    async with serving(server), models_folder(tmp_path) as models:
        with pytest.raises(DriverRefused, match="packed"):
            await models.fetch(server.model())


# Redirects and credentials


async def test_a_redirect_is_followed_and_takes_no_credential_elsewhere(tmp_path: Path) -> None:
    async with serving(FileServer(CONTENT)) as store, serving(FileServer(CONTENT)) as hub:
        hub.redirects_to = store.url
        async with models_folder(tmp_path, secrets={"hub": "t0ken"}) as models:
            await models.fetch(hub.model(secret="hub"))
            assert models.read() == CONTENT
        assert hub.requests[0]["Authorization"] == "Bearer t0ken"
        assert "Authorization" not in store.requests[0]


async def test_redirects_in_a_circle_end(tmp_path: Path) -> None:
    async with serving(FileServer(CONTENT)) as server, models_folder(tmp_path) as models:
        server.redirects_to = server.url
        with pytest.raises(DriverRefused, match="redirects more than 5 times"):
            await models.fetch(server.model())
        assert len(server.requests) == QUICK.redirects + 1


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://127.0.0.1/a", "http://[", "//u@h/"]
)
async def test_a_redirect_to_what_is_not_the_web_is_refused(tmp_path: Path, target: str) -> None:
    server = FileServer(CONTENT, redirects_to=target)
    async with serving(server), models_folder(tmp_path) as models:
        with pytest.raises(DriverRefused, match=r"cannot be asked|no URL"):
            await models.fetch(server.model())


async def test_a_credential_that_the_server_does_not_have_is_named(tmp_path: Path) -> None:
    async with serving(FileServer(CONTENT)) as server, models_folder(tmp_path) as models:
        with pytest.raises(DriverRefused, match="the secret 'hub'"):
            await models.fetch(server.model(secret="hub"))
        assert not server.requests


async def test_messages_do_not_show_what_is_in_the_query(tmp_path: Path) -> None:
    server = FileServer(CONTENT, replies=[(404, {})])
    async with serving(server), models_folder(tmp_path) as models:
        with pytest.raises(DriverRefused) as caught:
            await models.fetch(server.model(url=f"{server.url}?token=s3cret"))
    assert "s3cret" not in caught.value.message


# What replies mean


def test_ranges_and_sizes_are_read_strictly() -> None:
    assert first_byte({"Content-Range": "bytes 5-9/10"}) == 5
    assert announced_size({"Content-Range": "bytes 5-9/10"}, partial=True) == 10
    assert announced_size({"Content-Range": "bytes 5-9/*"}, partial=True) is None
    assert first_byte({"Content-Range": "bytes */10"}) is None
    assert first_byte({"Content-Range": "items 5-9/10"}) is None
    assert announced_size({"Content-Length": "9" * 30}, partial=False) is None
    assert announced_size({"Content-Length": "-5"}, partial=False) is None


def test_only_what_tells_versions_apart_goes_into_a_condition() -> None:
    assert validator_of({"ETag": 'W/"weak"'}) == ""
    assert validator_of({"ETag": '"strong"', "Last-Modified": "x"}) == '"strong"'
    assert validator_of({"Last-Modified": "Mon, 05 Jan 2026 00:00:00 GMT"}).startswith("Mon")
    assert validator_of({"ETag": '"' + "x" * 5000}) == ""


def test_the_time_to_wait_is_seconds_or_a_date() -> None:
    now = datetime(2026, 1, 5, tzinfo=UTC)
    assert retry_after({"Retry-After": "7"}) == 7
    assert retry_after({"Retry-After": "Mon, 05 Jan 2026 00:00:30 GMT"}, now) == 30
    assert retry_after({"Retry-After": "Mon, 05 Jan 2025 00:00:30 GMT"}, now) == 0
    assert retry_after({"Retry-After": "soon"}) is None
    assert retry_after({}) is None
