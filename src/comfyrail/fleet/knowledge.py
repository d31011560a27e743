"""What is known of one worker: its nodes, its machine, its models, and what that lets it run."""

from collections.abc import Mapping
from dataclasses import replace

import structlog

from comfyrail.errors import StoreUnavailable
from comfyrail.fleet.connection import WorkerConnection
from comfyrail.fleet.context import WorkerContext
from comfyrail.fleet.description import (
    WorkerDescription,
    ask_for_models,
    describe_machine,
    free_video_memory,
)
from comfyrail.fleet.traits import WorkerTraits, labels_of
from comfyrail.fleet.warm_up import Prompt
from comfyrail.ids import WorkerId
from comfyrail.jobs.workers import WorkerProfile
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.graph import is_large_prompt, parse_workflow
from comfyrail.workflow.models import models_of

log = structlog.get_logger(__name__)


class WorkerKnowledge:
    """Asked of the worker itself, and passed on to the fleet's catalog."""

    def __init__(self, worker_id: WorkerId, traits: WorkerTraits, context: WorkerContext) -> None:
        self._worker_id = worker_id
        self._context = context
        self._known_as = (worker_id,) if traits.likeness is None else (worker_id, traits.likeness)
        self.labels = labels_of(traits)
        self.catalog = NodeCatalog()
        # As it was, or as others like it are, until it tells: what it cannot list just now is
        # not taken to be gone.
        known = (context.catalog.description(each) for each in self._known_as)
        self.machine = next((each for each in known if each is not None), WorkerDescription())
        self.video_memory_free: int | None = None
        self.profile: WorkerProfile | None = None
        self._refused_models: frozenset[str] = frozenset()

    async def ask_for_figures(self, connection: WorkerConnection) -> None:
        """Its machine and how much memory is free: a small question."""
        stats = await connection.client.system_stats()
        self.video_memory_free = free_video_memory(stats)
        machine = describe_machine(stats, self.machine.models)
        if machine != self.machine:
            self.machine = machine
            await self._pass_on()

    async def ask_for_nodes(self, connection: WorkerConnection) -> None:
        object_info = await connection.client.object_info()
        for known_as in self._known_as:
            self.catalog = await self._context.catalog.learn(known_as, object_info)
        await self._pass_on()

    async def ask_for_models(self, connection: WorkerConnection) -> None:
        """Apart from the rest: some workers take their time to list large folders."""
        try:
            models = await ask_for_models(connection.client, self.machine.models)
            self.machine = replace(self.machine, models=models)
            await self._pass_on()
        except StoreUnavailable as error:
            log.warning("models_not_remembered", worker_id=self._worker_id, error=error.message)

    def models_in(self, prompt: Prompt) -> Mapping[str, int]:
        """The models that a graph names, with their bytes where somebody tells them."""
        if not prompt or is_large_prompt(prompt):
            return {}
        told = self._context.catalog.model_sizes()
        return {
            model.name: told.get(f"{model.folder}/{model.name}", 0)
            for model in models_of(parse_workflow(prompt), self.catalog)
        }

    def refuse_models(self, names: frozenset[str]) -> bool:
        """Which models it gets no jobs with, from now on; whether that is something new."""
        if names == self._refused_models:
            return False
        self._refused_models = names
        if self.profile is not None:
            self.profile = self._make_profile()
        return True

    def forget(self) -> None:
        """The worker was removed."""
        self._context.profiles.take_back(self._worker_id)
        self._context.catalog.forget(self._worker_id)

    async def _pass_on(self) -> None:
        for known_as in self._known_as:
            if known_as == self._worker_id:
                self.profile = self._make_profile()
            else:
                profile_of(self._context, known_as, self.catalog, self.machine, self.labels)
            await self._context.catalog.describe(known_as, self.machine)

    def _make_profile(self) -> WorkerProfile:
        return profile_of(
            self._context,
            self._worker_id,
            self.catalog,
            self.machine,
            self.labels,
            self._refused_models,
        )


def profile_of(
    context: WorkerContext,
    worker_id: WorkerId,
    catalog: NodeCatalog,
    description: WorkerDescription,
    labels: Mapping[str, str],
    refused_models: frozenset[str] = frozenset(),
) -> WorkerProfile:
    """The worker's profile from now on."""
    return context.profiles.give(
        worker_id,
        catalog,
        description,
        labels,
        rate=context.accounts.rate(description.device),
        # To two digits: what is learned anew every minute must not make workers unlike.
        load_bytes_per_second=float(f"{context.accounts.load_bytes_per_second():.1e}"),
        refused_models=refused_models,
    )
