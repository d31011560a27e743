"""Lists with filters and cursors that are checked, and fields that wait for their issue [10.1]."""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from tests.api.errors import assert_error
from tests.graphs import picture
from tests.processes import Comfyrail, wait_until

LIST = "/v1/workflows/executions"


def listed(process: Comfyrail, query: str = "") -> list[dict[str, Any]]:
    status, body = process.call("GET", f"{LIST}?{query}")
    assert status == 200, body
    found = body["executions"]
    assert isinstance(found, list)
    return found


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [each["execution_id"] for each in found]


@pytest.fixture
def three(running_server: Comfyrail) -> list[str]:
    """Completed, cancelled, for later: the newest last."""
    done = running_server.submit(picture(31))
    running_server.wait_for(done, "completed")
    stopped = running_server.submit(picture(32), not_before="2027-06-01T00:00:00Z")
    running_server.call("POST", f"/v1/workflows/execution/{stopped}/cancel")
    later = running_server.submit(picture(33), not_before="2027-06-01T00:00:00Z")
    return [done, stopped, later]


def test_several_statuses_can_be_asked_for(running_server: Comfyrail, three: list[str]) -> None:
    done, stopped, later = three
    assert ids(listed(running_server, "status=completed,cancelled&limit=2")) == [stopped, done]
    repeated = ids(listed(running_server, "status=queued&status=cancelled&limit=2"))
    assert repeated == [later, stopped]


def test_list_goes_on_over_several_statuses(running_server: Comfyrail, three: list[str]) -> None:
    query = "status=completed,cancelled,queued&limit=1"
    found: list[str] = []
    cursor = ""
    while len(found) < 3:
        _, body = running_server.call("GET", f"{LIST}?{query}&cursor={quote(cursor)}")
        found += ids(body["executions"])
        cursor = body["next_cursor"] or ""
    assert found == three[::-1]


def test_list_knows_times(running_server: Comfyrail, three: list[str]) -> None:
    second = running_server.execution(three[1])["submitted_at"]
    wanted = f"submitted_from={quote(second)}"
    assert ids(listed(running_server, wanted)) == [three[2], three[1]]
    after = datetime.fromisoformat(second) + timedelta(milliseconds=1)
    until = f"{wanted}&submitted_before={quote(after.isoformat())}"
    assert ids(listed(running_server, until)) == [three[1]]


def test_list_knows_batches_and_surfaces(running_server: Comfyrail, three: list[str]) -> None:
    batch = {"workflow": picture(34), "grid": {"1.width": [8, 9]}}
    _, made = running_server.call("POST", "/v1/batches", batch)
    for job_id in made["executions"]:
        running_server.wait_for(job_id, "completed")
    found = listed(running_server, f"batch_id={made['batch_id']}")
    assert sorted(ids(found)) == sorted(made["executions"])
    assert listed(running_server, f"batch_id={made['batch_id']}&status=failed,cancelled") == []
    assert listed(running_server, f"batch_id={three[0]}") == []
    _, body = running_server.call("POST", "/v2/workflows/runsync", {"workflow": picture(35)})
    assert ids(listed(running_server, "surface=v2&limit=1")) == [body["id"]]
    assert listed(running_server, "surface=v2&status=failed,queued") == []
    assert listed(running_server, "surface=nowhere") == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("cursor=abc", "INVALID_CURSOR"),
        ("cursor=01890000-0000-7000-8000-000000000000", "INVALID_CURSOR"),
        ("cursor=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "INVALID_CURSOR"),
        ("cursor=%00%ff", "INVALID_CURSOR"),
        ("cursor=" + "A" * 65, "MALFORMED_REQUEST"),
        ("status=queued,odd", "MALFORMED_REQUEST"),
        ("status=", "MALFORMED_REQUEST"),
        ("submitted_from=2026-01-01T00:00:00", "NO_TIME_ZONE"),
        ("submitted_from=yesterday", "MALFORMED_REQUEST"),
        ("limit=501", "MALFORMED_REQUEST"),
    ],
)
def test_made_up_cursors_and_words_are_refused(
    running_server: Comfyrail, query: str, code: str
) -> None:
    status, reply = running_server.call("GET", f"{LIST}?{query}")
    assert status == 400, reply
    assert_error(reply, code)


@pytest.mark.parametrize("path", ["/api/v1/tasks", "/v1/batches", "/v1/assets", "/v1/workflows"])
@pytest.mark.parametrize("cursor", ["%00%ff", "A%20name", "!!!"])
def test_made_up_cursors_are_refused_by_every_list(
    running_server: Comfyrail, path: str, cursor: str
) -> None:
    status, reply = running_server.call("GET", f"{path}?cursor={cursor}")
    assert status == 400, reply
    assert reply["error"]["code"] == "INVALID_CURSOR"


