"""What is another tenant's does not exist: every route, walked by a stranger."""

import itertools
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from comfyrail.access.permissions import OF_USERS
from comfyrail.api.operations import Operation
from comfyrail.api.surfaces import OPERATIONS
from tests.graphs import picture, slow_picture
from tests.processes import Comfyrail, server, wait_until

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)
SOCKET = 101
ENDLESS = "text/event-stream"
_strangers = itertools.count(1)
JOB_PARAMETERS = ("execution_id", "job_id", "task_id", "workflow_id", "prompt_id")
SHARED_PARAMETERS = {
    # Of the fleet, of pages, or a word of the request itself: nobody's in particular.
    *("worker_id", "endpoint_id", "folder", "node_class", "kind", "subgraph_id"),
    *("token", "filename", "variant"),  # a link is for whoever has it
    *("user_id", "block_id"),  # for those who run the server: a stranger may not ask at all
}


@dataclass
class Owned:
    """What a tenant has made, by the names that routes have for it."""

    ids: dict[str, str]

    @property
    def secrets(self) -> set[str]:
        """What must not be seen by others."""
        return {value for name, value in self.ids.items() if name != "content_hash"}

    def unknown(self) -> "Owned":
        """The same forms, of things that never were."""
        made: dict[str, str] = {}
        for name, value in self.ids.items():
            try:
                uuid.UUID(value)
                made[name] = str(uuid.uuid4())
            except ValueError:
                made[name] = _another(value)
        job = made["execution_id"]
        return Owned({**made, **dict.fromkeys(JOB_PARAMETERS, job)})


def _another(value: str) -> str:
    """Of the same length and letters."""
    head, tail = value[:-4], value[-4:]
    return head + tail.translate(str.maketrans("abcdef0123456789", "bcdefa1234567890"))


