"""Lanes as they are read: found by seeks in their index. Jobs behind a head are not touched."""

from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet

from comfyrail.ids import TenantId
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.priority import QueueClass
from comfyrail.jobs.queue import Lane, LaneKey
from comfyrail.store.interface import LanesRead
from comfyrail.store.sqlite.readers import Snapshot
from comfyrail.store.sqlite.rows import read_queued_job

SKIPPED_IN_A_CLASS = 4000
"""Lanes that one look passes over: somebody's thousands of groups must not make it long."""
GROUPS_AT_ONCE = 250
NEEDS_KEPT = 8192

_needs_by_group: dict[str, JobNeeds] = {}
"""What a group asks for never changes, for its name is made of that. Bounded."""


def read_lanes(
    snapshot: Snapshot,
    jobs_per_lane: int,
    lanes: int,
    after: Collection[LaneKey],
    skip: AbstractSet[str],
) -> LanesRead:
    """See comfyrail.store.interface.Store.queue_lanes."""
    found = LanesRead()
    starts = {key.queue_class: key for key in after}
    for queue_class in QueueClass:
        read, skipped = 0, 0
        last: LaneKey | None = None
        for key in _around(snapshot, queue_class, starts.get(queue_class)):
            is_skipped = key.group in skip
            if skipped == SKIPPED_IN_A_CLASS if is_skipped else read == lanes:
                found.reached += (last,) if last else ()
                break
            last = key
            if is_skipped:
                skipped += 1
            else:
                read += 1
                found.append(_read_lane(snapshot, key, jobs_per_lane))
    return found


def needs_of_group(snapshot: Snapshot, group: str) -> JobNeeds:
    """The same object for the same group: what is worked out for it is kept with it."""
    known = _needs_by_group.get(group)
    if known is not None:
        return known
    row = snapshot.one("get_group", key=group)
    if row is None:
        return JobNeeds()
    if len(_needs_by_group) >= NEEDS_KEPT:
        _needs_by_group.clear()
    return _needs_by_group.setdefault(group, JobNeeds.decode(row["needs"]))


def _around(
    snapshot: Snapshot, queue_class: QueueClass, after: LaneKey | None
) -> Iterator[LaneKey]:
    """All lanes of a class once, those behind `after` first and itself last."""
    if after is None:
        yield from _behind(snapshot, queue_class, TenantId(""), "")
        return
    yield from _behind(snapshot, queue_class, after.tenant, after.group)
    for key in _behind(snapshot, queue_class, TenantId(""), ""):
        if (key.tenant, key.group) > (after.tenant, after.group):
            return
        yield key


def _behind(
    snapshot: Snapshot, queue_class: QueueClass, tenant: TenantId, group: str
) -> Iterator[LaneKey]:
    while True:
        row = snapshot.one("next_lane", queue_class=queue_class, tenant=tenant, queue_group=group)
        if row is None:
            return
        tenant = TenantId(row["tenant"])
        found = [row]
        while found:
            for each in found:
                group = each["queue_group"]
                yield LaneKey(queue_class, tenant, group)
            found = snapshot.all(
                "next_groups",
                queue_class=queue_class,
                tenant=tenant,
                queue_group=group,
                limit=GROUPS_AT_ONCE,
            )


def _read_lane(snapshot: Snapshot, key: LaneKey, limit: int) -> Lane:
    rows = snapshot.all(
        "lane_head",
        queue_class=key.queue_class,
        tenant=key.tenant,
        queue_group=key.group,
        limit=limit + 1,
    )
    return Lane(
        key.queue_class,
        key.tenant,
        needs_of_group(snapshot, key.group),
        [read_queued_job(row) for row in rows[:limit]],
        has_more=len(rows) > limit,
    )
