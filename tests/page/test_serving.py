"""The page's files: sent small, kept by browsers, and allowed to do little."""

import gzip
import re

from comfyrail.api.page.build import read_build
from tests.page.facts import facts_in
from tests.processes import Comfyrail

LARGEST_GZIPPED = 150_000


def test_page_says_who_looks_at_it(running_server: Comfyrail) -> None:
    status, content, headers = running_server.fetch("GET", "/")
    assert (status, headers["cache-control"]) == (200, "no-store")
    facts = facts_in(content.decode())
    assert facts["access"] is False
    assert facts["user"]["user_id"] == "local"
    assert isinstance(facts["events"], int)


def test_everything_it_loads_is_there(running_server: Comfyrail) -> None:
    _, content, _ = running_server.fetch("GET", "/")
    parts = re.findall(r'(?:src|href)="(/page/[^"]+)"', content.decode())
    assert len(parts) >= 2
    for path in parts:
        status, _, headers = running_server.fetch("GET", path)
        assert status == 200
        assert "immutable" in headers["cache-control"]


def test_page_is_small() -> None:
    build = read_build()
    assert build is not None
    sizes = {
        path: len(gzip.compress(file.content))
        for path, file in build.files.items()
        if path.endswith((".js", ".css"))
    }
    assert sum(sizes.values()) < LARGEST_GZIPPED, sizes


def test_files_are_compressed_for_those_who_take_it(running_server: Comfyrail) -> None:
    _, content, _ = running_server.fetch("GET", "/")
    script = re.search(r'src="(/page/[^"]+\.js)"', content.decode())
    assert script is not None
    _, plain, headers = running_server.fetch("GET", script[1])
    assert "content-encoding" not in headers
    _, packed, headers = running_server.fetch("GET", script[1], Accept_Encoding="gzip")
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == plain
    again = running_server.fetch("GET", script[1], If_None_Match=headers["etag"])
    assert again[0] == 304


def test_nothing_outside_its_folder_is_sent(running_server: Comfyrail) -> None:
    for path in (
        "/page/../app.py",
        "/page/%2e%2e/app.py",
        "/page/assets/nope.js",
        "/page/.sources",
    ):
        assert running_server.fetch("GET", path)[0] == 404


def test_policy_allows_no_inline_script_and_no_other_server(running_server: Comfyrail) -> None:
    policy = running_server.fetch("GET", "/")[2]["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert "https:" not in policy
    assert "data:" not in policy
