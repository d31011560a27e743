"""What runs do on the disk: folders that are allowed, names, and the files of their states."""

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from comfyrail.access.principal import Principal
from comfyrail.clock import Instant, SystemClock
from comfyrail.errors import RequestError
from comfyrail.ids import JobId, OutputId, TenantId
from comfyrail.jobs.job import NewOutput, Output
from comfyrail.results.disk_blobs import DiskBlobStore
from comfyrail.store.interface import Store
from comfyrail.store.sqlite.store import open_sqlite_store
from comfyrail.usecases.run_fetch import OutputFetcher, free_name
from comfyrail.usecases.run_folders import RunFolders, folder_name
from comfyrail.usecases.run_state_files import WRITES_A_SECOND, RunStateFiles
from comfyrail.workflow.graph import parse_workflow
from comfyrail.workflow.output_folders import saving_into
from tests.graphs import picture
from tests.processes import wait_until

TENANT = TenantId("t")
ANN = Principal(TENANT)

parts = st.sampled_from(["a", "..", ".", "", "/", "link", "etc", "~", "b c", "\\", "%2e%2e", "é"])


# Folders


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(parts, max_size=6), is_absolute=st.booleans(), has_tenants=st.booleans())
def test_no_path_leads_out_of_the_folders(
    tmp_path: Path, pieces: list[str], is_absolute: bool, has_tenants: bool
) -> None:
    root = tmp_path / "root"
    (root / "t").mkdir(parents=True, exist_ok=True)
    for place in (root, root / "t"):
        if not (place / "link").is_symlink():
            (place / "link").symlink_to("/etc")
    text = ("/" if is_absolute else "") + "/".join(pieces)
    folders = RunFolders([root], has_tenants=has_tenants)
    allowed = root / "t" if has_tenants else root
    try:
        found = folders.folder(ANN, text)
    except RequestError:
        return
    assert found.resolve().is_relative_to(allowed)
    assert folders.contains(TENANT, found)


