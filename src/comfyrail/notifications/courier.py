"""Delivers what the outbox holds: in order, again and again, and to everybody in turn [9.3].

Nothing here has to survive: what is under way when the server ends is pending in the store, and is
sent again under the same id.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import structlog

from comfyrail.circuit_breaker import BreakerState
from comfyrail.clock import Clock, after
from comfyrail.errors import ComfyrailError, InvalidWebhook, StoreUnavailable
from comfyrail.jobs.delivery_schedule import delay_after, delays_of_job
from comfyrail.jobs.webhooks import DEFAULT_RETRIES, DEFAULT_RETRY_DELAY_SECONDS
from comfyrail.notifications.bodies import LinkTo, freeze, message_about, own_path
from comfyrail.notifications.dispatcher import Dispatcher
from comfyrail.notifications.routes import Prepared, Route
from comfyrail.notifications.slots import Slots
from comfyrail.notifications.verdicts import Answer, Verdict
from comfyrail.store.notifications import (
    DeliveryQueue,
    DueDelivery,
    DueNow,
    FrozenBody,
    Try,
    TryResult,
)
from comfyrail.store.signals import DELIVERIES

log = structlog.get_logger(__name__)

MOST_AT_ONCE = 64
"""Calls under way in all."""
OF_ONE_TENANT = 32
"""Of these, however many endpoints somebody has that take their time."""
KEPT_FREE = 16
"""Of these, for tenants that have none under way."""
UPLOADS_AT_ONCE = 16
UPLOADS_OF_ONE_TENANT = 8
UPLOADS_KEPT_FREE = 4
MOST_PREPARED = 1000
"""Deliveries in memory; the others are in the store."""
MOST_PREPARED_BYTES = 16 << 20
LOADS_AT_ONCE = 4
PAGE = 32
"""Deliveries of an address that are read at once."""
PAGE_BYTES = 1 << 20
DUE_AT_ONCE = 1000
"""Deliveries that are due: where there are more, addresses are gone through one after the other."""
ADDRESSES_AT_ONCE = 500
MOST_ROUTES = 5000
LONGEST_WAIT_SECONDS = 30.0
"""Between looks, whatever is due: the wall clock may be set."""
TROUBLE_SECONDS = 2.0
GRACE_SECONDS = 3.0
"""What is under way at the end may take so long."""


class Courier:
    """`run` goes on until it is cancelled. `counts` has what became of calls since it began."""

    def __init__(
        self,
        store: DeliveryQueue,
        dispatcher: Dispatcher,
        clock: Clock,
        *,
        link_to: LinkTo = own_path,
        chance: Callable[[], float] = random.random,
        most_at_once: int = MOST_AT_ONCE,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self.counts: Counter[Verdict] = Counter()
        self._store = store
        self._dispatcher = dispatcher
        self._clock = clock
        self._link_to = link_to
        self._chance = chance
        kept_free = min(KEPT_FREE, most_at_once // 4)
        self._calls = Slots(most_at_once, OF_ONE_TENANT, kept_free)
        self._uploads = Slots(UPLOADS_AT_ONCE, UPLOADS_OF_ONE_TENANT, UPLOADS_KEPT_FREE)
        self._grace_seconds = grace_seconds
        self._routes: dict[str, Route] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE)
        self._reached = ""

    async def run(self) -> None:
        try:
            with self._store.signals.subscribe(DELIVERIES) as news:
                while True:
                    await news.wait(await self._round_in_peace())
        finally:
            await self._finish()

    def forget(self, address: str) -> None:
        """An endpoint has changed: what was read of it is read anew. A rest of its breaker is over:
        somebody has reason to think that it works again.
        """
        route = self._routes.get(address)
        if route is not None:
            route.put_back()
            route.rests_until = 0.0
            route.breaker.hasten()
        self._look_again()

    async def _round_in_peace(self) -> float:
        try:
            return await self._round()
        except StoreUnavailable as error:
            log.warning("deliveries_not_looked_at", error=error.message)
        except Exception:  # the next round may do better
            log.exception("delivery_round_failed")
        return TROUBLE_SECONDS

    async def _round(self) -> float:
        """Start what can go now; how many seconds there is nothing more to do."""
        await self._store.settle_clock()
        self._forget_idle_routes()
        self._start_waiting()
        due = await self._store.due_now(DUE_AT_ONCE)
        if due is not None:
            return self._see_to_all(due)
        # It goes on where the last look was broken off: nobody comes first every time.
        start, self._reached = self._reached, ""
        wait = await self._look_through(start)
        if start and not self._is_full:
            wait = min(wait, await self._look_through(""))
        return wait

    def _see_to_all(self, due: DueNow) -> float:
        self._reached = ""
        wait = LONGEST_WAIT_SECONDS
        if due.next_at is not None:
            wait = min(wait, max(0.0, due.next_at - self._clock.now()) / 1000)
        for address in due.addresses:
            if self._is_full:
                break  # what is in hand wakes this loop when it is done
            wait = min(wait, self._see_to(address, 0.0))
        return wait

    async def _look_through(self, reached: str) -> float:
        """See to all addresses behind one, while there is room for what is due there."""
        wait = LONGEST_WAIT_SECONDS
        is_end = False
        while not is_end:
            if self._is_full:
                self._reached = reached
                break
            page = await self._store.due_addresses(reached, ADDRESSES_AT_ONCE)
            now = self._clock.now()
            for address, due_at in page:
                wait = min(wait, self._see_to(address, (due_at - now) / 1000))
            is_end = len(page) < ADDRESSES_AT_ONCE
            reached = page[-1][0] if page else reached
        return wait

    @property
    def _is_full(self) -> bool:
        in_hand = [route.in_hand for route in self._routes.values() if route.in_hand]
        size = sum(sum(each.values()) for each in in_hand)
        return sum(map(len, in_hand)) >= MOST_PREPARED or size >= MOST_PREPARED_BYTES

    def _see_to(self, address: str, seconds: float) -> float:
        """Fetch what is due for an address, if it can go; when to look again otherwise."""
        if seconds > 0:
            return seconds
        route = self._routes.get(address)
        if route is None:
            route = self._routes[address] = Route.to(address, self._clock)
        if route.is_loading:
            route.is_wanted = True
        elif route.wants_more:
            route.is_loading = True
            self._spawn(self._load(route), f"load deliveries for {address}")
        # What is under way, or loads, wakes this loop when it is done.
        return route.seconds_to_rest or LONGEST_WAIT_SECONDS

    async def _load(self, route: Route) -> None:
        """Read the next page of an address."""
        is_news = True
        try:
            async with self._loads:
                is_news = await self._fetch(route)
        except StoreUnavailable as error:
            log.warning("deliveries_not_read", error=error.message)
            await asyncio.sleep(TROUBLE_SECONDS)
        except Exception:  # the next time may do better
            log.exception("delivery_load_failed", address=route.address)
            await asyncio.sleep(TROUBLE_SECONDS)
        finally:
            route.is_loading = False
            if is_news or route.is_wanted:
                route.is_wanted = False
                self._look_again()

    async def _fetch(self, route: Route) -> bool:
        """Keep what is to be sent, and then have it wait for its turn. Whether there was any."""
        reading = route.readings
        # What is in hand now may be read as pending, and be settled before it comes back.
        busy = set(route.in_hand), set(route.lines)
        found = await self._store.due_deliveries(
            route.address, PAGE + len(busy[0]), PAGE_BYTES, besides=busy[0]
        )
        fresh = [due for due in found if due.line not in busy[1]]
        del fresh[PAGE:]
        made: dict[int, FrozenBody] = {}
        ready: list[Prepared] = []
        for due in fresh:
            if sum(each.size for each in ready) >= PAGE_BYTES:
                break
            body = due.body or await self._make_body(due)
            if body is None and due.upload is None:
                continue
            if body is not None and due.body is None:
                made[due.sequence] = body
            ready.append(Prepared(replace(due, subject=None, body=None), body))
        if made:
            await self._store.freeze_bodies(made)
        if route.readings == reading and route.breaker.lets_through:
            for prepared in ready:
                route.accept(prepared)
        return bool(fresh)

    async def _make_body(self, due: DueDelivery) -> FrozenBody | None:
        """None for an upload, and where there is nothing to be told: that is settled then."""
        if due.upload is not None:
            return None
        if due.subject is None or due.endpoint is None:
            await self._store.cancel_delivery(due, "What it was about is gone.")
            return None
        try:
            message = message_about(due.id, due.subject, self._link_to)
            return freeze(message, due.endpoint.url, due.endpoint.settings)
        except InvalidWebhook as error:
            made = Try(self._clock.now(), 0.0, error=error.message)
            await self._store.note_try(due, TryResult(made))
            return None
        except Exception:  # one message that breaks must not hold up the others
            log.exception("message_not_made", delivery=due.id)
            answer = Answer(Verdict.RETRY, error="The message could not be made.")
            made = Try(self._clock.now(), 0.0, error=answer.error)
            await self._store.note_try(due, self._result(due, answer, made))
            return None

    def _start_waiting(self) -> None:
        """One of each address in turn, while there is room."""
        for route in self._turns():
            prepared = route.take()
            self._slots_for(prepared.due).take(prepared.due.tenant)
            self._spawn(self._deliver(route, prepared), f"deliver {prepared.due.id}")

    def _turns(self) -> Iterator[Route]:
        while ready := [route for route in self._routes.values() if self._may_go(route)]:
            for route in ready:
                if self._may_go(route):
                    # It goes to the back: the next turn begins with others.
                    self._routes[route.address] = self._routes.pop(route.address)
                    yield route

    def _may_go(self, route: Route) -> bool:
        if not route.has_next:
            return False
        due = route.waiting[0].due
        return self._slots_for(due).may_take(due.tenant)

    def _slots_for(self, due: DueDelivery) -> Slots:
        """Files take their time: they have places of their own."""
        return self._calls if due.upload is None else self._uploads

    async def _deliver(self, route: Route, prepared: Prepared) -> None:
        due = prepared.due
        try:
            began = self._clock.monotonic()
            at = self._clock.now()
            try:
                answer = await self._dispatcher.send(due, prepared.body)
            except StoreUnavailable:
                raise
            except Exception as error:
                log.exception("delivery_broke", delivery=due.id)
                said = error.message if isinstance(error, ComfyrailError) else "It broke."
                answer = Answer(Verdict.RETRY, error=said)
            seconds = self._clock.monotonic() - began
            made = Try(at, round(seconds, 3), answer.status, answer.error, answer.reply)
            await self._conclude(route, due, answer, made)
        except StoreUnavailable as error:
            # It is sent once more under the same id: nobody has written down that it went.
            route.breaker.abandon_probe()
            log.warning("delivery_not_noted", delivery=due.id, error=error.message)
            await asyncio.sleep(TROUBLE_SECONDS)
        except Exception:
            route.breaker.abandon_probe()
            log.exception("delivery_not_noted", delivery=due.id)
            await asyncio.sleep(TROUBLE_SECONDS)
        finally:
            self._slots_for(due).give_back(due.tenant)
            route.let_go(due)
            self._look_again()

    async def _conclude(self, route: Route, due: DueDelivery, answer: Answer, made: Try) -> None:
        self.counts[answer.verdict] += 1
        await self._store.settle_clock()
        if answer.verdict is Verdict.POSTPONED:
            await self._postpone(route, due, answer)
            return
        result = self._result(due, answer, made)
        is_disabled = await self._store.note_try(due, result)
        match answer.verdict:
            case Verdict.DELIVERED:
                route.breaker.note_success()
            case Verdict.RETRY:
                route.breaker.note_failure(answer.error or "")
                if route.breaker.state is BreakerState.OPEN:
                    route.put_back()
                    expired = await self._store.expire_deliveries(route.address)
                    log.info("endpoint_rests", address=route.address, given_up=expired)
            case Verdict.REFUSED | Verdict.GONE | Verdict.POSTPONED:
                # It answers: only what was sent does not please it.
                route.breaker.abandon_probe()
        if is_disabled and due.endpoint is not None:
            route.put_back()
            log.warning("webhook_disabled", webhook=due.endpoint.id, tenant=due.tenant)

    async def _postpone(self, route: Route, due: DueDelivery, answer: Answer) -> None:
        seconds = max(1.0, answer.retry_after or 0.0)
        next_at = after(self._clock.now(), seconds)
        await self._store.postpone_delivery(due, next_at, answer.error or "")
        route.breaker.abandon_probe()
        route.rest(seconds)

    def _result(self, due: DueDelivery, answer: Answer, made: Try) -> TryResult:
        match answer.verdict:
            case Verdict.DELIVERED:
                return TryResult(made)
            case Verdict.REFUSED | Verdict.POSTPONED:
                return TryResult(made)
            case Verdict.GONE:
                return TryResult(made, disables=answer.error)
            case Verdict.RETRY:
                delays = (
                    due.endpoint.settings.delays
                    if due.endpoint
                    else delays_of_job(DEFAULT_RETRIES, DEFAULT_RETRY_DELAY_SECONDS)
                )
                delay = delay_after(due.failures + 1, delays, self._chance(), answer.retry_after)
                next_at = None if delay is None else after(self._clock.now(), delay)
                return TryResult(made, next_at, is_used_up=next_at is None, body=answer.rest)

    def _forget_idle_routes(self) -> None:
        for address in [key for key, route in self._routes.items() if route.is_forgettable]:
            del self._routes[address]
        if len(self._routes) > MOST_ROUTES:
            # Of those that only failed, the ones of longest ago: they have to fail again.
            idle = [key for key, route in self._routes.items() if not route.in_hand]
            for address in idle[: len(self._routes) - MOST_ROUTES]:
                del self._routes[address]

    def _look_again(self) -> None:
        self._store.signals.notify(DELIVERIES)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self) -> None:
        """Let what is under way end, for a moment."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._grace_seconds)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
