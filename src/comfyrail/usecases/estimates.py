"""What workflows will take and what they have cost, learned from past executions [3.2, 3.4]."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Mapping

import structlog

from comfyrail.clock import Clock
from comfyrail.errors import InvalidWorkflow, StoreUnavailable
from comfyrail.fleet.accounts import Account, Measured
from comfyrail.jobs.job import Attempt, Usage
from comfyrail.planning.analysis import Analysis
from comfyrail.planning.cost import CostRates, cost_of
from comfyrail.planning.duration import DurationModel, Prediction
from comfyrail.planning.model_plan import DEFAULT_BYTES_PER_SECOND, learn_load_rate
from comfyrail.planning.progress_weights import progress_weights
from comfyrail.planning.records import ExecutionRecord, record_of
from comfyrail.store.interface import RECORDS_KEPT, Store
from comfyrail.store.signals import RECORDS
from comfyrail.usecases.analysts import CurrentAnalyst
from comfyrail.workflow.graph import is_large_prompt, parse_workflow

log = structlog.get_logger(__name__)

SHORTEST_REST_SECONDS = 0.2
REST_PER_FIT = 20.0
"""Learning takes a twentieth of a core at most, however many jobs end."""


class Estimates:
    """Keeps the model of durations up to date. `run` goes on until it is cancelled."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        rates: CostRates,
        analyst: CurrentAnalyst,
    ) -> None:
        self._store = store
        self._clock = clock
        self.rates = rates
        self.analyst = analyst
        self._records: deque[ExecutionRecord] = deque(maxlen=RECORDS_KEPT)
        self._last_record = 0
        self._load_rate = DEFAULT_BYTES_PER_SECOND
        self.model = DurationModel.fit(())

    async def run(self) -> None:
        """First learn from what was recorded before the last restart, then from all that is new."""
        with self._store.signals.subscribe(RECORDS) as news:
            while True:
                try:
                    took = await self._learn()
                except StoreUnavailable as error:
                    log.warning("learning_paused", error=error.message)
                    took = 0.0
                except Exception:  # estimates are a comfort: they must not end for one bad record
                    log.exception("learning_failed")
                    took = 1.0
                await asyncio.sleep(max(SHORTEST_REST_SECONDS, REST_PER_FIT * took))
                await news.wait()

    def predict(self, analysis: Analysis, device: str | None = None) -> Prediction:
        return self.model.predict(analysis, device)

    def cost(self, seconds: float, device: str | None, analysis: Analysis | None) -> float:
        """Where nobody knows how much memory it takes, time alone counts."""
        memory = 0 if analysis is None else analysis.needs.video_memory
        return cost_of(seconds, device, memory, self.rates)

    def rate(self, device: str | None) -> float:
        """US dollars a second of a device."""
        return self.rates.rate_of(device)

    def load_bytes_per_second(self) -> float:
        """How fast models have been loaded lately."""
        return self._load_rate

    def open(self, attempt: Attempt, device: str | None) -> Account:
        """For the fleet: the account of one attempt."""
        analysis: Analysis | None = None
        if not is_large_prompt(attempt.prompt):
            # InvalidWorkflow: only of a job that an older version accepted.
            with contextlib.suppress(InvalidWorkflow):
                analysis = self.analyst.get().analyse(parse_workflow(attempt.prompt))
        return AttemptAccount(self, attempt, device, analysis)

    def record(
        self, attempt: Attempt, device: str | None, analysis: Analysis, measured: Measured
    ) -> bytes:
        return record_of(
            analysis,
            job_id=attempt.job_id,
            device=device,
            seconds=measured.seconds,
            finished_at=self._clock.now(),
            node_seconds=measured.node_seconds,
            cached=measured.cached,
        ).encode()

    async def _learn(self) -> float:
        """Take in new records; the seconds that fitting took."""
        for number, content in await self._store.records_after(self._last_record):
            self._last_record = number
            record = ExecutionRecord.decode(content)
            if record is not None:
                self._records.append(record)
        started = time.perf_counter()
        records = tuple(self._records)
        self.model = await asyncio.to_thread(DurationModel.fit, records)
        self._load_rate = await asyncio.to_thread(learn_load_rate, records)
        return time.perf_counter() - started


class AttemptAccount:
    """What one attempt is expected to take, and what it took."""

    def __init__(
        self,
        estimates: Estimates,
        attempt: Attempt,
        device: str | None,
        analysis: Analysis | None,
    ) -> None:
        self._estimates = estimates
        self._attempt = attempt
        self._device = device
        self._analysis = analysis

    def weights(self) -> Mapping[str, float]:
        if self._analysis is None:
            return {}
        return progress_weights(self._estimates.model.node_seconds(self._analysis, self._device))

    def settle(self, measured: Measured) -> Usage:
        cost = self._estimates.cost(measured.seconds, self._device, self._analysis)
        if self._analysis is None or not measured.is_whole:
            return Usage(cost, seconds=measured.seconds)
        return Usage(
            cost,
            self._estimates.record(self._attempt, self._device, self._analysis, measured),
            measured.seconds,
        )
