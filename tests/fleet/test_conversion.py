"""Pictures are converted between their coming here and the end of the job [8.2]."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from comfyrail.errors import ConversionFailed
from comfyrail.fleet.conversion import Conversion
from comfyrail.fleet.outputs import Fetched
from comfyrail.ids import OutputId, new_job_id
from comfyrail.jobs.job import NewOutput
from comfyrail.jobs.outcome import Lost
from comfyrail.jobs.output_config import OutputConfig
from comfyrail.jobs.states import JobState
from comfyrail.results.disk_blobs import DiskBlobStore
from tests.fleet.bench import Bench, playing
from tests.fleet.scripted_worker import ScriptedWorker

WEBP = OutputConfig(format="webp")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


@dataclass
class Made:
    content_type: str = "image/webp"
    suffix: str = ".webp"

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b"converted"


class SlowConverter:
    """Converts what it is asked to when `may_go` is set; refuses what is called broken."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.began = asyncio.Event()
        self.may_go = asyncio.Event()
        self.fails = False

    @asynccontextmanager
    async def convert(
        self, key: str, content_type: str, wanted: OutputConfig
    ) -> AsyncIterator[Made | None]:
        assert wanted == WEBP
        self.asked.append(content_type)
        self.began.set()
        await self.may_go.wait()
        if self.fails:
            raise ConversionFailed(f"{key} is broken.")
        yield Made()


def output(kind: str, content_type: str) -> NewOutput:
    return NewOutput(
        OutputId(new_job_id()), "3", kind, "a.b.png", "", False, content_type, 1, "h", "key"
    )


@pytest.mark.parametrize(
    ("kind", "content_type", "is_converted"),
    [
        ("images", "image/png", True),
        ("images", "video/mp4", False),
        ("images", "image/svg+xml", False),
        ("gifs", "image/gif", False),
        ("audio", "audio/flac", False),
    ],
    ids=["picture", "film", "svg", "another-kind", "sound"],
)
async def test_only_pictures_are_converted(
    tmp_path: Path, kind: str, content_type: str, is_converted: bool
) -> None:
    converter = SlowConverter()
    converter.may_go.set()
    given = output(kind, content_type)
    made = await Conversion(WEBP, converter).apply(
        Fetched((given,)), DiskBlobStore(tmp_path / "blobs")
    )
    assert bool(converter.asked) == is_converted
    if is_converted:
        assert (made.outputs[0].filename, made.outputs[0].size) == ("a.b.webp", 9)
    else:
        assert made.outputs == (given,)


async def test_what_cannot_be_converted_stays_with_a_warning(tmp_path: Path) -> None:
    converter = SlowConverter()
    converter.may_go.set()
    converter.fails = True
    given = output("images", "image/png")
    made = await Conversion(WEBP, converter).apply(
        Fetched((given,)), DiskBlobStore(tmp_path / "blobs")
    )
    assert made.outputs == (given,)
    assert [fault.code for fault in made.warnings] == ["OUTPUT_NOT_CONVERTED"]
    assert "key is broken." in made.warnings[0].message


async def _script(worker: ScriptedWorker, prompt_id: str) -> None:
    file = {"filename": "a.png", "subfolder": "", "type": "output"}
    worker.end(prompt_id, "success", [["execution_success", {}]], {"3": {"images": [file]}})
    await worker.say("executing", node=None, prompt_id=prompt_id)


async def test_job_is_not_lost_with_its_worker_while_its_pictures_are_converted(
    bench: Bench,
) -> None:
    converter = SlowConverter()
    async with playing(_script) as worker:
        worker.files["a.png"] = PNG
        attempt = replace(await bench.attempt(timeout=1), output_config=WEBP)
        connection = await bench.connect(worker)
        run = bench.run(attempt, connection, adopted=False, converter=converter)
        async with asyncio.timeout(20):
            await converter.began.wait()
        run.session.worker_is_gone(Lost("the worker has ended"))
        await asyncio.sleep(1.2)  # its time is over too
        assert not run.task.done()
        converter.may_go.set()
        assert (await bench.end(run)).state is JobState.COMPLETED
        ((made, content),) = await bench.outputs(run.job_id)
    assert (made.file.filename, made.file.content_type) == ("a.webp", "image/webp")
    assert content == b"converted"
