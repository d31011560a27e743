"""From a request to single jobs: pure [4.6]."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comfyrail.errors import RequestError
from comfyrail.jobs.batches import (
    LONGEST_NAME,
    BatchItem,
    Grid,
    ItemList,
    Plan,
    Variant,
    Variants,
    check_plan,
    count_jobs,
    describe_parameters,
    expand,
    merge_parameters,
)

values = st.one_of(st.integers(), st.text(max_size=5), st.none(), st.booleans())
axes = st.dictionaries(
    st.text(min_size=1, max_size=4), st.lists(values, min_size=1, max_size=4), max_size=4
)


@given(axes)
def test_grid_has_every_combination_once_in_the_stated_order(given: dict[str, list[Any]]) -> None:
    plan = Grid({target: list(range(len(each))) for target, each in given.items()})
    found = [tuple(item.parameters.values()) for item in expand(plan)]
    assert len(found) == count_jobs(plan) == math.prod(len(each) for each in given.values())
    assert found == sorted(set(found)), "the last target changes fastest"
    assert all(list(item.parameters) == list(given) for item in expand(plan))


@given(
    st.dictionaries(
        st.text(max_size=3), st.integers(min_value=1, max_value=5), min_size=1, max_size=4
    )
)
def test_variants_are_never_more_than_one_turn_apart(repeats: dict[str, int]) -> None:
    plan = Variants({name: Variant(repeat=count) for name, count in repeats.items()})
    names = [item.name for item in expand(plan)]
    assert len(names) == count_jobs(plan) == sum(repeats.values())
    seen = dict.fromkeys(repeats, 0)
    for name in names:
        assert name is not None
        seen[name] += 1
        behind = [each for each, count in seen.items() if count < min(seen[name], repeats[each])]
        assert all(seen[name] - seen[each] <= 1 for each in behind)
    assert seen == repeats


@given(st.integers(min_value=1, max_value=6), st.integers(min_value=1, max_value=4))
def test_each_variant_gets_the_same_seeds(seeds: int, variants: int) -> None:
    plan = Variants(
        {str(number): Variant({"x": number}) for number in range(variants)},
        {"seed": list(range(seeds))},
    )
    check_plan(plan)
    found: dict[str | None, list[Any]] = {}
    for item in expand(plan):
        found.setdefault(item.name, []).append(item.parameters["seed"])
    assert all(each == list(range(seeds)) for each in found.values())
    assert len(found) == variants


parameters = st.dictionaries(
    st.sampled_from(["a", "b", "c", "1.x"]),
    st.one_of(st.integers(), st.dictionaries(st.sampled_from("xyz"), st.integers())),
)


@given(parameters, parameters)
def test_own_parameters_count_more_and_come_last(base: dict[str, Any], own: dict[str, Any]) -> None:
    merged = merge_parameters(base, own)
    assert set(merged) == set(base) | set(own)
    assert list(merged)[len(merged) - len(own) :] == list(own)
    for key, value in merged.items():
        if key not in own:
            assert value == base[key]
        elif isinstance(own[key], dict) and isinstance(base.get(key), dict):
            assert value == {**base[key], **own[key]}
        else:
            assert value == own[key]


@given(st.dictionaries(st.text(max_size=300), values, max_size=30))
def test_names_are_never_longer_than_a_name_may_be(given: dict[str, Any]) -> None:
    assert len(describe_parameters(given)) <= LONGEST_NAME


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (ItemList([]), "no jobs"),
        (Grid({}), "1 to 100 targets"),
        (Grid({"a": []}), "has no values"),
        (Variants({}), "no jobs"),
        (Variants({"a": Variant(repeat=0)}), "repeat is 1 at least"),
        (Variants({"a": Variant(repeat=3)}, {"s": [1, 2]}), "only 2 seeds"),
        (Variants({"a": Variant()}, {"s": []}), "has no values"),
        (Variants({"a": Variant()}, {"s": [1], "t": [1, 2]}), "as many values"),
        (Variants({"a" * 201: Variant()}), "200 characters"),
        (ItemList([BatchItem({}, "n" * 201)]), "200 characters"),
    ],
)
def test_plan_that_makes_no_sense_is_explained(plan: Plan, said: str) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        check_plan(plan)
    assert caught.value.code == "INVALID_BATCH"


@pytest.mark.parametrize(
    "plan",
    [
        ItemList([BatchItem({})] * 11),
        Grid({"a": [1, 2, 3, 4], "b": [1, 2, 3]}),
        Variants({"a": Variant(repeat=10**5000)}),
    ],
)
def test_too_many_jobs_are_refused_by_their_count(plan: Plan) -> None:
    with pytest.raises(RequestError) as caught:
        check_plan(plan, most_jobs=10)
    assert caught.value.code == "BATCH_TOO_LARGE"
    assert caught.value.details["limit"] == 10
