"""Warm models on real workers: two ComfyUI processes, two checkpoints, jobs that want either.

The server's scheduling beside round robin, and the ratio of both beside the one that the simulator
gives for the same jobs. Jobs come in pairs, A A B B A A B B: with A B A B, round robin over two
workers would by chance give each worker one model.
"""

import asyncio
import json
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import Request, urlopen

from comfyrail.ids import JobId, TenantId
from comfyrail.jobs.priority import QueueClass
from comfyrail.scheduling.simulation.policies import POLICIES
from comfyrail.scheduling.simulation.run import Simulation
from comfyrail.scheduling.simulation.scenario import (
    Arrivals,
    ModelSet,
    Pattern,
    RunTimes,
    Scenario,
    Tenant,
    WorkerSet,
)
from comfyrail.scheduling.simulation.workload import (
    GIGABYTE,
    SimulatedJob,
    Workload,
    make_workload,
)
from tests.comfyui_peer.checkpoints import lend_checkpoints, make_checkpoint
from tests.comfyui_peer.install import Peer, installed_peer
from tests.comfyui_peer.server import ComfyUIServer
from tests.comfyui_peer.worker import fetch_json
from tests.processes import Comfyrail, server, wait_until

MODELS = ("random_a.safetensors", "random_b.safetensors")
WORKERS = 2
LOADER = "1"
ORDER = (0, 0, 1, 1) * 4
"""Which model each job wants."""
CALIBRATION = (0, 0, 1, 1) * 2
"""The same for what each worker runs first: to be measured, and so that Comfyrail has seen enough
like jobs to know how long they take."""
REPETITIONS = 5
LEARNING_LIMIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Executed:
    """What a ComfyUI says of one prompt. Seconds; `loaded`: its loader ran, nothing was cached."""

    model: str
    loaded: bool
    began: float
    seconds: float


@dataclass(frozen=True, slots=True)
class RunOfJobs:
    """All jobs of an order, and what each worker made of them."""

    makespan: float
    by_worker: Sequence[Sequence[Executed]]

    @property
    def loads(self) -> list[tuple[int, str]]:
        """Worker and model of each load."""
        return [
            (number, each.model)
            for number, executed in enumerate(self.by_worker)
            for each in executed
            if each.loaded
        ]


@dataclass(frozen=True, slots=True)
class JobTimes:
    """Seconds that jobs took while both workers were at work, with a load of the model and without.
    The medians count: others use the machine too.
    """

    cold: Sequence[float]
    warm: Sequence[float]

    @property
    def run(self) -> float:
        return median(self.warm)

    @property
    def load(self) -> float:
        """What a job takes longer where the model has to be loaded."""
        return median(self.cold) - median(self.warm)

    def __add__(self, other: "JobTimes") -> "JobTimes":
        return JobTimes([*self.cold, *other.cold], [*self.warm, *other.warm])