@pytest.mark.parametrize("path", ["/api/v1/tasks", "/v1/batches"])
def test_id_is_no_cursor(running_server: Comfyrail, path: str) -> None:
    query = "cursor=01890000-0000-7000-8000-000000000000"
    status, reply = running_server.call("GET", f"{path}?{query}")
    assert (status, reply["error"]["code"]) == (400, "INVALID_CURSOR")


# Searching


V2_LIST = "/v2/workflows/executions"


def noted(number: int, words: str) -> dict[str, Any]:
    """A picture whose file has these words in its name."""
    graph = picture(number)
    graph["3"]["inputs"]["filename_prefix"] = words
    return graph


@pytest.mark.parametrize(("path", "name"), [(LIST, "execution_id"), (V2_LIST, "id")])
def test_executions_are_found_by_text_workflow_and_id(
    running_server: Comfyrail, path: str, name: str
) -> None:
    word = f"fox{name.replace('_', '')}"
    done = running_server.submit(noted(36, word))
    running_server.wait_for(done, "completed")
    later = running_server.submit(noted(37, word), not_before="2027-06-01T00:00:00Z")

    def found(query: str) -> list[str]:
        status, body = running_server.call("GET", f"{path}?{query}")
        assert status == 200, body
        return [each[name] for each in body["executions"]]

    assert wait_until(lambda: found(f"text={word}") == [later, done])
    assert found(f"text={word.upper()}&status=completed") == [done]
    assert found(f"text={word}&limit=1") == [later]
    assert found(f"text={done}") == [done]
    assert found(f"text={later[:23]}") == [later]
    assert found("text=nothing+like+that") == []
    assert found("workflow_id=none@3") == []
    status, body = running_server.call("GET", f"{path}?text=%00")
    assert (status, body["error"]["code"]) == (400, "MALFORMED_REQUEST")
    assert running_server.call("GET", f"{path}?text={'a' * 501}")[0] == 400
    running_server.call("POST", f"/v1/workflows/execution/{later}/cancel")


@pytest.mark.parametrize(("path", "name"), [(LIST, "execution_id"), (V2_LIST, "id")])
def test_executions_of_the_library_have_a_title_and_are_found_by_their_workflow(
    running_server: Comfyrail, path: str, name: str
) -> None:
    workflow = f"poster-{name[:2]}"
    saved = {"workflow": picture(38)}
    assert running_server.call("PUT", f"/v1/workflows/{workflow}", saved)[0] == 201
    _, body = running_server.call("POST", "/v1/workflows/execute", {"workflow_id": workflow})
    job_id = body["execution_id"]
    running_server.wait_for(job_id, "completed")
    for query in (f"workflow_id={workflow}", f"workflow_id={workflow}@1"):
        _, page = running_server.call("GET", f"{path}?{query}")
        assert [(each[name], each["title"]) for each in page["executions"]] == [(job_id, workflow)]
        assert "cover" not in page["executions"][0]
    assert running_server.call("GET", f"{path}?workflow_id={workflow}@2")[1]["executions"] == []
    assert running_server.execution(job_id)["title"] == workflow
    plain = running_server.submit(picture(39))
    assert running_server.execution(plain)["title"] is None


@pytest.mark.parametrize(("path", "name"), [(LIST, "execution_id"), (V2_LIST, "id")])
def test_covers_show_what_executions_have_made(
    running_server: Comfyrail, path: str, name: str
) -> None:
    done = running_server.submit(picture(40 + len(name), 600, 400))
    outputs = running_server.wait_for(done, "completed")["result"]["outputs"]
    bare = running_server.submit(picture(41), not_before="2027-06-01T00:00:00Z")

    def listed_with_cover() -> dict[str, Any]:
        _, body = running_server.call("GET", f"{path}?cover=true&limit=2")
        return {each[name]: each for each in body["executions"]}

    shown = wait_until(lambda: _with_thumbnail(listed_with_cover(), done)) or {}
    assert (shown[bare]["cover"], shown[bare]["outputs"]) == (None, 0)
    cover = shown[done]["cover"]
    assert shown[done]["outputs"] == len(outputs) == 1
    assert cover["thumbnail"].endswith(f"{cover['output_id']}/variants/thumb_256")
    assert cover["output_id"] == outputs[0]["output_id"]
    assert (cover["content_type"], cover["kind"]) == ("image/png", "images")
    for url, kind in ((cover["url"], "image/png"), (cover["thumbnail"], "image/")):
        status, content, headers = running_server.fetch("GET", url)
        assert (status, headers["content-type"].startswith(kind)) == (200, True)
        assert content
    running_server.call("DELETE", f"/v1/outputs/{cover['output_id']}")
    gone = listed_with_cover()[done]
    assert (gone["cover"], gone["outputs"]) == (None, 0)
    running_server.call("POST", f"/v1/workflows/execution/{bare}/cancel")


def _with_thumbnail(found: dict[str, Any], job_id: str) -> dict[str, Any] | None:
    """What was found, once there is a small version of the cover."""
    cover = found[job_id]["cover"]
    return found if cover and cover["thumbnail"] else None
