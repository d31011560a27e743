"""The library as folders [1.4]."""

import asyncio
import contextlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from comfyrail.access.principal import LOCAL_USER
from comfyrail.errors import (
    Conflict,
    InvalidLibraryEntry,
    LibraryEntryNotFound,
    PayloadTooLarge,
    StoreUnavailable,
)
from comfyrail.ids import TenantId
from comfyrail.library import library as library_module
from comfyrail.library import writer as writer_module
from comfyrail.library.files import LIMITS
from comfyrail.library.folder import LibraryFolder, StoredVersion
from comfyrail.library.library import WorkflowLibrary
from comfyrail.library.writer import FolderWriter
from comfyrail.usecases.library import Draft, Library
from comfyrail.workflow.catalog import NodeCatalog
from tests.graphs import picture
from tests.library.parts import LOCAL, accept_all, names_in, png, workflow_file

OTHER = TenantId("someone")


async def save(library: WorkflowLibrary, name: str, **content: object) -> int:
    added = await library.save(LOCAL, name, workflow_file(content), accept_all)
    return added.versions[-1]


async def stored(library: WorkflowLibrary, name: str, version: int | None = None) -> object:
    found = await library.read(LOCAL, name, version)
    return json.loads(found.files["workflow.json"])


def by_hand(tmp_path: Path, name: str, **content: object) -> Path:
    folder = tmp_path / "workflows" / name
    folder.mkdir(parents=True)
    (folder / "workflow.json").write_text(json.dumps(content))
    return folder


async def test_every_save_is_a_version_and_the_newest_is_at_the_top(
    library: WorkflowLibrary, tmp_path: Path
) -> None:
    assert [await save(library, "poster", number=number) for number in (1, 2, 3)] == [1, 2, 3]
    assert await stored(library, "poster") == {"number": 3}
    assert await stored(library, "poster", 1) == {"number": 1}
    folder = tmp_path / "workflows" / "poster"
    assert json.loads((folder / "workflow.json").read_text()) == {"number": 3}
    assert sorted(each.name for each in (folder / "versions").iterdir()) == ["1", "2", "3"]
    assert names_in(tmp_path / "workflows" / ".incoming") == []


async def test_what_is_not_given_stays_and_none_takes_it_away(
    library: WorkflowLibrary, tmp_path: Path
) -> None:
    first = workflow_file({}) | {"description.md": b"# Hello\n", "preview.png": png()}
    await library.save(LOCAL, "poster", first, accept_all)
    await save(library, "poster", number=2)
    kept = await library.read(LOCAL, "poster")
    assert kept.files["description.md"] == b"# Hello\n"
    assert kept.has_preview
    away = workflow_file({}) | {"preview.png": None}
    await library.save(LOCAL, "poster", away, accept_all)
    assert not (await library.read(LOCAL, "poster")).has_preview
    assert (await library.read(LOCAL, "poster", 2)).has_preview
    assert not (tmp_path / "workflows" / "poster" / "preview.png").exists()


async def test_folder_made_by_hand_is_version_1_and_stays_it(
    library: WorkflowLibrary, tmp_path: Path
) -> None:
    folder = by_hand(tmp_path, "mine", by="hand")
    (folder / "description.md").write_text("\n## By hand\nand more")
    page = await library.page(LOCAL, "", 10)
    assert [(each.name, each.version, each.summary) for each in page.entries] == [
        ("mine", 1, "By hand")
    ]
    assert await save(library, "mine", by="program") == 2
    assert await stored(library, "mine", 1) == {"by": "hand"}
    assert await stored(library, "mine") == {"by": "program"}
    assert (await library.read(LOCAL, "mine", 1)).files["description.md"].startswith(b"\n## By")


async def test_top_of_a_folder_is_only_a_copy(library: WorkflowLibrary, tmp_path: Path) -> None:
    await save(library, "poster", number=1)
    (tmp_path / "workflows" / "poster" / "workflow.json").unlink()
    assert await stored(library, "poster") == {"number": 1}


async def test_concurrent_saves_get_different_versions(library: WorkflowLibrary) -> None:
    numbers = await asyncio.gather(*(save(library, "busy", number=each) for each in range(20)))
    assert sorted(numbers) == list(range(1, 21))
    for each, number in enumerate(numbers):
        assert await stored(library, "busy", number) == {"number": each}


async def test_two_libraries_on_one_folder_do_not_take_each_others_versions(
    library: WorkflowLibrary, tmp_path: Path
) -> None:
    other = WorkflowLibrary(tmp_path, LOCAL)
    try:
        saves = [save(each, "busy", n=number) for number in range(10) for each in (library, other)]
        numbers = await asyncio.gather(*saves)
    finally:
        other.close()
    assert sorted(numbers) == list(range(1, 21))


