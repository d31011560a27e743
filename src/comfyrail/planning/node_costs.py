"""Seconds of a node, learned from what nodes took: a small fit for each type and model or settings.

A type's cost is `base + per_step x steps + per_unit x units + cold`, none of them below 0. The fit
minimises the squared relative error, with less weight to outliers, and is drawn to what is known
without it: a type's to its kind's, a model's to its type's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median

from comfyrail.planning.measured_runs import (
    LARGEST,
    SHORTEST,
    CostKey,
    MeasuredRuns,
    Point,
    paces_of,
    points_of,
)
from comfyrail.planning.node_kinds import DEFAULT_COSTS, NodeCost, NodeKind
from comfyrail.planning.node_work import NodeWork
from comfyrail.planning.records import NodeRun

ROUNDS = 3
OUTLIER = 0.5
"""From a factor of 1.6 on a point has less weight."""
PRIOR_WEIGHT = 0.03
LEVEL_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class NodeCosts:
    """Costs by type and model; a type that was never seen costs what its kind does."""

    fitted: Mapping[CostKey, NodeCost]
    kinds: Mapping[NodeKind, NodeCost]

    def cost_of(self, node: NodeWork | NodeRun) -> NodeCost:
        found = self.fitted.get((node.class_type, node.model or node.settings))
        if found is None:
            found = self.fitted.get((node.class_type, None))
        return self.kinds[node.kind] if found is None else found

    def seconds(self, node: NodeWork | NodeRun, *, is_cold: bool = False) -> float:
        base, per_step, per_unit, cold = self.cost_of(node)
        seconds = base + per_step * node.steps + per_unit * node.units
        return seconds + cold if is_cold and node.model is not None else seconds


DEFAULT_NODE_COSTS = NodeCosts({}, DEFAULT_COSTS)


def fit_node_costs(measured: MeasuredRuns, slowness: Mapping[str, float]) -> NodeCosts:
    """`slowness` is the logarithm of each device's factor."""
    paces = paces_of(slowness)
    points = {name: points_of(samples, paces) for name, samples in measured.types.items()}
    kinds = _scaled_kinds(points, measured.kind_of)
    fitted: dict[CostKey, NodeCost] = {
        (name, None): fit_cost(found, kinds[measured.kind_of[name]])
        for name, found in points.items()
    }
    for key, samples in measured.variants.items():
        fitted[key] = fit_cost(points_of(samples, paces), fitted[key[0], None])
    return NodeCosts(fitted, kinds)


def fit_overhead(
    measured: MeasuredRuns, slowness: Mapping[str, float], prior: NodeCost
) -> NodeCost:
    """What a job takes besides its nodes; the number of those is its work."""
    points = points_of(measured.overhead, paces_of(slowness))
    return fit_cost(points, prior) if points else prior


def _scaled_kinds(
    points: Mapping[str, Sequence[Point]], kind_of: Mapping[str, NodeKind]
) -> dict[NodeKind, NodeCost]:
    """The default costs, each kind by the factor that its types have shown."""
    shown: dict[NodeKind, list[float]] = {kind: [] for kind in NodeKind}
    for class_type, kind in kind_of.items():
        shown[kind].append(_level(points[class_type], DEFAULT_COSTS[kind]))
    everything = [level for levels in shown.values() for level in levels]
    overall = median(everything) if everything else 0.0
    scaled = {}
    for kind, levels in shown.items():
        weight = len(levels) / (len(levels) + 1)
        level = weight * median(levels) + (1 - weight) * overall if levels else overall
        scaled[kind] = _times(DEFAULT_COSTS[kind], exp(level))
    return scaled


def _level(points: Sequence[Point], cost: NodeCost) -> float:
    """The logarithm of the factor by which the points lie above a cost; drawn to none."""
    total = sum(
        point.weight * (log(point.seconds) - log(min(max(_value(cost, point), SHORTEST), LARGEST)))
        for point in points
    )
    return total / (sum(point.weight for point in points) + LEVEL_WEIGHT)


def fit_cost(points: Sequence[Point], prior: NodeCost) -> NodeCost:
    """The cost that fits the points, drawn to the prior at the points' level."""
    level = _times(prior, exp(_level(points, prior)))
    typical = median([point.seconds for point in points])
    largest = [1.0, *(max(values) for values in zip(*(point[:3] for point in points), strict=True))]
    # Every part is searched in the scale in which it matters, also those that the prior lacks.
    scales = [
        max(part, 0.1 * typical / (most or 1.0)) for part, most in zip(level, largest, strict=True)
    ]
    # What no point has any of stays as the prior has it.
    active = [index for index, most in enumerate(largest) if most]
    target = [level[index] / scales[index] for index in active]
    rows = []
    for point in points:
        parts = (1.0, *point)
        rows.append(([scales[index] * parts[index] for index in active], point))
    solution = target
    for _ in range(ROUNDS):
        solution = _solve(rows, target, solution)
    fitted = list(level)
    for index, part in zip(active, solution, strict=True):
        fitted[index] = part * scales[index]
    return NodeCost(*fitted)


def _solve(
    rows: Sequence[tuple[list[float], Point]], target: Sequence[float], start: Sequence[float]
) -> list[float]:
    """One round of least squares, with the weights that the solution so far gives."""
    size = len(target)
    matrix = [[PRIOR_WEIGHT if i == j else 0.0 for j in range(size)] for i in range(size)]
    right = [PRIOR_WEIGHT * part for part in target]
    for row, point in rows:
        expected = 0.0
        for x, part in zip(row, start, strict=True):
            expected += x * part
        expected = max(expected, 0.1 * point.seconds)
        distance = abs(log(point.seconds / expected))
        weight = point.weight / (point.seconds * expected)
        if distance > OUTLIER:
            weight *= OUTLIER / distance
        for i, x in enumerate(row):
            if x:
                scaled = weight * x
                line = matrix[i]
                for j, other in enumerate(row):
                    line[j] += scaled * other
                right[i] += scaled * point.seconds
    return _without_negatives(matrix, right)


def _without_negatives(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Solve the equations; what comes out below 0 is set to 0 and left out, the lowest first."""
    free = list(range(len(right)))
    while free:
        found = _eliminate([[matrix[i][j] for j in free] + [right[i]] for i in free])
        lowest = min(range(len(free)), key=found.__getitem__)
        if found[lowest] >= 0:
            solution = [0.0] * len(right)
            for index, value in zip(free, found, strict=True):
                solution[index] = value
            return solution
        del free[lowest]
    return [0.0] * len(right)


def _eliminate(rows: list[list[float]]) -> list[float]:
    """Gauss. The prior on the diagonal keeps every pivot at its weight at least; where numbers are
    so far apart that it is lost in rounding, it is put back.
    """
    size = len(rows)
    for i in range(size):
        rows[i][i] = max(rows[i][i], PRIOR_WEIGHT)
        for k in range(i + 1, size):
            factor = rows[k][i] / rows[i][i]
            for j in range(i, size + 1):
                rows[k][j] -= factor * rows[i][j]
    solution = [0.0] * size
    for i in reversed(range(size)):
        rest = sum(rows[i][j] * solution[j] for j in range(i + 1, size))
        solution[i] = (rows[i][size] - rest) / rows[i][i]
    return solution


def _value(cost: NodeCost, point: Point) -> float:
    return (
        cost.base
        + cost.per_step * point.steps
        + cost.per_unit * point.units
        + cost.cold * point.cold
    )


def _times(cost: NodeCost, factor: float) -> NodeCost:
    return NodeCost(*(part * factor for part in cost))
