"""How good the duration model is on a history: each execution is predicted before it is learned."""

from collections.abc import Sequence
from dataclasses import dataclass

from comfyrail.planning.duration import HISTORY_LIMIT, DurationModel, heuristic_seconds
from comfyrail.planning.prediction_errors import ErrorSummary, relative_error, summarise
from comfyrail.planning.records import ExecutionRecord

REFIT_EVERY = 25


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
            model = DurationModel(ordered[max(0, index - HISTORY_LIMIT) : index])
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
