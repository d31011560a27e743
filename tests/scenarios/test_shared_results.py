"""The same workflow again: after another, after a restart, on another worker [12.6]."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.processes import Comfyrail, wait_until

PACK = '''
import time
from pathlib import Path

class Counted:
    """Passes an image on, slowly, and writes down that it ran."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",)}}

    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "run"
    CATEGORY = "test"

    def run(self, image):
        with (Path(__file__).parent / "calls").open("a") as calls:
            calls.write("x")
        time.sleep(0.5)
        return (image,)

NODE_CLASS_MAPPINGS = {"Counted": Counted}
'''


class Workers:
    """Worker processes that share a folder of results and load one pack."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._pack = root / "counted.py"
        self._pack.write_text(PACK)
        self.cache = root / "cache"

    def make(self, name: str) -> Comfyrail:
        return Comfyrail(
            *("worker", "--port", "0", "--cache", str(self.cache), "--nodes", str(self._pack)),
            data=self._root / name,
        )

    @property
    def calls(self) -> int:
        path = self._root / "calls"
        return len(path.read_text()) if path.exists() else 0


@pytest.fixture
def workers(tmp_path: Path) -> Workers:
    return Workers(tmp_path)


def graph(color: int) -> dict[str, Any]:
    size = {"width": 64, "height": 64, "batch_size": 1, "color": color}
    return {
        "1": {"class_type": "EmptyImage", "inputs": size},
        "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
        "3": {"class_type": "Counted", "inputs": {"image": ["2", 0]}},
        "4": {"class_type": "SaveImage", "inputs": {"images": ["3", 0], "filename_prefix": "x"}},
    }


def send(process: Comfyrail, color: int) -> str:
    status, reply = process.call("POST", "/prompt", {"prompt": graph(color)})
    assert status == 200, reply
    return str(reply["prompt_id"])


def wait(process: Comfyrail, prompt_id: str) -> set[str]:
    """Wait for the end; the nodes that were not known."""
    path = f"/history/{prompt_id}"
    found = wait_until(lambda: process.call("GET", path)[1].get(prompt_id))
    assert found["status"]["status_str"] == "success", json.dumps(found["status"])
    assert found["outputs"]["4"]["images"]
    (known,) = [
        data["nodes"] for kind, data in found["status"]["messages"] if kind == "execution_cached"
    ]
    return {"1", "2", "3", "4"} - set(known)


def run(process: Comfyrail, color: int) -> set[str]:
    return wait(process, send(process, color))


def test_nothing_is_made_twice(workers: Workers) -> None:
    with workers.make("one") as one:
        assert run(one, 1) == {"1", "2", "3", "4"}
        assert run(one, 2) == {"1", "2", "3", "4"}
        assert run(one, 1) == set()
        one.stop()
        one.start()
        assert run(one, 1) == set()
        assert run(one, 2) == set()
    with workers.make("two") as two:
        # The file must be written there; what is in it need not be made again.
        assert run(two, 1) == {"4"}
        assert run(two, 1) == set()
    assert workers.calls == 2


def test_after_kill_9_what_was_written_is_there(workers: Workers) -> None:
    with workers.make("one") as one:
        run(one, 1)
        wait_until(lambda: len([path for path in workers.cache.rglob("*") if path.is_file()]) >= 4)
        one.kill()
        one.start()
        assert run(one, 1) <= {"4"}
    assert workers.calls == 1


def test_two_workers_that_get_the_same_at_once_make_it_once(workers: Workers) -> None:
    with workers.make("one") as one, workers.make("two") as two:
        sent = [(process, send(process, 3)) for process in (one, two)]
        for process, prompt_id in sent:
            wait(process, prompt_id)
    assert workers.calls == 1


def test_a_poisoned_folder_is_as_good_as_an_empty_one(workers: Workers) -> None:
    with workers.make("one") as one:
        run(one, 1)
        one.stop()
        for path in workers.cache.rglob("*"):
            if path.is_file():
                path.write_bytes(b"\x80\x04cos\nsystem\n(S'exit 1'\ntR." + path.read_bytes()[28:])
        one.start()
        assert run(one, 1) >= {"3"} or workers.calls == 2
    assert workers.calls == 2
