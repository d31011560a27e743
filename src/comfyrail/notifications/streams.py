"""Reading a job's event log live: what was missed first, then what comes, then the end."""

from collections.abc import AsyncIterator

from comfyrail.ids import JobId, TenantId
from comfyrail.jobs.events import Event
from comfyrail.store.interface import Store
from comfyrail.store.signals import job_topic

PAGE = 500


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
