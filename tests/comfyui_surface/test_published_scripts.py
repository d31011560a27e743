"""What ComfyUI's published example scripts do, step by step, against two workers [10.5]."""

import io
import json
import random
import uuid

import pytest
from PIL import Image

from tests.comfyui_surface.parts import Script
from tests.graphs import picture, slow_picture
from tests.processes import wait_until


def test_a_script_that_only_posts_its_prompt_finds_the_result_in_the_history(
    script: Script,
) -> None:
    prompt = picture(random.randrange(1 << 24))

    status, reply = script.post("/prompt", {"prompt": prompt})

    assert status == 200
    prompt_id = reply["prompt_id"]
    history = wait_until(lambda: script.get(f"/history/{prompt_id}"))
    assert history[prompt_id]["status"]["status_str"] == "success"


@pytest.mark.parametrize("gives_id", [False, True])
def test_a_script_that_follows_the_socket_gets_all_pictures_by_history_and_view(
    script: Script,
    gives_id: bool,
) -> None:
    prompt = picture(color=0x336699)
    prompt["4"] = {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}}
    with script.connect() as socket:
        given = {"prompt_id": str(uuid.uuid4())} if gives_id else {}
        prompt_id = script.queue(prompt, **given)["prompt_id"]
        assert not gives_id or prompt_id == given["prompt_id"]
        mine = {"prompt_id": prompt_id}
        while True:
            message = socket.raw.recv()
            if not isinstance(message, str):
                continue
            data = json.loads(message)
            if data["type"] == "executing" and data["data"] == {"node": None, **mine}:
                break

        outputs = script.get(f"/history/{prompt_id}")[prompt_id]["outputs"]

    images = {
        node: [script.view(image) for image in shown["images"]] for node, shown in outputs.items()
    }
    assert _color(images["3"][0]) == (0xCC, 0x99, 0x65)  # 8 bits by truncation
    assert _color(images["4"][0]) == (0x33, 0x66, 0x99)


def test_a_script_that_takes_pictures_off_the_socket_gets_them_while_their_node_runs(
    script: Script,
) -> None:
    size = {"width": 32, "height": 16, "batch_size": 3, "color": 0x102030}
    prompt = {
        "1": {"class_type": "EmptyImage", "inputs": size},
        "sender": {"class_type": "SaveImageWebsocket", "inputs": {"images": ["1", 0]}},
        "5": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    }
    with script.connect() as socket:
        prompt_id = script.queue(prompt)["prompt_id"]
        pictures: dict[str, list[bytes]] = {}
        current = ""
        while True:
            message = socket.raw.recv()
            if isinstance(message, str):
                data = json.loads(message)
                if data["type"] == "executing" and data["data"]["prompt_id"] == prompt_id:
                    if data["data"]["node"] is None:
                        break
                    current = data["data"]["node"]
            else:
                pictures.setdefault(current, []).append(message[8:])

    assert [_color(each) for each in pictures["sender"]] == [(0x10, 0x20, 0x30)] * 3
    assert "sender" not in script.get(f"/history/{prompt_id}")[prompt_id]["outputs"]


def test_the_prompts_of_one_script_run_on_all_workers_at_once(plain: Script) -> None:
    with plain.connect() as socket:
        ids = [plain.queue(slow_picture(1.0, color))["prompt_id"] for color in (1, 2)]
        wait_until(lambda: len(plain.get("/queue")["queue_running"]) == 2)
        assert plain.get("/prompt") == {"exec_info": {"queue_remaining": 2}}
        waiting = set(ids)
        while waiting:
            message = socket.next()
            if isinstance(message, dict) and message["type"] == "execution_success":
                waiting.discard(message["data"]["prompt_id"])


def _color(content: bytes) -> tuple[int, ...]:
    with Image.open(io.BytesIO(content)) as image:
        found = image.convert("RGB").getpixel((0, 0))
    assert isinstance(found, tuple)
    return found
