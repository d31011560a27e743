"""The library as folders [1.4]."""

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest

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
from comfyrail.library.library import WorkflowLibrary
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
