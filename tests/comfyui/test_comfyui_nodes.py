"""A real checkout's nodes and packs in `comfyrail worker --comfyui`, beside the real ComfyUI."""

import json
import shutil
import struct
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import websocket

from comfyrail.engine.builtin import builtin_registry
from tests.comfyui.model_free_graphs import make_graph, write_inputs
from tests.comfyui.test_engine_parity import Engine
from tests.comfyui_peer.install import installed_peer
from tests.comfyui_peer.server import ComfyUIServer
from tests.comfyui_peer.tiny_model import make_tiny_model
from tests.comfyui_peer.worker import ComfyrailWorker, fetch_json
from tests.processes import wait_until

pytestmark = [pytest.mark.comfyui, pytest.mark.timeout(300)]

GRAPHS = 30
END = ("executing", None)
MODEL = Path("models/diffusion_models/tiny.safetensors")

GOOD_PACK = '''
import time

import comfy.model_management
import comfy.utils
import torch
from aiohttp import web
from PIL import Image
from server import PromptServer

server = PromptServer.instance


@server.routes.get("/sample_pack/remaining")
async def remaining(request):
    return web.json_response(server.prompt_queue.get_tasks_remaining())


class AnyType(str):
    def __ne__(self, other):
        return False


class AnyNames(dict):
    def __contains__(self, name):
        return True

    def __getitem__(self, name):
        return (AnyType("*"),)


class SampleReporter:
    """Tells clients all that a node can tell them."""

    RETURN_TYPES = ()
    FUNCTION = "report"
    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {},
            "optional": AnyNames(),
            "hidden": {"me": "UNIQUE_ID", "graph": "DYNPROMPT", "prompt": "PROMPT"},
        }

    def report(self, me, graph, prompt, **given):
        bar = comfy.utils.ProgressBar(4)
        bar.update_absolute(1, 4, ("JPEG", Image.new("RGB", (64, 32), "red"), 16))
        bar.update_absolute(2, 4, ("PNG", Image.new("RGB", (64, 32), "blue"), None))
        server.send_progress_text("half way", me)
        server.send_sync("sample_pack.said", {"node": me}, server.client_id)
        seen = [me, graph.get_display_node_id(me), sorted(graph.all_node_ids()), sorted(prompt)]
        kinds = [f"{name}: {type(value).__name__}" for name, value in sorted(given.items())]
        return {"ui": {"seen": seen, "kinds": kinds}}


class SampleWaiter:
    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "wait"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"seconds": ("FLOAT", {"default": 1.0})}}

    @classmethod
    def IS_CHANGED(cls, seconds):
        return float("nan")

    def wait(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            comfy.model_management.throw_exception_if_processing_interrupted()
            time.sleep(0.01)
        raise comfy.model_management.OOM_EXCEPTION("no room on the device")


class SampleConditioning:
    RETURN_TYPES = ("CONDITIONING",)
    FUNCTION = "make"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"seed": ("INT", {"default": 0})}}

    def make(self, seed):
        return ([[torch.randn(1, 77, 768, generator=torch.Generator().manual_seed(seed)), {}]],)


NODE_CLASS_MAPPINGS = {
    "SampleReporter": SampleReporter,
    "SampleWaiter": SampleWaiter,
    "SampleConditioning": SampleConditioning,
}
NODE_DISPLAY_NAME_MAPPINGS = {"SampleReporter": "Tell me"}
'''

PLAIN_PACK = """
class SampleTwice:
    RETURN_TYPES = ("INT",)
    FUNCTION = "twice"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"x": ("INT", {"default": 1})}}

    def twice(self, x):
        return (2 * x,)


NODE_CLASS_MAPPINGS = {"SampleTwice": SampleTwice, "SaveImage": SampleTwice}
"""


def write_packs(base: Path) -> None:
    sources = {
        "sample_pack": GOOD_PACK,
        "needs_something": "import a_package_that_nobody_has\n",
        "ends_it_all": "raise SystemExit(3)\n",
        "has_nothing": "X = 1\n",
    }
    for name, source in sources.items():
        folder = base / "custom_nodes" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(source)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComfyrailWorker]:
    """A worker with a good pack, bad ones, and one given by its path."""
    peer = installed_peer()
    if peer is None:
        pytest.skip("no ComfyUI is installed for tests: run `make test-comfyui`")
    folder = tmp_path_factory.mktemp("packs")
    plain = folder / "plain_pack.py"
    plain.write_text(PLAIN_PACK)
    make_tiny_model(peer, folder / MODEL.name)
    arguments = ["--nodes", str(plain), "--preview-method", "latent2rgb"]
    own = ComfyrailWorker(peer, extra_arguments=arguments)
    write_packs(own.base_directory)
    (own.base_directory / MODEL).parent.mkdir()
    shutil.copy(folder / MODEL.name, own.base_directory / MODEL)
    write_inputs(own.base_directory / "input")
    with own:
        yield own


