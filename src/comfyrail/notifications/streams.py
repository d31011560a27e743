"""Reading event logs live: what was missed first, then what comes. That of a job has an end."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from comfyrail.ids import BatchId, JobId, TenantId
from comfyrail.jobs.events import Event, EventType, FeedEntry
from comfyrail.store.feed import OPERATOR, FeedPage, FeedStore, FeedWhere
from comfyrail.store.interface import Store
from comfyrail.store.signals import Signals, job_topic, tenant_topic

PAGE = 500


class FeedSource(FeedStore, Protocol):
    signals: Signals


async def follow_events(
    store: Store, tenant: TenantId, job_id: JobId, after: int
) -> AsyncIterator[Event]:
    """Events with a number larger than `after`, in order, without gaps, until the final one.

    Raises JobNotFound before the first event. Subscribed before the first read: nothing is missed
    between reading and waiting.
    """
    with store.signals.subscribe(job_topic(job_id)) as news:
        while True:
            page = await store.events_after(tenant, job_id, after, PAGE)
            for event in page:
                after = event.number
                yield event
                if event.type.is_final:
                    return
            if not page:
                job = await store.get_job(tenant, job_id)
                if job.state.is_final and after >= job.last_event:
                    return  # resumed behind the end
                if after < job.last_event:
                    continue  # the end was written between the two reads
                await news.wait()


@dataclass(frozen=True, slots=True)
class FeedFilter:
    """Which events of a tenant a stream shows; what is empty shows all. `types` may end in `.*`;
    `workflow` is a name of the library, with or without a version.
    """

    types: frozenset[str] = frozenset()
    job_id: JobId | None = None
    workflow: str | None = None
    batch_id: BatchId | None = None
    surface: str | None = None

    @property
    def in_store(self) -> FeedWhere:
        """The part of it by which the store reads less."""
        return FeedWhere(
            frozenset(each for each in EventType if any(_is_type(each, one) for one in self.types)),
            self.job_id,
        )

    def shows(self, entry: FeedEntry) -> bool:
        return (
            (not self.types or any(_is_type(entry.type, each) for each in self.types))
            and self.job_id in {None, entry.job_id}
            and self.batch_id in {None, entry.batch_id}
            and self.surface in {None, entry.surface}
            and (self.workflow is None or _is_workflow(entry.workflow_id, self.workflow))
        )


def feed_topics(tenant: TenantId, *, with_operator: bool) -> list[str]:
    """What wakes a reader of a tenant's events."""
    return [tenant_topic(each) for each in ((tenant, OPERATOR) if with_operator else (tenant,))]


async def follow_feed(
    store: FeedSource,
    tenant: TenantId,
    after: int,
    where: FeedFilter,
    *,
    with_operator: Callable[[], bool],
) -> AsyncGenerator[FeedPage]:
    """All events of a tenant behind a number, in order, for ever: pages of those that the filter
    shows, and how far they reach. A page may be empty. `with_operator` is asked for every page:
    whoever may no longer look at the fleet sees nothing of it from then on.
    """
    in_store = where.in_store
    with store.signals.subscribe(*feed_topics(tenant, with_operator=with_operator())) as news:
        while True:
            page = await store.feed_after(
                tenant, after, PAGE, with_operator=with_operator(), where=in_store
            )
            if page.reached > after:
                after = page.reached
                yield replace(page, entries=[each for each in page.entries if where.shows(each)])
            else:
                await news.wait()


def _is_type(given: str, wanted: str) -> bool:
    return given == wanted or (wanted.endswith("*") and given.startswith(wanted[:-1]))


def _is_workflow(given: str | None, wanted: str) -> bool:
    return given is not None and (given == wanted or given.startswith(f"{wanted}@"))
