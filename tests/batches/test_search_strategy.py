"""Which values a search tries next: pure [4.6]."""

import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from comfyrail.errors import RequestError
from comfyrail.jobs.parameter_search import (
    ELITE,
    Choices,
    Method,
    Range,
    Scale,
    Scored,
    Search,
    check_search,
    corners,
    propose,
    read_score,
)

numbers = st.floats(min_value=-1e6, max_value=1e6)


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    low, high = sorted((draw(numbers), draw(numbers)))
    integer = draw(st.booleans())
    if integer:
        low, high = math.floor(low), math.ceil(high)
    step = draw(st.sampled_from([None, 1.0, 3.0] if integer else [None, 0.25, 7.5]))
    scale: Scale = "log" if low > 0 and draw(st.booleans()) else "linear"
    return Range(low, high, step, scale, integer)


choices = st.lists(st.text(max_size=3), min_size=1, max_size=5).map(tuple)
searches = st.builds(
    Search,
    parameters=st.dictionaries(
        st.text(max_size=3), st.one_of(ranges(), choices), min_size=1, max_size=3
    ),
    trials=st.integers(min_value=1, max_value=50),
    method=st.sampled_from(["random", "evolution"]),
    seed=st.integers(),
)


def is_allowed(values: Range | Choices, value: Any) -> bool:
    if not isinstance(values, Range):
        return value in values
    if not values.minimum <= value <= values.maximum:
        return False
    if values.integer and not isinstance(value, int):
        return False
    if values.step is None:
        return True
    steps = (value - values.minimum) / values.step
    return bool(abs(steps - round(steps)) < 1e-6 * max(1.0, abs(steps)))


@given(searches, st.data())
def test_every_proposal_is_within_what_was_asked(search: Search, data: st.DataObject) -> None:
    check_search(search)
    number = data.draw(st.integers(min_value=0, max_value=search.trials - 1))
    best: list[Scored] = []
    for earlier in range(data.draw(st.integers(min_value=0, max_value=3))):
        best.append(Scored(propose(search, earlier, best), float(earlier)))
    for parameters in (propose(search, number, best), *corners(search)):
        assert parameters.keys() == search.parameters.keys()
        for target, values in search.parameters.items():
            assert is_allowed(values, parameters[target]), (values, parameters[target])
    assert propose(search, number, best) == propose(search, number, best)
    assert Search.decode(search.encode()) == search


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, finite, st.none() | finite, st.sampled_from(["linear", "log"]), st.booleans())
@example(1.0, 2.0**53, None, "linear", True)
@example(2.0**60, 2.0**61, 384.0, "linear", True)
@example(0.0, 1.7e308, 1e300, "linear", False)
@example(5e-324, 1.7976931348623157e308, None, "log", False)
@example(1.7976931348623157e308, 1.7976931348623157e308, None, "log", True)
@example(low=2431392131040.0, high=2431392131040.0, step=2.2e-311, scale="log", integer=False)
def test_range_of_any_numbers_is_refused_or_searched(
    low: float, high: float, step: float | None, scale: Scale, integer: bool
) -> None:
    values = Range(low, high, step, scale, integer)
    search = Search({"x": values}, trials=20)
    try:
        check_search(search)
    except RequestError:
        return
    best = [Scored(propose(search, 0), 1.0)]
    tried = (propose(search, 0), propose(search, 19, best), *corners(search))
    for value in (each["x"] for each in tried):
        assert low <= value <= high
        assert isinstance(value, int) or not integer


def test_tiny_steps_are_not_rounded_away() -> None:
    search = Search({"x": Range(0, 1e-13, step=1e-14)}, trials=30)
    found = {propose(search, number)["x"] for number in range(30)}
    assert len(found) > 5
    assert found <= {float(f"{number}e-14") for number in range(11)}


@given(searches)
def test_corners_have_every_choice_and_both_ends(search: Search) -> None:
    tried = list(corners(search))
    for target, values in search.parameters.items():
        found = [parameters[target] for parameters in tried]
        if isinstance(values, Range):
            assert min(found) <= values.minimum + (values.step or 1)
        else:
            assert set(found) == set(values)


