"""What a server says of itself that others can reach, and who can read its data."""

import json
import os
import stat
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from tests.processes import server


def said(log: str, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=["0.0.0.0", "::"])
def everywhere(request: pytest.FixtureRequest) -> str:
    host: str = request.param
    if host == "::" and not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    return host


def test_a_server_that_is_open_to_the_network_says_where_and_warns(
    tmp_path: Path, everywhere: str
) -> None:
    with server(
        tmp_path / "data", "--host", everywhere, workers=0, COMFYRAIL_ACCESS="on"
    ) as process:
        assert process.fetch("GET", "/health")[0] == 200
    (line,) = said(process.log, "listening")
    port = process.url.rpartition(":")[2]
    assert line["host"] == everywhere
    for url in line["reachable_as"]:
        host, _, given = url.removeprefix("http://").rpartition(":")
        assert given == port
        assert not ip_address(host.strip("[]")).is_loopback
    (warning,) = said(process.log, "plain_http")
    assert "TLS" in warning["what"]


def test_a_server_for_this_machine_alone_warns_of_nothing(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=0, COMFYRAIL_ACCESS="on") as process:
        pass
    (line,) = said(process.log, "listening")
    assert line["url"] == process.url
    assert "host" not in line
    assert said(process.log, "plain_http") == []
    assert said(process.log, "data_readable_by_others") == []


def test_new_data_is_for_its_owner_alone(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    data.parent.mkdir()
    before = os.umask(0o022)
    try:
        with server(data, workers=0):
            assert mode_of(data) == 0o700
            assert {mode_of(path) for path in data.glob("comfyrail.db*")} == {0o600}
    finally:
        os.umask(before)


def test_data_that_others_can_read_is_warned_of_where_access_is_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with server(data, workers=0) as process:
        pass
    data.chmod(0o755)
    with server(data, workers=0) as process:
        pass
    assert said(process.log, "data_readable_by_others") == []
    with server(data, workers=0, COMFYRAIL_ACCESS="on") as process:
        pass
    (warning,) = said(process.log, "data_readable_by_others")
    assert warning["paths"] == [str(data)]
    assert f"chmod 700 {data}" in warning["what"]
    (data / "comfyrail.db").chmod(0o644)
    with server(data, workers=0, COMFYRAIL_ACCESS="on") as process:
        pass
    warning = said(process.log, "data_readable_by_others")[-1]
    assert f"chmod 600 {data / 'comfyrail.db'}" in warning["what"]
    assert mode_of(data) == 0o755
