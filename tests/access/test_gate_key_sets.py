"""A server whose tokens are signed by somebody else [11.1]."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.access.gate_parts import ask, code_of, key_set, new_private_key, public_jwk, token
from tests.processes import comfyrail, server


@contextmanager
def issuer(content: bytes) -> Iterator[str]:
    """The URL of a key set."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.server_port}/jwks.json"
        finally:
            listener.shutdown()


def test_tokens_of_an_issuer_count_while_it_is_there_and_after(tmp_path: Path) -> None:
    private = new_private_key("RSA")
    with ExitStack() as there, ExitStack() as stack:
        url = there.enter_context(issuer(key_set(public_jwk(private, "RSA", kid="1"))))
        settings = {"COMFYRAIL_JWT_JWKS": url, "COMFYRAIL_JWT_AUDIENCE": "comfyrail"}
        process = stack.enter_context(
            server(tmp_path / "data", "--access", "on", workers=0, **settings)
        )
        own = token(private, "RS256", kid="1", aud="comfyrail")
        assert ask(process, "GET", "/v1/workers", X_API_Key=own)[0].status == 200
        wrong = token(private, "RS256", kid="1", aud="another")
        reply, content = ask(process, "GET", "/v1/workers", X_API_Key=wrong)
        assert (reply.status, code_of(content)) == (401, "TOKEN_INVALID")
        there.close()
        other = token(private, "RS256", kid="1", aud="comfyrail", user_id="bob")
        assert ask(process, "GET", "/v1/workers", X_API_Key=other)[0].status == 200


def test_server_does_not_start_with_a_key_set_that_has_no_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jwks.json"
    monkeypatch.setenv("COMFYRAIL_JWT_JWKS", str(path))
    arguments = ("serve", "--port", "0", "--workers", "0", "--access", "on")
    missing = comfyrail(*arguments, "--data", str(tmp_path / "data"))
    path.write_bytes(key_set({"kty": "oct", "k": "c2VjcmV0"}))
    empty = comfyrail(*arguments, "--data", str(tmp_path / "data"))
    for result in (missing, empty):
        assert result.returncode == 3
        assert "jwt_jwks" in result.stderr
