"""The run API over real HTTP: files from and to folders, states, restarts [10.4]."""

import base64
import hashlib
import io
import json
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.graphs import Graph, picture, slow_picture
from tests.processes import Comfyrail, server, wait_until

NOWHERE = "01890000-0000-7000-8000-000000000000"
ENDED = ("completed", "failed", "cancelled")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runs")
    (made / "allowed").mkdir()
    return made


def environment(folder: Path) -> dict[str, str]:
    return {
        "COMFYRAIL_RUN_FOLDERS": str(folder / "allowed"),
        "COMFYRAIL_STATE_DIR": str(folder / "states"),
    }


@pytest.fixture(scope="module")
def shared_runs(folder: Path) -> Iterator[Comfyrail]:
    with server(folder / "data", workers=2, **environment(folder)) as process:
        yield process.wait_ready()


@pytest.fixture
def house(shared_runs: Comfyrail) -> Iterator[Comfyrail]:
    yield shared_runs
    shared_runs.end_all_jobs()


def start(house: Comfyrail, **body: Any) -> str:
    status, reply = house.call("POST", "/comfyui/workflow/execute", {"worker": "local-1", **body})
    assert status == 200, reply
    assert reply["success"] is True
    assert reply["message"]
    return str(reply["workflow_id"])


def progress(house: Comfyrail, run_id: str) -> Any:
    status, body = house.call("GET", f"/comfyui/workflow/{run_id}/progress")
    assert status == 200, body
    return body


def wait_run(house: Comfyrail, run_id: str, *statuses: str) -> Any:
    def look() -> Any:
        body = progress(house, run_id)
        return body if body["status"] in (statuses or ENDED) else None

    return wait_until(look)


def wait_state(house: Comfyrail, run_id: str, is_so: Callable[[Any], bool]) -> Any:
    def look() -> Any:
        state = state_of(house, run_id)
        return state if is_so(state) else None

    return wait_until(look)


def state_of(house: Comfyrail, run_id: str) -> Any:
    status, body = house.call("GET", f"/workflow/state?workflow_id={run_id}")
    assert status == 200, body
    return body["runs"][0]


def loading(name: str) -> Graph:
    return {
        "1": {"class_type": "LoadImage", "inputs": {"image": name}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "in"}},
    }


def png(color: tuple[int, int, int]) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 6), color).save(file, "PNG")
    return file.getvalue()


# Running


def test_run_ends_with_its_pictures_in_the_folder(house: Comfyrail, folder: Path) -> None:
    run_id = start(house, workflow=picture(3), output_dir="one/two", workflow_name="First")
    done = wait_run(house, run_id)
    assert done["status"] == "completed"
    assert (done["workflow_name"], done["worker"]) == ("First", "local-1")
    assert (done["total_nodes"], done["completed_nodes"]) == (3, 3)
    assert done["progress_percent"] == 100
    assert done["prompt_id"]
    assert [node["node_id"] for node in done["nodes"]] == ["1", "2", "3"]
    assert set(done["nodes"][0]) == {"node_id", "node_type", "status", "progress", "message"}
    (output,) = done["outputs"]
    path = Path(output["path"])
    assert path.parent == folder / "allowed" / "one" / "two"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == output["sha256"]
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    status, body = house.call("GET", f"/comfyui/workflow/{run_id}/outputs")
    assert (status, body["outputs"]) == (200, [output])


def test_run_goes_to_the_worker_that_it_names(house: Comfyrail) -> None:
    for worker in ("local-1", "local-2") * 2:
        run_id = start(house, workflow=picture(4), worker=worker)
        assert wait_run(house, run_id)["worker"] == worker
        assert house.execution(run_id)["worker_id"] == worker


def test_two_runs_into_one_folder_keep_both_pictures(house: Comfyrail, folder: Path) -> None:
    for color in (1, 2):
        wait_run(house, start(house, workflow=picture(color), output_dir="same"))
    found = sorted(path.name for path in (folder / "allowed" / "same").iterdir())
    assert len(found) == 2


