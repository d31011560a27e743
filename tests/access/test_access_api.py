"""Users, keys, usage, the audit log and blocks over HTTP, at a server with access on [11]."""

import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.graphs import picture
from tests.processes import Comfyrail, server

EXECUTE = "/v1/workflows/execute"


class Site:
    """A server with access on, and the key of its first administrator."""

    def __init__(self, process: Comfyrail) -> None:
        self.process = process
        self.admin_key = (process.data / "admin.key").read_text().strip()
        self._names = 0

    def ask(self, key: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return self.process.call(method, path, body, Authorization=f"Bearer {key}")

    def admin(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return self.ask(self.admin_key, method, path, body)

    def user(self, **fields: Any) -> tuple[str, str]:
        """A new user's id and key."""
        self._names += 1
        user_id = f"user-{self._names}"
        assert self.admin("POST", "/v1/users", {"user_id": user_id, **fields})[0] == 201
        status, made = self.admin("POST", "/v1/keys", {"name": "test", "user_id": user_id})
        assert status == 201, made
        return user_id, made["key"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with server(tmp_path_factory.mktemp("access") / "data", COMFYRAIL_ACCESS="on") as process:
        yield Site(process.wait_ready())


def code_of(reply: tuple[int, Any]) -> tuple[int, str]:
    return reply[0], reply[1]["error"]["code"]


def test_the_first_key_is_for_the_owner_of_the_folder_alone(site: Site) -> None:
    path = site.process.data / "admin.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert str(path) in site.process.log
    assert site.admin_key not in site.process.log
    status, caller = site.admin("GET", "/v1/whoami")
    assert (status, caller["user_id"], caller["tenant"]) == (200, "admin", "local")
    assert "access:admin" in caller["permissions"]


def test_whoami_says_what_the_caller_is_may_and_has_used(site: Site) -> None:
    user_id, key = site.user(tier="pro", quotas={"jobs": 3})
    status, caller = site.ask(key, "GET", "/v1/whoami")
    assert status == 200
    assert (caller["user_id"], caller["tier"]) == (user_id, "pro")
    assert caller["limits"]["submissions_per_minute"] == 120
    assert caller["usage"]["quotas"] == {"jobs": 3, "gpu_seconds": None, "storage_bytes": None}
    assert caller["usage"]["jobs"] == 0
    assert site.process.call("GET", "/v1/whoami")[0] == 401


def test_a_user_without_the_permission_administers_nothing(site: Site) -> None:
    _, key = site.user()
    for method, path, body in (
        ("GET", "/v1/users", None),
        ("POST", "/v1/users", {"user_id": "x"}),
        ("PATCH", "/v1/users/admin", {"disabled": True}),
        ("DELETE", "/v1/users/admin", None),
        ("GET", "/v1/audit", None),
        ("GET", "/v1/blocks", None),
        ("POST", "/v1/blocks", {"network": "192.0.2.1"}),
        ("GET", "/v1/keys?user_id=admin", None),
        ("POST", "/v1/keys", {"name": "x", "user_id": "admin"}),
        ("POST", "/v1/keys", {"name": "x", "permissions": ["*"]}),
    ):
        assert code_of(site.ask(key, method, path, body)) == (403, "PERMISSION_MISSING"), path


def test_users_make_list_and_revoke_their_own_keys(site: Site) -> None:
    user_id, key = site.user()
    _, other_key = site.user()
    status, made = site.ask(key, "POST", "/v1/keys", {"name": "mine", "permissions": ["jobs:read"]})
    assert status == 201
    assert site.ask(made["key"], "GET", "/v1/whoami")[1]["permissions"] == ["jobs:read"]
    listed = site.ask(key, "GET", "/v1/keys")[1]["keys"]
    assert {each["user_id"] for each in listed} == {user_id}
    assert made["key_id"] in {each["key_id"] for each in listed}
    assert "key" not in listed[0]
    assert code_of(site.ask(other_key, "DELETE", f"/v1/keys/{made['key_id']}")) == (
        (404, "KEY_NOT_FOUND")
    )
    assert site.ask(key, "DELETE", f"/v1/keys/{made['key_id']}")[0] == 204
    assert code_of(site.ask(made["key"], "GET", "/v1/usage")) == (401, "KEY_REVOKED")


def test_a_new_key_is_kept_nowhere_not_even_for_a_repeated_request(site: Site) -> None:
    user_id, _ = site.user()
    body = {"name": "twice", "user_id": user_id}
    headers = {"Authorization": f"Bearer {site.admin_key}", "Idempotency-Key": f"once-{user_id}"}
    replies = [site.process.call("POST", "/v1/keys", body, **headers) for _ in range(2)]
    assert [status for status, _ in replies] == [201, 201]
    first, second = (reply["key"] for _, reply in replies)
    assert first != second
    secret = first.split("_", 2)[2].encode()
    files = [each for each in site.process.data.rglob("*") if each.is_file()]
    assert not any(secret in each.read_bytes() for each in files)
    assert secret.decode() not in site.process.log
    shown = str(site.admin("GET", f"/v1/keys?user_id={user_id}")) + str(
        site.admin("GET", "/v1/audit")
    )
    assert secret.decode() not in shown


def test_a_disabled_user_gets_no_further(site: Site) -> None:
    user_id, key = site.user()
    assert site.ask(key, "GET", "/v1/usage")[0] == 200
    assert site.admin("PATCH", f"/v1/users/{user_id}", {"disabled": True})[0] == 200
    assert code_of(site.ask(key, "GET", "/v1/usage")) == (401, "USER_DISABLED")
    assert site.admin("DELETE", f"/v1/users/{user_id}")[0] == 204
    assert code_of(site.ask(key, "GET", "/v1/usage")) == (401, "KEY_REVOKED")
    assert code_of(site.admin("GET", f"/v1/users/{user_id}")) == (404, "USER_NOT_FOUND")


def test_what_changes_of_a_user_changes_and_the_rest_stays(site: Site) -> None:
    user_id, _ = site.user(quotas={"jobs": 5, "gpu_seconds": 60.5})
    path = f"/v1/users/{user_id}"
    changed = site.admin("PATCH", path, {"quotas": {"jobs": None}, "tier": "free"})[1]
    assert changed["quotas"] == {"jobs": None, "gpu_seconds": 60.5, "storage_bytes": None}
    assert changed["tier"] == "free"
    assert code_of(site.admin("PATCH", path, {"tier": "gold"})) == (400, "INVALID_USER")
    assert code_of(site.admin("PATCH", path, {"level": 1})) == (400, "MALFORMED_REQUEST")
    assert code_of(site.admin("POST", "/v1/users", {"user_id": user_id})) == (409, "USER_EXISTS")


def test_parallel_submissions_get_as_many_jobs_as_the_quota_has(site: Site) -> None:
    _, key = site.user(tier="enterprise", quotas={"jobs": 10})
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    body = {"workflow": picture(), "not_before": later}
    with ThreadPoolExecutor(16) as threads:
        replies = list(threads.map(lambda _: site.ask(key, "POST", EXECUTE, body), range(64)))
    accepted = [reply for status, reply in replies if status == 202]
    assert len(accepted) == 10
    refused = [reply for reply in replies if reply[0] != 202]
    assert {code_of(reply) for reply in refused} == {(429, "QUOTA_EXCEEDED")}
    assert refused[0][1]["error"]["retry_after"] > 0
    assert site.ask(key, "GET", "/v1/usage")[1]["jobs"] == 10
    batch = {"workflow": picture(), "grid": {"1.color": [1, 2]}}
    assert code_of(site.ask(key, "POST", "/v1/batches", batch)) == (429, "QUOTA_EXCEEDED")
    for reply in accepted:
        site.ask(key, "POST", f"/v1/workflows/execution/{reply['execution_id']}/cancel")


def test_acts_of_administrators_are_in_the_audit_log(site: Site) -> None:
    user_id, _ = site.user()
    site.admin("POST", "/v1/queue/pause", {"reason": "test"})
    site.admin("POST", "/v1/queue/resume")
    worker = site.admin("GET", "/v1/workers")[1]["workers"][0]["worker_id"]
    site.admin("POST", f"/v1/workers/{worker}/cordon")
    site.admin("POST", f"/v1/workers/{worker}/resume")
    entries = site.admin("GET", "/v1/audit?actor=admin&limit=6")[1]["entries"]
    assert [(each["act"], each["target"]) for each in entries][:5] == [
        ("worker.resume", worker),
        ("worker.cordon", worker),
        ("queue.resume", "queue"),
        ("queue.pause", "queue"),
        ("key.make", entries[4]["target"]),
    ]
    assert entries[4]["details"]["user_id"] == user_id
    assert entries[0]["key_id"] == site.admin_key.split("_")[1]
    assert (entries[0]["address"], len(entries[0]["request_id"])) == ("127.0.0.1", 32)
    page = site.admin("GET", "/v1/audit?limit=1")[1]
    following = site.admin("GET", f"/v1/audit?limit=1&cursor={page['next_cursor']}")[1]
    assert following["entries"][0]["act"] == "worker.cordon"
    pauses = site.admin("GET", "/v1/audit?act=queue.pause")[1]["entries"]
    assert {each["act"] for each in pauses} == {"queue.pause"}
    assert site.admin("GET", "/v1/audit?actor=nobody")[1]["entries"] == []


def test_addresses_are_blocked_listed_and_let_in_again(site: Site) -> None:
    status, block = site.admin("POST", "/v1/blocks", {"network": "203.0.113.9/24", "reason": "x"})
    assert (status, block["network"], block["created_by"]) == (201, "203.0.113.0/24", "admin")
    again = site.admin("POST", "/v1/blocks", {"network": "203.0.113.0/24", "reason": "y"})[1]
    assert (again["block_id"], again["reason"]) == (block["block_id"], "y")
    assert [each["reason"] for each in site.admin("GET", "/v1/blocks")[1]["blocks"]] == ["y"]
    for wrong in ("", "nowhere", "0.0.0.0/0", "10.0.0.0/7", "::/8", "1.2.3.4/33"):
        assert code_of(site.admin("POST", "/v1/blocks", {"network": wrong})) == (
            (400, "INVALID_BLOCK")
        ), wrong
    path = f"/v1/blocks/{block['block_id']}"
    assert site.admin("DELETE", path)[0] == 204
    assert code_of(site.admin("DELETE", path)) == (404, "BLOCK_NOT_FOUND")
    assert site.admin("GET", "/v1/blocks")[1]["blocks"] == []


def test_an_admin_is_made_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for _ in range(2):
        with server(data, workers=0, COMFYRAIL_ACCESS="on") as process:
            key = (data / "admin.key").read_text().strip()
            status, body = process.call("GET", "/v1/users", Authorization=f"Bearer {key}")
            assert status == 200
            assert [user["user_id"] for user in body["users"]] == ["admin"]
    assert process.log.count("first_admin_made") == 1
