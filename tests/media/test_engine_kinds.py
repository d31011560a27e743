"""Outputs of every kind survive a run on the engine, and are there to look at [8.1] [8.2]."""

import os
from pathlib import Path
from typing import Any

import pytest

from comfyrail.engine.containers import UnreadableContainer
from comfyrail.engine.film_files import decode_film
from tests.media import makers
from tests.media.kinds import check_all_kinds, look_at_all
from tests.processes import Comfyrail


def test_outputs_of_every_kind_survive_an_engine_run(running_server: Comfyrail) -> None:
    check_all_kinds(running_server)


def upload(server: Comfyrail, name: str, content: bytes) -> str:
    path = f"/v1/uploads?name={name}"
    status, body, _ = server.fetch("POST", path, content, Content_Type="application/octet-stream")
    assert status == 201, body
    reply = server.call("GET", "/v1/assets?limit=1")[1]
    return str(reply["assets"][0]["input_name"])


def node(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}


def test_film_and_sound_are_read_and_written_again(running_server: Comfyrail) -> None:
    film = upload(running_server, "a.mp4", makers.film(black=0, shown=10, size=(321, 241)))
    sound = upload(running_server, "a.mp3", makers.sound("mp3", 2.0))
    graph = {
        "1": node("LoadVideo", file=film),
        "2": node("GetVideoComponents", video=["1", 0]),
        "3": node("LoadAudio", audio=sound),
        "4": node("CreateVideo", images=["2", 0], fps=["2", 2], audio=["3", 0]),
        "5": node("SaveVideo", video=["4", 0], filename_prefix="v", format="mp4", codec="h264"),
        "6": node("SaveAudio", audio=["2", 1], filename_prefix="a"),
        "7": node("PreviewAudio", audio=["3", 0]),
        "8": node(
            "SaveWEBM", images=["2", 0], filename_prefix="w", codec="av1", fps=["2", 2], crf=50
        ),
    }
    job_id = running_server.submit(graph)
    running_server.wait_for(job_id, "completed", limit=60)
    outputs = look_at_all(running_server, job_id)
    made = outputs["5"]["media"]
    assert (made["width"], made["height"], made["frames"], made["fps"]) == (320, 240, 10, 10.0)
    assert 0.9 < made["duration"] < 1.1
    assert 1.3 < outputs["6"]["media"]["duration"] < 1.7
    assert outputs["7"]["temporary"]
    assert (outputs["8"]["content_type"], outputs["8"]["media"]["video_codec"]) == (
        "video/webm",
        "av1",
    )


def test_list_of_other_files_is_no_film_for_the_engine(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    os.mkfifo(secret)  # whoever opened it would wait for ever
    content = f"#EXTM3U\n#EXTINF:1,\nfile://{secret}\n#EXT-X-ENDLIST\n"
    path = makers.written(tmp_path, "a.mp4", content.encode())
    with pytest.raises(UnreadableContainer, match="text/plain"):
        decode_film(path, lambda: None)
