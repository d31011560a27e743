"""The official TypeScript SDK, unchanged, against a real server: its quick start [10.7]."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.comfy_v2.pictures import png
from tests.comfy_v2.test_sdk_python import assert_inverted, inverting
from tests.comfy_v2.typescript_sdk import installed, node_of
from tests.graphs import slow_picture
from tests.processes import Comfyrail

QUICK_START = """
import { Comfy } from "@comfyorg/sdk";
const client = new Comfy();
const wf = await client.workflows.fromFile(process.argv[2]);
wf.setInput("10", "image", client.assets.fromFile(process.argv[3]));
const job = await client.run(wf);
await job.getOutputs("9")[0].toFile(process.argv[4]);
console.log(JSON.stringify({ status: job.status, outputs: job.outputs.length }));
"""

FOLLOWING = """
import { readFile } from "node:fs/promises";
import { Comfy, InvalidWorkflow, NotFound } from "@comfyorg/sdk";
const client = new Comfy();
const graph = JSON.parse(await readFile(process.argv[2], "utf8"));
const job = await client.submit(client.workflows.fromJson(graph));
const kinds = [];
for await (const event of job.events()) kinds.push(event.kind);
await job.wait();
const other = await client.submit(client.workflows.fromJson(graph));
await other.cancel();
await other.wait();
const errors = [];
for (const attempt of [
  () => client.run(client.workflows.fromJson({ 1: { class_type: "Nowhere", inputs: {} } })),
  () => client.assets.delete("01890000-0000-7000-8000-000000000000"),
]) {
  try { await attempt(); } catch (error) {
    errors.push([error instanceof InvalidWorkflow, error instanceof NotFound]);
  }
}
const workflow = await job.getWorkflow();
console.log(JSON.stringify({
  kinds, status: job.status, other: other.status, errors, format: workflow.format,
}));
"""


@pytest.fixture(scope="session")
def sdk() -> Path:
    found = installed()
    if isinstance(found, str):
        line = f"NOT TESTED: the TypeScript SDK cannot be had here: {found}"
        print(line, file=sys.stderr)
        pytest.skip(line)
    return found


def run(sdk: Path, server: Comfyrail, program: str, *arguments: Path) -> dict[str, Any]:
    """What a program of the SDK's folder prints."""
    done = subprocess.run(
        [node_of(sdk), "--input-type=module", "--eval", program, "--", "program", *arguments],
        cwd=sdk,
        env={**os.environ, "COMFY_BASE_URL": server.url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.timeout(240)
def test_quick_start_works_unchanged(sdk: Path, running_server: Comfyrail, tmp_path: Path) -> None:
    workflow, photo, made = (tmp_path / name for name in ("w.json", "photo.png", "out.png"))
    workflow.write_text(json.dumps(inverting()))
    photo.write_bytes(png(61))
    said = run(sdk, running_server, QUICK_START, workflow, photo, made)
    assert said == {"status": "succeeded", "outputs": 1}
    assert_inverted(photo, made)


@pytest.mark.timeout(240)
def test_events_cancel_and_errors_are_as_the_sdk_expects(
    sdk: Path, running_server: Comfyrail, tmp_path: Path
) -> None:
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps(slow_picture(1.0, color=62)))
    said = run(sdk, running_server, FOLLOWING, graph)
    assert (said["status"], said["other"], said["format"]) == ("succeeded", "canceled", "api")
    assert said["kinds"][-2:] == ["outputReady", "statusChange"]
    assert "progress" in said["kinds"]
    assert said["errors"] == [[True, False], [False, True]]
