"""Two users of one server: to each it is a ComfyUI of its own."""

from collections.abc import Iterator

import pytest
import websocket

from comfyrail.api.comfyui.editor_files import editor_folder
from tests.comfyui_surface.parts import Script, is_over
from tests.comfyui_surface.test_files import png
from tests.graphs import picture
from tests.processes import Comfyrail, server, wait_until


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    with server(tmp_path_factory.mktemp("tenants") / "data", "--access", "on") as process:
        yield process.wait_ready()


def client(house: Comfyrail, user: str) -> Script:
    admin = {"Authorization": f"Bearer {(house.data / 'admin.key').read_text().strip()}"}
    house.call("POST", "/v1/users", {"user_id": user, "tier": "enterprise"}, **admin)
    status, made = house.call("POST", "/v1/keys", {"user_id": user, "name": "k"}, **admin)
    assert status == 201, made
    return Script(house.url, key=made["key"])


def test_one_user_sees_nothing_of_another(guarded: Comfyrail) -> None:
    alice, bob = client(guarded, "alice"), client(guarded, "bob")
    bob.client_id = alice.client_id
    alice.upload(png(), "face.png")
    alice.post("/settings", {"alices": 1})
    alice.fetch("/userdata/alice.json", b"{}")
    with bob.connect() as overheard, alice.connect() as socket:
        prompt_id = alice.queue(picture(1), prompt_id="the-same-id")["prompt_id"]
        socket.until_over(prompt_id)
        # The same id is free for another tenant, and names another job there.
        mine = bob.queue(picture(2), prompt_id="the-same-id")["prompt_id"]
        heard = overheard.until_over(mine)
    [file] = alice.get(f"/history/{prompt_id}")[prompt_id]["outputs"]["3"]["images"]
    [own] = bob.get(f"/history/{mine}")[mine]["outputs"]["3"]["images"]

    assert file["subfolder"] != own["subfolder"]
    assert not any(file["subfolder"] in str(message) for message in heard)
    assert sum(is_over(message, mine) for message in heard) == 1
    assert alice.view(file)
    for query in (file, {"filename": "face.png", "type": "input"}):
        status, _ = bob.fetch("/view?" + "&".join(f"{k}={v}" for k, v in query.items()))
        assert status == 404
    assert list(bob.get("/history")) == [mine]
    assert bob.get(f"/history/{file['subfolder']}") == {}
    assert bob.get("/settings").get("alices") is None
    assert bob.fetch("/userdata/alice.json")[0] == 404
    offered = bob.get("/object_info/LoadImage")["LoadImage"]["input"]["required"]["image"][0]
    assert offered == []
    for path in ("/interrupt", "/queue", "/history"):
        bob.post(path, {"prompt_id": file["subfolder"], "delete": [file["subfolder"]]})
    assert prompt_id in wait_until(lambda: alice.get("/history"))


def test_without_credentials_there_is_nothing(guarded: Comfyrail) -> None:
    nobody = Script(guarded.url)

    for path in ("/queue", "/history", "/object_info", "/view?filename=x", "/api/jobs"):
        assert nobody.fetch(path)[0] == 401
    assert nobody.post("/prompt", {"prompt": picture(3)})[0] == 401
    with pytest.raises(websocket.WebSocketBadStatusException, match="401"):
        nobody.connect()
    if editor_folder() is not None:
        _, content, _ = guarded.fetch("GET", "/editor")
        assert b"<title>ComfyUI" not in content
        assert b"/v1/session" in content or b"login" in content.lower()


def test_others_than_those_who_run_the_server_free_no_memory(guarded: Comfyrail) -> None:
    assert client(guarded, "carol").post("/free", {"free_memory": True})[0] == 200