class Caller:
    def __init__(self, house: Comfyrail, key: str) -> None:
        self.house = house
        self.key = key

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        return self.house.call(method, path, body, Authorization=f"Bearer {self.key}", **headers)

    def fetch(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        status, content, _ = self.house.fetch(
            method, path, body, Authorization=f"Bearer {self.key}"
        )
        return status, content.decode("utf-8", "replace")

    def must(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        status, reply = self.call(method, path, body, **headers)
        assert status < 300, (method, path, status, reply)
        return reply


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    folder = tmp_path_factory.mktemp("isolation") / "data"
    with server(folder, "--access", "on", COMFYRAIL_WEBHOOK_NETWORKS="127.0.0.0/8") as process:
        yield process.wait_ready()


def new_caller(house: Comfyrail, user_id: str) -> Caller:
    admin = Caller(house, (house.data / "admin.key").read_text().strip())
    admin.must("POST", "/v1/users", {"user_id": user_id, "tier": "enterprise"})
    made = admin.must("POST", "/v1/keys", {"user_id": user_id, "name": "all"})
    return Caller(house, made["key"])


@pytest.fixture(scope="module")
def alice(house: Comfyrail) -> Caller:
    return new_caller(house, "alice")


@pytest.fixture
def mallory(house: Comfyrail) -> Caller:
    """A new stranger for every test: what one has made under alice's names is not another's."""
    return new_caller(house, f"mallory-{next(_strangers)}")


@pytest.fixture(scope="module")
def owned(alice: Caller) -> Owned:
    """One of everything, made by alice."""
    reply = alice.must("POST", "/v1/workflows/runsync", {"workflow": picture(71)})
    assert reply["status"] == "completed", reply
    job = reply["execution_id"]
    output = reply["result"]["outputs"][0]["output_id"]
    batch = alice.must("POST", "/v1/batches", {"workflow": picture(72), "items": [{}, {}]})
    alice.must("PUT", "/v1/workflows/alices-workflow", {"workflow": picture(74)})
    asset = alice.must("POST", "/v1/uploads?name=alices-photo.png", PNG, Content_Type="image/png")
    asset = asset["assets"][0] if "assets" in asset else asset
    session = alice.must("POST", "/v1/uploads/sessions", {"name": "alices-film.png", "size": 99})
    key = alice.must("POST", "/v1/keys", {"name": "alices-second"})
    alice.must("POST", "/userdata/alices-notes.json", {"secret": "alices-words"})
    alice.must("POST", "/settings/alices.setting", "alices-value")
    hook = alice.must("POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/alices-hook"})
    webhook = hook["webhook"]["webhook_id"]
    told = alice.must("POST", f"/v1/webhooks/{webhook}/test")
    ids = {
        "webhook_id": webhook,
        "delivery_id": told["delivery_id"],
        "output_id": output,
        "batch_id": batch["batch_id"],
        "name": "alices-workflow",
        "asset_id": asset["asset_id"],
        "upload_id": session["upload_id"],
        "key_id": key["key_id"],
        "content_hash": f"blake3:{asset['blake3'].removeprefix('blake3:')}",
        "file:path": "alices-notes.json",
        "setting:path": "alices.setting",
    }
    return Owned({**ids, **dict.fromkeys(JOB_PARAMETERS, job)})


def parameters(path: str) -> list[str]:
    return re.findall(r"{([^}]+)}", path)


def filled(path: str, things: Owned) -> str:
    return re.sub(r"{([^}]+)}", lambda match: things.ids.get(match[1], "x"), path)


def owned_routes() -> list[tuple[str, str, Operation]]:
    found = [
        (method, path, operation)
        for (method, path), operation in OPERATIONS.items()
        if set(parameters(path)) - SHARED_PARAMETERS and operation.permission in OF_USERS
    ]
    assert len(found) > 50
    return found


def told_apart(text: str, things: Owned) -> str:
    """A reply without what differs between any two requests, and with ids by their names."""
    for name, value in sorted(things.ids.items(), key=lambda item: -len(item[1])):
        bare = value.removeprefix("blake3:")
        text = text.replace(bare, f"<{name in JOB_PARAMETERS or name}>")
    text = re.sub(r'"(timestamp|\w+_at|request_id)":\s*"[^"]*"', "", text)
    return re.sub(r'"(predicted_wait|expires_at|queue_position)":\s*[^,}]*', "", text)


NODE_TYPES = "/v1/nodes/{name}"
"""Names of node types, which are everybody's."""
OPEN_FILES = ("/editor", "/docs")


@pytest.mark.parametrize(
    ("method", "path", "operation"),
    [
        each
        for each in owned_routes()
        if each[2].status != SOCKET and each[1] != NODE_TYPES and not each[1].startswith(OPEN_FILES)
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_thing_of_another_tenant_is_answered_like_one_that_never_was(
    mallory: Caller, owned: Owned, method: str, path: str, operation: Operation
) -> None:
    unknown = owned.unknown()
    body = None
    if method in {"post", "put", "patch"}:
        body = operation.example if operation.example is not None else {}
    replies = []
    for things in (owned, unknown):
        status, text = mallory.fetch(method.upper(), filled(path, things), body)
        assert status < 500, text
        replies.append((status, told_apart(text, things)))
    assert replies[0] == replies[1]
    assert "alices-words" not in replies[0][1]


@pytest.mark.parametrize(
    "path",
    [
        path
        for (method, path), operation in OPERATIONS.items()
        if method == "get"
        and operation.status != SOCKET
        and operation.reply != ENDLESS
        and not set(parameters(path)) - {"endpoint_id", "kind", "folder"}
        and not path.startswith(OPEN_FILES)
    ],
)
def test_lists_show_nothing_of_another_tenant(mallory: Caller, owned: Owned, path: str) -> None:
    status, text = mallory.fetch("GET", filled(path, Owned({"kind": "output", "folder": "loras"})))
    assert status < 500, text
    found = {secret for secret in owned.secrets if secret in text}
    assert not found
    assert "alices-" not in text


@pytest.mark.parametrize("query", ["?after=0", "?after=0&limit=500", "?after=0&types=execution.*"])
def test_events_of_all_jobs_are_those_of_the_caller(
    alice: Caller, mallory: Caller, owned: Owned, query: str
) -> None:
    assert owned.ids["execution_id"] in alice.fetch("GET", f"/v1/events{query}")[1]
    status, text = mallory.fetch("GET", f"/v1/events{query}")
    assert status == 200
    assert not {secret for secret in owned.secrets if secret in text}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/view?filename={filename}&subfolder={job}&type=output", None),
        ("GET", "/view?filename={filename}&type=output", None),
        ("GET", "/view?filename=alices-photo.png&type=input", None),
        ("GET", "/workflow/state?workflow_id={job}", None),
        ("DELETE", "/workflow/state?workflow_id={job}", None),
        ("POST", "/queue", {"delete": ["{job}"]}),
        ("POST", "/interrupt", {"prompt_id": "{job}"}),
        ("POST", "/history", {"delete": ["{job}"]}),
        ("POST", "/workflow/state", {"workflow_id": "{job}", "notes": {"a": 1}}),
        ("POST", "/v1/uploads", {"output": {"execution_id": "{job}", "output_id": "{output}"}}),
        ("POST", "/api/v2/assets/from-hash", {"hash": "{hash}", "file_path": "x.png"}),
    ],
)
def test_naming_things_of_another_tenant_elsewhere_gives_nothing(
    alice: Caller, mallory: Caller, owned: Owned, method: str, path: str, body: Any
) -> None:
    job = owned.ids["execution_id"]
    outputs = alice.must("GET", f"/v1/workflows/execution/{job}/outputs")["outputs"]
    replies = []
    for things in (owned, owned.unknown()):
        words = {
            "{filename}": outputs[0]["filename"] if things is owned else "no-such-name_.png",
            "{job}": things.ids["execution_id"],
            "{output}": things.ids["output_id"],
            "{hash}": things.ids["content_hash"],
        }
        asked, given = path, json.dumps(body)
        for word, value in words.items():
            asked, given = asked.replace(word, value), given.replace(word, value)
        sent = None if body is None else json.loads(given)
        status, text = mallory.fetch(method, asked, sent)
        text = text.replace(outputs[0]["filename"], "<f>").replace("no-such-name_.png", "<f>")
        replies.append((status, told_apart(text, things)))
    if "alices-photo" not in path:
        assert replies[0] == replies[1]
    assert replies[0][0] in {200, 404, 422} if method == "POST" else replies[0][0] == 404, replies
    assert alice.call("GET", f"/v1/workflows/execution/{job}")[1]["status"] == "completed"
    assert job in alice.must("GET", f"/history/{job}")


def test_graph_cannot_read_a_file_of_another_tenant(
    alice: Caller, mallory: Caller, owned: Owned
) -> None:
    mine = alice.must("GET", f"/v1/assets/{owned.ids['asset_id']}")
    names = (
        "alices-photo.png",
        f"uploads/{mine['sha256'][:32]}/alices-photo.png",
        f"{owned.ids['execution_id']}/ComfyUI_00001_.png [output]",
        {"__type": "core/ASSET", "info": {"id": owned.ids["asset_id"]}},
    )
    for name in names:
        graph = {
            "1": {"class_type": "LoadImage", "inputs": {"image": name}},
            "2": {
                "class_type": "SaveImage",
                "inputs": {"images": ["1", 0], "filename_prefix": "read"},
            },
        }
        status, reply = mallory.call("POST", "/v1/workflows/execute", {"workflow": graph})
        assert status == 422, (name, reply)
        status, reply = alice.call("POST", "/v1/workflows/execute", {"workflow": graph})
        if name != names[2]:  # whose file name depends on the worker
            assert status == 202, (name, reply)


@pytest.mark.parametrize(
    "path",
    [path for (_, path), operation in OPERATIONS.items() if operation.status == SOCKET],
)
async def test_sockets_tell_a_stranger_nothing(
    house: Comfyrail, mallory: Caller, owned: Owned, path: str
) -> None:
    url = house.url + filled(path, owned)
    headers = {"Authorization": f"Bearer {mallory.key}"}
    async with aiohttp.ClientSession() as session:
        if not parameters(path):
            async with session.ws_connect(url, headers=headers) as socket:
                first = await socket.receive_str(timeout=10)
                assert not [secret for secret in owned.secrets if secret in first]
            return
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(url, headers=headers)
        assert refused.value.status == 404
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(url)
        assert refused.value.status == 401


@pytest.mark.parametrize(
    ("method", "path"),
    [
        (method, path)
        for (method, path), operation in OPERATIONS.items()
        if operation.permission is not None and operation.status != SOCKET
    ],
)
def test_nobody_gets_in_without_credentials(
    house: Comfyrail, owned: Owned, method: str, path: str
) -> None:
    body: Any = {} if method in {"post", "put", "patch"} else None
    status, _, headers = house.fetch(method.upper(), filled(path, owned), body)
    assert status == 401
    assert headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        (method, path)
        for (method, path), operation in OPERATIONS.items()
        if operation.permission is not None and operation.permission not in OF_USERS
    ],
)
def test_users_may_not_do_what_is_for_those_who_run_the_server(
    mallory: Caller, owned: Owned, method: str, path: str
) -> None:
    body: Any = {} if method in {"post", "put", "patch"} else None
    status, text = mallory.fetch(method.upper(), filled(path, owned), body)
    assert status == 403, text