def test_quick_runs_of_one_graph_into_one_folder_have_a_file_each(
    house: Comfyrail, folder: Path
) -> None:
    ids = [start(house, workflow=picture(77), output_dir="quick") for _ in range(6)]
    paths = set()
    for run_id in ids:
        done = wait_run(house, run_id)
        assert done["status"] == "completed", done
        paths.add(done["outputs"][0]["path"])
    found = {str(path) for path in (folder / "allowed" / "quick").iterdir()}
    assert len(paths) == len(ids)
    assert found == paths


def test_what_others_have_in_the_folder_stays(house: Comfyrail, folder: Path) -> None:
    first = wait_run(house, start(house, workflow=picture(5), output_dir="mine"))
    name = Path(first["outputs"][0]["path"]).name
    other = folder / "allowed" / "others" / name
    other.parent.mkdir()
    other.write_bytes(b"not yours")
    for color in (6, 7, 8):
        wait_run(house, start(house, workflow=picture(color), output_dir="others"))
    assert other.read_bytes() == b"not yours"
    assert len(list(other.parent.iterdir())) == 4


def test_runs_of_one_worker_are_limited_and_the_others_wait(
    tmp_path: Path,
) -> None:
    with server(tmp_path / "data", workers=1, COMFYRAIL_RUN_CONCURRENCY="1") as house:
        house.wait_ready()
        # Short jobs, which a worker would be given several of at once.
        for _ in range(3):
            wait_run(house, start(house, workflow=picture(1)))
        ids = [start(house, workflow=slow_picture(0.05, n)) for n in range(8)]
        for run_id in ids:
            assert wait_run(house, run_id)["status"] == "completed"
        starts = []
        for run_id in ids:
            job = house.execution(run_id)
            starts.append((job["started_at"], job["completed_at"]))
        starts.sort()
        for (_, ended), (began, _) in pairwise(starts):
            assert ended <= began


def test_reply_says_that_a_run_waits_for_others(house: Comfyrail) -> None:
    slow = [start(house, workflow=slow_picture(20, n)) for n in range(4)]
    wait_run(house, slow[0], "running")
    assert progress(house, slow[-1])["status"] == "queued"
    assert progress(house, slow[-1])["queue_position"] >= 1
    for run_id in slow[::-1]:
        status, reply = house.call("POST", f"/comfyui/workflow/{run_id}/cancel")
        assert (status, reply["success"]) == (200, True)
    for run_id in slow:
        assert wait_run(house, run_id)["status"] == "cancelled"


def test_cancelling_an_ended_run_is_a_conflict(house: Comfyrail) -> None:
    run_id = start(house, workflow=picture(9))
    wait_run(house, run_id)
    status, body = house.call("POST", f"/comfyui/workflow/{run_id}/cancel")
    assert (status, body["success"]) == (409, False)
    assert body["error"]["code"] == "EXECUTION_ENDED"


# What it is given


def test_workflow_comes_from_a_file_or_the_library(house: Comfyrail, folder: Path) -> None:
    path = folder / "allowed" / "flows" / "graph.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(picture(10)))
    house.call("PUT", "/v1/workflows/of-runs", {"workflow": picture(11)})
    for name in ("flows/graph.json", str(path), "of-runs", "of-runs@1"):
        assert wait_run(house, start(house, workflow_file=name))["status"] == "completed"


def test_images_come_as_path_base64_data_url_or_asset(house: Comfyrail, folder: Path) -> None:
    red, green, blue, grey = (9, 0, 0), (0, 9, 0), (0, 0, 9), (9, 9, 9)
    (folder / "allowed" / "red.png").write_bytes(png(red))
    _, uploaded = house.call(
        "POST",
        "/v1/uploads",
        {"base64": base64.b64encode(png(grey)).decode(), "name": "grey.png"},
    )
    asset = uploaded.get("asset_id") or uploaded["assets"][0]["asset_id"]
    given = {
        "red.png": red,
        base64.b64encode(png(green)).decode(): green,
        "data:image/png;base64," + base64.b64encode(png(blue)).decode(): blue,
        asset: grey,
    }
    for text, color in given.items():
        run_id = start(
            house,
            workflow=loading("photo.png"),
            input_images={"photo.png": text},
            output_dir="images",
        )
        done = wait_run(house, run_id)
        assert done["status"] == "completed", done
        made = Image.open(done["outputs"][0]["path"]).convert("RGB")
        assert made.getpixel((2, 2)) == color


