"""A graph whose values are larger than the memory that it may use [12.5]."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import json, resource, sys
from pathlib import Path
import numpy as np
from comfyrail.engine.assembly import build_executor
from comfyrail.engine.configuration import read_configuration
from comfyrail.engine.definition import define_node
from comfyrail.engine.folders import Folders
from comfyrail.engine.registry import NodeRegistry

SIDE, COUNT = 2048, 48  # 16 MiB each, 768 MiB in all

def make(seed):
    return np.full((SIDE, SIDE), seed, np.float32)

def fold(a, b):
    return a * 0.5 + b * 0.25

nodes = [
    define_node("Make", make, required={"seed": ("INT",)}, outputs=("IMAGE",)),
    define_node("Fold", fold, required={"a": ("IMAGE",), "b": ("IMAGE",)}, outputs=("IMAGE",)),
    define_node("Mean", lambda image: float(image.mean()), required={"image": ("IMAGE",)},
                outputs=("FLOAT",)),
]
graph = {f"m{i}": {"class_type": "Make", "inputs": {"seed": i}} for i in range(COUNT)}
# The first is needed last: all are alive at once.
last = f"m{COUNT - 1}"
for i in reversed(range(COUNT - 1)):
    graph[f"f{i}"] = {"class_type": "Fold", "inputs": {"a": [last, 0], "b": [f"m{i}", 0]}}
    last = f"f{i}"
graph["mean"] = {"class_type": "Mean", "inputs": {"image": [last, 0]}}

root = Path(sys.argv[1])
limit = json.loads(sys.argv[2])
folders = Folders.under(root)
configuration = read_configuration(
    {"resource_management": {"memory_limit_mb": limit},
     "caching": {"memory_mb": 4096}, "execution": {"strategy": sys.argv[3]}}, "test")
executor = build_executor(NodeRegistry(nodes), folders, configuration)
def peak():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
before = peak()
values = executor.compute(graph, ["mean"])
executor.close()
left = [str(path) for path in root.rglob("*") if path.is_file() and path.name != "lock"]
print(json.dumps({"mean": values["mean"][0][0], "peak": peak() - before, "left": left}))
"""


def run(tmp_path: Path, limit: int | None, strategy: str = "sequential") -> Any:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(tmp_path / "data"), json.dumps(limit), strategy]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What it is without a limit."""
    return run(tmp_path_factory.mktemp("free"), None)


@pytest.mark.parametrize("strategy", ["sequential", "parallel"])
def test_the_result_is_right_and_the_memory_stays_near_the_limit(
    tmp_path: Path, free: Any, strategy: str
) -> None:
    bound = run(tmp_path, 160, strategy)
    assert bound["mean"] == free["mean"]
    assert free["peak"] > 700
    assert bound["peak"] < 350
    assert bound["left"] == []
