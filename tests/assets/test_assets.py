"""Files that users give: kept, found, and each user's own [10.8]."""

import asyncio
import base64
import errno
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from comfyrail.errors import (
    AssetNotFound,
    ComfyrailError,
    Conflict,
    MalformedRequest,
    NotFound,
    PayloadTooLarge,
    RequestError,
    StorageFull,
    UnsupportedMediaType,
)
from comfyrail.ids import AssetId
from comfyrail.jobs.job import JobInput
from comfyrail.usecases.asset_intake import UploadRules
from tests.assets.parts import ANN, BOB, Kit, asset_kit, chunks, huge_png, picture, png
from tests.processes import wait_until


async def refused(doing: Any) -> ComfyrailError:
    with pytest.raises(ComfyrailError) as caught:
        await doing
    return caught.value


async def test_a_file_is_kept_with_what_its_bytes_say(kit: Kit) -> None:
    asset = await kit.give("photo.png", png(), content_type="image/jpeg")
    assert asset.content_type == "image/png"
    assert asset.size == len(png())
    assert asset.sha256 == hashlib.sha256(png()).hexdigest()
    assert asset.blake3 == blake3(png()).hexdigest()
    assert await kit.bytes_of(asset) == png()
    assert await kit.assets.get(ANN, asset.id) == asset


async def test_two_tenants_have_each_their_own_file_of_a_name(kit: Kit) -> None:
    hers, his = await kit.give("photo.png", png(1)), await kit.give("photo.png", png(2), BOB)
    assert await kit.assets.find_by_name(ANN, "photo.png") == hers
    assert await kit.assets.find_by_name(BOB, "photo.png") == his
    for foreign in (kit.assets.get(BOB, hers.id), kit.assets.delete(BOB, hers.id)):
        error = await refused(foreign)
        assert isinstance(error, AssetNotFound)
        unknown = await refused(kit.assets.get(BOB, AssetId("nothing")))
        assert error.message.replace(hers.id, "") == unknown.message.replace("nothing", "")
    assert await kit.assets.names(BOB) == ["photo.png"]
    assert [each.id for each in (await kit.assets.list(ANN, None, 10)).assets] == [hers.id]


async def test_the_newest_file_of_a_name_is_meant(kit: Kit) -> None:
    await kit.give("photo.png", png(1))
    newer = await kit.give("photo.png", png(2))
    assert await kit.assets.find_by_name(ANN, "photo.png") == newer
    assert len((await kit.assets.list(ANN, None, 10)).assets) == 2


async def test_renaming_goes_by_comfyuis_rule(kit: Kit) -> None:
    first = await kit.give("a/photo.png", png(1), same_name="rename")
    again = await kit.give("a/photo.png", png(1), same_name="rename")
    other = await kit.give("a/photo.png", png(2), same_name="rename")
    third = await kit.give("a/photo.png", png(3), same_name="rename")
    same_as_other = await kit.give("a/photo.png", png(2), same_name="rename")
    assert again == first
    assert (other.name, third.name) == ("a/photo (1).png", "a/photo (2).png")
    assert same_as_other == other


async def test_a_replaced_file_is_gone_with_its_bytes(kit: Kit) -> None:
    old = await kit.give("photo.png", png(1))
    new = await kit.give("photo.png", png(2), same_name="replace")
    assert not await kit.is_there(ANN, old.id)
    await kit.blob_sweeper.look()
    assert kit.blob_files() == {new.blob_key}


async def test_a_list_comes_in_pages(kit: Kit) -> None:
    given = [await kit.give(f"{number}.png", png(number)) for number in range(5)]
    seen, after = [], None
    while True:
        page = await kit.assets.list(ANN, after, 2)
        seen += [each.id for each in page.assets]
        after = page.next_cursor
        if after is None:
            break
    assert seen == [each.id for each in reversed(given)]


@pytest.mark.parametrize(
    ("name", "content", "error", "code"),
    [
        ("empty.png", b"", MalformedRequest, "EMPTY_FILE"),
        ("../x.png", png(), MalformedRequest, "INVALID_FILE_NAME"),
        ("x.png", b"<svg onload=alert(1)>", UnsupportedMediaType, "CONTENT_TYPE_REFUSED"),
        ("x.png", b"PK\x03\x04" + bytes(1000), UnsupportedMediaType, "CONTENT_TYPE_REFUSED"),
        ("x.mp4", png(), UnsupportedMediaType, "CONTENT_TYPE_MISMATCH"),
        ("x.png", b"\x89PNG\r\n\x1a\nbroken", UnsupportedMediaType, "CONTENT_TYPE_REFUSED"),
        ("x.txt", b"a" * 70_000 + b"\xff\xfe\x00", UnsupportedMediaType, "CONTENT_TYPE_REFUSED"),
        ("bomb.png", huge_png(60_000, 60_000), PayloadTooLarge, "IMAGE_TOO_LARGE"),
    ],
)
async def test_what_cannot_be_kept_leaves_nothing_behind(
    kit: Kit, name: str, content: bytes, error: type[ComfyrailError], code: str
) -> None:
    found = await refused(kit.give(name, content))
    assert isinstance(found, error)
    assert found.code == code
    await kit.blob_sweeper.look()
    assert not kit.blob_files()
    assert not (await kit.assets.list(ANN, None, 10)).assets
    assert not kit.blobs.has_in_hand