def test_image_without_a_dot_in_its_path_is_found(house: Comfyrail, folder: Path) -> None:
    (folder / "allowed" / "faces").mkdir()
    (folder / "allowed" / "faces" / "ann").write_bytes(png((9, 0, 9)))
    for text in ("faces/ann", str(folder / "allowed" / "faces" / "ann")):
        run_id = start(
            house, workflow=loading("a.png"), input_images={"a.png": text}, output_dir="dotless"
        )
        done = wait_run(house, run_id)
        made = Image.open(done["outputs"][0]["path"]).convert("RGB")
        assert made.getpixel((2, 2)) == (9, 0, 9)
    body = {"worker": "local-1", "workflow": loading("a.png")}
    missing = str(folder / "allowed" / "faces" / "bob")
    status, reply = house.call(
        "POST", "/comfyui/workflow/execute", {**body, "input_images": {"a.png": missing}}
    )
    assert (status, reply["error"]["code"]) == (404, "RUN_FILE_NOT_FOUND")


def test_run_that_is_run_once_more_stays_on_its_worker(house: Comfyrail) -> None:
    run_id = start(house, workflow=picture(14), worker="local-2")
    wait_run(house, run_id)
    house.call("POST", "/v1/workers/local-2/cordon")
    try:
        _, again = house.call("POST", f"/v1/workflows/execution/{run_id}/retry")
        job_id = again["execution_id"]
        assert wait_until(lambda: house.execution(job_id)["waiting_for"])
    finally:
        house.call("POST", "/v1/workers/local-2/resume")
    assert house.wait_for(job_id, "completed")["worker_id"] == "local-2"


# Hostile input


def test_folder_that_can_never_be_made_is_refused(house: Comfyrail, folder: Path) -> None:
    (folder / "allowed" / "a-file").write_text("in the way")
    (folder / "allowed" / "circle").symlink_to("circle")
    body = {"worker": "local-1", "workflow": picture()}
    for path in ("x" * 300, "a-file/below", "a-file", "circle", "circle/below"):
        reply = house.call("POST", "/comfyui/workflow/execute", {**body, "output_dir": path})
        assert (reply[0], reply[1]["error"]["code"]) == (422, "PATH_REFUSED")
    for field, value in (
        ("workflow_file", "circle/a.json"),
        ("input_images", {"a.png": "circle/a.png"}),
    ):
        wish = {name: given for name, given in body.items() if name != field.partition("_")[0]}
        reply = house.call("POST", "/comfyui/workflow/execute", {**wish, field: value})
        assert (reply[0], reply[1]["error"]["code"]) == (422, "PATH_REFUSED")
    (folder / "allowed" / "circle").unlink()


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        "/etc",
        "/",
        "a/../../outside",
        "link/inside",
        "a\0b",
        "",
        "x" * 5000,
    ],
)
@pytest.mark.parametrize("field", ["output_dir", "workflow_file", "input_images"])
def test_paths_that_lead_elsewhere_are_refused(
    house: Comfyrail, folder: Path, field: str, path: str
) -> None:
    outside = folder / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "inside").write_text(json.dumps(picture()))
    link = folder / "allowed" / "link"
    if not link.is_symlink():
        link.symlink_to(outside)
    body: dict[str, Any] = {"worker": "local-1", "workflow": picture()}
    if field == "workflow_file":
        del body["workflow"]
        body[field] = path if "/" in path else f"{path}.json"
    elif field == "input_images":
        body[field] = {"a.png": f"{path}/a.png"}
    else:
        body[field] = path
    watched = [folder / "allowed", outside]
    before = {each for place in watched for each in place.rglob("*")}
    status, reply = house.call("POST", "/comfyui/workflow/execute", body)
    assert status in {404, 422}, reply
    assert reply["success"] is False
    assert reply["error"]["code"] in {"PATH_REFUSED", "RUN_FILE_NOT_FOUND"}
    assert "root:" not in json.dumps(reply)
    assert {each for place in watched for each in place.rglob("*")} == before


