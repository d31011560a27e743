"""What a user gives to `comfyrail batches submit`: a batch file, or values to vary."""

import json
from collections.abc import Iterable
from pathlib import Path
from random import SystemRandom
from typing import Any

from comfyrail.cli.exits import WRONG_USE, explain_and_exit
from comfyrail.cli.workflow_file import read_limited, read_setting
from comfyrail.errors import MalformedWorkflow
from comfyrail.library.content import read_inputs
from comfyrail.workflow.graph import is_link
from comfyrail.workflow.nearest import did_you_mean, nearest_names

LARGEST_BATCH_FILE = 16 << 20
PLANS = ("items", "grid", "variants", "search")
FIELDS = (
    *PLANS,
    *("name", "workflow", "workflow_id", "input_params", "auto_fix", "optimize", "priority"),
    *(
        "timeout",
        "queue_timeout",
        "max_retries",
        "not_before",
        "labels",
        "execution_config",
        "stop_on_error",
    ),
    "seeds",
)
SEED_NAMES = ("seed", "noise_seed")
LARGEST_SEED = (1 << 32) - 1
MOST_SEEDS = 10_000


def read_batch_file(path: Path) -> dict[str, Any]:
    """What a batch file says, or the end of the command with what is wrong with it."""
    content = read_limited(path, LARGEST_BATCH_FILE)
    try:
        body = read_inputs(path.name, content)
    except MalformedWorkflow as error:
        explain_and_exit(error.message, WRONG_USE)
    if not isinstance(body, dict):
        explain_and_exit(
            f"{path} is no batch: it has fields such as {', '.join(PLANS)}.", WRONG_USE
        )
    for field in body:
        if field not in FIELDS:
            near = did_you_mean(nearest_names(str(field), FIELDS))
            explain_and_exit(f"{path}: a batch has no field '{field}'.{near}", WRONG_USE)
    given = [plan for plan in PLANS if body.get(plan) is not None]
    if len(given) != 1:
        said = f"it has {' and '.join(given)}" if given else "it has none"
        explain_and_exit(f"{path}: a batch has one of {', '.join(PLANS)}; {said}.", WRONG_USE)
    # Dates of YAML as the API writes them.
    body = {
        key: value.isoformat() if hasattr(value, "isoformat") else value
        for key, value in body.items()
    }
    return body


def read_variation(text: str) -> tuple[str, list[Any]]:
    """NODE.INPUT=A,B,C: the target and its values."""
    target, equals, written = text.partition("=")
    if not equals or not target or not written:
        explain_and_exit(f"--vary takes NODE.INPUT=A,B,C, not {text!r}.", WRONG_USE)
    if written.startswith("["):
        _, values = read_setting(text)
        if not isinstance(values, list):
            explain_and_exit(f"--vary {text}: the list is not JSON.", WRONG_USE)
    else:
        values = [read_setting(f"{target}={each.strip()}")[1] for each in written.split(",")]
    if not values:
        explain_and_exit(f"--vary {text}: the list is empty.", WRONG_USE)
    return target, values


def grid_of(
    workflow: dict[str, Any], vary: Iterable[str], count: int | None, seed_input: str | None
) -> dict[str, list[Any]]:
    """The grid that the options mean."""
    grid: dict[str, list[Any]] = {}
    for text in vary:
        target, values = read_variation(text)
        if target in grid:
            explain_and_exit(f"--vary {target} is given twice: write one list.", WRONG_USE)
        grid[target] = values
    if count is not None:
        target = seed_input or find_seed(workflow)
        if target in grid:
            explain_and_exit(f"{target} is set by --vary and by --count: choose one.", WRONG_USE)
        grid[target] = _seeds(count)
    elif seed_input is not None:
        explain_and_exit("--seed-input goes with --count.", WRONG_USE)
    return grid


def find_seed(workflow: dict[str, Any]) -> str:
    """The one input of a workflow that is a seed."""
    found = list(_seed_inputs(workflow))
    if len(found) == 1:
        return found[0]
    if found:
        message = f"There are several seeds: say --seed-input {' or '.join(found[:5])}."
    else:
        message = (
            "No seed was found in the workflow: say which input --count is to set with "
            "--seed-input NODE.INPUT."
        )
    return explain_and_exit(message, WRONG_USE)


def _seed_inputs(workflow: dict[str, Any]) -> Iterable[str]:
    wrapped = workflow.get("nodes")
    nodes = wrapped if isinstance(wrapped, dict) else workflow
    for node_id, node in nodes.items():
        inputs = node.get("inputs") if isinstance(node, dict) else None
        for name in SEED_NAMES:
            if isinstance(inputs, dict) and name in inputs and not is_link(inputs[name]):
                yield f"{node_id}.{name}"


def _seeds(count: int) -> list[Any]:
    if count > MOST_SEEDS:
        explain_and_exit(f"--count is {MOST_SEEDS} at most.", WRONG_USE)
    return SystemRandom().sample(range(LARGEST_SEED), count)


def shown_parameters(parameters: dict[str, Any]) -> str:
    return ", ".join(
        f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in parameters.items()
    )
