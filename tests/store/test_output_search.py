"""Searching outputs in SQLite: by names and texts in any script, and never at others' cost."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from comfyrail.errors import StoreUnavailable
from comfyrail.ids import BatchId, OutputId, TenantId, new_output_id
from comfyrail.jobs.job import NewOutput
from comfyrail.jobs.outcome import Completed
from comfyrail.results.indexer import Indexer
from comfyrail.store.outputs import OutputQuery
from comfyrail.store.sqlite import readers
from comfyrail.store.sqlite.readers import Snapshot
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.store.test_store import TENANT, ManualClock, new_job, start


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_sqlite_store(tmp_path, ManualClock())
    yield opened
    await opened.close()


async def make(store: SqliteStore, text: str = "", name: str = "a.png") -> str:
    """A finished job with one output, findable; its output's id."""
    prompt = {"1": {"class_type": "Note", "inputs": {"text": text}}}
    job = new_job(ManualClock(), prompt=json.dumps(prompt).encode())
    await store.add_job(job)
    attempt = await start(store, job)
    output = NewOutput(
        new_output_id(),
        "9",
        "images",
        name,
        "",
        is_temporary=False,
        content_type="image/png",
        size=1,
        sha256="0" * 64,
        blob_key="00/" + "0" * 64,
        blake3=None,
    )
    await store.finish_attempt(attempt.token, Completed((output,)))
    await Indexer(store).catch_up()
    return output.id


async def found(store: SqliteStore, query: OutputQuery, limit: int = 50) -> list[str]:
    page = await store.search_outputs(TENANT, query, None, limit)
    return [each.output.file.id for each in page.outputs]


@pytest.mark.parametrize(
    "words",
    ["über", "ÜBER straße", "Über_Straße_0", "STRASSE", "ber_stra"],
    ids=["lower", "upper", "as-it-is", "sharp-s", "part"],
)
async def test_name_is_found_whatever_its_letters_are(store: SqliteStore, words: str) -> None:
    output = await make(store, name="Über_Straße_00001_.png")
    await make(store, name="other.png")
    text = words.replace(" ", "_")
    assert await found(store, OutputQuery(text=text)) == [output]


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("一个女孩在海边跑步", "女孩"),
        ("一个女孩在海边跑步, masterpiece", "海边 master"),
        ("夕焼けのビーチで走る", "ビーチ"),
        ("바닷가에서 달리는 소녀", "가에서"),
        ("красивый закат", "КРАСИВЫЙ закат"),
        ("heritage prompt", "heritage _ prompt"),
        ("a red-fox, x2", "red - fox"),
    ],
    ids=["chinese", "mixed", "japanese", "korean", "russian", "line", "dash"],
)
async def test_words_of_any_script_are_found(store: SqliteStore, prompt: str, words: str) -> None:
    output = await make(store, prompt)
    await make(store, "孩女 一 チービ 서에 something else")
    assert await found(store, OutputQuery(text=words)) == [output]


async def test_text_without_any_word_finds_nothing_by_prompts(store: SqliteStore) -> None:
    await make(store, "some words")
    for text in ("_", "🐱", "* OR", '"'):
        assert await found(store, OutputQuery(text=text)) == []


async def test_signs_of_patterns_stand_for_themselves(store: SqliteStore) -> None:
    await make(store)
    for kind in ("*", "im?ge", "[a-z]mage", "*" * 100):
        assert await found(store, OutputQuery(kinds=frozenset({kind}))) == []
    for kind in ("image", "image/png", "images"):
        assert len(await found(store, OutputQuery(kinds=frozenset({kind, "video"})))) == 1


async def test_finds_by_name_and_by_text_are_one_list_in_order(store: SqliteStore) -> None:
    outputs = [
        await make(store, "fox" if number % 2 else "", "x.png" if number % 2 else "fox.png")
        for number in range(6)
    ]
    both = await make(store, "fox", "fox.png")
    newest_first = [both, *reversed(outputs)]
    assert await found(store, OutputQuery(text="fox")) == newest_first
    assert await found(store, OutputQuery(text="fox"), 3) == newest_first[:3]


async def test_narrow_search_looks_at_its_own_jobs_alone(store: SqliteStore) -> None:
    from comfyrail.store.sqlite.queries import QUERIES

    def plan(snapshot: Snapshot) -> str:
        sql = "\n".join(
            line
            for line in QUERIES["outputs_of_jobs"].splitlines()
            if "--?" not in line or line.endswith("batch_id")
        )
        names = ("tenant", "batch_id", "with_temporary", "with_gone", "limit")
        rows = snapshot._connection.execute(f"EXPLAIN QUERY PLAN {sql}", dict.fromkeys(names, 1))
        return " ".join(str(row["detail"]) for row in rows)

    steps = await store._readers.read(plan)
    assert "batch_id=?" in steps
    assert "outputs USING PRIMARY KEY (job_id=?)" in steps
    assert await found(store, OutputQuery(batch_id=BatchId("none"))) == []


async def test_outputs_are_found_by_their_ids_and_by_nothing_else(store: SqliteStore) -> None:
    first, second, third = [await make(store, "fox") for _ in range(3)]
    wanted = frozenset({OutputId(first), OutputId(third), OutputId("none")})
    assert await found(store, OutputQuery(ids=wanted)) == [third, first]
    assert await found(store, OutputQuery(ids=wanted, text="fox"), 1) == [third]
    assert await found(store, OutputQuery(ids=wanted, text="owl")) == []
    assert await found(store, OutputQuery(ids=frozenset({OutputId("none")}))) == []
    other = await store.search_outputs(TenantId("other"), OutputQuery(ids=wanted), None, 9)
    assert other.outputs == []
    assert second not in wanted


async def test_search_by_ids_looks_at_these_alone(store: SqliteStore) -> None:
    from comfyrail.store.sqlite.queries import QUERIES

    def plan(snapshot: Snapshot) -> str:
        sql = "\n".join(
            line
            for line in QUERIES["walk_outputs"].splitlines()
            if "--?" not in line or line.endswith("--? ids")
        )
        values = {"tenant": "x", "ids": "[]", "with_temporary": 0, "with_gone": 0, "limit": 1}
        rows = snapshot._connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)
        return " ".join(str(row["detail"]) for row in rows)

    assert "outputs_of_tenant (tenant=? AND id=?)" in await store._readers.read(plan)


async def test_search_that_takes_too_long_is_ended_with_advice(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(store)
    monkeypatch.setattr(readers, "STEPS_BETWEEN_LOOKS", 1)
    monkeypatch.setattr(store._readers._searches, "_limit", -1.0)
    with pytest.raises(StoreUnavailable, match="Narrow it") as caught:
        await found(store, OutputQuery(text="a"))
    assert caught.value.code == "SEARCH_TOO_LONG"
    monkeypatch.undo()
    assert len(await found(store, OutputQuery(text="a"))) == 1


async def test_searches_keep_no_other_read_waiting_and_are_not_without_end(
    store: SqliteStore,
) -> None:
    is_over = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait(_snapshot: Snapshot) -> None:
        asyncio.run_coroutine_threadsafe(is_over.wait(), loop).result()

    search = store._readers.search
    searches = [asyncio.create_task(search(wait)) for _ in range(readers.MOST_SEARCHES)]
    try:
        async with asyncio.timeout(30):
            await store.count_jobs()
            with pytest.raises(StoreUnavailable) as caught:
                await found(store, OutputQuery())
    finally:
        is_over.set()
        await asyncio.gather(*searches)
    assert caught.value.code == "TOO_MANY_SEARCHES"
    assert await found(store, OutputQuery()) == []
