"""The longest chain, in small cases and against a plain search."""

from hypothesis import given
from hypothesis import strategies as st

from comfyrail.engine.profiling.critical_path import CriticalPath, Step, critical_path


def test_nothing_has_no_path() -> None:
    assert critical_path([]) == CriticalPath(0.0, ())


def test_the_longer_branch_counts() -> None:
    steps = [
        Step("a", 0, 1, 1),
        Step("b", 1, 3, 2, ["a"]),
        Step("c", 1, 6, 5, ["a"]),
        Step("d", 6, 7, 1, ["b", "c"]),
    ]
    assert critical_path(steps) == CriticalPath(7, ("a", "c", "d"))


def test_what_a_node_did_not_wait_for_does_not_count() -> None:
    steps = [Step("a", 0, 5, 5), Step("b", 1, 2, 1, ["a"])]
    assert critical_path(steps) == CriticalPath(5, ("a",))


def test_a_node_without_length_joins_two_that_have_some() -> None:
    steps = [Step("a", 0, 2, 2), Step("z", 3, 3, 0, ["a"]), Step("b", 4, 6, 2, ["z"])]
    assert critical_path(steps) == CriticalPath(4, ("a", "z", "b"))


def test_who_takes_from_an_expanded_node_waits_for_all_inside() -> None:
    steps = [
        Step("p", 0, 9, 1),
        Step("x", 1, 4, 3, [], "p"),
        Step("y", 4, 8, 4, ["x"], "p"),
        Step("c", 9, 10, 1, ["p"]),
    ]
    assert critical_path(steps) == CriticalPath(9, ("p", "x", "y", "c"))


def test_deep_nesting_takes_no_recursion() -> None:
    depth = 5000
    steps = [Step("0", 0, 10 * depth, 1)]
    steps += [Step(str(n), n, 10 * depth - n, 1, [], str(n - 1)) for n in range(1, depth)]
    steps.append(Step("end", 11 * depth, 11 * depth + 1, 1, ["0"]))
    found = critical_path(steps)
    assert found.seconds == depth + 1
    assert found.nodes[-1] == "end"


@st.composite
def runs(draw: st.DrawFn) -> list[Step]:
    """Nodes that run one after the other, each with some of those before it as sources."""
    steps: list[Step] = []
    now = 0
    for number in range(draw(st.integers(1, 12))):
        length = draw(st.integers(1, 9))
        sources = draw(st.sets(st.integers(0, max(0, number - 1)), max_size=3)) if number else ()
        steps.append(Step(str(number), now, now + length, length, [str(each) for each in sources]))
        now += length
    return steps


@given(runs())
def test_it_is_the_longest_of_all_chains(steps: list[Step]) -> None:
    by_id = {step.node_id: step for step in steps}

    def longest(node_id: str) -> float:
        step = by_id[node_id]
        return step.seconds + max(map(longest, step.sources), default=0)

    found = critical_path(steps)
    assert found.seconds == max(map(longest, by_id))
    assert found.seconds == sum(by_id[each].seconds for each in found.nodes)
    for before, after in zip(found.nodes, found.nodes[1:], strict=False):
        assert before in by_id[after].sources
