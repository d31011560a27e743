"""What a real ComfyUI answers when things go wrong: `tests/fleet/error_bodies` holds it, and here
it is asked again (`make test-comfyui`).

`python -m tests.comfyui.test_error_bodies` records the files anew.
"""

import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.comfyui_peer.install import installed_peer
from tests.comfyui_peer.server import ComfyUIServer
from tests.comfyui_peer.worker import fetch_json
from tests.fleet.test_classification import BODIES, classified, recorded

pytestmark = pytest.mark.comfyui

LIMIT_SECONDS = 60.0
FULL_FOLDER = "full"
"""Below the output folder, on a disk of one page."""

PACK = '''
import time

import requests
import torch


class Fails:
    """Raises what it is told to."""

    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "run"
    CATEGORY = "tests"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"how": ("STRING", {"default": ""})}}

    def run(self, how):
        if how == "out_of_memory":
            raise torch.OutOfMemoryError("Allocation on device ")
        if how == "value":
            raise ValueError("the strength must be between 0 and 1")
        if how == "shapes":
            return (torch.zeros(2, 3) @ torch.zeros(4, 5),)
        if how == "network":
            requests.get("http://127.0.0.1:9/model", timeout=5)
        if how == "wait":
            import comfy.model_management
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                comfy.model_management.throw_exception_if_processing_interrupted()
                time.sleep(0.02)
        if how == "file":
            open("/no/such/folder/picture.png", "rb")
        raise RuntimeError("it went wrong")


NODE_CLASS_MAPPINGS = {"Fails": Fails}
'''

Graph = dict[str, dict[str, Any]]


def failing(how: str) -> Graph:
    return {
        "1": {"class_type": "Fails", "inputs": {"how": how}},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    }


def empty_image(**changed: int) -> Graph:
    size = {"width": 64, "height": 64, "batch_size": 1, "color": 0} | changed
    return {
        "1": {"class_type": "EmptyImage", "inputs": size},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    }


def checkpoint(name: str) -> Graph:
    latent = {"width": 64, "height": 64, "batch_size": 1}
    return {
        "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": name}},
        "2": {"class_type": "EmptyLatentImage", "inputs": latent},
        "3": {"class_type": "VAEDecode", "inputs": {"samples": ["2", 0], "vae": ["1", 2]}},
        "4": {"class_type": "PreviewImage", "inputs": {"images": ["3", 0]}},
    }


def saved_on_the_full_disk() -> Graph:
    graph = empty_image(width=2048, height=2048)
    graph["2"] = {
        "class_type": "SaveImage",
        "inputs": {"images": ["1", 0], "filename_prefix": f"{FULL_FOLDER}/picture"},
    }
    return graph


def loading_picture(name: str) -> Graph:
    graph = empty_image()
    graph["1"] = {"class_type": "LoadImage", "inputs": {"image": name}}
    return graph


def without_width() -> Graph:
    graph = empty_image()
    del graph["1"]["inputs"]["width"]
    return graph


def of_an_unknown_type() -> Graph:
    graph = empty_image()
    graph["1"]["class_type"] = "NodeThatNobodyHas"
    return graph


CASES: Mapping[str, Graph] = {
    "out_of_memory_torch": failing("out_of_memory"),
    "out_of_memory_cpu": empty_image(width=16384, height=16384, batch_size=4096),
    "value_error": failing("value"),
    "shapes": failing("shapes"),
    "network_error": failing("network"),
    "file_missing_in_node": failing("file"),
    "runtime_error": failing("runtime"),
    "interrupted": failing("wait"),
    "disk_full": saved_on_the_full_disk(),
    "model_header_too_large": checkpoint("header_too_large.safetensors"),
    "model_invalid_header": checkpoint("invalid_header.safetensors"),
    "model_cut_off": checkpoint("cut_off.safetensors"),
    "model_empty": checkpoint("empty.safetensors"),
    "model_bad_pickle": checkpoint("bad_pickle.ckpt"),
    "model_bad_archive": checkpoint("bad_archive.ckpt"),
    "model_of_no_known_type": checkpoint("no_known_type.safetensors"),
    "model_gone_since_listed": checkpoint("gone_since_listed.safetensors"),
    "model_not_listed": checkpoint("nobody_has_it.safetensors"),
    "node_type_unknown": of_an_unknown_type(),
    "value_too_large": empty_image(width=1_000_000),
    "input_missing": without_width(),
    "picture_missing": loading_picture("nobody_has_it.png"),
    "no_outputs": {"1": empty_image()["1"]},
}


