"""`comfyrail simulate`: how jobs would wait on a fleet, beside other ways to schedule them."""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.text import Text

from comfyrail.cli.exits import WRONG_USE, explain_and_exit
from comfyrail.cli.tables import add_row, new_table, print_table
from comfyrail.cli.terminal import errors, out, say
from comfyrail.errors import ConfigurationError
from comfyrail.jobs.priority import DEFAULT_TARGETS
from comfyrail.scheduling.simulation.compare import chosen_policies, run_policy
from comfyrail.scheduling.simulation.figures import Figures, mean_of
from comfyrail.scheduling.simulation.scenario import Scenario, read_scenario

MOST_SEEDS = 1000
LARGEST_SEED = 1_000_000


class Report(msgspec.Struct, frozen=True):
    """What `--json` writes: the mean over the seeds by policy, and every run."""

    scenario: Scenario
    seeds: list[int]
    mean: list[Figures]
    runs: list[Figures]


def simulate(scenario_name: str, seeds: str | None, policies: str | None, *, as_json: bool) -> None:
    try:
        scenario = read_scenario(scenario_name)
        names = chosen_policies(
            scenario, [each.strip() for each in (policies or "").split(",") if each]
        )
        numbers = list(scenario.seeds) if seeds is None else parse_seeds(seeds)
    except ConfigurationError as error:
        explain_and_exit(error.message, WRONG_USE)
    runs = _run(scenario, names, numbers)
    report = Report(
        scenario,
        numbers,
        [mean_of(each for each in runs if each.policy == name) for name in names],
        runs,
    )
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
        return
    _show(Path(scenario_name).stem, report)


def parse_seeds(text: str) -> list[int]:
    """`3`, `0-4` or `0,2,5-7`. Raises ConfigurationError."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not _is_seed(first) or (dash and not _is_seed(last)):
            raise ConfigurationError(
                f"--seeds takes numbers such as 0-4 or 0,2,5, up to {LARGEST_SEED}; "
                f"got {text[:50]!r}."
            )
        begin, end = int(first), int(last or first)
        if end < begin or len(found) + end - begin >= MOST_SEEDS:
            raise ConfigurationError(f"--seeds takes 1 to {MOST_SEEDS} numbers; got {text[:50]!r}.")
        found += range(begin, end + 1)
    return list(dict.fromkeys(found))


def _is_seed(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 8 and int(text) <= LARGEST_SEED


def _run(scenario: Scenario, names: Sequence[str], seeds: Sequence[int]) -> list[Figures]:
    runs: list[Figures] = []
    for name in names:
        for seed in seeds:
            if errors.is_terminal:
                errors.print(f"{name}, seed {seed} …")
            runs.append(run_policy(scenario, name, seed))
    return runs


def _show(name: str, report: Report) -> None:
    scenario = report.scenario
    seeds = ", ".join(str(seed) for seed in report.seeds)
    say(Text(name, "bold"), scenario.about)
    say(f"{scenario.jobs:,} jobs, {scenario.worker_count:,} workers; mean over seeds {seeds}")
    out.print()
    _show_policies(report.mean)
    out.print()
    _show_waits(report.mean)
    if len(scenario.tenants) > 1:
        out.print()
        _show_tenants(report.mean)


def _show_policies(runs: Sequence[Figures]) -> None:
    table = new_table(
        "Policy", "Begun", "Loads", "Utilization", "Makespan", "Rounds", "Round mean", "p99"
    )
    for run in runs:
        add_row(
            table,
            run.policy,
            f"{run.jobs:,}" + (f" ({run.unfinished:,} wait)" if run.unfinished else ""),
            f"{run.loads:,}",
            f"{run.utilization:.0%}",
            f"{run.makespan:,.0f} s",
            f"{run.rounds:,}",
            f"{run.round_mean_ms:.2f} ms",
            f"{run.round_p99_ms:.2f} ms",
        )
    print_table(table)


def _show_waits(runs: Sequence[Figures]) -> None:
    table = new_table(
        "Policy", "Class", "Jobs", "Wait mean", "p50", "p95", "p99", "p95 with load", "Missed"
    )
    for run in runs:
        for queue_class, waits in run.waits.items():
            target = DEFAULT_TARGETS.of(queue_class)
            add_row(
                table,
                run.policy,
                f"{queue_class} (< {target:g} s)",
                f"{waits.jobs:,}",
                f"{waits.mean:.1f} s",
                f"{waits.p50:.1f} s",
                Text(f"{waits.p95:.1f} s", "" if waits.p95 <= target else "red"),
                f"{waits.p99:.1f} s",
                f"{waits.p95_running:.1f} s",
                f"{waits.missed:,} ({waits.missed / max(1, waits.jobs):.1%})",
            )
    print_table(table)


def _show_tenants(runs: Sequence[Figures]) -> None:
    table = new_table("Policy", "Tenant", "Share", "Fair", "Off by")
    for run in runs:
        for tenant, share in run.tenants.items():
            add_row(
                table,
                run.policy,
                tenant,
                f"{share.share:.1%}",
                f"{share.fair:.1%}",
                f"{share.distance:.1%}",
            )
    print_table(table)
