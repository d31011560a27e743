"""/ws: ComfyUI's messages in ComfyUI's order, and what is kinder here."""

import json
import struct
import uuid
from typing import Any

import pytest
import websocket

from comfyrail.api.comfyui.frames import MOST_BYTES, SPARE_ABOVE, Frame, Outbox
from tests.comfyui_surface.parts import Script, Socket, is_over, kinds
from tests.graphs import picture, slow_picture
from tests.processes import wait_until


def failing() -> dict[str, Any]:
    """An image without alpha has no alpha channel."""
    size = {"width": 8, "height": 8, "batch_size": 1, "color": 1}
    return {
        "1": {"class_type": "EmptyImage", "inputs": size},
        "2": {"class_type": "ImageToMask", "inputs": {"image": ["1", 0], "channel": "alpha"}},
        "3": {"class_type": "MaskToImage", "inputs": {"mask": ["2", 0]}},
        "4": {"class_type": "PreviewImage", "inputs": {"images": ["3", 0]}},
    }


def ended(script: Script, prompt_id: str) -> None:
    wait_until(lambda: script.get(f"/history/{prompt_id}"))


def of(messages: list[Any], kind: str) -> list[dict[str, Any]]:
    return [each["data"] for each in messages if isinstance(each, dict) and each["type"] == kind]


def test_the_messages_of_a_prompt_come_in_comfyuis_order(script: Script) -> None:
    with script.connect() as socket:
        first = socket.next()
        assert first["data"]["sid"] == script.client_id
        prompt_id = script.queue(slow_picture(0.3, uuid.uuid4().int % (1 << 24)))["prompt_id"]
        messages = socket.until_over(prompt_id)

    order = [kind for kind in kinds(messages) if kind not in {"status", "progress_state"}]
    assert order[:2] == ["execution_start", "execution_cached"]
    assert order[-3:] == ["executed", "execution_success", "executing"]
    assert kinds(messages)[-2] == "status"
    nodes = [data["node"] for data in of(messages, "executing")]
    assert nodes == ["1", "2", "9", "3", None]
    [executed] = of(messages, "executed")
    assert executed["node"] == executed["display_node"] == "3"
    assert executed["output"] == script.get(f"/history/{prompt_id}")[prompt_id]["outputs"]["3"]
    states = of(messages, "progress_state")[-1]["nodes"]
    assert {node["state"] for node in states.values()} == {"finished"}
    assert all("timestamp" in data for data in of(messages, "execution_success"))


def test_nodes_that_a_worker_has_in_its_cache_are_told_at_the_beginning(plain: Script) -> None:
    prompt = picture(uuid.uuid4().int % (1 << 24))
    for _ in range(2):  # the cache is shared
        ended(plain, plain.queue(prompt)["prompt_id"])
    with plain.connect() as socket:
        prompt_id = plain.queue(prompt)["prompt_id"]
        messages = socket.until_over(prompt_id)

    [cached] = [each for each in of(messages, "execution_cached") if each["prompt_id"] == prompt_id]
    assert {"1", "2"} <= set(cached["nodes"])
    assert of(messages, "executed")[-1]["node"] == "3"


def test_steps_of_a_node_are_told_with_value_and_maximum(plain: Script) -> None:
    with plain.connect() as socket:
        prompt_id = plain.queue(slow_picture(1.5, uuid.uuid4().int % (1 << 24)))["prompt_id"]
        messages = socket.until_over(prompt_id)

    steps = of(messages, "progress")
    assert steps
    assert all(step["node"] == "9" and 0 < step["value"] <= step["max"] for step in steps)


def test_a_prompt_that_fails_says_which_node_and_why(plain: Script) -> None:
    with plain.connect() as socket:
        prompt_id = plain.queue(failing())["prompt_id"]
        messages = socket.until_over(prompt_id)

    [error] = of(messages, "execution_error")
    assert (error["node_id"], error["node_type"]) == ("2", "ImageToMask")
    assert error["exception_type"] == "ValueError"
    assert "no alpha channel" in error["exception_message"]
    assert error["traceback"] == []
    assert "1" in error["executed"] or kinds(messages).count("execution_cached")
    entry = plain.get(f"/history/{prompt_id}")[prompt_id]
    assert entry["status"]["status_str"] == "error"
    assert entry["status"]["messages"][-1][0] == "execution_error"
    assert plain.get(f"/api/jobs/{prompt_id}")["execution_error"]["node_id"] == "2"


def test_an_interrupted_prompt_says_so(plain: Script) -> None:
    with plain.connect() as socket:
        prompt_id = plain.queue(slow_picture(20, 3))["prompt_id"]
        socket.until("executing")
        plain.post("/interrupt", {"prompt_id": prompt_id})
        messages = socket.until_over(prompt_id)

    [data] = of(messages, "execution_interrupted")
    assert data["prompt_id"] == prompt_id


def test_a_client_that_comes_back_is_told_what_it_has_missed(plain: Script) -> None:
    with plain.connect() as socket:
        running = plain.queue(slow_picture(2.5, 31))["prompt_id"]
        ended = plain.queue(slow_picture(1.0, 32))["prompt_id"]
        socket.until("executing")
    wait_until(lambda: plain.get(f"/history/{ended}"))

    with plain.connect() as socket:
        waiting = {running, ended}
        seen: list[Any] = []
        while waiting:
            seen.append(socket.next())
            waiting -= {each for each in waiting if is_over(seen[-1], each)}

    starts = {data["prompt_id"] for data in of(seen, "execution_start")}
    assert starts == {running, ended}
    # What it was told the end of does not come a third time.
    with plain.connect() as socket:
        assert socket.next()["type"] == "status"
        again = plain.queue(picture(33))["prompt_id"]
        third = socket.until_over(again)
    assert {data["prompt_id"] for data in of(third, "execution_start")} == {again}


