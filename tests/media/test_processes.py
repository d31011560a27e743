"""Media processes come when there is work and go when there is none."""

import asyncio
from pathlib import Path

import pytest

from comfyrail.errors import ConversionFailed
from comfyrail.jobs.output_config import OutputConfig
from comfyrail.results.image_converter import ImageConverter
from comfyrail.results.media.processes import (
    MediaProcessEnded,
    MediaProcesses,
    MediaUnavailable,
)
from tests.media import makers
from tests.media.house import kill, media_house, media_processes, once, stopped_process
from tests.media.makers import written


async def until(look: object, limit: float = 20.0) -> None:
    assert callable(look)
    async with asyncio.timeout(limit):
        while not look():  # noqa: ASYNC110 - the state of another process
            await asyncio.sleep(0.02)


async def look(processes: MediaProcesses, path: Path) -> None:
    async with processes.look(path, "image/png") as (looked, _):
        assert looked.facts.error is None


async def test_process_starts_with_the_first_task_and_ends_when_there_is_no_more(
    tmp_path: Path,
) -> None:
    processes = MediaProcesses(tmp_path / "work", idle_seconds=0.3)
    path = written(tmp_path, "a.png", makers.png(300, 300))
    assert media_processes() == []
    async with processes.look(path, "image/png") as (looked, folder):
        assert looked.facts.width == 300
        assert (folder / "thumb_256.webp").is_file()
        (first,) = media_processes()
    assert not folder.exists()
    async with processes.look(path, "image/png"):
        assert media_processes() == [first]
    await until(lambda: not media_processes())
    async with processes.look(path, "image/png"):
        assert media_processes() != [first]
    await processes.close()
    assert media_processes() == []
    assert not (tmp_path / "work").exists()


async def test_crash_costs_only_its_task(tmp_path: Path) -> None:
    processes = MediaProcesses(tmp_path / "work")
    path = written(tmp_path, "a.png", makers.png(300, 300))
    async with stopped_process(processes, tmp_path) as stopped:
        looking = asyncio.create_task(look(processes, path))
        await asyncio.sleep(0.1)
        kill(stopped)
        with pytest.raises(MediaProcessEnded):
            await looking
    await look(processes, path)
    await processes.close()


async def test_process_that_does_not_answer_is_ended_when_its_time_is_over(tmp_path: Path) -> None:
    processes = MediaProcesses(tmp_path / "work", task_seconds=1.5)
    path = written(tmp_path, "a.png", makers.png(300, 300))
    async with stopped_process(processes, tmp_path) as stopped:
        with pytest.raises(MediaProcessEnded, match="longer than 3 s"):
            await look(processes, path)
        assert stopped not in media_processes()
    await processes.close()


async def test_whoever_does_not_wait_any_more_ends_the_process(tmp_path: Path) -> None:
    processes = MediaProcesses(tmp_path / "work")
    path = written(tmp_path, "a.png", makers.png(300, 300))
    async with stopped_process(processes, tmp_path):
        looking = asyncio.create_task(look(processes, path))
        await asyncio.sleep(0.1)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        assert media_processes() == []
    await processes.close()


async def test_one_process_does_one_task_after_the_other(tmp_path: Path) -> None:
    processes = MediaProcesses(tmp_path / "work", 1)
    paths = [written(tmp_path, f"{n}.png", makers.png(300 + n, 300)) for n in range(6)]

    async def width(path: Path) -> int | None:
        async with processes.look(path, "image/png") as (looked, _):
            assert len(media_processes()) == 1
            return looked.facts.width

    assert await asyncio.gather(*map(width, paths)) == [300, 301, 302, 303, 304, 305]
    await processes.close()


async def test_process_sees_no_secrets_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMFYRAIL_SECRET_NOVITA_API_KEY", "tell nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "tell nobody")
    processes = MediaProcesses(tmp_path / "work")
    path = written(tmp_path, "a.png", makers.png(300, 300))
    async with processes.look(path, "image/png"):
        (process,) = media_processes()
        about = Path("/proc") / str(process)
        environment = await asyncio.to_thread((about / "environ").read_bytes)
        limits = await asyncio.to_thread((about / "limits").read_bytes)
    assert b"tell nobody" not in environment
    assert b"Max address space         3221225472" in limits
    await processes.close()


async def test_process_that_cannot_be_started_says_nothing_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("comfyrail.results.media.processes.MODULE", "comfyrail.no_such_module")
    async with media_house(tmp_path) as house:
        _, key = await house.give("a.png", makers.png(300, 300), "image/png")
        with pytest.raises(MediaUnavailable):
            await house.keeper.look_at_some()
        (waiting,) = await house.store.waiting_media(1, 1)
        assert (waiting.file.blob_key, waiting.attempts) == (key, 0)
        converter = ImageConverter(house.processes, house.blobs)
        with pytest.raises(ConversionFailed):
            async with converter.convert(key, "image/png", OutputConfig(format="webp")):
                pass


async def test_converter_gives_the_picture_as_it_is_wanted_or_says_why_not(tmp_path: Path) -> None:
    async with media_house(tmp_path) as house:
        converter = ImageConverter(house.processes, house.blobs)
        blob = await house.blobs.save(once(makers.png(300, 300)))
        async with converter.convert(blob.key, "image/png", OutputConfig(format="webp")) as made:
            assert made is not None
            assert (made.content_type, made.suffix) == ("image/webp", ".webp")
            content = b"".join([chunk async for chunk in made.chunks()])
        assert content[8:12] == b"WEBP"
        async with converter.convert(blob.key, "image/png", OutputConfig(format="png")) as made:
            assert made is None
        broken = await house.blobs.save(once(makers.png(300, 300)[:200]))
        with pytest.raises(ConversionFailed, match="broken"):
            async with converter.convert(broken.key, "image/png", OutputConfig(format="webp")):
                pass


async def test_conversion_is_tried_again_when_its_process_was_killed(tmp_path: Path) -> None:
    async with media_house(tmp_path) as house:
        converter = ImageConverter(house.processes, house.blobs)
        blob = await house.blobs.save(once(makers.png(300, 300)))

        async def convert() -> str:
            async with converter.convert(blob.key, "image/png", OutputConfig(format="webp")) as it:
                assert it is not None
                return it.suffix

        async with stopped_process(house.processes, tmp_path) as stopped:
            converting = asyncio.create_task(convert())
            await asyncio.sleep(0.1)
            kill(stopped)
            assert await converting == ".webp"


async def test_conversion_that_ends_its_process_twice_says_so(tmp_path: Path) -> None:
    async with media_house(tmp_path, task_seconds=0.0002) as house:
        converter = ImageConverter(house.processes, house.blobs)
        blob = await house.blobs.save(once(makers.png(300, 300)))
        with pytest.raises(ConversionFailed, match="The process that converted it ended, 2 times"):
            async with converter.convert(blob.key, "image/png", OutputConfig(format="webp")):
                pass
