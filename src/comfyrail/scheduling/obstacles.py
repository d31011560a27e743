"""Why no worker takes a job, in words for its owner."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.workers import WorkerProfile
from comfyrail.scheduling.scoring import can_run, has_all, has_model

Wanted = TypeVar("Wanted")

NAMES_SHOWN = 3
NO_WORKER = "No worker takes jobs now. See them with: comfyrail workers"
NOT_TOGETHER = "No single worker has all that the job asks for: node types, models, memory, labels."


def obstacle(needs: JobNeeds, profiles: Sequence[WorkerProfile]) -> str | None:
    """What is in the way of a job on workers of these kinds; None when one of them can run it."""
    if not profiles:
        return NO_WORKER
    if any(can_run(needs, profile) for profile in profiles):
        return None
    return _unloadable(needs, profiles) or _lack(needs, profiles)


def _unloadable(needs: JobNeeds, profiles: Sequence[WorkerProfile]) -> str | None:
    """Whether there are workers that have all that the job asks for, and could not load it."""
    refused = (each.refused_models for each in profiles if has_all(needs, each))
    names = sorted(needs.model_names.intersection(frozenset().union(*refused)))
    if not names:
        return None
    return (
        f"The model {_listed(names)} has failed to load on every worker that could run the job, "
        "again and again. It is tried again after a rest; when, and why it failed, is told by: "
        "comfyrail workers show"
    )


def _lack(needs: JobNeeds, profiles: Sequence[WorkerProfile]) -> str:
    labels = _lacking(
        profiles,
        needs.labels.items(),
        lambda profile, label: profile.labels.get(label[0]) == label[1],
    )
    if labels:
        return f"No worker has the label {_listed(f'{name}={value}' for name, value in labels)}."
    types = _lacking(
        profiles, sorted(needs.node_types), lambda profile, name: name in profile.node_types
    )
    if types:
        return f"No worker that is up has the node type {_listed(types)}."
    models = _lacking(profiles, needs.models, has_model)
    if models:
        return f"No worker that is up has the model {_listed(model.name for model in models)}."
    return _short_of_memory(needs, profiles) or NOT_TOGETHER


def _lacking(
    profiles: Sequence[WorkerProfile],
    wanted: Iterable[Wanted],
    has: Callable[[WorkerProfile, Wanted], bool],
) -> list[Wanted]:
    """Those that not one worker has."""
    return [each for each in wanted if not any(has(profile, each) for profile in profiles)]


def _short_of_memory(needs: JobNeeds, profiles: Sequence[WorkerProfile]) -> str | None:
    told = [each.video_memory for each in profiles if each.video_memory is not None]
    if len(told) < len(profiles) or needs.video_memory <= max(told):
        return None
    return (
        f"The job needs about {needs.video_memory / 1e9:.1f} GB of video memory; the largest "
        f"worker that is up has {max(told) / 1e9:.1f} GB."
    )


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - NAMES_SHOWN} more" if len(found) > NAMES_SHOWN else ""
    return ", ".join(found[:NAMES_SHOWN]) + more
