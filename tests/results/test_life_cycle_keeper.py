"""Seven years in the life of outputs, on a clock that is set [8.4]."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from comfyrail.errors import OutputNotFound, StoreUnavailable
from comfyrail.ids import TenantId, new_output_id
from comfyrail.jobs.job import NewOutput, Output
from comfyrail.jobs.life_cycle import DAY_SECONDS, GoneReason
from comfyrail.jobs.outcome import Completed
from comfyrail.jobs.output_config import OutputConfig, Tier
from comfyrail.results import life_cycle_keeper
from comfyrail.results.disk_blobs import DiskBlobStore
from comfyrail.results.life_cycle_keeper import LifeCycleKeeper
from comfyrail.results.sweeper import BlobSweeper
from comfyrail.results.tiered_blobs import TieredBlobStore
from comfyrail.store.outputs import OutputQuery
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.store.test_store import TENANT, ManualClock, new_job, start

OTHER = TenantId("other")


@dataclass
class House:
    clock: ManualClock
    store: SqliteStore
    places: Mapping[str, DiskBlobStore]
    blobs: TieredBlobStore
    keeper: LifeCycleKeeper
    sweeper: BlobSweeper

    async def make(
        self, content: bytes, retention: Tier | None = None, tenant: TenantId = TENANT
    ) -> Output:
        """An output of a job of its own."""

        async def chunks() -> AsyncIterator[bytes]:
            yield content

        blob = await self.blobs.save(chunks())
        job = new_job(self.clock, tenant=tenant, output_config=OutputConfig(retention=retention))
        await self.store.add_job(job)
        attempt = await start(self.store, job)
        output = NewOutput(
            new_output_id(),
            "9",
            "images",
            "a.png",
            "",
            is_temporary=False,
            content_type="image/png",
            size=blob.size,
            sha256=blob.sha256,
            blob_key=blob.key,
            blake3=blob.blake3,
        )
        await self.store.finish_attempt(attempt.token, Completed((output,)))
        self.blobs.settle([blob.key], are_kept=True)
        return await self.store.find_output(tenant, output.id)

    async def live(self, days: float) -> None:
        """So many days pass, in which the keeper and the sweeper go around once."""
        self.clock.move(days * DAY_SECONDS)
        await self.keeper.go_round()
        await self.sweeper.look()

    async def place_of(self, output: Output) -> str | None:
        for name, store in self.places.items():
            try:
                await store.open(output.file.blob_key)
            except OutputNotFound:
                continue
            return name
        return None

    async def now(self, output: Output, tenant: TenantId = TENANT) -> Output:
        return await self.store.find_output(tenant, output.file.id)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    clock = ManualClock()
    store = await open_sqlite_store(tmp_path / "data", clock)
    places = {name: DiskBlobStore(tmp_path / name) for name in ("main", "archive", "glacier")}
    blobs = TieredBlobStore(
        places["main"], {"archive": places["archive"], "glacier": places["glacier"]}
    )
    keeper = LifeCycleKeeper(store, blobs, clock)
    yield House(clock, store, places, blobs, keeper, BlobSweeper(blobs, store))
    await store.close()


async def test_output_goes_through_all_tiers_in_seven_years(house: House) -> None:
    output = await house.make(b"long-lived")
    seen: list[tuple[int, Tier | None, str | None]] = []
    for day in range(7 * 365 + 2):
        found = await house.now(output)
        place = await house.place_of(output)
        state = (None if found.gone_at else found.tier, place)
        if not seen or seen[-1][1:] != state:
            seen.append((day, *state))
        await house.live(1)
    assert seen == [
        (0, Tier.IMMEDIATE, "main"),
        (1, Tier.STANDARD, "main"),
        (30, Tier.ARCHIVE, "archive"),
        (365, Tier.GLACIER, "glacier"),
        (7 * 365, None, None),
    ]
    gone = await house.now(output)
    assert gone.gone_reason is GoneReason.EXPIRED


@pytest.mark.parametrize(
    ("retention", "days"),
    [(Tier.IMMEDIATE, 1), (Tier.STANDARD, 30), (Tier.ARCHIVE, 365), (Tier.GLACIER, 2555)],
)
async def test_job_says_how_long_its_outputs_are_kept(
    house: House, retention: Tier, days: int
) -> None:
    output = await house.make(b"short-lived", retention)
    await house.live(days - 0.01)
    assert (await house.now(output)).gone_at is None
    assert await house.place_of(output) is not None
    await house.live(0.02)
    assert (await house.now(output)).gone_reason is GoneReason.EXPIRED
    assert await house.place_of(output) is None


async def test_server_that_was_off_for_years_catches_up_at_once(house: House) -> None:
    old = await house.make(b"old")
    await house.live(400)
    assert ((await house.now(old)).tier, await house.place_of(old)) == (Tier.GLACIER, "glacier")


async def test_content_that_a_younger_output_has_stays_where_that_one_needs_it(
    house: House,
) -> None:
    old = await house.make(b"the same")
    house.clock.move(29 * DAY_SECONDS)
    young = await house.make(b"the same", tenant=OTHER)
    await house.live(2)
    assert (await house.now(old)).tier is Tier.ARCHIVE
    assert await house.place_of(young) == "main"
    await house.live(40)
    assert await house.place_of(young) == "archive"


async def test_gone_output_leaves_the_same_content_of_another_job(house: House) -> None:
    short = await house.make(b"shared", Tier.IMMEDIATE)
    other = await house.make(b"shared")
    await house.live(2)
    assert (await house.now(short)).gone_at is not None
    assert await house.place_of(other) == "main"


async def test_quota_removes_the_oldest_first(house: House) -> None:
    outputs = [await house.make(bytes([number]) * 1000) for number in range(10)]
    keeper = LifeCycleKeeper(house.store, house.blobs, house.clock, quota=3500)
    await keeper.go_round()
    await house.sweeper.look()
    states = [(await house.now(each)).gone_reason for each in outputs]
    assert states == [GoneReason.QUOTA] * 7 + [None] * 3
    assert [await house.place_of(each) for each in outputs] == [None] * 7 + ["main"] * 3


async def test_equal_outputs_count_once_for_the_quota(house: House) -> None:
    outputs = [await house.make(b"x" * 1000) for _ in range(10)]
    keeper = LifeCycleKeeper(house.store, house.blobs, house.clock, quota=1500)
    await keeper.go_round()
    assert [(await house.now(each)).gone_at for each in outputs] == [None] * 10


async def test_bytes_of_a_tenant_are_less_by_what_is_gone(house: House) -> None:
    output = await house.make(b"y" * 1000)
    await house.make(b"z" * 500)
    before = await house.store.stored_bytes(TENANT)
    await house.store.end_outputs([output], GoneReason.DELETED)
    await house.store.end_outputs([output], GoneReason.DELETED)
    assert before - await house.store.stored_bytes(TENANT) == 1000


async def test_gone_outputs_are_found_only_when_asked_for(house: House) -> None:
    output = await house.make(b"w")
    await house.store.end_outputs([output], GoneReason.DELETED)
    hidden = await house.store.search_outputs(TENANT, OutputQuery(), None, 10)
    shown = await house.store.search_outputs(TENANT, OutputQuery(with_gone=True), None, 10)
    assert (len(hidden.outputs), len(shown.outputs)) == (0, 1)


async def test_two_keepers_at_once_do_no_harm(house: House) -> None:
    outputs = [await house.make(bytes([number])) for number in range(20)]
    house.clock.move(31 * DAY_SECONDS)
    second = LifeCycleKeeper(house.store, house.blobs, house.clock)
    await asyncio.gather(house.keeper.go_round(), second.go_round())
    assert {await house.place_of(each) for each in outputs} == {"archive"}


class BrokenMoves:
    """Blobs of which some cannot be moved."""

    def __init__(self, blobs: TieredBlobStore, broken: set[str]) -> None:
        self._blobs = blobs
        self.broken = broken
        self.tried: list[str] = []

    async def move(self, key: str, tier: str) -> None:
        self.tried.append(key)
        if key in self.broken:
            raise StoreUnavailable("it is damaged")
        await self._blobs.move(key, tier)

    def doubt(self, keys: Collection[str]) -> None:
        self._blobs.doubt(keys)


async def test_output_that_cannot_be_moved_stops_neither_others_nor_expiry_nor_quota(
    house: House,
) -> None:
    damaged = await house.make(b"damaged")
    short = await house.make(b"short", Tier.STANDARD)
    sound = await house.make(b"sound")
    blobs = BrokenMoves(house.blobs, {damaged.file.blob_key})
    keeper = LifeCycleKeeper(house.store, blobs, house.clock, quota=len(b"damaged" + b"sound") - 1)
    house.clock.move(31 * DAY_SECONDS)
    young = await house.make(b"12345678")
    await keeper.go_round()
    assert (await house.now(short)).gone_reason is GoneReason.EXPIRED
    assert (await house.now(sound)).gone_reason is GoneReason.QUOTA
    assert (await house.now(young)).gone_at is None
    assert (await house.now(damaged)).gone_reason is GoneReason.QUOTA


async def test_what_cannot_be_moved_is_tried_again_ever_more_rarely(house: House) -> None:
    outputs = [await house.make(bytes([number])) for number in range(5)]
    keys = [each.file.blob_key for each in outputs]
    blobs = BrokenMoves(house.blobs, set(keys[:4]))
    keeper = LifeCycleKeeper(house.store, blobs, house.clock)
    house.clock.move(31 * DAY_SECONDS)
    for _ in range(60):
        await keeper.go_round()
        house.clock.move(60)
    assert await house.place_of(outputs[4]) == "archive"
    assert max(blobs.tried.count(key) for key in keys) <= 4
    blobs.broken.clear()
    house.clock.move(DAY_SECONDS)
    await keeper.go_round()
    assert {await house.place_of(each) for each in outputs} == {"archive"}


async def test_clock_that_is_wrong_for_a_while_ends_nothing(house: House) -> None:
    output = await house.make(b"dear")
    await house.keeper.go_round()
    house.clock.set_forward(3000 * DAY_SECONDS)
    for _ in range(30):
        await house.keeper.go_round()
        house.clock.move(60)
    house.clock.set_forward(-3000 * DAY_SECONDS)
    for _ in range(120):
        await house.keeper.go_round()
        house.clock.move(60)
    found = await house.now(output)
    assert (found.gone_at, found.tier) == (None, Tier.IMMEDIATE)
    await house.live(2)
    assert (await house.now(output)).tier is Tier.STANDARD


async def test_clock_that_was_set_right_counts_after_an_hour(house: House) -> None:
    output = await house.make(b"late", Tier.IMMEDIATE)
    house.clock.set_forward(2 * DAY_SECONDS)
    for _ in range(63):
        await house.keeper.go_round()
        house.clock.move(60)
    assert (await house.now(output)).gone_reason is GoneReason.EXPIRED


async def test_bytes_are_summed_up_twice_however_many_outputs_go(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life_cycle_keeper, "AT_ONCE", 5)
    outputs = [await house.make(b"%05d" % number) for number in range(22)]
    looks = 0
    look = house.store.kept_bytes

    async def counted() -> int:
        nonlocal looks
        looks += 1
        return await look()

    monkeypatch.setattr(house.store, "kept_bytes", counted)
    await LifeCycleKeeper(house.store, house.blobs, house.clock, quota=5).go_round()
    left = [each for each in outputs if (await house.now(each)).gone_at is None]
    assert (left, looks) == (outputs[-1:], 2)
