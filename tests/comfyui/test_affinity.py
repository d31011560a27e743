"""Scheduling by warm models on two real ComfyUI processes [5.3]: `make test-comfyui`."""

from collections.abc import Iterator

import pytest

from bench.affinity import (
    MODELS,
    ORDER,
    Comparison,
    House,
    compare,
    median_quotient,
    open_house,
    report,
)
from tests.comfyui_peer.install import installed_peer

pytestmark = [pytest.mark.comfyui, pytest.mark.timeout(900)]

REPETITIONS = 5
TOLERANCE = 0.25


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    peer = installed_peer()
    if peer is None:
        pytest.skip("no ComfyUI is installed for tests: run `make test-comfyui`")
    with open_house(peer, tmp_path_factory.mktemp("affinity")) as opened:
        yield opened


def check_loads(found: Comparison) -> None:
    """Each model once, each on a worker of its own; round robin loads one for every job."""
    workers, models = zip(*found.affinity.loads, strict=True)
    assert sorted(models) == sorted(MODELS)
    assert sorted(workers) == [0, 1]
    assert found.predicted_affinity.loads == len(MODELS)
    assert len(found.round_robin.loads) == found.predicted_round_robin.loads == len(ORDER)


def test_cold_workers_load_each_model_once_and_are_faster_by_the_simulated_ratio(
    house: House,
) -> None:
    """Jobs A A B B … all at once, on workers with nothing in memory, with times known from earlier
    jobs. The loads must be right in every run; times may be disturbed by what else the machine
    does, so they are measured once more when they are off.
    """
    for _ in range(2):
        found: list[Comparison] = []
        for each in compare(house, ORDER, REPETITIONS):
            report(each)
            check_loads(each)
            found.append(each)
        if abs(median_quotient(found) - 1) <= TOLERANCE:
            break
    assert median_quotient(found) == pytest.approx(1, abs=TOLERANCE)


def test_workers_with_a_model_each_load_nothing_for_further_jobs(house: House) -> None:
    house.calibrate()
    assert len(house.affinity(ORDER).loads) == len(MODELS)
    assert house.affinity(ORDER, is_cold=False).loads == []


def test_workers_that_have_run_both_models_load_no_more_than_one_each(house: House) -> None:
    """ComfyUI keeps only the models of its latest prompt: that it ran both says little."""
    house.calibrate()
    assert len(house.affinity(ORDER, is_cold=False).loads) <= len(MODELS)
