"""The part of stage 3 that asks the network, with real servers [2.3]."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from comfyrail.network.outgoing import OutgoingHttp, OutgoingLimits
from comfyrail.network.probe import HttpUrlProbe, UrlAnswer
from comfyrail.validation.findings import Finding
from comfyrail.validation.policy import SecurityPolicy
from comfyrail.validation.url_check import UrlCheckLimits, check_urls
from comfyrail.workflow.graph import parse_workflow
from tests.network.parts import (
    AS_PUBLIC,
    PRIVATE,
    PUBLIC,
    ScriptedResolver,
    picture,
    raw_site,
    site,
)
from tests.validation.parts import context, findings, node, shown_image, text_to_image

POLICY = SecurityPolicy(allowed_domains=("pictures.example", "moved.example", "inner.example"))
NAMES = {
    "pictures_example": [[PUBLIC]],
    "moved_example": [[PUBLIC]],
    "other_example": [[PUBLIC]],
    "inner_example": [[PRIVATE]],
}


def fetching(*urls: str) -> dict[str, Any]:
    return shown_image(
        **{f"f{index}": node("FetchImage", url=url) for index, url in enumerate(urls)}
    )


async def check(graph: Any, policy: SecurityPolicy = POLICY) -> list[Finding]:
    assert findings(graph, policy) == []
    limits = OutgoingLimits(total_seconds=0.5)
    async with OutgoingHttp(
        limits=limits, exceptions=AS_PUBLIC, resolver=ScriptedResolver(**NAMES)
    ) as http:
        return await check_urls(parse_workflow(graph), context(policy), HttpUrlProbe(http))


async def answer(request: web.Request) -> web.StreamResponse:
    port = request.url.port
    moves = {
        "/moved": f"http://moved.example:{port}/x.png",
        "/away": f"http://other.example:{port}/x.png",
        "/inside": f"http://inner.example:{port}/x.png",
        "/loop": "/loop",
    }
    if request.path in moves:
        return web.Response(status=302, headers={"Location": moves[request.path]})
    if request.path == "/page":
        return web.Response(text="<html>", content_type="text/html")
    if request.path == "/gone":
        return web.Response(status=404)
    if request.path == "/slow":
        await asyncio.Event().wait()
    return await picture(request)


async def test_picture_that_is_there_is_fine_also_after_a_redirect() -> None:
    async with site(answer) as server:
        urls = [server.url("pictures.example", path) for path in ("/x.png", "/moved")]
        assert await check(fetching(*urls)) == []


@pytest.mark.parametrize(
    ("path", "code", "reason"),
    [
        ("/gone", "URL_NOT_ACCESSIBLE", "status"),
        ("/slow", "URL_NOT_ACCESSIBLE", "timeout"),
        ("/page", "INVALID_CONTENT_TYPE", None),
        ("/away", "UNAUTHORIZED_DOMAIN", "domain"),
        ("/inside", "UNAUTHORIZED_DOMAIN", "private_address"),
        ("/loop", "URL_VALIDATION_ERROR", "redirect"),
    ],
)
async def test_what_is_wrong_with_a_url_is_named(path: str, code: str, reason: str | None) -> None:
    async with site(answer) as server:
        found = await check(fetching(server.url("pictures.example", path)))
    assert [(each.stage, each.error_code, each.path) for each in found] == [
        ("security", code, "f0.inputs.url")
    ]
    assert found[0].details.get("reason") == reason


async def test_server_that_is_not_there_is_named() -> None:
    async with site(answer) as server:
        url = server.url("pictures.example")
    found = await check(fetching(url))
    assert [each.error_code for each in found] == ["URL_NOT_ACCESSIBLE"]


async def test_name_of_an_allowed_domain_that_leads_inside_is_refused() -> None:
    async with site(answer, PRIVATE) as secret:
        found = await check(fetching(secret.url("inner.example", "/x.png")))
    assert [each.error_code for each in found] == ["UNAUTHORIZED_DOMAIN"]
    assert secret.requests == []


async def test_one_url_in_many_places_is_asked_for_once_and_named_everywhere() -> None:
    async with site(answer) as server:
        url = server.url("pictures.example", "/page")
        graph = fetching(url, url) | {"w": node("WebPicture", source=f" {url} ")}
        found = await check(graph)
    assert [each.path for each in found] == ["f0.inputs.url", "f1.inputs.url", "w.inputs.source"]
    assert len(server.requests) == 1


async def test_prompts_and_workflows_without_urls_ask_nobody() -> None:
    graph = text_to_image()
    graph["p"]["inputs"]["text"] = "https://pictures.example/ as a logo"
    assert await check(graph) == []


class Waiting:
    """A probe that ends when it is told to, and counts how many wait at once."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self.go_on = asyncio.Event()
        self.full = asyncio.Event()

    async def probe(self, url: str, _: Callable[[str], bool]) -> UrlAnswer:
        self.asked.append(url)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        if self.at_once == 4:
            self.full.set()
        await self.go_on.wait()
        self.at_once -= 1
        return UrlAnswer(200, "image/png", url)


def many(count: int) -> dict[str, Any]:
    return fetching(*(f"https://pictures.example/{number}" for number in range(count)))


async def test_few_are_asked_at_once_and_not_too_many_altogether() -> None:
    probe = Waiting()
    async with asyncio.TaskGroup() as tasks:
        checking = tasks.create_task(check_urls(parse_workflow(many(30)), context(POLICY), probe))
        await asyncio.wait_for(probe.full.wait(), 10)
        probe.go_on.set()
    found = checking.result()
    assert len(probe.asked) == 20
    assert probe.most_at_once == 4
    assert [(each.error_code, each.details["reason"]) for each in found] == [
        ("URL_VALIDATION_ERROR", "too_many")
    ]


async def test_time_for_all_together_is_limited() -> None:
    limits = UrlCheckLimits(urls=5, at_once=2, seconds=0.05)
    found = await check_urls(parse_workflow(many(3)), context(POLICY), Waiting(), limits)
    assert [(each.error_code, each.details["reason"]) for each in found] == [
        ("URL_NOT_ACCESSIBLE", "timeout")
    ] * 3
    assert len(asyncio.all_tasks()) == 1


async def test_type_that_is_no_text_can_be_told() -> None:
    async def answer_in_bytes(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: \xff\xfe/\x80\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with raw_site(answer_in_bytes) as server:
        found = await check(fetching(server.url("pictures.example")))
    assert [each.error_code for each in found] == ["INVALID_CONTENT_TYPE"]
    json.dumps(found[0].as_dict(), ensure_ascii=False).encode()


class Naming:
    """A probe that remembers the names of its tasks."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def probe(self, url: str, _: Callable[[str], bool]) -> UrlAnswer:
        task = asyncio.current_task()
        assert task is not None
        self.names.append(task.get_name())
        return UrlAnswer(404, None, url)


async def test_secrets_of_a_url_are_neither_in_findings_nor_in_names_of_tasks() -> None:
    probe = Naming()
    graph = fetching("https://pictures.example/x.png?token=s3cr3t")
    found = await check_urls(parse_workflow(graph), context(POLICY), probe)
    assert [each.error_code for each in found] == ["URL_NOT_ACCESSIBLE"]
    assert len(probe.names) == 1
    assert "s3cr3t" not in str(found[0].as_dict()) + probe.names[0]
