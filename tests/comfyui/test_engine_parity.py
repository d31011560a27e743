"""The built-in nodes against a real ComfyUI: equal pixels and texts for random graphs."""

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
import websocket
from PIL import Image, ImageSequence

from tests.comfyui.model_free_graphs import Graph, make_graph, write_inputs
from tests.comfyui.picture_kinds import write_kinds_of_pictures
from tests.comfyui_peer.install import Peer, installed_peer
from tests.comfyui_peer.server import ComfyUIServer
from tests.processes import wait_until, worker

pytestmark = pytest.mark.comfyui

GRAPHS = 120
GRAPHS_A_TEST = 20
Outputs = dict[str, dict[str, list[Any]]]


@dataclass(frozen=True)
class PeerOfTwoThreads(Peer):
    """With a single thread torch resizes RGB images in another way, as on machines of one core."""

    def environment(self) -> dict[str, str]:
        return super().environment() | {"OMP_NUM_THREADS": "2"}


@dataclass(frozen=True)
class Engine:
    """A server that runs prompts: ComfyUI itself, or a worker."""

    url: str

    def run(self, graph: Graph, **extra_data: Any) -> Outputs | str:
        """What the output nodes show, pictures as pixels; or why the graph did not run."""
        shown = self.show(graph, **extra_data)
        if isinstance(shown, str):
            return shown
        return {
            node_id: {key: [self._read(item) for item in items] for key, items in ui.items()}
            for node_id, ui in shown.items()
        }

    def show(self, graph: Graph, client: str = "parity", **extra_data: Any) -> Outputs | str:
        """What the output nodes show, files by their names."""
        body = {"prompt": graph, "client_id": client, "extra_data": extra_data}
        try:
            prompt_id = json.loads(self._fetch("/prompt", body))["prompt_id"]
        except urllib.error.HTTPError as error:
            return error.read().decode()
        entry = wait_until(
            lambda: json.loads(self._fetch(f"/history/{prompt_id}")).get(prompt_id), pause=0.005
        )
        if entry["status"]["status_str"] != "success":
            return str([data for kind, data in entry["status"]["messages"] if "error" in kind])
        outputs: Outputs = entry["outputs"]
        return outputs

    def content(self, item: Mapping[str, str]) -> bytes:
        """A file that a node has saved."""
        return self._fetch(f"/view?{urlencode(item)}")

    def _read(self, item: Any) -> Any:
        if not isinstance(item, dict) or "filename" not in item:
            return item
        content = self.content(item)
        if item["filename"].endswith(".latent"):
            return read_latent(content)
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
    peer = PeerOfTwoThreads(peer.python, peer.checkout)
    server = ComfyUIServer(peer)
    custom_nodes = server.base_directory / "custom_nodes"
    shutil.copy(peer.checkout / "custom_nodes" / "websocket_image_save.py", custom_nodes)
    with server as comfyui, worker(data) as own:
        for folder in (comfyui.base_directory / "input", data / "input"):
            write_inputs(folder)
            (folder / "kinds").mkdir()
            write_kinds_of_pictures(folder / "kinds")
        yield Engine(comfyui.url), Engine(own.url)


def read_latent(content: bytes) -> tuple[list[int], bytes]:
    """The shape and the values of the samples in a file of latents."""
    length = int.from_bytes(content[:8], "little")
    entry = json.loads(content[8 : 8 + length])["latent_tensor"]
    start, end = (8 + length + offset for offset in entry["data_offsets"])
    return entry["shape"], content[start:end]


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


def node(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}


def test_files_of_all_kinds_load_as_in_comfyui(
    engines: tuple[Engine, Engine], tmp_path: Path
) -> None:
    comfyui, own = engines
    loaded = 0
    for name in write_kinds_of_pictures(tmp_path):
        graph = {
            "1": node("LoadImage", image=f"kinds/{name}"),
            "2": node("PreviewImage", images=["1", 0]),
            "3": node("MaskPreview", mask=["1", 1]),
        }
        for index, channel in enumerate(("alpha", "red", "green", "blue")):
            image = node("LoadImageMask", image=f"kinds/{name}", channel=channel)
            graph |= {f"4{index}": image, f"5{index}": node("MaskPreview", mask=[f"4{index}", 0])}
        expected = comfyui.run(graph)
        if isinstance(expected, str):
            assert isinstance(own.run(graph), str), name
        else:
            loaded += 1
            assert_equal(own.run(graph), expected, name)
    assert loaded > 60