@dataclass(frozen=True, slots=True)
class Prediction:
    makespan: float
    loads: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both ways to schedule, right after one another, and what the simulator makes of them with
    the times that jobs took right before and right after.
    """

    times: JobTimes
    affinity: RunOfJobs
    round_robin: RunOfJobs
    predicted_affinity: Prediction
    predicted_round_robin: Prediction

    @property
    def ratio(self) -> float:
        """How many times as long round robin takes."""
        return self.round_robin.makespan / self.affinity.makespan

    @property
    def predicted_ratio(self) -> float:
        return self.predicted_round_robin.makespan / self.predicted_affinity.makespan

    @property
    def quotient(self) -> float:
        """Of the measured and the predicted ratio."""
        return self.ratio / self.predicted_ratio


class House:
    """A Comfyrail server with two real ComfyUI processes as its workers."""

    def __init__(self, process: Comfyrail, comfyuis: Sequence[ComfyUIServer], size: int) -> None:
        self.process = process
        self.model_bytes = size
        self._comfyuis = comfyuis
        self._ids: list[str] = []
        self._seed = 0
        self._has_run = False

    def job(self, model: int) -> dict[str, Any]:
        """A small picture in few steps: to load the model takes longest. No seed comes twice, so
        that of two like jobs in a row the second still has to sample.
        """
        self._seed += 1
        sampling = {
            "seed": self._seed,
            "steps": 3,
            "cfg": 7.0,
            "sampler_name": "euler",
            "scheduler": "normal",
            "denoise": 1.0,
            "model": [LOADER, 0],
            "positive": ["2", 0],
            "negative": ["3", 0],
            "latent_image": ["4", 0],
        }
        size = {"width": 64, "height": 64, "batch_size": 1}
        loading = {"ckpt_name": MODELS[model]}
        return {
            LOADER: {"class_type": "CheckpointLoaderSimple", "inputs": loading},
            "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "a", "clip": [LOADER, 1]}},
            "3": {"class_type": "CLIPTextEncode", "inputs": {"text": "b", "clip": [LOADER, 1]}},
            "4": {"class_type": "EmptyLatentImage", "inputs": size},
            "5": {"class_type": "KSampler", "inputs": sampling},
            "6": {"class_type": "VAEDecode", "inputs": {"samples": ["5", 0], "vae": [LOADER, 2]}},
            "7": {"class_type": "PreviewImage", "inputs": {"images": ["6", 0]}},
        }

    def calibrate(self) -> JobTimes:
        """Cold and warm jobs on both workers at once: they share the machine in what follows too.
        Returns when Comfyrail has learned from them.
        """
        self._begin_cold()
        self._in_turns([CALIBRATION] * WORKERS)
        # The first job of a process also pays for what Python imports on its first use.
        skipped = 0 if self._has_run else 1
        self._has_run = True
        executed = [each for mine in self._executed() for each in mine[skipped:]]
        wait_until(self._has_learned, LEARNING_LIMIT_SECONDS)
        return JobTimes(
            cold=[each.seconds for each in executed if each.loaded],
            warm=[each.seconds for each in executed if not each.loaded],
        )

    def affinity(self, order: Sequence[int], *, is_cold: bool = True) -> RunOfJobs:
        """All jobs at once, placed by the server's own scheduling. Not cold: on workers as they
        are left by what they ran before.
        """
        if is_cold:
            self._begin_cold()
        else:
            self._forget_history()
        self._post("/v1/queue/pause", {})
        ids = [self.process.submit(self.job(model)) for model in order]
        began = datetime.now().astimezone()
        self._post("/v1/queue/resume", {})
        return self._run_since(began, [self._end_of(job_id) for job_id in ids])

    def round_robin(self, order: Sequence[int]) -> RunOfJobs:
        """The same through the same server, but each job is for the worker whose turn it is."""
        self._begin_cold()
        began = datetime.now().astimezone()
        ends = self._in_turns([order[number::WORKERS] for number in range(WORKERS)])
        return self._run_since(began, ends)

    def _run_since(self, began: datetime, ends: Sequence[datetime]) -> RunOfJobs:
        return RunOfJobs((max(ends) - began).total_seconds(), self._executed())

    def _begin_cold(self) -> None:
        """Nothing in the memory of the workers, and new to Comfyrail, which takes them to be so."""
        for worker_id in self._ids:
            status, body = self.process.call("DELETE", f"/v1/workers/{worker_id}")
            assert status == 204, body
        self._ids.clear()
        self._forget_history()
        for number, comfyui in enumerate(self._comfyuis):
            _order(comfyui.url + "/free", {"unload_models": True, "free_memory": True})
            body = {"url": comfyui.url, "labels": {"turn": str(number)}}
            self._ids.append(self._post("/v1/workers", body, 201)["worker_id"])
        wait_until(self._is_idle)

    def _forget_history(self) -> None:
        for comfyui in self._comfyuis:
            _order(comfyui.url + "/history", {"clear": True})

    def _is_idle(self) -> bool:
        workers = self.process.call("GET", "/v1/workers")[1]["workers"]
        return [each["status"] for each in workers] == ["idle"] * WORKERS

    def _has_learned(self) -> bool:
        body = {"workflow": self.job(0)}
        duration = self._post("/v1/workflows/plan", body)["duration"]
        return bool(duration["source"] == "history" and duration["similar"] >= len(CALIBRATION))

    def _in_turns(self, orders: Sequence[Sequence[int]]) -> list[datetime]:
        """Give each worker its own jobs, strictly one after another; when each ended."""
        with ThreadPoolExecutor(len(orders)) as pool:
            ends = list(pool.map(self._one_by_one, range(len(orders)), orders))
        return [end for mine in ends for end in mine]

    def _one_by_one(self, number: int, order: Sequence[int]) -> list[datetime]:
        """One runs, and one waits behind it so that the worker never idles. More of them would be
        put in an order that saves loads.
        """
        under_way: deque[str] = deque()
        ends: list[datetime] = []
        for model in order:
            labels = {"turn": str(number)}
            under_way.append(self.process.submit(self.job(model), labels=labels))
            if len(under_way) > 1:
                ends.append(self._end_of(under_way.popleft()))
        return [*ends, *map(self._end_of, under_way)]

    def _end_of(self, job_id: str) -> datetime:
        last = self.process.events(job_id)[-1]
        assert last["type"] == "execution.completed", last
        return datetime.fromisoformat(self.process.execution(job_id)["completed_at"])

    def _executed(self) -> list[list[Executed]]:
        return [_executed(fetch_json(comfyui.url + "/history")) for comfyui in self._comfyuis]

    def _post(self, path: str, body: Any, expected: int = 200) -> Any:
        status, reply = self.process.call("POST", path, body)
        assert status == expected, reply
        return reply


def _order(url: str, body: Any) -> None:
    """ComfyUI answers such requests with nothing."""
    with urlopen(Request(url, json.dumps(body).encode()), timeout=30):
        pass


def _executed(history: dict[str, Any]) -> list[Executed]:
    """In the order in which they ran."""
    found = []
    for entry in history.values():
        messages = dict(entry["status"]["messages"])
        began = messages["execution_start"]["timestamp"]
        ended = messages["execution_success"]["timestamp"]
        model = entry["prompt"][2][LOADER]["inputs"]["ckpt_name"]
        loaded = LOADER not in messages["execution_cached"]["nodes"]
        found.append(Executed(model, loaded, began / 1000, (ended - began) / 1000))
    return sorted(found, key=lambda each: each.began)


@contextmanager
def open_house(peer: Peer, folder: Path) -> Iterator[House]:
    files = [folder / "models" / name for name in MODELS]
    for seed, file in enumerate(files):
        make_checkpoint(peer, file, seed)
    with ExitStack() as stack:
        comfyuis = [ComfyUIServer(peer) for _ in range(WORKERS)]
        for comfyui in comfyuis:
            lend_checkpoints(comfyui.base_directory, files)
            stack.enter_context(comfyui)
        process = stack.enter_context(server(folder / "data", workers=0))
        yield House(process, comfyuis, files[0].stat().st_size)


def compare(house: House, order: Sequence[int], repetitions: int) -> Iterator[Comparison]:
    before = house.calibrate()
    for _ in range(repetitions):
        affinity, round_robin = house.affinity(order), house.round_robin(order)
        after = house.calibrate()
        times = before + after
        before = after
        yield Comparison(
            times,
            affinity,
            round_robin,
            predict("comfyrail", order, times, house.model_bytes),
            predict("round-robin", order, times, house.model_bytes),
        )


def median_quotient(found: Sequence[Comparison]) -> float:
    return median(each.quotient for each in found)


def predict(policy: str, order: Sequence[int], times: JobTimes, model_bytes: int) -> Prediction:
    """What the simulator makes of the jobs, all of them there at once. Its workers hold one model:
    of what ran before, ComfyUI keeps only what the latest prompt uses too.
    """
    gigabytes = model_bytes / GIGABYTE
    scenario = Scenario(
        jobs=len(order),
        workers=(WorkerSet(WORKERS, memory_gb=1.5 * gigabytes),),
        arrivals=Arrivals(Pattern.AT_ONCE),
        run_seconds=RunTimes(times.run, sigma=0.0, estimate_sigma=0.0),
        models=ModelSet(
            len(MODELS),
            (gigabytes, gigabytes),
            load_seconds_per_gb=times.load / gigabytes,
        ),
        tenants=(Tenant("one"),),
    )
    groups = make_workload(scenario, seed=0).groups
    jobs = [
        SimulatedJob(
            JobId(f"job-{number}"),
            number,
            0.0,
            QueueClass.MEDIUM,
            TenantId("one"),
            groups[model],
            times.run,
            times.run,
        )
        for number, model in enumerate(order)
    ]
    trace = Simulation(scenario, Workload(jobs, groups), POLICIES[policy](scenario)).run()
    assert len(trace.begun) == len(order)
    loads = sum(worker.loads for worker in trace.workers)
    return Prediction(max(each.ends for each in trace.begun), loads)


def report(found: Comparison) -> None:
    times = found.times
    print(f"  a job takes {times.run:.2f} s, {times.load:.2f} s more where the model is loaded")
    for name, run, predicted in (
        ("affinity", found.affinity, found.predicted_affinity),
        ("round robin", found.round_robin, found.predicted_round_robin),
    ):
        measured = f"{run.makespan:5.1f} s, {len(run.loads):2} loads"
        simulated = f"{predicted.makespan:5.1f} s, {predicted.loads:2} loads"
        print(f"    {name:11} {measured}; simulated {simulated}")
    print(
        f"    round robin / affinity {found.ratio:.2f}, simulated {found.predicted_ratio:.2f}, "
        f"quotient {found.quotient:.2f}",
        flush=True,
    )


async def warm_models() -> None:
    """Bar: each model is loaded once, and the ratio is within 25 % of the simulated one."""
    await asyncio.to_thread(_measure)


def _measure() -> None:
    peer = installed_peer()
    if peer is None:
        sys.exit("There is no ComfyUI: run `make test-comfyui` first.")
    found: list[Comparison] = []
    with tempfile.TemporaryDirectory() as folder, open_house(peer, Path(folder)) as house:
        for each in compare(house, ORDER, REPETITIONS):
            report(each)
            found.append(each)
    ratio = median(each.ratio for each in found)
    predicted = median(each.predicted_ratio for each in found)
    print(f"  medians: round robin / affinity {ratio:.2f}, simulated {predicted:.2f}, ", end="")
    print(f"quotient {median_quotient(found):.2f}")