def test_what_a_worker_remembers_of_one_tenant_is_not_given_to_another(
    alice: Caller, mallory: Caller
) -> None:
    def picture_of(caller: Caller, note: str) -> tuple[str, list[bool]]:
        graph = {
            "1": {
                "class_type": "EmptyImage",
                "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": 0x123456},
                "_meta": {"title": note},
            },
            "2": {
                "class_type": "SaveImage",
                "inputs": {"images": ["1", 0], "filename_prefix": "same"},
            },
        }
        extra = {"extra_pnginfo": {"workflow": {"note": note}}}
        made = caller.must("POST", "/prompt", {"prompt": graph, "extra_data": extra})
        job = made["prompt_id"]
        wait_until(lambda: caller.must("GET", f"/history/{job}"))
        (output,) = caller.must("GET", f"/v1/workflows/execution/{job}/outputs")["outputs"]
        nodes = caller.must("GET", f"/v1/workflows/execution/{job}/nodes")["nodes"]
        return caller.fetch("GET", output["url"])[1], [node["cached"] for node in nodes]

    text, _ = picture_of(alice, "alices-note")
    assert "alices-note" in text
    text, cached = picture_of(mallory, "mallorys-note")
    assert "mallorys-note" in text
    assert "alices-note" not in text
    assert cached == [False, False]
    _, cached = picture_of(alice, "alices-other-note")
    assert any(cached), "her own are still remembered"


