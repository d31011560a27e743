"""Why a batch was refused: each fault once, with the jobs that have it."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from comfyrail.client import RequestFailed

MOST_BAD_JOBS = 20
"""After so many jobs with faults a server looks at no more."""
NUMBERS_SHOWN = 10
_JOB = re.compile(r"Item (\d{1,9})(?: \((.*?)\))?: ")
_TRIED = re.compile(r"With (.*?): ")


def describe_refusal(error: RequestFailed, body: Mapping[str, Any]) -> str:
    """Its findings in lines; `body` is the request."""
    in_jobs: dict[str, dict[int, str | None]] = {}
    with_values: dict[str, dict[str, None]] = {}
    others: dict[str, None] = {}
    for finding in error.findings:
        message = str(finding.get("message"))
        if finding.get("severity") != "error":
            continue
        if match := _JOB.match(message):
            in_jobs.setdefault(message[match.end() :], {})[int(match[1])] = match[2]
        elif match := _TRIED.match(message):
            with_values.setdefault(message[match.end() :], {})[match[1]] = None
        else:
            others[message] = None
    planned = planned_jobs(body)
    lines = [*others]
    lines += [f"{said} (with {_some(list(values))})" for said, values in with_values.items()]
    lines += [f"{said} ({_in_jobs(found, planned)})" for said, found in in_jobs.items()]
    bad = {number for found in in_jobs.values() for number in found}
    if len(bad) >= MOST_BAD_JOBS and planned != len(bad):
        lines.append(f"After {len(bad)} jobs with faults the others were not checked.")
    return "\n       ".join(lines) or str(error)


def planned_jobs(body: Mapping[str, Any]) -> int | None:
    """How many jobs a list or a grid has; None where that is not so simple."""
    grid, items = body.get("grid"), body.get("items")
    if isinstance(grid, Mapping) and all(isinstance(each, list) for each in grid.values()):
        return math.prod(len(values) for values in grid.values())
    return len(items) if isinstance(items, list) else None


def _in_jobs(found: Mapping[int, str | None], planned: int | None) -> str:
    if len(found) == 1:
        ((number, name),) = found.items()
        return f"in job {number}" + (f", {name}" if name else "")
    if len(found) == planned:
        return f"in all {planned} jobs"
    return f"in jobs {_some([str(number) for number in sorted(found)])}"


def _some(values: Sequence[str]) -> str:
    more = len(values) - NUMBERS_SHOWN
    return ", ".join(values[:NUMBERS_SHOWN]) + (f" and {more} more" if more > 0 else "")