async def test_a_large_image_is_taken_where_the_policy_has_no_limit(tmp_path: Path) -> None:
    async with asset_kit(tmp_path) as kit:
        policies = kit.assets._policies
        limits = replace(policies.default.limits, max_image_pixels=None)
        unlimited = replace(policies.default, limits=limits)
        kit.assets._policies = replace(policies, default=unlimited)
        assert (await kit.give("large.png", huge_png(60_000, 60_000))).size


async def test_a_file_over_the_limit_is_refused_before_all_of_it_came(tmp_path: Path) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        yield png()
        while True:
            taken += 1
            yield bytes(1 << 20)

    async with asset_kit(tmp_path, UploadRules(max_bytes=3 << 20)) as kit:
        found = await refused(kit.assets.receive(ANN, endless(), name="x.png"))
        assert (type(found), found.code) == (PayloadTooLarge, "FILE_TOO_LARGE")
        assert taken < 5
        assert not kit.blob_files()


async def test_other_bytes_than_were_announced_are_refused(kit: Kit) -> None:
    wrong: list[dict[str, Any]] = [
        {"expected_sha256": "0" * 64},
        {"expected_blake3": "blake3:" + "0" * 64},
    ]
    for expected in wrong:
        assert (await refused(kit.give("x.png", png(), **expected))).code == "HASH_MISMATCH"
    known = "blake3:" + blake3(png()).hexdigest()
    assert (await kit.give("x.png", png(), expected_blake3=known)).blake3 in known


async def test_base64_and_data_urls_are_files_too(kit: Kit) -> None:
    text = base64.b64encode(png()).decode()
    wrapped = "\n".join(text[start : start + 76] for start in range(0, len(text), 76))
    for given in (text, wrapped, f"data:image/png;base64,{text}", f"data:;base64,{text}"):
        received = await kit.assets.from_base64(ANN, given, name="x.png")
        assert received.asset.blake3 == blake3(png()).hexdigest()
    error = await refused(kit.assets.from_base64(ANN, "no base64!", name="x.png"))
    assert error.code == "INVALID_BASE64"
    lie = f"data:video/mp4;base64,{text}"
    error = await refused(kit.assets.from_base64(ANN, lie, name="x"))
    assert error.code == "CONTENT_TYPE_MISMATCH"


async def test_what_a_job_made_is_a_file_without_a_second_copy(kit: Kit) -> None:
    attempt = await kit.make_output(png(5))
    (output,) = await kit.store.list_outputs(ANN.tenant, attempt.job_id)
    received = await kit.assets.from_output(ANN, attempt.job_id, output.file.id)
    assert received.asset.name == "made.png"
    assert received.asset.content_type == "image/png"
    assert kit.blob_files() == {received.asset.blob_key}
    assert isinstance(
        await refused(kit.assets.from_output(BOB, attempt.job_id, output.file.id)), NotFound
    )


async def test_bytes_are_known_by_their_hash_to_their_owner_alone(kit: Kit) -> None:
    await kit.give("photo.png", png(1))
    await kit.make_output(png(2))
    for seed in (1, 2):
        known = blake3(png(seed)).hexdigest()
        assert await kit.assets.has_hash(ANN, known)
        assert await kit.assets.has_hash(ANN, f"blake3:{known}")
        assert not await kit.assets.has_hash(BOB, known)
        made = await kit.assets.from_hash(ANN, known, name=f"again {seed}.png")
        assert await kit.bytes_of(made.asset) == png(seed)
        assert not made.is_new_blob
        foreign = await refused(kit.assets.from_hash(BOB, known, name="x.png"))
        assert (type(foreign), foreign.code) == (NotFound, "BLOB_NOT_FOUND")
    assert (await kit.assets.receive(BOB, chunks(png(1)), name="x.png")).is_new_blob
    assert not (await kit.assets.receive(ANN, chunks(png(1)), name="x.png")).is_new_blob
    assert (await refused(kit.assets.from_hash(ANN, "x", name="x"))).code == "INVALID_HASH"


async def test_bytes_stay_for_as_long_as_anybody_has_them(kit: Kit) -> None:
    hers, his = await kit.give("a.png", png(1)), await kit.give("b.png", png(1), BOB)
    await kit.assets.delete(ANN, hers.id)
    await kit.blob_sweeper.look()
    await kit.blob_sweeper.sweep()
    assert kit.blob_files() == {his.blob_key}
    await kit.assets.delete(BOB, his.id)
    await kit.blob_sweeper.look()
    assert not kit.blob_files()