def test_a_client_that_connects_after_it_has_submitted_misses_nothing(plain: Script) -> None:
    prompt_id = plain.queue(picture(uuid.uuid4().int % (1 << 24)))["prompt_id"]
    wait_until(lambda: plain.get(f"/history/{prompt_id}"))

    with plain.connect() as socket:
        messages = socket.until_over(prompt_id)

    assert of(messages, "executed")


def test_two_sockets_of_one_client_both_hear_everything(plain: Script) -> None:
    with plain.connect() as first, plain.connect() as second:
        prompt_id = plain.queue(slow_picture(0.3, 41))["prompt_id"]
        heard = [socket.until_over(prompt_id) for socket in (first, second)]
        first.raw.close()
        later = plain.queue(picture(42))["prompt_id"]
        assert of(second.until_over(later), "execution_success")

    assert all(of(each, "execution_success") for each in heard)


def test_the_prompts_of_one_client_are_no_business_of_another(plain: Script) -> None:
    other = str(uuid.uuid4())
    with plain.connect(other) as stranger, plain.connect() as socket:
        socket.until_over(plain.queue(picture(51))["prompt_id"])
        mine = plain.queue(picture(52), client_id=other)["prompt_id"]
        heard = stranger.until_over(mine)

    assert {data["prompt_id"] for data in of(heard, "execution_start")} == {mine}


def test_a_client_without_an_id_is_given_one(plain: Script) -> None:
    with plain.connect("") as socket:
        sid = socket.next()["data"]["sid"]
        prompt_id = plain.queue(picture(61), client_id=sid)["prompt_id"]
        assert socket.until_over(prompt_id)


def test_features_are_agreed_on_and_pictures_come_in_the_form_asked_for(plain: Script) -> None:
    prompt = {
        "1": {
            "class_type": "EmptyImage",
            "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 255},
        },
        "2": {"class_type": "SaveImageWebsocket", "inputs": {"images": ["1", 0]}},
    }
    flags = {"type": "feature_flags", "data": {"supports_preview_metadata": True}}
    with plain.connect() as socket:
        socket.raw.send(json.dumps(flags))
        [*_, reply] = socket.until("feature_flags")
        assert reply["data"]["supports_preview_metadata"] is True
        prompt_id = plain.queue(prompt)["prompt_id"]
        [content] = [each for each in socket.until_over(prompt_id) if isinstance(each, bytes)]

    event, length = struct.unpack(">II", content[:8])
    described = json.loads(content[8 : 8 + length])
    assert event == 4
    assert (described["node_id"], described["prompt_id"]) == ("2", prompt_id)
    assert described["image_type"] == "image/png"
    assert content[8 + length :].startswith(b"\x89PNG")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"type": 5}', "x" * 100_000, "[" * 10_000])
def test_nonsense_on_the_socket_does_no_harm(plain: Script, text: str) -> None:
    with plain.connect() as socket:
        socket.raw.send(text)
        prompt_id = plain.queue(picture(71))["prompt_id"]
        assert socket.until_over(prompt_id)


def test_a_client_id_that_is_too_long_is_refused(plain: Script) -> None:
    with pytest.raises(websocket.WebSocketBadStatusException, match="400"):
        plain.connect("x" * 300)


def test_status_tells_of_jobs_of_other_surfaces_too(two_workers: Any, plain: Script) -> None:
    with plain.connect() as socket:
        assert socket.next()["data"]["status"]["exec_info"]["queue_remaining"] == 0
        two_workers.wait_for(two_workers.submit(slow_picture(0.6, 81)))
        counts = [_count(socket), _count(socket)]

    assert counts == [1, 0]


def _count(socket: Socket) -> int:
    found = socket.until("status")[-1]["data"]["status"]["exec_info"]["queue_remaining"]
    assert isinstance(found, int)
    return found


async def test_a_slow_reader_loses_pictures_first_and_then_its_place() -> None:
    outbox = Outbox()
    outbox.put(Frame("first"))
    outbox.put(Frame(b"p" * (SPARE_ABOVE + 1), is_spare=True))
    outbox.put(Frame("second"))
    outbox.put(Frame(b"q", is_spare=True))

    taken = [await outbox.take() for _ in range(3)]

    assert [frame.content for frame in taken if frame] == ["first", "second", b"q"]
    assert not outbox.is_broken
    outbox.put(Frame(b"x" * (MOST_BYTES + 1)))
    assert [outbox.is_broken, await outbox.take()] == [True, None]


def test_a_prompt_that_is_taken_out_of_the_queue_is_not_said_to_be_over(plain: Script) -> None:
    """ComfyUI says nothing of it but how many are left."""
    for color in (1, 2):
        plain.queue(slow_picture(8, color), client_id="others")
    wait_until(lambda: len(plain.get("/queue")["queue_running"]) == 2)
    with plain.connect() as socket:
        taken_out = plain.queue(picture(721))["prompt_id"]
        plain.post("/queue", {"delete": [taken_out]})
        plain.post("/interrupt", {})
        kept = plain.queue(picture(722))["prompt_id"]

        messages = socket.until_over(kept)

    assert not [each for each in messages if is_about(each, taken_out)]


def is_about(message: Any, prompt_id: str) -> bool:
    return isinstance(message, dict) and message["data"].get("prompt_id") == prompt_id
