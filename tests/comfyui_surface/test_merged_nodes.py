"""/object_info of workers that differ."""

import json
from typing import Any

from comfyrail.access.principal import Principal
from comfyrail.api.comfyui.paths import one_name
from comfyrail.ids import TenantId
from comfyrail.usecases.comfyui_fleet import joined, merge
from comfyrail.workflow.catalog import parse_object_info
from comfyrail.workflow.catalog_merge import merge_catalogs

LOCAL = Principal(TenantId("local"))
ALICE = Principal(TenantId("alice"), is_limited=True)


def worker(**inputs: Any) -> dict[str, Any]:
    return {"Loader": {"input": {"required": inputs}, "output": ["MODEL"], "display_name": "Load"}}


def merged(principal: Principal, *workers: dict[str, Any]) -> dict[str, Any]:
    catalog = merge_catalogs([parse_object_info(each) for each in workers])
    described = merge(catalog, [json.dumps(each).encode() for each in workers])
    found: dict[str, Any] = json.loads(joined(described, ["mine.png"], principal))
    return found


def test_a_choice_has_what_any_worker_offers_in_either_form() -> None:
    first = worker(model=[["a", "b"], {"tooltip": "t"}], other=["COMBO", {"options": ["x"]}])
    second = worker(model=[["b", "c"]], other=["COMBO", {"options": ["y"]}], more=["INT", {}])

    found = merged(LOCAL, first, second)["Loader"]

    assert found["input"]["required"]["model"] == [["a", "b", "c"], {"tooltip": "t"}]
    assert found["input"]["required"]["other"] == ["COMBO", {"options": ["x", "y"]}]
    assert found["input"]["optional"]["more"] == ["INT", {}]
    assert found["display_name"] == "Load"


def test_files_of_workers_are_offered_to_the_single_user_only() -> None:
    there = worker(image=[["theirs.png", "uploads/abc/x.png"], {"image_upload": True}])

    def offered(principal: Principal) -> Any:
        return merged(principal, there)["Loader"]["input"]["required"]["image"][0]

    assert offered(ALICE) == ["mine.png"]
    assert offered(LOCAL) == ["mine.png", "theirs.png"]


def test_every_path_of_comfyui_has_one_name_and_others_keep_theirs() -> None:
    names = {
        b"/api/prompt": b"/prompt",
        b"/editor/api/prompt": b"/prompt",
        b"/editor/ws": b"/ws",
        b"/editor/internal/logs": b"/internal/logs",
        b"/api/v2/userdata": b"/v2/userdata",
        b"/api/api/jobs": b"/api/jobs",
        b"/editor/api/jobs/1": b"/api/jobs/1",
        b"/api/userdata/a%2Fb": b"/userdata/a%2Fb",
    }
    same = (
        b"/api/jobs",
        b"/api/v2/jobs",
        b"/api/v1/tasks",
        b"/api/promptly",
        b"/editor/index.html",
    )
    assert {given: one_name(given) for given in names} == names
    assert [one_name(each) for each in same] == list(same)
