"""Pages of other sites that may use the API, and those that may not [11.3]."""

import pytest

from comfyrail.api.cors import Cors
from comfyrail.api.request_head import RequestHead
from tests.access.gate_parts import LISTED_ORIGIN, ask, bearer, code_of
from tests.processes import Comfyrail, comfyrail, server

OTHER = "https://evil.example.com"


def preflight(
    process: Comfyrail, origin: str, path: str = "/v1/workflows/execute"
) -> dict[str, str]:
    reply, _ = ask(
        process,
        "OPTIONS",
        path,
        Origin=origin,
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers="authorization, content-type",
    )
    return {"status": str(reply.status), **{k.lower(): v for k, v in reply.headers.items()}}


def test_browser_that_asks_first_is_answered_without_credentials(gate: Comfyrail) -> None:
    reply = preflight(gate, LISTED_ORIGIN)
    assert reply["status"] == "204"
    assert reply["access-control-allow-origin"] == LISTED_ORIGIN
    for header in ("Authorization", "Idempotency-Key", "Last-Event-ID", "X-API-Key", "Prefer"):
        assert header in reply["access-control-allow-headers"]
    assert "DELETE" in reply["access-control-allow-methods"]
    assert reply["vary"] == "Origin"
    assert "access-control-allow-credentials" not in reply


@pytest.mark.parametrize(
    "origin", [OTHER, "https://app.example.com.evil.com", "http://app.example.com", "null"]
)
def test_origin_that_is_not_listed_is_told_nothing(gate: Comfyrail, origin: str) -> None:
    reply = preflight(gate, origin)
    assert "access-control-allow-origin" not in reply
    assert reply["status"] in {"401", "404", "405"}
    # It may still send a request with a key of its own, and cannot read the answer.
    plain, _ = ask(gate, "GET", "/v1/workers", Origin=origin, **bearer())
    assert plain.status == 200
    assert "Access-Control-Allow-Origin" not in plain.headers
    assert plain.headers["Vary"] == "Origin"


def test_reply_to_a_listed_origin_can_be_read_with_its_headers(gate: Comfyrail) -> None:
    for headers in (bearer(), {}):
        reply, _ = ask(gate, "GET", "/v1/workers", Origin=LISTED_ORIGIN, **headers)
        assert reply.headers["Access-Control-Allow-Origin"] == LISTED_ORIGIN
        exposed = reply.headers["Access-Control-Expose-Headers"]
        assert {"X-RateLimit-Remaining", "Location", "ETag", "X-Request-ID"} <= set(
            exposed.split(", ")
        )


def test_any_origin_means_a_star_and_never_credentials() -> None:
    cors = Cors(["*"])
    assert cors.allows(OTHER)
    headers = dict(cors.headers(OTHER))
    assert headers[b"access-control-allow-origin"] == b"*"
    assert b"access-control-allow-credentials" not in headers


def test_options_that_asks_nothing_first_is_no_preflight() -> None:
    scope = {"type": "http", "method": "OPTIONS", "is_https": False}
    assert (
        Cors([LISTED_ORIGIN]).preflight(scope, RequestHead(host="a", origin=LISTED_ORIGIN)) is None
    )


def test_with_access_off_only_listed_origins_come_in(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = tmp_path_factory.mktemp("local") / "data"
    with server(data, workers=0, COMFYRAIL_CORS_ORIGINS=LISTED_ORIGIN) as process:
        assert preflight(process, LISTED_ORIGIN)["access-control-allow-origin"] == LISTED_ORIGIN
        reply, _ = ask(process, "GET", "/v1/workers", Origin=LISTED_ORIGIN)
        assert reply.status == 200
        reply, content = ask(process, "GET", "/v1/workers", Origin=OTHER)
        assert (reply.status, code_of(content)) == (403, "FORBIDDEN_ORIGIN")
        assert preflight(process, OTHER)["status"] == "403"
        reply, content = ask(process, "GET", "/health", Host="evil.example.com")
        assert (reply.status, code_of(content)) == (403, "FORBIDDEN_HOST")


@pytest.mark.parametrize("origins", ["*", "app.example.com", "https://app.example.com/path"])
def test_origins_that_would_open_a_door_or_fit_nothing_are_no_settings(
    origins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMFYRAIL_CORS_ORIGINS", origins)
    assert comfyrail("serve", "--port", "0", "--workers", "0").returncode == 3
