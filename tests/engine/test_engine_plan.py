from collections.abc import Collection, Mapping, Sequence

import pytest

from comfyrail.engine.plan import Order, Plan


def planned(
    sources: Mapping[str, Sequence[str]],
    outputs: Sequence[str],
    known: Collection[str] = (),
    order: Order = "arrival",
) -> Plan:
    plan = Plan(
        lambda node_id: sources[node_id],
        lambda node_id: node_id in known,
        lambda node_id: node_id in outputs,
        order,
    )
    plan.demand(outputs)
    return plan


def drain(plan: Plan) -> list[str]:
    order = []
    while (node_id := plan.next_ready()) is not None:
        order.append(node_id)
        plan.finish(node_id)
    return order


def test_a_node_is_ready_after_all_its_sources() -> None:
    plan = planned({"out": ["a", "b"], "a": ["c"], "b": ["c"], "c": []}, ["out"])
    order = drain(plan)
    assert order[0] == "c"
    assert order[-1] == "out"
    assert sorted(order) == ["a", "b", "c", "out"]


def test_only_ancestors_of_the_wanted_outputs_run() -> None:
    sources = {"a": [], "b": ["a"], "out": ["b"], "loose": ["a"], "other": ["loose"]}
    assert sorted(drain(planned(sources, ["out"]))) == ["a", "b", "out"]


def test_a_node_that_takes_two_values_of_one_source_waits_once_for_each() -> None:
    assert drain(planned({"a": [], "out": ["a", "a"]}, ["out"])) == ["a", "out"]


def test_what_only_a_known_node_needs_does_not_run() -> None:
    plan = planned({"a": [], "b": ["a"], "c": ["b"], "out": ["c"]}, ["out"], known={"b"})
    assert drain(plan) == ["c", "out"]


def test_a_known_output_needs_nothing() -> None:
    plan = planned({"a": [], "out": ["a"]}, ["out"], known={"out"})
    assert drain(plan) == []
    assert len(plan) == 0


def test_nodes_near_an_output_come_first() -> None:
    sources = {
        "far": [],
        "near": [],
        "one": ["near"],
        "two": ["far"],
        "three": ["two"],
        "end": ["three"],
    }
    assert drain(planned(sources, ["one", "end"]))[:2] == ["near", "one"]


@pytest.mark.parametrize("order", ["arrival", "memory"])
def test_a_plan_of_a_long_chain_is_linear(order: Order) -> None:
    """Counted, not timed: a busy machine must not matter."""

    def questions_for(length: int) -> int:
        asked = 0

        def sources_of(node_id: str) -> list[str]:
            nonlocal asked
            asked += 1
            return [str(int(node_id) - 1)] if node_id != "0" else []

        def is_no(_: str) -> bool:
            nonlocal asked
            asked += 1
            return False

        plan = Plan(sources_of, is_no, is_no, order)
        plan.demand([str(length - 1)])
        assert len(drain(plan)) == length
        return asked

    assert questions_for(20_000) <= 10 * questions_for(2_000) + 100


def test_branches_come_one_by_one_in_the_order_for_memory() -> None:
    sources: dict[str, list[str]] = {"out": []}
    for branch in "abc":
        sources[f"{branch}1"] = []
        sources[f"{branch}2"] = [f"{branch}1"]
        sources["out"].append(f"{branch}2")
    order = drain(planned(sources, ["out"], order="memory"))
    assert order == ["a1", "a2", "b1", "b2", "c1", "c2", "out"]


def test_a_node_that_asks_for_more_is_handed_out_again() -> None:
    sources: dict[str, list[str]] = {"a": [], "lazy": [], "out": ["a"]}
    plan = planned(sources, ["out"])
    assert plan.next_ready() == "a"
    plan.finish("a")
    assert plan.next_ready() == "out"
    assert plan.postpone("out", ["lazy", "a", "lazy"]) == ["lazy", "a"]
    assert drain(plan) == ["lazy", "a", "out"]
    assert len(plan) == 0


def test_what_is_known_by_then_is_not_waited_for() -> None:
    plan = planned({"out": []}, ["out"], known={"lazy"})
    assert plan.next_ready() == "out"
    plan.postpone("out", ["lazy"])
    assert plan.next_ready() == "out"


def test_a_cycle_is_found_and_only_the_cycle() -> None:
    sources = {"a": ["c"], "b": ["a"], "c": ["b"], "out": ["c"], "before": [], "a2": ["before"]}
    plan = planned(sources, ["out", "a2"])
    assert drain(plan) == ["before", "a2"]
    assert sorted(plan.stuck_nodes()) == ["a", "b", "c"]


def test_some_of_the_ready_nodes_can_be_taken_together() -> None:
    sources: dict[str, list[str]] = {name: [] for name in ("a1", "b1", "a2", "b2", "a3")}
    sources["out"] = list(sources)
    plan = planned(sources, ["out"])
    assert plan.take_ready(lambda node_id: node_id.startswith("a"), 2) == ["a1", "a2"]
    assert [plan.next_ready() for _ in range(4)] == ["b1", "b2", "a3", None]
