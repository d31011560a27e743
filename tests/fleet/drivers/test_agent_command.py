"""`comfyrail agent`: what it says, and how it ends."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from comfyrail.cli.agent import AgentWishes, run_agent
from comfyrail.errors import ConfigurationError
from comfyrail.fleet.drivers.agent import AgentLines
from tests.engine.distributed.certificates import server_context
from tests.fleet.drivers.agent_parts import agents_welcome, until

TOKEN = "a-token-that-nobody-guesses"
PROGRAM = """
import sys
from comfyrail.cli.agent import AgentWishes, run_agent
run_agent(AgentWishes(sys.argv[1], "127.0.0.1:9", "box", sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("wishes", "says"),
    [
        (AgentWishes("http://127.0.0.1:1", "127.0.0.1:8188"), "COMFYRAIL_AGENT_TOKEN"),
        (AgentWishes("ftp://x", "127.0.0.1:8188", token="t"), "not the address of a server"),
        (AgentWishes("http://x", "nonsense://", token="t"), "not the address of a ComfyUI"),
        (AgentWishes("http://x", "y", "../up", token="t"), "cannot be the name of an agent"),
        (AgentWishes("http://x", "y", token="t", labels=["region"]), "KEY=VALUE"),
        (AgentWishes("http://x", "y", token="t", labels=["a b=c"]), "label"),
    ],
)
def test_wrong_use_is_explained(
    wishes: AgentWishes, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_agent(wishes)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err.replace("\n", " ")


async def test_a_signal_ends_it_in_good_order() -> None:
    lines = AgentLines()
    async with agents_welcome(lines) as url:
        for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130)):
            process = start(url, TOKEN)
            await until(lines.names, 30)
            process.send_signal(number)
            _, said = await asyncio.to_thread(process.communicate, timeout=20)
            assert process.returncode == code
            assert b"Connected to" in said
            assert said.strip().endswith(b"The agent stops.")
            await until(lambda: not lines.names())


async def test_a_refused_token_ends_it_with_a_sentence() -> None:
    async with agents_welcome(AgentLines()) as url:
        with pytest.raises(ConfigurationError, match="does not accept the token"):
            await dial(url)


async def dial(url: str) -> None:
    from comfyrail.cli.agent import _dial, _options

    await _dial(_options(AgentWishes(url, "127.0.0.1:9", "box", "wrong")))


async def test_an_agent_dials_over_tls_and_trusts_only_what_it_should(tmp_path: Path) -> None:
    lines = AgentLines()
    async with agents_welcome(lines, server_context(tmp_path)) as url:
        server = url.replace("https://", "wss://")
        process = start(server, TOKEN)
        _, said = await asyncio.to_thread(process.communicate, timeout=30)
        assert b"is not trusted" in said
        assert b"SSL_CERT_FILE" in said
        process = start(server, TOKEN, SSL_CERT_FILE=str(tmp_path / "ca.crt"))
        await until(lines.names, 30)
        process.terminate()
        _, said = await asyncio.to_thread(process.communicate, timeout=20)
        assert process.returncode == 0
        assert b"unprotected" not in said


def start(*arguments: str, **environment: str) -> "subprocess.Popen[bytes]":
    command: Sequence[str] = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, **environment})