async def test_too_many_waiting_writes_are_refused(library: WorkflowLibrary) -> None:
    wanted = library_module.MOST_WAITING + 5
    ended = await asyncio.gather(
        *(save(library, "busy", n=number) for number in range(wanted)), return_exceptions=True
    )
    assert sum(isinstance(each, StoreUnavailable) for each in ended) == 5


async def test_list_goes_by_pages_in_the_order_of_names(library: WorkflowLibrary) -> None:
    for name in ("b", "a.1", "c_d", "a"):
        await save(library, name)
    first = await library.page(LOCAL, "", 3)
    assert [each.name for each in first.entries] == ["a", "a.1", "b"]
    assert first.next_cursor == "b"
    rest = await library.page(LOCAL, "b", 3)
    assert ([each.name for each in rest.entries], rest.next_cursor) == (["c_d"], None)


async def test_what_is_no_workflow_is_not_listed(library: WorkflowLibrary, tmp_path: Path) -> None:
    root = tmp_path / "workflows"
    (root / "empty").mkdir()
    (root / "file").write_text("x")
    by_hand(tmp_path, "Upper Case")
    by_hand(tmp_path, "execute")
    broken = root / "broken" / "versions" / "4"
    broken.mkdir(parents=True)
    await save(library, "good")
    assert [each.name for each in (await library.page(LOCAL, "", 9)).entries] == ["good"]
    with pytest.raises(InvalidLibraryEntry, match=r"has no workflow\.json"):
        await library.read(LOCAL, "broken")
    assert await save(library, "empty") == 1


async def test_links_are_not_followed(library: WorkflowLibrary, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "workflow.json").write_text('{"a": "secret"}')
    root = tmp_path / "workflows"
    (root / "linked").symlink_to(secret)
    by_hand(tmp_path, "inner")
    (root / "inner" / "workflow.json").unlink()
    (root / "inner" / "workflow.json").symlink_to(secret / "workflow.json")
    by_hand(tmp_path, "outer")
    (root / "outer" / "description.md").symlink_to(secret / "workflow.json")
    (root / "outer" / "versions").symlink_to(secret)
    for name in ("linked", "inner"):
        with pytest.raises(LibraryEntryNotFound):
            await library.read(LOCAL, name)
    for name in ("linked", "outer"):
        with pytest.raises(InvalidLibraryEntry, match="must be a folder, and no link"):
            await save(library, name)
    assert set((await library.read(LOCAL, "outer")).files) == {"workflow.json"}
    assert names_in(secret) == ["workflow.json"]


async def test_pipe_in_place_of_a_file_makes_nobody_wait(
    library: WorkflowLibrary, tmp_path: Path
) -> None:
    folder = by_hand(tmp_path, "piped")
    os.mkfifo(folder / "description.md")
    assert set((await library.read(LOCAL, "piped")).files) == {"workflow.json"}


async def test_other_tenant_sees_nothing(library: WorkflowLibrary, tmp_path: Path) -> None:
    await save(library, "mine", of="local")
    changes = workflow_file({"of": "someone"})
    for tenant in (OTHER, TenantId("../../workflows"), TenantId(""), TenantId("LOCAL")):
        assert (await library.page(tenant, "", 9)).entries == []
        with pytest.raises(LibraryEntryNotFound):
            await library.read(tenant, "mine")
        assert (await library.save(tenant, "mine", changes, accept_all)).is_new
    assert await stored(library, "mine") == {"of": "local"}
    assert len(names_in(tmp_path / "tenants")) == 4
    assert names_in(tmp_path) == ["tenants", "workflows"]
    await library.delete(OTHER, "mine")
    assert await stored(library, "mine") == {"of": "local"}


async def test_delete_removes_all_and_a_new_start_is_version_1(library: WorkflowLibrary) -> None:
    await save(library, "poster")
    await save(library, "poster")
    await library.delete(LOCAL, "poster")
    with pytest.raises(LibraryEntryNotFound):
        await library.delete(LOCAL, "poster")
    assert await save(library, "poster") == 1


async def test_unknown_name_and_version_are_explained(library: WorkflowLibrary) -> None:
    await save(library, "poster")
    with pytest.raises(LibraryEntryNotFound, match="Did you mean 'poster'"):
        await library.read(LOCAL, "postre")
    with pytest.raises(LibraryEntryNotFound, match="has no version 7: the newest is 1") as caught:
        await library.read(LOCAL, "poster", 7)
    assert caught.value.code == "WORKFLOW_VERSION_NOT_FOUND"


async def test_name_that_differs_in_case_only_is_refused(
    library: WorkflowLibrary, tmp_path: Path
) -> None:
    by_hand(tmp_path, "Poster")
    with pytest.raises(Conflict, match="in case only"):
        await save(library, "poster")


