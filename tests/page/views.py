"""Every view of the page with something to see in it: for the screenshots and for axe."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.processes import Comfyrail, wait_until

ROOT = Path(__file__).resolve().parents[2]
SLOW_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Scene:
    """A server on which something has happened."""

    completed: str
    failed: str
    running: str
    outputs: tuple[str, str]
    batch: str

    @property
    def places(self) -> dict[str, str]:
        """Views by name, as fragments."""
        one, other = self.outputs
        return {
            "start": "#/",
            "run": "#/run/example/aurora",
            "run-faults": "#/run/example/aurora?v.2.octaves=99",
            "job": f"#/jobs/{self.completed}",
            "job-running": f"#/jobs/{self.running}",
            "job-failed": f"#/jobs/{self.failed}",
            "jobs": "#/jobs",
            "gallery": "#/gallery",
            "lightbox": f"#/gallery?open={one}",
            "compare": f"#/compare?a={one}&b={other}",
            "batches": "#/batches",
            "batch": f"#/batches/{self.batch}",
            "queue": "#/fleet",
            "workers": "#/fleet?tab=workers",
            "webhooks": "#/webhooks",
            "deliveries": "#/webhooks?tab=deliveries",
            "dead-letters": "#/webhooks?tab=dead",
            "usage": "#/usage",
            "keys": "#/keys",
        }


def example(name: str) -> Any:
    return json.loads((ROOT / "workflows" / name / "workflow.json").read_text("utf-8"))


def set_scene(server: Comfyrail) -> Scene:
    """Runs the examples and a batch, lets a job fail, and leaves one running."""
    for name in ("aurora", "poster"):
        body = {"workflow": example(name), "description": f"# {name.capitalize()}"}
        assert server.call("PUT", f"/v1/workflows/{name}", body)[0] in {200, 201}
    one = _run(server, {"workflow_id": "aurora"})
    other = _run(server, {"workflow_id": "aurora", "input_params": {"2.seed": 42, "8.seed": 7}})
    _run(server, {"workflow_id": "poster"})
    failed = _run(server, {"workflow": _failing()}, "failed")
    batch = _batch(server)
    _tell_nobody(server)
    running = server.call("POST", "/v2/workflows/execute", {"workflow": _slow()})[1]["id"]
    server.wait_for(running, "processing")
    outputs = tuple(_first_output(server, each) for each in (one, other))
    return Scene(one, failed, running, (outputs[0], outputs[1]), batch)


def _run(server: Comfyrail, body: Any, ends: str = "completed") -> str:
    config = {"execution_config": {"max_retries": 0}}
    status, reply = server.call("POST", "/v2/workflows/execute", {**body, **config})
    assert status == 202, reply
    server.wait_for(reply["id"], ends, limit=60)
    return str(reply["id"])


def _first_output(server: Comfyrail, job_id: str) -> str:
    def look() -> str | None:
        reply = server.call("GET", f"/v2/workflows/executions/{job_id}/outputs")[1]
        first = reply["outputs"][0]
        return str(first["id"]) if first["variants"] else None

    found = wait_until(look, limit=60)
    assert found is not None
    return found


def _batch(server: Comfyrail) -> str:
    body = {
        "name": "Colours of the storm",
        "workflow_id": "aurora",
        "priority": 9,
        "input_params": {"Caption.text": ""},
        "grid": {"8.palette": ["sunset", "ocean"], "2.seed": [1, 2, 3]},
    }
    status, reply = server.call("POST", "/v1/batches", body)
    assert status == 202, reply
    batch_id = str(reply["batch_id"])
    wait_until(
        lambda: server.call("GET", f"/v1/batches/{batch_id}")[1]["status"] == "completed", limit=120
    )
    return batch_id


def _tell_nobody(server: Comfyrail) -> None:
    """An endpoint where nobody listens."""
    body = {"url": "http://127.0.0.1:9/hook", "description": "The shop", "events": []}
    assert server.call("POST", "/v1/webhooks", body)[0] == 201


def _failing() -> Any:
    """An image without alpha has no alpha channel."""
    graph = example("poster")
    graph["30"] = {"class_type": "ImageToMask", "inputs": {"image": ["1", 0], "channel": "alpha"}}
    graph["31"] = {"class_type": "MaskToImage", "inputs": {"mask": ["30", 0]}}
    graph["32"] = {"class_type": "PreviewImage", "inputs": {"images": ["31", 0]}}
    return graph


def _slow() -> Any:
    graph = example("aurora")
    graph["20"] = {"class_type": "Delay", "inputs": {"value": ["9", 0], "seconds": SLOW_SECONDS}}
    graph["10"]["inputs"]["image"] = ["20", 0]
    return graph