async def test_a_file_that_a_job_needs_cannot_be_deleted(kit: Kit) -> None:
    asset = await kit.give("a.png", png())
    attempt = await kit.begin(JobInput("uploads/x/a.png", asset.blob_key, asset.id))
    found = await refused(kit.assets.delete(ANN, asset.id))
    assert (type(found), found.code) == (Conflict, "ASSET_IN_USE")
    assert found.details["execution_id"] == attempt.job_id
    await kit.finish(attempt)
    await kit.assets.delete(ANN, asset.id)


async def test_a_job_whose_file_went_meanwhile_is_refused(kit: Kit) -> None:
    asset = await kit.give("a.png", png())
    await kit.assets.delete(ANN, asset.id)
    needed = JobInput("uploads/x/a.png", asset.blob_key, asset.id)
    assert (await refused(kit.begin(needed))).code == "MISSING_INPUT_FILE"


async def test_replaced_bytes_stay_while_a_job_needs_them(kit: Kit) -> None:
    asset = await kit.give("a.png", png(1))
    attempt = await kit.begin(JobInput("uploads/x/a.png", asset.blob_key, asset.id))
    newer = await kit.give("a.png", png(2), same_name="replace")
    await kit.blob_sweeper.look()
    await kit.blob_sweeper.sweep()
    assert kit.blob_files() == {asset.blob_key, newer.blob_key}
    await kit.finish(attempt)
    await kit.blob_sweeper.sweep()
    assert kit.blob_files() == {newer.blob_key}


async def test_a_file_goes_when_its_time_has_come(kit: Kit) -> None:
    short = await kit.give("short.png", png(1), expires_in=60)
    long = await kit.give("long.png", png(2))
    kit.clock.move(59)
    assert await kit.is_there(ANN, short.id)
    kit.clock.move(2)
    assert not await kit.is_there(ANN, short.id)
    assert await kit.assets.names(ANN) == ["long.png"]
    await kit.sweeper.sweep()
    await kit.blob_sweeper.look()
    assert kit.blob_files() == {long.blob_key}


async def test_a_file_whose_time_has_come_stays_while_a_job_needs_it(kit: Kit) -> None:
    asset = await kit.give("a.png", png(), expires_in=60)
    attempt = await kit.begin(JobInput("uploads/x/a.png", asset.blob_key, asset.id))
    kit.clock.move(100)
    await kit.sweeper.sweep()
    await kit.blob_sweeper.look()
    assert kit.blob_files() == {asset.blob_key}
    await kit.finish(attempt)
    await kit.sweeper.sweep()
    await kit.blob_sweeper.look()
    assert not kit.blob_files()


@pytest.mark.parametrize("seconds", [0, 59, 604_801, -1, float("nan"), float("inf")])
async def test_a_file_lives_a_minute_to_a_week(kit: Kit, seconds: float) -> None:
    assert (await refused(kit.give("a.png", png(), expires_in=seconds))).code == "INVALID_EXPIRY"


async def test_files_live_as_long_as_the_server_says(tmp_path: Path) -> None:
    async with asset_kit(tmp_path, UploadRules(retention_seconds=1000)) as kit:
        asset = await kit.give("a.png", png())
        assert asset.expires_at == kit.clock.now() + 1_000_000


async def test_a_full_disk_is_told_as_one(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("comfyrail.results.incoming.IncomingFile.write", full)
    assert isinstance(await refused(kit.give("a.png", png())), StorageFull)


async def test_nothing_is_taken_while_the_server_takes_nothing(kit: Kit) -> None:
    def refuse() -> None:
        raise StorageFull("no room")

    kit.assets._refuse_new_work = refuse
    assert isinstance(await refused(kit.give("a.png", png())), StorageFull)


async def test_an_upload_that_nobody_waits_for_any_more_is_whole_or_nothing(kit: Kit) -> None:
    for pause in (0.0, 0.0005, 0.001, 0.002, 0.004):
        task = asyncio.create_task(kit.give("a.png", png(7)))
        await asyncio.sleep(pause)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await asyncio.gather(*(kit.give(f"{number}.png", png(number)) for number in range(5)))
    await asyncio.to_thread(wait_until, lambda: not kit.blobs.has_in_hand)
    await kit.blob_sweeper.look()
    await kit.blob_sweeper.sweep()
    for asset in (await kit.assets.list(ANN, None, 100)).assets:
        assert (await kit.assets.open(asset)).size


async def test_all_kinds_of_pictures_are_taken(kit: Kit) -> None:
    for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"):
        asset = await kit.give(f"x.{kind.lower()}", picture(kind))
        assert asset.content_type == f"image/{kind.lower()}"


async def test_errors_are_of_the_caller(kit: Kit) -> None:
    assert isinstance(await refused(kit.give("x", b"\x7fELF" + bytes(100))), RequestError)
