"""Requests in the reference that are marked as runnable run, on a server as it is after `make run`.

Before a fence with such a request stands `<!-- runnable -->`. JSON is the body of the route in the
heading above it; of a console, the `curl` command is run.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.processes import Comfyrail, comfyrail, server

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "reference").glob("api-*.md"))
RUNNABLE = re.compile(
    r"^<!-- runnable -->\n\n```(json|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
HEADING = re.compile(r"^### (\w+) (/\S*)$", re.MULTILINE)
ADDRESS = "http://127.0.0.1:8080"


class Example(NamedTuple):
    page: str
    method: str
    path: str
    kind: str
    text: str


def examples() -> Iterator[Example]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in RUNNABLE.finditer(text):
            method, path = HEADING.findall(text[: found.start()])[-1]
            yield Example(page.name, method, path, found[1], found[2])


EXAMPLES = list(examples())


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    with server(tmp_path_factory.mktemp("examples") / "data") as process:
        process.wait_ready()
        saved = comfyrail(
            "workflows", "save", "poster", "workflows/poster", "--server", process.url
        )
        assert saved.returncode == 0, saved.stderr
        yield process


def test_there_are_examples_in_all_request_formats() -> None:
    assert {"api-runpod.md", "api-runs.md", "api-tasks.md", "api-v2.md"} <= {
        each.page for each in EXAMPLES
    }


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: f"{each.page} {each.path}")
def test_example_is_accepted_and_its_job_completes(house: Comfyrail, example: Example) -> None:
    if example.kind == "json":
        status, content, _ = house.fetch(example.method, example.path, json.loads(example.text))
        assert 200 <= status < 300, content
        reply = json.loads(content)
    else:
        command = example.text.removeprefix("$ ").replace(ADDRESS, house.url)
        assert command.startswith("curl ")
        ran = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True
        )
        reply = json.loads(ran.stdout)
        assert "error" not in reply, reply
    job_id = reply.get("id") or reply["workflow_id"]
    assert house.wait_for(job_id)["status"] == "completed"