@pytest.fixture(scope="module")
def comfyui(worker: ComfyrailWorker) -> Iterator[ComfyUIServer]:
    """The real one, with the same files; packs that would end it are left out."""
    peer = installed_peer()
    assert peer is not None
    real = ComfyUIServer(peer, preview_method="latent2rgb")
    (real.base_directory / MODEL).parent.mkdir()
    shutil.copy(worker.base_directory / MODEL, real.base_directory / MODEL)
    folder = real.base_directory / "custom_nodes" / "sample_pack"
    folder.mkdir()
    (folder / "__init__.py").write_text(GOOD_PACK)
    write_inputs(real.base_directory / "input")
    with real:
        yield real


class Listener:
    def __init__(self, url: str, client_id: str) -> None:
        self._socket = websocket.create_connection(
            url.replace("http", "ws") + f"/ws?clientId={client_id}", timeout=60
        )

    def until_the_end(self, kind: str = "status") -> tuple[list[dict[str, Any]], list[bytes]]:
        """All messages of a prompt, texts and others; one of this kind is waited for too."""
        texts: list[dict[str, Any]] = []
        others: list[bytes] = []
        ended = found = False
        while not (ended and found):
            received = self._socket.recv()
            if isinstance(received, bytes):
                others.append(received)
                continue
            message = json.loads(received)
            texts.append(message)
            found = found or message["type"] == kind
            ended = ended or (message["type"], message["data"].get("node", 1)) == END
        return texts, others

    def until_there_is(self, kind: str) -> None:
        while True:
            received = self._socket.recv()
            if isinstance(received, str) and json.loads(received)["type"] == kind:
                return

    def close(self) -> None:
        self._socket.close()


@contextmanager
def listening(url: str, client_id: str) -> Iterator[Listener]:
    listener = Listener(url, client_id)
    try:
        yield listener
    finally:
        listener.close()


def submit(url: str, graph: dict[str, Any], client_id: str = "nobody") -> str:
    body = {"prompt": graph, "client_id": client_id}
    return str(fetch_json(f"{url}/prompt", body)["prompt_id"])


def history_of(url: str, prompt_id: str) -> dict[str, Any]:
    entry: dict[str, Any] = wait_until(
        lambda: fetch_json(f"{url}/history/{prompt_id}").get(prompt_id), limit=60
    )
    return entry


def test_every_node_type_is_described_as_comfyui_does(
    worker: ComfyrailWorker, comfyui: ComfyUIServer
) -> None:
    # Some classes make folders of the choices that they list: the second answer has them.
    for url in (comfyui.url, worker.url):
        fetch_json(f"{url}/object_info")
    real = fetch_json(f"{comfyui.url}/object_info")
    own = fetch_json(f"{worker.url}/object_info")
    assert len(real) > 400
    built_in = set(builtin_registry().names())
    assert set(own) - set(real) == (built_in - set(real)) | {"SampleTwice"}
    # Compared as text: the order of keys counts too.
    differing = [name for name in real if json.dumps(real[name]) != json.dumps(own.get(name))]
    assert not differing
    one = fetch_json(f"{worker.url}/object_info/SampleReporter")
    assert one == {"SampleReporter": real["SampleReporter"]}


def test_a_pack_that_fails_does_not_stop_others_and_says_why(worker: ComfyrailWorker) -> None:
    names = fetch_json(f"{worker.url}/object_info")
    assert "SampleReporter" in names
    log = worker.log_path.read_text()
    for pack, reason in {
        "needs_something": "No module named 'a_package_that_nobody_has'",
        "ends_it_all": "SystemExit: 3",
        "has_nothing": "NODE_CLASS_MAPPINGS",
    }.items():
        (line,) = [each for each in log.splitlines() if "pack_not_loaded" in each and pack in each]
        assert reason in line


def test_a_pack_given_by_its_path_may_not_replace_comfyuis_nodes(worker: ComfyrailWorker) -> None:
    names = fetch_json(f"{worker.url}/object_info")
    assert names["SampleTwice"]["python_module"] == "custom_nodes.plain_pack"
    assert names["SaveImage"]["python_module"] == "nodes"


@pytest.mark.parametrize("prefix", ["", "/api"])
def test_routes_of_packs_are_served(worker: ComfyrailWorker, prefix: str) -> None:
    assert fetch_json(f"{worker.url}{prefix}/sample_pack/remaining") == 0


