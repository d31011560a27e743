"""The parts of the fault harness."""

import asyncio
import io
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE

import pytest
from PIL import Image

from comfyrail.errors import ConfigurationError
from comfyrail.faultlab.clock_offset import ClockOffset
from comfyrail.faultlab.disks import loop_disk, loop_disk_obstacle
from comfyrail.faultlab.faults.disk_faults import files_limited
from comfyrail.faultlab.faults.registry import ALL_FAULTS, faults_named
from comfyrail.faultlab.figures import Strike, percentile, recovery_seconds
from comfyrail.faultlab.followers import Reading
from comfyrail.faultlab.ledger import Ledger
from comfyrail.faultlab.planned_jobs import PlannedJob, plan_jobs
from comfyrail.faultlab.proxy import LineProxy, proxy_to
from comfyrail.faultlab.stamp_node import MARK

# Following events


def reading_of(*events: tuple[int, str]) -> Reading:
    reading = Reading("job", "test")
    for number, kind in events:
        reading.take(number, kind)
    return reading


def test_events_one_by_one_until_the_final_one_are_right() -> None:
    reading = reading_of((1, "execution.queued"), (2, "execution.completed"))
    assert reading.faults == []
    assert reading.is_ended


@pytest.mark.parametrize("numbers", [(1, 3), (2, 3), (1, 2, 2), (1, 2, 1)])
def test_gap_or_repetition_is_a_fault(numbers: tuple[int, ...]) -> None:
    assert reading_of(*((number, "execution.progress") for number in numbers)).faults


def test_event_after_the_final_one_is_a_fault() -> None:
    reading = reading_of((1, "execution.failed"), (2, "execution.queued"))
    assert reading.faults == ["job over test: event 2 came after the final one"]


# Jobs whose outputs are known


def outputs_of(job: PlannedJob) -> list[tuple[str, bytes]]:
    file = io.BytesIO()
    colour = (job.colour >> 16, job.colour >> 8 & 255, job.colour & 255)
    Image.new("RGB", (job.width, job.height), colour).save(file, "PNG")
    return [("images", file.getvalue()), ("text", f"{job.text}{MARK}0".encode())]


def test_outputs_are_right_only_if_all_of_them_are_those_of_the_job() -> None:
    job, other = plan_jobs(2, 1, (0.1, 0.2))
    image, text = outputs_of(job)
    assert job.faults_of([image, text]) == []
    assert job.faults_of([image])
    assert job.faults_of([image, text, text])
    assert job.faults_of([outputs_of(other)[0], text])
    assert job.faults_of([image, outputs_of(other)[1]])
    assert job.faults_of([("images", image[1][:60]), text])


def test_same_seed_gives_the_same_jobs_and_no_two_alike() -> None:
    jobs = plan_jobs(300, 7, (0.1, 0.2))
    assert jobs == plan_jobs(300, 7, (0.1, 0.2))
    assert jobs != plan_jobs(300, 8, (0.1, 0.2))
    assert len({job.colour for job in jobs}) == len({job.key for job in jobs}) == 300
    assert any(job.cancel_after is not None for job in jobs)
    assert any(job.is_followed for job in jobs)


# Figures


def test_recovery_is_counted_to_the_next_end_of_a_job_that_was_there_before(
    tmp_path: Path,
) -> None:
    strikes = [Strike("k", "", 0, 10.0), Strike("k", "", 90.0, 100.0)]
    disturbed = Strike("k", "", 12.0, 12.5)
    # Accepted at, ended at: over before, there before, later ones.
    times = [(1.0, 9.0), (2.0, 15.0), (3.0, 13.0), (10.5, 11.0)]
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        for job, (accepted, ended) in zip(plan_jobs(4, 0, (0, 0)), times, strict=True):
            entry = ledger.acknowledge(job, job.key)
            entry.acknowledged_at, entry.ended_at = accepted, ended
    assert recovery_seconds(strikes, ledger) == [3.0]
    assert recovery_seconds([strikes[0], disturbed], ledger) == [0.5]


def test_percentiles() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.5, 0.99, 1)] == [50, 99, 100]
    assert percentile([], 0.5) is None


def test_kinds_are_found_by_name_alone_or_together() -> None:
    assert [fault.name for fault in faults_named("worker-kill+disk-full")] == [
        "worker-kill",
        "disk-full",
    ]
    assert faults_named("mixed") == ALL_FAULTS
    with pytest.raises(ConfigurationError, match=r"'server-kil'.*server-kill"):
        faults_named("server-kil")