def test_users_do_not_see_whose_jobs_a_worker_has_nor_its_faults(
    house: Comfyrail, alice: Caller, mallory: Caller
) -> None:
    job = alice.must("POST", "/v1/workflows/execute", {"workflow": slow_picture(20, 75)})
    job_id = job["execution_id"]
    admin = Caller(house, (house.data / "admin.key").read_text().strip())

    def seen(caller: Caller, path: str) -> bool:
        return job_id in caller.fetch("GET", path)[1]

    wait_until(lambda: seen(admin, "/v1/workers"))
    for path in ("/v1/workers", "/v1/workers/local-1", "/api/v1/workers", "/system_stats"):
        assert not seen(mallory, path)
    (worker,) = mallory.must("GET", "/v1/workers")["workers"]
    assert (worker["endpoint"], worker["current_jobs"], worker["status"]) == (None, [], "busy")
    alice.must("POST", f"/v1/workflows/execution/{job_id}/cancel")


def test_owner_still_has_everything(alice: Caller, owned: Owned) -> None:
    ids = owned.ids
    for path in (
        f"/v1/workflows/execution/{ids['execution_id']}",
        f"/v1/workflows/execution/{ids['execution_id']}/outputs/{ids['output_id']}",
        f"/v1/batches/{ids['batch_id']}",
        f"/v1/workflows/{ids['name']}",
        f"/v1/assets/{ids['asset_id']}/content",
        f"/v1/uploads/sessions/{ids['upload_id']}",
        "/userdata/alices-notes.json",
    ):
        status, text = alice.fetch("GET", path)
        assert status == 200, (path, text)
