"""The worker's state on the event loop: what waits, what runs, what has ended, who listens."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import structlog

from comfyrail.engine.comfyui.packs import PackFailure
from comfyrail.engine.executor import Executor
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.retention import OutputRetention
from comfyrail.engine.server.execution_thread import (
    Call,
    ExecutionDone,
    ExecutionThread,
    Outbox,
    Report,
)
from comfyrail.engine.server.handover import HandedOver
from comfyrail.engine.server.history import DEFAULT_HISTORY_BYTES, DEFAULT_HISTORY_SIZE, History
from comfyrail.engine.server.missed_ends import MissedEnds
from comfyrail.engine.server.prompt_queue import DEFAULT_WAITING_BYTES, PromptQueue, QueuedPrompt
from comfyrail.engine.server.prompt_record import PromptRecord
from comfyrail.engine.server.sockets import Connection, SocketHub
from comfyrail.engine.server.visits import Visits
from comfyrail.engine.server.wire import TextMessage, text_message

log = structlog.get_logger(__name__)

STOP_SECONDS = 2.0
LOOK_UP_SECONDS = 0.15
"""How long a node has to see an interrupt by itself."""
INSIST_SECONDS = 0.2
STUCK_SECONDS = 0.5
TELL_SECONDS = 0.3
"""How long the client of a stuck prompt has to fetch its end before the worker begins anew."""
CLOSE_SECONDS = 0.1
HANDED_OVER_BYTES = 32 << 20


class Worker:
    """Every method is called on the event loop, and none of them waits."""

    def __init__(
        self,
        executor: Executor,
        *,
        retention: OutputRetention | None = None,
        history_size: int = DEFAULT_HISTORY_SIZE,
        history_bytes: int = DEFAULT_HISTORY_BYTES,
        waiting_bytes: int = DEFAULT_WAITING_BYTES,
    ) -> None:
        self.executor = executor
        self.queue = PromptQueue(waiting_bytes)
        self.history = History(history_size, history_bytes)
        self.sockets = SocketHub()
        self._missed = MissedEnds()
        self._thread = ExecutionThread(executor, retention)
        self._running: tuple[PromptRecord, Interrupt] | None = None
        self._next_number = 0
        self.pack_failures: Sequence[PackFailure] = ()
        self.has_packs = False
        """Whether foreign code judges prompts: it may take its time."""
        self.change_request: Callable[[Any], Any] | None = None
        """What packs do to the body of a request before it is read."""
        self.begin_anew: Callable[[HandedOver], None] | None = None
        """The last means against a node that cannot be stopped: it does not return. None: there is
        no such means, and the worker waits for the node."""
        self.stop_seconds = STUCK_SECONDS
        self.visits = Visits()
        self._is_stuck = False
        """The thread is in a prompt whose end has been told: nothing else can run."""
        self._leaving: asyncio.Task[None] | None = None
        self._is_stopping = False

    def start(self) -> None:
        self._outbox = Outbox(asyncio.get_running_loop(), self._take_reports)
        self._thread.start()
        self._run_next()

    async def stop(self) -> None:
        self._is_stopping = True
        self.queue.clear()
        self.interrupt()
        if self._leaving is not None:
            self._leaving.cancel()
        await asyncio.to_thread(self._thread.stop, STOP_SECONDS)

    @property
    def running(self) -> QueuedPrompt | None:
        return self._running[0].item if self._running else None

    @property
    def remaining(self) -> int:
        """Prompts that have not ended."""
        return len(self.queue) + (self._running is not None)

    def holds(self, prompt_id: str) -> bool:
        """Whether a prompt of this id waits or runs."""
        running = self.running
        return prompt_id in self.queue or (running is not None and running.prompt_id == prompt_id)

    def next_number(self) -> int:
        """Counts requests, also those that are refused."""
        number = self._next_number
        self._next_number += 1
        return number

    def submit(self, item: QueuedPrompt) -> None:
        """Queue a prompt; its id must not be held already."""
        self.queue.add(item)
        self._announce_status()
        if self._running is None:
            # Not at once: the client should have its reply before the first message.
            asyncio.get_running_loop().call_soon(self._run_next)

    def delete_pending(self, prompt_ids: Iterable[str]) -> None:
        self.queue.delete(prompt_ids)
        self._announce_status()

    def clear_pending(self) -> None:
        self.queue.clear()
        self._announce_status()

    def interrupt(self, prompt_id: str | None = None) -> None:
        """Stop the running prompt, if it is the one that is meant.

        A node that does not look up is broken off soon after, and one that cannot be broken off
        ends with all of this process where it can begin anew.
        """
        if self._running is None:
            return
        record, interrupt = self._running
        if prompt_id is not None and record.item.prompt_id != prompt_id:
            return
        if not interrupt.requested:
            interrupt.request()
            loop = asyncio.get_running_loop()
            loop.call_later(LOOK_UP_SECONDS, self._insist, interrupt, loop.time())

    def _insist(self, interrupt: Interrupt, asked_at: float) -> None:
        if self._running is None or self._running[1] is not interrupt:
            return
        loop = asyncio.get_running_loop()
        waited = loop.time() - asked_at
        interrupt.insist()
        if self.begin_anew is not None and waited >= self.stop_seconds and not self._is_stopping:
            self._give_up(self._running[0], self.begin_anew)
            return
        left = self.stop_seconds - waited
        again = left if 0 < left < INSIST_SECONDS else INSIST_SECONDS
        loop.call_later(again, self._insist, interrupt, asked_at)

    def _give_up(self, record: PromptRecord, begin_anew: Callable[[HandedOver], None]) -> None:
        """The prompt ends here, whatever its node does: the next life takes a while to come, and
        whoever waits for the end should not.
        """
        item = record.item
        log.warning("node_cannot_be_stopped", prompt_id=item.prompt_id)
        self.sockets.send(item.client_id, list(record.apply(record.cut_off(self.executor.clock))))
        self._is_stuck = True
        self._finish(record)
        if item.client_id is not None and self.sockets.is_connected(item.client_id):
            leaving = self._leave(item.prompt_id, begin_anew)
            self._leaving = asyncio.create_task(leaving, name="leaving")
        else:
            # Nobody is told: nobody shall learn of it by chance, and be cut off a moment later.
            begin_anew(self._hand_over())

    async def _leave(self, prompt_id: str, begin_anew: Callable[[HandedOver], None]) -> None:
        await self.visits.until_told(prompt_id, TELL_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                # Clients send nothing more to a worker that says that it goes.
                await self.sockets.close_all()
        await self.visits.until_none(CLOSE_SECONDS)
        begin_anew(self._hand_over())

    def _hand_over(self) -> HandedOver:
        """What the next life of this worker needs."""
        ended = self.history.newest(HANDED_OVER_BYTES)
        return HandedOver(self._next_number, self.queue.in_order(), ended)

    def take_over(self, handed: HandedOver) -> None:
        """Go on where the last life of this worker ended; before `start`."""
        self._next_number = handed.next_number
        for prompt_id, entry in handed.ended:
            self.history.add(prompt_id, entry)
        for item in handed.waiting:
            self.queue.add(item)

    def free(self, *, unload_models: bool, free_memory: bool) -> None:
        self._thread.free(unload_models=unload_models, free_memory=free_memory)

    def connect(self, client_id: str, connection: Connection) -> None:
        """Greet a client, tell it what it missed, and keep it informed from here on."""
        connection.offer(self._status_message(sid=client_id))
        for message in self._missed.take(client_id):
            connection.offer(message)
        if self._running is not None and self._running[0].item.client_id == client_id:
            for message in self._running[0].catch_up():
                connection.offer(message)
        self.sockets.add(client_id, connection)

    def disconnect(self, client_id: str, connection: Connection) -> None:
        self.sockets.remove(client_id, connection)

    def _run_next(self) -> None:
        if self._running is not None or self._is_stuck:
            return
        item = self.queue.take()
        if item is None:
            return
        interrupt = Interrupt()
        self._running = (PromptRecord(item), interrupt)
        self._announce_status()
        self._thread.execute(item.request, interrupt, self._outbox)

    def _take_reports(self, reports: Sequence[Report]) -> None:
        for report in reports:
            try:
                self._take_report(report)
            except Exception:
                # Those behind it must come through, above all the one that ends the prompt.
                log.exception("report_lost", report=type(report).__name__)

    def post(self, call: Call) -> None:
        """Make a call on the event loop after what was reported before it; from any thread."""
        self._outbox.put(call)

    def _take_report(self, report: Report) -> None:
        if callable(report):
            report()
            return
        if self._running is None:
            if isinstance(report, ExecutionDone):
                self._stay()
            return
        record = self._running[0]
        if isinstance(report, ExecutionDone):
            try:
                self._finish(record)
            finally:
                self._running = None
                self._run_next()
        else:
            self.sockets.send(record.item.client_id, list(record.apply(report)))

    def _stay(self) -> None:
        """The thread has come free after all, or the program could not be loaded anew."""
        self._is_stuck = False
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        self._run_next()

    def _finish(self, record: PromptRecord) -> None:
        item = record.item
        try:
            entry = record.history_entry()
        except Exception as error:
            # Without an entry whoever waits for the end would wait for ever.
            log.exception("history_not_written", prompt_id=item.prompt_id)
            entry = record.unshowable_entry(error)
        self.history.add(item.prompt_id, entry)
        self._running = None
        self._announce_status()
        if item.client_id is not None and not self.sockets.is_connected(item.client_id):
            self._missed.keep(item.client_id, record.closing_messages())
        else:
            self.sockets.send(item.client_id, [record.end_message()])

    def _announce_status(self) -> None:
        self.sockets.broadcast(self._status_message())

    def _status_message(self, sid: str | None = None) -> TextMessage:
        data: dict[str, Any] = {"status": {"exec_info": {"queue_remaining": self.remaining}}}
        if sid is not None:
            data["sid"] = sid
        return text_message("status", data)