def test_saved_files_carry_the_texts_that_comfyui_writes(engines: tuple[Engine, Engine]) -> None:
    # Nothing that another test shows, as the worker would show the file of that one again.
    graph = {
        "1": {**node("LoadImage", image="noise.png"), "_meta": {"title": "Läden"}},
        "2": node("SaveImage", images=["1", 0], filename_prefix="texts/a"),
        "3": node("LoadImageMask", image="ramp.png", channel="blue"),
        "4": node("MaskPreview", mask=["3", 0]),
        "5": {**node("LoadImage", image="tall.png"), "is_changed": ["sent along"]},
        "6": node("ImageScaleBy", image=["5", 0], upscale_method="area", scale_by=3),
        "7": node("PreviewImage", images=["6", 0]),
        "8": node("LoadImage", image="not there.png"),
        "9": node("LoadLatent", latent="one.latent"),
        "10": node("SaveLatent", samples=["9", 0], filename_prefix="texts/b"),
        "11": node("LoadImageOutput", image="noise.png [input]"),
    }
    workflow = {"workflow": {"nodes": [1, "ü"], "version": 0.4}}
    texts = []
    for engine in engines:
        shown = engine.show(graph, extra_pnginfo=workflow)
        assert not isinstance(shown, str), shown
        texts.append({node_id: texts_in(engine, ui) for node_id, ui in shown.items()})
    assert texts[0] == texts[1]
    assert len(texts[0]) == 4
    assert '"is_changed": ["' in texts[0]["2"]["prompt"]


def texts_in(engine: Engine, ui: Mapping[str, list[Any]]) -> dict[str, str]:
    """The texts in the first file that a node shows."""
    (item,) = next(iter(ui.values()))
    content = engine.content(item)
    if item["filename"].endswith(".latent"):
        length = int.from_bytes(content[:8], "little")
        metadata: dict[str, str] = json.loads(content[8 : 8 + length])["__metadata__"]
        return metadata
    with Image.open(BytesIO(content)) as picture:
        picture.load()
        return {str(key): str(text) for key, text in getattr(picture, "text", {}).items()}


def test_pictures_come_over_the_socket_as_from_comfyui(engines: tuple[Engine, Engine]) -> None:
    graph = {
        "1": node("LoadImage", image="noise.png"),
        "2": node("RepeatImageBatch", image=["1", 0], amount=3),
        "3": node("ImageAddNoise", image=["2", 0], seed=1, strength=0.2),
        "4": node("SaveImageWebsocket", images=["3", 0]),
    }
    expected, found = (listen(engine, graph) for engine in engines)
    assert found == expected
    assert len(found[0]) == 3


def listen(engine: Engine, graph: Graph) -> tuple[list[Any], list[Any]]:
    """The pictures that a socket gets while a graph runs, and the progress of the node."""
    socket = websocket.create_connection(
        engine.url.replace("http", "ws") + "/ws?clientId=listener", timeout=30
    )
    pictures: list[Any] = []
    steps: list[Any] = []
    try:
        shown = engine.show(graph, client="listener")
        assert not isinstance(shown, str), shown
        while True:
            message = socket.recv()
            if isinstance(message, bytes):
                with Image.open(BytesIO(message[8:])) as picture:
                    pictures.append((message[:8], picture.format, picture.tobytes()))
                continue
            event = json.loads(message)
            if event["type"] == "progress":
                steps.append((event["data"]["value"], event["data"]["max"]))
            if event["type"] == "execution_success":
                return pictures, steps
    finally:
        socket.close()


def test_a_large_image_is_scaled_for_kontext_as_in_comfyui(engines: tuple[Engine, Engine]) -> None:
    graph = {
        "1": node("LoadImage", image="large.png"),
        "2": node("FluxKontextImageScale", image=["1", 0]),
        "3": node("PreviewImage", images=["2", 0]),
    }
    expected, found = (engine.run(graph) for engine in engines)
    assert found == expected


@pytest.mark.parametrize("class_type", ["ImageBlur", "ImageSharpen"])
def test_wide_blurs_are_within_one_level_of_comfyuis(
    class_type: str, engines: tuple[Engine, Engine]
) -> None:
    """torch's square roots, of which kernels are made, depend on the processor."""
    graph: Graph = {"0": node("LoadImage", image="ramp.png")}
    for radius in range(1, 12):
        name = "blur_radius" if class_type == "ImageBlur" else "sharpen_radius"
        inputs = {"image": ["0", 0], name: radius, "sigma": 0.7}
        inputs |= {} if class_type == "ImageBlur" else {"alpha": 0.3}
        graph |= {
            f"1{radius}": node(class_type, **inputs),
            f"2{radius}": node("PreviewImage", images=[f"1{radius}", 0]),
        }
    expected, found = (engine.run(graph) for engine in engines)
    assert not isinstance(expected, str)
    assert not isinstance(found, str)
    for node_id, ui in expected.items():
        levels = [
            np.frombuffer(outputs[node_id]["images"][0][0][3], np.uint8).astype(int)
            for outputs in (expected, found)
        ]
        assert np.abs(levels[0] - levels[1]).max() <= 1, (node_id, ui)


def test_turned_latents_are_almost_equal_to_comfyuis(engines: tuple[Engine, Engine]) -> None:
    upscale = {"upscale_method": "bislerp", "scale_by": 2.3}
    graph = {
        "1": node("LoadLatent", latent="two.latent"),
        "2": node("LatentUpscaleBy", samples=["1", 0], **upscale),
        "3": node("SaveLatent", samples=["2", 0], filename_prefix="turned"),
    }
    samples = []
    for engine in engines:
        outputs = engine.run(graph)
        assert not isinstance(outputs, str), outputs
        shape, content = outputs["3"]["latents"][0]
        samples.append(np.frombuffer(content, np.float32).reshape(shape))
    assert np.allclose(samples[0], samples[1], rtol=0, atol=1e-5)
