"""The official Comfy API v2 with access on: keys, tenants, rates [10.7, 11.1, 11.2]."""

from collections.abc import Iterator
from typing import Any

import pytest
from comfy_sdk import Comfy, MissingAsset, Unauthorized
from comfy_sdk import NotFound as NotFoundThere

from tests.comfy_v2 import shapes
from tests.comfy_v2.pictures import png
from tests.comfy_v2.reading import ASSETS, JOBS
from tests.comfy_v2.test_sdk_python import inverting
from tests.graphs import picture
from tests.processes import Comfyrail, server


class House:
    """A server with access on, and its users' keys."""

    def __init__(self, process: Comfyrail) -> None:
        self.process = process
        self._admin = (process.data / "admin.key").read_text().strip()

    def key_of(self, user: str, tier: str = "enterprise", **fields: Any) -> str:
        admin = {"Authorization": f"Bearer {self._admin}"}
        user_body = {"user_id": user, "tier": tier}
        status, made = self.process.call("POST", "/v1/users", user_body, **admin)
        assert status in {201, 409}, made
        body = {"user_id": user, "name": user, **fields}
        status, made = self.process.call("POST", "/v1/keys", body, **admin)
        assert status == 201, made
        return str(made["key"])

    def call(self, key: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return self.process.call(method, path, body, Authorization=f"Bearer {key}")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with server(tmp_path_factory.mktemp("access") / "data", "--access", "on") as process:
        yield House(process.wait_ready())


@pytest.fixture
def target(house: House, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setenv("COMFY_BASE_URL", house.process.url)
    monkeypatch.delenv("COMFY_API_KEY", raising=False)
    return house


def test_sdk_works_with_a_key_and_not_without(target: House) -> None:
    graph = inverting()
    with Comfy(api_key=target.key_of("ann")) as client:
        wf = client.workflows.from_json(graph)
        wf.set_input("10", "image", client.assets.from_bytes(png(71), filename="photo.png"))
        job = client.run(wf)
        assert job.outputs[0].to_bytes().startswith(b"\x89PNG")
    for wrong in (None, "crk_wrong"):
        with Comfy(api_key=wrong) as client, pytest.raises(Unauthorized):
            client.submit(client.workflows.from_json(picture(72)))


def test_what_belongs_to_others_is_not_there(target: House) -> None:
    with Comfy(api_key=target.key_of("bea")) as mine, Comfy(api_key=target.key_of("cal")) as other:
        asset = mine.assets.from_bytes(png(73), filename="photo.png")
        asset.commit()
        job = mine.run(mine.workflows.from_json(picture(74)))
        for wanted in (str(asset.id), job.outputs[0].id):
            with pytest.raises(NotFoundThere):
                other.assets.delete(wanted)
        again = other.assets.from_bytes(png(73), filename="photo.png")
        again.commit()
        assert (again.created_new, again.id != asset.id) == (True, True)
        graph = inverting()
        graph["10"]["inputs"]["image"] = {"__type": "core/ASSET", "info": {"id": asset.id}}
        with pytest.raises(MissingAsset):
            other.run(other.workflows.from_json(graph))
        assert job.id not in [each.id for each in other.list_jobs()]
    key = target.key_of("cal")
    for path in ("", "/workflow", "/events"):
        status, body = target.call(key, "GET", f"{JOBS}/{job.id}{path}")
        shapes.check_error(status, body, "not_found", 404)
    status, body = target.call(key, "POST", f"{JOBS}/{job.id}/cancel")
    shapes.check_error(status, body, "not_found", 404)
    for path in ("", "/content"):
        status, body = target.call(key, "GET", f"{ASSETS}/{job.outputs[0].id}{path}")
        shapes.check_error(status, body, "not_found", 404)


def test_key_without_the_permission_is_forbidden(house: House) -> None:
    key = house.key_of("dan", permissions=["assets:read"])
    status, body = house.call(key, "POST", JOBS, {"workflow": picture()})
    shapes.check_error(status, body, "forbidden", 403)


def test_outputs_are_no_assets_for_those_who_may_not_see_jobs(target: House) -> None:
    key = target.key_of("eve")
    with Comfy(api_key=key) as client:
        job = client.run(client.workflows.from_json(picture(75)))
    path = f"{ASSETS}/{job.outputs[0].id}"
    assert target.call(key, "GET", path)[0] == 200
    status, body = target.call(target.key_of("eve", permissions=["assets:read"]), "GET", path)
    shapes.check_error(status, body, "not_found", 404)


def test_too_many_submissions_are_to_wait_as_for_a_full_queue(house: House) -> None:
    key = house.key_of("fay", tier="free")
    answers = [house.call(key, "POST", JOBS, {"workflow": picture(76)}) for _ in range(12)]
    status, body = next(answer for answer in answers if answer[0] != 201)
    shapes.check_error(status, body, "queue_full", 429)
    assert body["error"]["retry_after"] > 0