def value_of(parameters: dict[str, Any]) -> float:
    """Best at x = 3, y = 100, kind = b."""
    x, y, kind = float(parameters["x"]), float(parameters["y"]), str(parameters["kind"])
    return -((x - 3) ** 2) - (math.log10(y) - 2) ** 2 + {"a": 0.0, "b": 1.0, "c": -1.0}[kind]


def best_of(method: Method, seed: int, trials: int = 80) -> float:
    search = Search(
        {"x": Range(-10, 10), "y": Range(1, 10_000, scale="log"), "kind": ("a", "b", "c")},
        trials=trials,
        method=method,
        seed=seed,
    )
    done: list[Scored] = []
    for number in range(trials):
        best = sorted(done, key=lambda each: -each.score)[:ELITE]
        parameters = propose(search, number, best)
        done.append(Scored(parameters, value_of(parameters)))
    return max(each.score for each in done)


def test_evolution_finds_better_values_than_chance() -> None:
    seeds = range(20)
    evolved = [best_of("evolution", seed) for seed in seeds]
    random = [best_of("random", seed) for seed in seeds]
    better = sum(one > other for one, other in zip(evolved, random, strict=True))
    assert better >= 18
    assert sum(1.0 - each for each in evolved) < 0.25 * sum(1.0 - each for each in random)


def test_tiny_space_is_searched_whole() -> None:
    search = Search({"x": Range(1, 3, integer=True)}, trials=30, method="evolution")
    found = {propose(search, number, [Scored({"x": 1}, 1.0)])["x"] for number in range(30)}
    assert found == {1, 2, 3}


@settings(max_examples=50)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_score_is_read_as_text_and_as_json(score: float) -> None:
    for text in (f" {score!r}\n", f'{{"score": {score!r}}}', f"[{score!r}]", f'"{score!r}"'):
        assert read_score(text.encode()) == score


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nan",
        "-inf",
        "1e999",
        "true",
        "{}",
        '{"score": null}',
        '{"score": "high"}',
        "[1, 2]",
        "0.5 of 1",
        "9" * 70_000,
        "[" * 50_000,
        '{"score": 1' + "0" * 400 + "}",
    ],
)
def test_what_is_no_finite_number_is_no_score(text: str) -> None:
    assert read_score(text.encode()) is None


def test_half_a_character_is_no_score() -> None:
    assert read_score(b"\xff\xfe1") is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"parameters": {}}, "1 to 100 entries"),
        ({"trials": 0}, "trials is 1 at least"),
        ({"parallel": 0}, "parallel is 1 to"),
        ({"parameters": {"x": ()}}, "choices"),
        ({"parameters": {"x": Range(2, 1)}}, "minimum is more than maximum"),
        ({"parameters": {"x": Range(0, 1, scale="log")}}, "log scale"),
        ({"parameters": {"x": Range(0, 1, step=0)}}, "step is more than 0"),
        ({"parameters": {"x": Range(0.2, 0.8, integer=True)}}, "no whole number"),
        ({"parameters": {"x": Range(0, 9, step=0.5, integer=True)}}, "whole number"),
        ({"parameters": {"x": Range(float("nan"), 1)}}, "not finite"),
        ({"parameters": {"x": Range(0, 1, step=5e-324)}}, "larger step"),
        ({"parameters": {"x": Range(-1.7e308, 1.7e308, step=0.1)}}, "larger step"),
        ({"parameters": {"x": Range(-1.7e308, 1.7e308, step=1e300)}}, "closer together"),
        ({"parameters": {"x": Range(-1.7e308, 1.7e308, integer=True)}}, "whole numbers"),
        ({"parameters": {"x": Range(1, 2.0**70, integer=True)}}, "whole numbers"),
    ],
)
def test_search_that_makes_no_sense_is_explained(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        check_search(Search(**{"parameters": {"x": Range(0, 1)}, "trials": 5, **changes}))
