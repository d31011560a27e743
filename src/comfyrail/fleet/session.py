"""One attempt on one worker: submit, follow, reconcile, fetch, and say how it ended."""

import asyncio
from asyncio import FIRST_COMPLETED
from dataclasses import dataclass, replace

import structlog

from comfyrail.clock import Clock
from comfyrail.errors import (
    PromptRejected,
    StaleAttempt,
    StoreUnavailable,
    WorkerError,
    WorkerProtocolError,
    WorkerUnreachable,
)
from comfyrail.fleet.accounts import Account, Measured
from comfyrail.fleet.comfyui.history import HistoryEntry, NodeFailure
from comfyrail.fleet.comfyui.messages import ExecutionNoted, Message, PromptEnded
from comfyrail.fleet.connection import WorkerConnection
from comfyrail.fleet.faults import interrupted, node_failed, timed_out, unexplained
from comfyrail.fleet.outputs import BlobSink, fetch_outputs
from comfyrail.fleet.progress import ProgressTracker
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import Attempt, NewOutput
from comfyrail.jobs.outcome import Cancelled, Completed, Failed, Lost, Outcome
from comfyrail.store.interface import Store
from comfyrail.store.signals import Subscription, cancel_topic

log = structlog.get_logger(__name__)

FAILURES_KEPT = 20


@dataclass(frozen=True, slots=True)
class SessionTimes:
    """Seconds. `unreachable_limit`: how long a worker may be away before its job is taken back."""

    progress_interval: float = 0.1
    poll_interval: float = 5.0
    unreachable_limit: float = 15.0
    retry_interval: float = 1.0
    stop_limit: float = 10.0


