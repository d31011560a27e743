"""Which workers can run a job, and how well one suits it [5.3]."""

from collections.abc import Set as AbstractSet

from comfyrail.jobs.needs import JobNeeds, ModelUse
from comfyrail.jobs.workers import WorkerProfile
from comfyrail.planning.cost import MEMORY_SHARE, REFERENCE_MEMORY

MEMORY_WEIGHT = 0.4
WARM_WEIGHT = 0.35
LOAD_WEIGHT = 0.25
BEST_MEMORY_USE = 0.8
NEUTRAL_FIT = 0.5
"""Of a job that needs no video memory, or a worker that does not tell how much it has: neither
good nor bad, so that warm models and load decide."""
ANY_FOLDER = "models"
"""The folder of a model whose folder is not known."""
LEAST_BYTES_PER_SECOND = 1_000_000.0


def can_run(needs: JobNeeds, profile: WorkerProfile) -> bool:
    """Whether a worker can run a job now."""
    return can_load(needs, profile) and has_all(needs, profile)


def has_all(needs: JobNeeds, profile: WorkerProfile) -> bool:
    """Whether it has what the job asks for. What it does not tell is not held against it."""
    return (
        needs.node_types <= profile.node_types
        and (profile.video_memory is None or needs.video_memory <= profile.video_memory)
        and (profile.memory is None or needs.memory <= profile.memory)
        and all(profile.labels.get(name) == value for name, value in needs.labels.items())
        and all(has_model(profile, model) for model in needs.models)
    )


def can_load(needs: JobNeeds, profile: WorkerProfile) -> bool:
    """Whether none of the job's models has lately failed to load there, again and again."""
    return not profile.refused_models or profile.refused_models.isdisjoint(needs.model_names)


def has_model(profile: WorkerProfile, model: ModelUse) -> bool:
    """As far as the worker tells."""
    if model.folder != ANY_FOLDER:
        folder = profile.models.get(model.folder)
        return folder is None or model.name in folder
    if ANY_FOLDER in profile.models and model.name in profile.models[ANY_FOLDER]:
        return True
    return not profile.models or any(model.name in each for each in profile.models.values())


def memory_fit(needed: int, total: int | None) -> float:
    """1 at 80 % use, less the further from it."""
    if not needed or not total:
        return NEUTRAL_FIT
    return 1 - abs(BEST_MEMORY_USE - needed / total)


def warm_share(needs: JobNeeds, warm: AbstractSet[str]) -> float:
    names = needs.model_names
    return len(names & warm) / len(names) if names else 1.0


def gpu_score(
    needs: JobNeeds, profile: WorkerProfile, warm: AbstractSet[str], load: float
) -> float:
    """0.4 x memory fit + 0.35 x share of its models that are warm + 0.25 x (1 - load)."""
    return (
        MEMORY_WEIGHT * memory_fit(needs.video_memory, profile.video_memory)
        + WARM_WEIGHT * warm_share(needs, warm)
        + LOAD_WEIGHT * (1 - min(1.0, max(0.0, load)))
    )


def bytes_to_load(needs: JobNeeds, warm: AbstractSet[str]) -> int:
    return sum(model.size for model in needs.models if model.name not in warm)


def load_seconds(size: int, profile: WorkerProfile) -> float:
    return size / max(LEAST_BYTES_PER_SECOND, profile.load_bytes_per_second)


def expected_cost(seconds: float, needs: JobNeeds, profile: WorkerProfile) -> float:
    """US dollars: the worker's rate, more for more memory [3.4]."""
    share = max(0, needs.video_memory) / REFERENCE_MEMORY
    return max(0.0, seconds) * profile.rate * (1 + MEMORY_SHARE * share)