def test_link_that_comes_later_leads_nowhere(house: Comfyrail, folder: Path) -> None:
    outside = folder / "elsewhere"
    outside.mkdir()
    target = folder / "allowed" / "later"
    run_id = start(house, workflow=slow_picture(0.5), output_dir="later")
    target.symlink_to(outside)
    waiting = wait_state(house, run_id, lambda state: state["fetch"]["error"] is not None)
    assert waiting["status"] == "fetching"
    assert list(outside.iterdir()) == []
    target.unlink()
    assert wait_run(house, run_id)["status"] == "completed"
    assert len(list(target.iterdir())) == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, 400),
        ({"worker": "local-1"}, 400),
        ({"workflow": picture()}, 400),
        ({"worker": "nobody", "workflow": picture()}, 404),
        ({"worker": 5, "workflow": picture()}, 400),
        ({"worker": "local-1", "workflow": picture(), "workflow_file": "x"}, 400),
        ({"worker": "local-1", "workflow": picture(), "odd": 1}, 400),
        ({"worker": "local-1", "workflow": {"1": {"class_type": "Odd"}}}, 422),
        ({"worker": "local-1", "workflow_file": "no-such-workflow"}, 404),
        ({"worker": "local-1", "workflow": picture(), "workflow_name": "x" * 201}, 400),
        ({"worker": "local-1", "workflow": picture(), "input_images": {"a.png": "%%%"}}, 400),
        ({"worker": "local-1", "workflow": picture(), "input_images": {"a.png": NOWHERE}}, 404),
        ({"worker": "local-1", "workflow": picture(), "input_images": ["a.png"]}, 400),
        ({"worker": "local-1", "workflow": picture(), "input_images": {"a.png": 5}}, 400),
    ],
)
def test_requests_that_are_wrong_are_refused(house: Comfyrail, body: Any, expected: int) -> None:
    before = house.call("GET", "/workflow/state/summary")[1]["total"]
    status, reply = house.call("POST", "/comfyui/workflow/execute", body)
    assert status == expected, reply
    assert (reply["success"], reply["message"]) == (False, reply["error"]["message"])
    assert house.call("GET", "/workflow/state/summary")[1]["total"] == before


@pytest.mark.parametrize("field", ["password", "private_key"])
def test_secrets_in_a_request_are_refused_and_never_shown(house: Comfyrail, field: str) -> None:
    secret = "open-sesame-5931"
    connection = {"host": "127.0.0.1", field: secret}
    status, body = house.call(
        "POST", "/comfyui/workflow/execute", {"ssh_connection": connection, "workflow": picture()}
    )
    assert (status, body["error"]["code"]) == (422, "SSH_SECRET_REFUSED")
    kept = b"".join(path.read_bytes() for path in house.data.glob("comfyrail.db*"))
    assert secret not in json.dumps(body) + house.log
    assert secret.encode() not in kept


def test_without_folders_files_are_refused_with_what_to_do(running_server: Comfyrail) -> None:
    status, body = running_server.call(
        "POST",
        "/comfyui/workflow/execute",
        {"worker": "local-1", "workflow": picture(), "output_dir": "x"},
    )
    assert (status, body["error"]["code"]) == (422, "RUN_FOLDERS_NOT_SET")
    assert "COMFYRAIL_RUN_FOLDERS" in body["message"]