def test_tenants_have_folders_of_their_own(tmp_path: Path) -> None:
    folders = RunFolders([tmp_path], has_tenants=True)
    mine = folders.folder(ANN, "out")
    assert mine == tmp_path / "t" / "out"
    with pytest.raises(RequestError):
        folders.folder(Principal(TenantId("another")), str(mine))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x" * 300, "too long"),
        ("ok/" + "ü" * 200, "too long"),
        ("/".join(["deep"] * 900), "too long"),
        ("loop/below", "links"),
        ("loop", "links"),
        ("file/below/it", "is a file"),
        ("file", "is a file"),
    ],
)
def test_folder_that_can_never_be_made_is_refused_with_the_reason(
    tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("in the way")
    folders = RunFolders([tmp_path])
    with pytest.raises(RequestError, match=why) as caught:
        folders.folder(ANN, text)
    assert caught.value.code == "PATH_REFUSED"
    for field in ("workflow_file", "input_images"):
        with pytest.raises(RequestError):
            folders.file(ANN, text + "/a", field)
    assert not folders.contains(TENANT, tmp_path / "loop" / "x")
    folders.contains(TENANT, tmp_path / text)


@given(name=st.text(min_size=1, max_size=30))
def test_folder_of_a_tenant_is_one_name_that_no_other_tenant_has(name: str) -> None:
    try:
        made = folder_name(TenantId(name))
    except UnicodeEncodeError:
        return
    assert "/" not in made
    assert made not in {".", ".."}
    assert folder_name(TenantId(name + "x")) != made


# Fetching


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


CONTENT = b"bytes of it"


async def saved(blobs: DiskBlobStore, name: str = "a.png") -> Output:
    async def chunks() -> AsyncIterator[bytes]:
        yield CONTENT

    blob = await blobs.save(chunks())
    file = NewOutput(
        OutputId("o" + name),
        "1",
        "images",
        name,
        "",
        False,
        "image/png",
        blob.size,
        blob.sha256,
        blob.key,
    )
    return Output(JobId("j"), 1, 0, False, Instant(0), file)


async def test_file_is_written_once_and_never_over_another_one(tmp_path: Path) -> None:
    blobs = DiskBlobStore(tmp_path / "blobs")
    fetcher = OutputFetcher(RunFolders([tmp_path]), blobs)
    folder = tmp_path / "out"
    one = await saved(blobs)
    (planned,) = await fetcher.plan(TENANT, folder, [one])
    assert planned.filename == "a.png"
    assert await fetcher.bring(TENANT, folder, one, "a.png")
    inode = (folder / "a.png").stat().st_ino
    assert await fetcher.bring(TENANT, folder, one, "a.png")
    assert (folder / "a.png").stat().st_ino == inode
    await fetcher.settle(TENANT, folder, [one])
    (folder / "b.png").write_bytes(b"somebody else's")
    (folder / "c.png").symlink_to("/etc/passwd")
    (folder / "d.png").write_bytes(CONTENT)  # the same bytes, and somebody else's still
    for name in ("b.png", "c.png", "d.png"):
        assert not await fetcher.bring(TENANT, folder, one, name)
    assert (folder / "b.png").read_bytes() == b"somebody else's"
    assert len(list(folder.iterdir())) == 4


async def test_file_that_was_half_written_is_written_anew(tmp_path: Path) -> None:
    blobs = DiskBlobStore(tmp_path / "blobs")
    fetcher = OutputFetcher(RunFolders([tmp_path]), blobs)
    one = await saved(blobs)
    (tmp_path / f".{one.file.id}.part").write_bytes(b"byt")
    assert await fetcher.bring(TENANT, tmp_path, one, "a.png")
    await fetcher.settle(TENANT, tmp_path, [one])
    assert (tmp_path / "a.png").read_bytes() == CONTENT
    assert names_in(tmp_path) == ["a.png", "blobs"]


def test_names_that_are_taken_get_a_number() -> None:
    assert free_name("a.png", set()) == "a.png"
    assert free_name("a.png", {"a.png", "a (1).png"}) == "a (2).png"
    assert free_name("noending", {"noending"}) == "noending (1)"
    assert free_name(".hidden", {".hidden"}) == ".hidden (1)"


# Where a worker saves


def test_prefixes_that_are_written_in_the_graph_get_the_folder() -> None:
    graph = picture()
    graph["4"] = {
        "class_type": "SaveImage",
        "inputs": {"images": ["2", 0], "filename_prefix": ["1", 0]},
    }
    changed = saving_into(parse_workflow(graph), "run-1").nodes
    assert changed["3"].inputs["filename_prefix"] == "run-1/test"
    assert changed["4"].inputs["filename_prefix"] == ["1", 0]


# States as files


class CountedFiles(RunStateFiles):
    def __init__(self, folder: Path, store: Store) -> None:
        super().__init__(folder, store, SystemClock())
        self.moments: list[float] = []

    def _apply(self, tenant: TenantId, run_id: str, content: bytes | None) -> None:
        self.moments.append(time.monotonic())
        super()._apply(tenant, run_id, content)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_sqlite_store(tmp_path / "data", SystemClock())
    yield opened
    await opened.close()


async def test_files_are_written_ten_times_a_second_at_most_and_end_with_the_newest(
    tmp_path: Path, store: Store
) -> None:
    files = CountedFiles(tmp_path / "states", store)
    running = asyncio.create_task(files.run())
    end = time.monotonic() + 0.6
    number = 0
    while time.monotonic() < end:
        number += 1
        for run_id in ("one", "two"):
            files.put(TENANT, run_id, b'{"version": %d}' % number)
        await asyncio.sleep(0.005)
    newest = b'{"version": %d}' % number
    paths = [tmp_path / "states" / "t" / f"{name}.json" for name in ("one", "two")]
    await asyncio.to_thread(
        wait_until,
        lambda: all(path.is_file() and path.read_bytes() == newest for path in paths),
    )
    gaps = [after - before for before, after in pairwise(files.moments)]
    assert min(gaps) >= 0.9 / WRITES_A_SECOND
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_waits_is_written_when_the_server_stops(tmp_path: Path, store: Store) -> None:
    files = RunStateFiles(tmp_path / "states", store, SystemClock())
    running = asyncio.create_task(files.run())
    await asyncio.sleep(0)
    for name in ("one", "two", "three"):
        files.put(TENANT, name, b'{"version": 1}')
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(list((tmp_path / "states" / "t").iterdir())) == 3


async def test_file_that_the_store_knows_nothing_of_goes_at_the_next_start(
    tmp_path: Path, store: Store
) -> None:
    stray = tmp_path / "states" / "t" / "gone.json"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b'{"version": 1}')
    files = RunStateFiles(tmp_path / "states", store, SystemClock())
    running = asyncio.create_task(files.run())
    await asyncio.to_thread(wait_until, lambda: not stray.exists())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    "content", [b"[" * 200_000, b'{"version": ' + b"9" * 5000 + b"}", b"\xff\xfe", b"", b"null"]
)
@pytest.mark.parametrize("is_after_a_restart", [False, True])
async def test_spoilt_file_is_set_aside_and_the_others_are_written_still(
    tmp_path: Path, store: Store, content: bytes, is_after_a_restart: bool
) -> None:
    path = tmp_path / "states" / "t" / "one.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    files = RunStateFiles(tmp_path / "states", store, SystemClock())
    running = asyncio.create_task(files.run())
    wanted = {"two": b'{"version": 2}'}
    if is_after_a_restart:
        await asyncio.to_thread(wait_until, lambda: not path.exists())
    else:
        wanted["one"] = b'{"version": 1}'
    for name, text in wanted.items():
        files.put(TENANT, name, text)
    await asyncio.to_thread(
        wait_until,
        lambda: all(
            (found := path.with_name(f"{name}.json")).is_file() and found.read_bytes() == text
            for name, text in wanted.items()
        ),
    )
    (aside,) = path.parent.glob("one.json.corrupt-*")
    assert aside.read_bytes() == content
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_one_file_that_cannot_be_written_does_not_end_the_others(
    tmp_path: Path, store: Store
) -> None:
    class Failing(RunStateFiles):
        def _apply(self, tenant: TenantId, run_id: str, content: bytes | None) -> None:
            if run_id == "bad":
                raise RuntimeError("whatever this is")
            super()._apply(tenant, run_id, content)

    files = Failing(tmp_path / "states", store, SystemClock())
    running = asyncio.create_task(files.run())
    files.put(TENANT, "bad", b'{"version": 1}')
    files.put(TENANT, "good", b'{"version": 1}')
    await asyncio.to_thread(wait_until, (tmp_path / "states" / "t" / "good.json").is_file)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
