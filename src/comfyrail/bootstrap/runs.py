"""Builds what is behind the run API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from comfyrail.bootstrap.settings import Settings
from comfyrail.clock import Clock
from comfyrail.fleet.fleet import Fleet
from comfyrail.results.blob_store import BlobStore
from comfyrail.store.interface import Store
from comfyrail.usecases.given_files import GivenFiles
from comfyrail.usecases.jobs import Jobs
from comfyrail.usecases.library import Library
from comfyrail.usecases.run_fetch import OutputFetcher
from comfyrail.usecases.run_folders import RunFolders
from comfyrail.usecases.run_keeper import RunKeeper
from comfyrail.usecases.run_state_files import RunStateFiles
from comfyrail.usecases.run_states import RunStates
from comfyrail.usecases.runs import Runs
from comfyrail.usecases.submit import SubmitWorkflow
from comfyrail.usecases.workers import Workers


class Loop(Protocol):
    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RunParts:
    runs: Runs
    loops: Mapping[str, Loop]
    """By their names, to be run while the server runs."""


def make_runs(
    settings: Settings,
    store: Store,
    blobs: BlobStore,
    clock: Clock,
    fleet: Fleet,
    workers: Workers,
    submit: SubmitWorkflow,
    jobs: Jobs,
    library: Library,
    files: GivenFiles,
) -> RunParts:
    folders = RunFolders(settings.run_folders, has_tenants=settings.access == "on")
    loops: dict[str, Loop] = {}
    copies = None
    if settings.state_dir is not None:
        copies = RunStateFiles(settings.state_dir, store, clock)
        loops["run-state-files"] = copies
    states = RunStates(store, clock, copies)
    fetcher = OutputFetcher(folders, blobs)
    loops["run-keeper"] = RunKeeper(store, clock, states, fetcher, fleet)
    limit = settings.run_concurrency or None
    runs = Runs(store, submit, jobs, workers, library, files, folders, states, limit)
    return RunParts(runs, loops)
