import time

from comfyrail.engine.plan import Plan


def drain(plan: Plan) -> list[str]:
    order = []
    while (node_id := plan.next_ready()) is not None:
        order.append(node_id)
        plan.finish(node_id)
    return order


def test_a_node_is_ready_after_all_its_sources() -> None:
    plan = Plan({"out": ["a", "b"], "a": ["c"], "b": ["c"], "c": []}, ["out"])
    order = drain(plan)
    assert order[0] == "c"
    assert order[-1] == "out"
    assert sorted(order) == ["a", "b", "c", "out"]


def test_only_ancestors_of_the_wanted_outputs_run() -> None:
    sources = {"a": [], "b": ["a"], "out": ["b"], "loose": ["a"], "other": ["loose"]}
    assert sorted(drain(Plan(sources, ["out"]))) == ["a", "b", "out"]


def test_a_node_that_takes_two_values_of_one_source_waits_once_for_each() -> None:
    assert drain(Plan({"a": [], "out": ["a", "a"]}, ["out"])) == ["a", "out"]


def test_what_only_a_known_node_needs_does_not_run() -> None:
    plan = Plan({"a": [], "b": ["a"], "c": ["b"], "out": ["c"]}, ["out"], known={"b"})
    assert plan.boundary == {"b"}
    assert drain(plan) == ["c", "out"]


def test_a_known_output_needs_nothing() -> None:
    plan = Plan({"a": [], "out": ["a"]}, ["out"], known={"out"})
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
    assert drain(Plan(sources, ["one", "end"]))[:2] == ["near", "one"]


def test_a_plan_of_a_long_chain_is_linear() -> None:
    def seconds_for(length: int) -> float:
        sources = {str(index): [str(index - 1)] if index else [] for index in range(length)}
        start = time.perf_counter()
        assert len(drain(Plan(sources, [str(length - 1)]))) == length
        return time.perf_counter() - start

    short = min(seconds_for(2_000) for _ in range(5))
    assert min(seconds_for(20_000) for _ in range(3)) < 40 * short
