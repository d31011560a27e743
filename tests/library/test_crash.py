"""What a save has promised survives kill -9 [1.4]."""

import base64
import contextlib
import json
import threading
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.graphs import picture
from tests.library.parts import names_in, png
from tests.processes import Comfyrail, server, wait_until


@pytest.mark.parametrize("after", [3, 7])
def test_kill_in_the_middle_of_saves_leaves_every_version_whole(tmp_path: Path, after: int) -> None:
    promised: list[int] = []
    with server(tmp_path / "data", workers=0) as process:
        savers = [threading.Thread(target=keep_saving, args=(process, promised)) for _ in range(3)]
        for saver in savers:
            saver.start()
        wait_until(lambda: len(promised) >= after)
        process.kill()
        for saver in savers:
            saver.join(20)
    with server(tmp_path / "data", workers=0) as process:
        _, shown = process.call("GET", "/v1/workflows/poster")
        assert set(promised) <= set(shown["versions"])
        for number in shown["versions"]:
            _, each = process.call("GET", f"/v1/workflows/poster?version={number}")
            assert each["description"] == each["workflow"]["3"]["inputs"]["filename_prefix"]
            assert process.fetch("GET", each["preview"])[1] == png()
        assert names_in(tmp_path / "data" / "workflows" / ".incoming") == []
        version = save(process, "last")
        assert version == shown["versions"][-1] + 1
    top = tmp_path / "data" / "workflows" / "poster"
    assert (top / "description.md").read_text() == "last"
    assert json.loads((top / "workflow.json").read_text())["3"]["inputs"]["filename_prefix"]


def save(process: Comfyrail, text: str) -> int:
    graph: Any = picture()
    graph["3"]["inputs"]["filename_prefix"] = text
    preview = base64.b64encode(png()).decode()
    body = {"workflow": graph, "description": text, "preview": preview}
    status, reply = process.call("PUT", "/v1/workflows/poster", body)
    assert status in {200, 201}, reply
    return int(reply["version"])


def keep_saving(process: Comfyrail, promised: list[int]) -> None:
    with contextlib.suppress(OSError, HTTPException):
        while True:
            promised.append(save(process, f"text {len(promised)}"))
