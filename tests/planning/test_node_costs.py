"""Costs of nodes are learned from what nodes took."""

import random

import msgspec
import pytest

from comfyrail.planning.measured_runs import Point, collect_runs
from comfyrail.planning.node_costs import fit_cost, fit_node_costs
from comfyrail.planning.node_kinds import DEFAULT_COSTS, NodeCost, NodeKind
from comfyrail.planning.node_work import NodeWork
from tests.planning.simulated_history import simulated_history

PRIOR = DEFAULT_COSTS[NodeKind.SAMPLER]


def points(cost: NodeCost, noise: float = 0.0) -> list[Point]:
    source = random.Random(1)
    made = []
    for steps in (5.0, 20.0, 40.0):
        for megapixels in (0.25, 1.0, 4.0):
            units = steps * megapixels
            seconds = cost.base + cost.per_step * steps + cost.per_unit * units
            seconds *= source.lognormvariate(0, noise)
            made.append(Point(steps, units, 0.0, seconds, 3.0))
    return made


@pytest.mark.parametrize("factor", [0.01, 1.0, 300.0])
def test_cost_is_found_whatever_its_size(factor: float) -> None:
    true = NodeCost(0.5 * factor, 0.02 * factor, 0.1 * factor, 0.0)
    found = fit_cost(points(true, noise=0.02), PRIOR)
    for steps, units in ((20.0, 20.0), (40.0, 160.0), (5.0, 1.25)):
        expected = true.base + true.per_step * steps + true.per_unit * units
        seconds = found.base + found.per_step * steps + found.per_unit * units
        assert seconds == pytest.approx(expected, rel=0.15)


def test_no_part_of_a_cost_is_below_zero() -> None:
    falling = [Point(10.0, units, 0.0, 10.0 / units, 3.0) for units in (1.0, 2.0, 4.0, 8.0)]
    assert all(part >= 0 for part in fit_cost(falling, PRIOR))


def test_one_wild_outlier_does_not_spoil_a_fit() -> None:
    true = NodeCost(0.5, 0.0, 0.1, 0.0)
    made = points(true)
    made[4] = made[4]._replace(seconds=made[4].seconds * 50)
    found = fit_cost(made, PRIOR)
    assert found.base + 100 * found.per_unit == pytest.approx(10.5, rel=0.35)


def test_time_of_a_cold_start_is_told_apart() -> None:
    warm = points(NodeCost(0.5, 0.0, 0.1, 0.0))
    cold = [point._replace(cold=1.0, seconds=point.seconds + 4) for point in warm]
    assert fit_cost([*warm, *cold], PRIOR).cold == pytest.approx(4, rel=0.3)


def test_type_that_was_never_seen_costs_what_its_kind_does_here() -> None:
    slow = [
        msgspec.structs.replace(
            record,
            nodes=tuple(
                msgspec.structs.replace(
                    node, seconds=None if not node.seconds else 50 * node.seconds
                )
                for node in record.nodes
            ),
        )
        for record in simulated_history(100)
    ]
    unseen = NodeWork("SomeImageNode", NodeKind.IMAGE, units=1.0)
    usual, slower = (
        fit_node_costs(collect_runs(each), {}) for each in (simulated_history(100), slow)
    )
    assert slower.seconds(unseen) == pytest.approx(50 * usual.seconds(unseen), rel=0.3)


def test_model_has_its_own_cost_and_an_unknown_one_that_of_its_type() -> None:
    costs = fit_node_costs(collect_runs(simulated_history(300)), {})

    def seconds(model: str) -> float:
        work = NodeWork("KSampler", NodeKind.SAMPLER, units=20.0, steps=20.0, model=model)
        return costs.seconds(work)

    light, heavy = seconds("v1-5-pruned.safetensors"), seconds("flux1-dev-fp8.safetensors")
    assert heavy > 4 * light
    assert light < seconds("new.safetensors") < heavy