# The clock


def test_process_sees_the_wall_clock_jump_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "offset"
    offset = ClockOffset(path)
    offset.jump(7200)
    offset.jump(-200)
    program = (
        "import sys, time; from pathlib import Path; "
        "from comfyrail.faultlab.clock_offset import ClockOffset; "
        "from comfyrail.faultlab.shifted_clock import shift_wall_clock; "
        "shift_wall_clock(ClockOffset(Path(sys.argv[1]))); "
        "print(time.time(), time.time_ns() / 1e9, time.monotonic())"
    )
    command = [sys.executable, "-c", program, str(path)]
    before, steady = time.time(), time.monotonic()
    said = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    seconds, nanoseconds, monotonic = map(float, said)
    assert before + 7000 <= seconds <= time.time() + 7000
    assert before + 7000 <= nanoseconds <= time.time() + 7000
    assert steady <= monotonic <= time.monotonic()
    offset.close()


def test_command_runs_as_usual_under_a_shifted_clock(tmp_path: Path) -> None:
    module = "comfyrail.faultlab.shifted_clock"
    command = [sys.executable, "-m", module, str(tmp_path / "offset"), "--version"]
    said = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert said.startswith("comfyrail ")


# The disk

WRITING = """
import sys
for path in sys.stdin:
    try:
        with open(path.strip(), "wb") as file:
            file.write(b"x")
        print("written", flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
"""


def test_process_with_limited_files_cannot_write_until_the_limit_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITING]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def write() -> str:
            print(tmp_path / "file", file=process.stdin, flush=True)
            assert process.stdout is not None
            return process.stdout.readline().strip()

        assert write() == "written"
        with files_limited(process.pid):
            assert write() == "File too large"
        assert write() == "written"
        process.stdin.close()


async def test_disk_of_its_own_fills_up_and_has_room_again(tmp_path: Path) -> None:
    obstacle = loop_disk_obstacle()
    if obstacle is not None:
        pytest.skip(f"NO DISK OF OUR OWN HERE, this is not tested: {obstacle}")
    async with loop_disk(tmp_path, 16) as disk:
        file = disk.data.with_name("file")
        file.write_bytes(bytes(100_000))
        await disk.fill()
        with pytest.raises(OSError, match="No space left"):
            file.with_name("other").write_bytes(bytes(100_000))
        await disk.make_room()
        file.with_name("other").write_bytes(bytes(100_000))
        await disk.turn_read_only()
        with pytest.raises(OSError, match="Read-only"):
            file.write_bytes(b"x")
        await disk.repair()
        file.write_bytes(b"x")
        await disk.freeze(0.1)
        file.write_bytes(b"y")
    assert not disk.data.parent.is_mount()


# Lines


@asynccontextmanager
async def echo_behind_a_proxy() -> AsyncIterator[LineProxy]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while content := await reader.read(100):
                writer.write(content)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, proxy_to(server.sockets[0].getsockname()[1]) as proxy:
        yield proxy


@asynccontextmanager
async def line_through(
    proxy: LineProxy,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def test_line_carries_both_ways_and_breaks_with_a_reset() -> None:
    async with echo_behind_a_proxy() as proxy, line_through(proxy) as (reader, writer):
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        proxy.drop()
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
    assert not reader.at_eof()


async def test_silent_line_carries_nothing_until_it_speaks_again() -> None:
    async with echo_behind_a_proxy() as proxy, line_through(proxy) as (reader, writer):
        writer.write(b"a")
        assert await reader.readexactly(1) == b"a"
        proxy.fall_silent()
        writer.write(b"b")
        async with line_through(proxy) as (new_reader, new_writer):
            new_writer.write(b"c")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await asyncio.gather(reader.readexactly(1), new_reader.readexactly(1))
            proxy.speak_again()
            async with asyncio.timeout(10):
                assert await reader.readexactly(1) == b"b"
                assert await new_reader.readexactly(1) == b"c"


async def test_slow_line_takes_its_time() -> None:
    async with echo_behind_a_proxy() as proxy, line_through(proxy) as (reader, writer):
        proxy.slow_down(0.1)
        began = time.monotonic()
        writer.write(b"a")
        assert await reader.readexactly(1) == b"a"
        assert time.monotonic() - began >= 0.2


async def test_line_to_nothing_is_reset() -> None:
    async with proxy_to(1) as proxy, line_through(proxy) as (reader, _):
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
