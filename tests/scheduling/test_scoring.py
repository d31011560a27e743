"""Who can run a job, and how well [5.3]: the figures are binding."""

import pytest

from comfyrail.jobs.needs import JobNeeds, ModelUse
from comfyrail.jobs.workers import WorkerProfile
from comfyrail.scheduling.scoring import (
    NEUTRAL_FIT,
    bytes_to_load,
    can_run,
    expected_cost,
    gpu_score,
    memory_fit,
    warm_share,
)
from tests.scheduling.making import GIGABYTE, needs

TOLD = WorkerProfile(
    frozenset({"A", "B"}),
    {"checkpoints": frozenset({"x"}), "loras": frozenset({"l"})},
    video_memory=24 * GIGABYTE,
    memory=64 * GIGABYTE,
    labels={"region": "eu"},
)
SILENT = WorkerProfile(frozenset({"A", "B"}))


def model(folder: str, name: str) -> JobNeeds:
    return JobNeeds(models=(ModelUse(folder, name),))


@pytest.mark.parametrize(
    ("asked", "told", "silent"),
    [
        (needs(types=["A"]), True, True),
        (needs(types=["A", "C"]), False, False),
        (model("checkpoints", "x"), True, True),
        (model("checkpoints", "y"), False, True),
        (model("vae", "v"), True, True),
        (model("models", "l"), True, True),
        (model("models", "nowhere"), False, True),
        (JobNeeds(video_memory=24 * GIGABYTE), True, True),
        (JobNeeds(video_memory=24 * GIGABYTE + 1), False, True),
        (JobNeeds(memory=65 * GIGABYTE), False, True),
        (needs(labels={"region": "eu"}), True, False),
        (needs(labels={"region": "us"}), False, False),
    ],
)
def test_candidates_have_types_models_memory_and_labels(
    asked: JobNeeds, told: bool, silent: bool
) -> None:
    assert can_run(asked, TOLD) is told
    assert can_run(asked, SILENT) is silent


@pytest.mark.parametrize(
    ("needed", "total", "fit"),
    [
        (8, 10, 1.0),
        (10, 10, 0.8),
        (4, 10, 0.6),
        (1, 100, 0.21),
        (0, 10, NEUTRAL_FIT),
        (8, None, NEUTRAL_FIT),
    ],
)
def test_memory_fits_best_at_80_percent(needed: int, total: int | None, fit: float) -> None:
    assert memory_fit(needed, total) == pytest.approx(fit)


def test_share_of_warm_models_counts_names() -> None:
    two = needs("x", "y")
    assert [warm_share(two, each) for each in (set(), {"x"}, {"x", "y", "z"})] == [0, 0.5, 1]
    assert warm_share(needs(), set()) == 1


def test_score_is_weighed_as_the_specification_says() -> None:
    asked = needs("x", "y", size=12 * GIGABYTE)  # of 24: fit 0.7
    score = gpu_score(asked, TOLD, {"x"}, 0.4)
    assert score == pytest.approx(0.4 * 0.7 + 0.35 * 0.5 + 0.25 * 0.6)
    assert gpu_score(asked, TOLD, {"x"}, 7.0) == pytest.approx(0.4 * 0.7 + 0.35 * 0.5)


def test_cost_grows_with_time_and_memory() -> None:
    profile = WorkerProfile(frozenset(), rate=0.0005)
    asked = JobNeeds(video_memory=12 << 30)
    assert expected_cost(100, asked, profile) == pytest.approx(100 * 0.0005 * 1.25)
    assert expected_cost(-1, asked, profile) == 0


def test_only_models_that_are_not_warm_are_loaded() -> None:
    assert bytes_to_load(needs("x", "y", size=5), {"x"}) == 5
