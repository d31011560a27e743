"""Searching for parameters: which values to try next, given what the tries so far were worth.

Pure, and the same again for the same seed and scores: a search that a restart has interrupted goes
on as if nothing had happened.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import msgspec

from comfyrail.errors import RequestError

MOST_PARAMETERS = 100
MOST_CHOICES = 1000
MOST_PARALLEL = 1000
ELITE = 20
"""New tries are made from the best so many at most."""
LARGEST_SCORE_TEXT = 1 << 16

START_SHARE = 3
"""At most one in so many trials is spent on chance before the best ones are varied."""
FEWEST_STARTS = 5
EXPLORED = 0.1
WIDEST_STEP = 0.3
NARROWEST_STEP = 0.02
LEAST_MUTATION = 0.4
MIXED = 0.3
DECIMALS = 12
"""Of a step: 0.1 three times is 0.3."""
MOST_STEPS = 1 << 53
"""In a range: as many whole numbers as there are without gaps, for this and other programs."""

Scale = Literal["linear", "log"]
Method = Literal["random", "evolution"]
Goal = Literal["maximize", "minimize"]


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `minimum` to `maximum`, both among them; with `step` only every so many."""

    minimum: float
    maximum: float
    step: float | None = None
    scale: Scale = "linear"
    integer: bool = False


Choices = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Search:
    """`score_node`: the node whose text is the score; None: the caller gives it."""

    parameters: Mapping[str, Range | Choices]
    trials: int
    parallel: int = 4
    method: Method = "evolution"
    seed: int = 0
    goal: Goal = "maximize"
    score_node: str | None = None

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, content: bytes) -> "Search":
        return msgspec.json.decode(content, type=cls)


@dataclass(frozen=True, slots=True)
class Scored:
    """A trial that was worth something."""

    parameters: Mapping[str, Any]
    score: float = field(default=0.0)


def check_search(search: Search) -> None:
    """Raise INVALID_BATCH for a search that makes no sense."""
    if not 1 <= len(search.parameters) <= MOST_PARAMETERS:
        raise _invalid(f"search.parameters has 1 to {MOST_PARAMETERS} entries.")
    if search.trials < 1:
        raise _invalid("search.trials is 1 at least.")
    if not 1 <= search.parallel <= MOST_PARALLEL:
        raise _invalid(f"search.parallel is 1 to {MOST_PARALLEL}.")
    for target, values in search.parameters.items():
        where = f"search.parameters[{target[:80]!r}]"
        if isinstance(values, Range):
            _check_range(values, where)
        elif not 1 <= len(values) <= MOST_CHOICES:
            raise _invalid(f"{where} has 1 to {MOST_CHOICES} choices.")


def _check_range(values: Range, where: str) -> None:
    figures = [values.minimum, values.maximum, *([] if values.step is None else [values.step])]
    if not all(math.isfinite(figure) for figure in figures):
        raise _invalid(f"{where} has numbers that are not finite.")
    if values.minimum > values.maximum:
        raise _invalid(f"{where}: minimum is more than maximum.")
    if values.step is not None and values.step <= 0:
        raise _invalid(f"{where}: step is more than 0.")
    if values.scale == "log" and values.minimum <= 0:
        raise _invalid(f"{where}: on a log scale minimum is more than 0.")
    if values.integer and math.ceil(values.minimum) > math.floor(values.maximum):
        raise _invalid(f"{where}: there is no whole number between minimum and maximum.")
    if values.integer and values.step is not None and values.step != int(values.step):
        raise _invalid(f"{where}: step is a whole number where integer is true.")
    if _has_too_many_steps(values):
        raise _invalid(
            f"{where} has more than 2^53 {'whole numbers' if values.integer else 'steps'}. "
            "Bring minimum and maximum closer together, or take a larger step."
        )


def propose(search: Search, number: int, best: Sequence[Scored] = ()) -> dict[str, Any]:
    """The parameters of trial `number`, from 0; `best` are the best so far, the best one first."""
    chance = Random(f"{search.seed}:{number}")  # noqa: S311 - repeatable, not secret
    is_random = (
        search.method == "random"
        or not best
        or number < _starts(search)
        or chance.random() < EXPLORED
    )
    if is_random:
        return {
            target: _anywhere(values, chance.random())
            for target, values in search.parameters.items()
        }
    return _child(search, number, best, chance)


def corners(search: Search) -> Iterator[dict[str, Any]]:
    """Parameters to check a search by before it begins: both ends of every range, every choice."""
    every = search.parameters.values()
    rounds = max([2, *(len(each) for each in every if not isinstance(each, Range))])
    for turn in range(rounds):
        yield {
            target: _anywhere(values, 0.0 if turn % 2 == 0 else 1.0)
            if isinstance(values, Range)
            else values[turn % len(values)]
            for target, values in search.parameters.items()
        }