def test_graphs_give_the_very_same_pictures_as_in_comfyui(
    worker: ComfyrailWorker, comfyui: ComfyUIServer
) -> None:
    real, own = Engine(comfyui.url), Engine(worker.url)
    ran = 0
    for seed in range(1000, 1000 + GRAPHS):
        graph = make_graph(seed)
        expected, found = real.run(graph), own.run(graph)
        if isinstance(expected, str):
            assert isinstance(found, str), f"seed {seed}: {expected}"
        else:
            ran += 1
            assert found == expected, f"seed {seed}: {json.dumps(graph)}"
    assert ran > GRAPHS / 2


def reporting_graph(number: int) -> dict[str, Any]:
    """A graph of this number was not run before: a result from the cache tells nothing."""
    return {
        "1": {
            "class_type": "EmptyImage",
            "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 5},
        },
        "2": {"class_type": "SampleReporter", "inputs": {"picture": ["1", 0], "number": number}},
    }


def test_a_node_tells_its_client_what_it_would_tell_with_comfyui(
    worker: ComfyrailWorker, comfyui: ComfyUIServer
) -> None:
    for url in (comfyui.url, worker.url):
        with listening(url, "teller") as listener:
            prompt_id = submit(url, reporting_graph(1), "teller")
            texts, others = listener.until_the_end("sample_pack.said")
        said = [message["data"] for message in texts if message["type"] == "sample_pack.said"]
        assert said == [{"node": "2"}]
        progress = [message["data"] for message in texts if message["type"] == "progress"]
        assert progress[-1] == {"value": 2, "max": 4, "prompt_id": prompt_id, "node": "2"}
        kinds = [struct.unpack(">I", message[:4])[0] for message in others]
        assert kinds == [1, 1, 3]
        assert [message[4:8] for message in others[:2]] == [b"\0\0\0\1", b"\0\0\0\2"]
        assert others[2] == struct.pack(">II", 3, 1) + b"2half way"
        assert history_of(url, prompt_id)["outputs"]["2"] == {
            "seen": ["2", "2", ["1", "2"], ["1", "2"]],
            "kinds": ["number: int", "picture: Tensor"],
        }


def test_comfyrails_own_nodes_work_among_comfyuis(worker: ComfyrailWorker) -> None:
    own = Engine(worker.url)
    nodes = fetch_json(f"{worker.url}/object_info")
    board = {
        name: options[1]["default"]
        for name, options in nodes["CheckerboardImage"]["input"]["required"].items()
    }
    graph = {
        "1": {"class_type": "CheckerboardImage", "inputs": board | {"width": 32, "height": 32}},
        "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
        "3": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
        "4": {"class_type": "PreviewImage", "inputs": {"images": ["5", 0]}},
        "5": {"class_type": "Delay", "inputs": {"seconds": 0.0, "value": ["2", 0]}},
    }
    shown = own.run(graph)
    assert not isinstance(shown, str), shown
    plain, inverted = shown["3"]["images"][0][0][3], shown["4"]["images"][0][0][3]
    assert inverted == bytes(255 - value for value in plain)


def sampling_graph(seed: int, steps: int) -> dict[str, Any]:
    sampler = {
        "model": ["1", 0],
        "positive": ["2", 0],
        "negative": ["3", 0],
        "latent_image": ["4", 0],
        "seed": seed,
        "steps": steps,
        "cfg": 3.0,
        "sampler_name": "euler",
        "scheduler": "normal",
        "denoise": 1.0,
    }
    loader = {"unet_name": MODEL.name, "weight_dtype": "default"}
    size = {"width": 64, "height": 64, "batch_size": 1}
    return {
        "1": {"class_type": "UNETLoader", "inputs": loader},
        "2": {"class_type": "SampleConditioning", "inputs": {"seed": 1}},
        "3": {"class_type": "SampleConditioning", "inputs": {"seed": 2}},
        "4": {"class_type": "EmptyLatentImage", "inputs": size},
        "5": {"class_type": "KSampler", "inputs": sampler},
        "6": {
            "class_type": "SaveLatent",
            "inputs": {"samples": ["5", 0], "filename_prefix": f"sampled-{seed}"},
        },
    }