def test_unknown_runs_are_404(house: Comfyrail) -> None:
    for method, path in (
        ("GET", f"/comfyui/workflow/{NOWHERE}/progress"),
        ("GET", f"/comfyui/workflow/{NOWHERE}/outputs"),
        ("POST", f"/comfyui/workflow/{NOWHERE}/cancel"),
        ("POST", f"/comfyui/workflow/{NOWHERE}/fetch"),
        ("GET", f"/workflow/state?workflow_id={NOWHERE}"),
        ("DELETE", f"/workflow/state?workflow_id={NOWHERE}"),
    ):
        status, body = house.call(method, path)
        assert (status, body["error"]["code"]) == (404, "EXECUTION_NOT_FOUND")


# States


def test_state_follows_the_run_and_keeps_the_clients_notes(house: Comfyrail) -> None:
    run_id = start(house, workflow=slow_picture(0.5), workflow_name="noted")
    status, noted = house.call(
        "POST", "/workflow/state", {"workflow_id": run_id, "notes": {"a": 1, "b": 2}}
    )
    assert status == 200
    assert noted["notes"] == {"a": 1, "b": 2}
    wait_run(house, run_id)
    state = wait_state(house, run_id, lambda state: state["status"] == "completed")
    assert state["version"] > noted["version"]
    assert (state["workflow_name"], state["progress"]) == ("noted", 1.0)
    assert state["notes"] == {"a": 1, "b": 2}
    body = {"workflow_id": run_id, "notes": {"a": None}, "version": state["version"]}
    assert house.call("POST", "/workflow/state", body)[1]["notes"] == {"b": 2}
    status, conflict = house.call("POST", "/workflow/state", body)
    assert (status, conflict["error"]["code"]) == (409, "DOCUMENT_CHANGED")
    large = {"workflow_id": run_id, "notes": {"a": "x" * 70_000}}
    assert house.call("POST", "/workflow/state", large)[0] == 413
    assert house.call("POST", "/workflow/state", {"workflow_id": NOWHERE})[0] == 404


def test_states_of_ended_runs_can_be_cleared_and_active_ones_not(house: Comfyrail) -> None:
    ended = start(house, workflow=picture(12))
    wait_run(house, ended)
    active = start(house, workflow=slow_picture(30))
    wait_run(house, active, "running")
    wait_state(house, active, lambda state: state["status"] == "running")
    summary = house.call("GET", "/workflow/state/summary")[1]
    assert [each["run_id"] for each in summary["runs"]] == [active]
    assert summary["active"] == 1
    status, body = house.call("DELETE", f"/workflow/state?workflow_id={active}")
    assert (status, body["error"]["code"]) == (409, "RUN_ACTIVE")
    assert house.call("DELETE", f"/workflow/state?workflow_id={ended}") == (200, {"cleared": 1})
    assert house.call("GET", f"/workflow/state?workflow_id={ended}")[0] == 404
    house.call("DELETE", "/workflow/state")
    states = house.call("GET", "/workflow/state")[1]["runs"]
    assert [each["run_id"] for each in states] == [active]


def test_state_file_is_private_and_says_what_the_store_says(house: Comfyrail, folder: Path) -> None:
    run_id = start(house, workflow=picture(13), workflow_name="filed")
    wait_run(house, run_id)
    path = folder / "states" / "local" / f"{run_id}.json"

    def look() -> Any:
        found = json.loads(path.read_text()) if path.exists() else {"version": 0}
        return found if found["version"] == state_of(house, run_id)["version"] else None

    content = wait_until(look)
    assert (content["run_id"], content["workflow_name"]) == (run_id, "filed")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    house.call("DELETE", f"/workflow/state?workflow_id={run_id}")
    wait_until(lambda: not path.exists())


# The server dies