def read_score(text: bytes) -> float | None:
    """The number that a node's text is: plain, or as JSON, also `{"score": 0.5}`; else None."""
    if len(text) > LARGEST_SCORE_TEXT:
        return None
    try:
        return _finite(float(text.decode().strip()))
    except ValueError:
        pass
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return _number_in(value)


def _number_in(value: Any) -> float | None:
    if isinstance(value, dict):
        value = value.get("score")
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return _finite(value) if is_number else None


def _finite(value: float) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _starts(search: Search) -> int:
    wanted = max(FEWEST_STARTS, search.parallel, 2 + 2 * len(search.parameters))
    return min(wanted, max(1, search.trials // START_SHARE))


def _child(search: Search, number: int, best: Sequence[Scored], chance: Random) -> dict[str, Any]:
    """One of the best, mixed with another and changed a little: less and less towards the end."""
    parent, other = _parent(best, chance), _parent(best, chance)
    spread = NARROWEST_STEP + WIDEST_STEP * (1 - number / search.trials)
    targets = list(search.parameters)
    certain = targets[chance.randrange(len(targets))]
    mutation = max(LEAST_MUTATION, 1 / len(targets))
    child: dict[str, Any] = {}
    for target, values in search.parameters.items():
        source = other if chance.random() < MIXED else parent
        value = source.parameters.get(target)
        if target == certain or chance.random() < mutation:
            value = _near(values, value, spread, chance)
        child[target] = value
    return child


def _parent(best: Sequence[Scored], chance: Random) -> Scored:
    """The better, the likelier."""
    return best[int(len(best) * chance.random() ** 2)]


def _near(values: Range | Choices, value: Any, spread: float, chance: Random) -> Any:
    if not isinstance(values, Range):
        return values[chance.randrange(len(values))]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _anywhere(values, chance.random())
    place = _place(values, value) + chance.gauss(0.0, spread)
    changed = _anywhere(values, _reflected(place))
    if changed != value:
        return changed
    # On a coarse scale a small step may lead nowhere.
    return _anywhere(values, chance.random())


def _reflected(place: float) -> float:
    place = abs(place) % 2.0
    return 2.0 - place if place > 1.0 else place


def _anywhere(values: Range | Choices, place: float) -> Any:
    """The value at a place from 0 to 1 of all that there are."""
    if not isinstance(values, Range):
        return values[min(len(values) - 1, int(place * len(values)))]
    step, low, high = _steps(values)
    if step is None:
        return _clamped(_at(values, place), low, high)
    count = _count(step, low, high)
    if values.scale == "log":
        index = _rounded((_at(values, place) - low) / step, count)
    else:
        index = int(place * count)
    number = low + max(0, min(count - 1, index)) * step
    if values.integer:
        return _clamped(number, low, high)
    decimals = DECIMALS + max(0, -math.floor(math.log10(step)))
    return _clamped(round(number, decimals), low, high)


def _rounded(number: float, most: int) -> int:
    """Of a number that may be larger than any, `most`."""
    return most if number >= most else round(number)


def _steps(values: Range) -> tuple[float | None, float, float]:
    """Step, first and last number of a range; whole ones are a range of steps too, all `int`."""
    if not values.integer:
        return values.step, values.minimum, values.maximum
    return int(values.step or 1), math.ceil(values.minimum), math.floor(values.maximum)


def _has_too_many_steps(values: Range) -> bool:
    step, low, high = _steps(values)
    if step is None:
        return False
    if values.integer:  # as whole numbers: their quotient may be more than a number can be
        return high - low > MOST_STEPS * step
    return (high - low) / step > MOST_STEPS


def _count(step: float, low: float, high: float) -> int:
    """How many numbers a range of steps has."""
    if isinstance(step, int):
        return int((high - low) // step) + 1
    return math.floor((high - low) / step + 1e-9) + 1


def _at(values: Range, place: float) -> float:
    low, high = values.minimum, values.maximum
    if values.scale == "log":
        return math.exp(math.log(low) * (1 - place) + math.log(high) * place)
    return low * (1 - place) + high * place


def _place(values: Range, value: float) -> float:
    """Where in its range a value stands, 0 to 1."""
    low, high = values.minimum, values.maximum
    value = _clamped(value, low, high)
    if low == high:
        return 0.0
    if values.scale == "log":
        return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    # Halved: the whole width may be more than a number can be.
    return (value / 2 - low / 2) / (high / 2 - low / 2)


def _clamped(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))


def _invalid(message: str) -> RequestError:
    return RequestError(message, code="INVALID_BATCH")