def test_a_sampler_gives_the_very_same_latents_previews_and_progress(
    worker: ComfyrailWorker, comfyui: ComfyUIServer
) -> None:
    seen = []
    for server in (comfyui, worker):
        with listening(server.url, "sampler") as listener:
            submit(server.url, sampling_graph(1, 3), "sampler")
            texts, previews = listener.until_the_end()
        progress = [
            (message["data"]["value"], message["data"]["max"])
            for message in texts
            if message["type"] == "progress"
        ]
        (latent,) = (server.base_directory / "output").glob("sampled-1_*.latent")
        seen.append((progress, previews, latent.read_bytes()))
    real, own = seen
    assert [len(each) for each in real] == [3, 3, len(own[2])]
    assert own == real


def test_a_model_is_not_loaded_again_for_the_next_prompt(worker: ComfyrailWorker) -> None:
    history_of(worker.url, submit(worker.url, sampling_graph(10, 1)))
    with listening(worker.url, "again") as listener:
        submit(worker.url, sampling_graph(11, 1), "again")
        texts, _ = listener.until_the_end()
    ran = [message["data"]["node"] for message in texts if message["type"] == "executing"]
    assert ran == ["5", "6", None]


def test_an_interrupt_stops_a_sampler_between_steps(worker: ComfyrailWorker) -> None:
    with listening(worker.url, "stopper") as listener:
        prompt_id = submit(worker.url, sampling_graph(20, 1000), "stopper")
        listener.until_there_is("progress")
        urllib.request.urlopen(f"{worker.url}/interrupt", data=b"{}", timeout=10).close()
    assert messages_of(worker.url, prompt_id)["execution_interrupted"]["node_id"] == "5"


def waiting_graph(seconds: float) -> dict[str, Any]:
    return {
        "1": {"class_type": "SampleWaiter", "inputs": {"seconds": seconds}},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    }


def messages_of(url: str, prompt_id: str) -> dict[str, Any]:
    return dict(history_of(url, prompt_id)["status"]["messages"])


def test_an_interrupt_reaches_a_node_through_comfyuis_own_check(worker: ComfyrailWorker) -> None:
    prompt_id = submit(worker.url, waiting_graph(60.0))
    wait_until(lambda: fetch_json(f"{worker.url}/queue")["queue_running"])
    urllib.request.urlopen(f"{worker.url}/interrupt", data=b"{}", timeout=10).close()
    messages = messages_of(worker.url, prompt_id)
    assert messages["execution_interrupted"]["node_id"] == "1"
    # The next one is not stopped by what was meant for the last.
    again = messages_of(worker.url, submit(worker.url, waiting_graph(0.0)))
    assert "execution_error" in again


def test_running_out_of_memory_is_explained(worker: ComfyrailWorker) -> None:
    error = messages_of(worker.url, submit(worker.url, waiting_graph(0.0)))["execution_error"]
    assert error["exception_message"].startswith("no room on the device\n")
    assert "not enough memory" in error["exception_message"]


def test_memory_can_be_freed(worker: ComfyrailWorker) -> None:
    body = json.dumps({"unload_models": True, "free_memory": True}).encode()
    urllib.request.urlopen(f"{worker.url}/free", data=body, timeout=10).close()
    prompt_id = submit(worker.url, reporting_graph(2))
    assert history_of(worker.url, prompt_id)["status"]["completed"]


@pytest.mark.parametrize("path", ["/models", "/models/checkpoints", "/embeddings"])
def test_models_are_listed_as_comfyui_does(
    worker: ComfyrailWorker, comfyui: ComfyUIServer, path: str
) -> None:
    for base in (worker.base_directory, comfyui.base_directory):
        for folder, name in (("checkpoints", "some/model.safetensors"), ("embeddings", "e.pt")):
            file = base / "models" / folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    listed = fetch_json(worker.url + path)
    assert listed
    assert listed == fetch_json(comfyui.url + path)


def test_the_machine_is_described_as_comfyui_does(
    worker: ComfyrailWorker, comfyui: ComfyUIServer
) -> None:
    own, real = (fetch_json(f"{url}/system_stats") for url in (worker.url, comfyui.url))
    for name in ("comfyui_version", "pytorch_version", "ram_total", "python_version"):
        assert own["system"][name] == real["system"][name]
    (own_device,), (real_device,) = own["devices"], real["devices"]
    assert list(own_device) == list(real_device)
    for name in ("name", "type", "index", "vram_total"):
        assert own_device[name] == real_device[name]


def test_wrong_flags_of_comfyui_are_explained() -> None:
    peer = installed_peer()
    if peer is None:
        pytest.skip("no ComfyUI is installed for tests: run `make test-comfyui`")
    wrong = ComfyrailWorker(peer, extra_arguments=["--no-such-flag"])
    with pytest.raises(AssertionError, match="unrecognized arguments: --no-such-flag"), wrong:
        pass