def write_models(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    length = len(header).to_bytes(8, "little")
    (folder / "header_too_large.safetensors").write_bytes(b"\xff" * 64)
    (folder / "invalid_header.safetensors").write_bytes((64).to_bytes(8, "little") + b"?" * 64)
    (folder / "cut_off.safetensors").write_bytes(length + header + b"\0\0")
    (folder / "empty.safetensors").write_bytes(b"")
    (folder / "bad_pickle.ckpt").write_bytes(b"<html>404 not found</html>")
    (folder / "bad_archive.ckpt").write_bytes(b"PK\x03\x04" + b"\0" * 200)
    (folder / "no_known_type.safetensors").write_bytes(length + header + b"\0" * 8)
    (folder / "gone_since_listed.safetensors").symlink_to(folder / "was_here.safetensors")


@contextmanager
def disk_of_one_page(folder: Path) -> Iterator[bool]:
    """Whether it could be mounted: that takes rights which not everyone has."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False)
        is_mounted = mounted.returncode == 0
    except OSError:
        is_mounted = False
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", str(folder)], check=True)


class Peer:
    """A ComfyUI with nodes that fail, models that are broken and a disk that is full."""

    def __init__(self, server: ComfyUIServer, *, has_full_disk: bool) -> None:
        self.server = server
        self.has_full_disk = has_full_disk

    def answer(self, case: str) -> dict[str, Any]:
        """What it says to the case, as it is kept: without times, tracebacks and paths."""
        graph = CASES[case]
        try:
            taken = fetch_json(f"{self.server.url}/prompt", {"prompt": graph})
        except HTTPError as error:
            with error:
                body = self._plain(json.loads(error.read()))
                return {"prompt": graph, "status": error.code, "rejection": body}
        if case == "interrupted":
            self._interrupt(taken["prompt_id"])
        entry = self._wait(taken["prompt_id"])
        kept = {"outputs": entry["outputs"], "status": entry["status"]}
        return {"prompt": graph, "history": self._plain(kept)}

    def _wait(self, prompt_id: str) -> dict[str, Any]:
        deadline = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < deadline:
            found = fetch_json(f"{self.server.url}/history/{prompt_id}")
            if prompt_id in found:
                entry: dict[str, Any] = found[prompt_id]
                return entry
            time.sleep(0.02)
        raise AssertionError(f"not ended:\n{self.server.log_tail()}")

    def _interrupt(self, prompt_id: str) -> None:
        deadline = time.monotonic() + LIMIT_SECONDS
        while not fetch_json(f"{self.server.url}/queue")["queue_running"]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        try:
            fetch_json(f"{self.server.url}/interrupt", {"prompt_id": prompt_id})
        except json.JSONDecodeError:
            return  # its answer has no body

    def _plain(self, said: Any) -> Any:
        if isinstance(said, dict):
            return {
                key: [] if key == "traceback" else self._plain(value)
                for key, value in said.items()
                if key not in {"timestamp", "prompt_id", "current_inputs", "current_outputs"}
            }
        if isinstance(said, list):
            return [self._plain(each) for each in said]
        return self._without_paths(said) if isinstance(said, str) else said

    def _without_paths(self, text: str) -> str:
        plain = text.replace(str(self.server.base_directory), "/comfyui")
        # Numbers of objects and of files are others every time.
        return re.sub(r"0x[0-9a-f]{6,}", "0x0", plain)


@contextmanager
def failing_peer() -> Iterator[Peer]:
    installed = installed_peer()
    if installed is None:
        pytest.skip("no ComfyUI is installed for tests: run `make test-comfyui`")
    server = ComfyUIServer(installed)
    write_models(server.base_directory / "models" / "checkpoints")
    (server.base_directory / "custom_nodes" / "failing_nodes.py").write_text(PACK)
    with (
        disk_of_one_page(server.base_directory / "output" / FULL_FOLDER) as is_mounted,
        server,
    ):
        yield Peer(server, has_full_disk=is_mounted)


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    with failing_peer() as running:
        yield running


@pytest.mark.parametrize("case", CASES)
def test_comfyui_still_answers_what_is_recorded(peer: Peer, case: str) -> None:
    if case == "disk_full" and not peer.has_full_disk:
        pytest.skip("this user may not mount a small disk to fill")
    answered, before = peer.answer(case), recorded(case)
    assert kinds_in(answered) == kinds_in(before)
    now, then = classified(answered), classified(before)
    assert (now.fault.code, now.fault.category) == (then.fault.code, then.fault.category)
    assert now.remedy == then.remedy


def kinds_in(said: Mapping[str, Any]) -> list[str]:
    """Types of errors and of messages: what is to be recognized, apart from the words."""
    if "rejection" in said:
        nodes = said["rejection"]["node_errors"]
        errors = nodes.values() if isinstance(nodes, dict) else nodes
        return [
            said["rejection"]["error"]["type"],
            *sorted(each["type"] for node in errors for each in node["errors"]),
        ]
    messages = said["history"]["status"]["messages"]
    return [text for kind, data in messages for text in (kind, data.get("exception_type", ""))]


def record() -> None:
    BODIES.mkdir(exist_ok=True)
    with failing_peer() as peer:
        for case in CASES:
            text = json.dumps(peer.answer(case), indent=2, ensure_ascii=False)
            (BODIES / f"{case}.json").write_text(text + "\n")
            print(case)


if __name__ == "__main__":
    record()
