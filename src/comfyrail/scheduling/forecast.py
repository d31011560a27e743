"""One hour of forecast from the arrival history [5.4].

Arrivals become load: a job that is expected to take 10 minutes keeps one worker busy for so long.
What a minute will bring is then judged by the minutes that it may be like: the last ones, the same
minute of the last hours, the same time of the last days. The forecast is a high quantile of them:
a worker too many costs less than a wait too long, but what happened once is no pattern.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite

MINUTES = 60
"""How far the forecast goes."""
HISTORY_MINUTES = 3 * 1440
LEAST_HISTORY_MINUTES = 30
"""With less than this nothing is foretold: a first burst is not a habit."""
QUANTILE = 0.8
SMOOTHING_MINUTES = 2
"""Work may wait: short jobs are spread at least over so long."""
LONGEST_SPREAD_MINUTES = 1440

_RECENT_MINUTES = 15
_RECENT_WEIGHT = 8.0
_RECENT_HALF_LIFE = 10.0
_HOURS_BACK = 6
_HOUR_WEIGHT = 1.0
_DAYS_BACK = 3
_DAY_WEIGHT = 1.0
_DAY_WINDOW = 2


@dataclass(frozen=True, slots=True)
class Forecast:
    """Workers that will be busy, by minute from now; empty: nothing is foretold."""

    load: Sequence[float] = ()

    def highest(self, from_seconds: float, to_seconds: float) -> float:
        """The highest load that is expected between two moments from now."""
        first = min(max(0, int(from_seconds // 60)), MINUTES)
        last = min(max(first + 1, ceil(to_seconds / 60)), MINUTES)
        return max(self.load[first:last], default=0.0)


NOTHING_FORETOLD = Forecast()


class ArrivalHistory:
    """Load by minute over the last days, taken in as it comes."""

    def __init__(self) -> None:
        self._load: dict[int, float] = {}
        self._first: int | None = None
        self._taken_to: int | None = None

    @property
    def taken_to(self) -> int | None:
        """The first minute of which arrivals have not been taken in; None: none have."""
        return self._taken_to

    def take_in(self, arrivals: Mapping[int, tuple[int, float]], minute: int) -> None:
        """Arrivals (jobs, seconds of work) by minute; those of `minute` are not over yet."""
        for each in sorted(arrivals):
            jobs, seconds = arrivals[each]
            is_new = self._taken_to is None or each >= self._taken_to
            if each < minute and is_new and jobs > 0 and isfinite(seconds) and seconds > 0:
                self._first = each if self._first is None else self._first
                self._spread(each, jobs, seconds)
        self._taken_to = max(minute, self._taken_to or minute)
        oldest = minute - HISTORY_MINUTES
        if len(self._load) > HISTORY_MINUTES + LONGEST_SPREAD_MINUTES or oldest % 60 == 0:
            self._load = {each: load for each, load in self._load.items() if each >= oldest}

    def forecast(self, minute: int) -> Forecast:
        """From this minute on."""
        if self._first is None or minute - self._first < LEAST_HISTORY_MINUTES:
            return NOTHING_FORETOLD
        return Forecast([self._expect(minute, ahead) for ahead in range(MINUTES)])

    def _spread(self, minute: int, jobs: int, seconds: float) -> None:
        minutes = ceil(seconds / jobs / 60)
        minutes = min(LONGEST_SPREAD_MINUTES, max(SMOOTHING_MINUTES, minutes))
        share = seconds / 60 / minutes
        for each in range(minute, minute + minutes):
            self._load[each] = self._load.get(each, 0.0) + share

    def _expect(self, minute: int, ahead: int) -> float:
        """A weighted quantile over the minutes that this one may be like."""
        samples: list[tuple[float, float]] = []
        fading = _RECENT_WEIGHT / _RECENT_MINUTES * 0.5 ** (ahead / 30)
        for age in range(1, _RECENT_MINUTES + 1):
            weight = fading * 0.5 ** (age / _RECENT_HALF_LIFE)
            self._sample(samples, minute - age, weight)
        target = minute + ahead
        for hours in range(1, _HOURS_BACK + 1):
            if target - 60 * hours < minute:
                self._sample(samples, target - 60 * hours, _HOUR_WEIGHT)
        for days in range(1, _DAYS_BACK + 1):
            for shift in range(-_DAY_WINDOW, _DAY_WINDOW + 1):
                self._sample(samples, target - 1440 * days + shift, _DAY_WEIGHT)
        return _quantile(samples, QUANTILE)

    def _sample(self, samples: list[tuple[float, float]], minute: int, weight: float) -> None:
        # What was before the first arrival is not known to have been quiet.
        if self._first is not None and minute >= self._first:
            samples.append((self._load.get(minute, 0.0), weight))


def _quantile(samples: list[tuple[float, float]], share: float) -> float:
    """The smallest value that has this share of the weight at or below it."""
    left = share * sum(weight for _, weight in samples)
    for value, weight in sorted(samples):
        left -= weight
        if left <= 1e-9:
            return value
    return 0.0
