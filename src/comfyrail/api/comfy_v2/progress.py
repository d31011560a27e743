"""How far a job is, as the stream and the status both tell it."""

from comfyrail.access.principal import Principal
from comfyrail.api.comfy_v2.contract import ComfyProgress, progress_body, progress_of_event
from comfyrail.jobs.events import EventType
from comfyrail.jobs.job import Job
from comfyrail.jobs.states import JobState
from comfyrail.usecases.jobs import Jobs

LOOKED_BACK = 20
"""Events: the newest progress is among the last few of a job that runs."""


async def latest_progress(jobs: Jobs, principal: Principal, job: Job) -> ComfyProgress | None:
    """With the steps of the running node where it tells of them."""
    if job.state is not JobState.PROCESSING:
        return progress_body(job)
    recent = await jobs.events_so_far(principal, job.id, max(0, job.last_event - LOOKED_BACK))
    for event in reversed(recent):
        if event.type is EventType.PROGRESS:
            return progress_of_event(event.data)
        if event.type is EventType.STARTED:
            break
    return progress_body(job)
