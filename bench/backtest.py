"""How good the duration model is on a history: each execution is predicted before it is learned."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from comfyrail.planning.duration import DurationModel, heuristic_seconds, newest
from comfyrail.planning.prediction_errors import quantile, relative_error
from comfyrail.planning.records import ExecutionRecord

REFIT_EVERY = 25


@dataclass(frozen=True, slots=True)
class ErrorSummary:
    """Of |predicted - taken| / taken over some executions."""

    count: int
    median: float
    p90: float


@dataclass(frozen=True, slots=True)
class Backtest:
    """Errors over the executions for which there was enough history; None where there were none."""

    model: ErrorSummary | None
    """As said at submission, before a worker is chosen."""
    placed: ErrorSummary | None
    """The model again, once device and warm models are known."""
    baseline: ErrorSummary | None
    """The mean of similar executions."""
    heuristic: ErrorSummary | None


def backtest(records: Sequence[ExecutionRecord], refit_every: int = REFIT_EVERY) -> Backtest:
    """Go through the records from old to new, learning anew after every `refit_every`."""
    ordered = sorted(records, key=lambda record: record.finished_at)
    model = DurationModel()
    errors: list[tuple[float, float, float, float]] = []
    for index, record in enumerate(ordered):
        if index % refit_every == 0:
            model = DurationModel(newest(ordered[:index]))
        submitted = model.predict_again(record)
        if submitted.source == "heuristic":
            continue
        said = (
            submitted.seconds,
            model.predict_again(record, placed=True).seconds,
            model.mean_of_similar(record),
            heuristic_seconds(len(record.nodes)),
        )
        own, placed, baseline, heuristic = (relative_error(each, record.seconds) for each in said)
        errors.append((own, placed, baseline, heuristic))
    own_errors, placed_errors, baseline_errors, heuristic_errors = (
        summarise(row[column] for row in errors) for column in range(4)
    )
    return Backtest(own_errors, placed_errors, baseline_errors, heuristic_errors)


def summarise(errors: Iterable[float]) -> ErrorSummary | None:
    """None for no errors at all."""
    ordered = sorted(errors)
    if not ordered:
        return None
    return ErrorSummary(len(ordered), median(ordered), quantile(ordered, 0.9))
