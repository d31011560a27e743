"""How well durations are predicted: on made-up and on recorded histories."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from bench.backtest import ErrorSummary, backtest
from comfyrail.planning.analysis import analyse
from comfyrail.planning.duration import DurationModel
from comfyrail.planning.records import ExecutionRecord
from comfyrail.workflow.graph import parse_workflow
from tests.planning.recorded_history import recorded_history
from tests.planning.simulated_history import CATALOG, simulated_history, text_to_image


async def predictions() -> None:
    """Each execution is predicted before it is learned. SPEC 3.2 asks that this is shown."""
    await asyncio.to_thread(show_errors)
    await asyncio.to_thread(show_times)


def show_errors() -> None:
    histories: Mapping[str, Sequence[ExecutionRecord]] = {
        "simulated": simulated_history(),
        "engine": recorded_history("engine"),
        "comfyui": recorded_history("comfyui"),
    }
    print("  median (p90) of |predicted - taken| / taken")
    print(f"  {'history':10} {'jobs':>5} {'model':>15} {'model, placed':>15}", end="")
    print(f" {'mean of similar':>16} {'heuristic':>18}")
    for name, records in histories.items():
        errors = backtest(records)
        print(f"  {name:10} {errors.model.count if errors.model else 0:5}", end="")
        print(f" {described(errors.model):>15} {described(errors.placed):>15}", end="")
        print(f" {described(errors.baseline):>16} {described(errors.heuristic):>18}")


def described(errors: ErrorSummary | None) -> str:
    return "-" if errors is None else f"{errors.median:.3f} ({errors.p90:.2f})"


def show_times() -> None:
    records = simulated_history()
    workflow = parse_workflow(text_to_image())
    analysis = analyse(workflow, CATALOG)
    model = DurationModel.fit(records)
    fitting = least_seconds(lambda: DurationModel.fit(records), 5)
    looking = least_seconds(lambda: analyse(workflow, CATALOG), 500)
    fresh = least_seconds(lambda: model.predict(analysis, warm_models=()), 500)
    print(f"  least times: fit on {len(records)} executions {fitting * 1e3:.0f} ms;", end="")
    print(f" analyse {analysis.node_count} nodes {looking * 1e3:.3f} ms,", end="")
    print(f" predict {fresh * 1e3:.3f} ms")


def least_seconds(run: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)