class AttemptSession:
    """Messages are hints that wake the loop; only the worker's history ends it."""

    def __init__(
        self,
        attempt: Attempt,
        connection: WorkerConnection,
        *,
        store: Store,
        sink: BlobSink,
        clock: Clock,
        times: SessionTimes,
        account: Account,
    ) -> None:
        self._attempt = attempt
        self._account = account
        self._connection = connection
        self._client = connection.client
        self._store = store
        self._sink = sink
        self._clock = clock
        self._times = times
        # One that is taken over goes on from where its job was.
        self._tracker = ProgressTracker(
            attempt.prompt, clock, account.weights(), attempt.progress.fraction
        )
        self._wake = asyncio.Event()
        self._look_now = False
        self._is_adopted = False
        self._is_stale = False
        self._failures: list[NodeFailure] = []
        self._gone: Lost | None = None
        self._stop_before_leaving = False
        self._stop_with: Cancelled | Failed | None = None
        self._stop_since: float | None = None
        now = clock.monotonic()
        self._started = now - max(0, clock.now() - attempt.started_at) / 1000
        self._deadline = self._started + attempt.timeout_seconds
        self._last_contact = now
        self._next_look = now + times.poll_interval
        self._next_stop = now
        # A job that is over before the first flush is due writes its events with its end.
        self._next_flush = now + times.progress_interval
        self._may_linger = False

    async def run(self, *, adopted: bool) -> None:
        """Do all of it and write the end. An attempt that is no longer ours is left alone."""
        self._is_adopted = adopted
        try:
            outcome = await self._play(adopted=adopted)
            self._may_linger |= isinstance(outcome, Lost)
            await self._finish(outcome)
        except StaleAttempt:
            self._may_linger = True
            log.warning("attempt_taken_over", job_id=self._attempt.job_id)

    def worker_is_gone(self, lost: Lost, *, still_runs: bool = False) -> None:
        """It is known that the worker has ended, or was removed and `still_runs`: do not wait."""
        self._gone = lost
        self._stop_before_leaving = still_runs
        self._wake.set()

    def attempt_is_stale(self) -> None:
        """The token is no longer valid: stop, write nothing."""
        self._is_stale = True
        self._wake.set()

    @property
    def prompt_id(self) -> str:
        return self._attempt.prompt_id

    async def until_gone(self) -> None:
        """After an end that the worker may not know of: wait until it has let go of the prompt."""
        while self._may_linger and self._gone is None:
            try:
                if await self._client.presence(self._attempt.prompt_id) == "absent":
                    return
                await self._client.stop_prompt(self._attempt.prompt_id)
            except WorkerError:
                if not self._connection.is_open:
                    return  # when it comes back, prompts that nobody follows are stopped
            await asyncio.sleep(self._times.retry_interval)

    async def _finish(self, outcome: Outcome) -> None:
        events, _ = self._tracker.take()
        usage = self._account.settle(
            Measured(
                seconds=self._clock.monotonic() - self._started,
                node_seconds=self._tracker.node_seconds,
                cached=frozenset(self._tracker.cached),
                is_whole=isinstance(outcome, Completed) and not self._is_adopted,
            )
        )
        while True:
            try:
                await self._store.finish_attempt(self._attempt.token, outcome, events, usage)
            except StoreUnavailable as error:
                # The result exists and must not be lost for a full disk: keep trying.
                log.warning("finish_delayed", job_id=self._attempt.job_id, error=error.message)
                await asyncio.sleep(self._times.retry_interval)
            else:
                return

    async def _play(self, *, adopted: bool) -> Outcome:
        job_id = self._attempt.job_id
        with (
            self._connection.listening(self._attempt.prompt_id, self._observe),
            self._store.signals.subscribe(cancel_topic(job_id)) as cancels,
        ):
            watcher = asyncio.create_task(self._watch_cancel(cancels), name=f"cancel-{job_id}")
            try:
                if self._attempt.cancel_requested:
                    self._stop_with = Cancelled()
                self._look_now = adopted
                return (None if adopted else await self._submit()) or await self._follow()
            finally:
                watcher.cancel()

    async def _watch_cancel(self, cancels: Subscription) -> None:
        # The store has the truth, the signal only wakes: a cancel may have come between the
        # attempt's start and the subscription.
        while True:
            try:
                if await self._store.is_cancel_requested(self._attempt.job_id):
                    break
                await cancels.wait()
            except StoreUnavailable:
                await asyncio.sleep(self._times.retry_interval)
        self._stop_with = self._stop_with or Cancelled()
        self._wake.set()

    async def _submit(self) -> Outcome | None:
        """Hand the graph over; an outcome only when it is certain that nothing will run."""
        if self._stop_with is not None:
            return self._stop_with
        try:
            await self._client.submit(
                self._attempt.prompt,
                self._attempt.prompt_id,
                self._connection.client_id,
                self._attempt.execution_config,
            )
        except PromptRejected as error:
            return Failed(Fault.of(error))
        except WorkerProtocolError as error:
            log.warning("prompt_not_taken", job_id=self._attempt.job_id, error=error.message)
            self._look_now = True  # ComfyUI may answer 500 and queue it all the same
        except WorkerUnreachable:
            self._look_now = True  # it may have been accepted before the line broke
        return None

    def _observe(self, message: Message | None) -> None:
        if message is None or isinstance(message, PromptEnded):
            self._look_now = True
        else:
            self._last_contact = self._clock.monotonic()
            self._next_look = self._last_contact + self._times.poll_interval
            self._tracker.observe(message)
            if isinstance(message, ExecutionNoted) and message.failure is not None:
                self._failures = [*self._failures, message.failure][-FAILURES_KEPT:]
        self._wake.set()

    async def _follow(self) -> Outcome:
        while True:
            self._wake.clear()
            if self._is_stale:
                raise StaleAttempt("The attempt's lease was lost.")
            if self._gone is not None:
                if self._stop_before_leaving:
                    await self._press_stop(self._clock.monotonic())
                return self._gone
            now = self._clock.monotonic()
            if now >= self._deadline and self._stop_with is None:
                self._stop_with = Failed(timed_out(self._attempt.timeout_seconds))
            if self._stop_with is not None and now >= self._next_stop:
                await self._press_stop(now)
            if self._look_now or now >= self._next_look:
                outcome = await self._look()
                if outcome is not None:
                    return outcome
            if self._has_stopped_in_vain(now) and self._stop_with is not None:
                self._may_linger = True
                return self._stop_with
            await self._flush()
            await self._sleep()

    async def _sleep(self) -> None:
        """Until something happens or the next thing is due."""
        due = [self._next_look, self._deadline]
        if self._stop_with is not None:
            due = [self._next_look, self._next_stop]
        if self._tracker.has_news:
            due.append(self._next_flush)
        try:
            async with asyncio.timeout(max(0.0, min(due) - self._clock.monotonic())):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _look(self) -> Outcome | None:
        """Ask the worker what became of the prompt: its history is the truth."""
        self._look_now = False
        prompt_id = self._attempt.prompt_id
        try:
            entry = await self._client.history(prompt_id)
            if entry is None and await self._client.presence(prompt_id) == "absent":
                # It may have ended between the two looks.
                entry = await self._client.history(prompt_id)
                if entry is None:
                    # After a restart of the server that says nothing about the job.
                    counted = not self._is_adopted
                    return self._stop_with or Lost("the worker no longer knows of it", counted)
        except WorkerError as error:
            self._next_look = self._clock.monotonic() + self._times.retry_interval
            away = self._clock.monotonic() - self._last_contact
            return Lost(error.message) if away > self._times.unreachable_limit else None
        self._last_contact = self._clock.monotonic()
        self._next_look = self._last_contact + self._times.poll_interval
        return None if entry is None else await self._conclude(entry)

    async def _conclude(self, entry: HistoryEntry) -> Outcome | None:
        """Fetch what the prompt made.

        The worker's end breaks it off at once; a cancel or the timeout, which may have come before,
        when it is not done soon after: what a stopped prompt had made is kept.
        """
        give_up: float | None = None
        fetching = asyncio.create_task(
            fetch_outputs(self._client, entry.files, self._sink),
            name=f"outputs-{self._attempt.job_id}",
        )
        try:
            while not fetching.done():
                self._wake.clear()
                if self._is_to_stop() and give_up is None:
                    give_up = self._clock.monotonic() + self._times.stop_limit
                if self._gone is not None:
                    return self._gone
                if give_up is not None and self._clock.monotonic() >= give_up:
                    return self._stop_with
                await self._first_of(fetching, self._deadline if give_up is None else give_up)
            return self._judge(entry, fetching.result())
        except StoreUnavailable as error:
            # The worker still has the files: try again, do not run the job again.
            log.warning("outputs_not_stored", job_id=self._attempt.job_id, error=error.message)
            self._next_look = self._clock.monotonic() + self._times.retry_interval
            return None
        except WorkerUnreachable as error:
            return Lost(error.message)
        except WorkerError as error:
            return Failed(replace(Fault.of(error), category="execution"))
        finally:
            fetching.cancel()
            await asyncio.gather(fetching, return_exceptions=True)

    def _is_to_stop(self) -> bool:
        """Whether a cancel or the timeout wants the job's end."""
        if self._is_stale:
            raise StaleAttempt("The attempt's lease was lost.")
        if self._clock.monotonic() >= self._deadline and self._stop_with is None:
            self._stop_with = Failed(timed_out(self._attempt.timeout_seconds))
        return self._stop_with is not None

    async def _first_of(self, fetching: asyncio.Task[tuple[NewOutput, ...]], until: float) -> None:
        """Wait until the fetch is done, something happens, or the time is up."""
        woken = asyncio.create_task(self._wake.wait(), name="wake")
        left = max(0.0, until - self._clock.monotonic())
        try:
            await asyncio.wait({fetching, woken}, timeout=left, return_when=FIRST_COMPLETED)
        finally:
            woken.cancel()

    def _judge(self, entry: HistoryEntry, outputs: tuple[NewOutput, ...]) -> Outcome:
        if entry.status == "success":
            self._tracker.complete_rest()
            for failure in entry.failures or self._failures:
                self._tracker.warn(node_failed(failure))
            self._tracker.note_outputs(outputs)
            return Completed(outputs)
        self._tracker.note_outputs(outputs)
        if self._stop_with is not None:
            return replace(self._stop_with, outputs=outputs)
        if entry.failures:
            return Failed(node_failed(entry.failures[0]), outputs)
        return Failed(interrupted() if entry.status == "interrupted" else unexplained(), outputs)

    async def _press_stop(self, now: float) -> None:
        self._stop_since = self._stop_since if self._stop_since is not None else now
        self._next_stop = now + self._times.retry_interval
        try:
            await self._client.stop_prompt(self._attempt.prompt_id)
        except WorkerError as error:
            log.warning("stop_failed", job_id=self._attempt.job_id, error=error.message)
        self._look_now = True

    def _has_stopped_in_vain(self, now: float) -> bool:
        return self._stop_since is not None and now - self._stop_since > self._times.stop_limit

    async def _flush(self) -> None:
        now = self._clock.monotonic()
        if now < self._next_flush or not self._tracker.has_news:
            return
        self._next_flush = now + self._times.progress_interval
        events, progress = self._tracker.take()
        try:
            await self._store.record_events(self._attempt.token, events, progress)
        except StoreUnavailable as error:
            self._tracker.put_back(events)
            log.warning("progress_not_stored", job_id=self._attempt.job_id, error=error.message)
