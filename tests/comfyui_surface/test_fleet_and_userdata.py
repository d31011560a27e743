"""The fleet as one ComfyUI, and what the editor keeps for its user."""

import gzip
import json
import uuid
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from tests.comfyui_surface.parts import Script
from tests.processes import Comfyrail


def test_object_info_has_all_nodes_and_is_sent_once(script: Script) -> None:
    url = f"http://{script.address}{script.prefix}/object_info"
    with urlopen(Request(url, headers={"Accept-Encoding": "gzip"})) as reply:
        tag = reply.headers["ETag"]
        assert reply.headers["Content-Encoding"] == "gzip"
        nodes = json.loads(gzip.decompress(reply.read()))
    assert nodes["EmptyImage"]["input"]["required"]["width"][0] == "INT"
    assert nodes["SaveImage"]["output_node"] is True
    assert nodes == script.get("/object_info")
    again = {"Accept-Encoding": "gzip", "If-None-Match": tag}
    assert script.fetch("/object_info", headers=again)[0] == 304


def test_one_node_type_is_shown_alone(script: Script) -> None:
    assert list(script.get("/object_info/EmptyImage")) == ["EmptyImage"]
    assert script.get("/object_info/Nope") == {}


def test_every_worker_is_a_device(script: Script) -> None:
    stats = script.get("/system_stats")

    assert stats["system"]["comfyui_version"] == "0.7.0"
    assert len(stats["devices"]) == 2
    assert stats["system"]["argv"] == ["comfyrail"]


def test_models_and_the_rest_are_answered_as_comfyui_does(script: Script) -> None:
    assert "checkpoints" in script.get("/models")
    assert script.get("/models/checkpoints") == []
    assert script.fetch("/models/nope")[0] == 404
    assert script.get("/experiment/models/vae") == []
    assert script.fetch("/view_metadata/loras?filename=x")[0] == 404
    assert script.get("/embeddings") == []
    assert script.get("/features")["max_upload_size"] == 100 << 20
    assert script.get("/extensions") == ["/extensions/comfyrail/first_screen.js"]
    for path in ("/workflow_templates", "/i18n", "/global_subgraphs"):
        assert script.get(path) == {}
    assert script.get("/users")["storage"] == "server"


def test_internal_paths_tell_nothing_of_the_machine(plain: Script) -> None:
    assert plain.get("/internal/logs") == ""
    assert plain.get("/internal/logs/raw")["entries"] == []
    assert set(map(tuple, plain.get("/internal/folder_paths").values())) == {()}
    assert plain.fetch("/internal/files/bad")[0] == 400
    assert isinstance(plain.get("/internal/files/input"), list)
    assert plain.fetch("/internal/logs/subscribe", b"{}", method="PATCH")[0] == 200


def test_settings_are_kept_one_by_one_and_together(script: Script) -> None:
    name = f"Comfy.Test.{uuid.uuid4().hex}"

    assert script.post(f"/settings/{name}", {"deep": [1]})[0] == 200
    assert script.post("/settings", {f"{name}.other": True})[0] == 200

    assert script.get(f"/settings/{name}") == {"deep": [1]}
    assert script.get("/settings")[f"{name}.other"] is True
    assert script.get(f"/settings/{name}.unknown") is None
    assert script.fetch("/settings", b"[]")[0] == 400


def test_files_are_kept_listed_moved_and_deleted(script: Script) -> None:
    folder = f"workflows{uuid.uuid4().hex[:6]}"
    assert script.fetch(f"/userdata?dir={folder}")[0] == 404
    path = quote(f"{folder}/deep/mine.json", safe="")

    status, body = script.fetch(f"/userdata/{path}?full_info=true", b'{"a": 1}')
    assert status == 200
    assert json.loads(body)["path"] == f"{folder}/deep/mine.json"
    assert json.loads(body)["size"] == 8
    assert script.get(f"/userdata/{path}") == {"a": 1}
    assert script.fetch(f"/userdata/{path}?overwrite=false", b"{}")[0] == 409
    assert script.get(f"/userdata?dir={folder}") == []
    assert script.get(f"/userdata?dir={folder}&recurse=true") == ["deep/mine.json"]
    split = script.get(f"/userdata?dir={folder}&recurse=true&split=true")
    assert split == [["deep/mine.json", "deep", "mine.json"]]
    [full] = script.get(f"/userdata?dir={folder}&recurse=true&full_info=true")
    assert (full["path"], full["size"]) == ("deep/mine.json", 8)
    [shown] = script.get(f"/v2/userdata?path={folder}")
    assert (shown["name"], shown["type"]) == ("deep", "directory")

    target = quote(f"{folder}/yours.json", safe="")
    assert script.fetch(f"/userdata/{path}/move/{target}?overwrite=false", b"")[0] == 200
    assert script.get(f"/userdata/{target}") == {"a": 1}
    assert script.fetch(f"/userdata/{path}")[0] == 404
    assert script.fetch(f"/userdata/{path}/move/{target}", b"")[0] == 404
    assert script.fetch(f"/userdata/{target}", method="DELETE")[0] == 204
    assert script.fetch(f"/userdata/{target}", method="DELETE")[0] == 404


@pytest.mark.parametrize("path", ["..%2F..%2Fx", "a%2F..%2Fb", "a%00b", "%5Cx", "a%2F%2Fb"])
def test_a_file_that_leads_elsewhere_is_refused(plain: Script, path: str) -> None:
    assert plain.fetch(f"/userdata/{path}")[0] == 400
    assert plain.fetch(f"/userdata/{path}", b"x")[0] == 400


def test_memory_is_freed_by_those_who_run_the_server(plain: Script) -> None:
    assert plain.post("/free", {"unload_models": True, "free_memory": True})[0] == 200
    assert plain.fetch("/free", b"[]")[0] == 400


def test_paths_of_other_surfaces_keep_their_names(house: Comfyrail) -> None:
    assert house.call("GET", "/v1/workflows/executions")[0] == 200
    assert house.call("GET", "/api/v1/queue/metrics")[0] != 500
    assert house.call("GET", "/jobs")[0] == 404
    assert house.call("GET", "/api/nothing")[0] == 404
