"""`comfyrail users`, `keys`, `audit` and `blocks`: at a server, and without one."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Comfyrail, comfyrail, server

KEY = re.compile(r"crk_[a-z2-7]{12}_[A-Za-z0-9_-]{43}")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    folder = tmp_path_factory.mktemp("guarded") / "data"
    with server(folder, workers=0, COMFYRAIL_ACCESS="on") as process:
        yield process


@pytest.fixture
def as_admin(guarded: Comfyrail, monkeypatch: pytest.MonkeyPatch) -> Comfyrail:
    monkeypatch.setenv("COMFYRAIL_SERVER", guarded.url)
    monkeypatch.setenv("COMFYRAIL_API_KEY", (guarded.data / "admin.key").read_text())
    return guarded


def done(*arguments: str) -> str:
    ended = comfyrail(*arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_key_alone_is_on_standard_output(as_admin: Comfyrail) -> None:
    done("users", "add", "ada", "--tier", "pro", "--quota", "jobs=5")
    made = comfyrail("keys", "create", "farm", "--user", "ada", "--permission", "jobs:read")
    key = made.stdout.removesuffix("\n")
    assert KEY.fullmatch(key)
    assert key not in made.stderr
    assert key.split("_")[1] in made.stderr
    status, caller = as_admin.call("GET", "/v1/whoami", Authorization=f"Bearer {key}")
    assert (status, caller["user_id"], caller["permissions"]) == (200, "ada", ["jobs:read"])
    listed = done("keys", "list", "--user", "ada")
    assert key.split("_")[1] in listed
    assert key.split("_", 2)[2] not in listed
    done("keys", "revoke", key.split("_")[1])
    assert as_admin.call("GET", "/v1/whoami", Authorization=f"Bearer {key}")[0] == 401
    assert "revoked" in done("keys", "list", "--user", "*")


@pytest.mark.usefixtures("as_admin")
def test_users_are_added_changed_shown_and_removed() -> None:
    assert "tier free" in done("users", "add", "bob", "--tenant", "acme", "--tier", "free")
    changed = done("users", "change", "bob", "--quota", "gpu-seconds=60", "--disable")
    assert "disabled" in changed
    assert "gpu_seconds=60" in changed
    assert "none" in done("users", "change", "bob", "--quota", "gpu_seconds=none", "--enable")
    assert "tenant acme" in done("users", "show", "bob")
    assert "bob" in done("users", "list")
    done("users", "remove", "bob")
    gone = comfyrail("users", "show", "bob")
    assert gone.returncode == 2
    assert "There is no user" in gone.stderr
    log = done("audit", "--actor", "admin")
    assert "user.remove" in log
    assert "bob" in log


@pytest.mark.usefixtures("as_admin")
def test_addresses_are_blocked_and_let_in() -> None:
    said = done("blocks", "add", "192.0.2.7", "--reason", "scans", "--hours", "2")
    block_id = re.findall(r"block ([0-9a-f-]{36})", said)[0]
    assert "192.0.2.7/32" in done("blocks", "list")
    done("blocks", "remove", block_id)
    assert "192.0.2.7" not in done("blocks", "list")


def test_every_command_sends_the_key_of_the_environment(
    as_admin: Comfyrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert comfyrail("workers", "list").returncode == 0
    assert comfyrail("jobs", "list").returncode == 0
    monkeypatch.delenv("COMFYRAIL_API_KEY")
    refused = comfyrail("jobs", "list", "--server", as_admin.url)
    assert refused.returncode == 2
    assert "COMFYRAIL_API_KEY" in refused.stderr
    monkeypatch.setenv("COMFYRAIL_API_KEY", "crk_é\n\nx")
    broken = comfyrail("jobs", "list", "--server", as_admin.url)
    assert broken.returncode == 2
    assert "Traceback" not in broken.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("users", "add", "root", "--permission", "*"),
        ("users", "list"),
        ("keys", "create", "--user", "root"),
        ("blocks", "add", "192.0.2.7"),
        ("audit",),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_data_folder_that_is_not_there_is_not_made(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    refused = comfyrail(*command, "--data", "nodir", cwd=tmp_path)
    assert refused.returncode == 3
    assert "There is no data folder nodir (no comfyrail.db in it)." in refused.stderr
    assert refused.stdout == ""
    assert not (tmp_path / "nodir").exists()


def test_without_a_server_keys_are_made_on_the_data_folder(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with server(data, workers=0):
        pass
    done("users", "add", "root", "--permission", "*", "--data", str(data))
    unnamed = comfyrail("keys", "create", "--data", str(data))
    assert unnamed.returncode == 2
    assert "--user" in unnamed.stderr
    key = done("keys", "create", "--user", "root", "--days", "1", "--data", str(data)).strip()
    assert KEY.fullmatch(key)
    assert "valid until" in done("keys", "list", "--data", str(data))
    assert "command-line" in done("audit", "--data", str(data))
    wrong = comfyrail("users", "change", "root", "--permission", "fly", "--data", str(data))
    assert wrong.returncode == 2
    assert "'fly' is no permission" in wrong.stderr
    with server(data, workers=0, COMFYRAIL_ACCESS="on") as process:
        status, caller = process.call("GET", "/v1/whoami", Authorization=f"Bearer {key}")
        assert (status, caller["user_id"]) == (200, "root")
        assert not (data / "admin.key").exists()


def test_a_folder_that_a_server_uses_is_left_to_it(guarded: Comfyrail) -> None:
    refused = comfyrail("keys", "create", "--user", "admin", "--data", str(guarded.data))
    assert refused.returncode == 3
    assert refused.stdout == ""
    said = " ".join(refused.stderr.split())
    assert f"process {guarded.process.pid}" in said
    assert "--server" in said
    assert "COMFYRAIL_API_KEY" in said
    assert "admin.key" in said


@pytest.mark.parametrize("quota", ["jobs", "jobs=x", "cars=1", "jobs=-1", "=1", "jobs=nan"])
def test_a_quota_that_is_none_is_refused(quota: str) -> None:
    ended = comfyrail("users", "add", "x", "--quota", quota, "--server", "http://127.0.0.1:1")
    assert ended.returncode == 2
    assert "--quota jobs=1000" in ended.stderr