def test_run_goes_on_after_the_server_was_killed_and_is_fetched_once(tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir()
    house = server(tmp_path / "data", workers=1, **environment(tmp_path))
    with house:
        house.wait_ready()
        running = start(house, workflow=slow_picture(1.0, 1), output_dir="out")
        waiting = start(house, workflow=picture(2), output_dir="out")
        wait_run(house, running, "running")
        house.kill()
        path = tmp_path / "states" / "local" / f"{running}.json"
        path.write_text('{"version": 1, "run_')
        house.start()
        house.wait_ready()
        for run_id in (running, waiting):
            done = wait_run(house, run_id)
            assert done["status"] == "completed"
            assert Path(done["outputs"][0]["path"]).is_file()
        assert len(list((tmp_path / "allowed" / "out").iterdir())) == 2
        assert state_of(house, running)["fetch"]["state"] == "done"
        aside = wait_until(lambda: list(path.parent.glob("*.corrupt-*")))
        assert len(aside) == 1
        wait_until(lambda: json.loads(path.read_text())["status"] == "completed")


def test_outputs_of_a_run_that_ended_while_nobody_fetched_are_fetched_at_the_next_start(
    tmp_path: Path,
) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "out").write_text("in the way until the server is started again")
    house = server(tmp_path / "data", workers=1, **environment(tmp_path))
    with house:
        house.wait_ready()
        (allowed / "out").unlink()
        run_id = start(house, workflow=slow_picture(0.5), output_dir="out")
        (allowed / "out").write_text("in the way")
        wait_run(house, run_id, "fetching")
        house.kill()
        (allowed / "out").unlink()
        house.start()
        house.wait_ready()
        assert wait_run(house, run_id)["status"] == "completed"
        assert len(list((allowed / "out").iterdir())) == 1
        house.kill()
        house.start()
        house.wait_ready()
        assert progress(house, run_id)["status"] == "completed"
        assert len(list((allowed / "out").iterdir())) == 1


def test_fetching_that_was_given_up_is_told_and_can_be_asked_for_again(tmp_path: Path) -> None:
    out = tmp_path / "allowed" / "out"
    out.parent.mkdir()
    house = server(tmp_path / "data", workers=1, **environment(tmp_path))
    with house:
        house.wait_ready()
        run_id = start(house, workflow=slow_picture(0.5), output_dir="out")
        out.write_text("in the way")
        wait_state(house, run_id, lambda state: state["fetch"]["state"] == "waiting")
        house.kill()
        give_up(tmp_path / "data", run_id)
        house.start()
        house.wait_ready()
        given_up = progress(house, run_id)
        assert given_up["status"] == "completed"
        assert given_up["message"].startswith("The outputs could not be brought to output_dir")
        assert house.call("GET", "/workflow/state/summary")[1]["not_fetched"] == [run_id]
        status, body = house.call("POST", f"/comfyui/workflow/{run_id}/fetch")
        assert (status, body["error"]["code"]) == (422, "PATH_REFUSED")
        out.unlink()
        status, body = house.call("POST", f"/comfyui/workflow/{run_id}/fetch")
        assert (status, body["workflow_id"]) == (200, run_id)
        wait_state(house, run_id, lambda state: state["fetch"]["state"] == "done")
        assert len(list(out.iterdir())) == 1
        assert house.call("GET", "/workflow/state/summary")[1]["not_fetched"] == []
        status, body = house.call("POST", f"/comfyui/workflow/{run_id}/fetch")
        assert (status, body["error"]["code"]) == (409, "NOTHING_TO_FETCH")


def give_up(data: Path, run_id: str) -> None:
    """As a server does after some minutes; this one is stopped."""
    with closing(sqlite3.connect(data / "comfyrail.db")) as database, database:
        (text,) = database.execute(
            "SELECT content FROM documents WHERE area = 'runs' AND name = ?", [run_id]
        ).fetchone()
        state = json.loads(text)
        state["fetch"]["state"] = "failed"
        state["status"] = "completed"
        content = json.dumps(state).encode()
        database.execute("UPDATE documents SET content = ? WHERE name = ?", [content, run_id])
        database.execute("DELETE FROM followed_jobs WHERE job_id = ?", [run_id])