async def test_file_that_is_too_large_or_no_png_is_refused(library: WorkflowLibrary) -> None:
    large = workflow_file({}) | {"description.md": b"x" * (65 << 10)}
    with pytest.raises(PayloadTooLarge, match="larger than 64 KiB"):
        await library.save(LOCAL, "poster", large, accept_all)
    for content in (b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", b"\x89PNG\r\n\x1a\n" + bytes(20)):
        with pytest.raises(InvalidLibraryEntry, match="not a PNG"):
            await library.save(
                LOCAL, "poster", workflow_file({}) | {"preview.png": content}, accept_all
            )
    assert (await library.page(LOCAL, "", 9)).entries == []


async def test_number_of_versions_is_limited(
    library: WorkflowLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "MOST_VERSIONS", 2)
    await save(library, "poster")
    await save(library, "poster")
    with pytest.raises(Conflict, match="more than 2 versions"):
        await save(library, "poster")


async def test_number_of_workflows_is_limited(
    library: WorkflowLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "MOST_ENTRIES", 2)
    await save(library, "a")
    await save(library, "b")
    with pytest.raises(Conflict, match="delete one first"):
        await save(library, "c")
    assert await save(library, "a") == 2


async def test_leftovers_of_a_crash_are_cleared_at_the_start(
    library: WorkflowLibrary, tmp_path: Path
) -> None:
    await library.save(OTHER, "theirs", workflow_file({}), accept_all)
    roots = [tmp_path / "workflows", tmp_path / "tenants" / "someone" / "workflows"]
    for root in roots:
        (root / ".incoming" / "half" / "versions").mkdir(parents=True)
        (root / ".incoming" / "file").write_text("x")
    WorkflowLibrary(tmp_path, LOCAL).close()
    assert [names_in(root / ".incoming") for root in roots] == [[], []]
    assert (await library.read(OTHER, "theirs")).version == 1


async def test_preview_is_set_without_a_new_version(
    library: WorkflowLibrary, tmp_path: Path
) -> None:
    by_hand(tmp_path, "mine")
    assert await library.replace_preview(LOCAL, "mine", png("blue")) == 1
    found = await library.read(LOCAL, "mine")
    assert (found.files["preview.png"], found.versions) == (png("blue"), (1,))
    assert (tmp_path / "workflows" / "mine" / "preview.png").read_bytes() == png("blue")


async def test_disk_that_refuses_is_said_to_be_unavailable(
    library: WorkflowLibrary, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "workflows")
    (tmp_path / "workflows").write_text("in the way")
    with pytest.raises(StoreUnavailable):
        await save(library, "poster")


class Meanwhile:
    """Names of files to read, where something happens before the first time that they are read."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self._happens: list[Callable[[], object]] = [happens]

    def __iter__(self) -> Iterator[str]:
        while self._happens:
            self._happens.pop()()
        return iter(LIMITS)


def numbered(number: int) -> dict[str, bytes]:
    content = json.dumps({"number": number}).encode()
    return {"workflow.json": content, "description.md": str(number).encode()}


@pytest.fixture
def writer(library: WorkflowLibrary, tmp_path: Path) -> FolderWriter:
    del library
    return FolderWriter(LibraryFolder(tmp_path / "workflows", tmp_path))


async def test_version_that_was_made_by_hand_is_not_read_as_the_next_one(
    library: WorkflowLibrary, writer: FolderWriter, tmp_path: Path
) -> None:
    by_hand(tmp_path, "mine", number=1)
    meanwhile = Meanwhile(lambda: writer.add("mine", [numbered(2)]))
    found = await library.read(LOCAL, "mine", 1, meanwhile)
    assert json.loads(found.files["workflow.json"]) == {"number": 1}
    assert "description.md" not in found.files


async def test_workflow_that_is_deleted_while_it_is_read_is_not_there(
    library: WorkflowLibrary, writer: FolderWriter
) -> None:
    writer.add("mine", [numbered(1)])
    with pytest.raises(LibraryEntryNotFound):
        await library.read(LOCAL, "mine", 1, Meanwhile(lambda: writer.delete("mine")))


async def test_workflow_that_gets_the_name_while_another_is_read_is_read_as_a_whole(
    library: WorkflowLibrary, writer: FolderWriter
) -> None:
    writer.add("mine", [numbered(1), numbered(2) | {"preview.png": png()}])

    def another() -> None:
        writer.delete("mine")
        writer.add("mine", [numbered(3)])

    found = await library.read(LOCAL, "mine", None, Meanwhile(another))
    assert (found.version, found.versions, found.has_preview) == (1, (1,), False)
    assert json.loads(found.files["workflow.json"]) == {"number": 3}
    writer.add("mine", [numbered(4)])
    with pytest.raises(LibraryEntryNotFound):
        await library.read(LOCAL, "mine", 2, Meanwhile(another))


async def test_reading_while_workflows_come_and_go_finds_a_whole_one_or_none(
    library: WorkflowLibrary, writer: FolderWriter, tmp_path: Path
) -> None:
    is_over = threading.Event()

    def come_and_go() -> None:
        try:
            for number in range(0, 120, 3):
                writer.add("race", [numbered(number), numbered(number + 1)])
                writer.add("race", [numbered(number + 2)])
                writer.delete("race")
        finally:
            is_over.set()

    async def read(ask: Callable[[], Any]) -> int:
        found = 0
        while not is_over.is_set():
            with contextlib.suppress(LibraryEntryNotFound):
                got = await ask()
                found += 1
                if isinstance(got, StoredVersion):
                    number = json.loads(got.files["workflow.json"])["number"]
                    assert got.files["description.md"] == str(number).encode()
                    assert number % 3 == got.version - 1
        return found

    def bundle() -> Any:
        return library.export_bundle(LOCAL, "race", None)

    async def close(ask: Callable[[], Any]) -> None:
        (await ask()).close()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    found = await asyncio.gather(
        read(lambda: library.read(LOCAL, "race")),
        read(lambda: library.read(LOCAL, "race", 1)),
        read(lambda: library.read(LOCAL, "race", 2)),
        read(lambda: library.versions(LOCAL, "race")),
        read(lambda: library.page(LOCAL, "", 9)),
        read(lambda: close(bundle)),
    )
    thread.join()
    assert all(found), found
    assert names_in(tmp_path / "workflows") == [".incoming"]


@pytest.mark.parametrize("kind", ["file", "link"])
async def test_what_has_the_number_of_the_next_version_is_passed_over(
    library: WorkflowLibrary, tmp_path: Path, kind: str
) -> None:
    await save(library, "poster", number=1)
    in_the_way = tmp_path / "workflows" / "poster" / "versions" / "2"
    if kind == "file":
        in_the_way.write_text("x")
    else:
        in_the_way.symlink_to(tmp_path)
    assert await save(library, "poster", number=3) == 3
    assert (await library.read(LOCAL, "poster")).versions == (1, 3)
    with pytest.raises(LibraryEntryNotFound):
        await library.read(LOCAL, "poster", 2)


async def test_what_is_in_the_way_of_a_version_made_by_hand_is_named(
    library: WorkflowLibrary, tmp_path: Path
) -> None:
    folder = by_hand(tmp_path, "mine", by="hand")
    (folder / "versions").mkdir()
    (folder / "versions" / "1").write_text("x")
    with pytest.raises(InvalidLibraryEntry, match=r"workflows/mine/versions/1 .*must be a folder"):
        await save(library, "mine", by="program")
    assert await stored(library, "mine") == {"by": "hand"}
    (folder / "versions" / "1").unlink()
    assert await save(library, "mine", by="program") == 2


async def test_no_message_shows_where_the_data_folder_is(
    library: WorkflowLibrary, tmp_path: Path
) -> None:
    (tmp_path / "workflows" / "broken" / "versions" / "4").mkdir(parents=True)
    large = by_hand(tmp_path, "large")
    (large / "description.md").write_bytes(bytes(65 << 10))
    (tmp_path / "workflows" / "linked").symlink_to(tmp_path)
    theirs = tmp_path / "tenants" / "someone" / "workflows" / "broken" / "versions" / "1"
    theirs.mkdir(parents=True)
    for failing, said in (
        (library.read(LOCAL, "broken"), "into workflows/broken/versions/4 in the data folder"),
        (library.read(LOCAL, "large"), "workflows/large/description.md in the data folder"),
        (save(library, "linked"), "workflows/linked in the data folder"),
        (library.read(OTHER, "broken"), "into tenants/someone/workflows/broken/versions/1 in"),
    ):
        with pytest.raises(InvalidLibraryEntry) as caught:
            await failing
        assert said in caught.value.message
        assert str(tmp_path) not in caught.value.message


async def test_library_is_read_while_all_other_threads_are_busy(tmp_path: Path) -> None:
    folder = WorkflowLibrary(tmp_path, LOCAL)
    library = Library(folder, NodeCatalog)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    is_over = threading.Event()
    busy = loop.run_in_executor(None, is_over.wait, 60)
    try:
        async with asyncio.timeout(20):
            draft = Draft(json.dumps(picture()).encode())
            assert (await library.save(LOCAL_USER, "mine", draft)).versions == (1,)
            assert (await library.find(LOCAL_USER, "mine")).workflow == picture()
            assert (await library.show(LOCAL_USER, "mine", 1)).stored.version == 1
            assert len((await library.page(LOCAL_USER, "", 9)).entries) == 1
            assert len(await library.versions(LOCAL_USER, "mine")) == 1
            (await library.export_bundle(LOCAL_USER, "mine", None)).close()
    finally:
        is_over.set()
        await busy
        folder.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("library-")]
