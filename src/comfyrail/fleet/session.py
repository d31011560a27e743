"""One attempt on one worker: submit, follow, reconcile, fetch, and say how it ended."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

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
from comfyrail.fleet.attempt_log import AttemptLog
from comfyrail.fleet.attempt_timing import AttemptTiming
from comfyrail.fleet.classification import classify_rejection, classify_worker_error
from comfyrail.fleet.comfyui.history import FAILURES_KEPT, HistoryEntry, NodeFailure
from comfyrail.fleet.comfyui.messages import ExecutionNoted, Message, PromptEnded
from comfyrail.fleet.comfyui.pictures import WorkerPicture
from comfyrail.fleet.company import Company, Seat
from comfyrail.fleet.connection import WorkerConnection
from comfyrail.fleet.conversion import Conversion, Converter
from comfyrail.fleet.delivery import Delivery
from comfyrail.fleet.faults import node_failed
from comfyrail.fleet.harvest import harvest
from comfyrail.fleet.inputs import WorkerInputs
from comfyrail.fleet.inquiry import Inquiry
from comfyrail.fleet.orders import Orders
from comfyrail.fleet.outputs import AttemptSink, BlobSink, Fetched
from comfyrail.fleet.previews import Previews
from comfyrail.fleet.progress import ProgressTracker
from comfyrail.fleet.prompt_secrets import PromptSecrets
from comfyrail.fleet.remedies import Remedies
from comfyrail.fleet.socket_pictures import SocketPictures
from comfyrail.fleet.verdict import judge
from comfyrail.jobs.job import Attempt, Usage
from comfyrail.jobs.outcome import Cancelled, Completed, Failed, Lost, Outcome
from comfyrail.jobs.recovery import RecoveryKind
from comfyrail.store.interface import Store

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SessionTimes:
    """Seconds. `unreachable_limit`: how long a worker may be away before its job is taken back;
    `mend_limit`: how long it may take to find out how a failed attempt is tried again.
    """

    progress_interval: float = 0.1
    poll_interval: float = 5.0
    unreachable_limit: float = 15.0
    retry_interval: float = 1.0
    stop_limit: float = 10.0
    mend_limit: float = 10.0


class AttemptSession:
    """Messages are hints that wake the loop; only the worker's history ends it.

    The attempt may wait in the worker's own queue behind another one: its time counts from when
    the worker begins it, and what happens to the worker before that is not held against the job.
    """

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
        inputs: WorkerInputs | None = None,
        previews: Previews | None = None,
        remedies: Remedies | None = None,
        models_of: Callable[[str], Collection[str]] | None = None,
        mark: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda prompt: prompt,
        seat: Seat | None = None,
        secrets: PromptSecrets | None = None,
        converter: Converter | None = None,
        left: Callable[[], None] = lambda: None,
    ) -> None:
        """`inputs`: for a worker that does not see the server's input folder; `models_of`: the
        models that a node loads, by its id; `seat`: its place on the worker, where others are;
        `left` is called when the worker has done its part though the attempt goes on.
        """
        self._attempt = attempt
        self._seat = seat or Company().join()
        self._account = account
        self._connection = connection
        self._client = connection.client
        self._sink = AttemptSink(sink)
        self._clock = clock
        self._times = times
        self._inputs = inputs
        self._remedies = remedies
        self._secrets = secrets or PromptSecrets()
        self._models_of = models_of or (lambda _node_id: ())
        self._mark = mark
        self._wants_previews = previews is not None
        self._inquiry = Inquiry(connection.client, attempt.prompt_id)
        self._timing = AttemptTiming(attempt, clock)
        self._conversion = Conversion(attempt.output_config, converter, attempt.tenant)
        self._left = left
        self._pictures = SocketPictures(attempt, self._sink, previews)
        # One that is taken over goes on from where its job was.
        self._tracker = ProgressTracker(
            attempt.prompt,
            clock,
            account.weights(),
            attempt.progress.fraction,
            models=attempt.models,
        )
        self._log = AttemptLog(
            attempt,
            self._tracker,
            store,
            clock,
            interval=times.progress_interval,
            retry=times.retry_interval,
        )
        self._orders = Orders(self._timing, attempt.timeout_seconds, clock)
        self._seat.wake = self._orders.wake
        self.outcome: Outcome | None = None
        """How it ended, once that is written."""
        self.is_over = False
        """Its job goes on without it, or has ended; the worker may still have the prompt."""
        self._look_now = False
        self._is_adopted = False
        self._failures: list[NodeFailure] = []
        self._stop_before_leaving = False
        self._stop_since: float | None = None
        self._unseen_seconds = 0.0
        now = clock.monotonic()
        self._last_contact = connection.contact.now()
        self._next_look = now + times.poll_interval
        self._next_stop = now
        self._may_linger = False

    # What others ask and tell

    @property
    def prompt_id(self) -> str:
        return self._attempt.prompt_id

    @property
    def has_begun(self) -> bool:
        """Whether the worker has started to execute it, as far as is known."""
        return self._timing.has_begun

    def remaining_seconds(self) -> float:
        """Expected seconds from when it began, or begins, until it ends; never below 0."""
        return self._timing.remaining(self._tracker.progress().fraction)

    async def run(self, *, adopted: bool) -> None:
        """Do all of it and write the end. An attempt that is no longer ours is left alone."""
        self._is_adopted = adopted
        watcher = asyncio.create_task(self._watch_cancel(), name=f"cancel-{self._attempt.job_id}")
        try:
            outcome = await self._play(adopted=adopted)
            if isinstance(outcome, Failed) and self._remedies is not None:
                outcome = await self._find_remedy(outcome, self._remedies)
            self._may_linger |= isinstance(outcome, Lost)
            await self._log.finish(outcome, self._settle(outcome))
            self.outcome = outcome
            if not (isinstance(outcome, Lost) or (isinstance(outcome, Failed) and outcome.remedy)):
                self._secrets.forget(self._attempt.job_id)
        except StaleAttempt:
            self._sink.settle(())
            self._may_linger = True
            log.warning("attempt_taken_over", job_id=self._attempt.job_id)
        except Exception:
            self._sink.settle(())
            raise
        else:
            self._sink.settle(() if isinstance(outcome, Lost) else outcome.outputs)
        finally:
            watcher.cancel()
            self.is_over = True
            self._pictures.close()

    def worker_is_gone(self, lost: Lost, *, still_runs: bool = False) -> None:
        """It is known that the worker has ended, or was removed and `still_runs`: do not wait."""
        self._stop_before_leaving = still_runs
        self._orders.leave(lost)

    def hurry(self) -> None:
        """The worker is about to be removed: do not wait for what only makes outputs smaller."""
        self._orders.hurry()

    def attempt_is_stale(self) -> None:
        """The token is no longer valid: stop, write nothing."""
        self._orders.let_go()

    async def until_gone(self) -> None:
        """After an end that the worker may not know of: wait until it has let go of the prompt."""
        while self._may_linger and self._orders.gone is None:
            try:
                if await self._client.presence(self._attempt.prompt_id) == "absent":
                    return
                await self._stop_prompt()
            except WorkerError:
                if not self._connection.is_open:
                    return  # when it comes back, prompts that nobody follows are stopped
            await asyncio.sleep(self._times.retry_interval)

    # The way of an attempt

    async def _play(self, *, adopted: bool) -> Outcome:
        prompt_id = self._attempt.prompt_id
        if adopted:
            await self._go_on_from_what_was_told()
        with self._connection.listening(prompt_id, self._observe, self._take_picture):
            if self._attempt.cancel_requested:
                self._orders.cancel()
            if adopted:
                self._seat.take()
                self._look_now = True
                return await self._follow()
            return await self._wait_for_turn() or await self._submit() or await self._follow()

    async def _watch_cancel(self) -> None:
        await self._log.wait_for_cancel()
        self._orders.cancel()

    async def _go_on_from_what_was_told(self) -> None:
        self._pictures.note_gap()
        told = await self._log.read_back()
        self._tracker.restore(told.node_events)
        if told.began is not None:
            self._timing.begin_at(told.began)

    def _settle(self, outcome: Outcome) -> Usage:
        return self._account.settle(
            Measured(
                seconds=self._unseen_seconds + self._timing.seconds_used(),
                node_seconds=self._tracker.node_seconds,
                cached=frozenset(self._tracker.cached),
                is_whole=isinstance(outcome, Completed) and not self._is_adopted,
            )
        )

    async def _wait_for_turn(self) -> Outcome | None:
        """Until the worker may be given it; an outcome when it is not to be given it any more."""
        orders = self._orders
        while not self._seat.has_turn:
            if orders.look():
                return orders.stop_with
            if orders.gone is not None:
                return self._lost_with(orders.gone)
            await orders.wait(self._clock.monotonic() + self._times.poll_interval)
        self._seat.take()
        return None

    # Submitting

    async def _submit(self) -> Outcome | None:
        """Hand the graph over; an outcome only when it is certain that nothing will run."""
        prompt: Mapping[str, Any] | Outcome = self._attempt.prompt
        if self._inputs is not None:
            prompt = await self._bring_inputs(self._inputs)
        if not isinstance(prompt, Mapping):
            return prompt
        if self._orders.stop_with is not None:
            return self._orders.stop_with
        try:
            await self._client.submit(
                self._mark(prompt),
                self._attempt.prompt_id,
                self._connection.client_id,
                self._attempt.execution_config,
                with_previews=self._wants_previews,
                extra_data=self._attempt.extra_data,
                secrets=self._secrets.of(self._attempt.job_id),
            )
        except PromptRejected as error:
            self._seat.settle()
            return classify_rejection(error)
        except WorkerProtocolError as error:
            log.warning("prompt_not_taken", job_id=self._attempt.job_id, error=error.message)
            self._look_now = True  # ComfyUI may answer 500 and queue it all the same
        except WorkerUnreachable:
            self._look_now = True  # it may have been accepted before the line broke
        return None

    async def _bring_inputs(self, inputs: WorkerInputs) -> Mapping[str, Any] | Outcome:
        delivery = Delivery(
            inputs,
            self._client,
            self._orders,
            self._clock,
            self._times.unreachable_limit,
            self._times.retry_interval,
        )
        brought = await delivery.bring(self._attempt.prompt)
        return self._lost_with(brought) if isinstance(brought, Lost) else brought

    # Following

    def _observe(self, message: Message | None) -> None:
        if message is None:
            self._pictures.note_gap()
            self._look_now = True
        elif isinstance(message, PromptEnded):
            self._look_now = True
        else:
            self._timing.begin()
            self._inquiry.note_heard()
            self._note_contact()
            self._tracker.observe(message)
            if isinstance(message, ExecutionNoted) and message.failure is not None:
                self._failures = [*self._failures, message.failure][-FAILURES_KEPT:]
        self._orders.wake()

    async def _take_picture(self, picture: WorkerPicture, node_id: str | None) -> None:
        number = await self._pictures.take(picture, node_id)
        if number is not None:
            self._tracker.note_preview(number)
            self._orders.wake()

    async def _follow(self) -> Outcome:
        orders = self._orders
        while True:
            is_to_stop = orders.look()
            now = self._clock.monotonic()
            if orders.gone is not None:
                return await self._leave(orders.gone)
            if is_to_stop and now >= self._next_stop:
                await self._press_stop(now)
            if self._look_now or now >= self._next_look:
                outcome = await self._look()
                if outcome is not None:
                    return outcome
            if orders.stop_with is not None and self._has_stopped_in_vain(now):
                self._may_linger = True
                return orders.stop_with
            await self._log.note_progress()
            await orders.wait(self._next_due())

    async def _leave(self, gone: Lost) -> Outcome:
        """The worker is gone. What was to be stopped has stopped with it."""
        if self._stop_before_leaving:
            await self._press_stop(self._clock.monotonic())
        return self._orders.stop_with or self._lost_with(gone)

    def _next_due(self) -> float:
        is_to_stop = self._orders.stop_with is not None
        end = self._next_stop if is_to_stop else self._orders.deadline
        return min(self._next_look, end, self._log.due)

    async def _look(self) -> Outcome | None:
        """Ask the worker what became of the prompt: its history is the truth."""
        self._look_now = False
        try:
            found = await self._inquiry.ask()
        except WorkerError as error:
            self._look_again_soon()
            away = self._connection.contact.now() - self._last_contact
            return self._lost(error.message) if away > self._times.unreachable_limit else None
        self._note_contact()
        if isinstance(found, HistoryEntry):
            return await self._conclude(found)
        match found:
            case "running":
                self._timing.begin()
            case "doubtful":
                self._look_again_soon()
            case "absent":
                # After a restart of the server that says nothing about the job.
                is_odd = not self._is_adopted
                lost = self._lost(
                    "the worker no longer knows of it", counted=is_odd, is_suspect=is_odd
                )
                return self._orders.stop_with or lost
        return None

    def _lost(self, cause: str, *, counted: bool = True, is_suspect: bool = True) -> Lost:
        """What befell the worker while another prompt may have run there is not held against the
        job; also not against one that has begun, which may have ended before anyone heard of it.
        One that had the worker to itself counts, begun or not: its graph may be to blame.
        """
        return Lost(
            cause,
            counted and self._seat.is_certain,
            has_begun=self._timing.has_begun,
            is_suspect=is_suspect and self._seat.is_taken,
        )

    def _lost_with(self, gone: Lost) -> Lost:
        is_suspect = gone.counted or gone.is_suspect
        return self._lost(gone.cause, counted=gone.counted, is_suspect=is_suspect)

    def _note_contact(self) -> None:
        self._last_contact = self._connection.contact.now()
        self._next_look = self._clock.monotonic() + self._times.poll_interval

    def _look_again_soon(self) -> None:
        self._next_look = self._clock.monotonic() + self._times.retry_interval

    # The end

    async def _conclude(self, entry: HistoryEntry) -> Outcome | None:
        """Fetch what the prompt made and say how it ended; None: try again later."""
        self._seat.settle()
        if not self._timing.has_begun:
            self._unseen_seconds = entry.seconds or 0.0
            self._timing.begin()
        try:
            fetched = await harvest(
                entry,
                self._client,
                self._sink,
                self._orders,
                self._clock,
                stop_limit=self._times.stop_limit,
                conversion=self._conversion,
                pictures=lambda: self._pictures.outputs,
                left=self._left,
            )
        except StoreUnavailable as error:
            # The worker still has the files: try again, do not run the job again, however long
            # the disk is full.
            self._orders.stop_the_clock()
            log.warning("outputs_not_stored", job_id=self._attempt.job_id, error=error.message)
            self._look_again_soon()
            return None
        except WorkerError as error:
            if entry.status != "success":
                # That much is known.
                return judge(entry, (), self._orders.stop_with, self._models_of)
            if isinstance(error, WorkerUnreachable):
                return self._orders.stop_with or self._lost(error.message)
            return classify_worker_error(error)
        if isinstance(fetched, Lost):
            return self._lost_with(fetched)
        return self._judge(entry, fetched) if isinstance(fetched, Fetched) else fetched

    def _judge(self, entry: HistoryEntry, fetched: Fetched) -> Outcome:
        is_success = entry.status == "success"
        if is_success and self._pictures.are_incomplete:
            return self._orders.stop_with or Lost(
                "the line to the worker broke while it sent pictures that only the line has"
            )
        if is_success:
            self._tracker.complete_rest()
            for failure in entry.failures or self._failures:
                self._tracker.warn(node_failed(failure))
        self._tracker.note_outputs(fetched.outputs)
        for fault in (*fetched.left_out, *fetched.warnings):
            self._tracker.warn(fault)
        return judge(entry, fetched.outputs, self._orders.stop_with, self._models_of)

    async def _find_remedy(self, failed: Failed, remedies: Remedies) -> Failed | Lost:
        """The failure with how it is tried again, for as long as anyone wants to know that."""
        until = self._clock.monotonic() + self._times.mend_limit
        work = asyncio.create_task(remedies.complete(failed, self._attempt), name="remedy")
        try:
            while not work.done() and self._clock.monotonic() < until:
                self._orders.look()
                if isinstance(self._orders.stop_with, Cancelled):
                    return failed
                await self._orders.wait_beside(work, until)
            return work.result() if work.done() else self._unmended(failed)
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    def _unmended(self, failed: Failed) -> Failed:
        """Without a second look at its graph, which took too long."""
        log.warning("remedy_took_too_long", job_id=self._attempt.job_id)
        remedy = failed.remedy
        if remedy is None or remedy.kind is RecoveryKind.MENDED:
            return replace(failed, remedy=None)
        return replace(failed, remedy=replace(remedy, avoid=self._attempt.worker_id))

    # Stopping

    async def _press_stop(self, now: float) -> None:
        self._stop_since = self._stop_since if self._stop_since is not None else now
        self._next_stop = now + self._times.retry_interval
        try:
            await self._stop_prompt()
        except WorkerError as error:
            log.warning("stop_failed", job_id=self._attempt.job_id, error=error.message)
        self._look_now = True

    async def _stop_prompt(self) -> None:
        prompt_id = self._attempt.prompt_id
        await self._client.stop_prompt(prompt_id, may_wait=not self._timing.has_begun)

    def _has_stopped_in_vain(self, now: float) -> bool:
        return self._stop_since is not None and now - self._stop_since > self._times.stop_limit
