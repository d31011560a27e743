"""The built-in nodes against a real ComfyUI: equal pixels and texts for random graphs."""

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from PIL import Image, ImageSequence

from tests.comfyui.model_free_graphs import Graph, make_graph, sample_pictures
from tests.comfyui_peer.install import installed_peer
from tests.comfyui_peer.server import ComfyUIServer
from tests.processes import wait_until, worker

pytestmark = pytest.mark.comfyui

GRAPHS = 120
GRAPHS_A_TEST = 20
Outputs = dict[str, dict[str, list[Any]]]


@dataclass(frozen=True)
class Engine:
    """A server that runs prompts: ComfyUI itself, or a worker."""

    url: str

    def run(self, graph: Graph) -> Outputs | str:
        """What the output nodes show, pictures as pixels; or why the graph did not run."""
        prompt_id = json.loads(self._fetch("/prompt", {"prompt": graph, "client_id": "parity"}))[
            "prompt_id"
        ]
        entry = wait_until(
            lambda: json.loads(self._fetch(f"/history/{prompt_id}")).get(prompt_id), pause=0.005
        )
        if entry["status"]["status_str"] != "success":
            return str([data for kind, data in entry["status"]["messages"] if "error" in kind])
        return {
            node_id: {key: [self._read(item) for item in items] for key, items in shown.items()}
            for node_id, shown in entry["outputs"].items()
        }

    def _read(self, item: Any) -> Any:
        if not isinstance(item, dict) or "filename" not in item:
            return item
        content = self._fetch(f"/view?{urlencode(item)}")
        with Image.open(BytesIO(content)) as picture:
            return [
                (frame.mode, frame.size, frame.info.get("duration"), frame.tobytes())
                for frame in ImageSequence.Iterator(picture)
            ]

    def _fetch(self, path: str, body: Any = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(self.url + path, data, timeout=30) as reply:
            content: bytes = reply.read()
            return content


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Engine]]:
    """A real ComfyUI and our worker, with the same input files."""
    peer = installed_peer()
    if peer is None:
        pytest.skip("no ComfyUI is installed for tests: run `make test-comfyui`")
    data = tmp_path_factory.mktemp("parity") / "worker"
    with ComfyUIServer(peer) as comfyui, worker(data) as own:
        for folder in (comfyui.base_directory / "input", data / "input"):
            write_pictures(folder)
        yield Engine(comfyui.url), Engine(own.url)


def write_pictures(folder: Path) -> None:
    for name, pixels in sample_pictures().items():
        Image.fromarray(pixels).save(folder / name)


@pytest.mark.parametrize("first", range(0, GRAPHS, GRAPHS_A_TEST))
def test_random_graphs_give_what_comfyui_gives(first: int, engines: tuple[Engine, Engine]) -> None:
    comfyui, own = engines
    ran = 0
    for seed in range(first, first + GRAPHS_A_TEST):
        graph = make_graph(seed)
        expected = comfyui.run(graph)
        # Where ComfyUI cannot (sizes that do not fit, say), the engine may.
        if not isinstance(expected, str):
            ran += 1
            assert_equal(own.run(graph), expected, f"seed {seed}: {json.dumps(graph)}")
    assert ran > GRAPHS_A_TEST / 2


def assert_equal(found: Outputs | str, expected: Outputs, label: str) -> None:
    assert not isinstance(found, str), f"{found}\n{label}"
    different = [node_id for node_id in expected if found.get(node_id) != expected[node_id]]
    assert not different, f"nodes {different} differ; {label}"
    assert set(found) == set(expected)
