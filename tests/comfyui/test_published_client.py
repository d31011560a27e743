"""ComfyUI's published example clients against `comfyrail worker`.

The programs are read from the installed copy and run as they are: only the address and the graph,
which are texts in them that a user is meant to change, are set.
"""

import json
import re
import runpy
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.comfyui_peer.install import installed_peer
from tests.processes import Comfyrail, wait_until, worker

pytestmark = pytest.mark.comfyui

# The programs set the text of node 6 and the seed of node 3.
GRAPH: dict[str, Any] = {
    "3": {
        "class_type": "NoiseImage",
        "inputs": {
            "width": 96,
            "height": 64,
            "seed": 0,
            "scale": 32.0,
            "octaves": 3,
            "palette": "ocean",
        },
    },
    "6": {
        "class_type": "TextOnImage",
        "inputs": {
            "image": ["3", 0],
            "text": "",
            "size": 12,
            "color": "#ffffff",
            "position": "center",
        },
    },
    "9": {
        "class_type": "SaveImage",
        "inputs": {"images": ["6", 0], "filename_prefix": "published"},
    },
}

Run = Callable[[str, Comfyrail], dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    peer = installed_peer()
    if peer is None:
        pytest.skip("no ComfyUI is installed for tests: run `make test-comfyui`")
    pytest.importorskip("websocket")

    def run_example(name: str, server: Comfyrail) -> dict[str, Any]:
        source = (peer.checkout / "script_examples" / name).read_text()
        source = source.replace("127.0.0.1:8188", server.url.removeprefix("http://"))
        source, count = re.subn(r'(?s)(prompt_text = """).*?(""")', _with_graph, source, count=1)
        assert count == 1
        script = tmp_path / name
        script.write_text(source)
        return runpy.run_path(str(script))

    return run_example


def _with_graph(found: re.Match[str]) -> str:
    return f"{found[1]}{json.dumps(GRAPH)}{found[2]}"


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the example leaves its replies open
def test_websocket_example_gets_its_picture(run: Run, tmp_path: Path) -> None:
    with worker(tmp_path / "worker") as engine:
        result = run("websockets_api_example.py", engine)
    (picture,) = result["images"]["9"]
    with Image.open(BytesIO(picture)) as image:
        assert image.size == (96, 64)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # as above
def test_basic_example_queues_its_prompt(run: Run, tmp_path: Path) -> None:
    with worker(tmp_path / "worker") as engine:
        run("basic_api_example.py", engine)
        history = wait_until(lambda: engine.call("GET", "/history")[1])
    (entry,) = history.values()
    assert entry["status"]["status_str"] == "success"
